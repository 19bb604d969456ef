//! HTTP routes of a VirtualService.
//!
//! Decoding checks the range of each number and duration; validation checks how fields go together.

use std::sync::Arc;
use std::time::Duration;

use tributary_model::{FaultAbort, FaultDelay, RedirectPort, RequestShare, TextMatch};

use super::virtual_service::Clients;
use super::{Located, Text};

/// Route of HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpRoute {
    /// Position.
    pub at: Located<()>,
    /// Name.
    pub name: Option<Text>,
    /// Conditions, of which a request must fulfil one.
    pub matches: Vec<HttpMatch>,
    /// Destinations.
    pub route: Vec<Weighted>,
    /// Answer that sends the client elsewhere.
    pub redirect: Option<Redirect>,
    /// Answer of the proxy.
    pub response: Option<Response>,
    /// VirtualService whose routes replace this one.
    pub delegate: Option<Delegate>,
    /// Change of path and host.
    pub rewrite: Option<Rewrite>,
    /// Changes of headers.
    pub headers: Option<Headers>,
    /// Longest duration of a request.
    pub timeout: Option<Duration>,
    /// Retries.
    pub retries: Option<Retries>,
    /// Deliberate errors.
    pub fault: Option<Fault>,
    /// Receiver of copies.
    pub mirror: Option<Destination>,
    /// Share of the copied requests.
    pub mirror_share: Option<RequestShare>,
    /// Further receivers of copies.
    pub mirrors: Option<Located<Vec<Mirror>>>,
    /// Cross-origin requests.
    pub cors: Option<Cors>,
}

/// Conditions that a request must all fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpMatch {
    /// Name.
    pub name: Option<Text>,
    /// Path.
    pub uri: Option<Located<TextMatch>>,
    /// Whether upper and lower case of the path are alike.
    pub ignores_uri_case: bool,
    /// Scheme.
    pub scheme: Option<Located<TextMatch>>,
    /// Method.
    pub method: Option<Located<TextMatch>>,
    /// Host.
    pub authority: Option<Located<TextMatch>>,
    /// Headers that fulfil a condition.
    pub headers: Vec<(Text, Located<TextMatch>)>,
    /// Headers that do not fulfil a condition.
    pub without_headers: Vec<(Text, Located<TextMatch>)>,
    /// Parameters of the query.
    pub query: Vec<(Text, Located<TextMatch>)>,
    /// Port of the listener.
    pub port: Option<Located<i64>>,
    /// Conditions on the client.
    pub clients: Clients,
    /// Name of the statistics.
    pub stat_prefix: Option<Text>,
}

impl HttpMatch {
    /// The conditions on texts: path of the field within the match, and the condition.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (String, &Located<TextMatch>)> {
        let single = [
            ("uri", &self.uri),
            ("scheme", &self.scheme),
            ("method", &self.method),
            ("authority", &self.authority),
        ];
        let single = single.into_iter().filter_map(|(name, of)| Some((name.to_owned(), of.as_ref()?)));
        let maps = [
            ("headers", &self.headers),
            ("withoutHeaders", &self.without_headers),
            ("queryParams", &self.query),
        ];
        single.chain(maps.into_iter().flat_map(|(name, map)| {
            map.iter()
                .map(move |(key, of)| (format!("{name}[{:?}]", crate::read::fault::clip(&key.value)), of))
        }))
    }
}

/// Destination with its share.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weighted {
    /// Position.
    pub at: Located<()>,
    /// Destination.
    pub destination: Option<Destination>,
    /// Share in relation to the other weights.
    pub weight: u32,
    /// Changes of headers; of HTTP only.
    pub headers: Option<Headers>,
}

/// Service, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Destination {
    /// Position.
    pub at: Located<()>,
    /// Host, which may be short.
    pub host: Option<Text>,
    /// Part of the endpoints.
    pub subset: Option<Text>,
    /// Port; 0 for `port` without a number.
    pub port: Option<Located<i64>>,
}

/// VirtualService whose routes replace one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delegate {
    /// Position.
    pub at: Located<()>,
    /// Name.
    pub name: Option<Text>,
    /// Namespace; that of the VirtualService if absent.
    pub namespace: Option<Text>,
}

/// Answer that sends a client elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Redirect {
    /// Position.
    pub at: Located<()>,
    /// Path.
    pub uri: Option<Text>,
    /// Text in place of the matched prefix.
    pub prefix: Option<Text>,
    /// Host.
    pub authority: Option<Text>,
    /// Scheme.
    pub scheme: Option<Text>,
    /// Port.
    pub port: RedirectPort,
    /// Status.
    pub status: Option<Located<u32>>,
}

/// Answer of the proxy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// Position.
    pub at: Located<()>,
    /// Status.
    pub status: Option<Located<u32>>,
    /// Body that is text.
    pub text: Option<Text>,
    /// Body in base64.
    pub bytes: Option<Located<Arc<[u8]>>>,
}

/// Change of path and host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rewrite {
    /// Position.
    pub at: Located<()>,
    /// Text in place of the matched prefix or path.
    pub uri: Option<Text>,
    /// Host.
    pub authority: Option<Text>,
    /// Pattern and substitution.
    pub regex: Option<Located<(Option<Text>, Option<Text>)>>,
}

/// Changes of headers of requests and responses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers {
    /// Changes of requests.
    pub request: Operations,
    /// Changes of responses.
    pub response: Operations,
}

/// Changes of headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operations {
    /// Headers that replace those of their name.
    pub set: Vec<(Text, Text)>,
    /// Headers that join those of their name.
    pub add: Vec<(Text, Text)>,
    /// Names of removed headers.
    pub remove: Vec<Text>,
}

/// Retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retries {
    /// Position.
    pub at: Located<()>,
    /// Retries of one request.
    pub attempts: u32,
    /// Longest duration of one attempt.
    pub per_try_timeout: Option<Duration>,
    /// Conditions.
    pub on: Option<Text>,
    /// Whether a retry prefers localities that were not tried yet.
    pub remote_localities: Option<bool>,
    /// Whether a retry prefers endpoints that were not tried yet.
    pub other_hosts: Option<bool>,
    /// Shortest wait between two attempts.
    pub backoff: Option<Duration>,
}

/// Deliberate errors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    /// Position.
    pub at: Located<()>,
    /// Whether a delay is declared, also one without a duration.
    pub declares_delay: bool,
    /// Whether a refusal is declared, also one without a status.
    pub declares_abort: bool,
    /// Delay.
    pub delay: Option<FaultDelay>,
    /// Refusal.
    pub abort: Option<FaultAbort>,
}

/// Receiver of copies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirror {
    /// Position.
    pub at: Located<()>,
    /// Destination.
    pub destination: Option<Destination>,
    /// Share of the copied requests.
    pub share: Option<RequestShare>,
}

/// Cross-origin requests that are allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cors {
    /// Origins.
    pub origins: Vec<Located<TextMatch>>,
    /// Methods.
    pub methods: Vec<Text>,
    /// Headers of requests.
    pub headers: Vec<Text>,
    /// Headers of responses that a page may read.
    pub exposed: Vec<Text>,
    /// Time for which a permission may be cached.
    pub max_age: Option<Located<Duration>>,
    /// Whether credentials are allowed.
    pub credentials: Option<bool>,
    /// Whether preflight requests of other origins are dropped.
    pub drops_unmatched: bool,
}
