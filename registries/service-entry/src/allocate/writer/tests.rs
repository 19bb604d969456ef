//! The writer under a paused clock, over a server with scripted answers.

use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::*;

/// A sent write, and its answer channel.
struct Sent {
    write: Write,
    answer: tokio::sync::oneshot::Sender<Outcome>,
}

struct Stage {
    writer: Writer,
    leads: watch::Sender<bool>,
    sent: mpsc::Receiver<Sent>,
    open: Vec<Sent>,
}

fn mk_stage(leading: bool) -> Stage {
    let (leads, led) = watch::channel(leading);
    let (out, sent) = mpsc::channel(1_000);
    let send: Sends<Write> = Box::new(move |write| {
        let (answer, answered) = tokio::sync::oneshot::channel();
        out.try_send(Sent { write: write.clone(), answer }).ok().unwrap();
        async move { answered.await.unwrap_or_else(|_| Err(ApiFailure::Torn("never answered".into()))) }
            .boxed()
    });
    let writer = Writer::new(Ranges::default(), led, send, SplitMix::seeded(1));
    Stage { writer, leads, sent, open: Vec::new() }
}

fn name(n: usize) -> ObjectName {
    ObjectName::new("shop", &format!("e{n:03}"))
}

impl Stage {
    fn claim(&mut self, n: usize, version: &str) {
        let hosts = vec![format!("h{n}.b").into()];
        let claim =
            AddressClaim { version: version.into(), writable: true, hosts, ..AddressClaim::default() };
        self.writer.claim(&name(n), Some(claim));
    }
    /// Runs the writer for `time`; returns the number of open writes.
    async fn pass(&mut self, time: Duration, listed: bool) -> usize {
        let until = Instant::now() + time;
        while tokio::time::timeout_at(until, self.writer.work(listed)).await.is_ok() {}
        while let Ok(sent) = self.sent.try_recv() {
            self.open.push(sent);
        }
        self.open.len()
    }
    async fn second(&mut self) -> usize {
        self.pass(Duration::from_secs(1), true).await
    }
    fn answer(&mut self, outcome: &Outcome) {
        for sent in self.open.drain(..) {
            sent.answer.send(outcome.clone()).ok().unwrap();
        }
    }
    fn news(&mut self) -> Vec<String> {
        let show = |(name, problem): (ObjectName, Option<Problem>)| match problem {
            Some(problem) => format!("{} {} {}", name.name, problem.code, problem.message),
            None => format!("{} good", name.name),
        };
        self.writer.problem_changes().into_iter().map(show).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_the_list_and_without_the_lease() {
    let mut stage = mk_stage(false);
    stage.claim(1, "1");
    assert_eq!(stage.second().await, 0);
    stage.leads.send_replace(true);
    assert_eq!(stage.pass(Duration::from_secs(9), false).await, 0);
    assert_eq!(stage.second().await, 1);
}

#[tokio::test(start_paused = true)]
async fn few_writes_are_in_flight_and_all_are_made() {
    let mut stage = mk_stage(true);
    (0..300).for_each(|n| stage.claim(n, "1"));
    let mut written = BTreeMap::new();
    for _ in 0..300 {
        assert!(stage.second().await <= AT_ONCE);
        for sent in &stage.open {
            assert_eq!(written.insert(sent.write.name.clone(), sent.write.addresses.clone()), None);
        }
        let made: Vec<ObjectName> = stage.open.iter().map(|sent| sent.write.name.clone()).collect();
        stage.answer(&Ok(()));
        for name in made {
            // The object shows the addresses, in a new version.
            let given =
                written[&name].iter().map(|(host, ip)| (host.clone(), ip.to_string().into())).collect();
            let hosts = vec![written[&name][0].0.clone()];
            let claim =
                AddressClaim { version: "2".into(), writable: true, hosts, given, ..AddressClaim::default() };
            stage.writer.claim(&name, Some(claim));
        }
    }
    assert_eq!(written.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn refused_write_is_reported_and_retried() {
    let mut stage = mk_stage(true);
    stage.claim(1, "1");
    assert_eq!(stage.second().await, 1);
    stage.answer(&Err(ApiFailure::Forbidden("no right to patch".into())));
    stage.pass(Duration::from_millis(10), true).await;
    assert_eq!(
        stage.news(),
        [
            "e001 TRB0323 writing its addresses failed: the right is missing (403): no right to patch; the write is retried"
        ]
    );
    assert!(stage.news().is_empty(), "a problem is reported once");
    assert_eq!(stage.pass(Duration::from_secs(2), true).await, 1, "the write is retried");
    stage.answer(&Ok(()));
    stage.second().await;
    assert_eq!(stage.news(), ["e001 good"]);
}

#[tokio::test(start_paused = true)]
async fn overtaken_write_is_a_problem_only_in_the_same_version() {
    let mut stage = mk_stage(true);
    stage.claim(1, "1");
    stage.second().await;
    stage.answer(&Err(ApiFailure::Conflict("the test failed".into())));
    stage.pass(Duration::from_millis(100), true).await;
    assert!(stage.news().is_empty());
    stage.claim(1, "2");
    assert_eq!(stage.pass(Duration::from_millis(100), true).await, 1, "at once, for the new version");
    stage.answer(&Err(ApiFailure::Conflict("the test failed".into())));
    assert_eq!(stage.pass(Duration::from_secs(3), true).await, 1);
    stage.answer(&Err(ApiFailure::Conflict("the test failed".into())));
    stage.pass(Duration::from_millis(10), true).await;
    assert_eq!(stage.news().len(), 1, "version 2 was overtaken twice");
}

#[tokio::test(start_paused = true)]
async fn lost_lease_stops_writes_until_it_returns() {
    let mut stage = mk_stage(true);
    (0..20).for_each(|n| stage.claim(n, "1"));
    assert_eq!(stage.second().await, AT_ONCE);
    stage.leads.send_replace(false);
    stage.pass(Duration::from_secs(60), true).await;
    stage.open.clear();
    assert_eq!(stage.second().await, 0);
    stage.leads.send_replace(true);
    assert_eq!(stage.second().await, AT_ONCE);
    assert_eq!(stage.open[0].write.addresses[0].1.to_string(), "240.240.0.21", "the search goes on");
}
