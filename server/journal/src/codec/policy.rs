//! Policies on disk: what all kinds have; each kind has a codec of its own.
//!
//! The codec calls it.

use std::sync::Arc;

use tributary_model::{DeclaredPolicy, Policy, PolicyKey, PolicyKind};

use super::common::{Like, put_source, put_timestamp, read_source, read_timestamp};
use super::decode::Decoder;
use super::encode::Encoder;
use super::wire::Fields;
use super::{
    Fault, authorization_policy, destination_rule, envoy_filter, forwarding, peer_authentication,
    request_authentication, sidecar, virtual_service,
};

pub(crate) fn put(enc: &mut Encoder, key: &PolicyKey, value: &DeclaredPolicy) {
    put_source(enc, 1, &value.source, &like(key));
    if let Some(created) = value.created {
        put_timestamp(enc, 2, created);
    }
    enc.nest(3, |enc| match &value.policy {
        Policy::Sidecar(policy) => sidecar::put(enc, policy),
        Policy::DestinationRule(policy) => destination_rule::put(enc, policy),
        Policy::VirtualService(policy) => virtual_service::put(enc, policy),
        Policy::EnvoyFilter(policy) => envoy_filter::put(enc, policy),
        Policy::PeerAuthentication(policy) => peer_authentication::put(enc, policy),
        Policy::AuthorizationPolicy(policy) => authorization_policy::put(enc, policy),
        Policy::RequestAuthentication(policy) => request_authentication::put(enc, policy),
        Policy::Gateway(policy) => forwarding::put(enc, policy),
    });
}

pub(crate) fn read(
    d: &mut Decoder,
    key: &PolicyKey,
    mut fields: Fields<'_>,
) -> Result<DeclaredPolicy, Fault> {
    let (mut source, mut created, mut policy) = (None, None, None);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => source = Some(read_source(d, value, &like(key))?),
            2 => created = Some(read_timestamp(value)?),
            3 => {
                policy = Some(match key.kind {
                    PolicyKind::Sidecar => Policy::Sidecar(sidecar::read(d, value.fields()?)?),
                    PolicyKind::DestinationRule => {
                        Policy::DestinationRule(destination_rule::read(d, value.fields()?)?)
                    }
                    PolicyKind::VirtualService => {
                        Policy::VirtualService(virtual_service::read(d, value.fields()?)?)
                    }
                    PolicyKind::EnvoyFilter => Policy::EnvoyFilter(envoy_filter::read(d, value.fields()?)?),
                    PolicyKind::PeerAuthentication => {
                        Policy::PeerAuthentication(peer_authentication::read(d, value.fields()?)?)
                    }
                    PolicyKind::AuthorizationPolicy => {
                        Policy::AuthorizationPolicy(authorization_policy::read(d, value.fields()?)?)
                    }
                    PolicyKind::RequestAuthentication => {
                        Policy::RequestAuthentication(request_authentication::read(d, value.fields()?)?)
                    }
                    PolicyKind::Gateway => Policy::Gateway(forwarding::read(d, value.fields()?)?),
                });
            }
            _ => {}
        }
    }
    Ok(DeclaredPolicy {
        source: source.ok_or(Fault::Missing("source"))?,
        created,
        policy: policy.ok_or(Fault::Missing("policy"))?,
    })
}

/// Returns the object that a policy of this key usually has.
fn like(key: &PolicyKey) -> Like {
    Like {
        kind: key.kind.as_str(),
        namespace: Arc::from(key.namespace.as_str()),
        name: Arc::clone(&key.name),
    }
}
