//! Condition of a service whose clients have shares of places without endpoints, by `distribute` of the mesh.
//!
//! Only where the mesh decides: a rule or a traffic distribution of the service precedes it. A port without any endpoint
//! shows that itself.

use tributary_model::{
    Code, Condition, Distribution, EndpointUse, PortView, Preference, Resolution, ServiceView,
};

use super::{MAX_NAMED, MAX_OBJECTS};
use crate::shares::{Places, places};

/// Returns the condition of a service without endpoints in the places that the mesh gives to clients.
pub(super) fn unshared(view: &ServiceView) -> Option<Condition> {
    let parts: Vec<String> = view.ports.iter().flat_map(missed).collect();
    let shown = parts.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = parts.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "no endpoint is in the localities to which localityLbSetting of the mesh distributes the requests of clients in \
         {shown}{more}"
    );
    let objects = view.declarations.iter().take(MAX_OBJECTS).map(|seen| seen.declaration.source.reference());
    (!parts.is_empty()).then(|| Condition {
        code: Code::MESH_SHARES_UNMATCHED,
        objects: objects.collect(),
        message: message.into(),
    })
}

/// Returns the places of clients whose shares of a port lead to no endpoint, as `PLACE (port PORT)`, those of its subsets
/// included. A share that misses all endpoints is there once.
fn missed(port: &PortView) -> Vec<String> {
    let inputs = &port.endpoints.inputs;
    let policy = inputs.policy_of(None);
    let misses = |labels, share: &&Distribution| places(inputs, labels, share, &mut 0) == Places::Missed;
    let whole: Vec<_> =
        shares(port, policy.map(|policy| &policy.whole)).iter().filter(|share| misses(None, share)).collect();
    let subsets = policy.iter().flat_map(|policy| policy.subsets.iter());
    let of_subset = subsets.flat_map(|(name, labels, order)| {
        let own = shares(port, Some(order)).iter().filter(|share| !whole.contains(share));
        let lost = own.filter(move |share| misses(Some(labels), share));
        lost.map(move |share| format!("{} (port {}, subset {})", share.from, port.number, name.as_str()))
    });
    let of_port = whole.iter().map(|share| format!("{} (port {})", share.from, port.number));
    of_port.chain(of_subset).collect()
}

/// Returns the shares that the mesh sets for endpoints of a port. The only endpoint of an xDS cluster needs none.
fn shares<'p>(port: &'p PortView, order: Option<&'p EndpointUse>) -> &'p [Distribution] {
    let inputs = &port.endpoints.inputs;
    let selects = inputs.resolution == Resolution::ClientSide || inputs.resolution.is_dns();
    let traffic = port.cluster.inputs.attributes.traffic;
    let of = |mesh| Preference::of(order, traffic, mesh);
    match of(inputs.locality.as_deref()) {
        decided @ Preference::Distribute(shares)
            if selects && inputs.resolution != Resolution::DnsLogical && decided != of(None) =>
        {
            shares
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        Address, ByNamespace, ClientDimensions, EndpointPolicy, Locality, LocalityBalancing, ResourceInputs,
        Shared, Subset, Topology, Visibility,
    };

    use super::*;
    use crate::fixtures::*;

    fn mk_in(ip: &str, region: &str, version: &str) -> Address {
        let topology = Topology { locality: Locality::new(region, "a", ""), ..Topology::default() };
        let labels = [("version", version)].into_iter().collect();
        Address { topology: Arc::new(topology), labels, ..mk_address(ip) }
    }

    /// Returns the messages of a service with an endpoint v1 in `eu/a` and v2 in `us/a`, under these shares of the mesh and of
    /// a rule, which has the subset v1.
    fn shown(mesh: &[(&str, &str)], rule: Option<Option<LocalityBalancing>>) -> Vec<String> {
        let share = |(from, to): &(&str, &str)| Distribution {
            from: (*from).into(),
            to: [((*to).into(), 100)].into(),
        };
        let mut inputs = mk_one(vec![mk_in("10.0.0.1", "eu", "v1"), mk_in("10.0.0.2", "us", "v2")]);
        inputs.locality = Some(Arc::new(LocalityBalancing::Distribute(mesh.iter().map(share).collect())));
        inputs.policy = rule.map(|locality| {
            let whole = EndpointUse { locality, ejects: false, mesh_tls: None, passes: false };
            let subset =
                (Subset::new("v1").unwrap(), [("version", "v1")].into_iter().collect(), whole.clone());
            let policy = EndpointPolicy { whole, subsets: [subset].into() };
            Arc::new(ByNamespace::new(Some(Arc::new(policy)), []))
        });
        let mut port = mk_port_view(inputs.clone());
        port.endpoints = Shared::new(ResourceInputs::new(inputs, ClientDimensions::NONE));
        let view = ServiceView::clone(&mk_view("pay.shop", "shop", &[Visibility::Public]));
        let view = ServiceView { ports: [port].into(), ..view };
        unshared(&view).into_iter().map(|one| format!("{} {}", one.code, one.message)).collect()
    }

    #[test]
    fn share_of_the_mesh_in_a_place_without_endpoints_is_named() {
        let lost = "TRB0467 no endpoint is in the localities to which localityLbSetting of the mesh distributes the requests of \
                    clients in ";
        let all = [format!("{lost}us/* (port 80)")];
        assert_eq!(shown(&[("eu/*", "eu/a/*"), ("us/*", "uk/*")], None), all);
        assert_eq!(shown(&[("us/*", "uk/*")], Some(None)), all, "once for all endpoints");
        let subset = format!("{lost}us/* (port 80, subset v1)");
        assert_eq!(shown(&[("us/*", "us/*")], Some(None)), [subset]);
        assert_eq!(shown(&[("us/*", "eu/*")], None), [""; 0]);
        let off = Some(Some(LocalityBalancing::Off));
        assert_eq!(shown(&[("us/*", "uk/*")], off), [""; 0], "a rule decides");
    }
}
