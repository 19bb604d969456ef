//! DestinationRules through real Envoy: TLS to backends, the same backend for the same key, ejection of a backend that
//! fails, subsets, and rules that change while a client is away.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_suites::ads::CDS;
use tributary_suites::http_client::get_as;
use tributary_suites::{
    Authority, Backend, Entry, Envoy, EnvoyConfig, Files, Follower, Load, LoadPlan, ServerOptions, Switch,
    TestServer, Variant, eventually, nowhere, outbound, ports, replace,
};

const SOON: Duration = Duration::from_secs(20);
const NO_HEADER: (&str, &str) = ("x-test", "1");

/// Returns a rule of namespace `default` with this content of `spec` beside the host.
fn rule(host: &str, spec: &str) -> String {
    let name = host.replace('.', "-");
    format!(
        "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n\
         metadata: {{name: {name}, namespace: default}}\nspec: {{host: {host}, {spec}}}\n"
    )
}

/// Writes a service and its rule.
fn serve(files: &Files, entry: &Entry, host: &str, spec: &str) -> Result<()> {
    files.put(&format!("{host}.yaml"), &format!("{}---\n{}", entry.yaml(), rule(host, spec)))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Waits until a request for a host has this status; returns the body.
async fn answers(port: u16, host: &str, status: u16) -> Result<String> {
    eventually(&format!("{host} to answer {status}"), SOON, || async {
        let (found, body) = get_as(local(port), host, NO_HEADER).await?;
        ensure!(found.as_u16() == status, "it answers {found}: {body}");
        Ok(body)
    })
    .await
}

/// Returns the content of `tls` for each host, and whether its requests succeed. Two servers have a certificate for
/// `good.test`; hosts that begin with `mutual` reach the one that verifies its clients.
fn tls_cases(authority: &Path, client: (&Path, &Path)) -> Vec<(&'static str, String, bool)> {
    let (ca, (chain, key)) = (authority.display(), (client.0.display(), client.1.display()));
    let own = format!("clientCertificate: {chain}, privateKey: {key}");
    vec![
        ("good.test", format!("mode: SIMPLE, caCertificates: {ca}"), true),
        ("other.test", format!("mode: SIMPLE, caCertificates: {ca}"), false),
        ("named.test", format!("mode: SIMPLE, caCertificates: {ca}, subjectAltNames: [good.test]"), true),
        ("misnamed.test", format!("mode: SIMPLE, caCertificates: {ca}, subjectAltNames: [bad.test]"), false),
        ("sni.test", format!("mode: SIMPLE, caCertificates: {ca}, sni: good.test"), true),
        ("insecure.test", "mode: SIMPLE, insecureSkipVerify: true".to_owned(), true),
        ("system.test", "mode: SIMPLE, sni: good.test".to_owned(), false),
        ("plain.test", "mode: DISABLE".to_owned(), false),
        (
            "mutual.test",
            format!("mode: MUTUAL, {own}, caCertificates: {ca}, subjectAltNames: [good.test]"),
            true,
        ),
        ("mutual-none.test", format!("mode: SIMPLE, caCertificates: {ca}, sni: good.test"), false),
    ]
}

async fn tls_is_originated(variant: Variant) -> Result<()> {
    let (files, port, backend) = (Files::new()?, ports::free_port()?, Backend::start("tls").await?);
    let authority = Authority::new()?;
    let client = authority.client("client", "spiffe://cluster.local/ns/default/sa/web")?;
    let identity = authority.server_of("front", &["good.test"])?;
    let front = authority.front(&identity, backend.addr(), false).await?;
    let mutual = authority.front(&identity, backend.addr(), true).await?;
    let cases = tls_cases(&authority.file(), (&client.certificate_file, &client.key_file));
    for (host, tls, _) in &cases {
        let front = if host.starts_with("mutual") { &mutual } else { &front };
        let spec = format!("trafficPolicy: {{tls: {{{tls}}}}}");
        serve(&files, &Entry::http(host, port).at(front.addr()), host, &spec)?;
    }
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("tls")).await?;
    envoy.live(SOON).await?;
    for (host, tls, succeeds) in cases {
        let (found, body) = get_as(local(port), host, NO_HEADER).await?;
        assert_eq!(found.as_u16() == 200, succeeds, "{host} with {tls}: {found} {body}");
        assert_eq!(body == "tls", succeeds, "{host}: {body}");
    }
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

#[tokio::test]
async fn rules_originate_tls_sotw() -> Result<()> {
    tls_is_originated(Variant::Sotw).await
}

#[tokio::test]
async fn rules_originate_tls_delta() -> Result<()> {
    tls_is_originated(Variant::Delta).await
}

/// Envoy reads replaced files again, without an update of the server.
#[tokio::test]
async fn replaced_files_of_tls_are_read_again() -> Result<()> {
    let (files, port, backend) = (Files::new()?, ports::free_port()?, Backend::start("tls").await?);
    let (authority, other) = (Authority::new()?, Authority::new()?);
    let front =
        authority.front(&authority.server_of("front", &["good.test"])?, backend.addr(), false).await?;
    let roots = files.path().join("roots.pem");
    replace(&roots, other.certificate())?;
    let spec = format!("trafficPolicy: {{tls: {{mode: SIMPLE, caCertificates: {}}}}}", roots.display());
    serve(&files, &Entry::http("good.test", port).at(front.addr()), "good.test", &spec)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("tls")).await?;
    envoy.live(SOON).await?;
    answers(port, "good.test", 503).await?;
    replace(&roots, authority.certificate())?;
    answers(port, "good.test", 200).await?;
    Ok(())
}

/// Files that do not exist fail the requests of their own host alone.
#[tokio::test]
async fn missing_files_of_tls_fail_their_host_alone() -> Result<()> {
    let (files, port, backend) = (Files::new()?, ports::free_port()?, Backend::start("plain").await?);
    let tls = |tls: &str| format!("trafficPolicy: {{tls: {{mode: SIMPLE{tls}}}}}");
    let missing = tls(&format!(", caCertificates: {}/none.pem", files.path().display()));
    serve(&files, &Entry::http("missing.test", port).at(backend.addr()), "missing.test", &missing)?;
    let folder = tls(", caCertificates: /none/none.pem");
    serve(&files, &Entry::http("folder.test", port).at(backend.addr()), "folder.test", &folder)?;
    files.put("plain.yaml", &Entry::http("plain.test", port).at(backend.addr()).yaml())?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    for variant in Variant::BOTH {
        let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("tls")).await?;
        envoy.live(SOON).await?;
        answers(port, "plain.test", 200).await?;
        for host in ["missing.test", "folder.test"] {
            answers(port, host, 503).await?;
        }
        assert_eq!(envoy.warming_clusters().await?, 0);
    }
    Ok(())
}

/// Returns the backend of each of 1,000 keys.
async fn backends_of_keys(port: u16) -> Result<BTreeMap<String, String>> {
    let mut out = BTreeMap::new();
    for key in (0..1000).map(|key| format!("user-{key}")) {
        let (status, name) = get_as(local(port), "hash.test", ("x-user", &key)).await?;
        ensure!(status.is_success(), "{key}: {status}");
        out.insert(key, name);
    }
    Ok(out)
}

/// The same key reaches the same backend. When one of ten backends goes, this share of the keys of the others, in percent,
/// keep theirs.
async fn hashed_keys_stay(table: &str, least: usize) -> Result<()> {
    let (files, port) = (Files::new()?, ports::free_port()?);
    let mut backends = Vec::new();
    for number in 0..10 {
        backends.push(Backend::start(&format!("b{number}")).await?);
    }
    let entry = |without: &str| {
        let kept = backends.iter().filter(|backend| backend.name() != without).map(Backend::addr);
        Entry::http("hash.test", port).all(&kept.collect::<Vec<_>>())
    };
    let hash = format!("httpHeaderName: x-user{table}");
    let spec = &format!("trafficPolicy: {{loadBalancer: {{consistentHash: {{{hash}}}}}}}");
    serve(&files, &entry(""), "hash.test", spec)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("hash")).await?;
    envoy.live(SOON).await?;
    let first = backends_of_keys(port).await?;
    assert_eq!(first, backends_of_keys(port).await?, "a key moved");
    let mut keys: BTreeMap<&String, usize> = BTreeMap::new();
    first.values().for_each(|name| *keys.entry(name).or_default() += 1);
    assert_eq!(keys.len(), 10, "each backend has keys: {keys:?}");
    let gone = "b0";
    serve(&files, &entry(gone), "hash.test", spec)?;
    let left: Vec<SocketAddr> =
        backends.iter().filter(|backend| backend.name() != gone).map(Backend::addr).collect();
    envoy.has_hosts(&outbound(port, "hash.test"), &left, SOON).await?;
    let second = backends_of_keys(port).await?;
    let others: Vec<_> = first.iter().filter(|(_, name)| *name != gone).collect();
    let kept = others.iter().filter(|(key, name)| second.get(*key) == Some(*name)).count();
    println!("{kept} of {} keys kept their backend", others.len());
    ensure!(kept * 100 >= others.len() * least, "{kept} of {} keys kept their backend", others.len());
    Ok(())
}

/// The ring grows with the share of each backend, which moves a twelfth of the keys.
#[tokio::test]
async fn keys_of_a_ring_keep_their_backend() -> Result<()> {
    hashed_keys_stay("", 85).await
}

#[tokio::test]
async fn keys_of_maglev_keep_their_backend() -> Result<()> {
    hashed_keys_stay(", maglev: {tableSize: 65537}", 90).await
}

/// Answers every request with 503.
async fn failing() -> Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                while matches!(stream.read(&mut request).await, Ok(1..)) {
                    let _ = stream.write_all(b"HTTP/1.1 503 failing\r\ncontent-length: 0\r\n\r\n").await;
                }
            });
        }
    });
    Ok(addr)
}

#[tokio::test]
async fn failing_backend_is_ejected() -> Result<()> {
    let (files, port, good) = (Files::new()?, ports::free_port()?, Backend::start("good").await?);
    let bad = failing().await?;
    let spec = "trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}, outlierDetection: {consecutive5xxErrors: 3, \
                interval: 1s, baseEjectionTime: 60s, maxEjectionPercent: 100}}";
    serve(&files, &Entry::http("out.test", port).at(good.addr()).at(bad), "out.test", spec)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("outliers")).await?;
    envoy.has_hosts(&outbound(port, "out.test"), &[good.addr(), bad], SOON).await?;
    envoy.live(SOON).await?;
    let ejected = format!("cluster.{}.outlier_detection.ejections_active", outbound(port, "out.test"));
    eventually("the failing backend to be ejected", SOON, || async {
        get_as(local(port), "out.test", NO_HEADER).await?;
        ensure!(envoy.stat(&ejected).await? == 1, "it is not");
        Ok(())
    })
    .await?;
    for _ in 0..50 {
        let (status, body) = get_as(local(port), "out.test", NO_HEADER).await?;
        assert_eq!((status.as_u16(), body.as_str()), (200, "good"));
    }
    Ok(())
}

/// A subset has its endpoints, whichever object they come from, and follows them.
#[tokio::test]
async fn subset_has_only_its_endpoints() -> Result<()> {
    let (files, port) = (Files::new()?, ports::free_port()?);
    let mut backends = Vec::new();
    for name in ["old", "new", "vm"] {
        backends.push(Backend::start(name).await?);
    }
    let [old, new, vm] = [0, 1, 2].map(|n: usize| backends[n].addr());
    let labelled = |addr, version: &str| {
        Entry::http("sub.test", port).with(addr, &format!("labels: {{version: {version}}}"))
    };
    let spec = "subsets: [{name: v2, labels: {version: v2}}, {name: none, labels: {version: v9}}]";
    serve(&files, &labelled(old, "v1").with(new, "labels: {version: v2}"), "sub.test", spec)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let subset = |name: &str| format!("outbound|{port}|{name}|sub.test");
    let config = EnvoyConfig::new(server.xds(), Variant::Delta).listen_for(&subset("v2"));
    let envoy = Envoy::start(&config).await?;
    envoy.has_hosts(&subset("v2"), &[new], SOON).await?;
    envoy.has_hosts(&subset("none"), &[], SOON).await?;
    envoy.has_hosts(&outbound(port, "sub.test"), &[old, new], SOON).await?;
    let second = labelled(vm, "v2").yaml().replace("name: sub-test", "name: sub-vm");
    files.put("second.yaml", &second)?;
    envoy.has_hosts(&subset("v2"), &[new, vm], SOON).await?;
    for _ in 0..20 {
        let (status, body) = get_as(envoy.listener(0)?, "sub.test", NO_HEADER).await?;
        ensure!(status.is_success() && body != "old", "{status} {body}");
    }
    Ok(())
}

/// While a client is away, a subset goes and another one comes with the routes to it. The client returns under load, five
/// times: no request fails.
async fn returns_without_loss(variant: Variant) -> Result<()> {
    let (files, port, backend) = (Files::new()?, ports::free_port()?, Backend::start("one").await?);
    let write = |step: usize| {
        let service = Entry::http("pay.test", port).at(backend.addr()).yaml();
        let routes = format!(
            "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: pay, namespace: default}}\n\
             spec: {{hosts: [pay.test], http: [{{route: [{{destination: {{host: pay.test, subset: s{step}}}}}]}}]}}\n"
        );
        let rule = rule("pay.test", &format!("subsets: [{{name: s{step}}}]"));
        files.put("all.yaml", &[service, rule, routes].join("---\n"))
    };
    let cluster = |step: usize| format!("outbound|{port}|s{step}|pay.test");
    write(0)?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut other =
        Follower::connect(server.xds(), Variant::Delta, Node { id: "other".into(), ..Node::default() })
            .await?;
    other.subscribe(CDS, &[])?;
    let switch = Switch::start(server.xds()).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(switch.addr(), variant).sidecar("returns")).await?;
    envoy.live(SOON).await?;
    envoy.has_hosts(&cluster(0), &[backend.addr()], SOON).await?;
    let load = Load::start(&LoadPlan::to(local(port)).host("pay.test").at_least(200.0));
    load.reaches("one", 50, SOON).await?;
    for step in 1..=5 {
        switch.to(nowhere(1));
        write(step)?;
        let is_served = |now: &Follower| now.names(CDS).contains(&cluster(step)).then_some(());
        other.until("the new subset", SOON, is_served).await?;
        switch.to(server.xds());
        envoy.has_hosts(&cluster(step), &[backend.addr()], SOON).await?;
        load.reaches("one", 50, SOON).await?;
    }
    load.finish().await.check_clean()?;
    ensure!(!envoy.clusters().await?.contains(&cluster(4)), "a removed subset stays");
    ensure!(envoy.refused().await? == 0, "a response was rejected");
    Ok(())
}

#[tokio::test]
async fn client_that_was_away_for_changed_rules_loses_no_request_sotw() -> Result<()> {
    returns_without_loss(Variant::Sotw).await
}

#[tokio::test]
async fn client_that_was_away_for_changed_rules_loses_no_request_delta() -> Result<()> {
    returns_without_loss(Variant::Delta).await
}
