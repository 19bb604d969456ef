//! Composes resources from many services: the listeners of a port and its route table.
//!
//! Several services may claim one name in such a resource. The first claimant in order of precedence
//! serves the name; the others become conditions and replace it when it is removed (law 11). Two hosts of
//! the same service do not conflict. The result does not depend on the order of the parts.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::{Code, Condition, Hostname, ObjectRef, PortView, ServiceKey, ServiceView};

use crate::claims::RouteClaim;
use crate::listener::{ListenerPlan, Match, Serves, listener_name};
use crate::route::VirtualHostPlan;
use crate::vip::ListenAddress;

/// Compares services of different hosts by their first declarations, then by their keys.
#[must_use]
pub fn precedence(a: &ServiceView, b: &ServiceView) -> Ordering {
    let by_declaration = match (a.first(), b.first()) {
        (Some(a), Some(b)) => a.precedence_key().order(&b.precedence_key()),
        // The core builds no view without declarations; such a view sorts last.
        (first, second) => second.is_some().cmp(&first.is_some()),
    };
    by_declaration.then_with(|| a.key.cmp(&b.key))
}

/// Name that several services claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Kind of name: an address, a domain or a listener.
    pub code: Code,
    /// Contested name.
    pub name: String,
    /// Claimants, the serving one first.
    pub claimants: Vec<ServiceKey>,
    /// Objects of their first declarations, in the same order.
    pub objects: Vec<ObjectRef>,
}

impl Conflict {
    /// Maximum claimants that a condition names beside the first.
    const MAX_NAMED: usize = 3;

    pub(crate) fn new(code: Code, name: String, claimants: &[&ServiceView]) -> Self {
        let objects = claimants.iter().filter_map(|v| v.first());
        Self {
            code,
            name,
            claimants: claimants.iter().map(|v| v.key.clone()).collect(),
            objects: objects.map(|d| d.declaration.source.reference()).collect(),
        }
    }
    /// Returns the condition to show for each claimant. It names the first few: thousands of services may claim one
    /// port, and each of them shows the condition.
    #[must_use]
    pub fn condition(&self) -> Condition {
        let mut names = self.claimants.iter().map(ServiceKey::to_string);
        let first = names.next().unwrap_or_default();
        let mut rest: Vec<String> = names.by_ref().take(Self::MAX_NAMED).collect();
        match names.count() {
            0 => {}
            more => rest.push(format!("{more} more")),
        }
        let claim = if rest.len() == 1 { "claims" } else { "claim" };
        let message = format!("{} is served by {first}; {} also {claim} it", self.name, rest.join(", "));
        let objects = self.objects.iter().take(1 + Self::MAX_NAMED).cloned().collect();
        Condition { code: self.code, objects, message: message.into() }
    }
}

/// Whether one object declares both services under different hosts (for Consul the short host and the one with the
/// datacenter) and both have the same endpoints. Then either may serve a name without a conflict. Hosts without
/// endpoints count as different, because each may resolve differently.
fn is_same_backend(a: &ServiceView, b: &ServiceView) -> bool {
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

/// Whether `federated` is a federated service whose addresses come from its member `member`. The member keeps its own
/// addresses, as without the federated service.
fn is_member_of(member: &ServiceView, federated: &ServiceView) -> bool {
    let (Some(first), Some(other)) = (member.first(), federated.first()) else { return false };
    let same =
        first.shard == other.shard && first.declaration.source.object == other.declaration.source.object;
    same && other.federated && !first.federated
}

/// Whether two services that need the same address do not conflict: either may have it, or the first keeps its own.
pub(crate) fn share_address(winner: &ServiceView, other: &ServiceView) -> bool {
    is_same_backend(winner, other) || is_member_of(winner, other)
}

/// Listener with all its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Name: `0.0.0.0_80`.
    pub name: String,
    /// Addresses.
    pub bind: ListenAddress,
    /// Port.
    pub port: u16,
    /// Whether it opens a socket.
    pub binds: bool,
    /// Matches and their targets, sorted by [`Match`]; at most one part has an empty match.
    pub parts: Vec<(Match, Serves)>,
}

/// Composes listeners, sorted by address and port; also returns the conflicts.
#[must_use]
pub fn compose_listeners<'a>(
    parts: impl IntoIterator<Item = (&'a Arc<ServiceView>, ListenerPlan)>,
) -> (Vec<Listener>, Vec<Conflict>) {
    type Claimants<'a> = Vec<(&'a ServiceView, Serves)>;
    let mut contests: BTreeMap<(ListenAddress, u16, bool), BTreeMap<Match, Claimants<'a>>> = BTreeMap::new();
    for (view, plan) in parts {
        let listener = contests.entry((plan.bind, plan.port, plan.binds)).or_default();
        listener.entry(plan.matches).or_default().push((view, plan.serves));
    }
    let mut conflicts = Vec::new();
    let listener = |((bind, port, binds), matches): ((ListenAddress, _, _), BTreeMap<_, Claimants<'a>>)| {
        let name = listener_name(bind.ip, port);
        let decide = |(m, claims): (Match, _)| {
            let has_address = !bind.ip.is_unspecified() || m.range.is_some();
            let serves = settle(&name, has_address, claims, &mut conflicts)?;
            Some((m, serves))
        };
        let parts = matches.into_iter().filter_map(decide).collect();
        Listener { name, bind, port, binds, parts }
    };
    let listeners = contests.into_iter().map(listener).collect();
    (listeners, conflicts)
}

/// Decides the target of one match of a listener and records a conflict. Services that use the port's route table agree.
fn settle(
    name: &str,
    has_address: bool,
    mut claims: Vec<(&ServiceView, Serves)>,
    conflicts: &mut Vec<Conflict>,
) -> Option<Serves> {
    claims.sort_by(|(a, _), (b, _)| precedence(a, b));
    let first = claims.first()?.1.clone();
    let winner = claims.first()?.0;
    let agrees =
        |view: &ServiceView| is_same_backend(winner, view) || has_address && is_member_of(winner, view);
    let loses = |(view, serves): &&(&ServiceView, Serves)| *serves != first && !agrees(view);
    let others = claims.iter().skip(1).filter(loses);
    let losers: Vec<&ServiceView> = others.clone().map(|(view, _)| *view).collect();
    // The same services have claimed the same address for TCP.
    let is_known = matches!(first, Serves::Http(..));
    if !losers.is_empty() && !is_known {
        let mixed = first == Serves::Routes || others.clone().any(|(_, s)| *s == Serves::Routes);
        let code = if mixed { Code::LISTENER_CONFLICT } else { Code::ADDRESS_CONFLICT };
        let claimants: Vec<&ServiceView> = std::iter::once(winner).chain(losers).collect();
        conflicts.push(Conflict::new(code, name.to_owned(), &claimants));
    }
    Some(first)
}

/// Composes the virtual hosts of a route table, sorted by name, each with the domains that it serves; also
/// returns the conflicts. Removes virtual hosts without domains.
#[must_use]
pub fn compose_routes<'a>(
    claims: impl IntoIterator<Item = RouteClaim<'a>>,
) -> (Vec<VirtualHostPlan>, Vec<Conflict>) {
    let mut claims: Vec<RouteClaim<'a>> = claims.into_iter().collect();
    claims.sort_by(|a, b| a.host.cmp(b.host));
    let by_domain = by_domain(&claims);
    let conflicts = by_domain.iter().filter_map(|(domain, by)| contest(domain, by)).collect();
    let owns = |host: &Hostname, domain: &str| {
        by_domain.get(domain).and_then(|all| all.first()).is_some_and(|first| first.host == host)
    };
    let mut aliases: BTreeMap<&Hostname, Vec<&RouteClaim<'a>>> = BTreeMap::new();
    for claim in claims.iter().filter(|claim| claim.plan.is_none()) {
        aliases.entry(claim.to).or_default().push(claim);
    }
    let host = |own: &RouteClaim<'a>| {
        let led = aliases.get(own.to).into_iter().flatten();
        let won =
            led.flat_map(|alias| alias.domains.iter().filter(|domain| owns(alias.host, domain)).cloned());
        Some(own.plan.as_ref()?.with_claims(|domain| owns(own.host, domain), won))
    };
    let mut hosts: Vec<VirtualHostPlan> =
        claims.iter().filter_map(host).filter(|plan| !plan.is_empty()).collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    (hosts, conflicts)
}

/// Returns the claimants of each domain, in order of precedence.
fn by_domain<'p, 'a>(claims: &'p [RouteClaim<'a>]) -> BTreeMap<&'p str, Vec<&'p RouteClaim<'a>>> {
    let mut out: BTreeMap<&str, Vec<&RouteClaim<'a>>> = BTreeMap::new();
    for claim in claims {
        claim.domains.iter().for_each(|domain| out.entry(domain).or_default().push(claim));
    }
    for (domain, by) in &mut out {
        by.sort_by(|a, b| claim_order(domain, a.host, b.host, || preceding(a, b)));
    }
    out
}

/// Compares two hosts' claims on a domain: the host itself comes before hosts of which it is a short form, else
/// `precedence` decides.
pub fn claim_order(
    domain: &str,
    a: &Hostname,
    b: &Hostname,
    precedence: impl FnOnce() -> Ordering,
) -> Ordering {
    let is_short = |host: &Hostname| host.as_str() != domain;
    is_short(a).cmp(&is_short(b)).then_with(precedence)
}

/// Compares claimants by their services; those without one come last.
fn preceding(a: &RouteClaim<'_>, b: &RouteClaim<'_>) -> Ordering {
    let by_service = match (a.by, b.by) {
        (Some(a), Some(b)) => precedence(a, b),
        (first, second) => second.is_some().cmp(&first.is_some()),
    };
    by_service.then_with(|| a.host.cmp(b.host))
}

/// Returns the conflict of a domain that several services claim. A host without a service takes its name from short names
/// of services because a VirtualService names it, which is no conflict.
fn contest(domain: &str, by: &[&RouteClaim<'_>]) -> Option<Conflict> {
    let services: Vec<&Arc<ServiceView>> = by.iter().filter_map(|claim| claim.by).collect();
    by.first()?.by?;
    let (winner, rest) = services.split_first()?;
    let losers = rest.iter().map(|by| &***by).filter(|by| !share_address(winner, by));
    let claimants: Vec<&ServiceView> = std::iter::once(&***winner).chain(losers).collect();
    (claimants.len() > 1).then(|| Conflict::new(Code::DOMAIN_CONFLICT, domain.to_owned(), &claimants))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_model::{Declaration, DeclarationView, Visibility};

    use super::*;
    use crate::ClusterName;
    use crate::fixtures::*;

    fn mk_vhost(host: &str, domains: &[&str]) -> (Arc<ServiceView>, VirtualHostPlan) {
        let plan = VirtualHostPlan {
            name: format!("{host}:80"),
            domains: domains.iter().map(|d| (*d).to_owned()).collect(),
            addresses: Vec::new(),
            cluster: format!("outbound|80||{host}"),
            dynamic: false,
            retries: None,
            hash: None,
            routes: crate::Routes::Default,
            rule: None,
        };
        (mk_view(host, "shop", &[Visibility::Public]), plan)
    }
    fn mk_part(host: &str, bind: &str, serves: Serves) -> (Arc<ServiceView>, ListenerPlan) {
        let bind = ListenAddress::only(bind.parse().unwrap());
        let plan =
            ListenerPlan { bind, port: 80, binds: false, matches: Match::default(), serves, rule: None };
        (mk_view(host, "shop", &[Visibility::Public]), plan)
    }
    fn to(host: &str) -> Serves {
        Serves::Cluster(ClusterName::new(mk_port(80), &mk_host(host)), None)
    }
    /// Composes routes without aliases.
    fn composed<'a>(
        parts: impl IntoIterator<Item = (&'a Arc<ServiceView>, VirtualHostPlan)>,
    ) -> (Vec<VirtualHostPlan>, Vec<Conflict>) {
        compose_routes(parts.into_iter().map(|(view, plan)| mk_claim(view, plan)))
    }
    /// Returns what a service claims for its own virtual host.
    fn mk_claim(view: &Arc<ServiceView>, plan: VirtualHostPlan) -> RouteClaim<'_> {
        let (host, domains) = (&view.key.host, plan.domains.clone());
        let namespace = &view.key.namespace;
        RouteClaim { host, by: Some(view), to: host, namespace, domains, plan: Some(plan) }
    }
    fn refs<T: Clone>(parts: &[(Arc<ServiceView>, T)]) -> Vec<(&Arc<ServiceView>, T)> {
        parts.iter().map(|(view, plan)| (view, plan.clone())).collect()
    }

    #[test]
    fn contested_domain_is_served_by_the_first_claimant() {
        // All declarations have the same age, so the host decides.
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
    fn condition_of_many_claimants_names_the_first_few() {
        let parts: Vec<_> = (0..500).map(|n| mk_vhost(&format!("s{n:03}.shop"), &["10.0.0.1"])).collect();
        let (_, conflicts) = composed(refs(&parts));
        assert_eq!(conflicts[0].claimants.len(), 500, "each of them shows it");
        let condition = conflicts[0].condition();
        let shown = "10.0.0.1 is served by shop/s000.shop; shop/s001.shop, shop/s002.shop, shop/s003.shop, 496 more also claim it";
        assert_eq!((&*condition.message, condition.objects.len()), (shown, 4));
    }

    #[test]
    fn next_claimant_serves_after_the_first_is_removed() {
        let parts = [mk_vhost("b.shop", &["10.0.0.1"])];
        let (hosts, conflicts) = composed(refs(&parts));
        assert_eq!((hosts[0].domains[0].as_str(), conflicts.len()), ("10.0.0.1", 0));
    }

    #[test]
    fn alias_claims_its_domain_by_its_own_age() {
        let aged = |host: &str, created: i64| {
            let view = Arc::into_inner(mk_view(host, "shop", &[Visibility::Public])).unwrap();
            let mut first = view.declarations[0].clone();
            let created = tributary_model::Timestamp::from_second(created).ok();
            first.declaration = Declaration { created, ..mk_declaration(host) }.into();
            Arc::new(ServiceView { declarations: [first].into(), ..view })
        };
        let (target, other, name) = (aged("pay.shop", 1), aged("a.shop", 2), aged("b.shop", 3));
        let (_, own) = mk_vhost("pay.shop", &["pay.shop"]);
        let (_, theirs) = mk_vhost("a.shop", &["10.0.0.1"]);
        let domains = |is_alias: bool| {
            let domains = vec!["10.0.0.1".to_owned()];
            let to = &target.key;
            let alias = RouteClaim {
                host: &name.key.host,
                by: Some(&name),
                to: &to.host,
                namespace: &to.namespace,
                plan: None,
                domains,
            };
            let claims = [mk_claim(&target, own.clone()), mk_claim(&other, theirs.clone())];
            let (hosts, conflicts) = compose_routes(claims.into_iter().chain(is_alias.then_some(alias)));
            let names = conflicts.iter().flat_map(|c| c.claimants.iter().map(|k| k.host.to_string()));
            (hosts.iter().map(|h| h.domains.join(" ")).collect::<Vec<_>>(), names.collect::<Vec<_>>())
        };
        let got = (
            vec!["10.0.0.1".to_owned(), "pay.shop".to_owned()],
            vec!["a.shop".to_owned(), "b.shop".to_owned()],
        );
        assert_eq!(domains(true), got, "the age of the target does not count");
        assert_eq!(domains(false), (got.0, vec![]), "a host that resolves elsewhere claims nothing");
    }

    #[test]
    fn http_services_share_a_listener_and_tcp_services_conflict() {
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

    /// A service that object `d0` declares under `host`, with port 80.
    fn mk_hosted(host: &str, ips: &[&str]) -> Arc<ServiceView> {
        let facts = mk_one(ips.iter().map(|ip| mk_address(ip)).collect());
        let view = Arc::into_inner(mk_view(host, "consul", &[Visibility::Public])).unwrap();
        Arc::new(ServiceView { ports: [mk_port_view(facts)].into(), ..view })
    }

    #[test]
    fn two_hosts_of_one_object_conflict_only_with_other_endpoints() {
        let (short, long) = ("pay.service.consul", "pay.service.dc1.dc.consul");
        let codes = |views: [(Arc<ServiceView>, &str); 2]| {
            let plan = |host: &str| mk_part(host, "0.0.0.0", to(host)).1;
            let parts: Vec<_> = views.iter().map(|(view, host)| (view, plan(host))).collect();
            let (listeners, mut conflicts) = compose_listeners(parts);
            assert_eq!(listeners[0].parts.len(), 1, "one of them serves");
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
        assert_eq!(
            codes([(none(long), long), (none(short), short)]),
            both,
            "each host may resolve differently"
        );
    }

    #[test]
    fn federated_service_leaves_addresses_to_its_member() {
        let member = mk_hosted("pay.shop", &["10.0.0.1"]);
        let federated = Arc::into_inner(mk_hosted("all.mesh", &["10.0.0.1", "10.0.0.2"])).unwrap();
        let joined = federated.declarations.iter().cloned().map(|d| DeclarationView { federated: true, ..d });
        let federated = Arc::new(ServiceView { declarations: joined.collect(), ..federated });
        let plan = |host: &str, bind: &str| mk_part(host, bind, to(host)).1;
        let listeners = |bind: &str| {
            compose_listeners([(&federated, plan("all.mesh", bind)), (&member, plan("pay.shop", bind))])
        };
        let (own, conflicts) = listeners("10.96.0.1");
        assert_eq!(
            (&own[0].parts[0].1, conflicts),
            (&to("pay.shop"), vec![]),
            "independent of the order of names"
        );
        let (_, conflicts) = listeners("0.0.0.0");
        assert_eq!(
            conflicts[0].code,
            Code::ADDRESS_CONFLICT,
            "without an address the federated service is unreachable"
        );
        let vhosts = [
            (&federated, mk_vhost("all.mesh", &["10.96.0.1"]).1),
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
        fn each_claimed_domain_appears_exactly_once(parts in some_parts(), by in 0..6_usize) {
            let (hosts, conflicts) = composed(refs(&parts));
            let mut won: Vec<&String> = hosts.iter().flat_map(|h| &h.domains).collect();
            won.sort();
            let mut claimed: Vec<&String> = parts.iter().flat_map(|(_, p)| &p.domains).collect();
            claimed.sort();
            claimed.dedup();
            prop_assert_eq!(won, claimed);
            let mut rotated = parts.clone();
            rotated.rotate_left(if parts.is_empty() { 0 } else { by % parts.len() });
            prop_assert_eq!(composed(refs(&rotated)), (hosts, conflicts));
        }
    }
}
