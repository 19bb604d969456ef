//! Specs of the HTTP routes of VirtualServices.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tributary_model::{
    AbortStatus, Cors, DelegateRef, DirectResponse, FaultInjection, GRPC_STATUSES, HeaderChanges,
    HeaderOperations, HttpAction, HttpMatch, HttpRoute, Mirror, PathRewrite, Redirect, RedirectPath,
    RedirectPort, RequestShare, ResponseBody, Rewrite, RouteRetries, RouteSettings, TextMatch,
    WeightedDestination,
};

use super::virtual_service::{add_clients, add_list, add_text, destination};
use super::{add, add_map, seconds};

/// Returns an HTTP route.
pub(super) fn spec(route: &HttpRoute) -> Value {
    let mut out = Map::new();
    add_text(&mut out, "name", &route.name);
    add_list(&mut out, "match", route.matches.iter().map(http_match));
    match &route.action {
        HttpAction::Route(all) => add_list(&mut out, "route", all.iter().map(weighted)),
        HttpAction::Redirect(of) => add_map(&mut out, "redirect", redirect(of)),
        HttpAction::Respond(of) => add_map(&mut out, "directResponse", response(of)),
        HttpAction::Delegate(of, answer) => {
            add_map(&mut out, "delegate", delegate(of));
            add_map(&mut out, "directResponse", answer.as_deref().map(response).unwrap_or_default());
        }
    }
    add_settings(&mut out, &route.settings);
    Value::Object(out)
}

fn delegate(of: &DelegateRef) -> Map<String, Value> {
    let mut out = Map::new();
    add_text(&mut out, "name", &of.name);
    add_text(&mut out, "namespace", of.namespace.as_str());
    out
}

fn http_match(found: &HttpMatch) -> Value {
    let mut out = Map::new();
    add_text(&mut out, "name", &found.name);
    let single = [
        ("uri", &found.uri),
        ("scheme", &found.scheme),
        ("method", &found.method),
        ("authority", &found.authority),
    ];
    for (name, of) in single {
        add(&mut out, name, of.as_ref().map(text_match));
    }
    add(&mut out, "ignoreUriCase", found.ignores_uri_case.then_some(Value::Bool(true)));
    let maps = [
        ("headers", &found.headers),
        ("withoutHeaders", &found.without_headers),
        ("queryParams", &found.query),
    ];
    for (name, map) in maps {
        add_map(&mut out, name, map.iter().map(|(key, of)| (key.to_string(), text_match(of))).collect());
    }
    add(&mut out, "port", found.port.map(|port| json!(port.get())));
    add_clients(&mut out, &found.clients);
    add_text(&mut out, "statPrefix", &found.stat_prefix);
    Value::Object(out)
}

fn text_match(of: &TextMatch) -> Value {
    match of {
        TextMatch::Present => json!({}),
        TextMatch::Exact(text) => json!({"exact": **text}),
        TextMatch::Prefix(text) => json!({"prefix": **text}),
        TextMatch::Regex(text) => json!({"regex": **text}),
    }
}

fn weighted(of: &WeightedDestination) -> Value {
    let mut out = Map::new();
    out.insert("destination".into(), destination(&of.destination));
    add(&mut out, "weight", (of.weight > 0).then(|| json!(of.weight)));
    add_map(&mut out, "headers", of.headers.as_deref().map(headers).unwrap_or_default());
    Value::Object(out)
}

fn redirect(of: &Redirect) -> Map<String, Value> {
    let mut out = Map::new();
    match &of.path {
        RedirectPath::Keep => {}
        RedirectPath::Whole(path) => add_text(&mut out, "uri", path),
        RedirectPath::Prefix(path) => add_text(&mut out, "prefixRewrite", path),
    }
    add_text(&mut out, "authority", of.authority.as_deref().unwrap_or_default());
    add_text(&mut out, "scheme", of.scheme.as_deref().unwrap_or_default());
    match of.port {
        RedirectPort::Undeclared => {}
        RedirectPort::OfScheme => add_text(&mut out, "derivePort", "FROM_PROTOCOL_DEFAULT"),
        RedirectPort::OfListener => add_text(&mut out, "derivePort", "FROM_REQUEST_PORT"),
        RedirectPort::Number(port) => add(&mut out, "port", Some(json!(port.get()))),
    }
    out.insert("redirectCode".into(), json!(of.status));
    out
}

/// The bytes of a body are shown by their number.
fn response(of: &DirectResponse) -> Map<String, Value> {
    let mut out = Map::from_iter([("status".to_owned(), json!(of.status))]);
    let body = of.body.as_ref().map(|body| match body {
        ResponseBody::Text(text) => json!({"string": **text}),
        ResponseBody::Bytes(bytes) => json!({"bytes": format!("{} bytes", bytes.len())}),
    });
    add(&mut out, "body", body);
    out
}

fn add_settings(out: &mut Map<String, Value>, of: &RouteSettings) {
    add_map(out, "rewrite", of.rewrite.as_deref().map(rewrite).unwrap_or_default());
    add(out, "headers", of.headers.as_deref().map(|of| Value::Object(headers(of))));
    add(out, "timeout", of.timeout.map(seconds));
    add(out, "retries", of.retries.as_deref().map(|of| Value::Object(retries(of))));
    add_map(out, "fault", of.fault.as_deref().map(fault).unwrap_or_default());
    if let Some(of) = of.mirroring.as_deref() {
        add(out, "mirror", of.first.as_ref().map(|mirror| destination(&mirror.destination)));
        add(out, "mirrorPercentage", of.share.map(percentage));
        add_list(out, "mirrors", of.others.iter().flat_map(|all| all.iter()).map(mirror));
    }
    add(out, "corsPolicy", of.cors.as_deref().map(|of| Value::Object(cors(of))));
}

fn rewrite(of: &Rewrite) -> Map<String, Value> {
    let mut out = Map::new();
    match &of.path {
        None => {}
        Some(PathRewrite::Prefix(uri)) => add_text(&mut out, "uri", uri),
        Some(PathRewrite::Regex(of, to)) => {
            out.insert("uriRegexRewrite".into(), json!({"match": **of, "rewrite": **to}));
        }
    }
    add_text(&mut out, "authority", of.authority.as_deref().unwrap_or_default());
    out
}

/// The host is shown as a header that replaces.
fn headers(of: &HeaderChanges) -> Map<String, Value> {
    let mut request = operations(&of.request);
    if let Some(host) = &of.authority {
        let set = request.entry("set").or_insert_with(|| json!({}));
        set[":authority"] = json!(**host);
    }
    let mut out = Map::new();
    add_map(&mut out, "request", request);
    add_map(&mut out, "response", operations(&of.response));
    out
}

fn operations(of: &HeaderOperations) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, map) in [("set", &of.set), ("add", &of.add)] {
        add_map(&mut out, name, map.iter().map(|(key, value)| (key.to_string(), json!(**value))).collect());
    }
    add_list(&mut out, "remove", texts(&of.remove));
    out
}

fn texts(all: &[Arc<str>]) -> impl Iterator<Item = Value> {
    all.iter().map(|text| json!(**text))
}

fn retries(of: &RouteRetries) -> Map<String, Value> {
    let retries = &of.retries;
    let mut out = Map::from_iter([("attempts".to_owned(), json!(retries.attempts))]);
    if retries.attempts == 0 {
        return out;
    }
    add(&mut out, "perTryTimeout", retries.per_try_timeout.map(seconds));
    let codes = retries.codes.iter().map(ToString::to_string);
    let on: Vec<String> = std::iter::once(retries.conditions.to_string()).chain(codes).collect();
    add_text(&mut out, "retryOn", &on.join(","));
    add(&mut out, "retryRemoteLocalities", retries.remote_localities.then_some(Value::Bool(true)));
    add(&mut out, "retryIgnorePreviousHosts", of.declares_other_hosts.then(|| json!(retries.other_hosts)));
    add(&mut out, "backoff", retries.backoff.map(seconds));
    out
}

fn fault(of: &FaultInjection) -> Map<String, Value> {
    let mut out = Map::new();
    let delay =
        of.delay.map(|of| json!({"fixedDelay": seconds(of.duration), "percentage": percentage(of.share)}));
    add(&mut out, "delay", delay);
    if let Some(of) = of.abort {
        let mut abort = Map::new();
        match of.status {
            AbortStatus::Http(status) => abort.insert("httpStatus".into(), json!(status)),
            AbortStatus::Grpc(status) => {
                abort.insert("grpcStatus".into(), json!(GRPC_STATUSES.get(usize::from(status))))
            }
        };
        add(&mut abort, "percentage", of.share.map(percentage));
        add_map(&mut out, "abort", abort);
    }
    out
}

/// Returns a share in percent.
fn percentage(share: RequestShare) -> Value {
    let millionths = share.millionths();
    if millionths.is_multiple_of(10_000) {
        return json!({"value": millionths / 10_000});
    }
    json!({"value": f64::from(millionths) / 10_000.0})
}

fn mirror(of: &Mirror) -> Value {
    let mut out = Map::from_iter([("destination".to_owned(), destination(&of.destination))]);
    add(&mut out, "percentage", (of.share != RequestShare::ALL).then(|| percentage(of.share)));
    Value::Object(out)
}

fn cors(of: &Cors) -> Map<String, Value> {
    let mut out = Map::new();
    add_list(&mut out, "allowOrigins", of.origins.iter().map(text_match));
    add_list(&mut out, "allowMethods", texts(&of.methods));
    add_list(&mut out, "allowHeaders", texts(&of.headers));
    add_list(&mut out, "exposeHeaders", texts(&of.exposed));
    add(&mut out, "maxAge", of.max_age.map(seconds));
    add(&mut out, "allowCredentials", of.credentials.map(Value::from));
    add_text(&mut out, "unmatchedPreflights", if of.forwards_unmatched { "" } else { "IGNORE" });
    out
}
