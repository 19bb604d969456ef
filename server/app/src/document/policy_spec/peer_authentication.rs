//! Specs of PeerAuthentications.

use serde_json::{Map, Value, json};
use tributary_model::{MtlsMode, PeerAuthentication};

use super::{add, add_map};

/// Returns the spec of a PeerAuthentication.
pub(super) fn spec(policy: &PeerAuthentication) -> Value {
    let mut out = Map::new();
    if !policy.selector.is_empty() {
        let pairs = policy.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
        out.insert("selector".into(), json!({"matchLabels": pairs.collect::<Map<_, _>>()}));
    }
    add(&mut out, "mtls", policy.mode.map(|it| mode(Some(it))));
    let ports = policy.ports.iter().map(|(port, it)| (port.to_string(), mode(*it)));
    add_map(&mut out, "portLevelMtls", ports.collect());
    Value::Object(out)
}

fn mode(mode: Option<MtlsMode>) -> Value {
    json!({"mode": mode.map_or("UNSET", MtlsMode::as_str)})
}
