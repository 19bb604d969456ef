//! Condition of a service whose clients have shares of places without endpoints, by `distribute` of the mesh.
//!
//! Only where the mesh decides: a rule or a traffic distribution of the service precedes it. A port without any endpoint
//! shows that itself.

use tributary_model::{
    Code, Condition, Distribution, EndpointInputs, PortView, Preference, Resolution, ServiceView,
};

use super::{MAX_NAMED, MAX_OBJECTS};

/// Returns the condition of a service without endpoints in the places that the mesh gives to clients.
pub(super) fn unshared(view: &ServiceView) -> Option<Condition> {
    let parts: Vec<String> = view.ports.iter().flat_map(places).collect();
    let shown = parts.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = parts.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!(
        "by localityLbSetting of the mesh, no endpoint is in a place that the clients in these places have a share of: \
         {shown}{more}"
    );
    let objects = view.declarations.iter().take(MAX_OBJECTS).map(|seen| seen.declaration.source.reference());
    (!parts.is_empty()).then(|| Condition {
        code: Code::MESH_SHARES_UNMATCHED,
        objects: objects.collect(),
        message: message.into(),
    })
}

/// Returns the places of clients whose shares of a port lead to no endpoint, as `PLACE (port PORT)`.
fn places(port: &PortView) -> Vec<String> {
    let inputs = &port.endpoints.inputs;
    let lost = shares(port).iter().filter(|share| !has_place(inputs, share));
    lost.map(|share| format!("{} (port {})", share.from, port.number)).collect()
}

/// Returns the shares of a port that the mesh sets. The only endpoint of an xDS cluster needs none.
fn shares(port: &PortView) -> &[Distribution] {
    let inputs = &port.endpoints.inputs;
    let selects = inputs.resolution == Resolution::ClientSide || inputs.resolution.is_dns();
    let has_any = inputs.sources.iter().any(|source| !source.group.addresses.is_empty());
    let order = inputs.policy_of(None).map(|policy| &policy.whole);
    let traffic = port.cluster.inputs.attributes.traffic;
    let of = |mesh| Preference::of(order, traffic, mesh);
    match of(inputs.locality.as_deref()) {
        decided @ Preference::Distribute(shares)
            if selects && has_any && inputs.resolution != Resolution::DnsLogical && decided != of(None) =>
        {
            shares
        }
        _ => &[],
    }
}

fn has_place(inputs: &EndpointInputs, share: &Distribution) -> bool {
    let addresses = inputs.sources.iter().flat_map(|source| source.group.addresses.iter());
    let mut localities = addresses.map(|address| &address.topology.locality);
    localities.any(|locality| share.to.iter().any(|(place, _)| locality.matches(place)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tributary_model::{
        EndpointOrder, EndpointPolicy, Locality, LocalityBalancing, ResourceInputs, Shared, Topology,
        Visibility,
    };

    use super::*;
    use crate::fixtures::*;

    /// Returns the messages of a service with an endpoint in `eu/a`, under these shares of the mesh and of a rule.
    fn shown(mesh: &[(&str, &str)], rule: Option<LocalityBalancing>) -> Vec<String> {
        let topology = Topology { locality: Locality::new("eu", "a", ""), ..Topology::default() };
        let address = tributary_model::Address { topology: Arc::new(topology), ..mk_address("10.0.0.1") };
        let share = |(from, to): &(&str, &str)| Distribution {
            from: (*from).into(),
            to: [((*to).into(), 100)].into(),
        };
        let mut inputs = mk_one(vec![address]);
        inputs.locality = Some(Arc::new(LocalityBalancing::Distribute(mesh.iter().map(share).collect())));
        inputs.policy = rule.map(|locality| {
            let whole = EndpointOrder { locality: Some(locality), ejects: false };
            let policy = EndpointPolicy { whole, subsets: Arc::default() };
            Arc::new(tributary_model::ByNamespace::new(Some(Arc::new(policy)), []))
        });
        let mut port = mk_port_view(inputs.clone());
        port.endpoints = Shared::new(ResourceInputs::new(inputs, tributary_model::ClientDimensions::NONE));
        let view = ServiceView::clone(&mk_view("pay.shop", "shop", &[Visibility::Public]));
        let view = ServiceView { ports: [port].into(), ..view };
        unshared(&view).into_iter().map(|one| format!("{} {}", one.code, one.message)).collect()
    }

    #[test]
    fn share_of_the_mesh_in_a_place_without_endpoints_is_named() {
        let lost = "TRB0467 by localityLbSetting of the mesh, no endpoint is in a place that the clients in these places have \
                    a share of: us/* (port 80)";
        assert_eq!(shown(&[("eu/*", "eu/a/*"), ("us/*", "uk/*")], None), [lost]);
        assert_eq!(shown(&[("us/*", "eu/*")], None), [""; 0]);
        let off = Some(LocalityBalancing::Off);
        assert_eq!(shown(&[("us/*", "uk/*")], off), [""; 0], "a rule decides");
    }
}
