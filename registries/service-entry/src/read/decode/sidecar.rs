//! The fields of a Sidecar. Fields that are not served and would change what a workload reaches or accepts are
//! refused; other fields that are not served are kept by path and shown.

use tributary_model::{CaptureMode, Code};

use super::fields::Fields;
use crate::document::sidecar::{Egress, EgressProxy, Ingress, Outbound, Port, Sidecar};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

const CAPTURE: [(&str, CaptureMode); 3] =
    [("DEFAULT", CaptureMode::Default), ("IPTABLES", CaptureMode::Iptables), ("NONE", CaptureMode::None)];
/// Modes of `outboundTrafficPolicy`, and whether connections to unknown hosts pass.
const OUTBOUND: [(&str, bool); 2] = [("REGISTRY_ONLY", false), ("ALLOW_ANY", true)];

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> Sidecar {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return Sidecar { at, ..Sidecar::default() };
    };
    let mut ignored = Vec::new();
    let sidecar = Sidecar {
        at,
        selector: selector(&mut fields, &mut ignored, faults),
        egress: fields.list("egress", faults).into_iter().map(|(p, n)| egress(n, p, faults)).collect(),
        ingress: {
            let all = fields.list("ingress", faults).into_iter();
            all.map(|(path, node)| ingress(node, path, &mut ignored, faults)).collect()
        },
        outbound: outbound(&mut fields, faults),
        ignored: {
            fields.ignored("inboundConnectionPool", &mut ignored);
            ignored
        },
    };
    fields.finish(faults);
    sidecar
}

/// A selector without labels selects every workload, as if it were absent.
fn selector(
    fields: &mut Fields<'_>,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<Located<tributary_model::Labels>> {
    let (path, node) = fields.get("workloadSelector")?;
    let mut inner = Fields::open(node, path.clone(), faults)?;
    let labels = inner.labels("labels", faults).unwrap_or_default().value;
    inner.finish(faults);
    if labels.is_empty() {
        ignored.push(Located::new(node.at, path.as_str().into()));
    }
    Some(Located::new(node.at, labels))
}

fn egress(node: &Node, path: String, faults: &mut Faults) -> Egress {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Egress { at, ..Egress::default() };
    };
    let egress = Egress {
        at,
        port: port(&mut fields, faults),
        bind: fields.text("bind", faults),
        capture: fields.choice("captureMode", &CAPTURE, faults).unwrap_or_default().value,
        hosts: fields.texts("hosts", faults),
    };
    fields.finish(faults);
    egress
}

fn ingress(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> Ingress {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Ingress { at, ..Ingress::default() };
    };
    let ingress = Ingress {
        at,
        port: port(&mut fields, faults),
        bind: fields.text("bind", faults),
        capture: fields.choice("captureMode", &CAPTURE, faults).unwrap_or_default().value,
        endpoint: fields.text("defaultEndpoint", faults).filter(|text| !text.value.is_empty()),
    };
    let fix = "remove it; inbound listeners do not end TLS, and would accept connections without it";
    fields.not_served("tls", fix, faults);
    fields.ignored("connectionPool", ignored);
    fields.finish(faults);
    ingress
}

fn port(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Port> {
    let (port, target) = port_and_target(fields, faults)?;
    if let Some(target) = target {
        let message = format!("{} is not served; remove it", target.value);
        faults.refuse(Code::FIELD_NOT_SERVED, target.at, message);
    }
    Some(port)
}

/// Reads a port; also returns the path of its `targetPort`, if that is set.
pub(super) fn port_and_target(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<(Port, Option<Text>)> {
    let (path, node) = fields.get("port")?;
    let mut fields = Fields::open(node, path, faults)?;
    let number = fields.int("number", faults).unwrap_or_else(|| Located::new(node.at, 0));
    let protocol = fields.text("protocol", faults);
    let name = fields.text("name", faults);
    let target = fields.int("targetPort", faults).filter(|target| target.value != 0);
    let target = target.map(|target| Located::new(target.at, fields.path("targetPort").as_str().into()));
    fields.finish(faults);
    let empty = || Located::new(node.at, "".into());
    let (protocol, name) = (protocol.unwrap_or_else(empty), name.unwrap_or_else(empty));
    Some((Port { at: Located::new(node.at, ()), number, protocol, name }, target))
}

/// The mode; a policy without one is `REGISTRY_ONLY`, as in Istio.
fn outbound(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Outbound> {
    let (path, node) = fields.get("outboundTrafficPolicy")?;
    let mut inner = Fields::open(node, path, faults)?;
    let passes = inner.choice("mode", &OUTBOUND, faults).is_some_and(|mode| mode.value);
    let proxy = proxy(&mut inner, faults);
    inner.finish(faults);
    Some(Outbound { passes, proxy })
}

fn proxy(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<EgressProxy> {
    let (path, node) = fields.get("egressProxy")?;
    let mut inner = Fields::open(node, path, faults)?;
    let host = inner.text("host", faults);
    let port = inner.get("port").and_then(|(path, node)| {
        let mut port = Fields::open(node, path, faults)?;
        let number = port.int("number", faults);
        port.finish(faults);
        number
    });
    if let Some(subset) = inner.text("subset", faults).filter(|subset| !subset.value.is_empty()) {
        let message = format!("{} is not served; remove it, or name a host of its own", inner.path("subset"));
        faults.refuse(Code::FIELD_NOT_SERVED, subset.at, message);
    }
    inner.finish(faults);
    Some(EgressProxy { at: Located::new(node.at, ()), host, port })
}
