//! When changes are published: single ones at once, removals soon, additions when the fan-out is idle.

use std::time::Duration;

use tokio::time::sleep;
use tributary_model::{Mono, ObservedSince};
use tributary_registry_api::Clock;

use crate::support::{Server, ip, pay};

fn millis(from: Mono, to: Option<Mono>) -> u64 {
    to.expect("it was published").0 - from.0
}

#[tokio::test(start_paused = true)]
async fn a_lone_event_is_published_without_waiting() {
    let (server, source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(5)).await;
    let before = server.clock.now();
    source.set(0, "pay", (0..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert!(millis(before, server.log.when(&pay(), ip(4), true, before)) <= 1);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removals_are_published_within_100_ms_under_churn() {
    let (server, source) = Server::with_pay(0..500).await;
    sleep(Duration::from_secs(5)).await;
    server.log.forget();
    let publications = server.handle.stats().publications;
    let mut removed = Vec::new();
    for i in 0..500_u16 {
        // A rolling replacement: one address is added, one is removed.
        source.set(0, "pay", (i + 1..=i + 500).map(ip));
        removed.push((ip(i), server.clock.now()));
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let delays: Vec<u64> =
        removed.iter().map(|(ip, at)| millis(*at, server.log.when(&pay(), *ip, false, *at))).collect();
    assert!(delays.iter().all(|delay| *delay <= 100), "{:?}", delays.iter().max());
    let publications = server.handle.stats().publications - publications;
    assert!((200..=256).contains(&publications), "{publications} publications in 5 s at a pace of 20 ms");
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_fan_out_coalesces_additions() {
    let (server, source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(5)).await;
    server.log.forget();
    server.log.write_for(Duration::from_millis(120));
    let before = server.clock.now();
    for i in 4..14 {
        source.set(0, "pay", (0..=i).map(ip));
        sleep(Duration::from_millis(5)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let published = server.log.publications();
    assert_eq!(published.len(), 1, "ten additions, one pass");
    assert_eq!(published[0].observed, ObservedSince::batch(before, false), "the oldest update counts");
    let waited = millis(before, server.log.when(&pay(), ip(13), true, before));
    assert!((120..=125).contains(&waited), "published after {waited} ms, when the fan-out was idle");
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn additions_wait_for_a_stuck_fan_out_no_longer_than_the_bound() {
    let (server, source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(5)).await;
    server.log.write_for(Duration::from_secs(3600));
    let before = server.clock.now();
    source.set(0, "pay", (0..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    let waited = millis(before, server.log.when(&pay(), ip(4), true, before));
    assert!((199..=202).contains(&waited), "published after {waited} ms");
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_does_not_wait_for_a_busy_fan_out() {
    let (server, source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(5)).await;
    server.log.write_for(Duration::from_secs(3600));
    let before = server.clock.now();
    source.set(0, "pay", (1..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert!(millis(before, server.log.when(&pay(), ip(0), false, before)) <= 1);
    assert!(server.handle.stats().urgent > 0);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fan_out_receives_the_union_of_changes() {
    let (server, source) = Server::with_pay(0..4).await;
    source.set(0, "cart", [ip(100)]);
    server.until(|catalog| catalog.hosts.len() == 2).await;
    sleep(Duration::from_secs(5)).await;
    server.log.forget();
    server.log.write_for(Duration::from_millis(50));
    source.set(0, "pay", (0..5).map(ip));
    sleep(Duration::from_millis(10)).await;
    source.set(0, "cart", [ip(100), ip(101)]);
    sleep(Duration::from_secs(1)).await;
    let published = server.log.publications();
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].changed.hosts.len(), 2, "{:?}", published[0].changed);
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_panics_is_called_again() {
    let (server, source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(1)).await;
    server.log.panic_once();
    source.set(0, "pay", (0..5).map(ip));
    sleep(Duration::from_secs(1)).await;
    let before = server.clock.now();
    source.set(0, "pay", (0..6).map(ip));
    sleep(Duration::from_secs(1)).await;
    assert!(server.log.when(&pay(), ip(5), true, before).is_some());
    server.runtime.stop().await;
}

#[tokio::test(start_paused = true)]
async fn idle_server_publishes_nothing() {
    let (server, _source) = Server::with_pay(0..4).await;
    sleep(Duration::from_secs(60)).await;
    let before = server.handle.stats();
    sleep(Duration::from_secs(30 * 86_400)).await;
    assert_eq!(server.handle.stats(), before, "an idle month costs nothing");
    server.runtime.stop().await;
}
