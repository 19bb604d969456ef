//! Valid documents of each kind as trees that a test can harm.

/// A tree of YAML that can be changed and written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    /// Text as it is written.
    Plain(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

pub(crate) fn plain(text: &str) -> Tree {
    Tree::Plain(text.to_owned())
}

pub(crate) fn map<const N: usize>(fields: [(&str, Tree); N]) -> Tree {
    Tree::Map(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn list<const N: usize>(items: [Tree; N]) -> Tree {
    Tree::List(items.into())
}

fn mk_endpoint(address: &str) -> Tree {
    map([
        ("address", plain(address)),
        ("ports", map([("http", plain("8080"))])),
        ("labels", map([("app", plain("pay")), ("version", plain("\"1\""))])),
        ("network", plain("net")),
        ("locality", plain("eu/1b/r3")),
        ("weight", plain("7")),
        ("serviceAccount", plain("till")),
    ])
}

fn mk_listener(last: (&str, Tree)) -> Tree {
    let port = map([("number", plain("80")), ("name", plain("http")), ("protocol", plain("HTTP"))]);
    map([("port", port), ("bind", plain("10.0.0.9")), ("captureMode", plain("NONE")), last])
}

fn mk_document(kind: &str, spec: Tree) -> Tree {
    map([
        ("apiVersion", plain("networking.istio.io/v1")),
        ("kind", plain(kind)),
        (
            "metadata",
            map([
                ("name", plain("middle")),
                ("namespace", plain("shop")),
                ("labels", map([("app", plain("pay"))])),
                ("annotations", map([("istio.io/connect-strategy", plain("RACE_FIRST_TCP_CONNECT"))])),
            ]),
        ),
        ("spec", spec),
    ])
}

pub(crate) fn mk_documents() -> Vec<Tree> {
    let port = map([
        ("number", plain("80")),
        ("name", plain("http")),
        ("protocol", plain("HTTP")),
        ("targetPort", plain("8080")),
    ]);
    let entry = |resolution: &str, last: (&str, Tree)| {
        mk_document(
            "ServiceEntry",
            map([
                ("hosts", list([plain("a.example.com"), plain("b.example.com")])),
                ("addresses", list([plain("10.0.0.1")])),
                ("ports", list([port.clone()])),
                ("location", plain("MESH_INTERNAL")),
                ("resolution", plain(resolution)),
                ("exportTo", list([plain("\".\""), plain("web")])),
                ("subjectAltNames", list([plain("spiffe://a/b")])),
                last,
            ]),
        )
    };
    vec![
        entry("STATIC", ("endpoints", list([mk_endpoint("10.0.0.2"), mk_endpoint("\"2001:db8::1\"")]))),
        entry("DNS", ("endpoints", list([mk_endpoint("db.example.com")]))),
        entry("STATIC", ("workloadSelector", map([("labels", map([("app", plain("pay"))]))]))),
        entry("NONE", ("addresses2", plain("~"))),
        mk_document("WorkloadEntry", mk_endpoint("10.0.0.3")),
        mk_document(
            "WorkloadGroup",
            map([
                ("metadata", map([("labels", map([("app", plain("pay"))]))])),
                ("template", map([("serviceAccount", plain("till"))])),
                ("probe", map([("periodSeconds", plain("5")), ("httpGet", map([("port", plain("80"))]))])),
            ]),
        ),
        mk_document(
            "Sidecar",
            map([
                ("workloadSelector", map([("labels", map([("app", plain("pay"))]))])),
                ("egress", list([mk_listener(("hosts", list([plain("./*"), plain("web/a.example.com")])))])),
                ("ingress", list([mk_listener(("defaultEndpoint", plain("127.0.0.1:8080")))])),
                ("outboundTrafficPolicy", map([("mode", plain("REGISTRY_ONLY"))])),
            ]),
        ),
        mk_destination_rule(),
        mk_virtual_service(),
        mk_envoy_filter(),
        mk_peer_authentication(),
        mk_authorization_policy(),
        mk_request_authentication(),
    ]
    .into_iter()
    .map(without_placeholder)
    .collect()
}

fn mk_destination_rule() -> Tree {
    let key = map([("httpHeaderName", plain("user")), ("ringHash", map([("minimumRingSize", plain("9"))]))]);
    let share = map([("from", plain("a/*")), ("to", map([("a", plain("80")), ("b", plain("20"))]))]);
    let hash = map([("consistentHash", key), ("localityLbSetting", map([("distribute", list([share]))]))]);
    let ramp = map([("duration", plain("1m30s")), ("minimumPercent", plain("12.5"))]);
    let simple = map([("simple", plain("ROUND_ROBIN")), ("warmup", ramp)]);
    let port = map([("port", map([("number", plain("80"))])), ("loadBalancer", simple)]);
    let limits = map([("maxConnections", plain("3")), ("connectTimeout", plain("250ms"))]);
    let pool = map([("tcp", limits), ("http", map([("useClientProtocol", plain("true"))]))]);
    let policy = map([
        ("loadBalancer", hash),
        ("connectionPool", pool),
        ("outlierDetection", map([("consecutive5xxErrors", plain("3")), ("interval", plain("1s"))])),
        ("tls", map([("mode", plain("SIMPLE")), ("subjectAltNames", list([plain("a.example.com")]))])),
        ("portLevelSettings", list([port])),
    ]);
    let labels = || map([("version", plain("v1"))]);
    let subset = map([("name", plain("v1")), ("labels", labels()), ("trafficPolicy", policy.clone())]);
    let spec = [
        ("host", plain("a.example.com")),
        ("trafficPolicy", policy),
        ("subsets", list([subset])),
        ("exportTo", list([plain("\".\"")])),
        ("workloadSelector", map([("matchLabels", map([]))])),
    ];
    mk_document("DestinationRule", map(spec))
}

fn mk_virtual_service() -> Tree {
    let exact = |text: &'static str| map([("exact", plain(text))]);
    let found = map([
        ("name", plain("first")),
        ("uri", map([("regex", plain("/a.*"))])),
        ("ignoreUriCase", plain("true")),
        ("headers", map([("x-a", exact("b"))])),
        ("port", plain("80")),
        ("sourceLabels", map([("app", plain("pay"))])),
    ]);
    let port = map([("number", plain("80"))]);
    let to = map([("host", plain("a")), ("subset", plain("v1")), ("port", port)]);
    let change = map([("set", map([("x", plain("y"))])), ("remove", list([plain("z")]))]);
    let headers = map([("request", change)]);
    let weighted = map([("destination", to.clone()), ("weight", plain("9")), ("headers", headers.clone())]);
    let share = || map([("value", plain("12.5"))]);
    let abort = map([("httpStatus", plain("500")), ("percentage", share())]);
    let retries = map([("attempts", plain("2")), ("perTryTimeout", plain("1s")), ("retryOn", plain("5xx"))]);
    let origin = list([map([("prefix", plain("a"))])]);
    let http = map([
        ("name", plain("one")),
        ("match", list([found])),
        ("route", list([weighted])),
        ("headers", headers),
        ("timeout", plain("1s")),
        ("retries", retries),
        ("fault", map([("abort", abort)])),
        ("mirrors", list([map([("destination", to.clone()), ("percentage", share())])])),
        ("corsPolicy", map([("allowOrigins", origin), ("maxAge", plain("1m"))])),
    ]);
    let redirect = map([("redirect", map([("uri", plain("/")), ("redirectCode", plain("302"))]))]);
    let tcp =
        map([("match", list([map([("port", plain("90"))])])), ("route", list([map([("destination", to)])]))]);
    let spec = [
        ("hosts", list([plain("a.example.com")])),
        ("gateways", list([plain("mesh")])),
        ("http", list([http, redirect])),
        ("tcp", list([tcp])),
        ("exportTo", list([plain("\".\"")])),
    ];
    mk_document("VirtualService", map(spec))
}

fn without_placeholder(mut tree: Tree) -> Tree {
    if let Tree::Map(fields) = &mut tree
        && let Some((_, Tree::Map(spec))) = fields.last_mut()
    {
        spec.retain(|(key, _)| key != "addresses2");
    }
    tree
}

fn mk_peer_authentication() -> Tree {
    let mode = |name: &'static str| map([("mode", plain(name))]);
    let spec = [
        ("selector", map([("matchLabels", map([("app", plain("pay"))]))])),
        ("mtls", mode("STRICT")),
        ("portLevelMtls", map([("8080", mode("DISABLE")), ("9090", mode("UNSET"))])),
    ];
    of_security(mk_document("PeerAuthentication", map(spec)))
}

fn of_security(mut document: Tree) -> Tree {
    if let Tree::Map(fields) = &mut document
        && let Some((_, version)) = fields.first_mut()
    {
        *version = plain("security.istio.io/v1");
    }
    document
}

fn mk_authorization_policy() -> Tree {
    let texts = |of: &[&'static str]| Tree::List(of.iter().map(|text| plain(text)).collect());
    let source = [
        ("principals", texts(&["cluster.local/ns/web/*"])),
        ("notNamespaces", texts(&["old"])),
        ("ipBlocks", texts(&["10.0.0.0/8"])),
        ("requestPrincipals", texts(&["iss/sub"])),
    ];
    let operation = [
        ("hosts", texts(&["shop.com"])),
        ("ports", texts(&["\"80\""])),
        ("methods", texts(&["GET"])),
        ("paths", texts(&["/pay", "\"/a/{*}/b\""])),
    ];
    let when =
        [("key", plain("\"request.headers[x]\"")), ("values", texts(&["v"])), ("notValues", texts(&["w"]))];
    let rule = map([
        ("from", Tree::List(vec![map([("source", map(source))])])),
        ("to", Tree::List(vec![map([("operation", map(operation))])])),
        ("when", Tree::List(vec![map(when)])),
    ]);
    let spec = [
        ("selector", map([("matchLabels", map([("app", plain("pay"))]))])),
        ("action", plain("DENY")),
        ("rules", Tree::List(vec![rule])),
    ];
    of_security(mk_document("AuthorizationPolicy", map(spec)))
}

fn mk_request_authentication() -> Tree {
    let texts = |of: &[&'static str]| Tree::List(of.iter().map(|text| plain(text)).collect());
    let header = map([("name", plain("x-token")), ("prefix", plain("\"Bearer \""))]);
    let claim = map([("header", plain("x-group")), ("claim", plain("group"))]);
    let rule = map([
        ("issuer", plain("https://iss.test")),
        ("audiences", texts(&["pay"])),
        ("jwksUri", plain("https://keys.test/jwks")),
        ("fromHeaders", Tree::List(vec![header])),
        ("fromParams", texts(&["token"])),
        ("fromCookies", texts(&["session"])),
        ("forwardOriginalToken", plain("true")),
        ("outputPayloadToHeader", plain("x-claims")),
        ("outputClaimToHeaders", Tree::List(vec![claim])),
        ("spaceDelimitedClaims", texts(&["roles"])),
        ("timeout", plain("5s")),
    ]);
    let keys = plain("'{\"keys\": [{\"kty\": \"oct\", \"k\": \"c2VjcmV0\"}]}'");
    let inline = map([("issuer", plain("iss")), ("jwks", keys)]);
    let spec = [
        ("selector", map([("matchLabels", map([("app", plain("pay"))]))])),
        ("jwtRules", Tree::List(vec![rule, inline])),
    ];
    of_security(mk_document("RequestAuthentication", map(spec)))
}

/// An EnvoyFilter with one patch.
fn mk_envoy_filter() -> Tree {
    let keepalive = map([("tcp_keepalive", map([("keepalive_time", plain("7"))]))]);
    let value = map([
        ("connectTimeout", plain("1.5s")),
        ("filters", list([map([("name", plain("10ms"))])])),
        ("upstream_connection_options", keepalive),
        ("metadata", map([("filter_metadata", map([("a", map([("b", list([plain("x"), plain("1")]))]))]))])),
    ]);
    let proxy = map([("proxyVersion", plain("^1")), ("metadata", map([("a", plain("b"))]))]);
    let cluster = map([("service", plain("a.example.com")), ("portNumber", plain("80"))]);
    let matched = map([("context", plain("SIDECAR_OUTBOUND")), ("proxy", proxy), ("cluster", cluster)]);
    let patch = map([("operation", plain("MERGE")), ("value", value)]);
    let patch = map([("applyTo", plain("CLUSTER")), ("match", matched), ("patch", patch)]);
    mk_document("EnvoyFilter", map([("priority", plain("-1")), ("configPatches", list([patch]))]))
}
