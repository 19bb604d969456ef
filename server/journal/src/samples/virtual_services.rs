//! Random VirtualServices.

use super::*;

type Pairs = Arc<[(Arc<str>, Arc<str>)]>;
type Named = Arc<[(Arc<str>, TextMatch)]>;

fn pairs() -> BoxedStrategy<Pairs> {
    vec((text(), text()), 0..3).prop_map(Into::into).boxed()
}
fn texts() -> BoxedStrategy<Arc<[Arc<str>]>> {
    vec(text(), 0..3).prop_map(Into::into).boxed()
}
fn span() -> BoxedStrategy<Option<Duration>> {
    of(prop_oneof![Just(Duration::ZERO), duration()]).boxed()
}
fn share() -> BoxedStrategy<RequestShare> {
    (0..=1_000_000_u32).prop_map(|millionths| RequestShare::new(millionths).unwrap()).boxed()
}
fn text_match() -> BoxedStrategy<TextMatch> {
    prop_oneof![
        Just(TextMatch::Present),
        text().prop_map(TextMatch::Exact),
        text().prop_map(TextMatch::Prefix),
        text().prop_map(TextMatch::Regex)
    ]
    .boxed()
}
fn clients() -> BoxedStrategy<ClientMatch> {
    let gateways = select(vec![GatewayMatch::Undeclared, GatewayMatch::Mesh, GatewayMatch::Other]);
    (labels(), of(namespace()), gateways)
        .prop_map(|(labels, namespace, gateways)| ClientMatch { labels, namespace, gateways })
        .boxed()
}
fn named() -> BoxedStrategy<Named> {
    vec((text(), text_match()), 0..3).prop_map(Into::into).boxed()
}
fn http_match() -> BoxedStrategy<HttpMatch> {
    let single = (of(text_match()), of(text_match()), of(text_match()), of(text_match()));
    let more = (text(), any::<bool>(), of(port()), clients(), text());
    (single, (named(), named(), named()), more)
        .prop_map(|(single, maps, more)| HttpMatch {
            name: more.0,
            uri: single.0,
            ignores_uri_case: more.1,
            scheme: single.1,
            method: single.2,
            authority: single.3,
            headers: maps.0,
            without_headers: maps.1,
            query: maps.2,
            port: more.2,
            clients: more.3,
            stat_prefix: more.4,
        })
        .boxed()
}
fn destination() -> BoxedStrategy<RouteDestination> {
    let subset = name().prop_map(|name| Subset::new(&name).unwrap());
    (host(), of(subset), of(port()))
        .prop_map(|(host, subset, port)| RouteDestination { host, subset, port })
        .boxed()
}
fn headers() -> BoxedStrategy<HeaderChanges> {
    let operations =
        || (pairs(), pairs(), texts()).prop_map(|(set, add, remove)| HeaderOperations { set, add, remove });
    (of(text()), operations(), operations())
        .prop_map(|(authority, request, response)| HeaderChanges { authority, request, response })
        .boxed()
}
fn response() -> BoxedStrategy<Arc<DirectResponse>> {
    let body = prop_oneof![
        text().prop_map(ResponseBody::Text),
        vec(any::<u8>(), 0..4).prop_map(|bytes| ResponseBody::Bytes(bytes.into()))
    ];
    (any::<u16>(), of(body)).prop_map(|(status, body)| Arc::new(DirectResponse { status, body })).boxed()
}
fn redirect() -> BoxedStrategy<Redirect> {
    let path = prop_oneof![
        Just(RedirectPath::Keep),
        text().prop_map(RedirectPath::Whole),
        text().prop_map(RedirectPath::Prefix)
    ];
    let to = prop_oneof![
        Just(RedirectPort::Undeclared),
        Just(RedirectPort::OfScheme),
        Just(RedirectPort::OfListener),
        port().prop_map(RedirectPort::Number)
    ];
    (path, of(text()), of(text()), to, any::<u16>())
        .prop_map(|(path, authority, scheme, port, status)| Redirect {
            path,
            authority,
            scheme,
            port,
            status,
        })
        .boxed()
}
fn action() -> BoxedStrategy<HttpAction> {
    let weighted = (destination(), any::<u32>(), of(headers().prop_map(Arc::new)))
        .prop_map(|(destination, weight, headers)| WeightedDestination { destination, weight, headers });
    let delegate = (text(), namespace()).prop_map(|(name, namespace)| DelegateRef { name, namespace });
    prop_oneof![
        vec(weighted, 0..3).prop_map(|all| HttpAction::Route(all.into())),
        redirect().prop_map(|of| HttpAction::Redirect(Arc::new(of))),
        response().prop_map(HttpAction::Respond),
        (delegate, of(response())).prop_map(|(of, answer)| HttpAction::Delegate(of, answer)),
    ]
    .boxed()
}
fn rewrite() -> BoxedStrategy<Arc<Rewrite>> {
    let path = prop_oneof![
        text().prop_map(PathRewrite::Prefix),
        (text(), text()).prop_map(|(of, to)| PathRewrite::Regex(of, to))
    ];
    (of(path), of(text())).prop_map(|(path, authority)| Arc::new(Rewrite { path, authority })).boxed()
}
fn retries() -> BoxedStrategy<Arc<RouteRetries>> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (any::<u32>(), text(), vec(any::<u16>(), 0..3), span(), span(), flags)
        .prop_map(|(attempts, conditions, codes, per_try_timeout, backoff, flags)| {
            let retries = HttpRetries {
                attempts,
                conditions,
                codes: codes.into(),
                per_try_timeout,
                backoff,
                remote_localities: flags.0,
                other_hosts: flags.1,
            };
            Arc::new(RouteRetries { retries, declares_other_hosts: flags.2 })
        })
        .boxed()
}
fn fault() -> BoxedStrategy<Arc<FaultInjection>> {
    let delay = (duration(), share()).prop_map(|(duration, share)| FaultDelay { duration, share });
    let status =
        prop_oneof![any::<u16>().prop_map(AbortStatus::Http), any::<u8>().prop_map(AbortStatus::Grpc)];
    let abort = (status, of(share())).prop_map(|(status, share)| FaultAbort { status, share });
    (of(delay), of(abort)).prop_map(|(delay, abort)| Arc::new(FaultInjection { delay, abort })).boxed()
}
fn mirroring() -> BoxedStrategy<Mirroring> {
    let mirror = || (destination(), share()).prop_map(|(destination, share)| Mirror { destination, share });
    (of(mirror()), of(share()), of(vec(mirror(), 0..3)))
        .prop_map(|(first, share, others)| Mirroring { first, share, others: others.map(Into::into) })
        .boxed()
}
fn cors() -> BoxedStrategy<Arc<Cors>> {
    let lists = (vec(text_match(), 0..3), texts(), texts(), texts());
    (lists, span(), of(any::<bool>()), any::<bool>())
        .prop_map(|(lists, max_age, credentials, forwards_unmatched)| {
            Arc::new(Cors {
                origins: lists.0.into(),
                methods: lists.1,
                headers: lists.2,
                exposed: lists.3,
                max_age,
                credentials,
                forwards_unmatched,
            })
        })
        .boxed()
}
fn settings_of_route() -> BoxedStrategy<RouteSettings> {
    let headers = of(headers().prop_map(Arc::new));
    (
        of(rewrite()),
        headers,
        span(),
        of(retries()),
        of(fault()),
        of(mirroring().prop_map(Arc::new)),
        of(cors()),
    )
        .prop_map(|(rewrite, headers, timeout, retries, fault, mirroring, cors)| RouteSettings {
            rewrite,
            headers,
            timeout,
            retries,
            fault,
            mirroring,
            cors,
        })
        .boxed()
}
fn l4_match() -> BoxedStrategy<L4Match> {
    let range = |(ip, length): (IpAddr, u8)| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        ipnet::IpNet::new(ip, length.min(most)).unwrap()
    };
    let subnet = (any::<IpAddr>(), 0..=128_u8).prop_map(range);
    (vec(subnet, 0..3), of(port()), clients())
        .prop_map(|(subnets, port, clients)| L4Match { subnets: subnets.into(), port, clients })
        .boxed()
}
fn l4_destinations() -> BoxedStrategy<Arc<[L4Destination]>> {
    let one =
        (destination(), any::<u32>()).prop_map(|(destination, weight)| L4Destination { destination, weight });
    vec(one, 0..3).prop_map(Into::into).boxed()
}
fn patterns() -> BoxedStrategy<Arc<[HostPattern]>> {
    let one = prop_oneof![Just(HostPattern::new("*").unwrap()), host().prop_map(HostPattern::from)];
    vec(one, 0..3).prop_map(Into::into).boxed()
}
fn tls() -> BoxedStrategy<TlsRoute> {
    let one = (patterns(), l4_match()).prop_map(|(names, connection)| TlsMatch { names, connection });
    (vec(one, 0..2), l4_destinations())
        .prop_map(|(matches, destinations)| TlsRoute { matches: matches.into(), destinations })
        .boxed()
}
fn tcp() -> BoxedStrategy<TcpRoute> {
    (vec(l4_match(), 0..2), l4_destinations())
        .prop_map(|(matches, destinations)| TcpRoute { matches: matches.into(), destinations })
        .boxed()
}

/// Any VirtualService.
pub(super) fn virtual_service() -> BoxedStrategy<Policy> {
    let route = (text(), vec(http_match(), 0..2), action(), settings_of_route()).prop_map(
        |(name, matches, action, settings)| HttpRoute {
            name,
            matches: matches.into(),
            action,
            settings,
            delegate: None,
            position: RoutePosition::default(),
        },
    );
    let routes = (vec(route, 0..3), vec(tls(), 0..2), vec(tcp(), 0..2));
    (patterns(), export(), any::<bool>(), routes, texts())
        .prop_map(|(hosts, export, mesh, (mut http, tls, tcp), ignored)| {
            http.iter_mut().enumerate().for_each(|(at, route)| route.position = RoutePosition::of(at));
            let (http, tls, tcp) = (http.into(), tls.into(), tcp.into());
            Policy::VirtualService(VirtualService { hosts, export, mesh, http, tls, tcp, ignored })
        })
        .boxed()
}
