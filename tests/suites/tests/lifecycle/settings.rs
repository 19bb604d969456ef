//! Mesh-wide settings change under live streams: each stream receives exactly what an edit changes for it.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::core::v3::Node;
use futures::future::try_join_all;
use tributary_suites::ads::{CDS, EDS, LDS, RDS};
use tributary_suites::eventually;

use super::reload::write;
use super::*;

/// Time in which a response that an edit causes would arrive after the first one.
const QUIET: Duration = Duration::from_secs(1);

const DOCUMENTS: &str = "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop}
spec:
  hosts: [db.test]
  addresses: [10.96.0.5]
  ports: [{number: 5432, name: tcp, protocol: TCP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.2}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: free}
spec: {outboundTrafficPolicy: {mode: ALLOW_ANY}}
";

/// Names of resources by type.
type Names = BTreeMap<&'static str, BTreeSet<String>>;

/// A stream, and the bytes that it held before an edit.
struct Stream {
    name: &'static str,
    variant: Variant,
    follower: Follower,
    before: BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>,
}

impl Stream {
    async fn open(server: &TestServer, name: &'static str, variant: Variant) -> Result<Self> {
        let sidecar =
            |namespace: &str| format!("sidecar~10.0.0.1~w.{namespace}~{namespace}.svc.cluster.local");
        let (id, agent) = match name {
            "envoy" => ("plain".to_owned(), "envoy"),
            "grpc" => ("target".to_owned(), "gRPC C-core"),
            namespace => (sidecar(namespace), "envoy"),
        };
        let node = Node { user_agent_name: agent.to_owned(), ..node(&id) };
        let mut follower = Follower::like_envoy(server.xds(), variant, node).await?;
        match name {
            "envoy" => {}
            "grpc" => follower.subscribe(RDS, &["outbound|80||web.test"])?,
            _ => {
                follower.subscribe(LDS, &[])?;
                follower.subscribe(RDS, &["80"])?;
            }
        }
        Ok(Self { name, variant, follower, before: BTreeMap::new() })
    }
    /// Waits for silence and remembers what it holds.
    async fn rest(&mut self) -> Result<()> {
        self.follower.settle(QUIET).await?;
        self.before = [CDS, EDS, LDS, RDS].map(|kind| (kind, self.follower.bytes(kind))).into();
        self.follower.forget();
        Ok(())
    }
    /// Returns the resources that changed, after silence. A response about anything else is an error.
    async fn changed(&mut self) -> Result<Names> {
        self.follower.settle(QUIET).await?;
        let differ = |kind: &'static str| {
            let (before, now) = (&self.before[kind], self.follower.bytes(kind));
            let names: BTreeSet<String> = before.keys().chain(now.keys()).cloned().collect();
            names.into_iter().filter(|name| before.get(name) != now.get(name)).collect::<BTreeSet<_>>()
        };
        let mut out: Names = [CDS, EDS, LDS, RDS].map(|kind| (kind, differ(kind))).into();
        out.retain(|_, names| !names.is_empty());
        let of_answers: BTreeSet<&str> =
            self.follower.answers().iter().map(|a| a.type_url.as_str()).collect();
        ensure!(
            of_answers == out.keys().copied().collect(),
            "{} received responses of {of_answers:?}, but {out:?} changed",
            self.name
        );
        if self.variant == Variant::Delta {
            let sent = self.follower.answers().iter().flat_map(|answer| &answer.resources);
            let sent: BTreeSet<&String> = sent.map(|item| &item.name).collect();
            ensure!(sent == out.values().flatten().collect(), "{} received {sent:?}, not {out:?}", self.name);
        }
        Ok(out)
    }
}

fn names(kind: &'static str, names: &[&str]) -> Names {
    [(kind, names.iter().map(|name| (*name).to_owned()).collect())].into()
}

#[tokio::test]
async fn edited_settings_reach_exactly_the_streams_that_they_concern() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    files.put("all.yaml", DOCUMENTS)?;
    let path = place.path().join("config.yaml");
    write(&path, &config(&[files.path()], ""))?;
    let server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut streams = Vec::new();
    for (name, variant) in [
        ("shop", Variant::Delta),
        ("shop", Variant::Sotw),
        ("free", Variant::Delta),
        ("envoy", Variant::Delta),
        ("grpc", Variant::Delta),
        ("grpc", Variant::Sotw),
    ] {
        streams.push(Stream::open(&server, name, variant).await?);
    }
    let log = "accessLog: {file: /dev/null}";
    let retries = "httpRetries: {attempts: 5}";
    let block = "blockUnknown: true";
    let listeners = ["0.0.0.0_80", "10.96.0.5_5432", "virtualInbound", "virtualOutbound"];
    let (all, tables) = (names(LDS, &listeners), names(RDS, &["80"]));
    let target = names(RDS, &["outbound|80||web.test"]);
    let catch_alls: Names =
        names(LDS, &["0.0.0.0_80", "virtualOutbound"]).into_iter().chain(tables.clone()).collect();
    // settings, then what changes for sidecars of `shop`, for those of `free`, and for gRPC clients
    let edits = [
        (log.to_owned(), all.clone(), all.clone(), Names::new()),
        (format!("{log}, {retries}"), tables.clone(), tables.clone(), target.clone()),
        (format!("{log}, {retries}, {block}"), catch_alls.clone(), Names::new(), Names::new()),
        (format!("{log}, {block}"), tables.clone(), tables, target),
        (block.to_owned(), all.clone(), all, Names::new()),
        (String::new(), catch_alls, Names::new(), Names::new()),
    ];
    for (settings, shop, free, grpc) in edits {
        try_join_all(streams.iter_mut().map(Stream::rest)).await?;
        write(&path, &config(&[files.path()], &format!("settings: {{{settings}}}\n")))?;
        streams[0].follower.next(SOON).await?;
        let changed = try_join_all(streams.iter_mut().map(Stream::changed)).await?;
        for (stream, changed) in streams.iter().zip(changed) {
            let wanted = match stream.name {
                "shop" => &shop,
                "free" => &free,
                "grpc" => &grpc,
                _ => &Names::new(),
            };
            ensure!(changed == *wanted, "{settings:?}: {} has {changed:?}, not {wanted:?}", stream.name);
        }
    }
    Ok(())
}

#[tokio::test]
async fn invalid_settings_reach_no_stream_and_are_shown() -> Result<()> {
    let (files, place) = (Files::new()?, Files::new()?);
    files.put("all.yaml", DOCUMENTS)?;
    let path = place.path().join("config.yaml");
    write(&path, &config(&[files.path()], "settings: {httpRetries: {attempts: 5}}\n"))?;
    let server = TestServer::start(ServerOptions::default().config(&path)).await?;
    let mut stream = Stream::open(&server, "shop", Variant::Delta).await?;
    stream.rest().await?;
    write(
        &path,
        &config(&[files.path()], "settings: {accessLog: {file: /dev/null}, httpRetries: {attempts: few}}\n"),
    )?;
    eventually("the edit to be noticed", SOON, || async {
        let valid = server.metric("tributary_config_last_reload_successful").await?;
        ensure!(valid == 0.0, "it counts as taken");
        Ok(())
    })
    .await?;
    let shown = server.debug("config").await?.to_string();
    ensure!(shown.contains("settings.httpRetries.attempts: `few`"), "/debug/config is {shown}");
    let changed = stream.changed().await?;
    ensure!(changed.is_empty(), "half of the edit was applied: {changed:?}");
    write(&path, &config(&[files.path()], "settings: {httpRetries: {attempts: 6}}\n"))?;
    stream.follower.next(SOON).await?;
    let changed = stream.changed().await?;
    ensure!(changed == names(RDS, &["80"]), "the corrected edit changed {changed:?}");
    Ok(())
}
