//! The fields of a Gateway. Of servers that are not served, only the port and the mode are read, for the condition that
//! names them.

use super::fields::{Fields, text};
use super::sidecar::port_and_target;
use crate::document::gateway::{Gateway, Server};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> Gateway {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return Gateway { at, ..Gateway::default() };
    };
    let mut ignored = Vec::new();
    let gateway = Gateway {
        at,
        selector: fields.labels("selector", faults),
        servers: {
            let all = fields.list("servers", faults).into_iter();
            all.map(|(path, node)| server(node, path, &mut ignored, faults)).collect()
        },
        ignored,
    };
    fields.finish(faults);
    gateway
}

fn server(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> Server {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Server { at, ..Server::default() };
    };
    let mut server = Server { at, mode: mode(&mut fields, faults), ..Server::default() };
    if !server.forwards() {
        // the rest is not served, whatever it is
        server.port = port_and_target(&mut fields, &mut Faults::default()).map(|(port, _)| port);
        return server;
    }
    if let Some((port, target)) = port_and_target(&mut fields, faults) {
        server.port = Some(port);
        ignored.extend(target);
    }
    server.bind = fields.filled("bind", faults);
    server.hosts = fields.texts("hosts", faults);
    fields.ignore(&["name"]);
    fields.ignored("defaultEndpoint", ignored);
    settings(&mut fields, ignored, faults);
    fields.finish(faults);
    server
}

fn mode(fields: &mut Fields<'_>, faults: &mut Faults) -> Text {
    let found = fields.get("tls").and_then(|(path, node)| {
        let (path, node) = Fields::open(node, path, faults)?.get("mode")?;
        text(node, &path, faults)
    });
    found.unwrap_or_default()
}

/// A server that forwards TLS has no certificates, and ends no connection: its other settings have no effect.
fn settings(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) {
    let Some((path, node)) = fields.get("tls") else { return };
    let Some(mut inner) = Fields::open(node, path, faults) else { return };
    inner.ignore(&["mode"]);
    for name in SETTINGS {
        inner.ignored(name, ignored);
    }
    inner.finish(faults);
}

/// Other fields of `tls` in Istio.
const SETTINGS: [&str; 15] = [
    "httpsRedirect",
    "serverCertificate",
    "privateKey",
    "caCertificates",
    "caCrl",
    "credentialName",
    "credentialNames",
    "caCertCredentialName",
    "tlsCertificates",
    "subjectAltNames",
    "verifyCertificateSpki",
    "verifyCertificateHash",
    "minProtocolVersion",
    "maxProtocolVersion",
    "cipherSuites",
];
