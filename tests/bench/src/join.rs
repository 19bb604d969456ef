//! Join bench: one endpoint's change in a cluster, from the text of the watch event to the catalog, without a
//! socket.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tributary_core::{Core, CoreConfig, RunOrder};
use tributary_kube_client::Projection;
use tributary_kubernetes::project::{Service, Slice};
use tributary_kubernetes::{Index, Kind, Object, ObjectEvent, Options, WatchScope};
use tributary_model::{ClusterId, Mono};

use crate::intake::{spec, stamped};
use crate::report::{Table, quantile};

/// Number of measured changes.
const CHANGES: usize = 1_000;

/// Runs once.
pub(crate) fn run(services: usize, addresses: usize, table: &mut Table) -> Result<()> {
    let mut core = Core::new(CoreConfig::default());
    let spec = spec()?;
    core.add_registry(&spec)?;
    core.serve(Mono(1), &RunOrder::first(spec))?;
    let mut index = filled(services, addresses)?;
    loop {
        core.apply(Mono(1), stamped(index.flush())?);
        if !index.is_behind() {
            break;
        }
    }
    core.publish();
    let views = core.counters().views;
    ensure!(views as usize >= services, "not every service became a view");
    let mut took = Vec::with_capacity(CHANGES);
    for change in 0..CHANGES {
        let event = text(&slice(change % services, addresses, change / services + 1))?;
        let begun = Instant::now();
        index.apply(&WatchScope::all(Kind::Slice), put_slice(&event)?);
        core.apply(Mono(2), stamped(index.flush())?);
        core.publish();
        took.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let built = core.counters().views - views;
    ensure!(built as usize <= CHANGES, "{built} views were built for {CHANGES} changes of one service each");
    let shape = format!("{services} x {addresses}");
    table.add(format!("{shape}: a slice's event to the catalog, median"), "us", quantile(&mut took, 0.5));
    table.add(format!("{shape}: 99 %"), "us", quantile(&mut took, 0.99));
    ensure!(quantile(&mut took, 0.5) < 10_000.0, "a change took over ten times the aim of 1 ms");
    Ok(())
}

fn filled(services: usize, addresses: usize) -> Result<Index> {
    let options = Options::new(ClusterId::new("bench")?)?;
    let scopes = options.watch_scopes();
    let mut index = Index::new(options);
    for scope in &scopes {
        index.apply(scope, ObjectEvent::Init);
    }
    for n in 0..services {
        let object = json!({
            "metadata": {"namespace": "bench", "name": name(n)},
            "spec": {"clusterIP": format!("10.96.{}.{}", n / 250, n % 250 + 1), "ports": [
                {"name": "http", "port": 80}, {"name": "grpc", "port": 90},
            ]},
        });
        let service = Service::decode(&text(&object)?).map_err(|why| anyhow!(why))?;
        index.apply(&WatchScope::all(Kind::Service), ObjectEvent::Apply(Object::Service(Arc::new(service))));
        index.apply(&WatchScope::all(Kind::Slice), put_slice(&text(&slice(n, addresses, 0))?)?);
    }
    for scope in scopes {
        index.apply(&scope, ObjectEvent::InitDone);
    }
    Ok(index)
}

fn put_slice(event: &RawValue) -> Result<ObjectEvent> {
    Ok(ObjectEvent::Apply(Object::Slice(Arc::new(Slice::decode(event).map_err(|why| anyhow!(why))?))))
}

fn text(object: &Value) -> Result<Box<RawValue>> {
    Ok(to_raw_value(object)?)
}

fn name(service: usize) -> String {
    format!("svc-{service:04}")
}

/// Returns a slice whose first address differs in each batch.
fn slice(service: usize, addresses: usize, batch: usize) -> Value {
    let ip = |n: usize| {
        format!("10.{}.{}.{}", service / 250, service % 250, if n == 0 { 150 + batch % 100 } else { n })
    };
    let endpoints: Vec<Value> =
        (0..addresses).map(|n| json!({"addresses": [ip(n)], "conditions": {"ready": true}})).collect();
    json!({
        "metadata": {
            "namespace": "bench", "name": format!("{}-x", name(service)), "resourceVersion": batch.to_string(),
            "labels": {"kubernetes.io/service-name": name(service)},
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080}, {"name": "grpc", "port": 9090}],
    })
}
