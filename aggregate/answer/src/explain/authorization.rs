//! Names the AuthorizationPolicies and RequestAuthentications that decide which requests the workload of an endpoint accepts.
//!
//! Explain calls it for an endpoint that a client has: it may be sent, and refuse the client nonetheless.

use std::net::IpAddr;

use tributary_model::{
    Catalog, Code, PolicyKey, RequestAuthentication, Stage, TraceStep, Verdict, WorkloadKey, WorkloadView,
};

use crate::authorization::{AppliedAuthorization, AuthorizationChain, authorization_of};
use crate::endpoints::Destination;
use crate::steps::{named, service_step};
use crate::tokens::request_authentications;

/// Returns a step for each workload at the endpoint that policies restrict. It warns if one refuses everything, because no
/// version of it is valid.
pub(super) fn steps(catalog: &Catalog, target: &Destination<'_>) -> Vec<TraceStep> {
    let Destination::Ip(ip, _) = target else { return Vec::new() };
    workloads(catalog, ip).filter_map(|(key, view)| step(catalog, key, view)).collect()
}

fn workloads<'c>(
    catalog: &'c Catalog,
    ip: &IpAddr,
) -> impl Iterator<Item = (&'c WorkloadKey, &'c WorkloadView)> {
    let keys = catalog.workload_ips.get(ip).into_iter().flat_map(|keys| keys.iter());
    keys.filter_map(|key| Some((key, &**catalog.workloads.get(key)?)))
}

fn step(catalog: &Catalog, key: &WorkloadKey, view: &WorkloadView) -> Option<TraceStep> {
    let (namespace, labels) = (Some(&key.namespace), &view.workload.labels);
    let chain = authorization_of(catalog, namespace, labels);
    let (mut texts, refuses) = chain.as_ref().map(|chain| decisions(catalog, chain)).unwrap_or_default();
    let (tokens, refuses_tokens) = of_tokens(&request_authentications(catalog, namespace, labels));
    texts.extend(tokens);
    if texts.is_empty() {
        return None;
    }
    let detail = format!("workload {}/{}: {}", key.namespace, key.name, texts.join("; "));
    let verdict = if refuses || refuses_tokens { Verdict::Warn } else { Verdict::Pass };
    Some(service_step(Stage::Deliver, verdict, Code::AUTHORIZATION_APPLIES, None, detail))
}

/// Describes the RequestAuthentications of a workload, and returns whether one of them refuses everything.
fn of_tokens(all: &[(&PolicyKey, &RequestAuthentication)]) -> (Vec<String>, bool) {
    let list = |stands_in: bool| {
        let own = all.iter().filter(|(_, policy)| policy.is_stand_in() == stands_in);
        let names: Vec<String> = own.map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect();
        (!names.is_empty()).then(|| named(names.iter().map(String::as_str)))
    };
    let (refusing, checking) = (list(true), list(false));
    let refuses = refusing.is_some();
    let refuse = refusing.map(|names| {
        let code = Code::TOKENS_UNREADABLE;
        format!("it refuses every request, because no version is valid of the RequestAuthentications: {names} ({code})")
    });
    let check = checking.map(|names| format!("RequestAuthentications check tokens of requests: {names}"));
    (refuse.into_iter().chain(check).collect(), refuses)
}

/// Describes the AuthorizationPolicies of a workload, and returns whether one of them refuses everything.
fn decisions(catalog: &Catalog, chain: &AuthorizationChain) -> (Vec<String>, bool) {
    let (reporting, effective): (Vec<_>, Vec<_>) =
        chain.policies.iter().partition(|policy| policy.is_dry_run);
    let (refusing, deciding): (Vec<_>, Vec<_>) =
        effective.into_iter().partition(|policy| is_stand_in(catalog, policy));
    let list = |policies: &[&AppliedAuthorization]| {
        let texts: Vec<String> = policies.iter().map(|policy| shown(policy)).collect();
        named(texts.iter().map(String::as_str))
    };
    let decide = (!deciding.is_empty())
        .then(|| format!("AuthorizationPolicies decide what it accepts: {}", list(&deciding)));
    let refuse = (!refusing.is_empty()).then(|| {
        let code = Code::AUTHORIZATION_UNREADABLE;
        format!("it refuses every request, because no version is valid of: {} ({code})", list(&refusing))
    });
    let report =
        (!reporting.is_empty()).then(|| format!("dry runs, which refuse nothing: {}", list(&reporting)));
    (refuse.into_iter().chain(decide).chain(report).collect(), !refusing.is_empty())
}

fn is_stand_in(catalog: &Catalog, applied: &AppliedAuthorization) -> bool {
    let view = catalog.policies.get(&applied.key);
    view.and_then(|view| view.authorization_policy()).is_some_and(|policy| policy.is_stand_in())
}

/// Formats a policy: `shop/pay DENY`.
fn shown(policy: &AppliedAuthorization) -> String {
    format!("{}/{} {}", policy.key.namespace, policy.key.name, policy.action)
}
