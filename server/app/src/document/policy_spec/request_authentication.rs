//! Specs of RequestAuthentications. A key that both signs and verifies is not shown.

use serde_json::{Map, Value, json};
use tributary_model::{RequestAuthentication, TokenKeys, TokenRule};

use super::{add, seconds};

/// Text in the place of a key that also signs.
const HIDDEN: &str = "hidden";

/// Returns the spec of a RequestAuthentication.
pub(super) fn spec(policy: &RequestAuthentication) -> Value {
    let mut out = Map::new();
    if !policy.selector.is_empty() {
        let pairs = policy.selector.pairs().map(|(label, value)| (label.to_string(), json!(**value)));
        out.insert("selector".into(), json!({"matchLabels": pairs.collect::<Map<_, _>>()}));
    }
    let rules: Vec<Value> = policy.rules.iter().map(rule).collect();
    add(&mut out, "jwtRules", (!rules.is_empty()).then(|| rules.into()));
    Value::Object(out)
}

fn rule(rule: &TokenRule) -> Value {
    let mut out = Map::new();
    let list = |of: Vec<Value>| (!of.is_empty()).then(|| Value::from(of));
    let texts = |of: &[_]| list(of.iter().map(|text: &std::sync::Arc<str>| json!(**text)).collect());
    add(&mut out, "issuer", (!rule.issuer.is_empty()).then(|| json!(*rule.issuer)));
    add(&mut out, "audiences", texts(&rule.audiences));
    match &rule.keys {
        TokenKeys::Inline(keys) => add(&mut out, "jwks", Some(shown(keys).into())),
        TokenKeys::Fetched(from) => add(&mut out, "jwksUri", Some(json!(*from.uri))),
        TokenKeys::Undeclared => {}
    }
    let headers = rule.headers.iter().map(|of| json!({"name": *of.name, "prefix": *of.prefix}));
    add(&mut out, "fromHeaders", list(headers.collect()));
    add(&mut out, "fromParams", texts(&rule.params));
    add(&mut out, "fromCookies", texts(&rule.cookies));
    add(&mut out, "forwardOriginalToken", rule.forwards.then_some(true.into()));
    add(&mut out, "outputPayloadToHeader", rule.payload_header.as_ref().map(|name| json!(**name)));
    let claims = rule.claim_headers.iter().map(|of| json!({"header": *of.header, "claim": *of.claim}));
    add(&mut out, "outputClaimToHeaders", list(claims.collect()));
    add(&mut out, "spaceDelimitedClaims", texts(&rule.spaced_claims));
    add(&mut out, "timeout", rule.timeout.map(seconds));
    Value::Object(out)
}

/// Returns keys as text, without those that also sign.
fn shown(keys: &str) -> String {
    let Ok(mut set) = serde_json::from_str::<Value>(keys) else { return HIDDEN.to_owned() };
    let all = set.get_mut("keys").and_then(Value::as_array_mut);
    for secret in all.into_iter().flatten().filter_map(|key| key.get_mut("k")) {
        *secret = HIDDEN.into();
    }
    set.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_also_sign_are_hidden() {
        let keys = r#"{"keys":[{"k":"c2VjcmV0","kty":"oct"},{"crv":"P-256","kty":"EC","x":"a","y":"b"}]}"#;
        assert_eq!(shown(keys), keys.replace("c2VjcmV0", HIDDEN));
        assert_eq!(shown("not a set"), HIDDEN);
    }
}
