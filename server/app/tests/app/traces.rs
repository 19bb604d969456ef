//! Traces of changes, as a collector receives them.

use std::time::Duration;

use tributary_suites::ads::{CDS, EDS, node};
use tributary_suites::collector::ReceivedSpan;
use tributary_suites::{AdsClient, Answer, Collector, Variant, eventually};

use crate::world::{LONG, World, mk_entry, mk_folder, put};

const PAY: &str = "outbound|80||pay.shop.example";

/// Starts a server of one file whose traces go to this URL, and returns its folders with it.
async fn mk_world(traces: &str) -> ([tempfile::TempDir; 2], World) {
    let files = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop.example", "10.0.0.1"))]);
    let config = format!(
        "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries: [{{kind: file, path: {}}}]\n{traces}\n",
        files.path().display()
    );
    let place = mk_folder(&[("config.yaml", config)]);
    let file = place.path().join("config.yaml");
    let world = World::start(&["--config", file.to_str().unwrap()]).await;
    world.until("get endpoints", "10.0.0.1:80").await;
    ([files, place], world)
}

fn on(endpoint: &str) -> String {
    format!("traces: {{enabled: true, endpoint: \"{endpoint}\"}}")
}

/// Connects a client that has acknowledged the endpoints of the service.
async fn connect(world: &World, id: &str) -> AdsClient {
    let mut client =
        AdsClient::connect(world.server.addresses().xds, Variant::Delta, node(id)).await.unwrap();
    for (kind, names) in [(CDS, &[][..]), (EDS, &[PAY][..])] {
        client.subscribe(kind, names).unwrap();
        let answer = next(&mut client, kind).await;
        client.ack(&answer).unwrap();
    }
    client
}

async fn next(client: &mut AdsClient, kind: &str) -> Answer {
    loop {
        let answer = client.next(LONG).await.unwrap();
        if answer.type_url == kind {
            return answer;
        }
        client.ack(&answer).unwrap();
    }
}

/// Returns the chain of the first span of this name about endpoints.
async fn chain(collector: &Collector, name: &str) -> Vec<ReceivedSpan> {
    let is = |span: &ReceivedSpan| span.name == name && span.attributes["xds.type_url"] == EDS;
    eventually("the chain of spans", LONG, || async {
        let span = collector.spans().into_iter().find(is);
        collector.chain(&span.ok_or_else(|| anyhow::anyhow!("no {name} in {:?}", collector.spans()))?)
    })
    .await
    .unwrap()
}

fn names(chain: &[ReceivedSpan]) -> Vec<&str> {
    chain.iter().map(|span| span.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_is_one_trace_from_its_source_to_the_answers() {
    let collector = Collector::start().await.unwrap();
    let (folders, world) = mk_world(&on(&collector.endpoint())).await;
    let mut clients = [connect(&world, "a").await, connect(&world, "b").await];
    put(folders[0].path(), "pay.yaml", &mk_entry("pay", "pay.shop.example", "10.0.0.2"));
    for client in &mut clients {
        let answer = next(client, EDS).await;
        client.ack(&answer).unwrap();
    }
    let push = chain(&collector, "push").await;
    assert_eq!(names(&push), ["registry.event", "merge", "encode", "push"]);
    let acks: Vec<_> = collector.spans().into_iter().filter(|span| span.parent == push[3].id).collect();
    assert_eq!(names(&acks), ["ack", "ack"]);
    let list = world.run("get endpoints -o json").await.out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let generation = list["metadata"]["resourceVersion"].as_str().unwrap();
    for span in push.iter().chain(&acks) {
        assert_eq!(span.attributes["tributary.generation"], generation, "{span:?}");
        assert_eq!((&span.trace, &span.error), (&push[0].trace, &None), "{span:?}");
        assert!(span.times.0 <= span.times.1 && span.times.0 > 0, "{span:?}");
    }
    let trace: String = push[0].trace.iter().map(|byte| format!("{byte:02x}")).collect();
    world.until("get timeline -o json", &format!("\"traceId\": \"{trace}\"")).await;
    let event = &push[0].attributes;
    assert_eq!((event["tributary.registry"].as_str(), event["tributary.facts"].as_str()), ("file", "1"));
    let counts = ["responses", "acked", "rejected", "unanswered"];
    let counts = counts.map(|name| push[3].attributes[&format!("tributary.{name}")].as_str());
    assert_eq!(counts, ["2", "2", "0", "0"]);
    assert!(push.windows(2).all(|pair| pair[0].times.1 <= pair[1].times.1), "{push:?}");
    assert_eq!(push[0].resource["service.name"], "tributary");
    let metrics = world.server.live().sessions.traces.as_ref().unwrap().results();
    assert_eq!((metrics.failed, metrics.dropped), (0, 0));
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_response_is_a_failure_in_its_trace() {
    let collector = Collector::start().await.unwrap();
    let traces = on(&collector.endpoint()).replace('}', ", clients: 0}");
    let (folders, world) = mk_world(&traces).await;
    let mut client = connect(&world, "a").await;
    put(folders[0].path(), "pay.yaml", &mk_entry("pay", "pay.shop.example", "10.0.0.2"));
    let answer = next(&mut client, EDS).await;
    client.nack(&answer, "bad endpoints").unwrap();
    let push = chain(&collector, "push").await;
    assert_eq!(push[3].attributes["tributary.rejected"], "1");
    assert!(push[3].error.is_some(), "{push:?}");
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collector_that_is_gone_costs_spans_alone() {
    let gone = Collector::start().await.unwrap().endpoint();
    let (folders, world) = mk_world(&on(&gone)).await;
    let mut client = connect(&world, "a").await;
    for last in 2..6 {
        let address = format!("10.0.0.{last}");
        put(folders[0].path(), "pay.yaml", &mk_entry("pay", "pay.shop.example", &address));
        let answer = next(&mut client, EDS).await;
        client.ack(&answer).unwrap();
    }
    let failed = || world.server.live().sessions.traces.as_ref().unwrap().results().failed;
    eventually("failed spans", LONG, || async {
        anyhow::ensure!(failed() > 0, "no span failed");
        Ok(())
    })
    .await
    .unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(15), world.server.stop()).await.is_ok());
}

#[tokio::test]
async fn traces_are_off_by_default() {
    let (_folders, world) = mk_world("").await;
    assert!(world.server.live().sessions.traces.is_none());
    world.server.stop().await;
}
