//! Which cluster a context of the operator leads to, compared with those that are known, before a token is issued or an object written.
//!
//! `cluster add` and `cluster rotate` call it. A cluster is identified by the UID of its namespace `kube-system`; where that cannot be read,
//! by the address and the authorities of its API server. Every verdict is a function of its arguments, and no text holds a credential.

use tributary_remote::roster::{ACCEPT_UID, FOUND_UID};
use tributary_remote::{Allowed, RemoteServer, StoredSecret};

use crate::document::ClusterItem;
use crate::exit::CommandError;
use crate::ops::clusters::findings::host_and_port;

/// Cluster that a context leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reached<'a> {
    /// Name of the context.
    pub(super) context: &'a str,
    /// Its UID, if it can be read.
    pub(super) uid: Option<&'a str>,
    /// Its API server.
    pub(super) server: &'a RemoteServer,
}

impl Reached<'_> {
    fn is(&self, uid: Option<&str>) -> bool {
        self.uid.is_some() && self.uid == uid
    }
    /// Whether the API server has this address and these authorities.
    pub(super) fn is_at(&self, other: &RemoteServer) -> bool {
        let address = |server: &RemoteServer| server.server.trim_end_matches('/').to_owned();
        address(self.server) == address(other) && self.server.authority_data == other.authority_data
    }
    fn shown(&self) -> String {
        match self.uid {
            Some(uid) => format!("context {} leads to the cluster with the UID {uid}", self.context),
            None => format!("context {} leads to {}", self.context, host_and_port(&self.server.server)),
        }
    }
}

/// Refuses to add the config cluster.
pub(super) fn not_config(
    reached: &Reached<'_>,
    cluster: &str,
    uid: Option<&str>,
) -> Result<(), CommandError> {
    if !reached.is(uid) {
        return Ok(());
    }
    let message = format!("{}, which is the config cluster `{cluster}` itself", reached.shown());
    Err(CommandError::no(message).next(
        "name the context of a remote cluster with --from-context, or the config cluster's with --context",
    ))
}

/// Refuses to add a cluster under a second name.
pub(super) fn not_known(
    reached: &Reached<'_>,
    name: &str,
    secrets: &[StoredSecret],
    shown: &[ClusterItem],
    allowed: &Allowed,
) -> Result<(), CommandError> {
    let by_secret = secrets.iter().find_map(|secret| {
        let other = declared_as(reached, name, secret, allowed)?;
        Some((other, format!("Secret {}", secret.name)))
    });
    let is_other = |one: &&ClusterItem| one.name != name && reached.is(Some(&one.identity));
    let known = shown.iter().find(is_other);
    let by_server = || known.map(|one| (one.name.clone(), format!("the server, declared by {}", one.source)));
    let Some((other, place)) = by_secret.or_else(by_server) else { return Ok(()) };
    let message = format!("{}, which is known as `{other}` ({place})", reached.shown());
    let is_leaving = |one: &ClusterItem| one.conditions.iter().any(|of| of.kind == "NotDeclared");
    if known.is_some_and(|one| one.name == other && is_leaving(one)) {
        let next = format!(
            "nothing declares `{other}` any longer: `tributary cluster wait {other} --for removed` waits until it has left"
        );
        return Err(CommandError::no(message).next(next));
    }
    let next = format!(
        "use that name: `tributary cluster rotate {other}` for a new token, or `tributary cluster remove {other}` before it is added as `{name}`"
    );
    Err(CommandError::no(message).next(next))
}

/// Returns the other name under which a Secret declares the cluster.
fn declared_as(
    reached: &Reached<'_>,
    name: &str,
    secret: &StoredSecret,
    allowed: &Allowed,
) -> Option<String> {
    let all: Vec<&str> = secret.clusters().collect();
    let is_same = |cluster: &str| {
        // the annotation speaks for a Secret of one cluster
        let by_uid = all.len() == 1 && reached.is(secret.annotation(FOUND_UID));
        let server = secret.kubeconfig(cluster, allowed).ok().as_ref().and_then(RemoteServer::of);
        by_uid || server.is_some_and(|server| reached.is_at(&server))
    };
    all.iter().find(|cluster| **cluster != name && is_same(cluster)).map(|cluster| (*cluster).to_owned())
}

/// Refuses a context that leads to another cluster than the declared one. `known` are the UIDs that the cluster may have, `present` is
/// the API server of its kubeconfig, and `clusters` are those that a server shows.
pub(super) fn same(
    reached: &Reached<'_>,
    name: &str,
    known: &[String],
    present: &RemoteServer,
    clusters: &[ClusterItem],
) -> Result<(), CommandError> {
    let is_known = known.iter().any(|uid| reached.is(Some(uid)));
    match (reached.uid, known.first()) {
        _ if is_known => Ok(()),
        (Some(uid), Some(first)) => {
            let message = format!("{}, and cluster `{name}` has the UID {first}", reached.shown());
            let next = format!("name the context of cluster {name}");
            let next = match other_of(uid, name, clusters) {
                // it cannot take the place of this one
                Some(other) => format!("{next}; that one is cluster {other}"),
                None => format!(
                    "{next}; if the other cluster takes its place, run `tributary cluster accept {name} --uid {uid}` first"
                ),
            };
            Err(CommandError::no(message).next(next))
        }
        _ if reached.is_at(present) => Ok(()),
        _ => {
            let message = format!(
                "{}, and nothing shows that this is cluster `{name}`, whose API server is {}",
                reached.shown(),
                host_and_port(&present.server)
            );
            Err(CommandError::no(message)
                .next("let the context `list` namespaces, so that the UID of kube-system can be compared"))
        }
    }
}

/// Returns the other cluster that a server shows with this UID.
pub(super) fn other_of<'a>(uid: &str, name: &str, clusters: &'a [ClusterItem]) -> Option<&'a str> {
    let is_other = |one: &&ClusterItem| one.name != name && one.identity == uid;
    clusters.iter().find(is_other).map(|one| one.name.as_str())
}

/// Refuses a kubeconfig that leads to another cluster than the context: the new token would go there. `present` is the UID that the
/// credential in use reads; where it reads none, the server is the declared one as far as is known.
pub(super) fn leads_there(
    reached: &Reached<'_>,
    stored: &StoredSecret,
    present: Option<&str>,
) -> Result<(), CommandError> {
    let Some(present) = present.filter(|present| reached.uid.is_some_and(|uid| uid != *present)) else {
        return Ok(());
    };
    let message = format!(
        "the kubeconfig in Secret {} leads to the cluster with the UID {present}, and {}",
        stored.name,
        reached.shown()
    );
    Err(CommandError::no(message).next(format!(
        "name the address at which servers reach the cluster of context {} with --remote-server; it replaces the one in the Secret",
        reached.context
    )))
}

/// Returns the UID of a cluster that a server shows, or else the one that its Secret notes.
pub(super) fn noted<'a>(stored: &'a StoredSecret, shown: Option<&'a ClusterItem>) -> Option<&'a str> {
    let shown = shown.map(|one| one.identity.as_str()).filter(|uid| !uid.is_empty());
    shown.or_else(|| stored.annotation(FOUND_UID))
}

/// Returns the UIDs that a cluster may have: the known one, and the one that its Secret accepts.
pub(super) fn may_have(stored: &StoredSecret, known: Option<String>) -> Vec<String> {
    known.into_iter().chain(stored.annotation(ACCEPT_UID).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::exit::Exit;

    fn server(address: &str) -> RemoteServer {
        RemoteServer { server: address.into(), authority_data: "Q0E=".into(), tls_server_name: None }
    }

    fn secret(annotations: &Value, keys: &[&str]) -> StoredSecret {
        let data: serde_json::Map<String, Value> =
            keys.iter().map(|key| ((*key).to_owned(), json!("e30="))).collect();
        let metadata = json!({"namespace": "system", "name": "remote", "annotations": annotations});
        StoredSecret::read(json!({"metadata": metadata, "data": data}).to_string().as_bytes()).unwrap()
    }

    fn reached<'a>(uid: &'a str, server: &'a RemoteServer) -> Reached<'a> {
        Reached { context: "ctx", uid: Some(uid).filter(|uid| !uid.is_empty()), server }
    }

    #[test]
    fn config_cluster_is_not_added() {
        let at = server("https://a.test");
        let refused = not_config(&reached("u-1", &at), "home", Some("u-1")).unwrap_err();
        assert_eq!(refused.exit, Exit::No);
        assert!(refused.message.contains("context ctx") && refused.message.contains("`home`"), "{refused}");
        for (uid, config) in [("u-1", Some("u-2")), ("u-1", None), ("", None)] {
            assert!(not_config(&reached(uid, &at), "home", config).is_ok(), "{uid} {config:?}");
        }
    }

    #[test]
    fn cluster_has_one_name() {
        let (at, allowed) = (server("https://a.test"), Allowed::default());
        let pinned = json!({"tributary.dev/found-uid": "u-1"});
        let refused = |uid: &str, secrets: &[StoredSecret], shown: &[ClusterItem]| {
            not_known(&reached(uid, &at), "new", secrets, shown, &allowed).map_err(|refused| refused.message)
        };
        let text = refused("u-1", &[secret(&pinned, &["old"])], &[]).unwrap_err();
        assert!(text.ends_with("known as `old` (Secret system/remote)"), "{text}");
        assert_eq!(refused("u-2", &[secret(&pinned, &["old"])], &[]), Ok(()));
        assert_eq!(
            refused("u-1", &[secret(&pinned, &["old", "other"])], &[]),
            Ok(()),
            "which of both it is of is not known"
        );
        let item =
            |name: &str| ClusterItem { name: name.into(), identity: "u-1".into(), ..ClusterItem::default() };
        assert!(refused("u-1", &[], &[item("old")]).unwrap_err().contains("known as `old` (the server"));
        assert_eq!(refused("u-1", &[], &[item("new")]), Ok(()), "it comes back");
        assert_eq!(refused("", &[], &[ClusterItem { identity: String::new(), ..item("old") }]), Ok(()));
    }

    #[test]
    fn token_goes_to_no_other_cluster_that_the_secret_names() {
        let at = server("https://a.test");
        let stored = secret(&json!({}), &["east"]);
        let refused = leads_there(&reached("u-1", &at), &stored, Some("u-2")).unwrap_err();
        assert!(
            refused.message.contains("Secret system/remote leads to the cluster with the UID u-2"),
            "{refused}"
        );
        assert!(refused.next.contains("--remote-server"), "{refused}");
        for (uid, present) in [("u-1", Some("u-1")), ("u-1", None), ("", Some("u-2"))] {
            assert!(leads_there(&reached(uid, &at), &stored, present).is_ok(), "{uid} {present:?}");
        }
    }

    #[test]
    fn context_of_another_cluster_gives_no_token() {
        let (at, present) = (server("https://a.test/"), server("https://a.test"));
        let known = ["u-1".to_owned(), "u-3".to_owned()];
        let same = |reached: &Reached<'_>, name: &str, known: &[String], present: &RemoteServer| {
            same(reached, name, known, present, &[])
        };
        let refused = same(&reached("u-2", &at), "east", &known, &present).unwrap_err();
        assert!(refused.message.contains("u-2") && refused.message.contains("u-1"), "{refused}");
        assert!(refused.next.contains("tributary cluster accept east --uid u-2"), "{refused}");
        let west = ClusterItem { name: "west".into(), identity: "u-2".into(), ..ClusterItem::default() };
        let refused = super::same(&reached("u-2", &at), "east", &known, &present, &[west]).unwrap_err();
        assert_eq!(refused.next, "name the context of cluster east; that one is cluster west");
        assert!(same(&reached("u-3", &at), "east", &known, &present).is_ok(), "it is accepted");
        assert!(same(&reached("", &at), "east", &known, &present).is_ok(), "it is the same API server");
        assert!(same(&reached("u-2", &at), "east", &[], &present).is_ok());
        let other = server("https://b.test");
        assert!(same(&reached("u-2", &other), "east", &[], &present).is_err());
        assert!(same(&reached("", &other), "east", &known, &present).is_err());
    }
}
