//! What the Gateways that select a router make it forward: mesh TLS, by its server name (docs/reference/gateway.md).
//!
//! xds asks for it when a router's labels or the policies change, and keeps the result in the router's class. Its listeners
//! depend on nothing else: services come and go as xDS clusters alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    CaptureMode, Catalog, ClientDimensions, EgressListener, ForwardingGateway, ForwardingServer, HostImport,
    HostPattern, Hostname, ImportNamespace, Labels, Namespace, Policy, PolicyKey, PolicyKind, PolicyView,
    PortNumber,
};

use crate::client::ClientClass;
use crate::egress::Egress;
use crate::listener::listener_name;
use crate::policies::everywhere;
use crate::scope::ClientSidecar;
use crate::vip::{ListenAddress, any_address};

/// Joins the servers of the Gateways that select a router: one for each port and address, with the hosts of all; hosts of a
/// Gateway's own namespace name that. An unspecified address is that of a server without one.
fn servers(gateways: &[(&PolicyKey, &ForwardingGateway)]) -> Vec<ForwardingServer> {
    let mut found: BTreeMap<(PortNumber, Option<IpAddr>), Vec<HostImport>> = BTreeMap::new();
    for (key, gateway) in gateways {
        for server in &*gateway.servers {
            let bind = server.bind.filter(|ip| !ip.is_unspecified());
            let hosts = found.entry((server.port, bind)).or_default();
            for host in server.hosts.iter().map(|host| named(host, &key.namespace)) {
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
        }
    }
    let server =
        |((port, bind), hosts): (_, Vec<HostImport>)| ForwardingServer { port, bind, hosts: hosts.into() };
    found.into_iter().map(server).collect()
}

/// Returns the servers for which a router has listeners, with their addresses: those at an address of its IP families and at a port
/// that its proxy may open.
pub fn forwarding_listeners(class: &ClientClass) -> impl Iterator<Item = (ListenAddress, &ForwardingServer)> {
    let servers = class.sidecar.as_deref().and_then(|of| of.servers.as_deref()).unwrap_or_default();
    let (v4, v6) = class.families;
    let is_used = move |ip: &IpAddr| if ip.is_ipv4() { v4 } else { v6 };
    let any = any_address(&class.project(ClientDimensions::FAMILIES));
    servers.iter().filter_map(move |server| {
        let bind = match server.bind {
            None => any,
            Some(ip) => ListenAddress::only(Some(ip).filter(is_used)?),
        };
        let is_open = class.closed.reason(bind.ip, server.port.get(), true).is_none();
        is_open.then_some((bind, server))
    })
}

/// Returns the names of the listeners at which a router takes the server names of a host.
#[must_use]
pub fn forwarding_to(host: &Hostname, class: &ClientClass) -> Vec<String> {
    let takes = |server: &ForwardingServer| server.hosts.iter().any(|import| import.host.matches(host));
    let all = forwarding_listeners(class).filter(|(_, server)| takes(server));
    all.map(|(bind, server)| listener_name(bind.ip, server.port.get())).collect()
}

/// Returns what a router reaches: the services to which it forwards.
pub(crate) fn reach(catalog: &Catalog, namespace: &Namespace, labels: &Labels) -> ClientSidecar {
    let gateways = selecting(catalog, labels);
    let servers = servers(&gateways);
    let mut hosts: Vec<HostImport> = servers.iter().flat_map(|server| server.hosts.iter().cloned()).collect();
    if hosts.is_empty() {
        hosts.extend(
            HostPattern::new("*").ok().map(|host| HostImport { namespace: ImportNamespace::None, host }),
        );
    }
    let all = EgressListener { port: None, bind: None, capture: CaptureMode::Default, hosts: hosts.into() };
    let none = || PolicyKey { kind: PolicyKind::Gateway, namespace: namespace.clone(), name: "".into() };
    ClientSidecar {
        key: gateways.first().map_or_else(none, |(key, _)| (*key).clone()),
        egress: Egress::new(&Arc::from([all])),
        outbound: None,
        ingress: Arc::from([]),
        servers: Some(servers.into()),
    }
}

fn named(import: &HostImport, own: &Namespace) -> HostImport {
    match import.namespace {
        ImportNamespace::Own => {
            HostImport { namespace: ImportNamespace::Named(own.clone()), host: import.host.clone() }
        }
        _ => import.clone(),
    }
}

/// Returns the Gateways that select a router, of every namespace, the first in precedence first.
fn selecting<'c>(catalog: &'c Catalog, labels: &Labels) -> Vec<(&'c PolicyKey, &'c ForwardingGateway)> {
    let gateway = |(key, view): (&'c PolicyKey, &'c PolicyView)| match view.policy() {
        Policy::Gateway(gateway) => Some((key, gateway)),
        _ => None,
    };
    let all = everywhere(catalog, PolicyKind::Gateway).into_iter().filter_map(gateway);
    all.filter(|(_, gateway)| gateway.selector.is_subset_of(labels)).collect()
}

#[cfg(test)]
mod tests {
    use tributary_fixtures::{mk_policy, mk_topology};
    use tributary_model::{
        ClientDimensions, ClientKind, EndpointInputs, NetworkId, Resolution, ResourceInputs, Shared,
        Visibility,
    };

    use super::*;
    use crate::client::{Client, ClientClass};
    use crate::fixtures::*;
    use crate::selected::SelectedPolicies;
    use crate::{cluster, endpoints_of, key, members};

    fn mk_server(port: u32, hosts: &[&str]) -> ForwardingServer {
        let import = |text: &&str| {
            let (namespace, host) = text.split_once('/').unwrap_or(("*", text));
            let namespace = match namespace {
                "*" => ImportNamespace::Any,
                "." => ImportNamespace::Own,
                named => ImportNamespace::Named(mk_ns(named)),
            };
            HostImport { namespace, host: HostPattern::new(host).unwrap() }
        };
        ForwardingServer { port: mk_port(port), bind: None, hosts: hosts.iter().map(import).collect() }
    }
    fn mk_gateway(
        namespace: &str,
        name: &str,
        label: &str,
        servers: Vec<ForwardingServer>,
    ) -> (PolicyKey, Shared<PolicyView>) {
        let selector = [("gateway", label)].into_iter().filter(|(_, label)| !label.is_empty()).collect();
        let gateway = ForwardingGateway { selector, servers: servers.into(), ..ForwardingGateway::default() };
        mk_policy(namespace, name, Policy::Gateway(gateway))
    }

    fn shown(catalog: &Catalog, label: &str) -> Vec<String> {
        let labels = [("gateway", label)].into_iter().collect();
        let server = |one: &ForwardingServer| {
            let hosts: Vec<String> = one.hosts.iter().map(ToString::to_string).collect();
            format!("{} {}", one.port, hosts.join(" "))
        };
        servers(&selecting(catalog, &labels)).iter().map(server).collect()
    }

    #[test]
    fn gateways_of_every_namespace_join_their_servers() {
        let policies = [
            mk_gateway("istio-system", "a", "one", vec![mk_server(15_443, &["*.local", "*.test"])]),
            mk_gateway(
                "shop",
                "b",
                "",
                vec![mk_server(15_443, &["./pay.test", "*.test"]), mk_server(9_443, &["*"])],
            ),
            mk_gateway("shop", "c", "two", vec![mk_server(7_443, &["*"])]),
        ];
        let catalog = Catalog { policies: policies.into_iter().collect(), ..Catalog::default() };
        assert_eq!(shown(&catalog, "one"), ["9443 */*", "15443 */*.local */*.test shop/pay.test"]);
        assert_eq!(shown(&catalog, "two"), ["7443 */*", "9443 */*", "15443 shop/pay.test */*.test"]);
        assert_eq!(shown(&Catalog::default(), "one"), [""; 0]);
    }

    #[test]
    fn listeners_are_at_addresses_and_ports_that_the_router_may_open() {
        let at = |port: u32, bind: &str| ForwardingServer {
            bind: bind.parse().ok(),
            ..mk_server(port, &["*.test"])
        };
        let servers = vec![
            at(15_443, ""),
            at(15_443, "0.0.0.0"),
            at(9_443, "::"),
            at(7_443, "10.0.0.1"),
            at(7_443, "fd00::1"),
            at(15_021, ""),
            at(443, "10.0.0.1"),
        ];
        let gateway = mk_gateway("istio-system", "a", "one", servers);
        let catalog = Catalog { policies: [gateway].into_iter().collect(), ..Catalog::default() };
        let closed = tributary_model::ClosedPorts { privileged: true, status: true, metrics: true };
        let named = |families, closed| {
            let class = ClientClass { families, closed, ..router(&catalog).class };
            (forwarding_to(&mk_host("pay.test"), &class), forwarding_to(&mk_host("pay.shop"), &class))
        };
        let four = ["7443", "9443", "15443"]
            .map(|port| if port == "7443" { "10.0.0.1_7443".into() } else { format!("0.0.0.0_{port}") });
        assert_eq!(
            named((true, false), closed),
            (four.into(), vec![]),
            "one listener, whatever any address is written as"
        );
        let (all, none) = named((true, true), tributary_model::ClosedPorts::default());
        assert_eq!((all.len(), none.len()), (6, 0), "{all:?}");
        assert_eq!(named((false, true), closed).0, ["fd00::1_7443", "::_9443", "::_15443"]);
    }

    fn router(catalog: &Catalog) -> Client {
        let (kind, namespace) = (ClientKind::Router, mk_ns("istio-system"));
        let labels = [("gateway", "one")].into_iter().collect();
        let selected = SelectedPolicies::after(None, catalog, kind, Some(&namespace), &labels);
        let class = ClientClass {
            namespace: Some(namespace),
            sidecar: selected.sidecar,
            network: NetworkId::new("far").ok(),
            ..ClientClass::new(kind)
        };
        Client { class, ..Client::new("r", kind) }
    }
    fn reached(catalog: &Catalog) -> Vec<String> {
        let client = router(catalog);
        members(catalog, client.class.scope()).map(|(host, _)| host.to_string()).collect()
    }

    #[test]
    fn router_reaches_the_hosts_of_its_gateways_that_are_exported_to_it() {
        let all = [
            mk_view("pay.test", "shop", &[Visibility::Public]),
            mk_view("own.test", "shop", &[Visibility::Own]),
            mk_view("other.example", "shop", &[Visibility::Public]),
        ];
        let with = |hosts: &[&str]| {
            let gateway = mk_gateway("istio-system", "a", "one", vec![mk_server(15_443, hosts)]);
            Catalog { policies: [gateway].into_iter().collect(), ..mk_catalog(all.to_vec()) }
        };
        assert_eq!(reached(&with(&["*.test"])), ["pay.test"]);
        assert_eq!(reached(&with(&["*"])), ["other.example", "pay.test"]);
        assert_eq!(reached(&with(&["web/*"])), [""; 0]);
        assert_eq!(reached(&mk_catalog(all.to_vec())), [""; 0], "no Gateway selects it");
    }

    #[test]
    fn router_passes_mesh_tls_on_to_endpoints_of_its_network() {
        let address = |ip: &str, network: &str, mtls: bool| {
            let mut address = mk_address_at(ip, mk_topology(network, "", ""));
            address.mtls = mtls;
            address
        };
        let all = [("10.0.0.1", "far", true), ("10.0.0.2", "far", false), ("10.0.0.3", "near", true)];
        let facts = mk_one(all.into_iter().map(|(ip, network, mtls)| address(ip, network, mtls)).collect());
        let facts = EndpointInputs { gated: mk_gated(&[("near", &[("", "10.1.0.1")])]), ..facts };
        let node = ResourceInputs::new(facts, ClientDimensions::KIND | ClientDimensions::NETWORK);
        let client = router(&Catalog::default());
        let found = endpoints_of(&node.inputs, None, &key(&node, &client.class), &mut ()).unwrap();
        let sent: Vec<String> = found.endpoints().map(|endpoint| endpoint.target.to_string()).collect();
        assert_eq!(sent, ["10.0.0.1:8080"], "another accepts plain text alone, or is behind gateways");
    }

    #[test]
    fn xds_clusters_of_a_router_have_server_names_as_names() {
        let named = |resolution: Resolution| {
            let facts = mk_cluster(resolution, None);
            let found = cluster(&facts, None, &mk_projection(ClientKind::Router), &mut ())?;
            assert_eq!(found.discovery, crate::Discovery::Eds);
            Some(found.name.to_string())
        };
        let name = || Some("outbound_.80_._.pay.shop".to_owned());
        assert_eq!((named(Resolution::ClientSide), named(Resolution::Passthrough)), (name(), name()));
        assert_eq!((named(Resolution::DnsStrict), named(Resolution::Dynamic)), (None, None));
    }
}
