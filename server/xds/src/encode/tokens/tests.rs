//! The filter that checks tokens, for rules of every form.

use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_filter::ConfigType;
use tributary_fixtures::{mk_host, mk_ns, mk_port, mk_token_rule};
use tributary_model::{ClaimHeader, KeysUri, PolicyKind, TokenHeader};

use super::*;

const KEYS: &str = r#"{"keys":[{"k":"c2VjcmV0","kty":"oct"}]}"#;

fn mk_checks(rules: &[TokenRule]) -> TokenChecks {
    TokenChecks { rules: rules.into(), refusing: Arc::default() }
}
fn mk_inline(issuer: &str) -> TokenRule {
    mk_token_rule(issuer, TokenKeys::Inline(KEYS.into()))
}
fn read(checks: &TokenChecks) -> JwtAuthentication {
    let filters = http_filters(checks);
    let [filter] = &filters[..] else { panic!("{filters:?}") };
    assert_eq!(filter.name, FILTER);
    let Some(ConfigType::TypedConfig(any)) = &filter.config_type else { panic!("no configuration") };
    assert_eq!(any.type_url, JwtAuthentication::type_url());
    JwtAuthentication::decode(&any.value[..]).unwrap()
}

fn shown(of: &JwtRequirement) -> String {
    let all = |of: &[JwtRequirement]| of.iter().map(shown).collect::<Vec<_>>().join(", ");
    match of.requires_type.as_ref().unwrap() {
        RequiresType::ProviderName(name) => name.clone(),
        RequiresType::AllowMissing(_) => "missing".to_owned(),
        RequiresType::RequiresAny(of) => format!("any({})", all(&of.requirements)),
        RequiresType::RequiresAll(of) => format!("all({})", all(&of.requirements)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_rule_must_accept_a_token_and_none_may_be_missing() {
    let required = |rules: &[TokenRule]| {
        let config = read(&mk_checks(rules));
        let [rule] = &config.rules[..] else { panic!("{config:?}") };
        let matched = rule.r#match.as_ref().and_then(|of| of.path_specifier.clone());
        assert_eq!(matched, Some(PathSpecifier::Prefix("/".into())));
        assert!(config.bypass_cors_preflight);
        let Some(RequirementType::Requires(of)) = &rule.requirement_type else { panic!("{rule:?}") };
        shown(of)
    };
    assert_eq!(required(&[mk_inline("a")]), "any(origins-0, missing)");
    assert_eq!(
        required(&[mk_inline("a"), mk_inline("b")]),
        "any(origins-0, origins-1, all(any(origins-0, missing), any(origins-1, missing)))"
    );
}

#[test]
fn fields_of_a_rule_become_those_of_its_provider() {
    let rule = TokenRule {
        audiences: ["x".into(), "y".into()].into(),
        headers: [TokenHeader { name: "x-token".into(), prefix: "Bearer ".into() }].into(),
        params: ["t".into()].into(),
        cookies: ["c".into()].into(),
        forwards: true,
        payload_header: Some("x-claims".into()),
        claim_headers: [ClaimHeader { header: "x-group".into(), claim: "a.b".into() }].into(),
        spaced_claims: ["roles".into(), "scope".into()].into(),
        ..mk_inline("iss")
    };
    let config = read(&mk_checks(&[rule]));
    let found = &config.providers["origins-0"];
    assert_eq!((&*found.issuer, &found.audiences[..]), ("iss", &["x".to_owned(), "y".to_owned()][..]));
    let header = &found.from_headers[0];
    assert_eq!((&*header.name, &*header.value_prefix), ("x-token", "Bearer "));
    assert_eq!((&found.from_params[0][..], &found.from_cookies[0][..]), ("t", "c"));
    assert!(found.forward && found.forward_payload_header == "x-claims");
    let claim = &found.claim_to_headers[0];
    assert_eq!((&*claim.header_name, &*claim.claim_name), ("x-group", "a.b"));
    assert_eq!(found.payload_in_metadata, "payload");
    let spaced = found.normalize_payload_in_metadata.as_ref().unwrap();
    assert_eq!(spaced.space_delimited_claims, ["permission", "roles", "scope"]);
    let keys = Specifier::InlineString(KEYS.into());
    let local = DataSource { specifier: Some(keys), ..DataSource::default() };
    assert_eq!(found.jwks_source_specifier, Some(JwksSourceSpecifier::LocalJwks(local)));
    let plain = &read(&mk_checks(&[mk_inline("")])).providers["origins-0"];
    assert!(plain.issuer.is_empty() && plain.from_headers.is_empty() && !plain.forward);
}

#[test]
fn keys_are_fetched_through_the_cluster_of_their_host() {
    let fetched = |rule: TokenRule| {
        let config = read(&mk_checks(&[rule]));
        let Some(JwksSourceSpecifier::RemoteJwks(keys)) =
            config.providers["origins-0"].jwks_source_specifier.clone()
        else {
            panic!("{config:?}")
        };
        assert_eq!((keys.cache_duration.unwrap().seconds, &keys.async_fetch), (300, &None));
        let uri = keys.http_uri.unwrap();
        let Some(HttpUpstreamType::Cluster(cluster)) = uri.http_upstream_type else { panic!("no cluster") };
        (uri.uri, cluster, uri.timeout.unwrap().seconds)
    };
    let uri = "https://keys.test/jwks";
    let from = KeysUri { uri: uri.into(), is_tls: true, host: mk_host("keys.test"), port: mk_port(443) };
    let rule = mk_token_rule("iss", TokenKeys::Fetched(from));
    let cluster = "outbound|443||keys.test".to_owned();
    assert_eq!(fetched(rule.clone()), (uri.to_owned(), cluster.clone(), 5));
    let timeout = Some(Duration::from_secs(9));
    assert_eq!(fetched(TokenRule { timeout, ..rule }), (uri.to_owned(), cluster, 9));
    let undeclared = mk_token_rule("iss", TokenKeys::Undeclared);
    assert_eq!(fetched(undeclared), (NOWHERE.to_owned(), "BlackHoleCluster".to_owned(), 5));
}

#[test]
fn policy_without_a_valid_version_refuses_before_tokens_are_checked() {
    let key =
        PolicyKey { kind: PolicyKind::RequestAuthentication, namespace: mk_ns("shop"), name: "pay".into() };
    let checks = TokenChecks { rules: [mk_inline("a")].into(), refusing: [key].into() };
    let filters = http_filters(&checks);
    let names: Vec<&str> = filters.iter().map(|filter| &*filter.name).collect();
    assert_eq!(names, ["envoy.filters.http.rbac", FILTER]);
    let text = format!("{:?}", filters[0]);
    let rbac = filters[0].encode_to_vec();
    let rule = b"ns[shop]-policy[pay]-rule[0]";
    assert!(rbac.windows(rule.len()).any(|part| part == rule), "{text}");
    assert_eq!(http_filters(&TokenChecks { rules: Arc::default(), ..checks }).len(), 1);
}

#[test]
fn equal_rules_give_equal_bytes() {
    let rules: Vec<TokenRule> = (0..20).map(|n| mk_inline(&format!("iss{n:02}"))).collect();
    let bytes =
        || http_filters(&mk_checks(&rules)).iter().flat_map(Message::encode_to_vec).collect::<Vec<_>>();
    let first = bytes();
    assert_eq!(first, bytes());
    let at = |issuer: &str| first.windows(issuer.len()).position(|part| part == issuer.as_bytes());
    assert!(rules.iter().map(|rule| at(&rule.issuer)).is_sorted());
}

#[test]
fn header_of_claims_from_which_another_rule_reads_tokens_is_left_out() {
    let claim = |header: &str| ClaimHeader { header: header.into(), claim: "sub".into() };
    let first = TokenRule {
        payload_header: Some("Authorization".into()),
        claim_headers: [claim("X-Token"), claim("x-sub")].into(),
        params: ["t".into()].into(),
        ..mk_inline("a")
    };
    let headers = [TokenHeader { name: "x-token".into(), prefix: "".into() }].into();
    let config = read(&mk_checks(&[first, mk_inline("b"), TokenRule { headers, ..mk_inline("c") }]));
    let provider = &config.providers["origins-0"];
    assert_eq!(provider.forward_payload_header, "");
    let left: Vec<&str> = provider.claim_to_headers.iter().map(|of| &*of.header_name).collect();
    assert_eq!(left, ["x-sub"]);
}
