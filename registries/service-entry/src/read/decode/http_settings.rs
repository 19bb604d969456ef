//! The fields of HTTP routes that decide how requests are sent: retries, deliberate errors, cross-origin requests.

use tributary_model::{AbortStatus, Code, FaultAbort, FaultDelay, GRPC_STATUSES, RequestShare, TextMatch};

use super::fields::Fields;
use super::http_route::text_match_of;
use crate::document::http_route::{Cors, Fault, Retries};
use crate::document::{Located, Text};
use crate::read::fault::{Faults, clip};
use crate::read::node::Node;

/// Whether preflight requests of other origins are dropped.
const UNMATCHED: [(&str, bool); 3] = [("UNSPECIFIED", false), ("FORWARD", false), ("IGNORE", true)];
pub(super) fn retries(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Retries> {
    let (path, node) = fields.get("retries")?;
    let mut inner = Fields::open(node, path, faults)?;
    let retries = Retries {
        at: Located::new(node.at, ()),
        attempts: inner.count("attempts", faults).map(|count| count.value).unwrap_or_default(),
        per_try_timeout: inner.duration("perTryTimeout", faults).map(|duration| duration.value),
        on: inner.filled("retryOn", faults),
        remote_localities: inner.flag("retryRemoteLocalities", faults).map(|flag| flag.value),
        other_hosts: inner.flag("retryIgnorePreviousHosts", faults).map(|flag| flag.value),
        backoff: inner.duration("backoff", faults).map(|duration| duration.value),
    };
    inner.finish(faults);
    Some(retries)
}

pub(super) fn fault(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<Fault> {
    let (path, node) = fields.get("fault")?;
    let mut inner = Fields::open(node, path, faults)?;
    let declares_delay = inner.get("delay").is_some();
    let declares_abort = inner.get("abort").is_some();
    let delay = delay(&mut inner, ignored, faults);
    let abort = abort(&mut inner, ignored, faults);
    inner.finish(faults);
    Some(Fault { at: Located::new(node.at, ()), declares_delay, declares_abort, delay, abort })
}

/// A delay without a duration or without a share has no effect, as in Istio.
fn delay(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<FaultDelay> {
    let (path, node) = fields.get("delay")?;
    let mut inner = Fields::open(node, path.clone(), faults)?;
    inner.not_served("exponentialDelay", "write fixedDelay", faults);
    let declares_fixed = inner.get("fixedDelay").is_some();
    let declares_share = ["percentage", "percent"].into_iter().any(|name| inner.get(name).is_some());
    let duration = inner.duration("fixedDelay", faults);
    let share = inner.percentage("percentage", faults);
    if share.is_some() {
        inner.ignored("percent", ignored);
    }
    let percent = inner.percent("percent", faults);
    inner.finish(faults);
    ignore_fault((declares_fixed, declares_share), node, &path, ignored);
    let share = share.or(percent).unwrap_or(RequestShare::NONE);
    Some(FaultDelay { duration: duration?.value, share })
}

/// A refusal without a status or without a share has no effect, as in Istio.
fn abort(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<FaultAbort> {
    let (path, node) = fields.get("abort")?;
    let mut inner = Fields::open(node, path.clone(), faults)?;
    inner.not_served("http2Error", "write httpStatus or grpcStatus", faults);
    let http = inner.u32_in("httpStatus", 200..=599, faults);
    let grpc = inner.text("grpcStatus", faults);
    if let (Some(http), Some(_)) = (http, &grpc) {
        let message = format!("{path} has both httpStatus and grpcStatus; keep one of them");
        faults.refuse(Code::VALUE_INVALID, http.at, message);
    }
    let declares_status = ["httpStatus", "grpcStatus"].into_iter().any(|name| inner.get(name).is_some());
    let grpc = grpc.and_then(|name| grpc_status(&name, &inner.path("grpcStatus"), faults));
    let declares_share = inner.get("percentage").is_some();
    let share = inner.percentage("percentage", faults);
    inner.finish(faults);
    ignore_fault((declares_status, declares_share), node, &path, ignored);
    let http = http.and_then(|http| u16::try_from(http.value).ok()).map(AbortStatus::Http);
    Some(FaultAbort { status: http.or(grpc)?, share })
}

/// Records a fault that is injected into no request: it has no kind, or no share of the requests.
fn ignore_fault(
    (declares_kind, declares_share): (bool, bool),
    node: &Node,
    path: &str,
    ignored: &mut Vec<Text>,
) {
    let why = if declares_kind { " (no percentage)" } else { "" };
    if !declares_kind || !declares_share {
        ignored.push(Located::new(node.at, format!("{path}{why}").into()));
    }
}

fn grpc_status(name: &Text, path: &str, faults: &mut Faults) -> Option<AbortStatus> {
    let number = GRPC_STATUSES.iter().position(|known| *known == &*name.value);
    if number.is_none() {
        let known = GRPC_STATUSES.join(", ");
        let message = format!("{path} {:?} is not a status of gRPC; write one of {known}", clip(&name.value));
        faults.refuse(Code::VALUE_INVALID, name.at, message);
    }
    u8::try_from(number?).ok().map(AbortStatus::Grpc)
}

/// The older list of origins is without effect beside the newer one.
pub(super) fn cors(fields: &mut Fields<'_>, ignored: &mut Vec<Text>, faults: &mut Faults) -> Option<Cors> {
    let (path, node) = fields.get("corsPolicy")?;
    let mut inner = Fields::open(node, path, faults)?;
    let origins = inner.list("allowOrigins", faults).into_iter();
    let origins: Vec<_> = origins.filter_map(|(path, node)| text_match_of(node, path, faults)).collect();
    if !origins.is_empty() {
        inner.ignored("allowOrigin", ignored);
    }
    let older = inner.texts("allowOrigin", faults).into_iter();
    let older = older.map(|text| Located::new(text.at, TextMatch::Exact(text.value)));
    let cors = Cors {
        origins: if origins.is_empty() { older.collect() } else { origins },
        methods: inner.texts("allowMethods", faults),
        headers: inner.texts("allowHeaders", faults),
        exposed: inner.texts("exposeHeaders", faults),
        max_age: inner.duration("maxAge", faults),
        credentials: inner.flag("allowCredentials", faults).map(|flag| flag.value),
        drops_unmatched: inner
            .choice("unmatchedPreflights", &UNMATCHED, faults)
            .is_some_and(|choice| choice.value),
    };
    inner.finish(faults);
    Some(cors)
}
