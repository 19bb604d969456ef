//! Policies and requests at random: the filters decide as the policies mean, and connections are never accepted of which a
//! request could be refused.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::evaluate::{Request, accepts};
use super::*;

const DOMAINS: [&str; 2] = ["td", "old"];

/// Attributes with values that requests may have.
fn attributes() -> Vec<(Attribute, &'static [&'static str])> {
    vec![
        (
            Attribute::Principal,
            &[
                "old/ns/a/sa/x",
                "cluster.local/ns/a/sa/*",
                "b/ns/b/sa/y",
                "*/sa/y",
                "*/ns/a/sa/x",
                "td/*",
                "*",
            ],
        ),
        (Attribute::Namespace, &["a", "b*", "*c", "*"]),
        (Attribute::ServiceAccount, &["a/x", "b/y", "sa/x"]),
        (Attribute::SourceIp, &["10.0.0.0/8", "10.1.0.1/32", "fd00::/8"]),
        (Attribute::RemoteIp, &["10.0.0.0/8", "1.2.3.4/32"]),
        (Attribute::DestinationIp, &["10.9.0.1/32", "fd00::/8"]),
        (Attribute::DestinationPort, &["80", "443"]),
        (Attribute::ServerName, &["a.com", "*.com", "*"]),
        (Attribute::Host, &["a.com", "*.COM", "b*", "*"]),
        (Attribute::Method, &["GET", "P*"]),
        (Attribute::Path, &["/a", "/a*", "*b", "/{*}/b", "/a/{**}"]),
        (Attribute::Header("h".into()), &["v", "w*", "*"]),
        (Attribute::RequestPrincipal, &["i/s", "i/*", "*/t", "*"]),
        (Attribute::RequestAudience, &["a", "*b"]),
        (Attribute::RequestPresenter, &["p", "*"]),
        (Attribute::RequestClaim(["c".into(), "d".into()].into()), &["1", "2*"]),
    ]
}

fn conditions(has: fn(&Attribute) -> bool) -> impl Strategy<Value = Vec<AttributeMatch>> {
    let known: Vec<_> = attributes().into_iter().filter(|(of, _)| has(of)).collect();
    let one = select(known).prop_flat_map(|(of, values)| {
        let some = || subsequence(values, 0..=2.min(values.len()));
        (some(), some()).prop_map(move |(values, not)| mk_match(of.clone(), &values, &not))
    });
    proptest::collection::vec(one, 0..3)
}

fn mk_rules() -> impl Strategy<Value = Vec<AuthorizationRule>> {
    let lists = |has| proptest::collection::vec(conditions(has).prop_map(Arc::from), 0..3);
    let rule = (lists(|of| !of.is_of_operation()), lists(Attribute::is_of_operation), conditions(|_| true));
    let rule = rule.prop_map(|(from, to, when): (Vec<_>, Vec<_>, _)| AuthorizationRule {
        from: from.into(),
        to: to.into(),
        when: when.into(),
    });
    proptest::collection::vec(rule, 0..3)
}

fn chains() -> impl Strategy<Value = AuthorizationChain> {
    use AuthorizationAction::{Allow, Audit, Deny};
    let policy =
        (select(vec![Allow, Allow, Deny, custom(), Audit]), mk_rules(), proptest::bool::weighted(0.1));
    proptest::collection::vec(policy, 0..4).prop_map(|all| {
        let policy = |(n, (action, rules, dry)): (usize, (_, Vec<_>, bool))| AppliedAuthorization {
            is_dry_run: dry,
            ..mk_policy(&format!("p{n}"), action, &rules)
        };
        mk_chain(&all.into_iter().enumerate().map(policy).collect::<Vec<_>>())
    })
}

fn requests() -> impl Strategy<Value = Request> {
    let some = |texts: &'static [&'static str]| select(texts).prop_map(str::to_owned);
    let uris = &[
        "spiffe://td/ns/a/sa/x",
        "spiffe://old/ns/a/sa/x",
        "spiffe://b/ns/b/sa/y",
        "spiffe://td/ns/bc/sa/x",
        "spiffe://td/ns/ns/sa/x",
    ];
    let uri = proptest::option::of(some(uris));
    let ip = |texts: &'static [&'static str]| select(texts).prop_map(|text| text.parse().unwrap());
    let connection = (
        uri,
        ip(&["10.1.0.1", "11.0.0.1", "fd00::1"]),
        ip(&["10.0.0.5", "1.2.3.4"]),
        (ip(&["10.9.0.1", "fd00::2"]), select(vec![80, 443, 8080])),
        some(&["", "a.com", "b.org"]),
    );
    let headers =
        (some(&["A.com", "b.org"]), some(&["GET", "PUT"]), proptest::option::of(some(&["v", "wx", "z"])));
    let claims = proptest::option::of((
        some(&["i", "k"]),
        some(&["s", "t"]),
        subsequence(vec!["a", "ab", "x"], 0..=3),
        subsequence(vec!["p"], 0..=1),
        subsequence(vec!["1", "23", "3"], 0..=2),
    ));
    let path = some(&["/a", "/ab", "/a/b", "/x/b", "/a/b/c", "/x"]);
    (connection, headers, claims, path).prop_map(
        |((uri, direct, remote, to, server_name), headers, claims, path)| {
            let (host, method, own) = headers;
            let headers = [(":authority", Some(host)), (":method", Some(method)), ("h", own)];
            let headers = headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            let texts = |all: Vec<&str>| all.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let claims = claims.into_iter().flat_map(|(issuer, subject, audiences, presenter, other)| {
                let lists = [("aud", texts(audiences)), ("azp", texts(presenter)), ("c.d", texts(other))];
                [("iss", vec![issuer]), ("sub", vec![subject])].into_iter().chain(lists)
            });
            let claims = claims.filter(|(_, all)| !all.is_empty()).map(|(name, all)| (name.to_owned(), all));
            Request {
                uri,
                direct,
                remote,
                to,
                server_name,
                path,
                headers: headers.collect(),
                claims: claims.collect(),
            }
        },
    )
}

/// Whether an attribute of a request has a value.
fn has(request: &Request, of: &Attribute, value: &ValueMatch) -> bool {
    let identity = request.uri.as_deref().and_then(|uri| uri.strip_prefix("spiffe://"));
    let parts: Vec<&str> = identity.unwrap_or_default().split('/').collect();
    let claims = |path: &str| request.claims.get(path).cloned().unwrap_or_default();
    let one = |text: Option<&str>| text.map(str::to_owned).into_iter().collect::<Vec<_>>();
    let texts = match of {
        Attribute::Principal => identity.map(|own| in_domains(value, own)).unwrap_or_default(),
        Attribute::Namespace => one(parts.get(2).copied()),
        Attribute::ServiceAccount => {
            parts.get(4).map(|account| format!("{}/{account}", parts[2])).into_iter().collect()
        }
        Attribute::SourceIp => vec![request.direct.to_string()],
        Attribute::RemoteIp => vec![request.remote.to_string()],
        Attribute::DestinationIp => vec![request.to.0.to_string()],
        Attribute::DestinationPort => vec![request.to.1.to_string()],
        Attribute::ServerName => vec![request.server_name.clone()],
        Attribute::Host => vec![request.headers[":authority"].to_lowercase()],
        Attribute::Method => one(request.headers.get(":method").map(String::as_str)),
        Attribute::Path => vec![request.path.clone()],
        Attribute::Header(name) => one(request.headers.get(&**name).map(String::as_str)),
        Attribute::RequestPrincipal => claims("iss")
            .iter()
            .zip(claims("sub"))
            .map(|(issuer, subject)| format!("{issuer}/{subject}"))
            .collect(),
        Attribute::RequestAudience => claims("aud"),
        Attribute::RequestPresenter => claims("azp"),
        Attribute::RequestClaim(path) => claims(&path.join(".")),
    };
    let folded = if *of == Attribute::Host { &lower(value) } else { value };
    texts.iter().any(|text| is(folded, text))
}

/// Returns an identity in each trust domain of the mesh, if its own is one of them and the value has the whole form of an identity.
/// `cluster.local` stands for all.
fn in_domains(value: &ValueMatch, identity: &str) -> Vec<String> {
    let (domain, rest) = identity.split_once('/').unwrap();
    let all = DOMAINS.iter().chain(&["cluster.local"]).map(|own| format!("{own}/{rest}"));
    let is_whole = matchers::text(value).unwrap().split('/').count() == 5;
    if is_whole && DOMAINS.contains(&domain) { all.collect() } else { vec![identity.to_owned()] }
}

fn lower(value: &ValueMatch) -> ValueMatch {
    let text = matchers::text(value).unwrap();
    ValueMatch::of_text(&text.to_lowercase())
}

fn is(value: &ValueMatch, text: &str) -> bool {
    match value {
        ValueMatch::Exact(exact) => *text == **exact,
        ValueMatch::Prefix(prefix) => text.starts_with(&**prefix),
        ValueMatch::Suffix(suffix) => text.ends_with(&**suffix),
        ValueMatch::Present => !text.is_empty(),
        ValueMatch::Template(template) => {
            let (form, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), text.split('/').collect());
            let is_open = form.last() == Some(&"{**}");
            let form = &form[..form.len() - usize::from(is_open)];
            let segments = form.iter().zip(&path).all(|(form, own)| *form == "{*}" || form == own);
            segments && if is_open { path.len() > form.len() } else { path.len() == form.len() }
        }
        ValueMatch::Range(range) => range.contains(&text.parse::<std::net::IpAddr>().unwrap()),
        ValueMatch::Port(port) => port.get().to_string() == text,
    }
}

fn holds(request: &Request, found: &AttributeMatch) -> bool {
    let any = |values: &[ValueMatch]| values.iter().any(|value| has(request, &found.of, value));
    (found.values.is_empty() || any(&found.values)) && !any(&found.not)
}

fn is_matched(request: &Request, rule: &AuthorizationRule) -> bool {
    let all = |list: &[AttributeMatch]| list.iter().all(|found| holds(request, found));
    let one = |lists: &[Arc<[AttributeMatch]>]| lists.is_empty() || lists.iter().any(|list| all(list));
    one(&rule.from) && one(&rule.to) && all(&rule.when)
}

/// Whether the policies accept a request.
fn is_accepted(request: &Request, chain: &AuthorizationChain) -> bool {
    let enforced = || chain.policies.iter().filter(|policy| !policy.is_dry_run);
    let of = |stage| enforced().filter(move |policy| Stage::of(&policy.action) == stage);
    let matches = |policy: &AppliedAuthorization| policy.rules.iter().any(|rule| is_matched(request, rule));
    let is_refused = of(Stage::Custom).chain(of(Stage::Deny)).any(matches);
    !is_refused && (of(Stage::Allow).next().is_none() || of(Stage::Allow).any(matches))
}

fn http_accepts(chain: &AuthorizationChain, request: &Request) -> bool {
    let filters = http(chain, &DOMAINS);
    accepts(filters.iter().filter_map(|own| own.rules.as_ref()), request, true)
}

fn network_accepts(chain: &AuthorizationChain, request: &Request) -> bool {
    let filters = network(chain, &DOMAINS);
    accepts(filters.iter().filter_map(|own| own.rules.as_ref()), request, false)
}

/// Whether no condition of the policies reads requests.
fn is_of_connections(chain: &AuthorizationChain) -> bool {
    let is_known = |list: &[AttributeMatch]| list.iter().all(|found| !found.of.is_of_requests());
    let is_rule_known = |rule: &AuthorizationRule| {
        rule.from.iter().chain(rule.to.iter()).all(|list| is_known(list)) && is_known(&rule.when)
    };
    chain.policies.iter().flat_map(|policy| policy.rules.iter()).all(is_rule_known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn filters_decide_as_the_policies_mean(chain in chains(), request in requests()) {
        prop_assert_eq!(http_accepts(&chain, &request), is_accepted(&request, &chain));
    }

    #[test]
    fn accepted_connections_have_no_request_that_is_refused(chain in chains(), request in requests()) {
        let (connection, any) = (network_accepts(&chain, &request), http_accepts(&chain, &request));
        prop_assert!(any || !connection, "the connection is accepted, its request is refused");
        if is_of_connections(&chain) {
            prop_assert_eq!(connection, any, "no condition reads requests");
        }
    }
}
