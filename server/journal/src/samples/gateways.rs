//! Random gateways and addresses of their host names.

use super::*;

/// Any gateway.
pub(super) fn gateway() -> BoxedStrategy<Fact> {
    let address =
        prop_oneof![any::<IpAddr>().prop_map(GatewayAddress::Ip), text().prop_map(GatewayAddress::Name)];
    (network(), cluster(), source(), 0u16..4, of(address), of(port()), of(port()))
        .prop_map(|(network, cluster, source, index, address, mtls_port, hbone_port)| {
            let key = GatewayKey { network, cluster, object: source.object.clone(), index };
            Fact::Gateway(key, Arc::new(Gateway { source, address, mtls_port, hbone_port }))
        })
        .boxed()
}
/// Any host name with addresses.
pub(super) fn gateway_name() -> BoxedStrategy<Fact> {
    (text(), vec(any::<IpAddr>(), 0..4), of((mono(), text())))
        .prop_map(|(name, addresses, failure)| {
            let failure = failure.map(|(since, reason)| NameFailure { since, reason });
            Fact::GatewayName(name, Arc::new(ResolvedName { failure, ..ResolvedName::new(addresses) }))
        })
        .boxed()
}
