//! Reduces the routes of a VirtualService to what gRPC clients support (gRFC A28, A31, A42, A44).
//!
//! The route table of a gRPC client is made of the result. What is left out is named, so that it can be reported.

use std::collections::BTreeSet;
use std::sync::Arc;

use tributary_model::{HashKey, HttpMatch, TextMatch};

use crate::http_route::{Forward, RouteAction, RoutePlan, Targets};

/// Method of every gRPC request.
const METHOD: &str = "POST";

/// Part of a VirtualService that gRPC clients lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GrpcGap {
    /// Routes with a condition on host, scheme, query, a pattern of methods, or the absence of a value of a header.
    Conditions,
    /// Redirects and answers: the requests fail.
    Answers,
    /// Changes of path and host.
    Rewrites,
    /// Changes of headers.
    Headers,
    /// Copies.
    Mirrors,
    /// Deliberate errors.
    Faults,
    /// Cross-origin requests.
    Cors,
    /// Endpoints that follow from a cookie, the query or the address of the client.
    Hash,
}

impl GrpcGap {
    /// Returns the name of the fields of a VirtualService or DestinationRule.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conditions => "match conditions other than path and headers",
            Self::Answers => "redirect, directResponse",
            Self::Rewrites => "rewrite",
            Self::Headers => "headers",
            Self::Mirrors => "mirror",
            Self::Faults => "fault",
            Self::Cors => "corsPolicy",
            Self::Hash => "consistentHash without httpHeaderName",
        }
    }
}

/// Returns the routes that a gRPC client gets, and what they lack. A route whose conditions gRPC cannot decide is left
/// out: its requests go to the routes behind it.
#[must_use]
pub fn grpc_routes(routes: &[RoutePlan]) -> (Vec<RoutePlan>, BTreeSet<GrpcGap>) {
    let mut gaps = BTreeSet::new();
    let reduced = routes.iter().filter_map(|route| reduce(route, &mut gaps)).collect();
    (reduced, gaps)
}

fn reduce(route: &RoutePlan, gaps: &mut BTreeSet<GrpcGap>) -> Option<RoutePlan> {
    let found = match conditions(&route.found) {
        Ok(found) => found,
        Err(gap) => {
            gaps.extend(gap);
            return None;
        }
    };
    let lacks = [
        (GrpcGap::Headers, !route.headers.is_empty()),
        (GrpcGap::Faults, route.fault.is_some()),
        (GrpcGap::Cors, route.cors.is_some()),
    ];
    gaps.extend(lacks.into_iter().filter(|(_, lacks)| *lacks).map(|(gap, _)| gap));
    let action = match &route.action {
        RouteAction::Forward(forward) => RouteAction::Forward(reduce_forward(forward, gaps)),
        RouteAction::Redirect(..) | RouteAction::Respond(_) => {
            gaps.insert(GrpcGap::Answers);
            route.action.clone()
        }
    };
    let name = Arc::clone(&route.name);
    Some(RoutePlan { name, found, action, headers: Vec::new(), fault: None, cors: None, delegate: None })
}

fn reduce_forward(forward: &Forward, gaps: &mut BTreeSet<GrpcGap>) -> Forward {
    let hash: Vec<_> =
        forward.hash.iter().filter(|key| matches!(key.as_ref(), HashKey::Header(_))).cloned().collect();
    let mut targets = forward.targets.clone();
    if let Targets::Weighted(all) = &mut targets {
        let changed = all.iter_mut().filter_map(|to| to.headers.take()).count();
        gaps.extend((changed > 0).then_some(GrpcGap::Headers));
    }
    let lacks = [
        (GrpcGap::Rewrites, forward.path.is_some() || forward.authority.is_some()),
        (GrpcGap::Mirrors, !forward.mirrors.is_empty()),
        (GrpcGap::Hash, hash.len() < forward.hash.len()),
    ];
    gaps.extend(lacks.into_iter().filter(|(_, lacks)| *lacks).map(|(gap, _)| gap));
    let (path, authority, mirrors) = (None, None, Vec::new());
    Forward { targets, path, authority, mirrors, hash, ..forward.clone() }
}

/// Returns the conditions on path and headers; fails if no gRPC request fulfils the conditions, or with the gap if gRPC
/// cannot decide them.
fn conditions(found: &HttpMatch) -> Result<HttpMatch, Option<GrpcGap>> {
    let is_any = |text: &Option<TextMatch>| matches!(text, None | Some(TextMatch::Present));
    let decidable = is_any(&found.scheme)
        && is_any(&found.authority)
        && found.query.is_empty()
        && found.without_headers.iter().all(|(_, text)| *text == TextMatch::Present);
    let is_method = match &found.method {
        None | Some(TextMatch::Present) => true,
        Some(TextMatch::Exact(method)) => **method == *METHOD,
        Some(TextMatch::Prefix(prefix)) => METHOD.starts_with(&**prefix),
        Some(TextMatch::Regex(_)) => return Err(Some(GrpcGap::Conditions)),
    };
    match (is_method, decidable) {
        (false, _) => Err(None),
        (true, false) => Err(Some(GrpcGap::Conditions)),
        (true, true) => Ok(HttpMatch {
            name: Arc::clone(&found.name),
            uri: found.uri.clone(),
            ignores_uri_case: found.ignores_uri_case,
            headers: lower_case(&found.headers),
            without_headers: lower_case(&found.without_headers),
            ..HttpMatch::default()
        }),
    }
}

/// Returns the conditions with the names of headers as gRPC has them.
fn lower_case(headers: &Arc<[(Arc<str>, TextMatch)]>) -> Arc<[(Arc<str>, TextMatch)]> {
    let has_upper = |name: &str| name.bytes().any(|byte| byte.is_ascii_uppercase());
    if !headers.iter().any(|(name, _)| has_upper(name)) {
        return Arc::clone(headers);
    }
    headers.iter().map(|(name, text)| (name.to_ascii_lowercase().into(), text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tributary_model::{
        Cors, DirectResponse, FaultInjection, HashCookie, HeaderChanges, PathRewrite, RequestShare,
    };

    use super::*;
    use crate::http_route::WeightedTarget;

    fn mk_forward() -> Forward {
        Forward {
            targets: Targets::One("outbound|80||b.test".parse().unwrap()),
            path: None,
            authority: None,
            timeout: Some(Duration::from_secs(1)),
            retries: None,
            mirrors: Vec::new(),
            hash: Vec::new(),
        }
    }
    fn mk_plan(found: HttpMatch, forward: Forward) -> RoutePlan {
        let action = RouteAction::Forward(forward);
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
    fn mk_headers(name: &str, text: TextMatch) -> Arc<[(Arc<str>, TextMatch)]> {
        [(name.into(), text)].into()
    }
    fn exact(text: &str) -> TextMatch {
        TextMatch::Exact(text.into())
    }

    #[test]
    fn conditions_on_path_and_headers_are_kept() {
        let found = HttpMatch {
            uri: Some(TextMatch::Prefix("/pay.Pay/".into())),
            headers: mk_headers("x-a", exact("1")),
            without_headers: mk_headers("x-b", TextMatch::Present),
            ..HttpMatch::default()
        };
        let plan = mk_plan(found.clone(), mk_forward());
        assert_eq!(grpc_routes(std::slice::from_ref(&plan)), (vec![plan.clone()], BTreeSet::new()));
        let upper = HttpMatch { headers: mk_headers("X-A", exact("1")), ..found };
        assert_eq!(grpc_routes(&[mk_plan(upper, mk_forward())]).0, [plan]);
    }

    #[test]
    fn route_that_grpc_cannot_decide_is_left_out() {
        let any = HttpMatch::default;
        let method = |text| HttpMatch { method: Some(text), ..any() };
        let unknown = BTreeSet::from([GrpcGap::Conditions]);
        let cases = [
            (method(exact("POST")), 1, BTreeSet::new()),
            (method(TextMatch::Prefix("P".into())), 1, BTreeSet::new()),
            (method(exact("GET")), 0, BTreeSet::new()),
            (method(TextMatch::Regex("P.*".into())), 0, unknown.clone()),
            (HttpMatch { authority: Some(exact("a.test")), ..any() }, 0, unknown.clone()),
            (HttpMatch { authority: Some(TextMatch::Present), ..any() }, 1, BTreeSet::new()),
            (HttpMatch { scheme: Some(exact("http")), ..any() }, 0, unknown.clone()),
            (HttpMatch { query: mk_headers("q", TextMatch::Present), ..any() }, 0, unknown.clone()),
            (HttpMatch { without_headers: mk_headers("x", exact("1")), ..any() }, 0, unknown),
        ];
        for (found, kept, gaps) in cases {
            let (routes, lacks) = grpc_routes(&[mk_plan(found.clone(), mk_forward())]);
            assert_eq!((routes.len(), lacks), (kept, gaps), "{found:?}");
            assert!(routes.iter().all(|route| route.found == any()), "{routes:?}");
        }
    }

    #[test]
    fn actions_lose_what_grpc_lacks() {
        let changes = Arc::new(HeaderChanges::default());
        let cluster = || "outbound|80||b.test".parse().unwrap();
        let weighted =
            |headers| Targets::Weighted(vec![WeightedTarget { cluster: cluster(), weight: 1, headers }]);
        let cookie = HashCookie { name: "u".into(), path: "".into(), ttl: None, attributes: Arc::default() };
        let header = Arc::new(HashKey::Header("x-user".into()));
        let cases = [
            (
                Forward { path: Some(PathRewrite::Prefix("/".into())), ..mk_forward() },
                mk_forward(),
                GrpcGap::Rewrites,
            ),
            (Forward { authority: Some("a".into()), ..mk_forward() }, mk_forward(), GrpcGap::Rewrites),
            (
                Forward { mirrors: vec![(cluster(), RequestShare::ALL)], ..mk_forward() },
                mk_forward(),
                GrpcGap::Mirrors,
            ),
            (
                Forward { hash: vec![header.clone(), Arc::new(HashKey::Cookie(cookie))], ..mk_forward() },
                Forward { hash: vec![header], ..mk_forward() },
                GrpcGap::Hash,
            ),
            (
                Forward { targets: weighted(Some(Arc::clone(&changes))), ..mk_forward() },
                Forward { targets: weighted(None), ..mk_forward() },
                GrpcGap::Headers,
            ),
        ];
        for (whole, reduced, gap) in cases {
            let (routes, lacks) = grpc_routes(&[mk_plan(HttpMatch::default(), whole)]);
            let want = vec![mk_plan(HttpMatch::default(), reduced)];
            assert_eq!((routes, lacks), (want, BTreeSet::from([gap])));
        }
    }

    #[test]
    fn route_loses_filters_and_answers_fail() {
        let plain = mk_plan(HttpMatch::default(), mk_forward());
        let fault = Some(Arc::new(FaultInjection { delay: None, abort: None }));
        let cors = Some(Arc::new(Cors {
            origins: Arc::default(),
            methods: Arc::default(),
            headers: Arc::default(),
            exposed: Arc::default(),
            max_age: None,
            credentials: None,
            forwards_unmatched: true,
        }));
        let headers = vec![Arc::new(HeaderChanges::default())];
        let (routes, gaps) = grpc_routes(&[RoutePlan { fault, cors, headers, ..plain.clone() }]);
        assert_eq!(routes, std::slice::from_ref(&plain));
        assert_eq!(gaps, BTreeSet::from([GrpcGap::Headers, GrpcGap::Faults, GrpcGap::Cors]));
        let action = RouteAction::Respond(Arc::new(DirectResponse { status: 200, body: None }));
        let answer = RoutePlan { action, ..plain };
        let (routes, gaps) = grpc_routes(std::slice::from_ref(&answer));
        assert_eq!((routes, gaps), (vec![answer], BTreeSet::from([GrpcGap::Answers])));
    }
}
