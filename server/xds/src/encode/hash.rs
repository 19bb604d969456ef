//! The property of a request that decides its endpoint, in the action of a route.
//!
//! `route` and `route_action` call it for destinations whose DestinationRule hashes.

use envoy_types::pb::envoy::config::route::v3::route_action::{HashPolicy, hash_policy};
use hash_policy::{ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier, QueryParameter};
use prost::Message;
use tributary_model::{HashCookie, HashKey};
use tributary_proto::wire::Writer;

use super::duration;
use super::header_changes::{is_name, is_value};

const HASH_POLICY: u32 = 15;

/// Appends the hash policy to a route's action. Envoy refuses the whole table for an empty name or one with a line break,
/// so such a key has no policy.
pub(super) fn write(wire: &mut Writer, key: &HashKey) {
    if let Some(policy_specifier) = specifier(key) {
        let policy = HashPolicy { policy_specifier: Some(policy_specifier), ..HashPolicy::default() };
        wire.present(HASH_POLICY, policy.encode_to_vec());
    }
}

fn specifier(key: &HashKey) -> Option<PolicySpecifier> {
    match key {
        HashKey::Header(name) => named(name)
            .map(|header_name| PolicySpecifier::Header(Header { header_name, ..Header::default() })),
        HashKey::Cookie(own) => named(&own.name).map(|name| PolicySpecifier::Cookie(cookie(name, own))),
        HashKey::SourceIp => {
            Some(PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }))
        }
        HashKey::Query(name) => {
            named(name).map(|name| PolicySpecifier::QueryParameter(QueryParameter { name }))
        }
    }
}

fn named(name: &str) -> Option<String> {
    is_name(name).then(|| name.into())
}

fn cookie(name: String, own: &HashCookie) -> Cookie {
    let valid = own.attributes.iter().filter(|(name, value)| is_name(name) && is_value(value));
    let attributes = valid
        .map(|(name, value)| CookieAttribute { name: name.as_ref().into(), value: value.as_ref().into() });
    Cookie {
        name,
        ttl: own.ttl.map(duration),
        path: own.path.as_ref().into(),
        attributes: attributes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use envoy_types::pb::envoy::config::route::v3::RouteAction;

    use super::*;

    fn decoded(key: &HashKey) -> PolicySpecifier {
        let mut wire = Writer::new();
        write(&mut wire, key);
        let action = RouteAction::decode(&wire.finish()[..]).unwrap();
        action.hash_policy.into_iter().next().unwrap().policy_specifier.unwrap()
    }

    #[test]
    fn key_becomes_the_hash_policy_of_a_route() {
        let cookie = HashCookie {
            name: "user".into(),
            path: "/a".into(),
            ttl: Some(Duration::ZERO),
            attributes: [("SameSite".into(), "Lax".into())].into(),
        };
        let PolicySpecifier::Cookie(cookie) = decoded(&HashKey::Cookie(cookie)) else { panic!() };
        assert_eq!((&*cookie.name, &*cookie.path, &*cookie.attributes[0].value), ("user", "/a", "Lax"));
        assert_eq!(cookie.ttl, Some(duration(Duration::ZERO)), "a session is a lifetime of 0");
        let PolicySpecifier::Header(header) = decoded(&HashKey::Header("x-user".into())) else { panic!() };
        assert_eq!(header.header_name, "x-user");
        let PolicySpecifier::QueryParameter(query) = decoded(&HashKey::Query("user".into())) else {
            panic!()
        };
        assert_eq!(query.name, "user");
        let PolicySpecifier::ConnectionProperties(source) = decoded(&HashKey::SourceIp) else { panic!() };
        assert!(source.source_ip);
    }
}
