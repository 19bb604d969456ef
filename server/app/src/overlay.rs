//! Applies the flags of `serve` over the other layers of the configuration.

use crate::args::ServeArgs;
use crate::config::model::{Config, TokensConfig};
use crate::config::{Origins, Span};
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// Applies every given flag and records it as the origin of its value.
pub fn apply(args: &ServeArgs, config: &mut Config, origins: &mut Origins) -> Result<(), CommandError> {
    registries(args, config, origins)?;
    tls(args, config, origins)?;
    let mut note = |field: &str, flag: &str| {
        origins.insert(field.to_owned(), flag.to_owned());
    };
    if let Some(namespace) = &args.system_namespace {
        config.system_namespace.clone_from(namespace);
        note("systemNamespace", "--system-namespace");
    }
    if let Some(revision) = &args.revision {
        config.revision = Some(revision.clone());
        note("revision", "--revision");
    }
    if let Some(dir) = &args.state_dir {
        config.state_dir = Some(dir.clone());
        note("stateDir", "--state-dir");
    }
    if let Some(id) = &args.cluster_id {
        config.cluster_id.clone_from(id);
        note("clusterId", "--cluster-id");
    }
    if let Some(domain) = &args.domain {
        config.settings.domain = Some(domain.clone());
        note("settings.domain", "--domain");
    }
    if let Some(address) = args.xds_listen {
        config.xds.listen = address;
        note("xds.listen", "--xds-listen");
    }
    if !args.xds_tokens.is_empty() {
        config.xds.tokens = Some(TokensConfig { audiences: args.xds_tokens.clone() });
        note("xds.tokens", "--xds-tokens");
    }
    if let Some(address) = args.admin_listen {
        config.admin.listen = address;
        note("admin.listen", "--admin-listen");
    }
    if let Some(address) = args.health_listen {
        config.health.listen = Some(address);
        note("health.listen", "--health-listen");
    }
    let mut time = |given: Option<Span>, at: &mut Span, field: &str, flag: &str| {
        if let Some(span) = given {
            *at = span;
            note(field, flag);
        }
    };
    let start = &mut config.start.first_sync_timeout;
    time(args.first_sync_timeout, start, "start.firstSyncTimeout", "--first-sync-timeout");
    time(args.drain_timeout, &mut config.drain.timeout, "drain.timeout", "--drain-timeout");
    if let Some(filter) = &args.log {
        config.log.level.clone_from(filter);
        note("log.level", "--log");
    }
    if let Some(format) = args.log_format {
        config.log.format = format;
        note("log.format", "--log-format");
    }
    Ok(())
}

fn registries(args: &ServeArgs, config: &mut Config, origins: &mut Origins) -> Result<(), CommandError> {
    let given = || args.registries.iter().chain(&args.kinds);
    if given().next().is_some() {
        config.registries = given().cloned().collect();
        // Origins of the file's list do not apply to the list that replaces it.
        origins.retain(|path, _| !path.starts_with("registries["));
        let flag = if args.registries.is_empty() { "--registries" } else { "--registry" };
        origins.insert("registries".to_owned(), flag.to_owned());
    }
    cluster(args, config, origins)
}

/// Applies the files of the xDS listener's TLS. A file without a flag stays that of the lower layers, so no flag turns
/// client authentication off.
fn tls(args: &ServeArgs, config: &mut Config, origins: &mut Origins) -> Result<(), CommandError> {
    let given = [&args.xds_cert, &args.xds_key, &args.xds_client_ca];
    if given.iter().all(|file| file.is_none()) {
        return Ok(());
    }
    if args.xds_cert.is_none() && config.xds.tls.is_none() {
        return Err(without_certificate());
    }
    let tls = config.xds.tls.get_or_insert_default();
    let fields = [
        (&mut tls.cert_file, "certFile", "--xds-cert"),
        (&mut tls.key_file, "keyFile", "--xds-key"),
        (&mut tls.client_ca_file, "clientCaFile", "--xds-client-ca"),
    ];
    for ((at, field, flag), file) in fields.into_iter().zip(given) {
        if let Some(file) = file {
            *at = Some(file.clone());
            origins.insert(format!("xds.tls.{field}"), flag.to_owned());
        }
    }
    Ok(())
}

fn without_certificate() -> CommandError {
    let message = "`--xds-client-ca` needs a certificate of the server, and `xds.tls` is not set";
    CommandError::new(Exit::Usage, Code::FLAG_INVALID, message)
        .next("add `--xds-cert` and `--xds-key`, or set `xds.tls` in the file")
}

/// Applies the flags about the one Kubernetes registry: kubeconfig and context.
fn cluster(args: &ServeArgs, config: &mut Config, origins: &mut Origins) -> Result<(), CommandError> {
    let flags = [
        ("kubeconfig", "--kubeconfig", args.kubeconfig.is_some()),
        ("context", "--context", args.context.is_some()),
    ];
    let Some((_, flag, _)) = flags.into_iter().find(|(.., given)| *given) else { return Ok(()) };
    let all = config.registries.iter_mut().enumerate();
    let clusters: Vec<_> = all.filter(|(_, registry)| registry.kubernetes().is_some()).collect();
    // `check` later merges identical registries.
    let same = clusters.windows(2).all(|pair| pair[0].1 == pair[1].1 && pair[0].1.name.is_none());
    if clusters.is_empty() || !same {
        let found = clusters.len();
        let message = format!("`{flag}` is about one Kubernetes registry and there are {found}");
        return Err(CommandError::new(Exit::Usage, Code::FLAG_INVALID, message)
            .next("add `--registry kubernetes`, or set it beside the registry's `kind` in the file"));
    }
    for (i, fields) in clusters.into_iter().filter_map(|(i, registry)| Some((i, registry.kubernetes_mut()?)))
    {
        for (field, flag, _) in flags.into_iter().filter(|(.., given)| *given) {
            origins.insert(format!("registries[{i}].{field}"), flag.to_owned());
        }
        fields.kubeconfig = args.kubeconfig.clone().or_else(|| fields.kubeconfig.take());
        fields.context = args.context.clone().or_else(|| fields.context.take());
    }
    Ok(())
}
