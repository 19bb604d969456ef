//! Open connections of the runs of clusters, for small requests beside their watches.
//!
//! Each [`ConnectingFactory`](crate::ConnectingFactory) that has the list adds the connection of a run when it opens. The list holds
//! none open: a connection is gone with its run. A request takes the connection of the run that is served, since only that one
//! is known to lead to the cluster whose facts clients have.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_model::{Generation, RegistryName};
use tributary_registry_api::Run;

use crate::connection::{Connection, WeakConnection};

/// List of open connections. Clones share it.
#[derive(Clone, Default)]
pub struct LiveConnections(Arc<Mutex<BTreeMap<RegistryName, Runs>>>);

/// Connections of the runs of one registry: the served one, and the one that is to replace it.
type Runs = Vec<(Generation, WeakConnection)>;

impl LiveConnections {
    /// Returns the connection of a run; `None` if it has none.
    #[must_use]
    pub fn of(&self, registry: &RegistryName, generation: Generation) -> Option<Connection> {
        let all = self.0.lock();
        let run = all.get(registry)?.iter().find(|(run, _)| *run == generation);
        run.and_then(|(_, connection)| connection.upgrade())
    }
    /// Adds the connection of a run, and drops those that are closed.
    pub(crate) fn add(&self, run: &Run, connection: &Connection) {
        let mut all = self.0.lock();
        all.retain(|_, runs| {
            runs.retain(|(_, connection)| connection.upgrade().is_some());
            !runs.is_empty()
        });
        let runs = all.entry(run.registry.clone()).or_default();
        runs.retain(|(generation, _)| *generation != run.generation);
        runs.push((run.generation, connection.downgrade()));
    }
}

impl std::fmt::Debug for LiveConnections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use tributary_scripted_api::ApiServer;

    use super::*;

    #[tokio::test]
    async fn connection_is_that_of_its_run_and_gone_with_it() {
        let (live, name) = (LiveConnections::default(), RegistryName::new("k").unwrap());
        let run = |generation| Run { registry: name.clone(), generation: Generation(generation) };
        let open = |server: &str| Connection::over(ApiServer::new(&[]).client(), "a test", server);
        let server = |generation| live.of(&name, Generation(generation)).map(|one| one.server().to_owned());
        let (first, second) = (open("https://one.test"), open("https://two.test"));
        live.add(&run(1), &first);
        live.add(&run(2), &second);
        assert_eq!(
            (server(1).as_deref(), server(2).as_deref()),
            (Some("https://one.test"), Some("https://two.test"))
        );
        assert_eq!(
            (server(3), live.of(&RegistryName::new("other").unwrap(), Generation(1)).is_some()),
            (None, false)
        );
        drop(first);
        assert_eq!(server(1), None, "the list holds none open");
        drop(second);
        let third = open("https://three.test");
        live.add(&Run { registry: RegistryName::new("z").unwrap(), generation: Generation(1) }, &third);
        assert_eq!(format!("{live:?}"), r#"["z"]"#, "nothing stays of closed ones");
    }
}
