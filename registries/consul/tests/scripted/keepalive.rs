//! Silent connections are detected by keepalive, long before a long poll times out.

use std::time::Duration;

use crate::fake::{Fake, mk_entries};
use crate::secure::Secure;
use crate::serve;
use crate::stage::{eventually, for_each, mk_config, open, set_poll_budget, until_served};

const FOUR: [&str; 4] = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];

#[tokio::test(flavor = "multi_thread")]
async fn silent_connection_is_replaced_without_loss() {
    for_each([1, 0], |polls| async move {
        let fake = Fake::start(&["dc1"]).await;
        fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
        let front = Secure::start(serve::router(fake.state.clone(), fake.moved.clone())).await;
        let mut config = mk_config(&[&front.url]);
        set_poll_budget(&mut config, polls, 1);
        config.tls.ca = Some(front.home.path().join("ca.pem"));
        let timing = &mut config.timing;
        (timing.wait, timing.full_pass) = (Duration::from_secs(300), Duration::from_secs(300));
        (timing.keepalive, timing.keepalive_answer) =
            (Duration::from_millis(300), Duration::from_millis(1_500));
        let stage = open(config).await;
        until_served(&stage, "web", &FOUR).await;
        // the names, and either the service or the checks
        eventually("it waits", async || fake.state.lock().polls >= 2).await;
        let before = front.made();
        front.fall_silent();
        fake.set("dc1", "web", mk_entries("web", 1, 2..=5));
        until_served(&stage, "web", &["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5"]).await;
        assert!(front.made() > before, "{polls} polls: over a connection that was silent");
        drop(front);
        stage.drop_now().await;
    })
    .await;
}

/// The kernel reports the timer of each connection: 2 is the keepalive's, if no data is under way.
#[tokio::test(flavor = "multi_thread")]
async fn kernel_keepalive_runs_on_each_connection() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    let mut config = mk_config(&[&fake.url]);
    config.timing.keepalive = Duration::from_secs(700);
    config.timing.wait = Duration::from_secs(300);
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    let port: u16 = fake.url.rsplit_once(':').unwrap().1.parse().unwrap();
    eventually("a keepalive of ours runs on each", async || {
        let timers = timers(port);
        !timers.is_empty() && timers.iter().all(|(kind, left)| *kind == 2 && (600..=700).contains(left))
    })
    .await;
    stage.drop_now().await;
}

/// Returns the timer kind and the seconds left of each established connection to this port.
fn timers(port: u16) -> Vec<(u64, u64)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let to = format!("0100007F:{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&to.as_str()) && row.get(3) == Some(&"01"))
        .map(|row| {
            let (kind, left) = row[5].split_once(':').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            // counted in hundredths of a second, whatever the kernel's own tick
            (number(kind), number(left) / 100)
        })
        .collect()
}
