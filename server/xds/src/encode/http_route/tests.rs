//! Routes as Envoy and gRPC read them, one test for each part of a VirtualService.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::route::v3 as pb;
use envoy_types::pb::envoy::extensions::filters::http::{cors::v3 as cors_pb, fault::v3 as fault_pb};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::google::protobuf;
use pb::header_matcher::HeaderMatchSpecifier;
use pb::query_parameter_matcher::QueryParameterMatchSpecifier;
use pb::route::Action;
use pb::route_match::PathSpecifier;
use prost::Message;
use tributary_answer::http_route::{Forward, RouteAction, Targets, WeightedTarget};
use tributary_answer::{ClusterName, RoutePlan};
use tributary_model::*;

use super::{Dialect, Writer, write};

mod accepted;
mod metadata;

fn mk_cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}
fn mk_forward() -> Forward {
    Forward {
        targets: Targets::One(mk_cluster("outbound|80||b.test")),
        path: None,
        authority: None,
        timeout: None,
        retries: None,
        mirrors: Vec::new(),
        hash: Vec::new(),
    }
}
fn mk_plan(action: RouteAction) -> RoutePlan {
    let found = HttpMatch::default();
    RoutePlan {
        name: "r".into(),
        found,
        action,
        headers: Vec::new(),
        fault: None,
        cors: None,
        delegate: None,
    }
}
fn mk_found(found: HttpMatch) -> RoutePlan {
    RoutePlan { found, ..mk_plan(RouteAction::Forward(mk_forward())) }
}
fn mk_rule(namespace: &str, name: &str) -> PolicyKey {
    let namespace = Namespace::new(namespace).unwrap();
    PolicyKey { kind: PolicyKind::VirtualService, namespace, name: name.into() }
}
fn encoded(plan: &RoutePlan, dialect: Dialect) -> pb::Route {
    let mut wire = Writer::new();
    write(&mut wire, plan, Some(&mk_rule("shop", "pay")), dialect);
    pb::Route::decode(&wire.finish()[..]).unwrap()
}
fn forwarded(forward: Forward, dialect: Dialect) -> pb::RouteAction {
    match encoded(&mk_plan(RouteAction::Forward(forward)), dialect).action {
        Some(Action::Route(action)) => action,
        other => panic!("{other:?}"),
    }
}
fn matched(found: HttpMatch, dialect: Dialect) -> pb::RouteMatch {
    encoded(&mk_found(found), dialect).r#match.unwrap()
}
fn text(text: &str) -> Arc<str> {
    text.into()
}
fn pairs<const N: usize>(all: [(&str, &str); N]) -> Arc<[(Arc<str>, Arc<str>)]> {
    all.map(|(name, value)| (text(name), text(value))).into()
}
/// Returns a text condition in short: `=1`, `1*`, `/1/`, or `any`.
fn short(pattern: Option<MatchPattern>) -> String {
    match pattern {
        Some(MatchPattern::Exact(text)) => format!("={text}"),
        Some(MatchPattern::Prefix(text)) => format!("{text}*"),
        Some(MatchPattern::SafeRegex(pattern)) => format!("/{}/", pattern.regex),
        other => format!("{other:?}"),
    }
}
/// Returns the conditions on headers in short: `!` inverts, `?` takes a missing header for an empty one.
fn headers(found: HttpMatch, dialect: Dialect) -> Vec<String> {
    let one = |header: pb::HeaderMatcher| {
        let condition = match header.header_match_specifier {
            Some(HeaderMatchSpecifier::PresentMatch(true)) => "any".to_owned(),
            Some(HeaderMatchSpecifier::StringMatch(text)) => short(text.match_pattern),
            #[expect(deprecated)] // gRPC reads these
            Some(HeaderMatchSpecifier::ExactMatch(text)) => format!("old ={text}"),
            #[expect(deprecated)]
            Some(HeaderMatchSpecifier::PrefixMatch(text)) => format!("old {text}*"),
            #[expect(deprecated)]
            Some(HeaderMatchSpecifier::SafeRegexMatch(pattern)) => format!("old /{}/", pattern.regex),
            other => panic!("{other:?}"),
        };
        let invert = if header.invert_match { "!" } else { "" };
        let missing = if header.treat_missing_header_as_empty { "?" } else { "" };
        format!("{} {invert}{missing}{condition}", header.name)
    };
    matched(found, dialect).headers.into_iter().map(one).collect()
}
fn conditions<const N: usize>(all: [(&str, TextMatch); N]) -> Arc<[(Arc<str>, TextMatch)]> {
    all.map(|(name, condition)| (text(name), condition)).into()
}
fn exact(value: &str) -> TextMatch {
    TextMatch::Exact(value.into())
}
fn prefix(value: &str) -> TextMatch {
    TextMatch::Prefix(value.into())
}
fn regex(value: &str) -> TextMatch {
    TextMatch::Regex(value.into())
}

#[test]
fn path_is_any_exact_a_prefix_or_a_pattern() {
    let pattern = |regex: &str| PathSpecifier::SafeRegex(mk_regex(regex));
    let cases = [
        (None, PathSpecifier::Prefix("/".into()), PathSpecifier::Prefix(String::new())),
        (Some(exact("/a")), PathSpecifier::Path("/a".into()), PathSpecifier::Path("/a".into())),
        (Some(prefix("/a")), PathSpecifier::Prefix("/a".into()), PathSpecifier::Prefix("/a".into())),
        (Some(prefix("")), PathSpecifier::Prefix(String::new()), PathSpecifier::Prefix(String::new())),
        (Some(regex("/a.*")), pattern("/a.*"), pattern("/a.*")),
        (Some(regex("")), PathSpecifier::Path(String::new()), PathSpecifier::Path(String::new())),
    ];
    for (uri, envoy, grpc) in cases {
        let found = HttpMatch { uri, ..HttpMatch::default() };
        assert_eq!(matched(found.clone(), Dialect::Envoy).path_specifier, Some(envoy));
        assert_eq!(matched(found, Dialect::Grpc).path_specifier, Some(grpc));
    }
    for (ignores_uri_case, want) in [(false, None), (true, Some(false))] {
        let found = HttpMatch { ignores_uri_case, uri: Some(regex("/R.*")), ..HttpMatch::default() };
        assert_eq!(matched(found, Dialect::Envoy).case_sensitive.map(|flag| flag.value), want);
    }
}
fn mk_regex(regex: &str) -> envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher {
    envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher { regex: regex.into(), ..Default::default() }
}

#[test]
fn headers_are_sorted_before_pseudo_headers() {
    let found = HttpMatch {
        headers: conditions([("X-Upper", exact("1")), ("x-a", exact("")), ("x-d", regex("1.*"))]),
        without_headers: conditions([("x-b", TextMatch::Present), ("x-c", exact("3")), ("x-e", prefix("4"))]),
        method: Some(regex("GET|POST")),
        authority: Some(prefix("a.")),
        scheme: Some(exact("http")),
        ..HttpMatch::default()
    };
    let want = [
        "X-Upper =1",
        "x-a =",
        "x-b !any",
        "x-c !?=3",
        "x-d /1.*/",
        "x-e !?4*",
        ":method /GET|POST/",
        ":authority a.*",
        ":scheme =http",
    ];
    assert_eq!(headers(found, Dialect::Envoy), want);
}

#[test]
fn grpc_has_conditions_in_the_older_fields() {
    let found = HttpMatch {
        headers: conditions([
            ("a", exact("1")),
            ("b", prefix("2")),
            ("c", regex("3")),
            ("d", TextMatch::Present),
        ]),
        ..HttpMatch::default()
    };
    assert_eq!(headers(found, Dialect::Grpc), ["a old =1", "b old 2*", "c old /3/", "d any"]);
}

#[test]
fn parameters_of_the_query_have_the_same_conditions() {
    let query =
        conditions([("a", exact("")), ("b", prefix("1")), ("c", regex("[0-9]")), ("d", TextMatch::Present)]);
    let found = matched(HttpMatch { query, ..HttpMatch::default() }, Dialect::Envoy);
    let one = |parameter: pb::QueryParameterMatcher| match parameter.query_parameter_match_specifier {
        Some(QueryParameterMatchSpecifier::StringMatch(text)) => short(text.match_pattern),
        Some(QueryParameterMatchSpecifier::PresentMatch(true)) => "any".to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        found.query_parameters.into_iter().map(one).collect::<Vec<_>>(),
        ["=", "1*", "/[0-9]/", "any"]
    );
}

#[test]
fn route_has_its_name_and_its_statistics() {
    let found = HttpMatch { stat_prefix: "stats".into(), ..HttpMatch::default() };
    let route = encoded(&mk_found(found), Dialect::Envoy);
    assert_eq!((&*route.name, &*route.stat_prefix), ("r", "stats"));
    assert_eq!(route.typed_per_filter_config.len(), 0);
}

#[test]
fn timeouts_concern_requests_and_those_of_grpc() {
    let of = |timeout, dialect| {
        let action = forwarded(Forward { timeout, ..mk_forward() }, dialect);
        let millis = |time: Option<protobuf::Duration>| {
            time.map(|t| t.seconds * 1_000 + i64::from(t.nanos) / 1_000_000)
        };
        let stream = action.max_stream_duration.and_then(|max| max.max_stream_duration);
        #[expect(deprecated)] // as Istio sets it
        [action.timeout, action.max_grpc_timeout, stream].map(millis)
    };
    let half = Some(Duration::from_millis(500));
    assert_eq!(of(None, Dialect::Envoy), [Some(0), Some(0), None]);
    assert_eq!(of(half, Dialect::Envoy), [Some(500), Some(500), None]);
    assert_eq!(of(None, Dialect::Grpc), [Some(0), None, None]);
    assert_eq!(of(half, Dialect::Grpc), [Some(500), None, Some(500)]);
}

#[test]
fn weighted_clusters_have_their_own_headers() {
    let set = HeaderOperations {
        set: pairs([("x-r", "1")]),
        add: pairs([("x-q", "2")]),
        remove: [text("x-p")].into(),
    };
    let response = HeaderOperations { remove: [text("x-u")].into(), ..HeaderOperations::default() };
    let headers = HeaderChanges { authority: Some("changed.test".into()), request: set, response };
    let target = |name, weight, headers| WeightedTarget { cluster: mk_cluster(name), weight, headers };
    let all = vec![
        target("outbound|80||a.test", 50, Some(Arc::new(headers))),
        target("outbound|80|v1|a.test", 30, None),
        target("outbound|80||a.test", 50, None),
    ];
    let specifier = |dialect| {
        let forward = Forward { targets: Targets::Weighted(all.clone()), ..mk_forward() };
        match forwarded(forward, dialect).cluster_specifier {
            Some(pb::route_action::ClusterSpecifier::WeightedClusters(found)) => found,
            other => panic!("{other:?}"),
        }
    };
    let found = specifier(Dialect::Envoy);
    let weights: Vec<_> = found.clusters.iter().map(|to| (&*to.name, to.weight.unwrap().value)).collect();
    assert_eq!(
        weights,
        [("outbound|80||a.test", 50), ("outbound|80|v1|a.test", 30), ("outbound|80||a.test", 50)]
    );
    let first = &found.clusters[0];
    assert_eq!(set_of(&first.request_headers_to_add), ["x-r=1", "x-q+2"]);
    assert_eq!(
        (&*first.request_headers_to_remove, &*first.response_headers_to_remove),
        (&["x-p".to_owned()][..], &["x-u".to_owned()][..])
    );
    let host =
        pb::weighted_cluster::cluster_weight::HostRewriteSpecifier::HostRewriteLiteral("changed.test".into());
    assert_eq!(first.host_rewrite_specifier, Some(host));
    #[expect(deprecated)] // gRPC reads it
    let totals =
        [Dialect::Envoy, Dialect::Grpc].map(|dialect| specifier(dialect).total_weight.map(|w| w.value));
    assert_eq!(totals, [None, Some(130)]);
}
/// Returns changed headers in short: `=` replaces, `+` adds.
fn set_of(all: &[core::HeaderValueOption]) -> Vec<String> {
    let one = |option: &core::HeaderValueOption| {
        let header = option.header.as_ref().unwrap();
        let sign = if option.append_action == 2 { '=' } else { '+' };
        format!("{}{sign}{}", header.key, header.value)
    };
    all.iter().map(one).collect()
}

#[test]
fn changes_of_headers_follow_one_another() {
    let request = HeaderOperations {
        set: pairs([("x-set", "1"), ("x-two", "%REQ(x)%")]),
        add: pairs([("x-add", "2")]),
        remove: [text("x-gone")].into(),
    };
    let response = HeaderOperations { set: pairs([("x-rset", "1")]), ..HeaderOperations::default() };
    let of_route = HeaderChanges { authority: None, request, response };
    let odd = HeaderOperations {
        set: pairs([(":path", "/"), ("Host", "a"), ("", "b"), ("x-d", "4"), ("x-n", "a\nb")]),
        add: Arc::default(),
        remove: [text(":path"), text("host"), text("x-h")].into(),
    };
    let of_destination = HeaderChanges { request: odd, ..HeaderChanges::default() };
    let headers = vec![Arc::new(of_route), Arc::new(of_destination)];
    let answer = DirectResponse { status: 200, body: None };
    for action in [RouteAction::Forward(mk_forward()), RouteAction::Respond(answer.into())] {
        let route = encoded(&RoutePlan { headers: headers.clone(), ..mk_plan(action) }, Dialect::Envoy);
        let added = set_of(&route.request_headers_to_add);
        assert_eq!(added, ["x-set=1", "x-two=%REQ(x)%", "x-add+2", "x-d=4"]);
        assert_eq!(route.request_headers_to_remove, ["x-gone", "x-h"]);
        assert_eq!(set_of(&route.response_headers_to_add), ["x-rset=1"]);
    }
}

#[test]
fn path_and_host_are_rewritten() {
    let prefix = Forward {
        path: Some(PathRewrite::Prefix("/new".into())),
        authority: Some("changed.test".into()),
        ..mk_forward()
    };
    let action = forwarded(prefix, Dialect::Envoy);
    assert_eq!((&*action.prefix_rewrite, action.regex_rewrite), ("/new", None));
    let host = pb::route_action::HostRewriteSpecifier::HostRewriteLiteral("changed.test".into());
    assert_eq!(action.host_rewrite_specifier, Some(host));
    let path = Some(PathRewrite::Regex("^/s/([^/]+)(/.*)$".into(), r"\2/i/\1".into()));
    let action = forwarded(Forward { path, ..mk_forward() }, Dialect::Envoy);
    let rewrite = action.regex_rewrite.unwrap();
    assert_eq!(rewrite.pattern.unwrap().regex, "^/s/([^/]+)(/.*)$");
    assert_eq!((&*rewrite.substitution, &*action.prefix_rewrite), (r"\2/i/\1", ""));
}

#[test]
fn copies_name_their_share_and_keep_the_host() {
    let mirrors = vec![(mk_cluster("outbound|80||b.test"), RequestShare::new(125_000).unwrap())];
    let action = forwarded(Forward { mirrors, ..mk_forward() }, Dialect::Envoy);
    let [mirror] = &action.request_mirror_policies[..] else { panic!("{action:?}") };
    let share = mirror.runtime_fraction.as_ref().and_then(|fraction| fraction.default_value);
    assert_eq!((&*mirror.cluster, share), ("outbound|80||b.test", Some(millionths(125_000))));
    assert_eq!(mirror.trace_sampled.map(|flag| flag.value), Some(false));
    assert!(mirror.disable_shadow_host_suffix_append);
}
fn millionths(numerator: u32) -> FractionalPercent {
    FractionalPercent { numerator, denominator: 2 }
}

#[test]
fn endpoint_follows_from_each_hashed_property() {
    use pb::route_action::hash_policy::PolicySpecifier;
    let cookie = HashCookie {
        name: "u".into(),
        path: "/p".into(),
        ttl: Some(Duration::ZERO),
        attributes: pairs([("SameSite", "Lax")]),
    };
    let hash = [
        HashKey::Header("x-user".into()),
        HashKey::Cookie(cookie),
        HashKey::SourceIp,
        HashKey::Query("q".into()),
        HashKey::Header("".into()),
    ]
    .map(Arc::new)
    .into();
    let policies = forwarded(Forward { hash, ..mk_forward() }, Dialect::Envoy).hash_policy;
    let found: Vec<_> = policies.into_iter().map(|policy| policy.policy_specifier.unwrap()).collect();
    let [
        PolicySpecifier::Header(header),
        PolicySpecifier::Cookie(cookie),
        PolicySpecifier::ConnectionProperties(ip),
        PolicySpecifier::QueryParameter(query),
    ] = &found[..]
    else {
        panic!("{found:?}")
    };
    assert_eq!((&*header.header_name, &*query.name, ip.source_ip), ("x-user", "q", true));
    assert_eq!((&*cookie.name, &*cookie.path, cookie.ttl), ("u", "/p", Some(protobuf::Duration::default())));
    assert_eq!((&*cookie.attributes[0].name, &*cookie.attributes[0].value), ("SameSite", "Lax"));
}

#[test]
fn redirect_always_names_a_path() {
    use pb::redirect_action::PathRewriteSpecifier as Path;
    let redirected = |path, status, port: Option<u32>| {
        let redirect = Redirect {
            path,
            authority: Some("else.test".into()),
            scheme: Some("https".into()),
            port: RedirectPort::Undeclared,
            status,
        };
        let port = port.map(|port| PortNumber::new(port).unwrap());
        match encoded(&mk_plan(RouteAction::Redirect(redirect.into(), port)), Dialect::Envoy).action {
            Some(Action::Redirect(found)) => found,
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        (RedirectPath::Keep, 301, Path::PathRedirect(String::new()), 0),
        (RedirectPath::Whole("%PREFIX()%/new".into()), 302, Path::PathRedirect("%PREFIX()%/new".into()), 1),
        (RedirectPath::Prefix("/p".into()), 303, Path::PrefixRewrite("/p".into()), 2),
        (RedirectPath::Keep, 307, Path::PathRedirect(String::new()), 3),
        (RedirectPath::Keep, 308, Path::PathRedirect(String::new()), 4),
    ];
    for (path, status, want, code) in cases {
        let found = redirected(path, status, Some(8_443));
        assert_eq!((found.path_rewrite_specifier, found.response_code), (Some(want), code), "{status}");
        assert_eq!((&*found.host_redirect, found.port_redirect), ("else.test", 8_443));
        let scheme = pb::redirect_action::SchemeRewriteSpecifier::SchemeRedirect("https".into());
        assert_eq!(found.scheme_rewrite_specifier, Some(scheme));
    }
    assert_eq!(redirected(RedirectPath::Keep, 301, None).port_redirect, 0);
}

#[test]
fn answer_has_a_status_and_perhaps_a_body() {
    use core::data_source::Specifier;
    let answered = |status, body| {
        let response = DirectResponse { status, body };
        match encoded(&mk_plan(RouteAction::Respond(response.into())), Dialect::Envoy).action {
            Some(Action::DirectResponse(found)) => {
                (found.status, found.body.map(|body| body.specifier.unwrap()))
            }
            other => panic!("{other:?}"),
        }
    };
    let bytes = || Some(ResponseBody::Bytes(b"hello"[..].into()));
    assert_eq!(answered(204, None), (204, None));
    assert_eq!(answered(200, bytes()), (200, Some(Specifier::InlineBytes(b"hello".to_vec()))));
    let text = Some(ResponseBody::Text("no \"service\"".into()));
    assert_eq!(answered(600, text), (599, Some(Specifier::InlineString("no \"service\"".into()))));
    assert_eq!(answered(200, Some(ResponseBody::Text("x".repeat((1 << 20) + 1).into()))).1, None);
}

fn filter<M: Message + Default>(plan: &RoutePlan, name: &str) -> Option<M> {
    let found = encoded(plan, Dialect::Envoy).typed_per_filter_config.remove(name)?;
    Some(M::decode(&found.value[..]).unwrap())
}

#[test]
fn faults_have_the_declared_shares() {
    use fault_pb::fault_abort::ErrorType;
    let share = RequestShare::new;
    let delay = |share| FaultDelay { duration: Duration::from_secs(5), share };
    let abort = |status, share| FaultAbort { status, share };
    let fault = |delay, abort| {
        let fault = Some(Arc::new(FaultInjection { delay, abort }));
        filter::<fault_pb::HttpFault>(
            &RoutePlan { fault, ..mk_plan(RouteAction::Forward(mk_forward())) },
            "envoy.filters.http.fault",
        )
    };
    let delayed = fault(Some(delay(share(0).unwrap())), None).unwrap().delay.unwrap();
    assert_eq!(delayed.percentage, Some(millionths(0)));
    use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
    let seconds = |seconds| Some(FaultDelaySecifier::FixedDelay(protobuf::Duration { seconds, nanos: 0 }));
    assert_eq!(delayed.fault_delay_secifier, seconds(5));
    let cases = [
        (abort(AbortStatus::Http(418), share(5_000)), ErrorType::HttpStatus(418), Some(millionths(5_000))),
        (abort(AbortStatus::Http(500), None), ErrorType::HttpStatus(500), None),
        (abort(AbortStatus::Http(100), None), ErrorType::HttpStatus(200), None),
        (
            abort(AbortStatus::Grpc(14), share(1_000_000)),
            ErrorType::GrpcStatus(14),
            Some(millionths(1_000_000)),
        ),
        (abort(AbortStatus::Grpc(0), None), ErrorType::GrpcStatus(0), None),
    ];
    for (abort, status, share) in cases {
        let found = fault(None, Some(abort)).unwrap().abort.unwrap();
        assert_eq!((found.error_type, found.percentage), (Some(status), share));
    }
    let never = FaultDelay { duration: Duration::ZERO, share: RequestShare::ALL };
    assert_eq!(fault(Some(never), None), None);
}

#[test]
fn cross_origin_policy_is_always_enabled() {
    let plan = |cors| RoutePlan { cors: Some(Arc::new(cors)), ..mk_plan(RouteAction::Forward(mk_forward())) };
    let texts = |all: &[&str]| all.iter().map(|one| text(one)).collect::<Arc<[_]>>();
    let cors = Cors {
        origins: [exact("https://a.test"), prefix("https://b"), regex("https://c.*"), prefix("")].into(),
        methods: texts(&["GET", "POST"]),
        headers: texts(&["x-a", "x-b"]),
        exposed: texts(&["x-c"]),
        max_age: Some(Duration::from_secs(86_400)),
        credentials: Some(true),
        forwards_unmatched: true,
    };
    let found = |cors| filter::<cors_pb::CorsPolicy>(&plan(cors), "envoy.filters.http.cors").unwrap();
    let all = found(cors.clone());
    let origins: Vec<_> = all.allow_origin_string_match.into_iter().map(|m| short(m.match_pattern)).collect();
    assert_eq!(origins, ["=https://a.test", "https://b*", "/https://c.*/", "/.*/"]);
    let joined = (&*all.allow_methods, &*all.allow_headers, &*all.expose_headers, &*all.max_age);
    assert_eq!(joined, ("GET,POST", "x-a,x-b", "x-c", "86400"));
    let share = all.filter_enabled.and_then(|fraction| fraction.default_value);
    assert_eq!(share, Some(FractionalPercent { numerator: 100, denominator: 0 }));
    for (credentials, forwards_unmatched) in [(None, false), (Some(false), true), (Some(true), true)] {
        let found = found(Cors { credentials, forwards_unmatched, ..cors.clone() });
        assert_eq!(found.allow_credentials.map(|flag| flag.value), credentials);
        assert_eq!(found.forward_not_matching_preflights.map(|flag| flag.value), Some(forwards_unmatched));
    }
}
