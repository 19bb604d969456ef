//! Conversion of RequestAuthentications to policies.

use super::*;

const KEYS: &str = "{\"keys\":[{\"k\":\"c2VjcmV0\",\"kty\":\"oct\"}]}";

fn all(spec: &str) -> Vec<Fact> {
    let text = mk("RequestAuthentication", "", spec).replace("networking.istio.io", "security.istio.io");
    facts(&text)
}

fn policy(spec: &str) -> RequestAuthentication {
    let facts = all(spec);
    let [Fact::Policy(key, declared)] = &facts[..] else { panic!("{facts:?}") };
    assert_eq!(key.to_string(), "RequestAuthentication shop/pay");
    assert_eq!(declared.source.object, ObjectId::new("RequestAuthentication", "shop", "pay"));
    let Policy::RequestAuthentication(policy) = &declared.policy else { panic!("another kind") };
    policy.clone()
}

fn one(fields: &str) -> TokenRule {
    let policy = policy(&format!("  jwtRules: [{{{fields}}}]\n"));
    let [rule] = &*policy.rules else { panic!("{policy:?}") };
    rule.clone()
}

fn texts(of: &[&str]) -> Arc<[Arc<str>]> {
    of.iter().map(|text| Arc::from(*text)).collect()
}

#[test]
fn fields_of_a_rule_on_tokens_are_kept() {
    let rule = one(
        "issuer: a, audiences: [b], jwksUri: \"https://Keys.test:8443/c\", fromHeaders: [{name: d, prefix: e}], fromParams: [f], fromCookies: [g], forwardOriginalToken: true, outputPayloadToHeader: h, outputClaimToHeaders: [{header: i, claim: j}], spaceDelimitedClaims: [k], timeout: 7s",
    );
    let from = KeysUri {
        uri: "https://Keys.test:8443/c".into(),
        is_tls: true,
        host: Hostname::new("keys.test").unwrap(),
        port: PortNumber::new(8443).unwrap(),
    };
    let want = TokenRule {
        issuer: "a".into(),
        audiences: texts(&["b"]),
        keys: TokenKeys::Fetched(from),
        headers: [TokenHeader { name: "d".into(), prefix: "e".into() }].into(),
        params: texts(&["f"]),
        cookies: texts(&["g"]),
        forwards: true,
        payload_header: Some("h".into()),
        claim_headers: [ClaimHeader { header: "i".into(), claim: "j".into() }].into(),
        spaced_claims: texts(&["k"]),
        timeout: Some(std::time::Duration::from_secs(7)),
    };
    assert_eq!(rule, want);
}

#[test]
fn keys_are_inline_fetched_or_undeclared() {
    assert_eq!(one("issuer: a").keys, TokenKeys::Undeclared);
    assert_eq!(one(&format!("issuer: a, jwks: '{KEYS}'")).keys, TokenKeys::Inline(KEYS.into()));
    let TokenKeys::Fetched(from) = one("jwks_uri: \"http://old.test/\"").keys else { panic!("not fetched") };
    assert_eq!((from.to_string(), from.is_tls), ("old.test:80".to_owned(), false));
}

#[test]
fn what_has_no_effect_beside_keys_is_ignored() {
    let both = policy(&format!("  jwtRules: [{{issuer: a, jwks: '{KEYS}', jwksUri: \"http://b/\"}}]\n"));
    assert_eq!(both.rules[0].keys, TokenKeys::Inline(KEYS.into()));
    assert_eq!(both.ignored, texts(&["spec.jwtRules[0].jwksUri"]));
    let names = policy("  jwtRules: [{jwksUri: \"http://b/\", jwks_uri: \"http://c/\"}]\n");
    assert_eq!(names.ignored, texts(&["spec.jwtRules[0].jwks_uri"]));
    let other = KEYS.replace("]", ",{\"kty\":\"oct\",\"use\":\"enc\"}]");
    let unused = policy(&format!("  jwtRules: [{{issuer: a, jwks: '{other}'}}]\n"));
    assert_eq!(unused.rules[0].keys, TokenKeys::Inline(KEYS.into()));
    assert_eq!(unused.ignored, texts(&["spec.jwtRules[0].jwks.keys[1]"]));
    assert_eq!(policy("  selector: {}\n").ignored, texts(&["spec.selector"]));
}

#[test]
fn policy_on_tokens_with_a_target_has_no_facts() {
    let text = mk("RequestAuthentication", "", "  targetRefs: [{kind: Service, name: a}]\n")
        .replace("networking.istio.io", "security.istio.io");
    let load = load_str(&text, "f.yaml");
    let all: Vec<Fact> = load.documents.iter().flat_map(|object| convert(object, &mk_context())).collect();
    assert!(load.documents.len() == 1 && all.is_empty(), "{all:?}");
}
