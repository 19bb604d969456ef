//! The lifecycle of a server as an operator sees it: what ends it before it serves, what never ends it, how it
//! drains, and that endpoints are removed only with proof. On the real binary.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use tributary_suites::ads::node;
use tributary_suites::{Entry, Files, Follower, ServerOptions, TestServer, Variant, nowhere};

mod documents;
mod end;
mod evidence;
mod reload;
mod settings;
mod start;

const SOON: Duration = Duration::from_secs(20);

/// Returns the service of most tests.
fn svc(hosts: &[SocketAddr]) -> Entry {
    Entry::http("svc.test", 80).all(hosts)
}

/// Returns a client that follows everything.
async fn follow(server: &TestServer) -> Result<Follower> {
    Follower::like_envoy(server.xds(), Variant::Delta, node("watcher")).await
}

/// Returns a configuration with file registries of these folders, and further lines.
fn config(folders: &[&Path], more: &str) -> String {
    let mut text = "apiVersion: tributary.dev/v1alpha1\nkind: Config\nregistries:\n".to_owned();
    for folder in folders {
        text.push_str(&format!("- kind: file\n  path: {}\n", folder.display()));
    }
    text + more
}
