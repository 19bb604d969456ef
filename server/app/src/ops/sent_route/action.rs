//! What a route does with requests, and its settings, as texts.

use envoy_types::pb::envoy::config::core::v3::{HeaderValueOption, RuntimeFractionalPercent};
use envoy_types::pb::envoy::config::route::v3 as pb;
use envoy_types::pb::envoy::config::route::v3::route::Action as Sent;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::PolicySpecifier as Hash;
use envoy_types::pb::envoy::config::route::v3::route_action::{
    ClusterSpecifier as To, HostRewriteSpecifier as Host, RequestMirrorPolicy,
};
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::extensions::filters::common::fault::v3::fault_delay::FaultDelaySecifier;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::fault_abort::ErrorType;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::{FaultAbort, HttpFault};
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::google::protobuf::{Any, Duration};
use prost::Message as _;

/// What happens to the requests of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ops) enum Action {
    /// They go to these xDS clusters by their weights.
    Forward(Vec<(String, u32)>),
    /// Each goes to the destination that it names.
    Requested,
    /// They are answered, redirected or handled in another way, which the text describes.
    Answer(String),
}

impl Action {
    /// Reads an action.
    pub(super) fn read(action: Option<&Sent>) -> Self {
        match action {
            Some(Sent::Route(action)) => forward(action),
            Some(Sent::Redirect(action)) => Self::Answer(redirect(action)),
            Some(Sent::DirectResponse(answer)) => Self::Answer(format!("answer {}", answer.status)),
            Some(Sent::NonForwardingAction(_)) => Self::Answer("the client's own service".to_owned()),
            Some(Sent::FilterAction(_)) => Self::Answer("what a filter of the client does".to_owned()),
            None => Self::Answer("no action".to_owned()),
        }
    }
    /// Returns the xDS clusters that receive requests.
    pub(in crate::ops) fn clusters(&self) -> impl Iterator<Item = &str> {
        let all = if let Self::Forward(all) = self { all.as_slice() } else { &[] };
        all.iter().filter(|(_, weight)| *weight > 0).map(|(name, _)| name.as_str())
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Forward(all) => f.write_str(&shares(all)),
            Self::Requested => f.write_str("the address that each request names"),
            Self::Answer(text) => f.write_str(text),
        }
    }
}

fn forward(action: &pb::RouteAction) -> Action {
    match &action.cluster_specifier {
        Some(To::Cluster(name)) => Action::Forward(vec![(name.clone(), 1)]),
        Some(To::WeightedClusters(all)) => {
            let weight =
                |of: &pb::weighted_cluster::ClusterWeight| of.weight.as_ref().map_or(0, |of| of.value);
            Action::Forward(all.clusters.iter().map(|of| (of.name.clone(), weight(of))).collect())
        }
        Some(To::ClusterHeader(_)) => Action::Requested,
        Some(To::ClusterSpecifierPlugin(_) | To::InlineClusterSpecifierPlugin(_)) | None => {
            Action::Answer("a destination that a plugin chooses".to_owned())
        }
    }
}

/// Returns the shares of xDS clusters: `90 % a, 10 % b`; the name alone if there is one.
pub(in crate::ops) fn shares(all: &[(String, u32)]) -> String {
    if let [(name, _)] = all {
        return name.clone();
    }
    let sum: u64 = all.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let share = |(name, weight): &(String, u32)| format!("{} {name}", percent(u64::from(*weight), sum));
    all.iter().map(share).collect::<Vec<_>>().join(", ")
}

/// Formats a share of a whole in percent, with up to four digits behind the point.
fn percent(part: u64, whole: u64) -> String {
    let millionths = part.saturating_mul(1_000_000).checked_div(whole).unwrap_or_default();
    let (percent, rest) = (millionths / 10_000, millionths % 10_000);
    let rest = format!("{rest:04}");
    match rest.trim_end_matches('0') {
        "" => format!("{percent} %"),
        digits => format!("{percent}.{digits} %"),
    }
}

fn redirect(action: &pb::RedirectAction) -> String {
    use pb::redirect_action::{PathRewriteSpecifier as Path, SchemeRewriteSpecifier as Scheme};
    let status = match action.response_code {
        1 => 302,
        2 => 303,
        3 => 307,
        4 => 308,
        _ => 301,
    };
    let scheme = match &action.scheme_rewrite_specifier {
        Some(Scheme::HttpsRedirect(true)) => "https",
        Some(Scheme::SchemeRedirect(scheme)) => scheme,
        Some(Scheme::HttpsRedirect(false)) | None => "",
    };
    let path = match &action.path_rewrite_specifier {
        Some(Path::PathRedirect(path)) if !path.is_empty() => format!("path {path}"),
        Some(Path::PrefixRewrite(prefix)) => format!("path {prefix}*"),
        Some(Path::RegexRewrite(of)) => format!("path {}", of.substitution),
        Some(Path::PathRewrite(path)) => format!("path {path}"),
        Some(Path::PathRedirect(_)) | None => String::new(),
    };
    let named =
        |what: &str, text: &str| if text.is_empty() { String::new() } else { format!("{what} {text}") };
    let port = if action.port_redirect == 0 { String::new() } else { action.port_redirect.to_string() };
    let parts = [named("scheme", scheme), named("host", &action.host_redirect), named("port", &port), path];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let to = if parts.is_empty() { "the same address".to_owned() } else { parts.join(", ") };
    format!("redirect {status} to {to}")
}

/// Returns the xDS clusters that receive copies of the requests of a route, none behind a fault that answers all of them.
pub(super) fn copies(route: &pb::Route) -> Vec<String> {
    mirrors(route).iter().map(|of| of.cluster.clone()).collect()
}

fn mirrors(route: &pb::Route) -> &[RequestMirrorPolicy] {
    match &route.action {
        Some(Sent::Route(action)) if abort_of_all(route).is_none() => &action.request_mirror_policies,
        _ => &[],
    }
}

/// Returns the settings of a route: those of its action, changes of headers, and those for filters.
pub(super) fn settings(route: &pb::Route) -> Vec<String> {
    let forward = if let Some(Sent::Route(action)) = &route.action { Some(action) } else { None };
    let specifier = route.r#match.as_ref().and_then(|of| of.path_specifier.as_ref());
    let is_exact = matches!(specifier, Some(PathSpecifier::Path(_) | PathSpecifier::SafeRegex(_)));
    let mut out: Vec<String> =
        forward.map(|action| of_forward(action, is_exact, mirrors(route))).unwrap_or_default();
    let sides = [
        ("request", &route.request_headers_to_add, &route.request_headers_to_remove),
        ("response", &route.response_headers_to_add, &route.response_headers_to_remove),
    ];
    for (side, added, removed) in sides {
        out.extend(headers(side, added, removed));
    }
    let mut filters: Vec<String> =
        route.typed_per_filter_config.iter().flat_map(|(name, config)| of_filter(name, config)).collect();
    filters.sort_unstable();
    out.extend(filters);
    out
}

/// Returns what a filter does with the requests of a route.
fn of_filter(name: &str, config: &Any) -> Vec<String> {
    match (name, fault(config)) {
        (_, Some(fault)) => faults(&fault),
        ("envoy.filters.http.fault", None) => vec!["faults".to_owned()],
        ("envoy.filters.http.cors", None) => vec!["cross-origin requests".to_owned()],
        (name, None) => vec![name.to_owned()],
    }
}

fn fault(config: &Any) -> Option<HttpFault> {
    let is_fault = config.type_url.ends_with(".HTTPFault");
    HttpFault::decode(&*config.value).ok().filter(|_| is_fault)
}

/// Returns the faults that some requests have, with their share.
fn faults(fault: &HttpFault) -> Vec<String> {
    let share = |of: Option<&FractionalPercent>| of.filter(|of| of.numerator > 0).map(fractional);
    let delay = fault.delay.as_ref().and_then(|delay| {
        let share = share(delay.percentage.as_ref())?;
        let by = match &delay.fault_delay_secifier {
            Some(FaultDelaySecifier::FixedDelay(of)) => format!(" of {}", seconds(of)),
            _ => String::new(),
        };
        Some(format!("delay{by} for {share}"))
    });
    let abort = fault.abort.as_ref().and_then(|abort| {
        Some(format!("answer {} for {}", status(abort), share(abort.percentage.as_ref())?))
    });
    let limit = fault.response_rate_limit.as_ref();
    let limit = limit.and_then(|limit| share(limit.percentage.as_ref()));
    let limit = limit.map(|share| format!("limited responses for {share}"));
    [delay, abort, limit].into_iter().flatten().collect()
}

/// Returns the answer that every request of a route gets from a fault.
pub(super) fn abort_of_all(route: &pb::Route) -> Option<String> {
    let mut aborts = route.typed_per_filter_config.values().filter_map(fault).filter_map(|of| of.abort);
    let is_all = |abort: &FaultAbort| {
        abort.percentage.as_ref().is_some_and(|of| u64::from(of.numerator) >= whole(of.denominator))
    };
    aborts.find(is_all).map(|abort| format!("answer {} by a fault", status(&abort)))
}

fn status(abort: &FaultAbort) -> String {
    match &abort.error_type {
        Some(ErrorType::HttpStatus(status)) => status.to_string(),
        Some(ErrorType::GrpcStatus(status)) => format!("gRPC status {status}"),
        _ => "that the request names".to_owned(),
    }
}

/// Returns the settings of an action. Of an exact path and of a pattern the whole path is replaced.
fn of_forward(action: &pb::RouteAction, is_exact: bool, mirrors: &[RequestMirrorPolicy]) -> Vec<String> {
    let limit = action.max_stream_duration.as_ref().and_then(|of| of.max_stream_duration.as_ref());
    let timeout = action.timeout.as_ref().or(limit).filter(|of| of.seconds != 0 || of.nanos != 0);
    let timeout = timeout.map(|of| format!("timeout {}", seconds(of)));
    let retries = action.retry_policy.as_ref().map(retries);
    let path = match (action.prefix_rewrite.as_str(), &action.regex_rewrite) {
        ("", None) => None,
        ("", Some(of)) => Some(format!("path becomes {}", of.substitution)),
        (path, _) if is_exact => Some(format!("path becomes {path}")),
        (prefix, _) => Some(format!("path becomes {prefix}*")),
    };
    let host = match &action.host_rewrite_specifier {
        Some(Host::HostRewriteLiteral(host)) => Some(format!("host becomes {host}")),
        Some(_) => Some("host changes".to_owned()),
        None => None,
    };
    let mirrors = mirrors.iter().map(|of| {
        let share = of.runtime_fraction.as_ref().and_then(fraction).unwrap_or_else(|| "100 %".to_owned());
        format!("copies of {share} to {}", of.cluster)
    });
    let hashes = action.hash_policy.iter().filter_map(|of| of.policy_specifier.as_ref()).map(hash);
    [timeout, retries, path, host].into_iter().flatten().chain(mirrors).chain(hashes).collect()
}

fn retries(policy: &pb::RetryPolicy) -> String {
    let count = policy.num_retries.as_ref().map_or(1, |of| of.value);
    let per_try = policy.per_try_timeout.as_ref().map(|of| format!(" of {} each", seconds(of)));
    format!("{count} retries{} on {}", per_try.unwrap_or_default(), policy.retry_on)
}

fn fraction(of: &RuntimeFractionalPercent) -> Option<String> {
    of.default_value.as_ref().map(fractional)
}

fn fractional(of: &FractionalPercent) -> String {
    percent(of.numerator.into(), whole(of.denominator))
}

/// Returns what a denominator stands for.
const fn whole(denominator: i32) -> u64 {
    match denominator {
        0 => 100,
        1 => 10_000,
        _ => 1_000_000,
    }
}

fn hash(of: &Hash) -> String {
    let by = match of {
        Hash::Header(of) => format!("header {}", of.header_name),
        Hash::Cookie(of) => format!("cookie {}", of.name),
        Hash::QueryParameter(of) => format!("query {}", of.name),
        Hash::ConnectionProperties(_) => "address of the client".to_owned(),
        Hash::FilterState(of) => format!("state {}", of.key),
    };
    format!("endpoint by {by}")
}

fn headers(side: &str, added: &[HeaderValueOption], removed: &[String]) -> Option<String> {
    let added = added.iter().filter_map(|of| of.header.as_ref()).map(|of| format!("{}={}", of.key, of.value));
    let changes: Vec<String> = added.chain(removed.iter().map(|name| format!("-{name}"))).collect();
    (!changes.is_empty()).then(|| format!("{side} headers {}", changes.join(" ")))
}

/// Formats a duration in seconds or milliseconds.
fn seconds(of: &Duration) -> String {
    let millis = of.seconds.saturating_mul(1_000).saturating_add(i64::from(of.nanos) / 1_000_000);
    if millis % 1_000 == 0 { format!("{} s", millis / 1_000) } else { format!("{millis} ms") }
}
