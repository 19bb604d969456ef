//! Each rule of a RequestAuthentication, with a document that breaks it and nothing else.

use super::*;

const KEYS: &str = "jwks: '{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}]}'";

fn mk_tokens(spec: &str) -> String {
    let entry = mk_entry(spec).replace("kind: ServiceEntry", "kind: RequestAuthentication");
    entry.replace("networking.istio.io/v1", "security.istio.io/v1")
}

/// A policy with one rule, whose fields begin in column 5 of line 8.
fn mk_rule(fields: &[&str]) -> String {
    let lines: String = fields.iter().map(|field| format!("    {field}\n")).collect();
    mk_tokens(&format!("  jwtRules:\n  - {}", lines.trim_start()))
}

#[test]
fn every_rule_of_a_request_authentication_has_its_test() {
    let tests = include_str!("request_authentication.rs");
    for (name, _) in super::super::request_authentication::RULES {
        assert!(tests.contains(&format!("fn {name}()")), "no test is named {name}");
    }
}

#[test]
fn request_authentications_of_istio_are_taken() {
    let text = mk_rule(&[
        "issuer: https://iss.test",
        "audiences: [pay, cart]",
        "jwksUri: https://keys.test/jwks",
        "fromHeaders: [{name: x-token, prefix: \"Bearer \"}, {name: y}]",
        "fromParams: [t]",
        "fromCookies: [c]",
        "forwardOriginalToken: true",
        "outputPayloadToHeader: x-claims",
        "outputClaimToHeaders: [{header: x-group, claim: a.b}]",
        "spaceDelimitedClaims: [roles]",
        "timeout: 7s",
    ]);
    taken(&text);
    taken(&text.replace("security.istio.io/v1\n", "security.istio.io/v1beta1\n"));
    taken(&text.replace("jwksUri", "jwks_uri"));
    taken(&mk_rule(&["issuer: a", KEYS]));
    taken(&mk_rule(&["issuer: a"]));
    taken(&mk_rule(&["jwksUri: http://keys.test/"]));
    for spec in ["  {}\n", "  jwtRules: []\n", "  selector: {matchLabels: {app: pay}}\n"] {
        taken(&mk_tokens(spec));
    }
    let version = mk_tokens("  {}\n").replace("security.istio.io/v1\n", "security.istio.io/v1alpha1\n");
    refused(&version, &[(Code::UNKNOWN_KIND, 1, 13, "write security.istio.io/v1")]);
}

#[test]
fn unknown_fields_and_absent_items_are_refused() {
    refused(&mk_rule(&["issuer: a", "isuer: b"]), &[(Code::UNKNOWN_FIELD, 9, 5, "did you mean issuer?")]);
    refused(&mk_tokens("  jwtRules: [~]\n"), &[(Code::MISSING_FIELD, 7, 14, "spec.jwtRules[0] is nothing")]);
    let header = mk_rule(&["issuer: a", "fromHeaders: [~]"]);
    refused(&header, &[(Code::MISSING_FIELD, 9, 19, "spec.jwtRules[0].fromHeaders[0] is nothing")]);
}

#[test]
fn tokens_size_is_within_limits() {
    let rules = vec!["{issuer: a}"; 257].join(", ");
    let text = mk_tokens(&format!("  jwtRules: [{rules}]\n"));
    refused(&text, &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "more than 256 items")]);
    let many = format!("audiences: [{}]", vec!["a"; 257].join(", "));
    refused(&mk_rule(&["issuer: a", &many]), &[(Code::DOCUMENT_TOO_LARGE, 8, 5, "more than 256 items")]);
    let long = format!("issuer: {}", "a".repeat(4_097));
    refused(&mk_rule(&[&long]), &[(Code::DOCUMENT_TOO_LARGE, 8, 13, "more than 4096 bytes")]);
    let padded = KEYS.replace("]}'", &format!("]{}}}'", " ".repeat(60_000)));
    let rules = vec![format!("{{issuer: a, {padded}}}"); 5].join(", ");
    let text = mk_tokens(&format!("  jwtRules: [{rules}]\n"));
    refused(&text, &[(Code::DOCUMENT_TOO_LARGE, 7, 3, "longer than 262144 bytes")]);
}

#[test]
fn tokens_selector_is_valid() {
    let text = mk_tokens("  selector: {matchLabels: {\"a b\": c}}\n");
    refused(&text, &[(Code::INVALID_NAME, 7, 13, "spec.selector.matchLabels")]);
}

#[test]
fn tokens_workloads_are_selected_in_one_way() {
    let target = "targetRefs: [{kind: Service, name: a}]";
    let text = mk_tokens(&format!("  selector: {{matchLabels: {{a: b}}}}\n  {target}\n"));
    let both = (Code::VALUE_INVALID, 7, 3, "exclude each other");
    refused(&text, &[both, (Code::KIND_NOT_SERVED, 8, 16, "the policy concerns gateways")]);
    let text = mk_tokens("  targetRefs: [{kind: Pod, name: a}]\n");
    let pod = (Code::VALUE_INVALID, 7, 16, "is no target");
    refused(&text, &[pod, (Code::KIND_NOT_SERVED, 7, 16, "the policy concerns gateways")]);
}

#[test]
fn tokens_targets_concern_no_sidecar() {
    let text = mk_tokens("  targetRefs: [{kind: Service, name: a}]\n");
    warned(&text, &[(Code::KIND_NOT_SERVED, 7, 16, "spec.targetRefs[0]: the policy concerns gateways")]);
}

#[test]
fn rules_have_an_issuer_or_keys_to_fetch() {
    for fields in [&["audiences: [a]"][..], &[KEYS], &["issuer: \"\""]] {
        refused(&mk_rule(fields), &[(Code::MISSING_FIELD, 8, 5, "spec.jwtRules[0].issuer is missing")]);
    }
}

#[test]
fn inline_keys_are_read_by_envoy() {
    let text = mk_rule(&["issuer: a", "jwks: '-----BEGIN PUBLIC KEY-----'"]);
    refused(&text, &[(Code::VALUE_INVALID, 9, 11, "no valid JSON Web Key Set: it is not JSON")]);
    let text = mk_rule(&["issuer: a", "jwks: '{\"keys\": [{\"kty\": \"oct\"}]}'"]);
    refused(&text, &[(Code::VALUE_INVALID, 9, 11, "keys[0]: `k` is missing")]);
}

#[test]
fn addresses_of_keys_are_valid() {
    for address in ["ftp://keys.test/", "http://[::1]/", "http://user@keys.test/"] {
        let field = format!("jwksUri: \"{address}\"");
        refused(&mk_rule(&[&field]), &[(Code::VALUE_INVALID, 8, 14, "spec.jwtRules[0].jwksUri")]);
    }
}

#[test]
fn names_of_places_are_not_empty() {
    for (field, path) in [
        ("audiences: [\"\"]", "audiences[0]"),
        ("fromParams: [\"\"]", "fromParams[0]"),
        ("fromCookies: [\"\"]", "fromCookies[0]"),
        ("spaceDelimitedClaims: [\"\"]", "spaceDelimitedClaims[0]"),
    ] {
        let column = u32::try_from(field.find('"').unwrap()).unwrap() + 5;
        refused(&mk_rule(&["issuer: a", field]), &[(Code::MISSING_FIELD, 9, column, path)]);
    }
    let text = mk_rule(&["issuer: a", "outputClaimToHeaders: [{header: b}]"]);
    refused(&text, &[(Code::MISSING_FIELD, 9, 28, "outputClaimToHeaders[0].claim is missing")]);
}

#[test]
fn headers_of_tokens_have_names() {
    for (field, column) in [
        ("fromHeaders: [{name: \"a b\"}]", 26),
        ("fromHeaders: [{name: \":path\"}]", 26),
        ("fromHeaders: [{prefix: a}]", 19),
        ("outputClaimToHeaders: [{header: \"\", claim: a}]", 37),
        ("outputPayloadToHeader: \"a:b\"", 28),
    ] {
        let text = mk_rule(&["issuer: a", field]);
        refused(&text, &[(Code::INVALID_NAME, 9, column, "is not the name of a header")]);
    }
    let text = mk_rule(&["issuer: a", "fromHeaders: [{name: a, prefix: \"b\\n\"}]"]);
    refused(&text, &[(Code::VALUE_INVALID, 9, 37, "has a control character")]);
}

#[test]
fn headers_of_claims_have_no_tokens() {
    let claims = "outputClaimToHeaders: [{header: X-Token, claim: sub}]";
    for places in ["fromHeaders: [{name: x-token}]", "fromParams: [t]"] {
        let text = mk_rule(&["issuer: a", KEYS, places, claims]);
        if places.contains("x-token") {
            refused(
                &text,
                &[(Code::VALUE_INVALID, 11, 37, "claims into the header \"X-Token\", from which tokens")],
            );
        } else {
            taken(&text);
        }
    }
    let text = mk_rule(&["issuer: a", KEYS, "outputPayloadToHeader: Authorization"]);
    refused(&text, &[(Code::VALUE_INVALID, 10, 28, "claims into the header \"Authorization\"")]);
    taken(&mk_rule(&["issuer: a", KEYS, "fromCookies: [c]", "outputPayloadToHeader: Authorization"]));
}
