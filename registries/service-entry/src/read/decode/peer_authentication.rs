//! The fields of a PeerAuthentication.

use tributary_model::{Labels, MtlsMode};

use super::fields::Fields;
use crate::document::peer_authentication::{PeerAuthentication, PortMode};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

/// Modes by their names; `UNSET` is that of the wider scope.
const MODES: [(&str, Option<MtlsMode>); 4] = [
    ("UNSET", None),
    ("DISABLE", Some(MtlsMode::Disable)),
    ("PERMISSIVE", Some(MtlsMode::Permissive)),
    ("STRICT", Some(MtlsMode::Strict)),
];

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> PeerAuthentication {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return PeerAuthentication { at, ..PeerAuthentication::default() };
    };
    let mut ignored = Vec::new();
    let policy = PeerAuthentication {
        at,
        selector: selector(&mut fields, &mut ignored, faults),
        mode: fields.get("mtls").and_then(|(path, node)| mode(node, path, faults)),
        ports: ports(&mut fields, faults),
        ignored,
    };
    fields.finish(faults);
    policy
}

/// A selector without labels selects every workload, as if it were absent.
pub(super) fn selector(
    fields: &mut Fields<'_>,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<Located<Labels>> {
    let (path, node) = fields.get("selector")?;
    let mut inner = Fields::open(node, path.clone(), faults)?;
    let labels = inner.labels("matchLabels", faults).unwrap_or_default().value;
    inner.finish(faults);
    if labels.is_empty() {
        ignored.push(Located::new(node.at, path.as_str().into()));
    }
    Some(Located::new(node.at, labels))
}

fn mode(node: &Node, path: String, faults: &mut Faults) -> Option<MtlsMode> {
    let mut fields = Fields::open(node, path, faults)?;
    let mode = fields.choice("mode", &MODES, faults).and_then(|mode| mode.value);
    fields.finish(faults);
    mode
}

fn ports(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<Vec<PortMode>>> {
    let (_, node) = fields.get("portLevelMtls")?;
    let pairs = fields.pairs("portLevelMtls", faults).into_iter();
    let ports = pairs.map(|(port, path, node)| PortMode { port, mode: mode(node, path, faults) }).collect();
    Some(Located::new(node.at, ports))
}
