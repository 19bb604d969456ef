//! What a removed cluster keeps of it: the service account with its roles, and a token that stays valid until it expires.
//!
//! `cluster remove` deletes them with the operator's rights after the receipt, or prints the commands that do. Only objects that `cluster
//! add` created are deleted, and a binding that grants something to another account stays. Deleting the account ends its tokens.

use jiff::Timestamp;
use serde_json::{Value, json};
use tributary_kube_client::{ObjectName, Resource, Right};
use tributary_remote::{StoredSecret, UsedAccount};

use super::super::Console;
use super::account::{MANAGED, kind_named};
use super::identity::{Reached, may_have, noted, same};
use super::store::{Operator, right};
use crate::args::ClusterRemoveArgs;
use crate::document::{ClusterItem, timestamp};
use crate::environment::Environment;
use crate::exit::CommandError;

/// Kinds of an account's objects, in the order of their deletion: first what ends its tokens, a role after its binding.
const KINDS: [&str; 5] = ["ServiceAccount", "ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role"];

/// Account of a cluster that is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leftover {
    cluster: String,
    used: UsedAccount,
}

/// What becomes of one object.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    Delete,
    /// The binding without the account.
    Unbind(Value),
    Keep(&'static str),
}

impl Leftover {
    /// Returns the account that a Secret's token is of; `None` if it has no such token.
    pub(super) fn of(stored: &StoredSecret, cluster: &str) -> Option<Self> {
        Some(Self { cluster: cluster.to_owned(), used: stored.account(cluster)? })
    }

    /// Returns the commands that delete it, and why.
    pub(super) fn commands(&self, context: Option<&str>) -> String {
        let account = &self.used.account;
        let (namespace, name) = (account.namespace.as_deref().unwrap_or_default(), &account.name);
        let context = context.map_or_else(|| format!("CONTEXT-OF-{}", self.cluster), str::to_owned);
        let until = self.until();
        format!(
            "# ServiceAccount {account} stays in the cluster, and its token is valid{until}. If no other server uses it, delete it:\n\
             kubectl --context {context} --namespace {namespace} delete --ignore-not-found serviceaccount/{name} rolebinding/{name} role/{name}\n\
             kubectl --context {context} delete --ignore-not-found clusterrolebinding/{name} clusterrole/{name}\n"
        )
    }

    fn until(&self) -> String {
        self.used.expires.map(|at: Timestamp| format!(" until {}", timestamp(at))).unwrap_or_default()
    }

    /// Opens the remote cluster; fails if it differs, if another Secret uses the account, or if the operator may not delete it.
    pub(super) async fn open(
        &self,
        (context, args): (&str, &ClusterRemoveArgs),
        (stored, shown): (&StoredSecret, Option<&ClusterItem>),
        (config, env): (&Operator, &Environment),
    ) -> Result<Operator, CommandError> {
        let namespace = stored.name.namespace.as_deref().unwrap_or_default();
        if let Some(other) = self.other_user(&config.labelled(namespace).await?) {
            let message = format!("ServiceAccount {} is used by {other} too", self.used.account);
            return Err(CommandError::no(message).next("leave --from-context out, and the account stays"));
        }
        let remote = Operator::open(args.edit.place.config.other(context), env).await?;
        let uid = remote.identity().await?;
        let server = Operator::server(&args.edit.place.config.other(context), env)?;
        let reached = Reached { context, uid: uid.as_deref(), server: &server };
        let known = may_have(stored, noted(stored, shown).map(str::to_owned));
        same(&reached, &self.cluster, &known, &self.used.server, &[])?;
        remote
            .may(&self.objects().map(|(kind, name)| needed("delete", kind, &name)).collect::<Vec<_>>())
            .await?;
        Ok(remote)
    }
    /// Returns the other cluster of these Secrets whose token is of the same account.
    fn other_user(&self, secrets: &[StoredSecret]) -> Option<String> {
        secrets.iter().find_map(|secret| {
            let other = secret.clusters().filter(|cluster| *cluster != self.cluster).find(|cluster| {
                let used = secret.account(cluster);
                used.is_some_and(|used| {
                    (used.account, used.server) == (self.used.account.clone(), self.used.server.clone())
                })
            })?;
            Some(format!("cluster `{other}` of Secret {}", secret.name))
        })
    }

    /// Deletes it, and reports each object. An object that is not there is skipped.
    pub(super) async fn delete(
        &self,
        remote: &Operator,
        context: &str,
        console: &mut Console<'_>,
    ) -> Result<(), CommandError> {
        let mut keeps_role = None;
        for (kind, name) in self.objects() {
            let Some(found) = remote.find(kind, &name).await? else { continue };
            let act = match keeps_role {
                Some(why) if kind.kind.ends_with("Role") => Act::Keep(why),
                _ => act(&found, &self.used.account),
            };
            let done = match &act {
                Act::Delete => {
                    remote.discard(kind, &name, &found).await?;
                    "deleted".to_owned()
                }
                Act::Unbind(next) => {
                    remote.replace(kind, &name, next).await?;
                    "without the account now; it grants rights to others".to_owned()
                }
                Act::Keep(why) => format!("stays: {why}"),
            };
            if kind.kind == "ServiceAccount" && act != Act::Delete {
                console.note(&format!("its token is valid{}", self.until()));
            }
            // a role goes with its binding only
            keeps_role = match &act {
                _ if !kind.kind.ends_with("Binding") => None,
                Act::Delete => None,
                Act::Unbind(_) => Some(SHARED),
                Act::Keep(_) => Some(BOUND),
            };
            console.note(&format!("{} {name} of context {context}: {done}", kind.kind));
        }
        Ok(())
    }
    fn objects(&self) -> impl Iterator<Item = (&'static Resource, ObjectName)> + '_ {
        KINDS.iter().filter_map(|kind| kind_named(kind)).map(|kind| {
            let namespace = self.used.account.namespace.as_deref().filter(|_| kind.namespaced);
            (kind, ObjectName::new(namespace.unwrap_or_default(), &self.used.account.name))
        })
    }
}

const SHARED: &str = "its binding grants it to others";
const BOUND: &str = "its binding stays";

fn needed(verb: &str, kind: &Resource, name: &ObjectName) -> Right {
    Right { name: Some(name.name.clone()), ..right(verb, kind, name.namespace.as_deref()) }
}

/// Returns what becomes of an object of this account.
fn act(found: &Value, account: &ObjectName) -> Act {
    let (label, value) = MANAGED;
    let labels = found.pointer("/metadata/labels");
    if labels.and_then(|labels| labels.get(label)) != Some(&json!(value)) {
        return Act::Keep("`tributary cluster add` did not create it");
    }
    let Some(subjects) = found.get("subjects").and_then(Value::as_array) else { return Act::Delete };
    let is_own = |one: &Value| {
        one["kind"] == "ServiceAccount"
            && one["name"] == account.name.as_str()
            && one["namespace"].as_str() == account.namespace.as_deref()
    };
    let others: Vec<Value> = subjects.iter().filter(|one| !is_own(one)).cloned().collect();
    if others.is_empty() {
        return Act::Delete;
    }
    let mut next = found.clone();
    next["subjects"] = Value::Array(others);
    Act::Unbind(next)
}

#[cfg(test)]
mod tests {
    use tributary_remote::RemoteServer;

    use super::*;

    fn mk() -> Leftover {
        let server = RemoteServer {
            server: "https://a.test".into(),
            authority_data: "Q0E=".into(),
            tls_server_name: None,
        };
        let account = ObjectName::new("system", "reader");
        let used = UsedAccount { account, server, expires: Some(Timestamp::UNIX_EPOCH) };
        Leftover { cluster: "east".into(), used }
    }

    #[test]
    fn printed_commands_name_every_object_and_the_end_of_the_token() {
        let text = mk().commands(None);
        assert!(
            text.starts_with(
                "# ServiceAccount system/reader stays in the cluster, and its token is valid until 1970-01-01"
            ),
            "{text}"
        );
        for part in [
            "--namespace system delete",
            "serviceaccount/reader",
            "role/reader",
            "clusterrolebinding/reader clusterrole/reader",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(
            text.contains("--context CONTEXT-OF-east")
                && mk().commands(Some("ctx")).contains("--context ctx")
        );
    }

    #[test]
    fn account_ends_first_and_a_role_after_its_binding() {
        let all: Vec<String> = mk().objects().map(|(kind, name)| format!("{} {name}", kind.kind)).collect();
        let expected = [
            "ServiceAccount system/reader",
            "ClusterRoleBinding reader",
            "ClusterRole reader",
            "RoleBinding system/reader",
            "Role system/reader",
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_others_use_or_created_stays() {
        let account = ObjectName::new("system", "reader");
        let labels = json!({"app.kubernetes.io/managed-by": "tributary"});
        let subject =
            |namespace: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": "reader"});
        let binding = |subjects: &[Value]| json!({"metadata": {"labels": labels}, "subjects": subjects});
        assert_eq!(act(&json!({"metadata": {"labels": labels}}), &account), Act::Delete);
        assert!(matches!(act(&json!({"metadata": {}}), &account), Act::Keep(_)));
        assert_eq!(act(&binding(&[subject("system")]), &account), Act::Delete);
        let both = binding(&[subject("system"), subject("other")]);
        assert_eq!(act(&both, &account), Act::Unbind(binding(&[subject("other")])));
    }
}
