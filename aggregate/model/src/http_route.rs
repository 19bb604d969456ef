//! Routes of HTTP requests, as VirtualServices declare them.
//!
//! Adapters build these values after validation; the core puts the routes of delegates in their place, and xds encodes
//! routes. Texts that a proxy expands, such as `%REQ(x)%`, are kept as declared.

use std::sync::Arc;
use std::time::Duration;

use crate::http_match::{HttpMatch, TextMatch};
use crate::requests::HttpRetries;
use crate::virtual_service::{DelegateRef, RouteDestination};

mod delegated;

/// Route of HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct HttpRoute {
    /// Name; may be empty.
    pub name: Arc<str>,
    /// Conditions, of which a request must fulfil one; every request if empty. Each is a route of a proxy.
    pub matches: Arc<[HttpMatch]>,
    /// What happens to the requests.
    pub action: HttpAction,
    /// How they are sent.
    pub settings: RouteSettings,
    /// VirtualService that declares it, if another one takes it from its delegate. The core sets it.
    pub delegate: Option<Arc<DelegateRef>>,
    /// Where it is declared.
    #[serde(skip)]
    pub position: RoutePosition,
}

/// Where a route is declared, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RoutePosition {
    /// Position among the routes of the VirtualService; of a delegate's route, that of the route that names the delegate.
    pub own: usize,
    /// Position among the routes of the delegate that declares it; 0 without a delegate. The core sets it.
    pub in_delegate: usize,
}

impl RoutePosition {
    /// Position among the routes of a VirtualService.
    #[must_use]
    pub const fn of(own: usize) -> Self {
        Self { own, in_delegate: 0 }
    }
}

impl HttpRoute {
    /// Returns the destinations, mirrors included, in declared order.
    pub fn destinations(&self) -> impl Iterator<Item = &RouteDestination> {
        let weighted = self.action.destinations().iter().map(WeightedDestination::destination);
        weighted.chain(self.settings.mirrors().map(Mirror::destination))
    }
    /// Returns the name of the route of a match: `ROUTE.MATCH` if the match has a name.
    #[must_use]
    pub fn name_of(&self, found: &HttpMatch) -> Arc<str> {
        if found.name.is_empty() {
            return Arc::clone(&self.name);
        }
        format!("{}.{}", self.name, found.name).into()
    }
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum HttpAction {
    /// It goes to one of these, of which there is at least one.
    Route(Arc<[WeightedDestination]>),
    /// The client is sent elsewhere.
    Redirect(Arc<Redirect>),
    /// The proxy answers.
    Respond(Arc<DirectResponse>),
    /// The routes of a delegate decide; those of them without an answer of their own give this one, if there is one.
    Delegate(DelegateRef, Option<Arc<DirectResponse>>),
}

impl HttpAction {
    /// Returns the destinations; none unless it is a route.
    #[must_use]
    pub fn destinations(&self) -> &[WeightedDestination] {
        if let Self::Route(destinations) = self { destinations } else { &[] }
    }
    /// Returns the delegate.
    #[must_use]
    pub const fn delegate(&self) -> Option<&DelegateRef> {
        if let Self::Delegate(delegate, _) = self { Some(delegate) } else { None }
    }
}

/// Destination with its share of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct WeightedDestination {
    /// Destination.
    pub destination: RouteDestination,
    /// Share in relation to the other weights. With several destinations, one of weight 0 receives nothing.
    pub weight: u32,
    /// Changes of headers.
    pub headers: Option<Arc<HeaderChanges>>,
}

impl WeightedDestination {
    /// Destination.
    #[must_use]
    pub const fn destination(&self) -> &RouteDestination {
        &self.destination
    }
}

/// How the requests of a route are sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct RouteSettings {
    /// Change of path and host.
    pub rewrite: Option<Arc<Rewrite>>,
    /// Changes of headers.
    pub headers: Option<Arc<HeaderChanges>>,
    /// Longest duration of a request; no limit if absent.
    pub timeout: Option<Duration>,
    /// Retries; those of the mesh if absent.
    pub retries: Option<Arc<RouteRetries>>,
    /// Deliberate errors.
    pub fault: Option<Arc<FaultInjection>>,
    /// Receivers of copies; most routes have none.
    pub mirroring: Option<Arc<Mirroring>>,
    /// Cross-origin requests.
    pub cors: Option<Arc<Cors>>,
}

impl RouteSettings {
    /// Returns these settings, the absent ones from `above`, as a delegate's route takes them.
    #[must_use]
    pub fn over(&self, above: &Self) -> Self {
        Self {
            rewrite: self.rewrite.clone().or_else(|| above.rewrite.clone()),
            headers: self.headers.clone().or_else(|| above.headers.clone()),
            timeout: self.timeout.or(above.timeout),
            retries: self.retries.clone().or_else(|| above.retries.clone()),
            fault: self.fault.clone().or_else(|| above.fault.clone()),
            mirroring: match (&self.mirroring, &above.mirroring) {
                (Some(own), Some(above)) => Some(Arc::new(own.over(above))),
                (one, other) => one.clone().or_else(|| other.clone()),
            },
            cors: self.cors.clone().or_else(|| above.cors.clone()),
        }
    }
    /// Returns the receivers of copies, in order, those without a share included.
    pub fn mirrors(&self) -> impl Iterator<Item = &Mirror> {
        let all = self.mirroring.as_deref();
        all.into_iter()
            .flat_map(|of| of.first.iter().chain(of.others.iter().flat_map(|others| others.iter())))
    }
}

/// Share of the requests, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct RequestShare(u32);

impl RequestShare {
    /// All requests.
    pub const ALL: Self = Self(1_000_000);
    /// No request.
    pub const NONE: Self = Self(0);

    /// Checks a number of millionths; `None` if there are more than a million.
    #[must_use]
    pub const fn new(millionths: u32) -> Option<Self> {
        if millionths > Self::ALL.0 { None } else { Some(Self(millionths)) }
    }
    /// Returns the number of millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

/// Receivers of copies of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct Mirroring {
    /// The one of the field `mirror`, with the declared share or all requests.
    pub first: Option<Mirror>,
    /// Share declared beside the field `mirror`; a delegate's route may take it without the receiver.
    pub share: Option<RequestShare>,
    /// Those of the field `mirrors`.
    pub others: Option<Arc<[Mirror]>>,
}

impl Mirroring {
    fn over(&self, above: &Self) -> Self {
        let share = self.share.or(above.share);
        let first = self.first.as_ref().or(above.first.as_ref());
        Self {
            first: first.map(|mirror| Mirror { share: share.unwrap_or(RequestShare::ALL), ..mirror.clone() }),
            share,
            others: self.others.clone().or_else(|| above.others.clone()),
        }
    }
}

/// Receiver of copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Mirror {
    /// Destination.
    pub destination: RouteDestination,
    /// Share of the requests that are copied.
    pub share: RequestShare,
}

impl Mirror {
    /// Destination.
    #[must_use]
    pub const fn destination(&self) -> &RouteDestination {
        &self.destination
    }
}

/// Change of path and host of a request. At least one is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Rewrite {
    /// Path.
    pub path: Option<PathRewrite>,
    /// Host; replaces one that headers set.
    pub authority: Option<Arc<str>>,
}

/// Change of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum PathRewrite {
    /// The matched prefix, or the matched path as a whole, becomes this text.
    Prefix(Arc<str>),
    /// What the RE2 pattern matches becomes the substitution, in which `\1` is a group.
    Regex(Arc<str>, Arc<str>),
}

/// Changes of headers of requests and responses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct HeaderChanges {
    /// Host that the request gets.
    pub authority: Option<Arc<str>>,
    /// Changes of requests.
    pub request: HeaderOperations,
    /// Changes of responses.
    pub response: HeaderOperations,
}

/// Changes of headers, without the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct HeaderOperations {
    /// Headers that replace those of their name, sorted by name.
    pub set: Arc<[(Arc<str>, Arc<str>)]>,
    /// Headers that join those of their name, sorted by name. They come after those that replace.
    pub add: Arc<[(Arc<str>, Arc<str>)]>,
    /// Names of removed headers, in declared order.
    pub remove: Arc<[Arc<str>]>,
}

/// Answer that sends a client elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Redirect {
    /// Path.
    pub path: RedirectPath,
    /// Host; that of the request if absent.
    pub authority: Option<Arc<str>>,
    /// Scheme, `http` or `https`; that of the request if absent.
    pub scheme: Option<Arc<str>>,
    /// Port.
    pub port: RedirectPort,
    /// Status: 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// Path of a redirect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum RedirectPath {
    /// That of the request.
    Keep,
    /// This one.
    Whole(Arc<str>),
    /// That of the request with this text in place of the matched prefix.
    Prefix(Arc<str>),
}

/// Port of a redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum RedirectPort {
    /// Nothing is declared: that of the request.
    #[default]
    Undeclared,
    /// The usual one of the scheme.
    OfScheme,
    /// That of the listener.
    OfListener,
    /// This one.
    Number(crate::port::PortNumber),
}

/// Answer of the proxy itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct DirectResponse {
    /// Status, 200 to 599.
    pub status: u16,
    /// Body.
    pub body: Option<ResponseBody>,
}

/// Body of an answer, of at most a mebibyte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum ResponseBody {
    /// Text.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

/// Retries of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct RouteRetries {
    /// Retries; none with 0 attempts.
    pub retries: HttpRetries,
    /// Whether `other_hosts` is declared. If not, a route to one destination by a hash does not prefer others.
    pub declares_other_hosts: bool,
}

/// Deliberate errors. At least one is set.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct FaultInjection {
    /// Delay of requests.
    pub delay: Option<FaultDelay>,
    /// Refusal of requests.
    pub abort: Option<FaultAbort>,
}

/// Delay of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct FaultDelay {
    /// Delay.
    pub duration: Duration,
    /// Share of the requests; none if none is declared.
    pub share: RequestShare,
}

/// Refusal of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct FaultAbort {
    /// Status.
    pub status: AbortStatus,
    /// Share of the requests; if absent, the default of the proxy: no request.
    pub share: Option<RequestShare>,
}

/// Status of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub enum AbortStatus {
    /// Of HTTP.
    Http(u16),
    /// Of gRPC.
    Grpc(u8),
}

/// Names of the statuses of gRPC, by number.
pub const GRPC_STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Cross-origin requests that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Cors {
    /// Origins. Never [`TextMatch::Present`].
    pub origins: Arc<[TextMatch]>,
    /// Methods.
    pub methods: Arc<[Arc<str>]>,
    /// Headers of requests.
    pub headers: Arc<[Arc<str>]>,
    /// Headers of responses that a page may read.
    pub exposed: Arc<[Arc<str>]>,
    /// Time for which a permission may be cached, in whole seconds.
    pub max_age: Option<Duration>,
    /// Whether credentials are allowed, if declared.
    pub credentials: Option<bool>,
    /// Whether preflight requests of other origins are forwarded.
    pub forwards_unmatched: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostname::Hostname;

    fn mk_mirror(host: &str, share: u32) -> Mirror {
        let destination = RouteDestination { host: Hostname::new(host).unwrap(), subset: None, port: None };
        Mirror { destination, share: RequestShare::new(share).unwrap() }
    }

    #[test]
    fn settings_of_a_delegate_replace_whole_blocks() {
        let cors = |credentials| Cors {
            origins: Arc::default(),
            methods: Arc::default(),
            headers: Arc::default(),
            exposed: Arc::default(),
            max_age: None,
            credentials,
            forwards_unmatched: true,
        };
        let root = RouteSettings {
            timeout: Some(Duration::from_secs(3)),
            cors: Some(Arc::new(cors(Some(true)))),
            ..RouteSettings::default()
        };
        let own = RouteSettings { cors: Some(Arc::new(cors(None))), ..RouteSettings::default() };
        let merged = own.over(&root);
        assert_eq!((merged.timeout, merged.cors), (root.timeout, own.cors));
    }

    #[test]
    fn share_of_a_mirror_is_inherited_apart_from_it() {
        let mirroring = |first, share: Option<u32>| Mirroring {
            first,
            share: share.and_then(RequestShare::new),
            others: None,
        };
        let root = mirroring(Some(mk_mirror("b.test", 5)), Some(5));
        let own = mirroring(Some(mk_mirror("c.test", 1_000_000)), None);
        assert_eq!(own.over(&root).first, Some(mk_mirror("c.test", 5)));
        let share_only = mirroring(None, Some(7));
        assert_eq!(share_only.over(&root).first, Some(mk_mirror("b.test", 7)));
        assert_eq!(Mirroring::default().over(&root), root);
    }

    #[test]
    fn route_of_a_named_match_has_both_names() {
        let route = HttpRoute {
            name: "route".into(),
            matches: Arc::default(),
            action: HttpAction::Route(Arc::default()),
            settings: RouteSettings::default(),
            delegate: None,
            position: RoutePosition::default(),
        };
        let named = HttpMatch { name: "one".into(), ..HttpMatch::default() };
        assert_eq!((&*route.name_of(&named), &*route.name_of(&HttpMatch::default())), ("route.one", "route"));
    }

    #[test]
    fn share_above_all_requests_is_refused() {
        assert_eq!(RequestShare::new(1_000_000), Some(RequestShare::ALL));
        assert_eq!(RequestShare::new(1_000_001), None);
    }
}
