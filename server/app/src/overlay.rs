//! Puts the flags of `serve` over the other layers of the configuration.

use crate::args::ServeArgs;
use crate::config::model::{Config, TlsConfig};
use crate::config::{Origins, Span};

/// Applies every flag that was given and notes where the value came from.
pub fn apply(args: &ServeArgs, config: &mut Config, origins: &mut Origins) {
    let mut note = |field: &str, flag: &str| {
        origins.insert(field.to_owned(), flag.to_owned());
    };
    if !args.registries.is_empty() {
        config.registries.clone_from(&args.registries);
        note("registries", "--registry");
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
    if let Some(address) = args.admin_listen {
        config.admin.listen = address;
        note("admin.listen", "--admin-listen");
    }
    if let Some(address) = args.health_listen {
        config.health.listen = Some(address);
        note("health.listen", "--health-listen");
    }
    if let (Some(cert), Some(key)) = (&args.xds_cert, &args.xds_key) {
        config.xds.tls = Some(TlsConfig {
            cert_file: cert.clone(),
            key_file: key.clone(),
            client_ca_file: args.xds_client_ca.clone(),
        });
        note("xds.tls", "--xds-cert");
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
}
