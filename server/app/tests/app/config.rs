//! Configuration: layers, errors with line and field, defaults.

use std::path::Path;

use crate::config_support::{mk_file, mk_loaded};
use clap::Parser as _;
use tributary_app::Extensions;
use tributary_app::args::{Cli, Command, ServeArgs};
use tributary_app::config::{Config, ConfigFile, Loaded, layer, schema};
use tributary_app::environment::Environment;
use tributary_app::exit::CommandError;
use tributary_model::{ClusterId, ProviderId, RegistryId, RegistryName};
use tributary_registry_api::{InvalidField, Registry, RegistryError, RegistryFactory, RegistrySpec};

#[test]
fn flag_overrides_variable_overrides_file_overrides_default() {
    let default = layer(None, &Environment::default(), &|_, _| Ok(())).unwrap().config.xds.listen;
    assert_eq!(default.port(), 15010);
    let body = "xds: {listen: 127.0.0.1:1}\n";
    let env = || Environment::from([("TRIBUTARY_XDS__LISTEN", "127.0.0.1:2")]);
    let flag = ServeArgs { xds_listen: Some(([127, 0, 0, 1], 3).into()), ..ServeArgs::default() };
    let port = |loaded: Result<Loaded, CommandError>| loaded.unwrap().config.xds.listen.port();
    assert_eq!(port(mk_loaded(body, Environment::default(), &ServeArgs::default())), 1);
    assert_eq!(port(mk_loaded(body, env(), &ServeArgs::default())), 2);
    assert_eq!(port(mk_loaded(body, env(), &flag)), 3);
}

#[test]
fn origin_of_each_value_is_recorded() {
    let env = Environment::from([("TRIBUTARY_LOG", "debug")]);
    let args = ServeArgs { cluster_id: Some("east".into()), ..ServeArgs::default() };
    let origins = mk_loaded("drain:\n  timeout: 3s\n", env, &args).unwrap().origins;
    assert_eq!(origins["drain.timeout"], "t.yaml:4:3");
    assert_eq!(origins["log.level"], "TRIBUTARY_LOG");
    assert_eq!(origins["clusterId"], "--cluster-id");
}

#[test]
fn registries_without_a_name_get_a_free_one() {
    let body = "registries:\n- {kind: file, path: a}\n- {kind: file, path: b, name: file}\n- {kind: file, path: c}\n";
    let loaded = mk_loaded(body, Environment::default(), &ServeArgs::default()).unwrap();
    let names: Vec<_> = loaded.config.registries.iter().map(|r| r.name.clone().unwrap()).collect();
    assert_eq!(names, ["file-2", "file", "file-3"]);
}

fn mk_args(args: &[&str]) -> ServeArgs {
    match Cli::try_parse_from(["tributary", "serve"].iter().chain(args)).unwrap().command {
        Command::Serve(args) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn duplicate_source_is_merged_with_a_warning() {
    for args in [
        &["--registries", "Kubernetes,kubernetes"][..],
        &["--registry", "kubernetes", "--registries", "Kubernetes", "--kubeconfig", "a"],
    ] {
        let loaded = mk_loaded("", Environment::default(), &mk_args(args)).unwrap();
        assert_eq!(loaded.config.registries.len(), 1, "{args:?}");
        assert_eq!(loaded.warnings, ["registry `kubernetes` is given twice; one copy is used"], "{args:?}");
    }
}

#[test]
fn unknown_kind_of_a_flag_names_the_flag() {
    for (args, flag) in [
        (["--registry", "nacos"], "--registry"),
        (["--registry", "nacos=http://x"], "--registry"),
        (["--registries", "nacos"], "--registries"),
    ] {
        let error = mk_loaded("", Environment::default(), &mk_args(&args)).unwrap_err();
        assert_eq!(error.code, Some(tributary_model::Code::UNKNOWN_REGISTRY_KIND));
        let error = error.message;
        let expected =
            "registries[0].kind: unknown registry kind `nacos`; use one of file, kubernetes, consul";
        assert_eq!(error, format!("{flag}: {expected}"));
    }
}

/// A factory that a kind of the tests builds.
struct Listed(std::sync::Arc<RegistryId>);

impl RegistryFactory for Listed {
    fn spec(&self) -> RegistrySpec {
        RegistrySpec::new(std::sync::Arc::clone(&self.0), 1)
    }
    fn build(&self) -> Result<Box<dyn Registry>, RegistryError> {
        Err(RegistryError::final_("not run"))
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedFields {
    base: String,
    #[serde(default)]
    tags: Vec<String>,
}

fn mk_extensions() -> Environment {
    let build = |name: RegistryName, cluster: ClusterId, fields: ListedFields| {
        if fields.base.is_empty() || fields.tags.len() > 1 {
            return Err(InvalidField::new("base", "is empty, or has several tags"));
        }
        let id = RegistryId { name, provider: ProviderId::MEMORY, cluster };
        Ok(Listed(std::sync::Arc::new(id)))
    };
    Environment::default().with(Extensions::default().registry("listing", build))
}

#[test]
fn registered_kind_takes_no_location() {
    let error =
        mk_loaded("", mk_extensions(), &mk_args(&["--registry", "listing=x"])).unwrap_err().to_string();
    let expected =
        "TRB0111 --registry: a registry of kind `listing` takes no location; write its fields in a file";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn registered_kind_is_configured_like_any_other() {
    let body = "registries:\n- {tags: [a], kind: listing, base: x, clusterId: east}\n";
    let loaded = mk_loaded(body, mk_extensions(), &ServeArgs::default()).unwrap();
    let registry = &loaded.config.registries[0];
    assert_eq!((registry.name.as_deref(), registry.cluster_id.as_deref()), (Some("listing"), Some("east")));
    let schema = schema::schema_with(mk_extensions().extensions());
    assert_eq!(schema.pointer("/$defs/RegistryKind/oneOf/3/const"), Some(&"listing".into()));
    assert_eq!(schema.pointer("/$defs/RegistryConfig/additionalProperties"), Some(&true.into()));
    let written = serde_json::to_value(registry).unwrap();
    let expected = serde_json::json!(
        {"kind": "listing", "name": "listing", "clusterId": "east", "base": "x", "tags": ["a"]}
    );
    assert_eq!(written, expected);
    for (body, expected) in [
        ("{kind: listing, base: ''}", "t.yaml:4:19: registries[0].base: is empty, or has several tags"),
        ("{kind: listing, base: 1}", "t.yaml:4:19: registries[0].base: found integer `1`; write a string"),
        ("{kind: listing, base: a, sort: b}", "t.yaml:4:28: registries[0].sort: unknown field `sort`"),
        ("{kind: listing}", "t.yaml:4:3: registries[0]: `base` is missing; set it"),
        (
            "{kind: list}",
            "t.yaml:4:4: registries[0].kind: unknown registry kind `list`; use one of file, kubernetes, consul, listing",
        ),
    ] {
        let body = format!("registries:\n- {body}\n");
        let error = mk_loaded(&body, mk_extensions(), &ServeArgs::default()).unwrap_err().message;
        assert!(error.starts_with(expected), "{body}: {error}");
    }
}

#[test]
fn write_without_an_effect_is_a_warning() {
    let loaded = mk_loaded("writes: [status, addresses]\n", Environment::default(), &ServeArgs::default());
    assert_eq!(loaded.unwrap().warnings, ["writes: this version does not write status"]);
}

#[test]
fn clusters_without_the_config_cluster_are_a_warning() {
    let warnings = |body: &str| {
        let loaded = mk_loaded(body, Environment::default(), &ServeArgs::default()).unwrap();
        loaded.warnings.into_iter().filter(|warning| warning.contains("all clusters are remote")).count()
    };
    let remote = "registries:\n- {kind: kubernetes, clusterId: away, context: a}\n";
    assert_eq!(warnings(remote), 1);
    assert_eq!(warnings(&format!("clusterId: away\n{remote}")), 0);
    assert_eq!(warnings(&format!("{remote}- {{kind: kubernetes, context: b}}\n")), 0);
    assert_eq!(warnings("registries:\n- {kind: kubernetes}\n"), 0, "alone it has the server's");
    assert_eq!(warnings("registries:\n- {kind: file, path: f, clusterId: away}\n"), 0);
}

#[test]
fn cluster_flags_override_the_file() {
    let body = "registries:\n- {kind: kubernetes, context: a, kubeconfig: x}\n- {kind: file, path: b}\n";
    let args = mk_args(&["--context", "b", "--system-namespace", "mesh", "--revision", "canary"]);
    let env = Environment::from([("POD_NAMESPACE", "pod"), ("TRIBUTARY_REVISION", "stable")]);
    let loaded = mk_loaded(body, env, &args).unwrap();
    let cluster = loaded.config.registries[0].kubernetes().unwrap();
    assert_eq!(cluster.context.as_deref(), Some("b"));
    assert_eq!(cluster.kubeconfig.as_deref(), Some(Path::new("x")), "the file's, which no flag changes");
    assert_eq!(
        (loaded.config.system_namespace.as_str(), loaded.config.revision.as_deref()),
        ("mesh", Some("canary"))
    );
    assert_eq!(loaded.origins["registries[0].context"], "--context");
    assert_eq!(loaded.origins["registries[0].kubeconfig"], "t.yaml:4:34");
    let several = "registries:\n- {kind: kubernetes}\n- {kind: kubernetes, clusterId: b}\n";
    for (body, found) in [("registries:\n- {kind: file, path: b}\n", 0), (several, 2)] {
        let error = mk_loaded(body, Environment::default(), &args).unwrap_err();
        let expected = format!("TRB0111 `--context` is about one Kubernetes registry and there are {found}");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

#[test]
fn address_off_loopback_needs_tls() {
    let body = "xds:\n  listen: 0.0.0.0:15010\n  tls: {certFile: c, keyFile: k}\n";
    assert!(mk_loaded(body, Environment::default(), &ServeArgs::default()).is_ok());
    let flag = ServeArgs { xds_listen: Some(([0, 0, 0, 0], 3).into()), ..ServeArgs::default() };
    let error = mk_loaded("", Environment::default(), &flag).unwrap_err().message;
    assert!(error.starts_with("--xds-listen: xds.listen: "), "{error}");
}

#[test]
fn certificate_flags_keep_the_client_authorities_of_the_file() {
    let file = "xds:\n  tls: {certFile: c, keyFile: k, clientCaFile: ca}\n";
    let pair = mk_args(&["--xds-cert", "c2", "--xds-key", "k2"]);
    let loaded = mk_loaded(file, Environment::default(), &pair).unwrap();
    let tls = loaded.config.xds.tls.unwrap();
    assert_eq!(tls.pair(), Ok((Path::new("c2"), Path::new("k2"))));
    assert_eq!(tls.client_ca_file.as_deref(), Some(Path::new("ca")), "clients stay authenticated");
    let of = |field: &str| loaded.origins[&format!("xds.tls.{field}")].as_str();
    assert_eq!((of("certFile"), of("keyFile")), ("--xds-cert", "--xds-key"));
    assert!(of("clientCaFile").starts_with("t.yaml:4:"), "{}", of("clientCaFile"));

    let authorities = mk_args(&["--xds-client-ca", "ca2"]);
    let tls = mk_loaded(file, Environment::default(), &authorities).unwrap().config.xds.tls.unwrap();
    assert_eq!(tls.pair(), Ok((Path::new("c"), Path::new("k"))));
    assert_eq!(tls.client_ca_file.as_deref(), Some(Path::new("ca2")));
    let error = mk_loaded("", Environment::default(), &authorities).unwrap_err().to_string();
    assert!(error.starts_with("TRB0111 `--xds-client-ca` needs a certificate"), "{error}");
}

#[test]
fn layers_complete_the_files_of_tls_field_by_field() {
    let authorities = "xds:\n  tls: {clientCaFile: ca}\n";
    let complete = |loaded: Result<Loaded, CommandError>| {
        let tls = loaded.unwrap().config.xds.tls.unwrap();
        assert_eq!(tls.pair(), Ok((Path::new("c"), Path::new("k"))));
        assert_eq!(tls.client_ca_file.as_deref(), Some(Path::new("ca")));
    };
    let flags = mk_args(&["--xds-cert", "c", "--xds-key", "k"]);
    complete(mk_loaded(authorities, Environment::default(), &flags));
    let key = [("TRIBUTARY_XDS__TLS__KEY_FILE", "k")];
    let certificate = "xds:\n  tls: {clientCaFile: ca, certFile: c}\n";
    complete(mk_loaded(certificate, Environment::from(key), &ServeArgs::default()));
    let pair = Environment::from([("TRIBUTARY_XDS__TLS", "{certFile: c, keyFile: k}")]);
    complete(mk_loaded(authorities, pair, &ServeArgs::default()));

    let refused = |body: &str, env| mk_loaded(body, env, &ServeArgs::default()).unwrap_err().to_string();
    let error = refused(authorities, Environment::default());
    assert!(
        error.starts_with("TRB0102 t.yaml:4:9: xds.tls.certFile is missing; set it, or start the"),
        "{error}"
    );
    let error = refused("", Environment::from(key));
    assert!(
        error.starts_with("TRB0102 TRIBUTARY_XDS__TLS__KEY_FILE: xds.tls.certFile is missing"),
        "{error}"
    );
}

#[test]
fn default_configuration_round_trips() {
    let text = serde_saphyr::to_string(&Config::default()).unwrap();
    let read = ConfigFile::parse(Path::new("default.yaml"), &text).unwrap();
    assert_eq!(read.config, Config::default(), "{text}");
}

#[test]
fn schema_has_every_field_of_the_default() {
    let schema = schema::schema();
    let text = serde_json::to_value(Config::default()).unwrap();
    for field in text.as_object().unwrap().keys() {
        assert!(schema.pointer(&format!("/properties/{field}")).is_some(), "{field} is not in the schema");
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn arbitrary_document_does_not_panic() {
    use proptest::prelude::*;
    let pieces = [
        "xds:",
        " ",
        "\n",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "&a",
        "*a",
        "registries",
        "kind",
        ": ",
        "'",
        "\"",
        "0",
        "!!str",
        "|",
        "\t",
        "é",
    ];
    let piece = proptest::sample::select(pieces.to_vec());
    proptest!(ProptestConfig::with_cases(500), |(parts in proptest::collection::vec(piece, 0..40))| {
        if let Err(failure) = mk_file(&parts.concat()) {
            prop_assert!(failure.message.starts_with("t.yaml"), "{}", failure.message);
        }
    });
}

#[test]
fn tokens_are_taken_by_flag_or_file_and_their_audiences_are_checked() {
    let audiences =
        |loaded: Result<Loaded, CommandError>| loaded.unwrap().config.xds.tokens.unwrap().audiences;
    let load = |body: &str, flags: &[&str]| mk_loaded(body, Environment::default(), &mk_args(flags));
    let usual = ["--registry", "kubernetes", "--xds-tokens"];
    assert_eq!(audiences(load("", &usual)), ["istio-ca", "tributary"]);
    assert_eq!(audiences(load("", &["--registry", "kubernetes", "--xds-tokens=a,b"])), ["a", "b"]);
    let file = "xds: {tokens: {audiences: [own]}}\n";
    assert_eq!(audiences(load(file, &["--registry", "kubernetes"])), ["own"]);
    assert_eq!(load("", &["--registry", "kubernetes"]).unwrap().config.xds.tokens, None);
    for (wrong, what) in [
        ("xds: {tokens: {audiences: []}}\n", "lists 0 audiences"),
        ("xds: {tokens: {audiences: [a, 'b c']}}\n", "xds.tokens.audiences[1]: `b c`"),
    ] {
        let error = load(wrong, &["--registry", "kubernetes"]).unwrap_err().message;
        assert!(error.contains(what), "{error}");
    }
    let error = load("xds: {tokens: {}}\n", &["--registry", "file=."]).unwrap_err().message;
    assert!(error.contains("no cluster is configured that could review tokens"), "{error}");
}
