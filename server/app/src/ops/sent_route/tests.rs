//! Tests of the texts of virtual hosts and routes.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::{
    HeaderValue, HeaderValueOption, Metadata, RuntimeFractionalPercent,
};
use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier as Header;
use envoy_types::pb::envoy::config::route::v3::route_action::{
    self, ClusterSpecifier, HashPolicy, HostRewriteSpecifier, RequestMirrorPolicy, hash_policy,
};
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use envoy_types::pb::envoy::config::route::v3::*;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::FaultDelay;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault, fault_abort};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration, Struct, UInt32Value, Value};

use prost::Message as _;

use super::*;

fn mk_regex(text: &str) -> RegexMatcher {
    RegexMatcher { regex: text.into(), ..RegexMatcher::default() }
}
fn mk_string(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }
}
fn mk_header(name: &str, of: Header) -> HeaderMatcher {
    HeaderMatcher { name: name.into(), header_match_specifier: Some(of), ..HeaderMatcher::default() }
}
fn mk_forward(action: RouteAction) -> Route {
    Route { action: Some(route::Action::Route(action)), ..Route::default() }
}
fn mk_to(name: &str) -> RouteAction {
    RouteAction { cluster_specifier: Some(ClusterSpecifier::Cluster(name.into())), ..RouteAction::default() }
}
fn conditions_of(found: RouteMatch) -> Vec<String> {
    SentRoute::read(&Route { r#match: Some(found), ..Route::default() }).conditions
}

#[test]
#[expect(deprecated, reason = "gRPC clients are sent the older fields, which all their versions read")]
fn every_condition_has_a_text() {
    let paths = [
        (PathSpecifier::Prefix("/".into()), vec![]),
        (PathSpecifier::Prefix(String::new()), vec![]),
        (PathSpecifier::Prefix("/a".into()), vec!["path /a*"]),
        (PathSpecifier::Path("/a".into()), vec!["path /a"]),
        (PathSpecifier::SafeRegex(mk_regex("/a.*")), vec!["path ~ /a.*"]),
        (PathSpecifier::SafeRegex(mk_regex(".*")), vec![]),
        (PathSpecifier::PathSeparatedPrefix("/a".into()), vec!["path /a or /a/*"]),
    ];
    for (path, want) in paths {
        assert_eq!(conditions_of(RouteMatch { path_specifier: Some(path), ..RouteMatch::default() }), want);
    }
    let text = |pattern| Header::StringMatch(mk_string(pattern));
    let headers = vec![
        mk_header(":method", text(MatchPattern::Exact("GET".into()))),
        mk_header(":authority", text(MatchPattern::Prefix("a.test:".into()))),
        mk_header(":authority", Header::PrefixMatch("b.test:".into())),
        mk_header(":authority", text(MatchPattern::Prefix("c.test".into()))),
        mk_header("x-a", text(MatchPattern::Prefix("1".into()))),
        mk_header("x-b", Header::PresentMatch(true)),
        HeaderMatcher { invert_match: true, ..mk_header("x-c", Header::PresentMatch(true)) },
        HeaderMatcher {
            invert_match: true,
            ..mk_header("x-d", text(MatchPattern::SafeRegex(mk_regex("z"))))
        },
        HeaderMatcher { invert_match: true, ..mk_header("x-e", text(MatchPattern::Prefix("1".into()))) },
        HeaderMatcher { invert_match: true, ..mk_header("x-f", Header::PresentMatch(false)) },
        HeaderMatcher {
            invert_match: true,
            ..mk_header(":authority", text(MatchPattern::Prefix("d.test:".into())))
        },
    ];
    let query = QueryParameterMatcher {
        name: "q".into(),
        query_parameter_match_specifier: Some(
            query_parameter_matcher::QueryParameterMatchSpecifier::StringMatch(mk_string(
                MatchPattern::Exact("1".into()),
            )),
        ),
    };
    let found = RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/A".into())),
        case_sensitive: Some(BoolValue { value: false }),
        headers,
        query_parameters: vec![query],
        grpc: Some(route_match::GrpcRouteMatchOptions {}),
        ..RouteMatch::default()
    };
    assert_eq!(
        conditions_of(found),
        [
            "path /A* in any case",
            "method = GET",
            "host a.test with any port",
            "host b.test with any port",
            "host = c.test*",
            "header x-a = 1*",
            "header x-b exists",
            "header x-c does not exist",
            "header x-d !~ z",
            "header x-e != 1*",
            "header x-f exists",
            "host != d.test with any port",
            "query q = 1",
            "a request of gRPC",
        ]
    );
}

#[test]
fn weights_are_shares_of_their_sum() {
    let of = |name: &str, weight| ClusterWeight {
        name: name.into(),
        weight: Some(UInt32Value { value: weight }),
        ..ClusterWeight::default()
    };
    let clusters = vec![of("a", 2), of("b", 1), of("c", 0)];
    let all = WeightedCluster { clusters, ..WeightedCluster::default() };
    let cluster_specifier = Some(ClusterSpecifier::WeightedClusters(all));
    let route = SentRoute::read(&mk_forward(RouteAction { cluster_specifier, ..RouteAction::default() }));
    assert_eq!(route.action.to_string(), "66.6666 % a, 33.3333 % b, 0 % c");
    assert_eq!(route.action.clusters().collect::<Vec<_>>(), ["a", "b"], "c receives nothing");
    assert_eq!(SentRoute::read(&mk_forward(mk_to("a"))).action.to_string(), "a");
}

#[test]
fn redirects_and_answers_are_described() {
    use redirect_action::{PathRewriteSpecifier, SchemeRewriteSpecifier};
    let redirect = RedirectAction {
        host_redirect: "b.test".into(),
        port_redirect: 8443,
        response_code: 4,
        scheme_rewrite_specifier: Some(SchemeRewriteSpecifier::SchemeRedirect("https".into())),
        path_rewrite_specifier: Some(PathRewriteSpecifier::PathRedirect("/new".into())),
        ..RedirectAction::default()
    };
    let read =
        |action| SentRoute::read(&Route { action: Some(action), ..Route::default() }).action.to_string();
    assert_eq!(
        read(route::Action::Redirect(redirect)),
        "redirect 308 to scheme https, host b.test, port 8443, path /new"
    );
    let answer = DirectResponseAction { status: 503, ..DirectResponseAction::default() };
    assert_eq!(read(route::Action::DirectResponse(answer)), "answer 503");
}

#[test]
fn settings_of_a_route_are_named() {
    let share = FractionalPercent { numerator: 50_000, denominator: 2 };
    let runtime_fraction =
        Some(RuntimeFractionalPercent { default_value: Some(share), ..RuntimeFractionalPercent::default() });
    let retries = RetryPolicy {
        retry_on: "5xx".into(),
        num_retries: Some(UInt32Value { value: 3 }),
        per_try_timeout: Some(Duration { seconds: 0, nanos: 250_000_000 }),
        ..RetryPolicy::default()
    };
    let header = hash_policy::Header { header_name: "x-user".into(), ..hash_policy::Header::default() };
    let action = RouteAction {
        timeout: Some(Duration { seconds: 5, nanos: 0 }),
        retry_policy: Some(retries),
        prefix_rewrite: "/v2".into(),
        host_rewrite_specifier: Some(HostRewriteSpecifier::HostRewriteLiteral("b.test".into())),
        request_mirror_policies: vec![RequestMirrorPolicy {
            cluster: "m".into(),
            runtime_fraction,
            ..RequestMirrorPolicy::default()
        }],
        hash_policy: vec![HashPolicy {
            policy_specifier: Some(hash_policy::PolicySpecifier::Header(header)),
            ..HashPolicy::default()
        }],
        ..mk_to("a")
    };
    let value = HeaderValue { key: "x".into(), value: "1".into(), ..HeaderValue::default() };
    let route = Route {
        request_headers_to_add: vec![HeaderValueOption {
            header: Some(value),
            ..HeaderValueOption::default()
        }],
        response_headers_to_remove: vec!["y".into()],
        typed_per_filter_config: HashMap::from([("envoy.filters.http.fault".to_owned(), Any::default())]),
        ..mk_forward(action)
    };
    assert_eq!(
        SentRoute::read(&route).settings,
        [
            "timeout 5 s",
            "3 retries of 250 ms each on 5xx",
            "path becomes /v2*",
            "host becomes b.test",
            "copies of 5 % to m",
            "endpoint by header x-user",
            "request headers x=1",
            "response headers -y",
            "faults",
        ]
    );
    let faults = |percentage: Option<FractionalPercent>| {
        let delay = FaultDelay { percentage, ..FaultDelay::default() };
        let fault = HttpFault { delay: Some(delay), ..HttpFault::default() };
        let type_url = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault".to_owned();
        let config = Any { type_url, value: fault.encode_to_vec() };
        let of = HashMap::from([("envoy.filters.http.fault".to_owned(), config)]);
        SentRoute::read(&Route { typed_per_filter_config: of, ..mk_forward(mk_to("a")) }).settings
    };
    assert_eq!(faults(Some(FractionalPercent { numerator: 1, denominator: 0 })), ["delay for 1 %"]);
    assert_eq!(faults(Some(FractionalPercent::default())), [""; 0], "no request has them");
    assert_eq!(faults(None), [""; 0]);
    let exact = |path| {
        let found = RouteMatch { path_specifier: Some(path), ..RouteMatch::default() };
        let action = RouteAction { prefix_rewrite: "/v2".into(), ..mk_to("a") };
        SentRoute::read(&Route { r#match: Some(found), ..mk_forward(action) }).settings
    };
    assert_eq!(exact(PathSpecifier::Path("/a".into())), ["path becomes /v2"]);
    assert_eq!(exact(PathSpecifier::Prefix("/a".into())), ["path becomes /v2*"]);
    let max = route_action::MaxStreamDuration {
        max_stream_duration: Some(Duration { seconds: 2, nanos: 0 }),
        ..route_action::MaxStreamDuration::default()
    };
    let grpc = RouteAction { max_stream_duration: Some(max), ..mk_to("a") };
    assert_eq!(SentRoute::read(&mk_forward(grpc)).settings, ["timeout 2 s"], "as gRPC reads it");
}

#[test]
fn fault_that_answers_every_request_takes_the_place_of_the_action() {
    let read = |numerator: u32| {
        let percentage = Some(FractionalPercent { numerator, denominator: 0 });
        let abort = FaultAbort {
            percentage,
            error_type: Some(fault_abort::ErrorType::HttpStatus(418)),
            ..FaultAbort::default()
        };
        let fault = HttpFault { abort: Some(abort), ..HttpFault::default() };
        let type_url = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault".to_owned();
        let config = Any { type_url, value: fault.encode_to_vec() };
        let of = HashMap::from([("envoy.filters.http.fault".to_owned(), config)]);
        let mirror = route_action::RequestMirrorPolicy { cluster: "m".into(), ..Default::default() };
        let action = RouteAction { request_mirror_policies: vec![mirror], ..mk_to("a") };
        let route = SentRoute::read(&Route { typed_per_filter_config: of, ..mk_forward(action) });
        let receivers: Vec<&str> = route.receivers().collect();
        (route.action.to_string(), receivers.join(" "), route.settings.join(", "))
    };
    let want = |action: &str, receivers: &str, settings: &str| {
        (action.to_owned(), receivers.to_owned(), settings.to_owned())
    };
    assert_eq!(read(50), want("a", "a m", "copies of 100 % to m, answer 418 for 50 %"));
    assert_eq!(read(100), want("answer 418 by a fault", "", "answer 418 for 100 %"), "nothing is copied");
    assert_eq!(read(0), want("a", "a m", "copies of 100 % to m"));
}

#[test]
fn metadata_names_the_virtual_service() {
    let of = |path: &str, delegate: &str| {
        let text = |text: &str| Value { kind: Some(Kind::StringValue(text.into())) };
        let one = |field: &str, value| Struct { fields: HashMap::from([(field.to_owned(), text(value))]) };
        let keys = [("istio", one("config", path)), ("tributary.dev", one("delegate", delegate))];
        let filter_metadata = keys.map(|(key, of)| (key.to_owned(), of)).into();
        let metadata = Some(Metadata { filter_metadata, ..Metadata::default() });
        let read = SentRoute::read(&Route { metadata, ..Route::default() });
        (read.rule.map(|key| key.to_string()), read.delegate.map(|key| key.to_string()))
    };
    let (rule, delegate) =
        of("/apis/networking.istio.io/v1/namespaces/shop/virtual-service/pay", "team/cart");
    assert_eq!(rule.as_deref(), Some("VirtualService shop/pay"));
    assert_eq!(delegate.as_deref(), Some("VirtualService team/cart"));
    assert_eq!(of("/apis/x", "cart"), (None, None));
}

#[test]
fn host_is_that_which_envoy_chooses() {
    let host = |name: &str, domains: &[&str]| SentHost {
        name: name.into(),
        domains: domains.iter().map(|&domain| domain.to_owned()).collect(),
        routes: Vec::new(),
    };
    let hosts = [
        host("rest", &["*"]),
        host("wide", &["*.test"]),
        host("narrow", &["*.shop.test"]),
        host("own", &["pay.shop.test", "10.0.0.1"]),
    ];
    let chosen = |name: &str| host_for(&hosts, name).map(|of| of.name.as_str());
    assert_eq!(chosen("pay.shop.test"), Some("own"));
    assert_eq!(chosen("PAY.shop.test"), Some("own"));
    assert_eq!(chosen("a.shop.test"), Some("narrow"));
    assert_eq!(chosen("a.test"), Some("wide"));
    assert_eq!(chosen("other"), Some("rest"));
    assert_eq!(host_for(&hosts[1..], "other"), None);
}
