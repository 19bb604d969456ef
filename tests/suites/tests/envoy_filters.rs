//! EnvoyFilters through real Envoy: filters, routes, virtual hosts and clusters that patches add, as an echo backend and a client
//! see them; and what stays while a filter is not valid.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_suites::envoy::sidecar_id;
use tributary_suites::http_client::get_as;
use tributary_suites::{
    Backend, Entry, Envoy, EnvoyConfig, Files, ServerOptions, TestServer, Variant, eventually, ports,
};

const SOON: Duration = Duration::from_secs(20);
const NO_HEADER: (&str, &str) = ("x-test", "1");

/// Starts a backend that answers each request with its head.
async fn echo() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(addr)
}

async fn answer(mut stream: TcpStream) -> Result<()> {
    let (mut head, mut part) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < 65_536 {
        let read = stream.read(&mut part).await?;
        ensure!(read > 0, "the request ended early");
        head.extend_from_slice(part.get(..read).unwrap_or_default());
    }
    let status = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", head.len());
    stream.write_all(status.as_bytes()).await?;
    Ok(stream.write_all(&head).await?)
}

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
const LUA: &str = "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua";

/// Returns a filter of namespace `default` with these patches.
fn filter(patches: &[String]) -> String {
    format!(
        "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n\
         metadata: {{name: all, namespace: default}}\nspec:\n  configPatches:\n{}",
        patches.iter().map(|patch| format!("  - {patch}\n")).collect::<String>()
    )
}

/// Returns a patch of outbound traffic; `value` may be empty.
fn patch(apply_to: &str, matched: &str, operation: &str, value: &str) -> String {
    let value = if value.is_empty() { String::new() } else { format!(", value: {value}") };
    format!(
        "{{applyTo: {apply_to}, match: {{context: SIDECAR_OUTBOUND{matched}}}, \
         patch: {{operation: {operation}{value}}}}}"
    )
}

fn lua(text: &str) -> String {
    let matched = format!(", listener: {{filterChain: {{filter: {{name: {MANAGER}}}}}}}");
    let code = format!("function envoy_on_request(r) r:headers():add('x-lua', '{text}') end");
    let value = format!(
        "{{name: mine, typed_config: {{'@type': {LUA}, default_source_code: {{inline_string: \"{code}\"}}}}}}"
    );
    patch("HTTP_FILTER", &matched, "INSERT_FIRST", &value)
}

fn patches(to: SocketAddr) -> Vec<String> {
    let address = format!("{{socket_address: {{address: {}, port_value: {}}}}}", to.ip(), to.port());
    let endpoints = format!("[{{lb_endpoints: [{{endpoint: {{address: {address}}}}}]}}]");
    let cluster = format!(
        "{{name: mine, type: STATIC, connect_timeout: 1s, \
         load_assignment: {{cluster_name: mine, endpoints: {endpoints}}}}}"
    );
    let header = "[{header: {key: x-route, value: merged}}]";
    let of_host = ", routeConfiguration: {vhost: {domainName: echo.test}}";
    vec![
        lua("first"),
        patch("HTTP_ROUTE", of_host, "MERGE", &format!("{{request_headers_to_add: {header}}}")),
        patch(
            "HTTP_ROUTE",
            of_host,
            "INSERT_FIRST",
            "{match: {path: /}, direct_response: {status: 418}, name: teapot}",
        ),
        patch("HTTP_ROUTE", ", routeConfiguration: {vhost: {route: {name: teapot}}}", "REMOVE", ""),
        patch("CLUSTER", "", "ADD", &cluster),
        patch(
            "VIRTUAL_HOST",
            "",
            "ADD",
            "{name: added, domains: [added.test], routes: [{match: {prefix: /}, route: {cluster: mine}}]}",
        ),
    ]
}

/// Waits until the answer for a host holds.
async fn answers(port: u16, host: &str, what: &str, holds: impl Fn(u16, &str) -> bool) -> Result<String> {
    eventually(&format!("{host} to {what}"), SOON, || async {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (status, body) = get_as(to, host, NO_HEADER).await?;
        ensure!(holds(status.as_u16(), &body), "it answers {status}: {body}");
        Ok(body)
    })
    .await
}

async fn filters_change_what_envoy_does(variant: Variant) -> Result<()> {
    let (files, port, echo) = (Files::new()?, ports::free_port()?, echo().await?);
    let other = Backend::start("other").await?;
    files.put("echo.yaml", &Entry::http("echo.test", port).at(echo).yaml())?;
    files.put("other.yaml", &Entry::http("other.test", port).at(other.addr()).yaml())?;
    let all = patches(echo);
    files.put("filter.yaml", &filter(&all[..2]))?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("filters")).await?;
    envoy.live(SOON).await?;
    let has = |header: &'static str| move |status: u16, body: &str| status == 200 && body.contains(header);
    answers(port, "echo.test", "send x-lua", has("x-lua: first")).await?;
    answers(port, "echo.test", "send x-route", has("x-route: merged")).await?;
    answers(port, "other.test", "stay", has("other")).await?;
    // a patch that matches nothing is shown; those that change something are not
    let nothing = patch("CLUSTER", ", cluster: {service: none.test}", "REMOVE", "");
    files.put("filter.yaml", &filter(&[all[0].clone(), nothing, all[1].clone()]))?;
    let unused = "no connected client was sent what these change: spec.configPatches[1]\n";
    prints(&server, &["get", "policies", "-o", "wide"], &["TRB0462", unused]).await?;
    // added parts; a route that is added is not removed by a patch
    files.put("filter.yaml", &filter(&all))?;
    answers(port, "added.test", "reach the added cluster", has("added.test")).await?;
    answers(port, "echo.test", "be answered by the added route", |status, _| status == 418).await?;
    // a version that is not valid changes nothing, nor does the filter go
    files.put("filter.yaml", &filter(&all).replace("connect_timeout: 1s", "connect_timeout: 1"))?;
    prints(&server, &["get", "policies", "-o", "wide"], &["Quarantined", "TRB0340"]).await?;
    answers(port, "added.test", "keep the added cluster", has("added.test")).await?;
    // an edit, then the end
    files.put("filter.yaml", &filter(&[lua("second")]))?;
    answers(port, "echo.test", "send the new x-lua", has("x-lua: second")).await?;
    let body =
        answers(port, "echo.test", "lose x-route", |status, body| status == 200 && !body.contains("x-route"))
            .await?;
    assert!(body.contains("x-lua: second"), "{body}");
    files.remove("filter.yaml")?;
    answers(port, "echo.test", "be as before", |status, body| status == 200 && !body.contains("x-lua"))
        .await?;
    answers(port, "other.test", "stay", has("other")).await?;
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

/// Waits until a command against the server prints all of these texts.
async fn prints(server: &TestServer, args: &[&str], texts: &[&str]) -> Result<()> {
    eventually(&format!("{} to print {texts:?}", args.join(" ")), SOON, || async {
        let (_, out, error) = server.command(args).await?;
        ensure!(texts.iter().all(|text| out.contains(text)), "it prints {out}{error}");
        Ok(())
    })
    .await
}

/// Waits until the xDS cluster that Envoy uses has a connect timeout.
async fn has_timeout(envoy: &Envoy, cluster: &str, timeout: &str) -> Result<()> {
    eventually(&format!("{cluster} to have the timeout {timeout}"), SOON, || async {
        let active = envoy.active_cluster(cluster).await?;
        ensure!(
            active["cluster"]["connect_timeout"] == timeout,
            "it has {}",
            active["cluster"]["connect_timeout"]
        );
        Ok(())
    })
    .await
}

/// A result that Envoy rejects: the client keeps the earlier version, everything else follows, and commands name the filter.
async fn rejected_results_are_shown_and_take_nothing_down(variant: Variant) -> Result<()> {
    let (files, port, echo) = (Files::new()?, ports::free_port()?, echo().await?);
    let (other, third) = (Backend::start("other").await?, Backend::start("third").await?);
    files.put("echo.yaml", &Entry::http("echo.test", port).at(echo).yaml())?;
    files.put("other.yaml", &Entry::http("other.test", port).at(other.addr()).yaml())?;
    let (cluster, node) = (format!("outbound|{port}||echo.test"), sidecar_id("rejects"));
    let merge = |value: &str| {
        filter(&[lua("good"), patch("CLUSTER", ", cluster: {service: echo.test}", "MERGE", value)])
    };
    let timeout = |of: &str| merge(&format!("{{connect_timeout: {of}}}"));
    files.put("filter.yaml", &timeout("1.5s"))?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), variant).sidecar("rejects")).await?;
    envoy.live(SOON).await?;
    has_timeout(&envoy, &cluster, "1.500s").await?;
    let has = |text: &'static str| move |status: u16, body: &str| status == 200 && body.contains(text);
    answers(port, "echo.test", "send x-lua", has("x-lua: good")).await?;
    let rule = "EnvoyFilter default/all";
    prints(&server, &["get", "resources", &node, "--type", "cds"], &[&cluster, rule]).await?;
    assert_eq!(envoy.refused().await?, 0);
    // an xDS cluster: fewer entries at most than at least
    let ring = "{lb_policy: RING_HASH, ring_hash_lb_config: {minimum_ring_size: 9, maximum_ring_size: 5}}";
    files.put("filter.yaml", &merge(ring))?;
    prints(&server, &["get", "resources", &node, "--type", "cds"], &["ERROR", rule]).await?;
    let texts = ["TRB0522", &format!("the client rejected CDS {cluster} (changed by {rule})")];
    prints(&server, &["why-not", "echo.test", "--for-client", &node], &texts).await?;
    prints(&server, &["get", "clients", &node], &["ERROR"]).await?;
    has_timeout(&envoy, &cluster, "1.500s").await?;
    files.put("third.yaml", &Entry::http("third.test", port).at(third.addr()).yaml())?;
    answers(port, "third.test", "be reached", has("third")).await?;
    answers(port, "echo.test", "stay", has("x-lua: good")).await?;
    // a listener: code that is not Lua
    files.put("filter.yaml", &filter(&[lua("' .. ) (")]))?;
    prints(&server, &["get", "resources", &node, "--type", "lds"], &["ERROR", rule]).await?;
    let texts = ["TRB0522", &format!("the client rejected LDS 127.0.0.1_{port} (changed by {rule})")];
    prints(&server, &["why-not", "echo.test", "--for-client", &node], &texts).await?;
    answers(port, "echo.test", "stay", has("x-lua: good")).await?;
    answers(port, "third.test", "stay", has("third")).await?;
    // a result that Envoy accepts
    files.put("filter.yaml", &timeout("2.5s").replace("good", "better"))?;
    has_timeout(&envoy, &cluster, "2.500s").await?;
    answers(port, "echo.test", "send the new x-lua", has("x-lua: better")).await?;
    eventually("the rejections to be gone", SOON, || async {
        let (_, table, _) = server.command(&["get", "resources", &node]).await?;
        ensure!(!table.contains("ERROR"), "{table}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn rejected_results_are_shown_and_take_nothing_down_sotw() -> Result<()> {
    rejected_results_are_shown_and_take_nothing_down(Variant::Sotw).await
}

#[tokio::test]
async fn rejected_results_are_shown_and_take_nothing_down_delta() -> Result<()> {
    rejected_results_are_shown_and_take_nothing_down(Variant::Delta).await
}

#[tokio::test]
async fn filters_change_what_envoy_does_sotw() -> Result<()> {
    filters_change_what_envoy_does(Variant::Sotw).await
}

#[tokio::test]
async fn filters_change_what_envoy_does_delta() -> Result<()> {
    filters_change_what_envoy_does(Variant::Delta).await
}
