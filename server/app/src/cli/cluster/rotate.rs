//! `cluster rotate`: a new token of the same service account in the Secret of a cluster.
//!
//! No token is issued before the context was found to lead to the cluster that is declared. The new kubeconfig has the server and the
//! authorities of the present one, or those that flags name. It is checked before it is written, the Secret is patched at
//! the version that was read, and the command waits until the server serves with it. The old token stays valid until it expires.

use std::time::Duration;

use tributary_kube_client::ObjectName;
use tributary_remote::{Allowed, RemoteServer, StoredSecret, VettedKubeconfig};

use super::super::{Console, Server};
use super::add::{concluded, issue, server, vetted};
use super::edit::{Place, locate, not_edited};
use super::effect::has_effect;
use super::identity::{Reached, leads_there, may_have, noted, same};
use super::shown::render;
use super::store::{Edit, Operator};
use super::wait::{PAUSED, rotated, see_all, until};
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
    let clusters = before.as_ref().map(|(_, all)| all.as_slice()).unwrap_or_default();
    let shown = clusters.iter().find(|one| one.name == *name);
    has_effect(name, &stored, shown)?;
    let (kubeconfig, findings) = renewed(args, &stored, clusters, env).await?;
    console.data(&render(&findings, console.color))?;
    let exit = concluded(&findings)?;
    is_same(shown, &findings)?;
    let replace = |now: &StoredSecret| {
        if now.checksum(name) != stored.checksum(name) {
            let message = format!("the kubeconfig in Secret {secret} was replaced meanwhile and stays");
            return Err(CommandError::plain(message).next("run the command again if it is to be replaced"));
        }
        now.replace(name, &kubeconfig).map(Edit::Patch).map_err(|refused| not_edited(name, &refused))
    };
    config.edit(&stored, replace).await?;
    console.data(&format!("cluster {name} has a new token: Secret {secret}\n"))?;
    let Some((server, _)) = &before else { return Ok(exit) };
    let Some(one) = shown else {
        console.note("the server does not know the cluster yet; see `tributary cluster wait`");
        return Ok(exit);
    };
    if one.state == PAUSED {
        console.note(&format!(
            "the cluster is paused: the server uses it after `tributary cluster resume {name}`"
        ));
        return Ok(exit);
    }
    until(server, name, args.wait, |seen| rotated(seen, one)).await?;
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

/// Returns the server and the clusters that it shows.
async fn present(
    args: &ClusterRotateArgs,
    env: &Environment,
) -> Result<(Server, Vec<ClusterItem>), CommandError> {
    let server = Server::find(&args.place.server, env)?;
    let all = see_all(&server).await.map_err(|failure| match failure.exit {
        Exit::Usage => failure,
        _ => failure.next("start the server, or use --no-wait"),
    })?;
    Ok((server, all))
}

/// Returns the kubeconfig with a new token, and what its checks found. `clusters` are those that the server shows.
async fn renewed(
    args: &ClusterRotateArgs,
    stored: &StoredSecret,
    clusters: &[ClusterItem],
    env: &Environment,
) -> Result<(Credential, Findings), CommandError> {
    let allowed = args.token.allowed();
    let old = match stored.kubeconfig(&args.name, &allowed) {
        Ok(old) => Some(old),
        Err(_) if args.remote_server.is_some() => None,
        Err(refused) => {
            return Err(vetted(&refused).next(
                "replace the kubeconfig in the Secret with the same command and --remote-server, which names the address of the API server",
            ));
        }
    };
    let account = account(args, old.as_ref())?;
    let options = args.place.config.other(&args.from_context);
    let server = match (&args.remote_server, &old) {
        (Some(address), _) => server(Operator::target(&options, env)?, Some(address))?,
        (None, old) => declared(old.as_ref())?,
    };
    let remote = Operator::open(options.clone(), env).await?;
    let uid = remote.identity().await?;
    let reached = Operator::server(&options, env)?;
    let reached = Reached { context: &args.from_context, uid: uid.as_deref(), server: &reached };
    let shown = clusters.iter().find(|one| one.name == args.name);
    let noted = noted(stored, shown).map(str::to_owned);
    // a kubeconfig with the server of the context leads to its cluster, and one that is replaced does not matter
    let is_certain = args.remote_server.is_some() || reached.is_at(&server);
    let present = match noted.is_some() && is_certain {
        true => None,
        false => present_identity(old.as_ref(), &allowed).await,
    };
    let known = noted.or_else(|| present.clone());
    same(&reached, &args.name, &may_have(stored, known), &server, clusters)?;
    if args.remote_server.is_none() {
        leads_there(&reached, stored, present.as_deref())?;
    }
    let is_renewed = stored.annotation("renew") == Some("true");
    let issued = issue(&remote, &account, args.token.lifetime(is_renewed)).await?;
    let made = server.kubeconfig(&args.name, &issued.token, &allowed);
    let (kubeconfig, new) = made.map_err(|refused| vetted(&refused))?;
    let connection = new.connect(&allowed).map_err(|error| CommandError::plain(error.to_string()))?;
    let findings = check(&connection, new.server(), PATIENCE).await.expiring(&issued.expires);
    Ok((kubeconfig, findings))
}

/// Returns the API server that a kubeconfig declares.
fn declared(old: Option<&VettedKubeconfig>) -> Result<RemoteServer, CommandError> {
    old.and_then(RemoteServer::of).ok_or_else(|| {
        CommandError::plain("the kubeconfig names no certificate authority")
            .next("add certificate-authority-data, so that the token goes to no other server")
    })
}

/// Returns the UID of the cluster that the kubeconfig in use leads to, if its credential may read it.
async fn present_identity(old: Option<&VettedKubeconfig>, allowed: &Allowed) -> Option<String> {
    let old = old?;
    let connection = old.connect(allowed).ok()?;
    check(&connection, old.server(), Duration::ZERO).await.identity
}

/// Returns the account of the token in use.
fn account(args: &ClusterRotateArgs, old: Option<&VettedKubeconfig>) -> Result<ObjectName, CommandError> {
    if let Some(account) = &args.account {
        return Ok(account.clone());
    }
    let (namespace, name) = old.and_then(VettedKubeconfig::account).ok_or_else(|| {
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
