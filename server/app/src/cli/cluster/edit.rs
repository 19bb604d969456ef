//! `cluster pause`, `resume` and `accept`: annotations of the Secret that declares a cluster.
//!
//! The Secret is the one that the server uses, or the one that the flags name; it is read and patched with the operator's rights. The
//! admin surface is only read: replicas agree because they read the same Secret. For a cluster of the configuration file or of the
//! directory the edit is printed.

use tributary_kube_client::{ObjectName, PatchOperation};
use tributary_model::{Code, Fingerprint};
use tributary_remote::roster::{ACCEPT_RIGHTS, ACCEPT_UID};
use tributary_remote::{EditRefused, StoredSecret};

use super::super::{Console, Server};
use super::effect::has_effect;
use super::identity::other_of;
use super::printed;
use super::store::{Edit, Operator};
use super::wait::{Seen, see, see_all};
use crate::args::{ClusterAcceptArgs, ClusterEditArgs, SecretArgs};
use crate::document::ClusterItem;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// What declares a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// A Secret.
    Secret(ObjectName),
    /// A file of the directory, by its path.
    File(String),
    /// The configuration file, with these registries.
    Configuration(Vec<String>),
}

/// Change of one annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    name: &'static str,
    value: Option<String>,
    /// What the cluster is after it.
    done: &'static str,
    /// What it is if nothing is to be changed.
    same: &'static str,
}

/// Runs `cluster pause`.
pub(super) async fn pause(
    args: &ClusterEditArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let change =
        Change { name: "paused", value: Some("true".to_owned()), done: "paused", same: "is paused already" };
    match locate(&args.place, &args.name, env).await? {
        Place::Secret(secret) => set_pause(args, &secret, change, env, console).await,
        Place::File(path) => printed::policy((&args.name, &path), "paused", Some("true"), console),
        Place::Configuration(_) => unpausable(&args.name),
    }
}

/// Runs `cluster resume`.
pub(super) async fn resume(
    args: &ClusterEditArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let change = Change { name: "paused", value: None, done: "resumed", same: "is not paused" };
    match locate(&args.place, &args.name, env).await? {
        Place::Secret(secret) => set_pause(args, &secret, change, env, console).await,
        Place::File(path) => printed::policy((&args.name, &path), "paused", None, console),
        Place::Configuration(_) => unpausable(&args.name),
    }
}

/// Sets or removes the annotation if a server acts on it.
async fn set_pause(
    args: &ClusterEditArgs,
    secret: &ObjectName,
    change: Change,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let stored = Operator::open(args.place.config.options(), env).await?.secret(secret).await?;
    let seen = match Server::find(&args.place.server, env) {
        Ok(server) => see(&server, &args.name).await,
        Err(failure) => Err(failure),
    };
    let shown = seen.as_ref().ok().and_then(|seen| seen.cluster.as_ref());
    has_effect(&args.name, &stored, shown)?;
    let exit = annotate(args, secret, change, env, console).await?;
    match &seen {
        Ok(Seen { cluster: None, .. }) => console.note("the server does not know the cluster yet"),
        // where a Secret was named, no server is needed
        Err(failure) => {
            console.note(&format!("whether a server uses the Secret is not known: {}", failure.message))
        }
        Ok(_) => {}
    }
    Ok(exit)
}

fn unpausable(name: &str) -> Result<Exit, CommandError> {
    let message = format!("cluster `{name}` is one of the configuration file, which cannot pause a cluster");
    let next = "a remote cluster that a Secret declares can be paused: remove its entry of `registries` and run `tributary cluster add`; the config cluster cannot";
    Err(CommandError { exit: Exit::No, code: None, message, next: next.to_owned() })
}

/// Runs `cluster accept`.
pub(super) async fn accept(
    args: &ClusterAcceptArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let name = &args.edit.name;
    let place = match locate(&args.edit.place, name, env).await? {
        place @ (Place::Secret(_) | Place::File(_)) => place,
        Place::Configuration(registries) => {
            console
                .note(&format!("cluster `{name}` is one of the configuration file; accept its registries:"));
            let lines = registries.iter().map(|one| format!("tributary state accept {one}\n"));
            console.data(&lines.collect::<String>())?;
            return Ok(Exit::No);
        }
    };
    if args.rights {
        return accept_rights(&args.edit, place, env, console).await;
    }
    let uid = match &args.uid {
        Some(uid) => uid.clone(),
        None => found(&args.edit.place, name, env).await?,
    };
    Fingerprint::new(&uid).ok().filter(|_| is_uuid(&uid)).ok_or_else(|| {
        CommandError::new(Exit::Usage, Code::FLAG_INVALID, "the value of --uid is not a UID of Kubernetes")
            .next("print it with `kubectl get namespace kube-system --output jsonpath={.metadata.uid}`")
    })?;
    let clusters = match Server::find(&args.edit.place.server, env) {
        Ok(server) => see_all(&server).await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    is_no_other(name, &uid, &clusters)?;
    let secret = match place {
        Place::File(path) => return printed::policy((name, &path), "acceptUid", Some(&uid), console),
        Place::Secret(secret) => secret,
        Place::Configuration(_) => return Ok(Exit::No),
    };
    console.note(&format!("accepted identity: {uid}"));
    if let Some(answers) = answering(name, &uid, &clusters) {
        console.note(&format!("the cluster that answers has the UID {answers}, and is not used"));
    }
    let change = Change { name: ACCEPT_UID, value: Some(uid), done: "accepted", same: "is accepted already" };
    annotate(&args.edit, &secret, change, env, console).await
}

/// Refuses the UID of a cluster that is known under another name: it would be served twice, and this one not at all.
fn is_no_other(name: &str, uid: &str, clusters: &[ClusterItem]) -> Result<(), CommandError> {
    let Some(other) = other_of(uid, name, clusters) else { return Ok(()) };
    let message = format!("the cluster with the UID {uid} is known as `{other}`");
    Err(CommandError::no(message).next(format!(
        "correct the kubeconfig of `{name}`: `tributary cluster rotate {name} --from-context CONTEXT --remote-server URL`; if `{other}` is to be renamed, remove it first"
    )))
}

/// Returns the UID of the cluster that answers in place of the accepted one.
fn answering<'a>(name: &str, uid: &str, clusters: &'a [ClusterItem]) -> Option<&'a str> {
    let one = clusters.iter().find(|one| one.name == name)?;
    Some(one.found_identity.as_str()).filter(|found| !found.is_empty() && *found != uid)
}

/// Returns whether a text has the form of every UID of Kubernetes.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|b| b.is_ascii_hexdigit());
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hex)
}

/// Accepts the credential that the Secret has now, although it may read less. A later one is compared again.
async fn accept_rights(
    args: &ClusterEditArgs,
    place: Place,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let secret = match place {
        Place::Secret(secret) => secret,
        Place::File(path) => {
            let exit = printed::policy((&args.name, &path), "acceptRights", Some("true"), console)?;
            console.note("remove it when the credential is used: until then, later ones are accepted too");
            return Ok(exit);
        }
        Place::Configuration(_) => return Ok(Exit::No),
    };
    let stored = Operator::open(args.place.config.options(), env).await?.secret(&secret).await?;
    let checksum = stored
        .checksum(&args.name)
        .ok_or_else(|| not_edited(&args.name, &EditRefused::Missing(secret.clone(), args.name.clone())))?;
    let change = Change {
        name: ACCEPT_RIGHTS,
        value: Some(checksum),
        done: "may be read with fewer rights by this credential",
        same: "may be read with fewer rights by this credential already",
    };
    annotate(args, &secret, change, env, console).await
}

/// Returns the identity that the server found in place of the known one.
async fn found(place: &SecretArgs, name: &str, env: &Environment) -> Result<String, CommandError> {
    let one = shown(place, name, env).await?;
    if !one.found_identity.is_empty() {
        return Ok(one.found_identity);
    }
    let message = format!("no other cluster answers in place of `{name}`: it is {}", one.state);
    Err(CommandError { exit: Exit::No, code: None, message, next: String::new() }
        .next("if another one is to be accepted before it answers, name its UID with --uid"))
}

/// Returns the cluster as the server shows it.
async fn shown(place: &SecretArgs, name: &str, env: &Environment) -> Result<ClusterItem, CommandError> {
    let server = Server::find(&place.server, env)?;
    let seen = see(&server, name).await.map_err(|failure| {
        let next = "start the server, or name the Secret with --secret or --system-namespace";
        if failure.exit == Exit::Usage { failure } else { failure.next(next) }
    })?;
    seen.cluster.ok_or_else(|| {
        CommandError::new(Exit::NotFound, Code::NOT_FOUND, format!("cluster `{name}` not found"))
            .next("list them with `tributary get clusters`")
    })
}

/// Finds what declares a cluster.
pub(super) async fn locate(place: &SecretArgs, name: &str, env: &Environment) -> Result<Place, CommandError> {
    match (&place.secret, &place.system_namespace) {
        (Some(secret), _) => Ok(Place::Secret(secret.clone())),
        (None, Some(namespace)) => {
            let operator = Operator::open(place.config.options(), env).await?;
            let all = operator.declaring(namespace, name).await?;
            only(name, namespace, &all).map(Place::Secret)
        }
        (None, None) => of_item(&shown(place, name, env).await?),
    }
}

/// Returns the only Secret that declares a cluster.
fn only(name: &str, namespace: &str, all: &[StoredSecret]) -> Result<ObjectName, CommandError> {
    match all {
        [one] => Ok(one.name.clone()),
        [] => {
            let message = format!("no Secret of namespace {namespace} declares cluster `{name}`");
            Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)
                .next("check --context: it names the config cluster"))
        }
        several => {
            let names: Vec<String> = several.iter().map(|one| one.name.to_string()).collect();
            let message = format!("several Secrets declare cluster `{name}`: {}", names.join(", "));
            Err(CommandError {
                exit: Exit::Usage,
                code: None,
                message,
                next: "name one with --secret".into(),
            })
        }
    }
}

/// Returns what declares the cluster that a server shows.
fn of_item(one: &ClusterItem) -> Result<Place, CommandError> {
    if let Some((namespace, name)) = one.source.strip_prefix("Secret ").and_then(|name| name.split_once('/'))
    {
        return Ok(Place::Secret(ObjectName::new(namespace, name)));
    }
    if let Some(path) = one.source.strip_prefix("file ") {
        return Ok(Place::File(path.to_owned()));
    }
    if one.source == "configuration" {
        return Ok(Place::Configuration(one.registries.iter().map(|one| one.name.clone()).collect()));
    }
    let message = format!("cluster `{}` is no longer declared", one.name);
    Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message)
        .next("see `tributary cluster describe` for what becomes of it"))
}

async fn annotate(
    args: &ClusterEditArgs,
    secret: &ObjectName,
    change: Change,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let operator = Operator::open(args.place.config.options(), env).await?;
    let stored = operator.secret(secret).await?;
    let steps = |stored: &StoredSecret| {
        let steps = stored.annotate(&args.name, &[(change.name, change.value.as_deref())]);
        steps.map_err(|refused| not_edited(&args.name, &refused))
    };
    if args.dry_run {
        return print(&steps(&stored)?, console);
    }
    if !operator.edit(&stored, |now| steps(now).map(Edit::Patch)).await? {
        console.data(&format!("cluster {} {}: Secret {secret} needs no change\n", args.name, change.same))?;
        return Ok(Exit::Ok);
    }
    console.data(&format!("cluster {} {}: Secret {secret}\n", args.name, change.done))?;
    Ok(Exit::Ok)
}

/// Prints a patch of annotations, for `--dry-run`.
pub(super) fn print(steps: &[PatchOperation], console: &mut Console<'_>) -> Result<Exit, CommandError> {
    console.data(&super::super::get::document(crate::args::Output::Json, &steps)?)?;
    Ok(Exit::Ok)
}

/// Describes an edit that is refused.
pub(super) fn not_edited(cluster: &str, refused: &EditRefused) -> CommandError {
    let (exit, next) = match refused {
        EditRefused::Missing(..) => {
            (Exit::NotFound, "list what declares it with `tributary cluster describe`".to_owned())
        }
        EditRefused::Shared { .. } => (
            Exit::No,
            format!(
                "split the Secret: move the key {cluster} to a Secret of its own with the same label, then run the command again"
            ),
        ),
    };
    CommandError { exit, code: None, message: refused.to_string(), next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::clusters::ClusterRegistryItem;

    fn mk(source: &str) -> ClusterItem {
        let registry = ClusterRegistryItem { name: "k".into(), ..ClusterRegistryItem::default() };
        ClusterItem { source: source.into(), registries: vec![registry], ..ClusterItem::default() }
    }

    #[test]
    fn server_reports_what_declares_a_cluster() {
        let secret = Place::Secret(ObjectName::new("system", "remote"));
        assert_eq!(of_item(&mk("Secret system/remote")).unwrap(), secret);
        assert_eq!(of_item(&mk("file /c/a.yaml")).unwrap(), Place::File("/c/a.yaml".to_owned()));
        assert_eq!(of_item(&mk("configuration")).unwrap(), Place::Configuration(vec!["k".to_owned()]));
        assert_eq!(of_item(&mk("")).unwrap_err().exit, Exit::NotFound, "remembered, and no longer declared");
    }

    #[test]
    fn accepted_identity_is_a_uid_that_no_other_cluster_has() {
        let uid = "0b54ab2f-0000-4000-8000-000000000000";
        let item = |name: &str, identity: &str, found: &str| ClusterItem {
            name: name.into(),
            identity: identity.into(),
            found_identity: found.into(),
            ..ClusterItem::default()
        };
        let refused = is_no_other("east", uid, &[item("west", uid, "")]).unwrap_err();
        assert!(refused.exit == Exit::No && refused.message.ends_with("is known as `west`"), "{refused}");
        assert!(is_no_other("east", uid, &[item("east", uid, ""), item("west", "u-2", "")]).is_ok());
        assert_eq!(answering("east", uid, &[item("east", "u-1", "u-3")]), Some("u-3"));
        for found in [uid, ""] {
            assert_eq!(answering("east", uid, &[item("east", "u-1", found)]), None);
        }
        assert!(is_uuid(uid));
        for text in ["abc", "", "0b54ab2f00004000800000000000000000", "0b54ab2g-0000-4000-8000-000000000000"]
        {
            assert!(!is_uuid(text), "{text}");
        }
    }

    #[test]
    fn one_of_several_secrets_must_be_named() {
        let secret = |name: &str| {
            let text = format!(r#"{{"metadata": {{"namespace": "system", "name": "{name}"}}}}"#);
            StoredSecret::read(text.as_bytes()).unwrap()
        };
        assert_eq!(only("east", "system", &[secret("a")]).unwrap(), ObjectName::new("system", "a"));
        assert_eq!(only("east", "system", &[]).unwrap_err().exit, Exit::NotFound);
        let several = only("east", "system", &[secret("a"), secret("b")]).unwrap_err();
        assert!(several.message.ends_with("system/a, system/b"), "{several}");
    }

    #[test]
    fn shared_secret_is_to_be_split() {
        let secret = ObjectName::new("system", "remote");
        let refused = not_edited("east", &EditRefused::Shared { secret, others: vec!["west".into()] });
        assert_eq!(refused.exit, Exit::No);
        assert!(refused.to_string().contains("west") && refused.next.contains("split"), "{refused}");
    }
}
