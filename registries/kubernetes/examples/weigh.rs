//! Memory of the index for a cluster, by a counting allocator: `cargo run -p tributary-kubernetes --example weigh`.
//!
//! Two shapes: 2,000 slices of 100 addresses and 2 ports without pods, and 1,000 slices of 10 addresses with a pod each.
//! Groups and workloads are counted here, because the core shares them.

use std::alloc::System;
use std::time::Instant;

use tributary_kubernetes::project::{Node, Pod, Service, Slice};
use tributary_kubernetes::{Index, Kind, Object, ObjectEvent, Options, WatchScope};
use tributary_model::ClusterId;

#[global_allocator]
static ALLOCATOR: cap::Cap<System> = cap::Cap::new(System, usize::MAX);

const NODES: usize = 100;

fn meta(name: &str, labels: &str) -> String {
    format!(
        r#""metadata":{{"name":"{name}","namespace":"shop","resourceVersion":"1234567","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{{labels}}}}}"#
    )
}

fn service(i: usize) -> Result<Object, String> {
    let (high, low) = (i / 250, i % 250);
    let ports =
        r#"[{"name":"http","port":80,"targetPort":8080},{"name":"grpc","port":81,"targetPort":8081}]"#;
    let spec =
        format!(r#"{{"clusterIP":"10.96.{high}.{low}","ports":{ports},"selector":{{"app":"svc-{i}"}}}}"#);
    Service::parse(&format!(r#"{{{},"spec":{spec}}}"#, meta(&format!("svc-{i}"), ""))).map(Object::from)
}

fn ip(i: usize, j: usize) -> String {
    let n = i * 100 + j;
    format!("10.{}.{}.{}", n / 65_536, n / 256 % 256, n % 256)
}

fn slice(i: usize, addresses: usize, pods: bool) -> Result<Object, String> {
    let endpoint = |j: usize| {
        let target = format!(r#","targetRef":{{"kind":"Pod","namespace":"shop","name":"pod-{i}-{j}"}}"#);
        let target = if pods { target } else { String::new() };
        format!(
            r#"{{"addresses":["{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"nodeName":"node-{}","zone":"zone-{}"{target}}}"#,
            ip(i, j),
            j % NODES,
            j % 3,
        )
    };
    let endpoints: Vec<String> = (0..addresses).map(endpoint).collect();
    let labels = format!(r#""kubernetes.io/service-name":"svc-{i}""#);
    let ports =
        r#"[{"name":"http","port":8080,"protocol":"TCP"},{"name":"grpc","port":8081,"protocol":"TCP"}]"#;
    let text = format!(
        r#"{{{},"addressType":"IPv4","ports":{ports},"endpoints":[{}]}}"#,
        meta(&format!("svc-{i}-abcde"), &labels),
        endpoints.join(",")
    );
    Slice::parse(&text).map(Object::from)
}

fn pod(i: usize, j: usize) -> Result<Object, String> {
    let labels = format!(r#""app":"svc-{i}","pod-template-hash":"7f6d5c","team":"t","version":"v1""#);
    let name = format!("pod-{i}-{j}");
    let filler = "x".repeat(6000);
    let ip = ip(i, j);
    let ports = r#"[{"name":"http","containerPort":8080},{"name":"grpc","containerPort":8081}]"#;
    let text = format!(
        r#"{{{},"spec":{{"nodeName":"node-{}","serviceAccountName":"sa-{i}","containers":[{{"name":"{filler}","ports":{ports}}}]}},"status":{{"phase":"Running","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"conditions":[{{"type":"Ready","status":"True"}}]}}}}"#,
        meta(&name, &labels),
        j % NODES,
    );
    Pod::parse(&text).map(Object::from)
}

fn node(j: usize) -> Result<Object, String> {
    let labels =
        format!(r#""topology.kubernetes.io/region":"eu","topology.kubernetes.io/zone":"zone-{}""#, j % 3);
    Node::parse(&format!(r#"{{"metadata":{{"name":"node-{j}","labels":{{{labels}}}}}}}"#)).map(Object::from)
}

fn list(index: &mut Index, objects: impl Iterator<Item = Result<Object, String>>) -> Result<(), String> {
    objects.into_iter().try_for_each(|object| {
        let object = object?;
        index.apply(&WatchScope::all(object.kind()), ObjectEvent::Apply(object));
        Ok(())
    })
}

/// Flushes the index completely; returns the number of updates.
fn flush(index: &mut Index) -> usize {
    let mut count = index.flush().len();
    while index.is_behind() {
        count += index.flush().len();
    }
    count
}

/// Decodes a cluster of this size and prints its memory.
fn weigh(services: usize, addresses: usize, pods: bool) -> Result<(), String> {
    let options =
        Options::new(ClusterId::new("c1").map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let scopes: Vec<WatchScope> = options.watch_scopes();
    let start = ALLOCATOR.allocated();
    let mut index = Index::new(options);
    let now = Instant::now();
    list(&mut index, (0..NODES).map(node))?;
    list(&mut index, (0..services).map(service))?;
    if pods {
        list(&mut index, (0..services).flat_map(|i| (0..addresses).map(move |j| pod(i, j))))?;
    }
    let before = ALLOCATOR.allocated();
    list(&mut index, (0..services).map(|i| slice(i, addresses, pods)))?;
    let read = now.elapsed();
    let objects = ALLOCATOR.allocated();
    scopes.iter().for_each(|scope| index.apply(scope, ObjectEvent::InitDone));
    let count = flush(&mut index);
    let flushed = ALLOCATOR.allocated();
    let mb = |bytes: usize| bytes as f64 / 1e6;
    println!("{services} x {addresses}, pods {pods}: {count} updates");
    println!("  read in {read:?}, all in {:?}", now.elapsed());
    println!(
        "  nodes, services, pods {:.1} MB; slices {:.1} MB; facts {:.1} MB",
        mb(before - start),
        mb(objects - before),
        mb(flushed - objects)
    );
    println!("  at rest {:.1} MB", mb(ALLOCATOR.allocated() - start));
    index.apply(&WatchScope::all(Kind::Slice), ObjectEvent::Init);
    list(&mut index, (0..services).map(|i| slice(i, addresses, pods)))?;
    index.apply(&WatchScope::all(Kind::Slice), ObjectEvent::InitDone);
    let again = flush(&mut index);
    println!("  at rest after a relist with {again} updates: {:.1} MB", mb(ALLOCATOR.allocated() - start));
    Ok(())
}

fn main() -> Result<(), String> {
    weigh(2_000, 100, false)?;
    weigh(1_000, 10, true)
}
