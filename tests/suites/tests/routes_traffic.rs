//! VirtualServices through real Envoy: which backend receives a request, how many each receives, and what arrives there.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::response::Parts;
use http::{Method, Request};
use http_body_util::Empty;
use tributary_suites::{
    Backend, Echo, Entry, Envoy, EnvoyConfig, Files, Load, LoadPlan, ServerOptions, TestServer, Variant,
    eventually, http_client, moves, outbound, ports,
};

const SOON: Duration = Duration::from_secs(20);

/// Returns a VirtualService of namespace `default` with these routes of HTTP requests.
fn virtual_service(host: &str, http: &str) -> String {
    let name = host.replace('.', "-");
    format!(
        "apiVersion: networking.istio.io/v1\nkind: VirtualService\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{hosts: [{host}], http: [{http}]}}\n"
    )
}

/// Returns a route to a host.
fn to(host: &str) -> String {
    format!("route: [{{destination: {{host: {host}}}}}]")
}

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// An Envoy with three backends that name themselves, `a.test`, `b.test` and `c.test`, and `echo.test`. The hosts of
/// VirtualServices are services of the echo too.
struct World {
    _files: Files,
    _server: TestServer,
    envoy: Envoy,
    port: u16,
    named: [Backend; 3],
    echo: Echo,
}

impl World {
    /// Starts with VirtualServices, each by host and routes, and further documents.
    async fn start(variant: Variant, routes: &[(&str, String)], more: &str) -> Result<Self> {
        Self::start_on(ports::free_port()?, variant, routes, more).await
    }

    async fn start_on(port: u16, variant: Variant, routes: &[(&str, String)], more: &str) -> Result<Self> {
        let files = Files::new()?;
        let (echo, named) = (
            Echo::start().await?,
            [Backend::start("a").await?, Backend::start("b").await?, Backend::start("c").await?],
        );
        let mut text = Entry::http("echo.test", port).at(echo.addr()).yaml();
        for backend in &named {
            let entry = Entry::http(&format!("{}.test", backend.name()), port).at(backend.addr());
            text = format!("{text}---\n{}", entry.yaml());
        }
        for (host, http) in routes {
            let entry = Entry::http(host, port).at(echo.addr()).yaml();
            text = format!("{text}---\n{entry}---\n{}", virtual_service(host, http));
        }
        files.put("all.yaml", &format!("{text}---\n{more}"))?;
        let server = TestServer::start(ServerOptions::files(files.path())).await?;
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("routes")).await?;
        envoy.live(SOON).await?;
        let world = Self { _files: files, _server: server, envoy, port, named, echo };
        world.serves(routes.first().context("no VirtualService")?.0).await?;
        Ok(world)
    }

    fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Waits until Envoy knows a host: it passes unknown ones on to where the connection came from.
    async fn serves(&self, host: &str) -> Result<()> {
        eventually(&format!("routes of {host}"), SOON, || async {
            let table = self.envoy.json("/config_dump?resource=dynamic_route_configs").await?;
            ensure!(table.to_string().contains(host), "no routes");
            Ok(())
        })
        .await
    }

    async fn ask(
        &self,
        method: &str,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Parts, String)> {
        let method = Method::from_bytes(method.as_bytes())?;
        let request = Request::builder().method(method).uri(path).header("host", host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        http_client::ask(self.addr(), request.body(Empty::new())?).await
    }

    async fn get(&self, host: &str, path: &str, headers: &[(&str, &str)]) -> Result<(Parts, String)> {
        self.ask("GET", host, path, headers).await
    }

    /// Sends so many requests, and returns how many answers of each of `a`, `b`, `c` and with which other status.
    async fn count(&self, host: &str, requests: usize) -> Result<([usize; 3], usize)> {
        let (mut named, mut others) = ([0; 3], 0);
        for _ in 0..requests {
            let (head, body) = self.get(host, "/", &[]).await?;
            let at = self.named.iter().position(|backend| backend.name() == body);
            match at.filter(|_| head.status.is_success()) {
                Some(at) => named[at] += 1,
                None => others += 1,
            }
        }
        Ok((named, others))
    }

    /// Asserts that Envoy took everything.
    async fn check(&self) -> Result<()> {
        assert_eq!(self.envoy.refused().await?, 0);
        assert_eq!(self.envoy.warming_clusters().await?, 0);
        Ok(())
    }
}

/// Whether a count of successes is within three standard deviations of what its share gives.
fn is_near(count: usize, of: usize, share: f64) -> bool {
    let (count, of) = (count as f64, of as f64);
    (count - of * share).abs() <= 3.0 * (of * share * (1.0 - share)).sqrt()
}

/// Takes samples until one is near; one in 370 is not by chance, three in a row never.
async fn is_near_soon<F: AsyncFnMut() -> Result<bool>>(mut sample: F) -> Result<bool> {
    for _ in 0..3 {
        if sample().await? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test]
async fn each_match_has_its_requests() -> Result<()> {
    let port = ports::free_port()?;
    let (a, b, c, other) = (to("a.test"), to("b.test"), to("c.test"), port.wrapping_add(1));
    let http = format!(
        "{{match: [{{uri: {{exact: /exact}}}}, {{uri: {{regex: '/r[0-9]+'}}}}, {{method: {{exact: PUT}}}}], {a}}}, \
         {{match: [{{uri: {{prefix: /pre}}}}, {{uri: {{exact: /Case}}, ignoreUriCase: true}}], {b}}}, \
         {{match: [{{headers: {{x-user: {{exact: ann}}}}}}, {{headers: {{x-user: {{prefix: be}}}}}}], {a}}}, \
         {{match: [{{headers: {{x-user: {{regex: 'c.*l'}}}}}}, {{headers: {{x-any: {{}}}}}}], {b}}}, \
         {{match: [{{uri: {{exact: /without}}, withoutHeaders: {{x-off: {{exact: '1'}}}}}}], {a}}}, \
         {{match: [{{queryParams: {{q: {{exact: '1'}}}}}}, {{queryParams: {{q: {{regex: '[4-6]+'}}}}}}], {a}}}, \
         {{match: [{{uri: {{exact: /scheme}}, scheme: {{exact: http}}, authority: {{prefix: match}}}}], {a}}}, \
         {{match: [{{uri: {{exact: /ns}}, sourceNamespace: default}}, {{uri: {{exact: /port}}, port: {port}}}], {a}}}, \
         {{match: [{{uri: {{exact: /no}}, sourceNamespace: away}}, {{uri: {{exact: /no}}, port: {other}}}], {a}}}, \
         {{{c}}}, {{match: [{{uri: {{exact: /late}}}}], {a}}}"
    );
    let one = format!("{{match: [{{uri: {{exact: /one}}}}], {a}}}");
    let world = World::start_on(port, Variant::Sotw, &[("match.test", http), ("only.test", one)], "").await?;
    let cases: &[(&str, &str, Headers<'_>, &str)] = &[
        ("GET", "/exact", &[], "a"),
        ("GET", "/exact/not", &[], "c"),
        ("GET", "/exact?q=9", &[], "a"),
        ("GET", "/r42", &[], "a"),
        ("GET", "/r42x", &[], "c"),
        ("PUT", "/", &[], "a"),
        ("GET", "/prefixed", &[], "b"),
        ("GET", "/cASE", &[], "b"),
        ("GET", "/", &[("x-user", "ann")], "a"),
        ("GET", "/", &[("x-user", "anna")], "c"),
        ("GET", "/", &[("x-user", "bert")], "a"),
        ("GET", "/", &[("x-user", "carl")], "b"),
        ("GET", "/", &[("x-any", "")], "b"),
        ("GET", "/without", &[], "a"),
        ("GET", "/without", &[("x-off", "2")], "a"),
        ("GET", "/without", &[("x-off", "1")], "c"),
        ("GET", "/?q=1", &[], "a"),
        ("GET", "/?q=2", &[], "c"),
        ("GET", "/?q=645", &[], "a"),
        ("GET", "/scheme", &[], "a"),
        ("GET", "/ns", &[], "a"),
        ("GET", "/port", &[], "a"),
        ("GET", "/no", &[], "c"),
        ("GET", "/late", &[], "c"),
    ];
    for (method, path, headers, backend) in cases {
        let (head, body) = world.ask(method, "match.test", path, headers).await?;
        assert_eq!((head.status.as_u16(), body.as_str()), (200, *backend), "{method} {path} {headers:?}");
    }
    assert_eq!(world.get("only.test", "/one", &[]).await?.1, "a");
    assert_eq!(world.get("only.test", "/two", &[]).await?.0.status, 404, "no route matches");
    world.check().await
}

/// Weights, subsets, delegates and mirrors, by the requests that each backend counts.
#[tokio::test]
async fn each_destination_has_its_share() -> Result<()> {
    let weighted = |shares: &[(&str, u32)]| {
        let one =
            |(host, weight): &(&str, u32)| format!("{{destination: {{host: {host}}}, weight: {weight}}}");
        format!("{{route: [{}]}}", shares.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let (a, c) = (to("a.test"), to("c.test"));
    let subset = |name: &str| format!("route: [{{destination: {{host: sub.test, subset: {name}}}}}]");
    let port = ports::free_port()?;
    let versions = [Backend::start("v1").await?, Backend::start("v2").await?];
    let labelled = Entry::http("sub.test", port)
        .with(versions[0].addr(), "labels: {version: v1}")
        .with(versions[1].addr(), "labels: {version: v2}");
    let delegate = format!("{{match: [{{uri: {{exact: /shop/cart}}}}], {a}}}, {{{}}}", to("b.test"));
    let more = format!(
        "{}---\n{}---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\n\
         metadata: {{name: sub, namespace: default}}\n\
         spec: {{host: sub.test, subsets: [{{name: v1, labels: {{version: v1}}}}, {{name: v2, labels: {{version: v2}}}}]}}\n\
         ---\n{}",
        labelled.yaml(),
        virtual_service(
            "sub.test",
            &format!(
                "{{match: [{{headers: {{x-v: {{exact: '2'}}}}}}], {}}}, {{{}}}",
                subset("v2"),
                subset("v1")
            )
        ),
        virtual_service("shop.parts", &delegate).replace("hosts: [shop.parts], ", ""),
    );
    let routes = [
        ("weights.test", weighted(&[("a.test", 70), ("b.test", 20), ("c.test", 10)])),
        ("zero.test", weighted(&[("a.test", 0), ("b.test", 3)])),
        ("lost.test", weighted(&[("a.test", 50), ("missing.test", 50)])),
        (
            "root.test",
            format!("{{match: [{{uri: {{prefix: /shop}}}}], delegate: {{name: shop-parts}}}}, {{{c}}}"),
        ),
        ("mirror.test", format!("{{{a}, mirror: {{host: b.test}}}}")),
        ("some.test", format!("{{{a}, mirror: {{host: c.test}}, mirrorPercentage: {{value: 30}}}}")),
    ];
    let world = World::start_on(port, Variant::Delta, &routes, &more).await?;
    for (path, backend) in [("/shop/cart", "a"), ("/shop/list", "b"), ("/else", "c")] {
        assert_eq!(world.get("root.test", path, &[]).await?.1, backend, "{path}");
    }
    world.envoy.has_hosts(&format!("outbound|{port}|v2|sub.test"), &[versions[1].addr()], SOON).await?;
    for _ in 0..10 {
        assert_eq!(world.get("sub.test", "/", &[("x-v", "2")]).await?.1, "v2");
        assert_eq!(world.get("sub.test", "/", &[]).await?.1, "v1");
    }
    assert_eq!(world.count("zero.test", 50).await?, ([0, 50, 0], 0));
    let near = is_near_soon(async || {
        let (named, others) = world.count("weights.test", 1000).await?;
        println!("70, 20, 10: {named:?}");
        ensure!(others == 0, "{others} requests failed");
        Ok(named.into_iter().zip([0.7, 0.2, 0.1]).all(|(count, share)| is_near(count, 1000, share)))
    });
    ensure!(near.await?, "the shares are not those of the weights");
    let near = is_near_soon(async || {
        let (named, failed) = world.count("lost.test", 400).await?;
        ensure!(named[0] + failed == 400, "others answered: {named:?}");
        Ok(is_near(failed, 400, 0.5))
    });
    ensure!(near.await?, "a destination that does not exist lost its share");
    copies(&world).await?;
    world.check().await
}

/// Copies are counted, and their answers are not seen.
async fn copies(world: &World) -> Result<()> {
    let [_, b, c] = &world.named;
    let before = b.requests();
    assert_eq!(world.count("mirror.test", 50).await?, ([50, 0, 0], 0));
    let copied = || async {
        let copies = b.requests() - before;
        ensure!(copies == 50, "{copies} copies");
        Ok(())
    };
    eventually("50 copies", SOON, copied).await?;
    let near = is_near_soon(async || {
        let before = c.requests();
        assert_eq!(world.count("some.test", 400).await?, ([400, 0, 0], 0));
        let active = format!("cluster.outbound|{}||c.test.upstream_rq_active", world.port);
        eventually("copies to end", SOON, || async {
            ensure!(world.envoy.stat(&active).await? == 0, "some are on their way");
            Ok(())
        })
        .await?;
        Ok(is_near(usize::try_from(c.requests() - before)?, 400, 0.3))
    });
    ensure!(near.await?, "not 30 % of the requests were copied");
    Ok(())
}

/// What an echo receives, and what the proxy answers in its place.
#[tokio::test]
async fn requests_and_answers_are_changed() -> Result<()> {
    let echo = to("echo.test");
    let headers = "headers: {request: {set: {x-set: new}, add: {x-add: more}, remove: [x-gone]}, response: {set: {x-back: here}}}";
    let cors = "corsPolicy: {allowOrigins: [{exact: 'https://ok.test'}], allowMethods: [GET, PUT], allowHeaders: [x-h], exposeHeaders: [x-e], maxAge: 1h, allowCredentials: true}";
    let routes = [
        ("headers.test", format!("{{{headers}, route: [{{destination: {{host: echo.test}}, headers: {{request: {{set: {{x-to: echo}}}}}}}}]}}")),
        (
            "rewrite.test",
            format!(
                "{{match: [{{uri: {{prefix: /old}}}}], rewrite: {{uri: /new, authority: www.test}}, {echo}}}, \
                 {{rewrite: {{uriRegexRewrite: {{match: '^/v([0-9])/(.*)$', rewrite: '/\\2/\\1'}}}}, {echo}}}"
            ),
        ),
        ("redirect.test", "{match: [{uri: {prefix: /kept}}], redirect: {authority: www.test, redirectCode: 308}}, {redirect: {uri: /there, scheme: https}}".to_owned()),
        ("direct.test", "{headers: {response: {set: {x-tea: pot}}}, directResponse: {status: 418, body: {string: short}}}".to_owned()),
        ("cors.test", format!("{{{cors}, {echo}}}")),
    ];
    let world = World::start(Variant::Sotw, &routes, "").await?;
    let (head, body) =
        world.get("headers.test", "/", &[("x-set", "old"), ("x-add", "one"), ("x-gone", "1")]).await?;
    for line in ["x-set: new\n", "x-add: one\n", "x-add: more\n", "x-to: echo\n"] {
        assert!(body.contains(line), "{line} in {body}");
    }
    assert!(!body.contains("x-gone") && !body.contains("x-set: old"), "{body}");
    assert_eq!(head.headers.get("x-back").context("no header")?, "here");
    for (path, arrived, host) in [
        ("/old/1?q=2", "GET /new/1?q=2\n", "host: www.test\n"),
        ("/v7/cart", "GET /cart/7\n", "host: rewrite.test\n"),
    ] {
        let (_, body) = world.get("rewrite.test", path, &[]).await?;
        assert!(body.starts_with(arrived) && body.contains(host), "{path}: {body}");
    }
    for (path, status, location) in
        [("/kept/1", 308, "http://www.test/kept/1"), ("/x", 301, "https://redirect.test/there")]
    {
        let (head, _) = world.get("redirect.test", path, &[]).await?;
        assert_eq!((head.status.as_u16(), head.headers["location"].to_str()?), (status, location));
    }
    let (head, body) = world.get("direct.test", "/", &[]).await?;
    assert_eq!((head.status.as_u16(), body.as_str()), (418, "short"));
    assert_eq!(head.headers.get("x-tea").context("no header")?, "pot");
    cross_origin(&world).await?;
    world.check().await
}

async fn cross_origin(world: &World) -> Result<()> {
    let before = world.echo.requests();
    let asks = [("origin", "https://ok.test"), ("access-control-request-method", "PUT")];
    let (head, _) = world.ask("OPTIONS", "cors.test", "/", &asks).await?;
    let header =
        |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!((head.status.as_u16(), world.echo.requests()), (200, before), "the proxy answers");
    for (name, value) in [
        ("access-control-allow-origin", "https://ok.test"),
        ("access-control-allow-methods", "GET,PUT"),
        ("access-control-allow-headers", "x-h"),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "3600"),
    ] {
        assert_eq!(header(name), value, "{name}");
    }
    let (head, _) = world.get("cors.test", "/", &[("origin", "https://ok.test")]).await?;
    assert_eq!(head.headers["access-control-expose-headers"], "x-e");
    let (head, _) = world.get("cors.test", "/", &[("origin", "https://not.test")]).await?;
    assert!(!head.headers.contains_key("access-control-allow-origin"), "{:?}", head.headers);
    Ok(())
}

/// Timeouts, retries and faults.
#[tokio::test]
async fn requests_are_limited_repeated_and_failed() -> Result<()> {
    let echo = to("echo.test");
    let fault = |fault: &str| format!("{{fault: {{{fault}}}, {}}}", to("a.test"));
    let retries = |retries: &str| format!("{{retries: {{{retries}}}, {echo}}}");
    let routes = [
        ("timeout.test", format!("{{timeout: 0.3s, {echo}}}")),
        ("twice.test", retries("attempts: 2, retryOn: 5xx")),
        ("never.test", retries("attempts: 0")),
        ("codes.test", retries("attempts: 3, retryOn: '503,gateway-error'")),
        ("tries.test", retries("attempts: 1, perTryTimeout: 0.2s, retryOn: gateway-error")),
        ("abort.test", fault("abort: {httpStatus: 418, percentage: {value: 100}}")),
        ("some.test", fault("abort: {httpStatus: 418, percentage: {value: 30}}")),
        ("delay.test", fault("delay: {fixedDelay: 0.4s, percentage: {value: 100}}")),
        ("none.test", fault("abort: {httpStatus: 418}")),
    ];
    let world = World::start(Variant::Delta, &routes, "").await?;
    let cases: &[(&str, (&str, &str), u16, u64)] = &[
        ("timeout.test", ("x-wait", "5000"), 504, 1),
        ("timeout.test", ("x-wait", "1"), 200, 1),
        ("twice.test", ("x-answer", "503"), 503, 3),
        ("twice.test", ("x-answer", "404"), 404, 1),
        ("never.test", ("x-answer", "503"), 503, 1),
        ("codes.test", ("x-answer", "503"), 503, 4),
        ("codes.test", ("x-answer", "500"), 500, 1),
        ("tries.test", ("x-wait", "5000"), 504, 2),
    ];
    for (host, header, status, requests) in cases {
        let (before, began) = (world.echo.requests(), Instant::now());
        let (head, body) = world.get(host, "/", &[*header]).await?;
        assert_eq!(head.status.as_u16(), *status, "{host} {header:?}: {body}");
        assert_eq!(world.echo.requests() - before, *requests, "{host} {header:?}");
        ensure!(began.elapsed() < Duration::from_secs(4), "{host} took {:?}", began.elapsed());
    }
    assert_eq!(world.get("abort.test", "/", &[]).await?.0.status, 418);
    assert_eq!(world.get("none.test", "/", &[]).await?.1, "a", "without a percentage no request is aborted");
    let began = Instant::now();
    assert_eq!(world.get("delay.test", "/", &[]).await?.1, "a");
    // Envoy's timers start at the time at which its loop last woke up
    ensure!(began.elapsed() >= Duration::from_millis(350), "it took {:?}", began.elapsed());
    let near = is_near_soon(async || Ok(is_near(world.count("some.test", 400).await?.1, 400, 0.3)));
    ensure!(near.await?, "not 30 % of the requests failed");
    world.check().await
}

/// Endpoints move 100 times under load while weights shift in ten steps; no request fails.
#[tokio::test]
async fn moves_while_weights_shift_lose_no_request() -> Result<()> {
    let (files, port) = (Files::new()?, ports::free_port()?);
    let (old, first) = (Backend::start("old").await?, Backend::start("first").await?);
    let write = |hosts: &[SocketAddr], share: usize| {
        let texts = [
            Entry::http("old.test", port).at(old.addr()).yaml(),
            Entry::http("new.test", port).all(hosts).yaml(),
            virtual_service(
                "old.test",
                &format!(
                    "{{route: [{{destination: {{host: old.test}}, weight: {}}}, {{destination: {{host: new.test}}, weight: {share}}}]}}",
                    100 - share
                ),
            ),
        ];
        files.put("all.yaml", &texts.join("---\n"))
    };
    write(&[first.addr()], 10)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("moves")).await?;
    envoy.live(SOON).await?;
    let plan = LoadPlan::to((Ipv4Addr::LOCALHOST, port).into()).host("old.test").at_least(200.0);
    let mut steps = 0;
    // Two steps for each move, so the share grows every ten moves.
    let set = async |hosts: &[SocketAddr]| {
        steps += 1;
        write(hosts, (10 + (steps - 1) / 20 * 10).min(100))
    };
    let moved = moves::through_listener(&envoy, &plan, &outbound(port, "new.test"), first, 100, set).await?;
    moved.tally.check_clean()?;
    println!("{} answers, {} of the old", moved.tally.answered(), moved.tally.of("old"));
    assert_eq!(steps, 200);
    ensure!(moved.tally.of("old") > 0, "the old destination was never used");
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

/// One change of a file brings a subset and the routes to it and removes the subset before, ten times under load: no request
/// fails.
#[tokio::test]
async fn routes_that_move_with_their_subset_lose_no_request() -> Result<()> {
    let port = ports::free_port()?;
    let backend = Backend::start("one").await?;
    for variant in Variant::BOTH {
        let files = Files::new()?;
        let write = |step: usize| {
            let texts = [
                Entry::http("pay.test", port).at(backend.addr()).yaml(),
                format!(
                    "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: pay, namespace: default}}\n\
                     spec: {{host: pay.test, subsets: [{{name: s{step}}}]}}\n"
                ),
                virtual_service(
                    "pay.test",
                    &format!("{{route: [{{destination: {{host: pay.test, subset: s{step}}}}}]}}"),
                ),
            ];
            files.put("all.yaml", &texts.join("---\n"))
        };
        write(0)?;
        let server = TestServer::start(ServerOptions::files(files.path())).await?;
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("renames")).await?;
        envoy.live(SOON).await?;
        let cluster = |step: usize| format!("outbound|{port}|s{step}|pay.test");
        envoy.has_hosts(&cluster(0), &[backend.addr()], SOON).await?;
        let load =
            Load::start(&LoadPlan::to((Ipv4Addr::LOCALHOST, port).into()).host("pay.test").at_least(200.0));
        load.reaches("one", 50, SOON).await?;
        for step in 1..=10 {
            write(step)?;
            envoy.has_hosts(&cluster(step), &[backend.addr()], SOON).await?;
            load.reaches("one", 50, SOON).await?;
        }
        load.finish().await.check_clean()?;
        assert_eq!(envoy.refused().await?, 0);
    }
    Ok(())
}
