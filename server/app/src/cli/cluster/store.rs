//! Requests to clusters with the operator's own rights: Secrets of the config cluster, and what a command needs in a remote one.
//!
//! The commands that edit call it. A refused request becomes an error that names the verb, the resource and the namespace. Nothing of a
//! Secret is part of an error.

use std::collections::BTreeMap;

use serde_json::Value;
use tributary_kube_client::{
    ApiFailure, ClusterIdentity, ConnectOptions, Connection, Env, ObjectName, PatchOperation, Resource,
    Right, Target, Writer,
};
use tributary_remote::{LABELS, NewSecret, RemoteServer, SECRETS, StoredSecret};

use super::account::NAMESPACES;
use super::failures::{At, failed, forbidden};
use super::merge::{Merged, merged};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;

/// Most attempts of an edit, as long as other writers are first.
const TRIES: usize = 5;

/// Edit of a Secret, based on its version.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Edit {
    /// It is patched; no step changes nothing.
    Patch(Vec<PatchOperation>),
    /// It is deleted.
    Delete,
}

/// Cluster as the operator reaches it.
pub(in crate::cli) struct Operator {
    at: At,
    connection: Connection,
    writer: Writer,
}

impl Operator {
    /// Opens a connection with the operator's kubeconfig, which may run credential plugins.
    pub(in crate::cli) async fn open(
        options: ConnectOptions,
        env: &Environment,
    ) -> Result<Self, CommandError> {
        install_crypto();
        let target = Self::target(&options, env).ok();
        let env = env.clone();
        let open = move || {
            let variable = |name: &str| env.get(name).map(ToOwned::to_owned);
            Connection::open(&options, Env::new(&variable))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.map_err(|error| CommandError::plain(error.to_string()))?;
        let connection = opened.map_err(|error| unusable(&error))?;
        let at = target.as_ref().map_or_else(|| At::server(connection.server()), At::of);
        Ok(Self { at, writer: Writer::new(connection.client()), connection })
    }
    /// Returns the API server of a context.
    pub(super) fn target(options: &ConnectOptions, env: &Environment) -> Result<Target, CommandError> {
        let variable = |name: &str| env.get(name).map(ToOwned::to_owned);
        Connection::target(options, Env::new(&variable)).map_err(|error| unusable(&error))
    }
    /// Returns the API server of a context as a kubeconfig names it; without an authority if the context has none.
    pub(super) fn server(options: &ConnectOptions, env: &Environment) -> Result<RemoteServer, CommandError> {
        let target = Self::target(options, env)?;
        let address = target.server.clone();
        Ok(super::add::server(target, None).unwrap_or_else(|_| RemoteServer::new(&address, b"", None)))
    }
    /// Returns context and server as an operator names them.
    pub(super) const fn at(&self) -> &At {
        &self.at
    }
    /// Describes a failed request.
    pub(in crate::cli) fn failed(&self, right: &Right, object: &str, why: ApiFailure) -> CommandError {
        failed(&self.at, right, object, why)
    }
    pub(in crate::cli) const fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Reads the UID of the cluster; `None` if the operator may not.
    pub(super) async fn identity(&self) -> Result<Option<String>, CommandError> {
        let identity = ClusterIdentity::new(self.connection.client());
        let read = identity.confirm().await;
        read.map_err(|why| self.failed(&right("list", &NAMESPACES, None), "namespace kube-system", why))?;
        Ok(identity.known().map(|uid| uid.to_string()))
    }
    /// Reads a Secret.
    pub(super) async fn secret(&self, name: &ObjectName) -> Result<StoredSecret, CommandError> {
        let read = self.writer.read(&SECRETS, "v1", name).await;
        let read =
            read.map_err(|why| self.failed(&of_secrets("get", name), &format!("Secret {name}"), why))?;
        StoredSecret::read(&read).map_err(|why| CommandError::plain(format!("Secret {name}: {why}")))
    }
    /// Returns the Secrets of a namespace that declare clusters.
    pub(super) async fn labelled(&self, namespace: &str) -> Result<Vec<StoredSecret>, CommandError> {
        let (mut found, place) = (BTreeMap::new(), ObjectName::new(namespace, ""));
        for label in LABELS {
            let read = self.writer.read_labelled(&SECRETS, "v1", namespace, (label, "true")).await;
            let what = format!("Secrets of namespace {namespace}");
            let read = read.map_err(|why| self.failed(&of_secrets("list", &place), &what, why))?;
            let all = StoredSecret::read_list(&read);
            let all = all.map_err(|why| CommandError::plain(format!("{what}: {why}")))?;
            found.extend(all.into_iter().map(|one| (one.name.name.clone(), one)));
        }
        Ok(found.into_values().collect())
    }
    /// Returns the Secrets of a namespace that declare the cluster.
    pub(super) async fn declaring(
        &self,
        namespace: &str,
        cluster: &str,
    ) -> Result<Vec<StoredSecret>, CommandError> {
        let all = self.labelled(namespace).await?;
        Ok(all.into_iter().filter(|one| one.declares(cluster)).collect())
    }
    /// Edits a Secret that was read. If another writer was first, such as a server that writes the UID of a new cluster, the Secret is
    /// read again and the edit is made of what it is then. Returns false if nothing is to be changed.
    pub(super) async fn edit(
        &self,
        stored: &StoredSecret,
        make: impl Fn(&StoredSecret) -> Result<Edit, CommandError>,
    ) -> Result<bool, CommandError> {
        let (name, mut now, mut tries) = (&stored.name, stored.clone(), 1);
        loop {
            let (verb, done) = match make(&now)? {
                Edit::Patch(steps) if steps.is_empty() => return Ok(false),
                Edit::Patch(steps) => {
                    ("patch", self.writer.patch(&SECRETS, "v1", name, None, &steps).await.map(drop))
                }
                Edit::Delete => ("delete", self.writer.delete(&SECRETS, "v1", name, &now.version).await),
            };
            match done {
                Ok(()) => return Ok(true),
                Err(ApiFailure::Conflict(_)) if tries < TRIES => {
                    (now, tries) = (self.secret(name).await?, tries + 1);
                }
                Err(why) => return Err(self.failed(&of_secrets(verb, name), &format!("Secret {name}"), why)),
            }
        }
    }
    /// Creates a Secret.
    pub(super) async fn create(&self, secret: &NewSecret) -> Result<(), CommandError> {
        let name = ObjectName::new(&secret.namespace, &secret.name);
        let created = self.writer.create(&SECRETS, "v1", Some(&secret.namespace), &secret.object()).await;
        created
            .map(drop)
            .map_err(|why| self.failed(&of_secrets("create", &name), &format!("Secret {name}"), why))
    }
    /// Fails if the operator lacks one of the rights.
    pub(super) async fn may(&self, rights: &[Right]) -> Result<(), CommandError> {
        for right in rights {
            let allowed = self.writer.review(right).await;
            let allowed = allowed.map_err(|why| self.failed(right, "access review", why))?;
            if !allowed {
                return Err(forbidden(&self.at, right, ""));
            }
        }
        Ok(())
    }
    /// Returns whether there is such an object; `None` if the operator may not see it.
    pub(super) async fn has(&self, kind: &Resource, name: &ObjectName) -> Result<Option<bool>, CommandError> {
        match self.writer.read(kind, version(kind), name).await {
            Ok(_) => Ok(Some(true)),
            Err(ApiFailure::NotFound(_)) => Ok(Some(false)),
            Err(ApiFailure::Forbidden(_)) => Ok(None),
            Err(why) => {
                let right = right("get", kind, name.namespace.as_deref());
                Err(self.failed(&right, &format!("{} {name}", kind.kind), why))
            }
        }
    }
    /// Reads an object; `None` if it is not there.
    pub(super) async fn find(
        &self,
        kind: &Resource,
        name: &ObjectName,
    ) -> Result<Option<Value>, CommandError> {
        match self.writer.get(kind, version(kind), name).await {
            Ok(found) => Ok(Some(found)),
            Err(ApiFailure::NotFound(_)) => Ok(None),
            Err(why) => Err(self.of("get", kind, name, why)),
        }
    }
    /// Replaces an object at the version that it carries.
    pub(super) async fn replace(
        &self,
        kind: &Resource,
        name: &ObjectName,
        next: &Value,
    ) -> Result<(), CommandError> {
        let replaced = self.writer.replace(kind, version(kind), name, next).await;
        replaced.map(drop).map_err(|why| self.of("update", kind, name, why))
    }
    /// Deletes an object if it still has the version that was read.
    pub(super) async fn discard(
        &self,
        kind: &Resource,
        name: &ObjectName,
        found: &Value,
    ) -> Result<(), CommandError> {
        let at = found.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        let deleted = self.writer.delete(kind, version(kind), name, at).await;
        deleted.map_err(|why| self.of("delete", kind, name, why))
    }
    fn of(&self, verb: &str, kind: &Resource, name: &ObjectName, why: ApiFailure) -> CommandError {
        self.failed(&right(verb, kind, name.namespace.as_deref()), &format!("{} {name}", kind.kind), why)
    }
    /// Returns what is to be done so that an object grants what this one grants. Writes nothing.
    pub(super) async fn step(&self, kind: &'static Resource, object: &Value) -> Result<Step, CommandError> {
        let step = Step::new(kind, object);
        let found = match self.writer.get(kind, version(kind), &step.name).await {
            Ok(found) => found,
            // who may not read it may be allowed to create it
            Err(ApiFailure::NotFound(_) | ApiFailure::Forbidden(_)) => return Ok(step),
            Err(why) => return Err(self.failed(&step.right(), &step.what(), why)),
        };
        match merged(&found, object) {
            Merged::Same => Ok(Step { act: Act::Keep, ..step }),
            Merged::Changed(next) => Ok(Step { act: Act::Complete, object: next, ..step }),
            Merged::Refused(why) => {
                let message = format!("{} exists and {why}", step.what());
                Err(CommandError::plain(message).next("choose another name with --account, or delete it"))
            }
        }
    }
    /// Carries out a step; it fails if the object was changed since.
    pub(super) async fn carry_out(&self, step: &Step) -> Result<(), CommandError> {
        let Step { kind, name, object, act } = step;
        let done = match act {
            Act::Keep => return Ok(()),
            Act::Create => self.writer.create(kind, version(kind), name.namespace.as_deref(), object).await,
            Act::Complete => self.writer.replace(kind, version(kind), name, object).await,
        };
        done.map(drop).map_err(|why| self.failed(&step.right(), &step.what(), why))
    }
}

/// Object that is to be in a cluster, and what is to be done for that.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    kind: &'static Resource,
    name: ObjectName,
    object: Value,
    act: Act,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Create,
    Complete,
    Keep,
}

impl Step {
    fn new(kind: &'static Resource, object: &Value) -> Self {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name").unwrap_or_default());
        let name = ObjectName { namespace: namespace.map(str::to_owned), name: name.to_owned() };
        Self { kind, name, object: object.clone(), act: Act::Create }
    }
    fn what(&self) -> String {
        format!("{} {}", self.kind.kind, self.name)
    }
    fn right(&self) -> Right {
        let verb = if self.act == Act::Create { "create" } else { "update" };
        right(verb, self.kind, self.name.namespace.as_deref())
    }
    /// Returns the right that it needs; `None` if nothing is to be done.
    pub(super) fn needs(&self) -> Option<Right> {
        (self.act != Act::Keep).then(|| self.right())
    }
    /// Describes what was done in a context.
    pub(super) fn done(&self, context: &str) -> String {
        let done = match self.act {
            Act::Create => "created",
            Act::Complete => "completed, and what it granted stays",
            Act::Keep => "exists",
        };
        format!("{} {} of context {context}: {done}", self.kind.kind, self.name.name)
    }
}

fn version(kind: &Resource) -> &'static str {
    kind.versions.first().copied().unwrap_or("v1")
}

/// Returns a right on a kind.
pub(in crate::cli) fn right(verb: &str, kind: &Resource, namespace: Option<&str>) -> Right {
    Right {
        verb: verb.to_owned(),
        group: kind.group.to_string(),
        resource: kind.plural.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: None,
    }
}

fn of_secrets(verb: &str, name: &ObjectName) -> Right {
    right(verb, &SECRETS, name.namespace.as_deref())
}

fn unusable(error: &dyn std::error::Error) -> CommandError {
    let exit = Exit::Usage;
    CommandError { exit, code: None, message: error.to_string(), next: String::new() }
        .next("name the kubeconfig with --kubeconfig and its context with --context")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_needs_the_right_of_what_it_does() {
        const ROLES: Resource = Resource {
            group: std::borrow::Cow::Borrowed("rbac.authorization.k8s.io"),
            versions: &["v1"],
            plural: "roles",
            kind: "Role",
            namespaced: true,
            optional: false,
        };
        let object =
            serde_json::json!({"kind": "Role", "metadata": {"namespace": "system", "name": "reader"}});
        let create = Step::new(&ROLES, &object);
        let verb = |act| Step { act, ..create.clone() }.needs().map(|right| right.verb);
        assert_eq!(verb(Act::Create).as_deref(), Some("create"));
        assert_eq!((verb(Act::Complete).as_deref(), verb(Act::Keep)), (Some("update"), None));
        assert_eq!(create.needs().unwrap().namespace.as_deref(), Some("system"));
        assert_eq!(create.done("away"), "Role reader of context away: created");
    }
}
