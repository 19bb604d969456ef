//! A WorkloadEntry as a workload that services select.

use std::collections::BTreeMap;
use std::sync::Arc;

use tributary_model::labels::WORKLOAD_NAME;
use tributary_model::{
    Fact, Health, Labels, PortName, PortNumber, Workload, WorkloadKey, WorkloadKind, WorkloadName,
};

use super::topology::{Places, augmented, speaks_mesh_tls};
use super::{Context, address, endpoints};
use crate::document::{Meta, Object, WorkloadEntry, WorkloadSpec};

/// Whether the workload serves only while its health condition says so.
pub(super) const HEALTH_CHECKS: &str = "proxy.istio.io/health-checks-enabled";
/// The group that a workload registered itself with.
pub(super) const GROUP: &str = "istio.io/autoRegistrationGroup";

/// The workload; `None` while its health checks have not said that it is healthy.
pub(super) fn fact(object: &Object, meta: &Meta, entry: &WorkloadEntry, context: &Context) -> Option<Fact> {
    if !is_healthy(meta, entry) {
        return None;
    }
    let spec = &entry.spec;
    let own = meta.labels.value.pairs().map(|(k, v)| (&**k, &**v));
    let labels = spec.labels.value.with(own);
    let place = Places::default().of(spec, &labels, false, context);
    let account = spec.account.as_ref().map_or("", |account| &*account.value);
    let workload = Workload {
        source: object.source(),
        addresses: address::of(spec).into_iter().collect(),
        ports: ports(spec),
        augmented: augmented(&labels, &place),
        identity: context.identity(&meta.namespace, account),
        account: account.into(),
        health: Health::Healthy,
        mtls: speaks_mesh_tls(&labels, account),
        listed: Arc::from([]),
        weight: endpoints::weight(spec),
        name: name(meta, &labels),
        labels,
        topology: place,
    };
    let key = WorkloadKey::from(WorkloadName {
        namespace: meta.namespace.clone(),
        kind: WorkloadKind::Entry,
        name: meta.name.clone(),
        cluster: context.cluster.clone(),
    });
    Some(Fact::Workload(key, Arc::new(workload)))
}

/// With health checks on, only a condition `Healthy` that is `True`; without them always.
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
    let said = meta.annotation(GROUP).or_else(|| labels.get(WORKLOAD_NAME)).filter(|name| !name.is_empty());
    said.map_or_else(|| meta.name.clone(), Arc::from)
}
