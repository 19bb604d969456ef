//! The filter that checks tokens of requests (docs/reference/xds.md#inbound-connections).
//!
//! `listener` calls it for the filter chains of inbound connections with HTTP. Names and meaning are Istio's: a request without a
//! token passes, and one with a token that no rule accepts is refused. The claims of a valid token are metadata, which the filters
//! of `authorization` compare.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::http_uri::HttpUpstreamType;
use envoy_types::pb::envoy::config::core::v3::{DataSource, HttpUri, data_source::Specifier};
use envoy_types::pb::envoy::config::route::v3::{RouteMatch, route_match::PathSpecifier};
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::{
    JwtAuthentication, JwtClaimToHeader, JwtHeader, JwtProvider, JwtRequirement, JwtRequirementAndList,
    JwtRequirementOrList, RemoteJwks, RequirementRule,
    jwt_provider::{JwksSourceSpecifier, NormalizePayload},
    jwt_requirement::RequiresType,
    requirement_rule::RequirementType,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::google::protobuf::{Any, Empty};
use prost::{Message, Name};
use tributary_answer::{AppliedAuthorization, AuthorizationChain, ClusterName, TokenChecks, names};
use tributary_model::{AuthorizationAction, AuthorizationRule, PolicyKey, TokenKeys, TokenRule};
use tributary_proto::wire::Writer;

use super::listener::http_filter;
use super::{authorization, duration};

/// Name of the filter, under which it stores the claims of a valid token.
pub(super) const FILTER: &str = "envoy.filters.http.jwt_authn";
/// Key of the claims.
pub(super) const PAYLOAD: &str = "payload";
/// Claims whose texts are lists that spaces separate.
const SPACED: [&str; 2] = ["permission", "scope"];
/// How long fetched keys are used.
const KEPT: Duration = Duration::from_secs(300);
/// Address of keys that are nowhere; it leads to no endpoint.
const NOWHERE: &str = "http://undeclared.invalid/";

/// Returns the filters that check tokens, in order. A policy of which no version is valid refuses every request.
pub(super) fn http_filters(checks: &TokenChecks) -> Vec<HttpFilter> {
    let mut filters = refusal(&checks.refusing);
    if !checks.rules.is_empty() {
        filters.push(http_filter(FILTER, config(&checks.rules)));
    }
    filters
}

fn refusal(refusing: &[PolicyKey]) -> Vec<HttpFilter> {
    let policies = refusing.iter().map(|key| AppliedAuthorization {
        key: key.clone(),
        action: AuthorizationAction::Deny,
        is_dry_run: false,
        rules: [AuthorizationRule::default()].into(),
    });
    authorization::http_filters(&AuthorizationChain { policies: policies.collect() }, &[])
}

/// Envoy's own map of providers has no order, so they are written apart.
fn config(rules: &[TokenRule]) -> Any {
    let mut wire = Writer::new();
    let places: BTreeSet<String> = rules.iter().flat_map(places).collect();
    for (at, rule) in rules.iter().enumerate() {
        wire.message(1, |w| {
            w.string(1, &provider_name(at));
            w.present(2, provider(rule, &places).encode_to_vec());
        });
    }
    let everything =
        RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..RouteMatch::default() };
    let rule = RequirementRule {
        r#match: Some(everything),
        requirement_type: Some(RequirementType::Requires(requirement(rules.len()))),
    };
    let rest =
        JwtAuthentication { rules: vec![rule], bypass_cors_preflight: true, ..JwtAuthentication::default() };
    let mut value = wire.finish();
    value.extend(rest.encode_to_vec());
    Any { type_url: JwtAuthentication::type_url(), value }
}

fn provider_name(at: usize) -> String {
    format!("origins-{at}")
}

/// Returns what requests must have: a token that a provider accepts, or no token for each of them. Without the first part a token
/// would have to be accepted by all providers that look where it is.
fn requirement(providers: usize) -> JwtRequirement {
    let of = |requires| JwtRequirement { requires_type: Some(requires) };
    let any = |requirements| of(RequiresType::RequiresAny(JwtRequirementOrList { requirements }));
    let provider = |at| of(RequiresType::ProviderName(provider_name(at)));
    let or_missing = |at| any(vec![provider(at), of(RequiresType::AllowMissing(Empty {}))]);
    let mut each: Vec<JwtRequirement> = (0..providers).map(or_missing).collect();
    if each.len() == 1
        && let Some(only) = each.pop()
    {
        return only;
    }
    let all = of(RequiresType::RequiresAll(JwtRequirementAndList { requirements: each }));
    any((0..providers).map(provider).chain([all]).collect())
}

/// Returns the headers from which a rule reads tokens, in lower case.
fn places(rule: &TokenRule) -> Vec<String> {
    let has_none = rule.headers.is_empty() && rule.params.is_empty() && rule.cookies.is_empty();
    let usual = has_none.then(|| "authorization".to_owned());
    rule.headers.iter().map(|of| of.name.to_ascii_lowercase()).chain(usual).collect()
}

/// Returns the provider of a rule. Headers of claims are left out if some rule reads tokens from them: Envoy would remove them first,
/// find no token, and let the request pass.
fn provider(rule: &TokenRule, places: &BTreeSet<String>) -> JwtProvider {
    let is_free = |header: &str| !places.contains(&header.to_ascii_lowercase());
    let texts = |of: &[Arc<str>]| of.iter().map(|text| text.to_string()).collect::<Vec<_>>();
    let headers = rule
        .headers
        .iter()
        .map(|of| JwtHeader { name: of.name.to_string(), value_prefix: of.prefix.to_string() });
    let claims = rule.claim_headers.iter().filter(|of| is_free(&of.header));
    let claims = claims.map(|of| JwtClaimToHeader {
        header_name: of.header.to_string(),
        claim_name: of.claim.to_string(),
        ..JwtClaimToHeader::default()
    });
    JwtProvider {
        issuer: rule.issuer.to_string(),
        audiences: texts(&rule.audiences),
        forward: rule.forwards,
        from_headers: headers.collect(),
        from_params: texts(&rule.params),
        from_cookies: texts(&rule.cookies),
        forward_payload_header: rule
            .payload_header
            .as_deref()
            .filter(|header| is_free(header))
            .unwrap_or_default()
            .to_owned(),
        claim_to_headers: claims.collect(),
        payload_in_metadata: PAYLOAD.into(),
        normalize_payload_in_metadata: Some(NormalizePayload { space_delimited_claims: spaced(rule) }),
        jwks_source_specifier: Some(keys(rule)),
        ..JwtProvider::default()
    }
}

fn spaced(rule: &TokenRule) -> Vec<String> {
    let mut all: Vec<&str> = rule.spaced_claims.iter().map(|name| &**name).chain(SPACED).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(str::to_owned).collect()
}

/// Returns where the filter has its keys. It looks up the xDS cluster for each fetch, so that one that the client lacks, or gets
/// later, needs no other listener; without keys tokens are refused.
fn keys(rule: &TokenRule) -> JwksSourceSpecifier {
    let (uri, cluster) = match &rule.keys {
        TokenKeys::Inline(keys) => {
            let specifier = Some(Specifier::InlineString(keys.to_string()));
            return JwksSourceSpecifier::LocalJwks(DataSource { specifier, ..DataSource::default() });
        }
        TokenKeys::Fetched(from) => {
            (from.uri.to_string(), ClusterName::new(from.port, &from.host).to_string())
        }
        TokenKeys::Undeclared => (NOWHERE.to_owned(), names::BLACK_HOLE.to_owned()),
    };
    let http_uri = HttpUri {
        uri,
        http_upstream_type: Some(HttpUpstreamType::Cluster(cluster)),
        timeout: Some(duration(rule.timeout.unwrap_or(TokenRule::TIMEOUT))),
    };
    JwksSourceSpecifier::RemoteJwks(RemoteJwks {
        http_uri: Some(http_uri),
        cache_duration: Some(duration(KEPT)),
        ..RemoteJwks::default()
    })
}

#[cfg(test)]
mod tests;
