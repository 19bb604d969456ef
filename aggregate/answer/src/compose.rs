//! Resources made of many services: a port's listeners and its route table.
//!
//! Names within them may be claimed by several services. All claimants are kept in order of
//! precedence; the first serves, the rest are conditions, and step in when it goes (law 11), unless
//! they are the first under another of its hosts. The outcome does not depend on the order in which
//! the parts come.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::{Code, Condition, Hostname, ObjectRef, PortView, ServiceKey, ServiceView};

use crate::listener::{ListenerPlan, Match, Serves, listener_name};
use crate::route::VirtualHostPlan;

/// The order of services of different hosts: their first declarations', then the services' own.
#[must_use]
pub fn precedence(a: &ServiceView, b: &ServiceView) -> Ordering {
    let by_claim = match (a.first(), b.first()) {
        (Some(a), Some(b)) => a.precedence_key().order(&b.precedence_key()),
        // A view without declarations is built by no core; it has nothing to claim with.
        (first, second) => second.is_some().cmp(&first.is_some()),
    };
    by_claim.then_with(|| a.key.cmp(&b.key))
}

/// A name that several services claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// What is contested: an address, a domain or a listener.
    pub code: Code,
    /// The contested name.
    pub name: String,
    /// The claimants, the one that serves first.
    pub claimants: Vec<ServiceKey>,
    /// Their first declarations' objects, in the same order.
    pub objects: Vec<ObjectRef>,
}

impl Conflict {
    fn new(code: Code, name: String, claimants: &[&ServiceView]) -> Self {
        let objects = claimants.iter().filter_map(|v| v.first());
        Self {
            code,
            name,
            claimants: claimants.iter().map(|v| v.key.clone()).collect(),
            objects: objects.map(|d| d.declaration.source.reference()).collect(),
        }
    }
    /// It as a condition of each of its claimants.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let mut names = self.claimants.iter().map(ServiceKey::to_string);
        let first = names.next().unwrap_or_default();
        let rest: Vec<String> = names.collect();
        let message = format!("{} is served by {first}; {} also claim it", self.name, rest.join(", "));
        Condition { code: self.code, objects: self.objects.clone().into(), message: message.into() }
    }
}

/// Whether two services are one object's word under two hosts (of a Consul service: the short one and the one with
/// its datacenter) and lead to the same endpoints: then it is all one which of them serves a name. Of hosts without
/// endpoints each may lead to wherever it resolves to.
fn same_place(a: &ServiceView, b: &ServiceView) -> bool {
    let (Some(first), Some(other)) = (a.first(), b.first()) else { return false };
    let same_port = |(a, b): (&PortView, &PortView)| {
        let (a_sources, b_sources) = (&a.endpoints.inputs.sources, &b.endpoints.inputs.sources);
        a.number == b.number && !a_sources.is_empty() && a_sources == b_sources
    };
    first.shard == other.shard
        && first.declaration.source.object == other.declaration.source.object
        && !a.ports.is_empty()
        && a.ports.len() == b.ports.len()
        && a.ports.iter().zip(b.ports.iter()).all(same_port)
}

/// Whether the second is an alias that has its addresses from the first, a member of it: by address the member is asked
/// for, as that would be without the alias.
fn lends(member: &ServiceView, alias: &ServiceView) -> bool {
    let (Some(first), Some(other)) = (member.first(), alias.first()) else { return false };
    let same =
        first.shard == other.shard && first.declaration.source.object == other.declaration.source.object;
    same && other.federated && !first.federated
}

/// A listener with all its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// `0.0.0.0_80`.
    pub name: String,
    /// Its address.
    pub bind: IpAddr,
    /// Its port.
    pub port: u16,
    /// Whether it opens a socket.
    pub binds: bool,
    /// Which connections go where, in the order of [`Match`]: at most one part has an empty match.
    pub parts: Vec<(Match, Serves)>,
}

/// Listeners in order of address and port, and what was contested.
#[must_use]
pub fn compose_listeners<'a>(
    parts: impl IntoIterator<Item = (&'a Arc<ServiceView>, ListenerPlan)>,
) -> (Vec<Listener>, Vec<Conflict>) {
    type Claims<'a> = Vec<(&'a ServiceView, Serves)>;
    let mut contests: BTreeMap<(IpAddr, u16, bool), BTreeMap<Match, Claims<'a>>> = BTreeMap::new();
    for (view, plan) in parts {
        let listener = contests.entry((plan.bind, plan.port, plan.binds)).or_default();
        listener.entry(plan.matches).or_default().push((view, plan.serves));
    }
    let mut conflicts = Vec::new();
    let listener = |((bind, port, binds), matches): (_, BTreeMap<Match, Claims<'a>>)| {
        let name = listener_name(bind, port);
        let decide = |(m, claims)| {
            let serves = settle(&name, !bind.is_unspecified(), claims, &mut conflicts)?;
            Some((m, serves))
        };
        let parts = matches.into_iter().filter_map(decide).collect();
        Listener { name, bind, port, binds, parts }
    };
    let listeners = contests.into_iter().map(listener).collect();
    (listeners, conflicts)
}

/// Who serves one match of a listener. Those who want the port's route table want the same thing.
fn settle(
    name: &str,
    has_address: bool,
    mut claims: Vec<(&ServiceView, Serves)>,
    conflicts: &mut Vec<Conflict>,
) -> Option<Serves> {
    claims.sort_by(|(a, _), (b, _)| precedence(a, b));
    let first = claims.first()?.1.clone();
    let winner = claims.first()?.0;
    let agrees = |view: &ServiceView| same_place(winner, view) || has_address && lends(winner, view);
    let loses = |(view, serves): &&(&ServiceView, Serves)| *serves != first && !agrees(view);
    let others = claims.iter().skip(1).filter(loses);
    let losers: Vec<&ServiceView> = others.clone().map(|(view, _)| *view).collect();
    if !losers.is_empty() {
        let mixed = first == Serves::Routes || others.clone().any(|(_, s)| *s == Serves::Routes);
        let code = if mixed { Code::LISTENER_CONFLICT } else { Code::ADDRESS_CONFLICT };
        let claimants: Vec<&ServiceView> = std::iter::once(winner).chain(losers).collect();
        conflicts.push(Conflict::new(code, name.to_owned(), &claimants));
    }
    Some(first)
}

/// The virtual hosts of a route table in order of name, each with the domains that it won, and what
/// was contested. A virtual host that won none is left out. `leading` returns which service leads from
/// another host to a service, which then claims that host's domains ([`leading`](crate::leading)).
#[must_use]
pub fn compose_routes<'a>(
    parts: impl IntoIterator<Item = (&'a Arc<ServiceView>, VirtualHostPlan)>,
    leading: impl Fn(&Hostname, &ServiceView) -> Option<&'a Arc<ServiceView>>,
) -> (Vec<VirtualHostPlan>, Vec<Conflict>) {
    let parts: Vec<(&ServiceView, VirtualHostPlan)> =
        parts.into_iter().map(|(view, plan)| (&**view, plan)).collect();
    let claims = claims(&parts, leading);
    let conflicts: Vec<Conflict> =
        claims.iter().filter_map(|(domain, claims)| contest(domain, claims)).collect();
    let won = |view: &ServiceView, domain: &str| {
        let first = claims.get(domain).and_then(|claims| claims.first());
        first.is_some_and(|claim| std::ptr::eq(claim.to, view))
    };
    let mut hosts: Vec<VirtualHostPlan> = parts
        .iter()
        .map(|(view, plan)| {
            let domains = plan.domains.iter().filter(|d| won(view, d)).cloned().collect();
            VirtualHostPlan { domains, ..plan.clone() }
        })
        .filter(|plan| !plan.domains.is_empty())
        .collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    (hosts, conflicts)
}

/// A claim on a domain: by whom, and which virtual host gets it.
struct DomainClaim<'a> {
    by: &'a ServiceView,
    to: &'a ServiceView,
}

/// All claims by domain, the first in precedence first.
fn claims<'p, 'a: 'p>(
    parts: &'p [(&'a ServiceView, VirtualHostPlan)],
    leading: impl Fn(&Hostname, &ServiceView) -> Option<&'a Arc<ServiceView>>,
) -> BTreeMap<&'p str, Vec<DomainClaim<'a>>> {
    let mut out: BTreeMap<&str, Vec<DomainClaim<'_>>> = BTreeMap::new();
    for (view, plan) in parts {
        for domain in &plan.domains {
            let by = match plan.led.get(domain) {
                Some(host) => leading(host, view).map(|alias| &**alias),
                None => Some(*view),
            };
            let claim = by.map(|by| DomainClaim { by, to: view });
            out.entry(domain).or_default().extend(claim);
        }
    }
    out.values_mut().for_each(|claims| claims.sort_by(|a, b| precedence(a.by, b.by)));
    out
}

fn contest(domain: &str, claims: &[DomainClaim<'_>]) -> Option<Conflict> {
    let (winner, rest) = claims.split_first()?;
    let agrees = |by: &ServiceView| same_place(winner.by, by) || lends(winner.by, by);
    let losers = rest.iter().map(|claim| claim.by).filter(|by| !agrees(by));
    let claimants: Vec<&ServiceView> = std::iter::once(winner.by).chain(losers).collect();
    (claimants.len() > 1).then(|| Conflict::new(Code::DOMAIN_CONFLICT, domain.to_owned(), &claimants))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_model::{Declaration, DeclarationView, Visibility};

    use super::*;
    use crate::fixtures::*;

    fn mk_vhost(host: &str, domains: &[&str]) -> (Arc<ServiceView>, VirtualHostPlan) {
        let plan = VirtualHostPlan {
            name: format!("{host}:80"),
            domains: domains.iter().map(|d| (*d).to_owned()).collect(),
            led: BTreeMap::new(),
            cluster: format!("outbound|80||{host}"),
            dynamic: false,
        };
        (mk_view(host, "shop", &[Visibility::Public]), plan)
    }
    fn mk_part(host: &str, bind: &str, serves: Serves) -> (Arc<ServiceView>, ListenerPlan) {
        let bind = bind.parse().unwrap();
        let plan = ListenerPlan { bind, port: 80, binds: false, matches: Match::default(), serves };
        (mk_view(host, "shop", &[Visibility::Public]), plan)
    }
    fn to(host: &str) -> Serves {
        Serves::Cluster(format!("outbound|80||{host}"))
    }
    /// Where no host leads to another.
    fn composed<'a>(
        parts: impl IntoIterator<Item = (&'a Arc<ServiceView>, VirtualHostPlan)>,
    ) -> (Vec<VirtualHostPlan>, Vec<Conflict>) {
        compose_routes(parts, |_, _| None)
    }
    fn refs<T: Clone>(parts: &[(Arc<ServiceView>, T)]) -> Vec<(&Arc<ServiceView>, T)> {
        parts.iter().map(|(view, plan)| (view, plan.clone())).collect()
    }

    #[test]
    fn a_contested_domain_serves_the_first_and_names_the_rest() {
        // All declarations are of one age: the host decides.
        let parts = [
            mk_vhost("b.shop", &["b.shop", "10.0.0.1"]),
            mk_vhost("a.shop", &["a.shop", "10.0.0.1"]),
            mk_vhost("c.shop", &["10.0.0.1"]),
        ];
        let (hosts, conflicts) = composed(refs(&parts));
        let got: Vec<(&str, Vec<&str>)> =
            hosts.iter().map(|h| (h.name.as_str(), h.domains.iter().map(String::as_str).collect())).collect();
        assert_eq!(got, [("a.shop:80", vec!["a.shop", "10.0.0.1"]), ("b.shop:80", vec!["b.shop"])]);
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].code, Code::DOMAIN_CONFLICT);
        let names: Vec<&str> = conflicts[0].claimants.iter().map(|k| k.host.as_str()).collect();
        assert_eq!(names, ["a.shop", "b.shop", "c.shop"]);
        let message = conflicts[0].condition().message;
        assert_eq!(&*message, "10.0.0.1 is served by shop/a.shop; shop/b.shop, shop/c.shop also claim it");
    }

    #[test]
    fn the_next_claimant_steps_in() {
        let parts = [mk_vhost("b.shop", &["10.0.0.1"])];
        let (hosts, conflicts) = composed(refs(&parts));
        assert_eq!((hosts[0].domains[0].as_str(), conflicts.len()), ("10.0.0.1", 0));
    }

    #[test]
    fn another_name_claims_its_domain_by_its_own_age() {
        let aged = |host: &str, created: i64| {
            let view = Arc::into_inner(mk_view(host, "shop", &[Visibility::Public])).unwrap();
            let mut first = view.declarations[0].clone();
            let created = tributary_model::Timestamp::from_second(created).ok();
            first.declaration = Declaration { created, ..mk_declaration(host) }.into();
            Arc::new(ServiceView { declarations: [first].into(), ..view })
        };
        let (target, other, name) = (aged("pay.shop", 1), aged("a.shop", 2), aged("b.shop", 3));
        let (_, mut led) = mk_vhost("pay.shop", &["pay.shop", "10.0.0.1"]);
        led.led.insert("10.0.0.1".to_owned(), mk_host("b.shop"));
        let parts = [(target, led), (other, mk_vhost("a.shop", &["10.0.0.1"]).1)];
        let domains = |leads: bool| {
            let (hosts, conflicts) = compose_routes(refs(&parts), |_, _| leads.then_some(&name));
            let names = conflicts.iter().flat_map(|c| c.claimants.iter().map(|k| k.host.to_string()));
            (hosts.iter().map(|h| h.domains.join(" ")).collect::<Vec<_>>(), names.collect::<Vec<_>>())
        };
        let got = (
            vec!["10.0.0.1".to_owned(), "pay.shop".to_owned()],
            vec!["a.shop".to_owned(), "b.shop".to_owned()],
        );
        assert_eq!(domains(true), got, "the age of what it leads to does not count");
        assert_eq!(domains(false), (got.0, vec![]), "a host that means something else claims nothing");
    }

    #[test]
    fn http_services_share_a_listener_and_tcp_ones_contest_it() {
        let shared = [
            mk_part("a.shop", "0.0.0.0", Serves::Routes),
            mk_part("b.shop", "0.0.0.0", Serves::Routes),
            mk_part("c.shop", "10.0.0.1", to("c.shop")),
        ];
        let (listeners, conflicts) = compose_listeners(refs(&shared));
        let names: Vec<&str> = listeners.iter().map(|l| l.name.as_str()).collect();
        assert_eq!((names, conflicts), (vec!["0.0.0.0_80", "10.0.0.1_80"], vec![]));
        let mixed =
            [mk_part("b.shop", "0.0.0.0", Serves::Routes), mk_part("a.shop", "0.0.0.0", to("a.shop"))];
        let (listeners, conflicts) = compose_listeners(refs(&mixed));
        assert_eq!(listeners[0].parts, [(Match::default(), to("a.shop"))]);
        assert_eq!(conflicts[0].code, Code::LISTENER_CONFLICT);
        let same = [mk_part("b.shop", "10.0.0.1", to("b.shop")), mk_part("a.shop", "10.0.0.1", to("a.shop"))];
        let (listeners, conflicts) = compose_listeners(refs(&same));
        assert_eq!(listeners[0].parts, [(Match::default(), to("a.shop"))]);
        assert_eq!(conflicts[0].code, Code::ADDRESS_CONFLICT);
    }

    /// A service of the object `d0` with port 80, as one of its hosts has it.
    fn mk_hosted(host: &str, ips: &[&str]) -> Arc<ServiceView> {
        let facts = mk_one(ips.iter().map(|ip| mk_address(ip)).collect());
        let view = Arc::into_inner(mk_view(host, "consul", &[Visibility::Public])).unwrap();
        Arc::new(ServiceView { ports: [mk_port_view(facts)].into(), ..view })
    }

    #[test]
    fn two_hosts_of_one_object_contest_nothing_unless_they_lead_elsewhere() {
        let (short, long) = ("pay.service.consul", "pay.service.dc1.dc.consul");
        let codes = |views: [(Arc<ServiceView>, &str); 2]| {
            let plan = |host: &str| mk_part(host, "0.0.0.0", to(host)).1;
            let parts: Vec<_> = views.iter().map(|(view, host)| (view, plan(host))).collect();
            let (listeners, mut conflicts) = compose_listeners(parts);
            assert_eq!(listeners[0].parts.len(), 1, "one of them serves all the same");
            let vhosts = views.iter().map(|(view, host)| (view, mk_vhost(host, &["10.9.0.1"]).1));
            conflicts.extend(composed(vhosts).1);
            conflicts.iter().map(|c| c.code).collect::<Vec<_>>()
        };
        let both = [Code::ADDRESS_CONFLICT, Code::DOMAIN_CONFLICT];
        let at = |host: &str| mk_hosted(host, &["10.0.0.1"]);
        assert_eq!(codes([(at(long), long), (at(short), short)]), []);
        assert_eq!(codes([(mk_hosted(long, &["10.0.0.2"]), long), (at(short), short)]), both);
        let mut other = Arc::into_inner(at(long)).unwrap();
        other.declarations = mk_alias(long, "x").declarations.clone();
        assert_eq!(codes([(other.into(), long), (at(short), short)]), both, "another object's endpoints");
        let none = |host| {
            let view = Arc::into_inner(at(host)).unwrap();
            Arc::new(ServiceView { ports: [mk_port_view(mk_facts(vec![]))].into(), ..view })
        };
        assert_eq!(codes([(none(long), long), (none(short), short)]), both, "each resolves to its own");
    }

    #[test]
    fn an_alias_leaves_its_members_addresses_to_the_member() {
        let member = mk_hosted("pay.shop", &["10.0.0.1"]);
        let alias = Arc::into_inner(mk_hosted("all.mesh", &["10.0.0.1", "10.0.0.2"])).unwrap();
        let joined = alias.declarations.iter().cloned().map(|d| DeclarationView { federated: true, ..d });
        let alias = Arc::new(ServiceView { declarations: joined.collect(), ..alias });
        let plan = |host: &str, bind: &str| mk_part(host, bind, to(host)).1;
        let listeners = |bind: &str| {
            compose_listeners([(&alias, plan("all.mesh", bind)), (&member, plan("pay.shop", bind))])
        };
        let (own, conflicts) = listeners("10.96.0.1");
        assert_eq!((&own[0].parts[0].1, conflicts), (&to("pay.shop"), vec![]), "whatever the names' order");
        let (_, conflicts) = listeners("0.0.0.0");
        assert_eq!(conflicts[0].code, Code::ADDRESS_CONFLICT, "without an address the alias is not reached");
        let vhosts = [
            (&alias, mk_vhost("all.mesh", &["10.96.0.1"]).1),
            (&member, mk_vhost("pay.shop", &["10.96.0.1"]).1),
        ];
        let (hosts, conflicts) = composed(vhosts);
        assert_eq!((hosts[0].name.as_str(), conflicts.len()), ("pay.shop:80", 0));
    }

    fn some_parts() -> impl Strategy<Value = Vec<(Arc<ServiceView>, VirtualHostPlan)>> {
        let domains = prop::collection::btree_set("[a-d]", 1..4);
        let one = ("[a-e]", domains).prop_map(|(host, domains)| {
            let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
            mk_vhost(&format!("{host}.shop"), &domains)
        });
        prop::collection::vec(one, 0..6).prop_map(|mut parts| {
            parts.sort_by(|a, b| a.1.name.cmp(&b.1.name));
            parts.dedup_by(|a, b| a.1.name == b.1.name);
            parts
        })
    }

    proptest! {
        #[test]
        fn no_domain_stands_twice_and_none_is_lost(parts in some_parts(), by in 0..6_usize) {
            let (hosts, conflicts) = composed(refs(&parts));
            let mut won: Vec<&String> = hosts.iter().flat_map(|h| &h.domains).collect();
            won.sort();
            let mut asked: Vec<&String> = parts.iter().flat_map(|(_, p)| &p.domains).collect();
            asked.sort();
            asked.dedup();
            prop_assert_eq!(won, asked);
            let mut turned = parts.clone();
            turned.rotate_left(if parts.is_empty() { 0 } else { by % parts.len() });
            prop_assert_eq!(composed(refs(&turned)), (hosts, conflicts));
        }
    }
}
