//! Any plan gives a route that Envoy accepts: one bad route would cost a client its whole table.

use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn some_text() -> impl Strategy<Value = Arc<str>> {
    let long = "x".repeat(20_000);
    let all = ["", "a", "/p", "Host", ":path", "b\nc", "d\0", ".*", "\u{e9}", &long].map(Arc::<str>::from);
    select(all.to_vec())
}
fn some_condition() -> impl Strategy<Value = TextMatch> {
    prop_oneof![
        Just(TextMatch::Present),
        some_text().prop_map(TextMatch::Exact),
        some_text().prop_map(TextMatch::Prefix),
        some_text().prop_map(TextMatch::Regex)
    ]
}
fn some_conditions() -> impl Strategy<Value = Arc<[(Arc<str>, TextMatch)]>> {
    vec((some_text(), some_condition()), 0..3).prop_map(Into::into)
}
prop_compose! {
    fn some_match()(
        uri in option::of(some_condition()),
        (headers, without_headers, query) in (some_conditions(), some_conditions(), some_conditions()),
        (scheme, method, authority) in (option::of(some_condition()), option::of(some_condition()), option::of(some_condition())),
        (name, stat_prefix, ignores_uri_case) in (some_text(), some_text(), any::<bool>()),
    ) -> HttpMatch {
        HttpMatch { uri, headers, without_headers, query, scheme, method, authority, name, stat_prefix, ignores_uri_case, ..HttpMatch::default() }
    }
}
fn some_pairs() -> impl Strategy<Value = Arc<[(Arc<str>, Arc<str>)]>> {
    vec((some_text(), some_text()), 0..3).prop_map(Into::into)
}
prop_compose! {
    fn some_operations()(set in some_pairs(), add in some_pairs(), remove in vec(some_text(), 0..3)) -> HeaderOperations {
        HeaderOperations { set, add, remove: remove.into() }
    }
}
prop_compose! {
    fn some_changes()(
        authority in option::of(some_text()), request in some_operations(), response in some_operations(),
    ) -> Arc<HeaderChanges> {
        Arc::new(HeaderChanges { authority, request, response })
    }
}
fn some_cluster() -> impl Strategy<Value = ClusterName> {
    select(vec![mk_cluster("outbound|80||a.test"), mk_cluster("outbound|1|v1|*.b.test")])
}
fn some_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u32>().prop_map(|n| Duration::from_nanos(n.into()))
    ]
}
fn some_share() -> impl Strategy<Value = RequestShare> {
    (0u32..=1_000_000).prop_map(|of| RequestShare::new(of).unwrap())
}
fn some_target() -> impl Strategy<Value = WeightedTarget> {
    let weight = prop_oneof![1u32..5, Just(u32::MAX)];
    (some_cluster(), weight, option::of(some_changes()))
        .prop_map(|(cluster, weight, headers)| WeightedTarget { cluster, weight, headers })
}
fn some_hash() -> impl Strategy<Value = HashKey> {
    let cookie = (some_text(), some_text(), option::of(some_duration()), some_pairs()).prop_map(
        |(name, path, ttl, attributes)| HashKey::Cookie(HashCookie { name, path, ttl, attributes }),
    );
    prop_oneof![
        some_text().prop_map(HashKey::Header),
        cookie,
        Just(HashKey::SourceIp),
        some_text().prop_map(HashKey::Query)
    ]
}
prop_compose! {
    fn some_forward()(
        targets in prop_oneof![some_cluster().prop_map(Targets::One), vec(some_target(), 1..4).prop_map(Targets::Weighted)],
        path in option::of(prop_oneof![
            some_text().prop_map(PathRewrite::Prefix),
            (some_text(), some_text()).prop_map(|(pattern, by)| PathRewrite::Regex(pattern, by))
        ]),
        authority in option::of(some_text()),
        timeout in option::of(some_duration()),
        retries in option::of((0u32..3, option::of(some_duration()), option::of(some_duration()))),
        mirrors in vec((some_cluster(), some_share()), 0..2),
        hash in vec(some_hash().prop_map(Arc::new), 0..3),
    ) -> RouteAction {
        let retries = retries.map(|(attempts, per_try_timeout, backoff)| {
            Arc::new(HttpRetries { attempts, per_try_timeout, backoff, ..HttpRetries::default() })
        });
        RouteAction::Forward(Forward { targets, path, authority, timeout, retries, mirrors, hash })
    }
}
fn some_redirect() -> impl Strategy<Value = RouteAction> {
    let path = prop_oneof![
        Just(RedirectPath::Keep),
        some_text().prop_map(RedirectPath::Whole),
        some_text().prop_map(RedirectPath::Prefix)
    ];
    (path, option::of(some_text()), option::of(some_text()), any::<u16>(), option::of(1u32..65_536)).prop_map(
        |(path, authority, scheme, status, port)| {
            let redirect = Redirect { path, authority, scheme, port: RedirectPort::Undeclared, status };
            RouteAction::Redirect(redirect.into(), port.map(|port| PortNumber::new(port).unwrap()))
        },
    )
}
fn some_answer() -> impl Strategy<Value = RouteAction> {
    let body = prop_oneof![
        some_text().prop_map(ResponseBody::Text),
        vec(any::<u8>(), 0..9).prop_map(|bytes| ResponseBody::Bytes(bytes.into()))
    ];
    (any::<u16>(), option::of(body))
        .prop_map(|(status, body)| RouteAction::Respond(DirectResponse { status, body }.into()))
}
fn some_fault() -> impl Strategy<Value = Arc<FaultInjection>> {
    let status =
        prop_oneof![any::<u16>().prop_map(AbortStatus::Http), any::<u8>().prop_map(AbortStatus::Grpc)];
    let delay = (some_duration(), some_share()).prop_map(|(duration, share)| FaultDelay { duration, share });
    let abort = (status, option::of(some_share())).prop_map(|(status, share)| FaultAbort { status, share });
    (option::of(delay), option::of(abort))
        .prop_map(|(delay, abort)| Arc::new(FaultInjection { delay, abort }))
}
fn some_cors() -> impl Strategy<Value = Arc<Cors>> {
    let texts = || vec(some_text(), 0..3).prop_map(Arc::from);
    let lists = (vec(some_condition(), 0..3), texts(), texts(), texts());
    (lists, option::of(some_duration()), option::of(any::<bool>()), any::<bool>()).prop_map(
        |((origins, methods, headers, exposed), max_age, credentials, forwards_unmatched)| {
            let origins = origins.into();
            Arc::new(Cors { origins, methods, headers, exposed, max_age, credentials, forwards_unmatched })
        },
    )
}
prop_compose! {
    fn some_plan()(
        (name, found) in (some_text(), some_match()),
        action in prop_oneof![4 => some_forward(), 1 => some_redirect(), 1 => some_answer()],
        headers in vec(some_changes(), 0..3),
        (fault, cors) in (option::of(some_fault()), option::of(some_cors())),
    ) -> RoutePlan {
        RoutePlan { name, found, action, headers, fault, cors, delegate: None }
    }
}

fn is_value(text: &str) -> bool {
    text.len() <= 16_384 && !text.contains(['\0', '\r', '\n'])
}
fn is_name(text: &str) -> bool {
    !text.is_empty() && is_value(text)
}
fn is_duration(time: protobuf::Duration) -> bool {
    (0..=9_223_372_035).contains(&time.seconds) && (0..1_000_000_000).contains(&time.nanos)
}
fn is_matcher(text: &StringMatcher) -> bool {
    match text.match_pattern.as_ref() {
        Some(MatchPattern::Exact(_)) => true,
        Some(MatchPattern::Prefix(prefix)) => !prefix.is_empty(),
        Some(MatchPattern::SafeRegex(pattern)) => !pattern.regex.is_empty(),
        _ => false,
    }
}
fn accepts_match(found: &pb::RouteMatch) -> bool {
    let path = match found.path_specifier.as_ref() {
        Some(PathSpecifier::SafeRegex(pattern)) => !pattern.regex.is_empty(),
        path => path.is_some(),
    };
    let header = |header: &pb::HeaderMatcher| {
        let condition = match header.header_match_specifier.as_ref() {
            Some(HeaderMatchSpecifier::StringMatch(text)) => is_matcher(text),
            Some(HeaderMatchSpecifier::PresentMatch(_)) => !header.treat_missing_header_as_empty,
            _ => false,
        };
        is_name(&header.name) && condition
    };
    let query = |parameter: &pb::QueryParameterMatcher| {
        let condition = match parameter.query_parameter_match_specifier.as_ref() {
            Some(QueryParameterMatchSpecifier::StringMatch(text)) => is_matcher(text),
            condition => condition.is_some(),
        };
        is_name(&parameter.name) && condition
    };
    path && found.headers.iter().all(header) && found.query_parameters.iter().all(query)
}
fn accepts_changes(set: &[&Vec<core::HeaderValueOption>], removed: &[&Vec<String>]) -> bool {
    let may_change =
        |name: &str| is_name(name) && !name.starts_with(':') && !name.eq_ignore_ascii_case("host");
    let header = |option: &core::HeaderValueOption| {
        option.header.as_ref().is_some_and(|header| may_change(&header.key) && is_value(&header.value))
    };
    set.iter().all(|all| all.iter().all(header))
        && removed.iter().all(|all| all.iter().all(|name| may_change(name)))
}
fn accepts_clusters(action: &pb::RouteAction) -> bool {
    use pb::route_action::ClusterSpecifier;
    match action.cluster_specifier.as_ref() {
        Some(ClusterSpecifier::Cluster(name)) => !name.is_empty(),
        Some(ClusterSpecifier::WeightedClusters(all)) => {
            let total: u64 = all.clusters.iter().map(|to| u64::from(to.weight.unwrap().value)).sum();
            let cluster = |to: &pb::weighted_cluster::ClusterWeight| {
                let set = [&to.request_headers_to_add, &to.response_headers_to_add];
                let removed = [&to.request_headers_to_remove, &to.response_headers_to_remove];
                !to.name.is_empty() && to.weight.unwrap().value > 0 && accepts_changes(&set, &removed)
            };
            total <= u64::from(u32::MAX) && !all.clusters.is_empty() && all.clusters.iter().all(cluster)
        }
        _ => false,
    }
}
fn accepts_forward(action: &pb::RouteAction) -> bool {
    use pb::route_action::hash_policy::PolicySpecifier;
    let hash = |policy: &pb::route_action::HashPolicy| match policy.policy_specifier.as_ref() {
        Some(PolicySpecifier::Header(header)) => is_name(&header.header_name),
        Some(PolicySpecifier::Cookie(cookie)) => is_name(&cookie.name) && cookie.ttl.is_none_or(is_duration),
        Some(PolicySpecifier::QueryParameter(query)) => is_name(&query.name),
        policy => policy.is_some(),
    };
    let backoff = |retries: &pb::RetryPolicy| match retries.retry_back_off.as_ref() {
        Some(found) => {
            found.base_interval.is_some_and(|wait| is_duration(wait) && (wait.seconds, wait.nanos) > (0, 0))
        }
        None => true,
    };
    accepts_clusters(action)
        && is_value(&action.prefix_rewrite)
        && (action.prefix_rewrite.is_empty() || action.regex_rewrite.is_none())
        && action.regex_rewrite.as_ref().is_none_or(|rewrite| is_value(&rewrite.substitution))
        && action.timeout.is_some_and(is_duration)
        && action.retry_policy.as_ref().is_none_or(backoff)
        && action.hash_policy.iter().all(hash)
        && action.request_mirror_policies.iter().all(|mirror| !mirror.cluster.is_empty())
}
fn accepts_action(action: Option<&Action>) -> bool {
    match action {
        Some(Action::Route(action)) => accepts_forward(action),
        Some(Action::Redirect(redirect)) => {
            is_value(&redirect.host_redirect)
                && redirect.port_redirect < 65_536
                && redirect.path_rewrite_specifier.is_some()
        }
        Some(Action::DirectResponse(answer)) => {
            (200..600).contains(&answer.status)
                && answer.body.as_ref().is_none_or(|body| body.specifier.is_some())
        }
        _ => false,
    }
}
fn accepts_fault(fault: &fault_pb::HttpFault) -> bool {
    use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
    use fault_pb::fault_abort::ErrorType;
    let delay = fault.delay.is_none_or(|delay| match delay.fault_delay_secifier {
        Some(FaultDelaySecifier::FixedDelay(time)) => {
            is_duration(time) && (time.seconds, time.nanos) > (0, 0)
        }
        _ => false,
    });
    let abort = fault.abort.as_ref().is_none_or(|abort| match abort.error_type {
        Some(ErrorType::HttpStatus(status)) => (200..600).contains(&status),
        status => status.is_some(),
    });
    delay && abort && (fault.delay.is_some() || fault.abort.is_some())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_gives_a_route_that_envoy_accepts(plan in some_plan()) {
        let route = encoded(&plan, Dialect::Envoy);
        prop_assert!(accepts_match(route.r#match.as_ref().unwrap()), "{:?}", route.r#match);
        prop_assert!(accepts_action(route.action.as_ref()), "{:?}", route.action);
        let set = [&route.request_headers_to_add, &route.response_headers_to_add];
        let removed = [&route.request_headers_to_remove, &route.response_headers_to_remove];
        prop_assert!(accepts_changes(&set, &removed));
        for (name, config) in &route.typed_per_filter_config {
            let accepted = match &**name {
                "envoy.filters.http.fault" => accepts_fault(&fault_pb::HttpFault::decode(&config.value[..]).unwrap()),
                _ => cors_pb::CorsPolicy::decode(&config.value[..]).unwrap().allow_origin_string_match.iter().all(is_matcher),
            };
            prop_assert!(accepted, "{name}");
        }
        prop_assert_eq!(route.name.as_str(), &*plan.name);
        encoded(&plan, Dialect::Grpc);
    }
}
