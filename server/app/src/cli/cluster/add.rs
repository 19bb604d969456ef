//! `cluster add`: a service account with the smallest rights in a remote cluster, and the Secret with its token in the config cluster.
//!
//! Without `--apply` nothing is written: the objects of the remote cluster are printed. `--print-secret` prints the Secret for those who
//! apply it themselves; a token is issued then, because a Secret without one would be of no use. Everything is checked before the Secret
//! is written, and what is refused later leaves an account that nothing uses.

use serde_json::Value;
use tributary_kube_client::{IssuedToken, ObjectName, Target};
use tributary_model::{ClusterId, Code};
use tributary_registry_api::Credential;
use tributary_remote::{NewSecret, Refused, RemoteServer, secret_name};

use super::super::get::document;
use super::super::{Console, Server};
use super::account::{NAMESPACES, kind_of, needed_for_token, needed_to_renew, objects};
use super::identity::{Reached, not_config, not_known};
use super::shown::render;
use super::store::{Operator, Step, right};
use super::wait::see_all;
use crate::args::{ClusterAddArgs, Output, names};
use crate::config::model::RegistryConfig;
use crate::config::{Config, RegistryKind, load};
use crate::document::{ClusterItem, Findings};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::clusters::findings::{PATIENCE, check};
use crate::ops::rights::needed;
use crate::wiring::factories::remote_cluster;

/// What is added.
struct Plan {
    cluster: ClusterId,
    /// ID of the config cluster.
    config_cluster: String,
    server: RemoteServer,
    namespace: String,
    objects: Vec<Value>,
}

/// Runs the command.
pub(super) async fn run(
    args: &ClusterAddArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let plan = plan(args, env)?;
    if !args.apply && !args.print_secret {
        return print(args, &plan, console);
    }
    let remote = Operator::open(args.place.other(&args.from_context), env).await?;
    if args.print_secret {
        let (secret, findings) = credential(args, &plan, &remote).await?;
        console.note(&render(&findings, console.color));
        let exit = concluded(&findings)?;
        console.data(&yaml(&secret.object())?)?;
        return Ok(exit);
    }
    apply(args, &plan, (&remote, env), console).await
}

fn plan(args: &ClusterAddArgs, env: &Environment) -> Result<Plan, CommandError> {
    let flag = |message: String| CommandError::new(Exit::Usage, Code::FLAG_INVALID, message);
    let cluster = ClusterId::new(&args.name).map_err(|_| {
        flag("the name is not a cluster ID".to_owned()).next("use letters, digits, `-` and `.`")
    })?;
    let config = configured(args, env)?;
    names::object(&secret_name(cluster.as_str())).map_err(|why| {
        flag(format!("the name `{cluster}` cannot be a part of the name of a Secret: {why}"))
            .next("choose another name; capital letters are allowed")
    })?;
    names::namespace(&config.system_namespace)
        .map_err(|why| flag(format!("namespace `{}` is not valid: {why}", config.system_namespace)))?;
    if cluster.as_str() == config.cluster_id {
        let message = format!("`{cluster}` is the ID of the config cluster; choose another name");
        return Err(flag(message)
            .next("name the server's configuration file with --config if its `clusterId` differs"));
    }
    let target = Operator::target(&args.place.other(&args.from_context), env)?;
    let server = server(target, args.remote_server.as_deref())?;
    // what vetting refuses is refused before anything is written
    let placeholder = Credential::new(b"none".to_vec());
    server
        .kubeconfig(cluster.as_str(), &placeholder, &args.token.allowed())
        .map_err(|refused| vetted(&refused))?;
    let mut rights = needed(&remote_cluster(cluster.clone(), &config)?, &std::collections::BTreeSet::new());
    let namespace = config.system_namespace;
    if args.renew {
        rights.insert(needed_to_renew(&namespace, &args.account));
    }
    let objects = objects(&namespace, &args.account, &rights);
    Ok(Plan { cluster, config_cluster: config.cluster_id, server, namespace, objects })
}

/// Returns the configuration of the server.
fn configured(args: &ClusterAddArgs, env: &Environment) -> Result<Config, CommandError> {
    let file = args.config.clone().or_else(|| env.get("TRIBUTARY_CONFIG").map(Into::into));
    let loaded = load(file.as_deref(), env, &|config, _| {
        if let Some(namespace) = &args.system_namespace {
            config.system_namespace.clone_from(namespace);
        }
        if config.registries.is_empty() {
            config.registries.push(RegistryConfig::of_kind(RegistryKind::Kubernetes));
        }
        Ok(())
    })?;
    Ok(loaded.config)
}

/// Returns the API server as others reach it.
pub(super) fn server(target: Target, address: Option<&str>) -> Result<RemoteServer, CommandError> {
    let Target { context, server, authority_data, authority_file, tls_server_name } = target;
    let server = address.unwrap_or(&server);
    if let Some(authority_data) = authority_data {
        let server = server.to_owned();
        return Ok(RemoteServer { server, authority_data, tls_server_name });
    }
    let Some(path) = authority_file else {
        let message = format!(
            "context {context} names no certificate authority, so that nothing identifies the server"
        );
        return Err(CommandError::new(Exit::Usage, Code::KUBECONFIG_FIELD_INVALID, message)
            .next("add certificate-authority-data to its cluster in the kubeconfig"));
    };
    let read = std::fs::read(&path).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        CommandError::new(Exit::Usage, Code::FILE_UNREADABLE, message)
    })?;
    Ok(RemoteServer::new(server, &read, tls_server_name.as_deref()))
}

/// Describes a kubeconfig that a server would refuse. No text of it holds a value.
pub(super) fn vetted(refused: &Refused) -> CommandError {
    let code = refused.0.first().map(|fault| fault.code);
    let next =
        "name an address that the server reaches with --remote-server, or what the message names".to_owned();
    CommandError { exit: Exit::No, code, message: format!("a server would refuse it: {refused}"), next }
}

/// Prints the objects of the remote cluster, and what to do with them.
fn print(args: &ClusterAddArgs, plan: &Plan, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let from_context = &args.from_context;
    let mut text = format!("# Objects of the remote cluster: kubectl --context {from_context} apply -f -\n");
    for object in &plan.objects {
        text.push_str("---\n");
        text.push_str(&yaml(object)?);
    }
    console.data(&text)?;
    console.note("nothing was written. Next, one of:");
    console.note("- run the same command with --apply: it writes these objects and the Secret");
    console.note("- apply these objects, then print the Secret with the same command and --print-secret");
    Ok(Exit::Ok)
}

fn yaml(object: &Value) -> Result<String, CommandError> {
    document(Output::Yaml, object)
}

/// Writes everything, and the Secret last.
async fn apply(
    args: &ClusterAddArgs,
    plan: &Plan,
    (remote, env): (&Operator, &Environment),
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let config = Operator::open(args.place.options(), env).await?;
    is_free(args, plan, &config).await?;
    remote.may(&[needed_to_renew(&plan.namespace, &args.account)]).await?;
    is_unknown(args, plan, (&config, remote), env, console).await?;
    for step in steps(remote, &plan.objects).await? {
        remote.carry_out(&step).await?;
        console.note(&step.done(&args.from_context));
    }
    let (secret, findings) = credential(args, plan, remote).await?;
    console.data(&render(&findings, console.color))?;
    let exit = concluded(&findings)?;
    config.create(&secret).await?;
    console.data(&format!("cluster {} added: Secret {}/{}\n", args.name, secret.namespace, secret.name))?;
    if args.renew {
        console.note("the server renews the token if its `writes` lists `credentials`");
    }
    console.note(&format!("next: `tributary cluster wait {}`", args.name));
    Ok(exit)
}

/// Fails unless the Secret can be created in the config cluster.
async fn is_free(args: &ClusterAddArgs, plan: &Plan, config: &Operator) -> Result<(), CommandError> {
    let (namespace, name) = (&plan.namespace, secret_name(plan.cluster.as_str()));
    let others = config.declaring(namespace, &args.name).await?;
    if let Some(other) = others.first() {
        let message = format!("Secret {} declares cluster `{}` already", other.name, args.name);
        return Err(CommandError { exit: Exit::No, code: None, message, next: String::new() }
            .next("use `tributary cluster rotate` for a new token, or another name"));
    }
    config.may(&[right("create", &tributary_remote::SECRETS, Some(namespace))]).await?;
    if config.has(&NAMESPACES, &ObjectName::new("", namespace)).await? == Some(false) {
        let context = args.place.context.iter().map(|context| format!("--context {context} "));
        let create =
            format!("create it with `kubectl {}create namespace {namespace}`", context.collect::<String>());
        let message = format!("the config cluster, {}, has no namespace {namespace}", config.at());
        return Err(CommandError::new(Exit::NotFound, Code::NOT_FOUND, message).next(create));
    }
    if config.has(&tributary_remote::SECRETS, &ObjectName::new(namespace, &name)).await? == Some(true) {
        let message =
            format!("Secret {namespace}/{name} exists already and does not declare cluster `{}`", args.name);
        return Err(CommandError::no(message).next("choose another name, or delete the Secret"));
    }
    Ok(())
}

/// Fails if the remote cluster is the config cluster, or known under another name.
async fn is_unknown(
    args: &ClusterAddArgs,
    plan: &Plan,
    (config, remote): (&Operator, &Operator),
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<(), CommandError> {
    let uid = remote.identity().await?;
    let reached = Reached { context: &args.from_context, uid: uid.as_deref(), server: &plan.server };
    if uid.is_none() {
        let context = &args.from_context;
        console.note(&format!("whether the cluster of context {context} has another name was not checked: the context may not list namespaces"));
    }
    not_config(&reached, &plan.config_cluster, config.identity().await?.as_deref())?;
    let secrets = config.labelled(&plan.namespace).await?;
    not_known(&reached, &args.name, &secrets, &shown(args, env, console).await?, &args.token.allowed())
}

/// Returns the clusters that the server shows. Only one that a flag names must answer: the first clusters may be added before it starts.
async fn shown(
    args: &ClusterAddArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Vec<ClusterItem>, CommandError> {
    match see_all(&Server::find(&args.server, env)?).await {
        Ok(all) => Ok(all),
        Err(failure) if args.server.connection.server.is_some() => {
            Err(failure.next("start the server, or leave --server out"))
        }
        Err(failure) => {
            console.note(&format!(
                "only Secrets were searched for another name of the cluster: {}",
                failure.message
            ));
            Ok(Vec::new())
        }
    }
}

/// Returns what is to be done in the remote cluster; fails if it cannot be done or the operator may not do it.
async fn steps(remote: &Operator, objects: &[Value]) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    for object in objects {
        if let Some(kind) = kind_of(object) {
            steps.push(remote.step(kind, object).await?);
        }
    }
    let mut needed: Vec<_> = steps.iter().filter_map(Step::needs).collect();
    needed.dedup();
    remote.may(&needed).await?;
    Ok(steps)
}

/// Issues a token and checks it as a server would use it.
async fn credential(
    args: &ClusterAddArgs,
    plan: &Plan,
    remote: &Operator,
) -> Result<(NewSecret, Findings), CommandError> {
    let account = ObjectName::new(&plan.namespace, &args.account);
    let issued = issue(remote, &account, args.token.lifetime(args.renew)).await?;
    let cluster = plan.cluster.as_str();
    let allowed = args.token.allowed();
    let (kubeconfig, read_back) =
        plan.server.kubeconfig(cluster, &issued.token, &allowed).map_err(|refused| vetted(&refused))?;
    let connection = read_back.connect(&allowed).map_err(|error| CommandError::plain(error.to_string()))?;
    let findings = check(&connection, read_back.server(), PATIENCE).await;
    let findings = findings.expiring(&issued.expires);
    let (namespace, name) = (plan.namespace.clone(), secret_name(cluster));
    let (cluster, renew) = (cluster.to_owned(), args.renew);
    Ok((NewSecret { namespace, name, cluster, kubeconfig, renew }, findings))
}

/// Issues a token of an account.
pub(super) async fn issue(
    remote: &Operator,
    account: &ObjectName,
    lasting: std::time::Duration,
) -> Result<IssuedToken, CommandError> {
    let issued = remote.writer().request_token(account, lasting).await;
    let namespace = account.namespace.as_deref().unwrap_or_default();
    issued.map_err(|why| {
        let failure = remote.failed(&needed_for_token(namespace), &format!("ServiceAccount {account}"), why);
        match failure.exit {
            Exit::NotFound => {
                failure.next("apply the objects that `tributary cluster add` prints, or use --apply")
            }
            _ => failure,
        }
    })
}

/// Fails if a server could not use the credential.
pub(super) fn concluded(findings: &Findings) -> Result<Exit, CommandError> {
    if findings.are_good() {
        return Ok(Exit::Ok);
    }
    let message = "the checks failed, and no Secret was written".to_owned();
    Err(CommandError { exit: Exit::No, code: None, message, next: String::new() }
        .next("correct what is shown as failed, and run the command again"))
}
