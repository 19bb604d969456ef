//! Converts the HTTP routes of a VirtualService.

use std::sync::Arc;

use tributary_model::{
    Cors, DelegateRef, DirectResponse, FaultInjection, HeaderChanges, HeaderOperations, HttpAction,
    HttpMatch, HttpRetries, HttpRoute, Mirror, Mirroring, Namespace, PathRewrite, Redirect, RedirectPath,
    RequestShare, ResponseBody, Rewrite, RoutePosition, RouteRetries, RouteSettings, TextMatch,
    WeightedDestination,
};

use super::endpoints;
use super::virtual_service::{clients, destination};
use crate::document::http_route as document;
use crate::document::{Located, Text, VirtualService};
use crate::validate::is_authority;

type Texts = Arc<[(Arc<str>, Arc<str>)]>;

/// Converts the route at a position of a VirtualService of this namespace.
pub(super) fn route((at, route): (usize, &document::HttpRoute), namespace: &Namespace) -> Option<HttpRoute> {
    Some(HttpRoute {
        name: text(route.name.as_ref()),
        matches: route.matches.iter().map(http_match).collect(),
        action: action(route, namespace)?,
        settings: settings(route),
        delegate: None,
        position: RoutePosition::of(at),
    })
}

fn text(text: Option<&Text>) -> Arc<str> {
    text.map_or_else(|| "".into(), |text| Arc::clone(&text.value))
}

fn optional(text: Option<&Text>) -> Option<Arc<str>> {
    text.map(|text| Arc::clone(&text.value))
}

fn http_match(found: &document::HttpMatch) -> HttpMatch {
    let of = |of: &Option<Located<TextMatch>>| of.as_ref().map(|of| of.value.clone());
    HttpMatch {
        name: text(found.name.as_ref()),
        uri: of(&found.uri),
        ignores_uri_case: found.ignores_uri_case,
        scheme: of(&found.scheme),
        method: of(&found.method),
        authority: of(&found.authority),
        headers: texts(&found.headers, Clone::clone),
        without_headers: texts(&found.without_headers, missing),
        query: texts(&found.query, Clone::clone),
        port: found.port.and_then(|port| endpoints::number_of(port.value)),
        clients: clients(&found.clients),
        stat_prefix: text(found.stat_prefix.as_ref()),
    }
}

/// A header that is absent may be named by the pattern `*`.
fn missing(of: &TextMatch) -> TextMatch {
    match of {
        TextMatch::Regex(pattern) if &**pattern == "*" => TextMatch::Present,
        of => of.clone(),
    }
}

fn texts(
    all: &[(Text, Located<TextMatch>)],
    of: impl Fn(&TextMatch) -> TextMatch,
) -> Arc<[(Arc<str>, TextMatch)]> {
    let mut all: Vec<_> =
        all.iter().map(|(name, found)| (Arc::clone(&name.value), of(&found.value))).collect();
    all.sort();
    all.into()
}

fn action(route: &document::HttpRoute, namespace: &Namespace) -> Option<HttpAction> {
    let response = || route.response.as_ref().and_then(response).map(Arc::new);
    if let Some(delegate) = &route.delegate {
        let own = delegate.namespace.as_ref().and_then(|text| Namespace::new(&text.value).ok());
        let name = Arc::clone(&delegate.name.as_ref()?.value);
        let namespace = own.unwrap_or_else(|| namespace.clone());
        return Some(HttpAction::Delegate(DelegateRef { name, namespace }, response()));
    }
    if let Some(redirect) = &route.redirect {
        return Some(HttpAction::Redirect(Arc::new(self::redirect(redirect)?)));
    }
    if route.response.is_some() {
        return response().map(HttpAction::Respond);
    }
    route.route.iter().map(weighted).collect::<Option<_>>().map(HttpAction::Route)
}

fn weighted(document: &document::Weighted) -> Option<WeightedDestination> {
    Some(WeightedDestination {
        destination: destination(document.destination.as_ref()?)?,
        weight: document.weight,
        headers: document.headers.as_ref().map(|headers| Arc::new(changes(headers))),
    })
}

fn redirect(document: &document::Redirect) -> Option<Redirect> {
    let path = match (&document.uri, &document.prefix) {
        (Some(uri), _) => RedirectPath::Whole(Arc::clone(&uri.value)),
        (None, Some(prefix)) => RedirectPath::Prefix(Arc::clone(&prefix.value)),
        (None, None) => RedirectPath::Keep,
    };
    Some(Redirect {
        path,
        authority: optional(document.authority.as_ref()),
        scheme: optional(document.scheme.as_ref()),
        port: document.port,
        status: document.status.map_or(Ok(301), |status| u16::try_from(status.value)).ok()?,
    })
}

fn response(document: &document::Response) -> Option<DirectResponse> {
    let text = document.text.as_ref().map(|text| ResponseBody::Text(Arc::clone(&text.value)));
    let bytes = document.bytes.as_ref().map(|bytes| ResponseBody::Bytes(Arc::clone(&bytes.value)));
    Some(DirectResponse { status: u16::try_from(document.status?.value).ok()?, body: text.or(bytes) })
}

fn settings(route: &document::HttpRoute) -> RouteSettings {
    RouteSettings {
        rewrite: route.rewrite.as_ref().map(|of| Arc::new(rewrite(of))),
        headers: route.headers.as_ref().map(|of| Arc::new(changes(of))),
        timeout: route.timeout,
        retries: route.retries.as_ref().map(|of| Arc::new(retries(of))),
        fault: route.fault.as_ref().and_then(fault).map(Arc::new),
        mirroring: mirroring(route).map(Arc::new),
        cors: route.cors.as_ref().map(|of| Arc::new(cors(of))),
    }
}

fn rewrite(document: &document::Rewrite) -> Rewrite {
    let prefix = document.uri.as_ref().map(|uri| PathRewrite::Prefix(Arc::clone(&uri.value)));
    let regex = document.regex.as_ref().and_then(|regex| {
        let (of, to) = (optional(regex.value.0.as_ref())?, optional(regex.value.1.as_ref())?);
        Some(PathRewrite::Regex(of, to))
    });
    Rewrite { path: regex.or(prefix), authority: optional(document.authority.as_ref()) }
}

/// The host is apart from other headers of a request.
fn changes(document: &document::Headers) -> HeaderChanges {
    let written = document.request.set.iter().chain(&document.request.add);
    let authority = written.filter(|(name, _)| is_authority(&name.value)).map(|(_, value)| value).next_back();
    HeaderChanges {
        authority: optional(authority),
        request: operations(&document.request),
        response: operations(&document.response),
    }
}

fn operations(document: &document::Operations) -> HeaderOperations {
    let sorted = |all: &[(Text, Text)]| -> Texts {
        let others = all.iter().filter(|(name, _)| !is_authority(&name.value));
        let mut others: Vec<_> =
            others.map(|(name, value)| (Arc::clone(&name.value), Arc::clone(&value.value))).collect();
        others.sort();
        others.into()
    };
    HeaderOperations {
        set: sorted(&document.set),
        add: sorted(&document.add),
        remove: document.remove.iter().map(|name| Arc::clone(&name.value)).collect(),
    }
}

fn retries(document: &document::Retries) -> RouteRetries {
    let usual = HttpRetries::default();
    let retries = match &document.on {
        Some(on) => HttpRetries::default().on(&on.value).unwrap_or(usual),
        None => usual,
    };
    let retries = HttpRetries {
        attempts: document.attempts,
        per_try_timeout: document.per_try_timeout,
        backoff: document.backoff,
        remote_localities: document.remote_localities.unwrap_or_default(),
        other_hosts: document.other_hosts.unwrap_or(true),
        ..retries
    };
    RouteRetries { retries, declares_other_hosts: document.other_hosts.is_some() }
}

fn fault(document: &document::Fault) -> Option<FaultInjection> {
    let fault = FaultInjection { delay: document.delay, abort: document.abort };
    (fault.delay.is_some() || fault.abort.is_some()).then_some(fault)
}

fn mirroring(route: &document::HttpRoute) -> Option<Mirroring> {
    let share = route.mirror_share.unwrap_or(RequestShare::ALL);
    let others = route.mirrors.as_ref().map(|mirrors| {
        let one = |mirror: &document::Mirror| {
            let share = mirror.share.unwrap_or(RequestShare::ALL);
            Some(Mirror { destination: destination(mirror.destination.as_ref()?)?, share })
        };
        mirrors.value.iter().filter_map(one).collect()
    });
    let mirroring = Mirroring {
        first: route.mirror.as_ref().and_then(destination).map(|destination| Mirror { destination, share }),
        share: route.mirror_share,
        others,
    };
    (mirroring != Mirroring::default()).then_some(mirroring)
}

/// The paths of shares without a mirror. A route of a delegate may have the mirror of the other side.
pub(super) fn without_mirror(service: &VirtualService) -> impl Iterator<Item = Arc<str>> {
    let routes = service.routes().filter(|_| !service.is_delegate());
    let useless = routes.filter(|(_, route)| {
        route.mirror_share.is_some() && route.mirror.is_none() && route.delegate.is_none()
    });
    useless.map(|(path, _)| format!("{path}.mirrorPercentage").into())
}

fn cors(document: &document::Cors) -> Cors {
    let texts = |all: &[Text]| all.iter().map(|text| Arc::clone(&text.value)).collect();
    Cors {
        origins: document.origins.iter().map(|origin| origin.value.clone()).collect(),
        methods: texts(&document.methods),
        headers: texts(&document.headers),
        exposed: texts(&document.exposed),
        max_age: document.max_age.map(|age| age.value),
        credentials: document.credentials,
        forwards_unmatched: !document.drops_unmatched,
    }
}
