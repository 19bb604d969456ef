//! RBAC filters: which requests and connections a workload accepts (docs/reference/xds.md#inbound-connections).
//!
//! `listener` calls it for the filter chains of inbound connections. Names, order and meaning are Istio's. No extension is
//! served that could decide requests of CUSTOM policies: they are refused.

mod aliases;
mod attributes;
mod matchers;
mod permission;
mod principal;
mod rule;

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::Filter;
use envoy_types::pb::envoy::config::rbac::v3::{Permission, Policy, Principal, rbac::Action};
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};
use tributary_answer::{AppliedAuthorization, AuthorizationChain};
use tributary_model::AuthorizationAction;
use tributary_proto::wire::Writer;

use super::listener::{filter, http_filter};
use rule::{Checker, Context, Term};

const HTTP_FILTER: &str = "envoy.filters.http.rbac";
const NETWORK_FILTER: &str = "envoy.filters.network.rbac";
/// Prefix of the statistics of connections.
const STAT_PREFIX: &str = "tcp.";

/// Returns the filters that accept or refuse requests, in order. `domains` are the trust domains of the mesh, the first of which
/// is its own.
#[must_use]
pub fn http_filters(chain: &AuthorizationChain, domains: &[Arc<str>]) -> Vec<HttpFilter> {
    let config = |decision: Decision| {
        let mut wire = Writer::new();
        decision.write_enforced(&mut wire);
        decision.write_reported(&mut wire);
        wire.string(3, decision.report_prefix());
        Any { type_url: HttpRbac::type_url(), value: wire.finish() }
    };
    let decisions = decisions(chain, domains, Checker::Requests);
    decisions.map(|decision| http_filter(HTTP_FILTER, config(decision))).collect()
}

/// Returns the filters with which a gRPC server accepts or refuses requests, in order. It has no use for those that only report,
/// and wants a name of its own for each filter.
#[must_use]
pub fn grpc_filters(chain: &AuthorizationChain, domains: &[Arc<str>]) -> Vec<HttpFilter> {
    let decisions = decisions(chain, domains, Checker::Grpc).filter(|found| found.stage != Stage::Audit);
    decisions
        .filter_map(|found| Some(grpc_filter(found.stage.filter_name(), found.stage, found.enforced?)))
        .collect()
}

/// Returns the filter with which a gRPC server refuses requests of clients without an identity of one of these trust domains: it
/// does not compare names while it ends TLS.
#[must_use]
pub fn grpc_trust(domains: &[Arc<str>]) -> HttpFilter {
    let policy = Policy {
        permissions: vec![Permission::any()],
        principals: vec![principal::of_domains(domains).not()],
        ..Policy::default()
    };
    grpc_filter("trust-domains", Stage::Deny, [("trust-domains".to_owned(), policy)].into())
}

/// Returns the filter with which a gRPC server refuses every request.
#[must_use]
pub fn grpc_refusal() -> HttpFilter {
    let (permissions, principals) = (vec![Permission::any()], vec![Principal::any()]);
    let policy = Policy { permissions, principals, ..Policy::default() };
    grpc_filter("refuse", Stage::Deny, [("refuse".to_owned(), policy)].into())
}

fn grpc_filter(name: &str, stage: Stage, rules: Rules) -> HttpFilter {
    let decision = Decision { stage, enforced: Some(rules), reported: None };
    let mut wire = Writer::new();
    decision.write_enforced(&mut wire);
    http_filter(name, Any { type_url: HttpRbac::type_url(), value: wire.finish() })
}

/// Returns the filters that accept or refuse connections of which no request is read, in order.
#[must_use]
pub fn network_filters(chain: &AuthorizationChain, domains: &[Arc<str>]) -> Vec<Filter> {
    let config = |decision: Decision| {
        let mut wire = Writer::new();
        decision.write_enforced(&mut wire);
        decision.write_reported(&mut wire);
        wire.string(3, STAT_PREFIX);
        wire.string(5, decision.report_prefix());
        Any { type_url: NetworkRbac::type_url(), value: wire.finish() }
    };
    let decisions = decisions(chain, domains, Checker::Connections);
    decisions.map(|decision| filter(NETWORK_FILTER, config(decision))).collect()
}

/// Filter of a workload. The order is that in which Envoy runs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Custom,
    Audit,
    Deny,
    Allow,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Custom, Self::Audit, Self::Deny, Self::Allow];

    const fn of(action: &AuthorizationAction) -> Self {
        match action {
            AuthorizationAction::Custom(_) => Self::Custom,
            AuthorizationAction::Audit => Self::Audit,
            AuthorizationAction::Deny => Self::Deny,
            AuthorizationAction::Allow => Self::Allow,
        }
    }
    const fn action(self) -> Action {
        match self {
            Self::Custom | Self::Deny => Action::Deny,
            Self::Audit => Action::Log,
            Self::Allow => Action::Allow,
        }
    }
    /// Returns the name of the filter where each needs its own.
    const fn filter_name(self) -> &'static str {
        match self {
            Self::Custom => "rbac-custom",
            Self::Audit => "rbac-audit",
            Self::Deny => "rbac-deny",
            Self::Allow => "rbac-allow",
        }
    }
    /// Returns the prefix of statistics and metadata of policies that only report.
    const fn report_prefix(self) -> &'static str {
        match self {
            Self::Custom | Self::Audit => "",
            Self::Deny => "istio_dry_run_deny_",
            Self::Allow => "istio_dry_run_allow_",
        }
    }
    /// Returns the name of a rule, which access logs contain.
    fn name(self, policy: &AppliedAuthorization, rule: usize) -> String {
        let name = format!("ns[{}]-policy[{}]-rule[{rule}]", policy.key.namespace, policy.key.name);
        match &policy.action {
            AuthorizationAction::Custom(extension) => {
                format!("istio-ext-authz-{extension}-{name}-deny-due-to-bad-CUSTOM-action")
            }
            AuthorizationAction::Allow | AuthorizationAction::Deny | AuthorizationAction::Audit => name,
        }
    }
}

/// Rules of a filter by name. Envoy's own type has no order.
type Rules = BTreeMap<String, Policy>;

/// What a filter decides.
struct Decision {
    stage: Stage,
    enforced: Option<Rules>,
    reported: Option<Rules>,
}

impl Decision {
    fn write_enforced(&self, wire: &mut Writer) {
        self.write(wire, 1, self.enforced.as_ref());
    }
    fn write_reported(&self, wire: &mut Writer) {
        self.write(wire, 2, self.reported.as_ref());
    }
    fn report_prefix(&self) -> &'static str {
        if self.reported.is_some() { self.stage.report_prefix() } else { "" }
    }
    fn write(&self, wire: &mut Writer, field: u32, rules: Option<&Rules>) {
        let Some(rules) = rules else { return };
        wire.message(field, |w| {
            w.number(1, self.stage.action() as u64);
            for (name, policy) in rules {
                w.message(2, |w| {
                    w.string(1, name);
                    w.present(2, policy.encode_to_vec());
                });
            }
        });
    }
}

/// Returns what the filters of a workload decide, without those that decide nothing.
fn decisions(
    chain: &AuthorizationChain,
    domains: &[Arc<str>],
    checker: Checker,
) -> impl Iterator<Item = Decision> {
    Stage::ALL.into_iter().filter_map(move |stage| {
        let context = Context { domains, checker, widens: stage != Stage::Allow };
        let enforced = rules(chain, stage, false, &context);
        // what an extension would decide is unknown
        let reported = rules(chain, stage, true, &context).filter(|_| stage != Stage::Custom);
        (enforced.is_some() || reported.is_some()).then_some(Decision { stage, enforced, reported })
    })
}

/// Returns the rules of the policies for a filter; `None` if they decide nothing. A policy that accepts requests refuses the
/// others even if it has no rule.
fn rules(chain: &AuthorizationChain, stage: Stage, is_dry_run: bool, context: &Context<'_>) -> Option<Rules> {
    let is_own = |policy: &&AppliedAuthorization| {
        Stage::of(&policy.action) == stage && policy.is_dry_run == is_dry_run
    };
    let own = || chain.policies.iter().filter(is_own);
    let all = own().flat_map(|policy| (0..).zip(policy.rules.iter()).map(move |rule| (policy, rule)));
    let encoded = all
        .filter_map(|(policy, (number, of))| Some((stage.name(policy, number), rule::policy(of, context)?)));
    let rules: Rules = encoded.collect();
    let decides = !rules.is_empty() || (stage == Stage::Allow && own().next().is_some());
    decides.then_some(rules)
}

#[cfg(test)]
mod tests;
