//! The property of a request that decides its endpoint, in the action of a route.
//!
//! `route` calls it for hosts whose DestinationRule hashes.

use envoy_types::pb::envoy::config::route::v3::route_action::{HashPolicy, hash_policy};
use hash_policy::{ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier, QueryParameter};
use prost::Message;
use tributary_model::{HashCookie, HashKey};
use tributary_proto::wire::Writer;

use super::duration;

const HASH_POLICY: u32 = 15;

/// Appends the hash policy to a route's action.
pub(super) fn write(wire: &mut Writer, key: &HashKey) {
    wire.present(HASH_POLICY, policy(key).encode_to_vec());
}

fn policy(key: &HashKey) -> HashPolicy {
    let specifier = match key {
        HashKey::Header(name) => {
            PolicySpecifier::Header(Header { header_name: name.as_ref().into(), ..Header::default() })
        }
        HashKey::Cookie(own) => PolicySpecifier::Cookie(cookie(own)),
        HashKey::SourceIp => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
        HashKey::Query(name) => {
            PolicySpecifier::QueryParameter(QueryParameter { name: name.as_ref().into() })
        }
    };
    HashPolicy { policy_specifier: Some(specifier), ..HashPolicy::default() }
}

fn cookie(own: &HashCookie) -> Cookie {
    let attribute = |(name, value): &(std::sync::Arc<str>, std::sync::Arc<str>)| CookieAttribute {
        name: name.as_ref().into(),
        value: value.as_ref().into(),
    };
    Cookie {
        name: own.name.as_ref().into(),
        ttl: own.ttl.map(duration),
        path: own.path.as_ref().into(),
        attributes: own.attributes.iter().map(attribute).collect(),
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
