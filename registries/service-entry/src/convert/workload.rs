//! Converts a WorkloadEntry to a workload that services select.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::labels::WORKLOAD_NAME;
use tributary_model::{
    Fact, Health, Labels, PortName, PortNumber, Workload, WorkloadKey, WorkloadKind, WorkloadName,
};

use super::context::Context;
use super::endpoints;
use super::topology::{Topologies, accepts_mesh_tls, augmented, inherited_network};
use crate::address;
use crate::document::{Meta, Object, WorkloadEntry, WorkloadSpec};

/// Annotation that serves the workload only while its health condition is true.
pub(super) const HEALTH_CHECKS: &str = "proxy.istio.io/health-checks-enabled";
/// Annotation with the WorkloadGroup of a workload that registered itself.
pub(super) const GROUP: &str = "istio.io/autoRegistrationGroup";

/// The workload; `None` while its health checks have not reported it healthy.
pub(super) fn fact(object: &Object, meta: &Meta, entry: &WorkloadEntry, context: &Context) -> Option<Fact> {
    if !is_healthy(meta, entry) {
        return None;
    }
    let spec = &entry.spec;
    let own = meta.labels.value.pairs().map(|(k, v)| (&**k, &**v));
    let labels = spec.labels.value.with(own);
    let topology = Topologies::default().of(spec, &labels, context);
    let inherited = inherited_network(spec, context);
    let account = spec.account.as_ref().map_or("", |account| &*account.value);
    let workload = Workload {
        source: object.source(),
        addresses: address::of(spec).into_iter().collect(),
        ports: ports(spec),
        augmented: augmented(&labels, &topology, inherited),
        identity: context.identity(&meta.namespace, account),
        account: account.into(),
        health: Health::Healthy,
        mtls: accepts_mesh_tls(&labels, account),
        listed: Arc::from([]),
        weight: endpoints::weight(spec),
        name: name(meta, &labels),
        labels,
        topology,
    };
    let key = WorkloadKey::from(WorkloadName {
        namespace: meta.namespace.clone(),
        kind: WorkloadKind::Entry,
        name: meta.name.clone(),
        cluster: context.cluster.clone(),
    });
    Some(Fact::Workload(key, Arc::new(workload)))
}

/// Whether the condition `Healthy` is `True`; always true without health checks.
fn is_healthy(meta: &Meta, entry: &WorkloadEntry) -> bool {
    let truthy = |text: &str| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True");
    if !meta.annotation(HEALTH_CHECKS).is_some_and(truthy) {
        return true;
    }
    entry.conditions.get("Healthy").is_some_and(|status| &**status == "True")
}

fn ports(spec: &WorkloadSpec) -> Arc<[(PortName, PortNumber)]> {
    let port = |(name, number): &(crate::document::Text, crate::document::Located<i64>)| {
        Some((PortName::new(&name.value).ok()?, endpoints::number_of(number.value)?))
    };
    let sorted: BTreeMap<PortName, PortNumber> = spec.ports.iter().filter_map(port).collect();
    sorted.into_iter().collect()
}

fn name(meta: &Meta, labels: &Labels) -> Arc<str> {
    let name = meta.annotation(GROUP).or_else(|| labels.get(WORKLOAD_NAME)).filter(|name| !name.is_empty());
    name.map_or_else(|| meta.name.clone(), Arc::from)
}
