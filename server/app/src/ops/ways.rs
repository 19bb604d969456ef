//! What leads a sidecar to a port of a service or to an endpoint, by what it was sent: the routes and connections for the host, else
//! those of other hosts.
//!
//! `explain` and `why-not` call it for a connected client, beside the steps of what is planned for it.

use std::collections::BTreeSet;

use tributary_answer::{ClusterName, is_in_subset};
use tributary_model::{Code, Hostname, PolicyKey, PortView, ServiceView, Subset, TraceStep, Verdict};

use super::deliver_steps::deliver_step;
use super::routed::{Leading, Routed};
use super::sessions::{Found, MAX_DECODED};

/// What leads somewhere.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Routes and connections, and what they lack.
    pub(super) steps: Vec<TraceStep>,
    /// Whether nothing leads there, or by other ways than planned.
    pub(super) contradict_plan: bool,
    /// VirtualServices whose routes of connections do not count.
    pub(super) overruled: BTreeSet<PolicyKey>,
}

impl Leading {
    /// Whether the requests or connections for the host are for the port, whether they arrive or not.
    fn is_led(&self) -> bool {
        self.ways.is_empty() || self.ways.iter().any(|step| step.verdict == Verdict::Pass)
    }
    /// Whether all that receives them is lost.
    fn is_lost(&self) -> bool {
        self.lost.iter().any(|step| step.verdict == Verdict::Drop)
    }
}

/// Returns what leads a sidecar to an endpoint: the requests and connections for the host, and if they do not go there, the routes of
/// other hosts.
pub(super) fn to_endpoint(
    tables: &mut Routed<'_>,
    found: &Found,
    (host, port, endpoint): (&Hostname, &PortView, &str),
) -> Ways {
    let leading = tables.leading(host, host, (port, Some(endpoint)), &found.client);
    let contradict_plan = !leading.is_led() || leading.is_lost();
    let elsewhere = if leading.is_led() {
        Vec::new()
    } else {
        let has = |subset: &Subset| is_in_subset(port, &found.client, subset, endpoint);
        tables.elsewhere((&ClusterName::new(port.number, host), port), &has)
    };
    let steps = [leading.ways, leading.lost, elsewhere].concat();
    Ways { steps, contradict_plan, overruled: leading.overruled }
}

/// Returns what leads a sidecar to a port, or to a subset of it; a warning if nothing does.
pub(super) fn to_port(
    tables: &mut Routed<'_>,
    (found, subset): (&Found, Option<&Subset>),
    (host, view, port): (&Hostname, &ServiceView, &PortView),
) -> Ways {
    let is_planned = subset.is_none() && found.client.class.scope().rank(view).is_some();
    let mut leading = match is_planned {
        true => tables.leading(host, &view.key.host, (port, None), &found.client),
        false => Leading::default(),
    };
    let overruled = std::mem::take(&mut leading.overruled);
    if leading.is_lost() {
        leading.ways.retain(|step| step.verdict != Verdict::Pass);
        return Ways { steps: [leading.lost, leading.ways].concat(), contradict_plan: true, overruled };
    }
    let is_led = leading.is_led();
    // what leads to the service at the end of an alias is no answer about requests for the alias
    if is_planned && (is_led || *host != view.key.host) {
        leading.ways.sort_by_key(|step| step.verdict != Verdict::Pass);
        return Ways { steps: [leading.ways, leading.lost].concat(), contradict_plan: !is_led, overruled };
    }
    let cluster = ClusterName { subset: subset.cloned(), ..ClusterName::new(port.number, &view.key.host) };
    let elsewhere = tables.elsewhere((&cluster, port), &|_| true);
    let contradict_plan = is_planned || elsewhere.is_empty();
    // where requests for the host go comes first: it is no way to the service
    let mut steps = [leading.ways, leading.lost, elsewhere].concat();
    if steps.is_empty() {
        steps.push(unled(&cluster, tables.is_cut()));
    }
    Ways { steps, contradict_plan, overruled }
}

/// Returns the step of an xDS cluster to which nothing leads, of all that the client was sent or of a part of it.
fn unled(cluster: &ClusterName, is_cut: bool) -> TraceStep {
    let read = match is_cut {
        true => format!("of the first {} MiB ", MAX_DECODED >> 20),
        false => String::new(),
    };
    let detail =
        format!("no route or listener {read}that the client was sent leads to xDS cluster {cluster}");
    deliver_step((Verdict::Warn, Code::ROUTED_ELSEWHERE, detail))
}
