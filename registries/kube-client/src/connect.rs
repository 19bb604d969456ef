//! Registries whose runs open their own connection to a cluster.
//!
//! The application makes one [`Connector`] per configured cluster and one [`ConnectingFactory`] per registry of it. A
//! missing kubeconfig or context is the status of a run that retries, not an error of the start. A run ends when its
//! credential is refused and another one is available (see `reconnect`).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tributary_model::{RegistryName, RegistrySpec, RegistryUpdate, Scopes, SourceState, SourceStatus};
use tributary_registry_api::{
    Backoff, BackoffPolicy, CancellationToken, Reason, Registry, RegistryError, RegistryFactory, RegistryIo,
    SplitMix,
};

use crate::connection::{ConnectError, ConnectOptions, Connection, Env, Login, Presented, WeakConnection};
use crate::live::LiveConnections;
use crate::reconnect;

/// Opens a connection of another origin than the operator's kubeconfig.
type Open = Arc<dyn Fn() -> Result<Connection, ConnectError> + Send + Sync>;

/// Looks up environment variables.
type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Opens connections to one configured cluster. Clones share the last logged credential.
#[derive(Clone)]
pub struct Connector {
    name: RegistryName,
    options: ConnectOptions,
    variable: Variables,
    /// Opens the connections in place of `options`.
    open: Option<Open>,
    /// Credential or failure that was logged last.
    logged: Arc<Mutex<Option<String>>>,
}

impl Connector {
    /// Creates a connector that logs as registry `name`; `variable` looks up environment variables.
    pub fn new(
        name: RegistryName,
        options: ConnectOptions,
        variable: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, options, variable: Arc::new(variable), open: None, logged: Arc::default() }
    }
    /// Creates a connector that logs as registry `name` and opens its connection with this function, which reads no file and runs
    /// no program. The credential stays the same for its life, so that all runs share one connection while one of them runs.
    pub fn opening(
        name: RegistryName,
        open: impl Fn() -> Result<Connection, ConnectError> + Send + Sync + 'static,
    ) -> Self {
        let shared = Mutex::new(WeakConnection::default());
        let open = move || {
            let mut shared = shared.lock();
            if let Some(connection) = shared.upgrade() {
                return Ok(connection);
            }
            let connection = open()?;
            *shared = connection.downgrade();
            Ok(connection)
        };
        Self { open: Some(Arc::new(open)), ..Self::new(name, ConnectOptions::default(), |_| None) }
    }
    /// Returns the kubeconfig options.
    #[must_use]
    pub const fn options(&self) -> &ConnectOptions {
        &self.options
    }
    /// Opens a connection. May run a credential plugin, so call it on a blocking thread, or [`Connector::open_async`].
    pub fn open(&self) -> Result<Connection, ConnectError> {
        match &self.open {
            Some(open) => open(),
            None => Connection::open(&self.options, Env::new(&*self.variable)),
        }
    }
    /// Waits until the server refuses the credential or a right of a connection, and another credential is available.
    /// Never, for a connector that opens in another way: it has no other credential.
    pub async fn outdated(&self, connection: &Connection) {
        if self.open.is_some() {
            return std::future::pending().await;
        }
        let connector = self.clone();
        reconnect::outdated(connection, move || connector.login_now()).await;
    }
    /// Returns what [`Connector::open`] would log in with now, or `None` if it cannot be read. Reads files.
    pub(crate) fn login_now(&self) -> Option<Login> {
        if self.open.is_some() {
            return None;
        }
        Connection::login_now(&self.options, Env::new(&*self.variable))
    }

    /// Returns what [`Connector::open`] would present now, as far as files state it; nothing for a connector that opens in another way.
    #[must_use]
    pub fn presented_now(&self) -> Presented {
        if self.open.is_some() {
            return Presented::default();
        }
        Connection::presented_now(&self.options, Env::new(&*self.variable))
    }

    /// Opens a connection, on a blocking thread if that may read files or run a program.
    pub async fn open_async(&self) -> Result<Connection, Reason> {
        if let Some(open) = &self.open {
            return open().map_err(Reason::new);
        }
        let connector = self.clone();
        let opened = tokio::task::spawn_blocking(move || connector.open()).await;
        opened.map_err(Reason::new)?.map_err(Reason::new)
    }
    /// Logs the used credential, once per change.
    fn log_credential(&self, connection: &Connection) {
        if self.is_new(format!("{} {}", connection.server(), connection.described())) {
            tracing::info!(
                registry = %self.name,
                server = connection.server(),
                credential = connection.described(),
                "requests to a cluster use this credential; `tributary get registries` shows what it may read"
            );
        }
    }
    /// Logs why no connection opens, once per reason.
    fn log_failure(&self, why: &Reason) {
        if self.is_new(why.to_string()) {
            tracing::warn!(registry = %self.name, reason = %why, "cannot connect to a cluster; retrying");
        }
    }
    /// Whether this differs from what was logged last.
    fn is_new(&self, now: String) -> bool {
        self.logged.lock().replace(now.clone()) != Some(now)
    }
}

/// Builds a run over an opened connection.
pub type BuildRun = Box<dyn Fn(Connection) -> Result<Box<dyn Registry>, RegistryError> + Send + Sync>;

/// Factory of runs that open their connection first.
pub struct ConnectingFactory(Arc<Plan>);

struct Plan {
    spec: RegistrySpec,
    connector: Connector,
    seed: u64,
    build: BuildRun,
    live: LiveConnections,
}

impl ConnectingFactory {
    /// Creates the factory of one registry. While there is no connection, its runs report the status of the scopes that
    /// `spec` configures. `seed` spreads the pauses between attempts.
    #[must_use]
    pub fn new(spec: RegistrySpec, connector: Connector, seed: u64, build: BuildRun) -> Self {
        Self::listed((spec, connector, seed, build), LiveConnections::default())
    }
    /// Does the same, and adds the connections of its runs to a list.
    #[must_use]
    pub fn listed(
        (spec, connector, seed, build): (RegistrySpec, Connector, u64, BuildRun),
        live: LiveConnections,
    ) -> Self {
        Self(Arc::new(Plan { spec, connector, seed, build, live }))
    }
}

impl RegistryFactory for ConnectingFactory {
    fn spec(&self) -> RegistrySpec {
        self.0.spec.clone()
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Ok(Box::new(Connecting(Arc::clone(&self.0))))
    }
}

/// Run that opens its connection first.
struct Connecting(Arc<Plan>);

#[async_trait]
impl Registry for Connecting {
    async fn run(self: Box<Self>, io: RegistryIo, stop: CancellationToken) -> Result<(), RegistryError> {
        let plan = &*self.0;
        let connection = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            connection = plan.connect(&io) => connection,
        };
        plan.live.add(io.out.run(), &connection);
        let run = (plan.build)(connection.clone())?;
        let outdated = plan.connector.outdated(&connection);
        reconnect::run_until_outdated(run, io, stop, outdated).await
    }
}

impl Plan {
    /// Retries until a connection opens; the error is the registry's status.
    async fn connect(&self, io: &RegistryIo) -> Connection {
        let mut backoff = Backoff::new(BackoffPolicy::default());
        let mut random = SplitMix::seeded(self.seed);
        loop {
            let why = match self.connector.open_async().await {
                Ok(connection) => {
                    self.report(io, &SourceStatus::new(SourceState::Syncing, ""));
                    self.connector.log_credential(&connection);
                    return connection;
                }
                Err(why) => why,
            };
            self.connector.log_failure(&why);
            let pause = backoff.next(&mut random);
            let status = SourceStatus::new(SourceState::Unreachable, why.shared());
            self.report(io, &SourceStatus { retry_in: Some(pause), ..status });
            tokio::time::sleep(pause).await;
        }
    }
    fn report(&self, io: &RegistryIo, status: &SourceStatus) {
        let Scopes::Configured(scopes) = &self.spec.scopes else { return };
        io.out.send_all(scopes.iter().map(|scope| RegistryUpdate::Status(scope.clone(), status.clone())));
    }
}
