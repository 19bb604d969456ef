//! What the Gateways that select a router make it forward: mesh TLS, by its server name (docs/reference/gateway.md).
//!
//! xds asks for it when a router's labels or the policies change, and keeps the result in the router's class. Its listeners
//! depend on nothing else: services come and go as xDS clusters alone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{
    CaptureMode, Catalog, EgressListener, ForwardingGateway, ForwardingServer, HostImport, HostPattern,
    ImportNamespace, Labels, Namespace, Policy, PolicyKey, PolicyKind, PolicyView, PortNumber,
};

use crate::egress::Egress;
use crate::scope::ClientSidecar;

/// Returns the servers of a router with these labels, one for each port and address, with the hosts of all Gateways that select
/// it; hosts of a Gateway's own namespace name that.
pub(crate) fn servers(catalog: &Catalog, labels: &Labels) -> Vec<ForwardingServer> {
    let mut found: BTreeMap<(PortNumber, Option<IpAddr>), Vec<HostImport>> = BTreeMap::new();
    for (key, _, gateway) in selecting(catalog, labels) {
        for server in &*gateway.servers {
            let hosts = found.entry((server.port, server.bind)).or_default();
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

/// Returns what a router reaches: the services to which it forwards.
pub(crate) fn reach(catalog: &Catalog, namespace: &Namespace, labels: &Labels) -> ClientSidecar {
    let servers = servers(catalog, labels);
    let mut hosts: Vec<HostImport> = servers.iter().flat_map(|server| server.hosts.iter().cloned()).collect();
    if hosts.is_empty() {
        hosts.extend(
            HostPattern::new("*").ok().map(|host| HostImport { namespace: ImportNamespace::None, host }),
        );
    }
    let all = EgressListener { port: None, bind: None, capture: CaptureMode::Default, hosts: hosts.into() };
    let first = selecting(catalog, labels).into_iter().next();
    let none = || PolicyKey { kind: PolicyKind::Gateway, namespace: namespace.clone(), name: "".into() };
    ClientSidecar {
        key: first.map_or_else(none, |(key, ..)| key.clone()),
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
fn selecting<'c>(
    catalog: &'c Catalog,
    labels: &Labels,
) -> Vec<(&'c PolicyKey, &'c PolicyView, &'c ForwardingGateway)> {
    let kind = PolicyKind::Gateway;
    let all = catalog
        .policies
        .iter()
        .skip_while(|(key, _)| key.kind < kind)
        .take_while(|(key, _)| key.kind == kind);
    let mut found: Vec<_> = all
        .filter_map(|(key, view)| match view.policy() {
            Policy::Gateway(gateway) => Some((key, &**view, gateway)),
            _ => None,
        })
        .filter(|(.., gateway)| gateway.selector.is_subset_of(labels))
        .collect();
    found.sort_by(|(_, a, _), (_, b, _)| a.precedence_key().order(&b.precedence_key()));
    found
}
