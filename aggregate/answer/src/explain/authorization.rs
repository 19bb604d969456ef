//! Names the AuthorizationPolicies that decide which requests the workload of an endpoint accepts.
//!
//! Explain calls it for an endpoint that a client has: it may be sent, and refuse the client nonetheless.

use std::net::IpAddr;

use tributary_model::{Catalog, Code, Stage, TraceStep, Verdict, WorkloadKey, WorkloadView};

use crate::authorization::{AppliedAuthorization, authorization_of};
use crate::endpoints::Destination;
use crate::steps::{named, service_step};

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
    let chain = authorization_of(catalog, Some(&key.namespace), &view.workload.labels)?;
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
    let texts: Vec<String> = refuse.into_iter().chain(decide).chain(report).collect();
    let detail = format!("workload {}/{}: {}", key.namespace, key.name, texts.join("; "));
    let verdict = if refusing.is_empty() { Verdict::Pass } else { Verdict::Warn };
    Some(service_step(Stage::Deliver, verdict, Code::AUTHORIZATION_APPLIES, None, detail))
}

fn is_stand_in(catalog: &Catalog, applied: &AppliedAuthorization) -> bool {
    let view = catalog.policies.get(&applied.key);
    view.and_then(|view| view.authorization_policy()).is_some_and(|policy| policy.is_stand_in())
}

/// Formats a policy: `shop/pay DENY`.
fn shown(policy: &AppliedAuthorization) -> String {
    format!("{}/{} {}", policy.key.namespace, policy.key.name, policy.action)
}
