//! `cluster rotate`: a new token of the same service account in the Secret of a cluster.
//!
//! No token is issued before the context was found to lead to the cluster that is declared. The new kubeconfig has the server and the authorities of the present one. It is checked before it is written, the Secret is patched at
//! the version that was read, and the command waits until the server serves with it. The old token stays valid until it expires.

use std::time::Duration;

use tributary_kube_client::ObjectName;
use tributary_remote::{Allowed, RemoteServer, StoredSecret, VettedKubeconfig};

use super::super::{Console, Server};
use super::add::{concluded, issue, vetted};
use super::edit::{Place, locate, not_edited};
use super::effect::has_effect;
use super::identity::{Reached, may_have, noted, same};
use super::shown::render;
use super::store::Operator;
use super::wait::{PAUSED, rotated, see, until};
use crate::args::ClusterRotateArgs;
use crate::document::{ClusterItem, Findings};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::clusters::findings::{PATIENCE, check};
use tributary_registry_api::Credential;

/// Runs the command.
pub(super) async fn run(
    args: &ClusterRotateArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let name = &args.name;
    let secret = match locate(&args.place, name, env).await? {
        Place::Secret(secret) => secret,
        Place::File(path) => return of_file(name, &path),
        Place::Configuration(_) => return configured(name),
    };
    let config = Operator::open(args.place.config.options(), env).await?;
    let stored = config.secret(&secret).await?;
    let before = match args.no_wait {
        true => None,
        false => Some(present(args, env).await?),
    };
    has_effect(name, &stored, before.as_ref().and_then(|(_, one)| one.as_ref()))?;
    let (kubeconfig, findings) =
        renewed(args, &stored, before.as_ref().and_then(|(_, one)| one.as_ref()), env).await?;
    console.data(&render(&findings, console.color))?;
    let exit = concluded(&findings)?;
    is_same(before.as_ref().and_then(|(_, one)| one.as_ref()), &findings)?;
    let steps = stored.replace(name, &kubeconfig).map_err(|refused| not_edited(name, &refused))?;
    config.patch(&secret, &steps).await?;
    console.data(&format!("cluster {name} has a new token: Secret {secret}\n"))?;
    let Some((server, one)) = before else { return Ok(exit) };
    let Some(one) = one else {
        console.note("the server does not know the cluster yet; see `tributary cluster wait`");
        return Ok(exit);
    };
    if one.state == PAUSED {
        console.note(&format!(
            "the cluster is paused: the server uses it after `tributary cluster resume {name}`"
        ));
        return Ok(exit);
    }
    until(&server, name, args.wait, |seen| rotated(seen, &one)).await?;
    console.data(&format!("cluster {name} is served with it\n"))?;
    Ok(exit)
}

fn configured(name: &str) -> Result<Exit, CommandError> {
    let message = format!("cluster `{name}` is one of the configuration file");
    let next = "replace the credential in the kubeconfig that its entry of `registries` names; the server reads it again";
    Err(CommandError { exit: Exit::No, code: None, message, next: next.to_owned() })
}

fn of_file(name: &str, path: &str) -> Result<Exit, CommandError> {
    let message = format!("cluster `{name}` is declared by file {path}");
    let next = "replace the kubeconfig in that file; the server takes the new one over when it has read everything with it";
    Err(CommandError { exit: Exit::No, code: None, message, next: next.to_owned() })
}

/// Returns the server and what it shows of the cluster.
async fn present(
    args: &ClusterRotateArgs,
    env: &Environment,
) -> Result<(Server, Option<ClusterItem>), CommandError> {
    let server = Server::find(&args.place.server, env)?;
    let seen = see(&server, &args.name).await.map_err(|failure| match failure.exit {
        Exit::Usage => failure,
        _ => failure.next("start the server, or use --no-wait"),
    })?;
    Ok((server, seen.cluster))
}

/// Returns the kubeconfig with a new token, and what its checks found.
async fn renewed(
    args: &ClusterRotateArgs,
    stored: &StoredSecret,
    shown: Option<&ClusterItem>,
    env: &Environment,
) -> Result<(Credential, Findings), CommandError> {
    let allowed = args.token.allowed();
    let old = stored.kubeconfig(&args.name, &allowed).map_err(|refused| vetted(&refused))?;
    let account = account(args, &old)?;
    let server = RemoteServer::of(&old).ok_or_else(|| {
        CommandError::plain("the kubeconfig names no certificate authority")
            .next("add certificate-authority-data, so that the token goes to no other server")
    })?;
    let options = args.place.config.other(&args.from_context);
    let remote = Operator::open(options.clone(), env).await?;
    let uid = remote.identity().await?;
    let reached = Operator::server(&options, env)?;
    let reached = Reached { context: &args.from_context, uid: uid.as_deref(), server: &reached };
    same(&reached, &args.name, &known(stored, shown, &old, &allowed).await, &server)?;
    let is_renewed = stored.annotation("renew") == Some("true");
    let issued = issue(&remote, &account, args.token.lifetime(is_renewed)).await?;
    let made = server.kubeconfig(&args.name, &issued.token, &allowed);
    let (kubeconfig, new) = made.map_err(|refused| vetted(&refused))?;
    let connection = new.connect(&allowed).map_err(|error| CommandError::plain(error.to_string()))?;
    let findings = check(&connection, new.server(), PATIENCE).await.expiring(&issued.expires);
    Ok((kubeconfig, findings))
}

/// Returns the UIDs that the cluster may have: an accepted one, and the one that is known. Where it is not noted, the credential in use
/// reads it.
async fn known(
    stored: &StoredSecret,
    shown: Option<&ClusterItem>,
    old: &VettedKubeconfig,
    allowed: &Allowed,
) -> Vec<String> {
    let known = match noted(stored, shown) {
        Some(uid) => Some(uid.to_owned()),
        None => match old.connect(allowed) {
            Ok(connection) => check(&connection, old.server(), Duration::ZERO).await.identity,
            Err(_) => None,
        },
    };
    may_have(stored, known)
}

/// Returns the account of the token in use.
fn account(args: &ClusterRotateArgs, old: &VettedKubeconfig) -> Result<ObjectName, CommandError> {
    if let Some(account) = &args.account {
        return Ok(account.clone());
    }
    let (namespace, name) = old.account().ok_or_else(|| {
        CommandError {
            exit: Exit::Usage,
            ..CommandError::plain("the credential in use names no service account")
        }
        .next("name the account with --account NAMESPACE/NAME")
    })?;
    Ok(ObjectName::new(&namespace, &name))
}

/// Refuses a token of another cluster than the one that is served.
fn is_same(before: Option<&ClusterItem>, findings: &Findings) -> Result<(), CommandError> {
    let known = before.map(|one| one.identity.as_str()).filter(|identity| !identity.is_empty());
    match (known, &findings.identity) {
        (Some(known), Some(found)) if known != found => {
            let message =
                format!("the kubeconfig leads to another cluster: its identity is {found}, not {known}");
            Err(CommandError { exit: Exit::No, code: None, message, next: String::new() }
                .next("correct the Secret, or accept the other cluster with `tributary cluster accept`"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_of_another_cluster_is_not_written() {
        let item = |identity: &str| ClusterItem { identity: identity.into(), ..ClusterItem::default() };
        let found = |identity: Option<&str>| Findings {
            identity: identity.map(str::to_owned),
            ..Findings::default()
        };
        assert_eq!(is_same(Some(&item("u-1")), &found(Some("u-2"))).unwrap_err().exit, Exit::No);
        for (before, identity) in [("u-1", Some("u-1")), ("u-1", None), ("", Some("u-2"))] {
            assert!(is_same(Some(&item(before)), &found(identity)).is_ok(), "{before} {identity:?}");
        }
        assert!(is_same(None, &found(Some("u-1"))).is_ok());
    }
}
