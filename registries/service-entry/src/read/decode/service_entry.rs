//! The fields of a ServiceEntry.

use std::sync::Arc;

use super::fields::Fields;
use super::workload;
use crate::document::{Located, Location, Resolution, SePort, ServiceEntry};
use crate::read::fault::Faults;
use crate::read::node::{Node, Value};

pub(super) fn decode(spec: &Node, path: String, status: Option<&Node>, faults: &mut Faults) -> ServiceEntry {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return ServiceEntry { at, ..ServiceEntry::default() };
    };
    let entry = ServiceEntry {
        at,
        hosts: fields.texts("hosts", faults),
        addresses: fields.texts("addresses", faults),
        ports: ports(&mut fields, faults),
        location: fields.choice("location", &Location::NAMES, faults).unwrap_or_default().value,
        resolution: fields.choice("resolution", &Resolution::NAMES, faults).unwrap_or_default(),
        endpoints: endpoints(&mut fields, faults),
        selector: selector(&mut fields, faults),
        export_to: fields.texts("exportTo", faults),
        subject_alt_names: fields.texts("subjectAltNames", faults),
        allocated: status.map(allocated).unwrap_or_default(),
        has_status: status.is_some(),
    };
    fields.finish(faults);
    entry
}

fn ports(fields: &mut Fields<'_>, faults: &mut Faults) -> Vec<SePort> {
    let items = fields.list("ports", faults);
    items.into_iter().filter_map(|(path, node)| port(node, path, faults)).collect()
}

fn port(node: &Node, path: String, faults: &mut Faults) -> Option<SePort> {
    let mut fields = Fields::open(node, path, faults)?;
    let number = fields.required_int("number", faults);
    let name = fields.required_text("name", faults);
    let protocol = fields.text("protocol", faults);
    let target = fields.int("targetPort", faults);
    fields.finish(faults);
    let protocol = protocol.unwrap_or_else(|| Located::new(node.at, "".into()));
    Some(SePort { at: Located::new(node.at, ()), number: number?, protocol, name: name?, target })
}

fn endpoints(fields: &mut Fields<'_>, faults: &mut Faults) -> Vec<crate::document::WorkloadSpec> {
    let items = fields.list("endpoints", faults);
    items.into_iter().map(|(path, node)| workload::spec(node, path, faults)).collect()
}

/// The selector. A selector without labels is kept: it selects nothing, unlike an absent one.
fn selector(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<tributary_model::Labels>> {
    let (path, node) = fields.get("workloadSelector")?;
    let mut inner = Fields::open(node, path, faults)?;
    let labels = inner.labels("labels", faults).unwrap_or_default().value;
    inner.finish(faults);
    Some(Located::new(node.at, labels))
}

/// `status.addresses`. A status is written by programs: invalid items are ignored.
fn allocated(status: &Node) -> Vec<(Arc<str>, Arc<str>)> {
    let Some(Node { value: Value::List(items), .. }) = status.get("addresses") else { return Vec::new() };
    let pair = |item: &Node| {
        let value = item.get("value")?.text()?;
        let host = item.get("host").and_then(Node::text).unwrap_or_default();
        Some((host.into(), value.into()))
    };
    items.iter().filter_map(pair).collect()
}
