//! Token from an auth method: requested, used, and replaced when it is refused and before it expires.

use std::path::Path;
use std::time::Duration;

use tributary_consul::ConsulConfig;
use tributary_consul::config::TokenSource;

use crate::fake::{Alteration, Fake, Seen, mk_entries};
use crate::stage::{addresses, eventually, mk_config, open, until_served};

const FOUR: [&str; 4] = ["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"];

async fn with_method(bearer: &str) -> Fake {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=4));
    // with a known token, requests without one are refused
    fake.know("operator", "other");
    fake.change(|state| state.logins.bearer = bearer.to_owned());
    fake
}

fn logging_in(urls: &[&str], file: &Path) -> ConsulConfig {
    let mut config = mk_config(urls);
    config.auth.token = TokenSource::Login { method: "kube".to_owned(), bearer: file.to_owned() };
    config
}

fn tokens(seen: &[Seen]) -> Vec<&str> {
    let reads = seen.iter().filter(|seen| !seen.path.ends_with("/login"));
    let mut tokens: Vec<&str> = reads.map(|seen| seen.token.as_deref().unwrap_or_default()).collect();
    tokens.dedup();
    tokens
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_login_token_is_replaced_by_a_new_login() {
    let fake = with_method("first").await;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jwt");
    std::fs::write(&file, "first\n").unwrap();
    let stage = open(logging_in(&[&fake.url], &file)).await;
    until_served(&stage, "web", &FOUR).await;
    assert_eq!(tokens(&fake.take_seen()), ["given-0"]);

    // the token and the service account's token are revoked, and a new one appears
    fake.change(|state| {
        state.tokens.remove("given-0");
        state.logins.bearer = "second".to_owned();
    });
    stage.until_stale().await;
    eventually("a login is refused", async || fake.state.lock().logins.refused > 0).await;
    assert_eq!(addresses(&stage, "web"), FOUR, "a refused login takes nothing away");
    std::fs::write(&file, "second\n").unwrap();
    fake.set("dc1", "web", mk_entries("web", 1, 2..=5));
    until_served(&stage, "web", &["10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5"]).await;
    stage.until_live().await;
    assert_eq!(tokens(&fake.take_seen()).last(), Some(&"given-1"));
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_is_repeated_before_its_token_expires() {
    let fake = with_method("first").await;
    fake.change(|state| state.logins.seconds = 5);
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jwt");
    std::fs::write(&file, "first").unwrap();
    let stage = open(logging_in(&[&fake.url], &file)).await;
    until_served(&stage, "web", &FOUR).await;
    eventually("another login", async || fake.state.lock().logins.given.len() > 1).await;
    eventually("the new token is used", async || tokens(&fake.take_seen()).contains(&"given-1")).await;
    assert!(fake.state.lock().tokens.contains_key("given-0"), "the first one was good to the end");
    assert_eq!(addresses(&stage, "web"), FOUR);
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn login_uses_the_next_address_if_the_first_is_down() {
    let fake = with_method("first").await;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jwt");
    std::fs::write(&file, "first").unwrap();
    let mut config = logging_in(&["http://127.0.0.1:1", &fake.url], &file);
    config.timing.connect = Duration::from_millis(500);
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    stage.drop_now().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_may_not_be_read_causes_no_login() {
    let fake = with_method("first").await;
    fake.add("dc1@east");
    fake.alter("/v1/peering/east", usize::MAX, Alteration::Status(403, "Permission denied"));
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jwt");
    std::fs::write(&file, "first").unwrap();
    let mut config = logging_in(&[&fake.url], &file);
    config.peers = vec!["east".to_owned()];
    config.timing.reread = Duration::from_millis(100);
    let stage = open(config).await;
    until_served(&stage, "web", &FOUR).await;
    fake.until_requested("/v1/peering/east", 8).await;
    assert_eq!(fake.state.lock().logins.given.len(), 1, "the token itself is good");
    stage.drop_now().await;
}
