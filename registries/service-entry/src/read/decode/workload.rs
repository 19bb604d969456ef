//! The fields of WorkloadEntry and WorkloadGroup, and of inline endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::Fields;
use crate::document::workload::ProbeMethod;
use crate::document::{Located, Probe, WorkloadEntry, WorkloadGroup, WorkloadSpec};
use crate::read::fault::Faults;
use crate::read::node::{Node, Value};

pub(super) fn spec(node: &Node, path: String, faults: &mut Faults) -> WorkloadSpec {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return WorkloadSpec { at, ..WorkloadSpec::default() };
    };
    let spec = WorkloadSpec {
        at,
        address: fields.text("address", faults),
        ports: fields.int_map("ports", faults),
        labels: fields.labels("labels", faults).unwrap_or_default(),
        network: fields.text("network", faults),
        locality: fields.text("locality", faults),
        weight: fields.int("weight", faults),
        account: fields.text("serviceAccount", faults),
    };
    fields.finish(faults);
    spec
}

pub(super) fn entry(node: &Node, path: String, status: Option<&Node>, faults: &mut Faults) -> WorkloadEntry {
    WorkloadEntry { spec: spec(node, path, faults), conditions: status.map(conditions).unwrap_or_default() }
}

fn conditions(status: &Node) -> BTreeMap<Arc<str>, Arc<str>> {
    let Some(Node { value: Value::List(items), .. }) = status.get("conditions") else {
        return BTreeMap::new();
    };
    let text = |node: &Node| match &node.value {
        Value::Text(text) => Some(Arc::from(text.as_str())),
        // An API server writes a status as `"True"`, a user may write `true`.
        Value::Bool(true) => Some(Arc::from("True")),
        _ => None,
    };
    items.iter().filter_map(|item| Some((text(item.get("type")?)?, text(item.get("status")?)?))).collect()
}

pub(super) fn group(node: &Node, path: String, faults: &mut Faults) -> WorkloadGroup {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return WorkloadGroup { at, ..WorkloadGroup::default() };
    };
    let (labels, annotations) = template_meta(&mut fields, faults);
    let template = fields.get("template").map(|(path, node)| spec(node, path, faults));
    let probe = fields.get("probe").and_then(|(path, node)| probe(node, path, faults));
    fields.finish(faults);
    WorkloadGroup { at, labels, annotations, template, probe }
}

type TemplateMeta = (Located<tributary_model::Labels>, BTreeMap<Arc<str>, Arc<str>>);

fn template_meta(fields: &mut Fields<'_>, faults: &mut Faults) -> TemplateMeta {
    let Some((path, node)) = fields.get("metadata") else { return TemplateMeta::default() };
    let Some(mut inner) = Fields::open(node, path, faults) else { return TemplateMeta::default() };
    let labels = inner.labels("labels", faults).unwrap_or_default();
    let annotations = inner.text_map("annotations", faults);
    inner.finish(faults);
    (labels, annotations)
}

const TIMING: [&str; 5] =
    ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

fn probe(node: &Node, path: String, faults: &mut Faults) -> Option<Probe> {
    let mut fields = Fields::open(node, path, faults)?;
    let timing = TIMING.iter().filter_map(|&name| Some((name, fields.int(name, faults)?))).collect();
    let mut methods = Vec::new();
    for (name, decode) in METHODS {
        if let Some((path, node)) = fields.get(name)
            && let Some(mut inner) = Fields::open(node, path, faults)
        {
            methods.extend(decode(&mut inner, faults).map(|method| Located::new(node.at, method)));
            inner.finish(faults);
        }
    }
    fields.finish(faults);
    Some(Probe { at: Located::new(node.at, ()), timing, methods })
}

type Method = fn(&mut Fields<'_>, &mut Faults) -> Option<ProbeMethod>;

const METHODS: [(&str, Method); 4] = [("httpGet", http), ("tcpSocket", tcp), ("exec", exec), ("grpc", grpc)];

fn http(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<ProbeMethod> {
    let at = fields.at();
    let or = |text: Option<crate::document::Text>, other: &str| {
        text.unwrap_or_else(|| Located::new(at, other.into()))
    };
    let path = or(fields.text("path", faults), "/").value;
    let port = fields.required_int("port", faults);
    let host = or(fields.text("host", faults), "").value;
    let scheme = or(fields.text("scheme", faults), "HTTP");
    let items = fields.list("httpHeaders", faults);
    let headers = items.into_iter().filter_map(|(path, node)| header(node, path, faults)).collect();
    Some(ProbeMethod::Http { path, port: port?, host, scheme, headers })
}

fn header(node: &Node, path: String, faults: &mut Faults) -> Option<(Arc<str>, Arc<str>)> {
    let mut fields = Fields::open(node, path, faults)?;
    let (name, value) = (fields.required_text("name", faults), fields.text("value", faults));
    fields.finish(faults);
    Some((name?.value, value.map_or_else(|| "".into(), |v| v.value)))
}

fn tcp(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<ProbeMethod> {
    let port = fields.required_int("port", faults);
    let host = fields.text("host", faults).map_or_else(|| "".into(), |text| text.value);
    Some(ProbeMethod::Tcp { port: port?, host })
}

fn exec(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<ProbeMethod> {
    Some(ProbeMethod::Exec { command: fields.texts("command", faults) })
}

fn grpc(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<ProbeMethod> {
    let port = fields.required_int("port", faults);
    let service = fields.text("service", faults).map_or_else(|| "".into(), |text| text.value);
    Some(ProbeMethod::Grpc { port: port?, service })
}
