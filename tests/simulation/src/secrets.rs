//! Secrets that declare remote clusters: what the operators wrote, and which claim must serve.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::time::Instant;
use tributary_scripted_api::ApiServer;

use crate::invariants::GRACE;
use crate::site::Site;
use crate::world::SYSTEM;

/// Prefix of the names of Secrets that declare a cluster again. They are younger and lose against the first one.
pub const SECOND: &str = "second-";
const FIRST: &str = "first-";

/// What the kubeconfig of a claim holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kubeconfig {
    /// Credential for a cluster of this name.
    For {
        /// Name of the cluster at the address.
        site: String,
        /// Credential.
        token: String,
    },
    /// Nothing that can be read.
    Garbage,
}

/// Claims of one cluster.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    /// First claim.
    pub first: Option<Kubeconfig>,
    /// Claim that steps in.
    pub second: Option<Kubeconfig>,
    /// When the last claim went, unless one is there now.
    pub gone: Option<Instant>,
    /// When a claim came back after the grace.
    pub returned: Option<Instant>,
    /// When the last claim had gone before one came back, and when that was.
    unseen: Option<(Instant, Instant)>,
}

impl Claims {
    /// Returns the claim that must serve: the first that can be read.
    #[must_use]
    pub fn best(&self) -> Option<&Kubeconfig> {
        let claims = [&self.first, &self.second].into_iter().flatten();
        claims.clone().find(|claim| **claim != Kubeconfig::Garbage)
    }
    /// Whether any claim is there, also one that is refused.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.first.is_some() || self.second.is_some()
    }
}

/// Claims of every remote cluster.
#[derive(Debug, Default)]
pub struct Roster {
    /// Claims by cluster.
    pub claims: BTreeMap<String, Claims>,
    serial: u32,
}

impl Roster {
    /// Returns a new credential.
    pub fn token(&mut self, cluster: &str) -> String {
        self.serial += 1;
        format!("{cluster}-{}", self.serial)
    }
    /// Writes or removes the first Secret of a cluster.
    pub fn set_first(&mut self, home: &Site, cluster: &str, claim: Option<Kubeconfig>) {
        write(&home.server, FIRST, cluster, claim.as_ref());
        let claims = self.claims.entry(cluster.to_owned()).or_default();
        claims.first = claim;
        claims.note(home.delivered(&["secrets"]));
    }
    /// Writes or removes the second Secret of a cluster.
    pub fn set_second(&mut self, home: &Site, cluster: &str, claim: Option<Kubeconfig>) {
        write(&home.server, SECOND, cluster, claim.as_ref());
        let claims = self.claims.entry(cluster.to_owned()).or_default();
        claims.second = claim;
        claims.note(home.delivered(&["secrets"]));
    }
}

impl Claims {
    /// Notes a change; `read` is the time up to which the process knows the Secrets. It cannot know of a claim that came and went since.
    fn note(&mut self, read: Option<Instant>) {
        let now = Instant::now();
        if !self.is_any() {
            let unseen = self.unseen.take().filter(|(_, back)| read.is_none_or(|read| read < *back));
            self.gone.get_or_insert_with(|| unseen.map_or(now, |(gone, _)| gone));
        } else if let Some(gone) = self.gone.take() {
            self.unseen = Some((gone, now));
            if gone.elapsed() >= GRACE {
                self.returned = Some(now);
            }
        }
    }
}

fn write(server: &ApiServer, prefix: &str, cluster: &str, claim: Option<&Kubeconfig>) {
    let name = format!("{prefix}{cluster}");
    let Some(claim) = claim else {
        server.delete("secrets", SYSTEM, &name);
        return;
    };
    let created = if prefix == FIRST { "2026-01-01T00:00:00Z" } else { "2026-02-01T00:00:00Z" };
    let metadata = json!({
        "name": name, "namespace": SYSTEM, "uid": name, "creationTimestamp": created,
        "labels": {"tributary.dev/cluster": "true"},
    });
    let data = json!({cluster: STANDARD.encode(text(claim))});
    server.put("secrets", json!({"metadata": metadata, "data": data}));
}

fn text(claim: &Kubeconfig) -> String {
    let Kubeconfig::For { site, token } = claim else { return "garbage: [".to_owned() };
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'https://{site}.test:6443', certificate-authority-data: {}}}}}]\n\
         users: [{{name: u, user: {{token: {token}}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
        authority()
    )
}

/// Returns a certificate in PEM, then base64. Nothing is checked against it.
fn authority() -> &'static str {
    static AUTHORITY: OnceLock<String> = OnceLock::new();
    AUTHORITY.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["simulated.test".to_owned()]).expect("a certificate");
        STANDARD.encode(made.cert.pem())
    })
}
