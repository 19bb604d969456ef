//! Requests to clusters with the operator's own rights: Secrets of the config cluster, and what a command needs in a remote one.
//!
//! The commands that edit call it. A refused request becomes an error that names the verb, the resource and the namespace. Nothing of a
//! Secret is part of an error.

use std::collections::BTreeMap;

use serde_json::Value;
use tributary_kube_client::{
    ApiFailure, ConnectOptions, Connection, Env, ObjectName, PatchOperation, Resource, Right, Target, Writer,
};
use tributary_model::Code;
use tributary_remote::{LABELS, NewSecret, SECRETS, StoredSecret};

use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;

/// Cluster as the operator reaches it.
pub(super) struct Operator {
    writer: Writer,
}

impl Operator {
    /// Opens a connection with the operator's kubeconfig, which may run credential plugins.
    pub(super) async fn open(options: ConnectOptions, env: &Environment) -> Result<Self, CommandError> {
        install_crypto();
        let env = env.clone();
        let open = move || {
            let variable = |name: &str| env.get(name).map(ToOwned::to_owned);
            Connection::open(&options, Env::new(&variable))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let opened = opened.map_err(|error| CommandError::plain(error.to_string()))?;
        let connection = opened.map_err(|error| unusable(&error))?;
        Ok(Self { writer: Writer::new(connection.client()) })
    }
    /// Returns the API server of a context.
    pub(super) fn target(options: &ConnectOptions, env: &Environment) -> Result<Target, CommandError> {
        let variable = |name: &str| env.get(name).map(ToOwned::to_owned);
        Connection::target(options, Env::new(&variable)).map_err(|error| unusable(&error))
    }
    pub(super) const fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Reads a Secret.
    pub(super) async fn secret(&self, name: &ObjectName) -> Result<StoredSecret, CommandError> {
        let read = self.writer.read(&SECRETS, "v1", name).await;
        let read = read.map_err(|why| failed(&of_secrets("get", name), &format!("Secret {name}"), why))?;
        StoredSecret::read(&read).map_err(|why| CommandError::plain(format!("Secret {name}: {why}")))
    }
    /// Returns the Secrets of a namespace that declare the cluster.
    pub(super) async fn declaring(
        &self,
        namespace: &str,
        cluster: &str,
    ) -> Result<Vec<StoredSecret>, CommandError> {
        let (mut found, place) = (BTreeMap::new(), ObjectName::new(namespace, ""));
        for label in LABELS {
            let read = self.writer.read_labelled(&SECRETS, "v1", namespace, (label, "true")).await;
            let what = format!("Secrets of namespace {namespace}");
            let read = read.map_err(|why| failed(&of_secrets("list", &place), &what, why))?;
            let all = StoredSecret::read_list(&read);
            let all = all.map_err(|why| CommandError::plain(format!("{what}: {why}")))?;
            found.extend(all.into_iter().map(|one| (one.name.name.clone(), one)));
        }
        Ok(found.into_values().filter(|one| one.declares(cluster)).collect())
    }
    /// Patches a Secret.
    pub(super) async fn patch(
        &self,
        name: &ObjectName,
        steps: &[PatchOperation],
    ) -> Result<(), CommandError> {
        let patched = self.writer.patch(&SECRETS, "v1", name, None, steps).await;
        patched.map(drop).map_err(|why| failed(&of_secrets("patch", name), &format!("Secret {name}"), why))
    }
    /// Deletes a Secret if it still has the version that was read.
    pub(super) async fn delete(&self, secret: &StoredSecret) -> Result<(), CommandError> {
        let deleted = self.writer.delete(&SECRETS, "v1", &secret.name, &secret.version).await;
        let what = format!("Secret {}", secret.name);
        deleted.map_err(|why| failed(&of_secrets("delete", &secret.name), &what, why))
    }
    /// Creates a Secret.
    pub(super) async fn create(&self, secret: &NewSecret) -> Result<(), CommandError> {
        let name = ObjectName::new(&secret.namespace, &secret.name);
        let created = self.writer.create(&SECRETS, "v1", Some(&secret.namespace), &secret.object()).await;
        created.map(drop).map_err(|why| failed(&of_secrets("create", &name), &format!("Secret {name}"), why))
    }
    /// Fails if the operator lacks one of the rights.
    pub(super) async fn may(&self, rights: &[Right]) -> Result<(), CommandError> {
        for right in rights {
            let allowed = self.writer.review(right).await;
            let allowed = allowed.map_err(|why| failed(right, "access review", why))?;
            if !allowed {
                return Err(forbidden(right, ""));
            }
        }
        Ok(())
    }
    /// Creates an object, or completes one of that name: the rules of a role are replaced, all else stays.
    pub(super) async fn ensure(&self, kind: &Resource, object: &Value) -> Result<&'static str, CommandError> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = ObjectName::new(text("/metadata/namespace"), text("/metadata/name"));
        let what = format!("{} {name}", kind.kind);
        let right = |verb: &str| right(verb, kind, name.namespace.as_deref());
        match self.writer.create(kind, version(kind), name.namespace.as_deref(), object).await {
            Ok(_) => return Ok("created"),
            Err(ApiFailure::Conflict(_)) => {}
            Err(why) => return Err(failed(&right("create"), &what, why)),
        }
        let Some(rules) = object.get("rules") else { return Ok("exists") };
        let found = self.writer.get(kind, version(kind), &name).await;
        let mut found = found.map_err(|why| failed(&right("get"), &what, why))?;
        if found.get("rules") == Some(rules) {
            return Ok("exists");
        }
        found["rules"] = rules.clone();
        let replaced = self.writer.replace(kind, version(kind), &name, &found).await;
        replaced.map(|_| "updated").map_err(|why| failed(&right("update"), &what, why))
    }
}

fn version(kind: &Resource) -> &'static str {
    kind.versions.first().copied().unwrap_or("v1")
}

/// Returns a right on a kind.
pub(super) fn right(verb: &str, kind: &Resource, namespace: Option<&str>) -> Right {
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

/// Describes a failed request.
pub(super) fn failed(right: &Right, object: &str, why: ApiFailure) -> CommandError {
    match why {
        ApiFailure::Forbidden(text) => forbidden(right, &text),
        ApiFailure::Unauthorized(text) => CommandError {
            exit: Exit::NotAuthorised,
            code: None,
            message: format!("the cluster refuses the credential of the operator's kubeconfig: {text}"),
            next: "log in again, or use another --context".to_owned(),
        },
        ApiFailure::NotFound(text) => {
            CommandError::new(Exit::NotFound, Code::NOT_FOUND, format!("{object} not found: {text}"))
                .next("check --context: it names the config cluster")
        }
        ApiFailure::Conflict(_) if right.verb == "create" => {
            CommandError::plain(format!("{object} exists already")).next("delete it, or edit it")
        }
        ApiFailure::Conflict(text) => {
            CommandError::plain(format!("{object} was changed by another writer: {text}"))
                .next("run the command again")
        }
        other => CommandError::plain(format!("{object}: {other}")),
    }
}

fn forbidden(right: &Right, text: &str) -> CommandError {
    let Right { verb, resource, .. } = right;
    let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
    let place = match &right.namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "the whole cluster".to_owned(),
    };
    let text = if text.is_empty() { String::new() } else { format!(": {text}") };
    let message = format!("the operator's credential may not {verb} {resource}{group} in {place}{text}");
    let next = format!("grant `{verb}` on `{resource}` in {place}, or use another context");
    CommandError { exit: Exit::NotAuthorised, code: None, message, next }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_request_names_verb_resource_and_namespace() {
        let secret = of_secrets("patch", &ObjectName::new("system", "remote"));
        let failure = failed(&secret, "Secret system/remote", ApiFailure::Forbidden("no".to_owned()));
        assert_eq!(failure.exit, Exit::NotAuthorised);
        let text = failure.to_string();
        assert!(
            text.starts_with("the operator's credential may not patch secrets in namespace system: no"),
            "{text}"
        );
        assert!(
            text.ends_with("next: grant `patch` on `secrets` in namespace system, or use another context"),
            "{text}"
        );
    }

    #[test]
    fn other_failures_have_their_exit_codes() {
        let right = of_secrets("get", &ObjectName::new("system", "remote"));
        let exit = |why| failed(&right, "Secret system/remote", why).exit;
        let text = || "x".to_owned();
        assert_eq!(exit(ApiFailure::Unauthorized(text())), Exit::NotAuthorised);
        assert_eq!(exit(ApiFailure::NotFound(text())), Exit::NotFound);
        assert_eq!(exit(ApiFailure::Conflict(text())), Exit::Failed);
        assert_eq!(exit(ApiFailure::Unreachable(text())), Exit::Failed);
        let create = of_secrets("create", &ObjectName::new("system", "remote"));
        let exists = failed(&create, "Secret system/remote", ApiFailure::Conflict(text()));
        assert_eq!(exists.message, "Secret system/remote exists already");
    }
}
