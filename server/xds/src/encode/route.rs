//! `RouteConfiguration`: virtual hosts, and the table around them.
//!
//! A port's table is a composite: each virtual host is encoded once and shared, and the table is their
//! concatenation. So the table's own fields and its virtual hosts are written separately.

use std::borrow::Cow;

use tributary_answer::{ClusterName, Routes, VirtualHostPlan, names};
use tributary_model::{HashKey, Protocol};
use tributary_proto::wire::{Writer, field_len};

use super::hash;
use super::http_route::{self, Dialect};
use super::retries::Retries;
use super::route_action::MOST_BODY;

const NAME: u32 = 1;
const VIRTUAL_HOSTS: u32 = 2;

/// Handling of traffic for hosts that match no service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Unclaimed {
    /// Passes it on to its original destination.
    Pass,
    /// Blocks it.
    Block,
    /// Sends it to this xDS cluster.
    To(ClusterName),
}

impl Unclaimed {
    /// Returns the xDS cluster that connections go to.
    #[must_use]
    pub fn cluster(&self) -> Cow<'static, str> {
        match self {
            Self::Pass => names::PASSTHROUGH.into(),
            Self::Block => names::BLACK_HOLE.into(),
            Self::To(cluster) => cluster.to_string().into(),
        }
    }
}

/// Encodes one virtual host of a port's table.
#[must_use]
pub fn virtual_host(plan: &VirtualHostPlan) -> Vec<u8> {
    let mut wire = Writer::with_capacity(512);
    write_host(&mut wire, plan, Dialect::Envoy, outbound(plan));
    wire.finish()
}

/// Encodes the virtual host of a workload's own port.
#[must_use]
pub fn inbound_host(plan: &VirtualHostPlan, protocol: Protocol) -> Vec<u8> {
    let mut wire = Writer::with_capacity(256);
    write_host(&mut wire, plan, Dialect::Envoy, Retries::inbound(protocol));
    wire.finish()
}

/// Encodes the fields of a port's table before its virtual hosts.
#[must_use]
pub fn table_head(name: &str) -> Vec<u8> {
    let mut wire = Writer::new();
    wire.string(NAME, name);
    wire.finish()
}

/// Appends a virtual host as a field of a table.
pub fn append_host(out: &mut Vec<u8>, body: &[u8]) {
    Writer::to(out).present(VIRTUAL_HOSTS, body);
}

/// Returns the number of bytes that [`append_host`] appends.
#[must_use]
pub fn host_len(body: usize) -> usize {
    field_len(body)
}

/// Encodes the fields of a port's table after its virtual hosts, with the catch-all host.
#[must_use]
pub fn table_tail(unclaimed: &Unclaimed) -> Vec<u8> {
    let mut wire = Writer::new();
    wire.message(VIRTUAL_HOSTS, |w| catch_all(w, unclaimed));
    // xDS clusters arrive in a separate response of the same round; routes need not wait for them.
    wire.message(7, |_| ());
    // Envoy's own limit for the bodies of answers is 4 KiB.
    wire.wrapped(11, u32::try_from(MOST_BODY).unwrap_or(u32::MAX));
    // `pay.shop:80` means the same as `pay.shop`.
    wire.number(14, 1);
    wire.finish()
}

/// Encodes the table of a port without services.
#[must_use]
pub fn empty_table(name: &str, unclaimed: &Unclaimed) -> Vec<u8> {
    let mut out = table_head(name);
    out.extend_from_slice(&table_tail(unclaimed));
    out
}

/// Encodes the whole table of a gRPC client's target.
#[must_use]
pub fn grpc_table(name: &str, plan: &VirtualHostPlan) -> Vec<u8> {
    let mut wire = Writer::with_capacity(256);
    wire.string(NAME, name);
    wire.message(VIRTUAL_HOSTS, |w| write_host(w, plan, Dialect::Grpc, outbound(plan)));
    wire.finish()
}

fn outbound(plan: &VirtualHostPlan) -> Retries<'_> {
    Retries::Outbound(plan.retries.as_deref())
}

fn write_host(wire: &mut Writer, plan: &VirtualHostPlan, dialect: Dialect, retries: Retries<'_>) {
    wire.string(1, &plan.name);
    for domain in plan.claims() {
        wire.string(2, domain);
    }
    match &plan.routes {
        Routes::Of(routes) => {
            for route in routes.iter() {
                wire.message(3, |w| http_route::write(w, route, plan.rule.as_ref(), dialect));
            }
        }
        Routes::Default => wire.message(3, |w| {
            w.message(1, |w| w.present(1, dialect.any_path()));
            w.message(2, |w| to_cluster(w, &plan.cluster, retries, plan.hash.as_deref()));
            w.string(14, "default");
        }),
    }
}

fn catch_all(wire: &mut Writer, unclaimed: &Unclaimed) {
    let name = if *unclaimed == Unclaimed::Block { "block_all" } else { "allow_any" };
    wire.string(1, name);
    wire.string(2, "*");
    wire.message(3, |w| {
        w.message(1, |w| w.present(1, "/"));
        match unclaimed {
            Unclaimed::Block => w.message(7, |w| w.number(1, 502)),
            Unclaimed::Pass | Unclaimed::To(_) => {
                w.message(2, |w| to_cluster(w, &unclaimed.cluster(), Retries::None, None));
            }
        }
        w.string(14, name);
    });
}

/// Encodes a route without a timeout: request timeouts are not part of discovery.
fn to_cluster(wire: &mut Writer, cluster: &str, retries: Retries<'_>, hash: Option<&HashKey>) {
    wire.string(1, cluster);
    wire.message(8, |_| ());
    retries.write(wire, 9);
    if let Some(key) = hash {
        hash::write(wire, key);
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3 as pb;
    use pb::route::Action;
    use pb::route_match::PathSpecifier;
    use prost::Message;
    use tributary_model::HttpRetries;

    use super::*;

    fn mk_plan(domains: &[&str]) -> VirtualHostPlan {
        VirtualHostPlan {
            name: "pay.shop:80".into(),
            domains: domains.iter().map(|&d| d.into()).collect(),
            addresses: Vec::new(),
            cluster: "outbound|80||pay.shop".into(),
            dynamic: false,
            retries: None,
            hash: None,
            routes: Routes::Default,
            rule: None,
        }
    }
    fn cluster_of(route: &pb::Route) -> (&str, Option<i64>) {
        let Some(Action::Route(action)) = &route.action else { panic!("{route:?} routes nowhere") };
        let Some(pb::route_action::ClusterSpecifier::Cluster(name)) = &action.cluster_specifier else {
            panic!("{action:?} names no cluster")
        };
        (name, action.timeout.map(|t| t.seconds))
    }
    fn attempts_of(route: &pb::Route) -> Option<u32> {
        let Some(Action::Route(action)) = &route.action else { panic!("{route:?} routes nowhere") };
        action.retry_policy.as_ref().and_then(|policy| policy.num_retries).map(|number| number.value)
    }
    fn prefix_of(route: &pb::Route) -> Option<&PathSpecifier> {
        route.r#match.as_ref()?.path_specifier.as_ref()
    }

    #[test]
    fn table_is_the_concatenation_of_its_parts() {
        let body = virtual_host(&mk_plan(&["pay.shop", "10.0.0.1"]));
        let mut table = table_head("80");
        append_host(&mut table, &body);
        assert_eq!(table.len(), table_head("80").len() + host_len(body.len()));
        table.extend(table_tail(&Unclaimed::Pass));
        let table = pb::RouteConfiguration::decode(&table[..]).unwrap();
        assert_eq!((table.name.as_str(), table.ignore_port_in_host_matching), ("80", true));
        assert_eq!(table.validate_clusters.map(|v| v.value), Some(false));
        let [host, rest] = &table.virtual_hosts[..] else { panic!("{:?}", table.virtual_hosts) };
        assert_eq!(
            (host.name.as_str(), &host.domains[..]),
            ("pay.shop:80", &["pay.shop", "10.0.0.1"].map(String::from)[..])
        );
        assert_eq!(cluster_of(&host.routes[0]), ("outbound|80||pay.shop", Some(0)));
        assert_eq!(prefix_of(&host.routes[0]), Some(&PathSpecifier::Prefix("/".into())));
        assert_eq!(attempts_of(&host.routes[0]), Some(2));
        assert_eq!(attempts_of(&rest.routes[0]), None, "a stranger's requests are its own");
        assert_eq!(
            (&rest.domains[..], cluster_of(&rest.routes[0]).0),
            (&["*".to_owned()][..], "PassthroughCluster")
        );
    }

    #[test]
    fn each_client_has_the_retries_of_the_plan() {
        let retries = HttpRetries { attempts: 7, ..HttpRetries::default() };
        let plan = VirtualHostPlan { retries: Some(retries.into()), ..mk_plan(&["*"]) };
        let host = pb::VirtualHost::decode(&virtual_host(&plan)[..]).unwrap();
        let inbound = pb::VirtualHost::decode(&inbound_host(&plan, Protocol::Http)[..]).unwrap();
        let grpc = pb::RouteConfiguration::decode(&grpc_table("t", &plan)[..]).unwrap();
        assert_eq!(
            [&host, &inbound, &grpc.virtual_hosts[0]].map(|host| attempts_of(&host.routes[0])),
            [Some(7), Some(2), Some(7)]
        );
    }

    #[test]
    fn unmatched_traffic_can_be_blocked() {
        let table = pb::RouteConfiguration::decode(&empty_table("80", &Unclaimed::Block)[..]).unwrap();
        let Some(Action::DirectResponse(answer)) = &table.virtual_hosts[0].routes[0].action else { panic!() };
        assert_eq!((answer.status, table.virtual_hosts.len()), (502, 1));
    }

    #[test]
    fn unmatched_traffic_can_go_to_a_service() {
        let proxy = Unclaimed::To("outbound|8080||out.shop".parse().unwrap());
        let table = pb::RouteConfiguration::decode(&empty_table("80", &proxy)[..]).unwrap();
        let [host] = &table.virtual_hosts[..] else { panic!("{:?}", table.virtual_hosts) };
        assert_eq!((host.name.as_str(), &host.domains[..]), ("allow_any", &["*".to_owned()][..]));
        assert_eq!(cluster_of(&host.routes[0]), ("outbound|8080||out.shop", Some(0)));
        assert_eq!(attempts_of(&host.routes[0]), None, "a stranger's requests are its own");
    }

    #[test]
    fn grpc_matches_by_an_empty_prefix_that_is_present() {
        let name = "outbound|80||pay.shop";
        let table =
            pb::RouteConfiguration::decode(&grpc_table(name, &mk_plan(&["pay.shop:80"]))[..]).unwrap();
        assert_eq!((table.name.as_str(), table.virtual_hosts.len()), (name, 1));
        let route = &table.virtual_hosts[0].routes[0];
        assert_eq!(prefix_of(route), Some(&PathSpecifier::Prefix(String::new())));
        assert_eq!(cluster_of(route).0, name);
        assert_eq!(attempts_of(route), Some(2));
    }
}
