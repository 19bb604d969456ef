//! The scripted Consul on a unix socket, as an agent with `addresses { http = "unix://..." }` listens.

use tokio::net::UnixListener;
use tokio_util::task::AbortOnDropHandle;

use crate::fake::{Fake, mk_entries};
use crate::serve;
use crate::stage::{mk_config, open, reason, until_served};

#[tokio::test(flavor = "multi_thread")]
async fn services_are_followed_over_a_unix_socket() {
    let fake = Fake::start(&["dc1"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 1..=2));
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("consul.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let app = serve::router(fake.state.clone(), fake.moved.clone());
    let server = AbortOnDropHandle::new(tokio::spawn(async move { axum::serve(listener, app).await }));
    let stage = open(mk_config(&[&format!("unix://{}", path.display())])).await;
    until_served(&stage, "web", &["10.1.0.1", "10.1.0.2"]).await;
    fake.set("dc1", "web", mk_entries("web", 1, 2..=3));
    until_served(&stage, "web", &["10.1.0.2", "10.1.0.3"]).await;
    drop(server);
    std::fs::remove_file(&path).unwrap();
    stage.until_stale().await;
    let why = reason(&stage, "dc1").await;
    assert!(why.contains(&format!("unix://{}", path.display())), "{why}");
    stage.drop_now().await;
}
