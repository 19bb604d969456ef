//! Configuration: errors name what was set where, and all are reported at once.

use std::path::Path;

use crate::config_support::mk_loaded;
use tributary_app::args::ServeArgs;
use tributary_app::config::ConfigFile;
use tributary_app::environment::Environment;
use tributary_app::exit::Exit;

fn error_of(body: &str) -> String {
    let failure = mk_loaded(body, Environment::default(), &ServeArgs::default()).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage, "{failure}");
    failure.to_string().lines().next().unwrap().to_owned()
}

#[test]
fn errors_name_file_line_and_field() {
    for (body, expected) in [
        (
            "xds:\n  lisen: 127.0.0.1:1\n",
            "TRB0102 t.yaml:4:3: unknown field `xds.lisen`; did you mean `listen`?",
        ),
        ("adnim: {}\n", "TRB0102 t.yaml:3:1: unknown field `adnim`; did you mean `admin`?"),
        ("xds:\n  listen: nowhere\n", "TRB0102 t.yaml:4:11: xds.listen: "),
        ("xds:\n  maxConnections: many\n", "TRB0102 t.yaml:4:19: xds.maxConnections: "),
        (
            "start:\n  firstSyncTimeout: soon\n",
            "TRB0102 t.yaml:4:21: start.firstSyncTimeout: `soon` is not a duration",
        ),
        (
            "remotes: {secrets: on}\n",
            "TRB0102 t.yaml:3:11: remotes.secrets: Secrets are read from the config cluster, and none is configured",
        ),
        (
            "remotes: {leaveGrace: 0s}\n",
            "TRB0102 t.yaml:3:11: remotes.leaveGrace: is not between 1ms and 24h",
        ),
        ("remotes: {drain: 25h}\n", "TRB0102 t.yaml:3:11: remotes.drain: is longer than 24h"),
        (
            "remotes: {allowKubeconfig: [exec]}\n",
            "TRB0102 t.yaml:3:11: remotes.allowKubeconfig: no such kubeconfig feature",
        ),
        (
            "remotes: {allowServerCidrs: [here]}\n",
            "TRB0102 t.yaml:3:11: remotes.allowServerCidrs: not a range of addresses",
        ),
        (
            "registries:\n- kind: nacos\n",
            "TRB0106 t.yaml:4:3: registries[0].kind: unknown registry kind `nacos`; use one of file, kubernetes, consul",
        ),
        (
            "registries:\n- kind: flie\n",
            "TRB0106 t.yaml:4:3: registries[0].kind: unknown registry kind `flie`",
        ),
        ("registries:\n- name: a\n", "TRB0102 t.yaml:4:3: `registries[0].kind` is missing"),
        (
            "xds:\n  tls:\n    certFile: c\n",
            "TRB0102 t.yaml:5:5: xds.tls.keyFile is missing; set it, or start",
        ),
        (
            "registries:\n- kind: file\n",
            "TRB0102 t.yaml:4:3: registries[0].path: a file registry needs a directory",
        ),
        (
            "registries:\n- {kind: file, path: a, name: x}\n- {kind: file, path: b, name: x}\n",
            "TRB0110 t.yaml:5:25: registries[1].name: name `x` is already used",
        ),
        (
            "registries:\n- {kind: file, path: a, context: b}\n",
            "TRB0102 t.yaml:4:25: registries[0].context: belongs to `kind: kubernetes`, but the kind is file",
        ),
        (
            "registries:\n- {path: a, context: b, kind: file}\n",
            "TRB0102 t.yaml:4:13: registries[0].context: belongs to `kind: kubernetes`, but the kind is file",
        ),
        (
            "registries:\n- {kind: file, path: a, pth: b}\n",
            "TRB0102 t.yaml:4:25: unknown field `registries[0].pth`; did you mean `path`?",
        ),
        (
            "registries:\n- {pth: a, kind: file, path: b}\n",
            "TRB0102 t.yaml:4:4: unknown field `registries[0].pth`; did you mean `path`?",
        ),
        (
            "registries:\n- {addressFamily: fast, kind: consul}\n",
            "TRB0102 t.yaml:4:19: registries[0].addressFamily: `fast` is not valid; use one of",
        ),
        (
            "registries:\n- {kind: consul, tls: {caFle: a}}\n",
            "TRB0102 t.yaml:4:24: unknown field `registries[0].tls.caFle`; did you mean `caFile`?",
        ),
        (
            "registries:\n- kind: consul\n  login:\n    tokenFile: a\n",
            "TRB0102 t.yaml:6:5: `registries[0].login.method` is missing",
        ),
        (
            "registries:\n- {kind: kubernetes, namespaces: []}\n",
            "TRB0102 t.yaml:4:22: registries[0].namespaces: is empty",
        ),
        (
            "registries:\n- {kind: kubernetes, probeInterval: 0s}\n",
            "TRB0102 t.yaml:4:22: registries[0].probeInterval: must be more than 0",
        ),
        (
            "registries:\n- {kind: kubernetes, name: a}\n- {kind: file, path: b, name: a-entries}\n",
            "TRB0110 t.yaml:5:25: registries[1].name: name `a-entries` is already used",
        ),
        (
            "registries:\n- {kind: kubernetes}\n- {kind: kubernetes, context: b}\n",
            "TRB0102 t.yaml:5:3: registries[1].clusterId: cluster `Kubernetes` already belongs to registry `kubernetes`",
        ),
        (
            "registries:\n- {kind: consul, addresses: ['http://u:hunter2@c']}\n",
            "TRB0102 t.yaml:4:30: registries[0].addresses[0]: the address holds a user or password",
        ),
        (
            "registries:\n- {kind: consul, connections: 0}\n",
            "TRB0102 t.yaml:4:18: registries[0].connections: must be more than 0",
        ),
        (
            "registries:\n- {kind: consul, rate: 5, servicePort: 0}\n",
            "TRB0102 t.yaml:4:27: registries[0].servicePort: must be more than 0",
        ),
        (
            "registries:\n- {kind: consul, tokenFile: a, login: {method: b}}\n",
            "TRB0102 t.yaml:4:32: registries[0].login: conflicts with `tokenFile`",
        ),
        (
            "registries:\n- {kind: consul, domain: 'a b'}\n",
            "TRB0102 t.yaml:4:18: registries[0].domain: \"a b\" is not a domain name",
        ),
        (
            "registries:\n- {kind: consul, datacenterTopology: {dc1: {network: 'a b'}}}\n",
            "TRB0102 t.yaml:4:45: registries[0].datacenterTopology.dc1.network: ",
        ),
        (
            "registries:\n- {kind: consul, addressFamily: fast}\n",
            "TRB0102 t.yaml:4:33: registries[0].addressFamily: `fast` is not valid; use one of",
        ),
        (
            "writes: [services]\n",
            "TRB0102 t.yaml:3:10: writes[0]: `services` is not valid; use one of addresses, ",
        ),
        ("systemNamespace: a/b\n", "TRB0102 t.yaml:3:1: systemNamespace: "),
        ("settings: {domain: 'bad domain'}\n", "TRB0102 t.yaml:3:12: settings.domain: "),
        ("settings: {domain: corp.test.}\n", "TRB0102 t.yaml:3:12: settings.domain: "),
        ("settings: {trustDomain: 'a/b'}\n", "TRB0102 t.yaml:3:12: settings.trustDomain: `a/b` is not"),
        (
            "settings: {trustDomainAliases: [old.test, 'a/b']}\n",
            "TRB0102 t.yaml:3:43: settings.trustDomainAliases[1]: `a/b` is not",
        ),
        (
            "settings: {httpRetries: {retryOn: 'a b'}}\n",
            "TRB0102 t.yaml:3:26: settings.httpRetries.retryOn: \"a b\" is not a condition of retries; write",
        ),
        (
            "settings: {httpRetries: {retryOn: 'reset,5xxx'}}\n",
            "TRB0102 t.yaml:3:26: settings.httpRetries.retryOn: \"5xxx\" is not a condition of retries; write",
        ),
        (
            "settings: {httpRetries: {attempts: -3}}\n",
            "TRB0102 t.yaml:3:36: settings.httpRetries.attempts: `-3` is out of range; write a number from 0",
        ),
        (
            "settings: {rootNamespace: Bad_Name}\n",
            "TRB0102 t.yaml:3:12: settings.rootNamespace: `Bad_Name` is not the name of a namespace; write",
        ),
        (
            "settings: {httpRetries: {perTryTimeout: 0s}}\n",
            "TRB0102 t.yaml:3:26: settings.httpRetries.perTryTimeout: is not between 1ms and 1h",
        ),
        (
            "settings: {httpRetries: {backoff: 2h}}\n",
            "TRB0102 t.yaml:3:26: settings.httpRetries.backoff: is not between 1ms and 1h",
        ),
        (
            "settings: {accessLog: {file: /a, encoding: json, format: x}}\n",
            "TRB0102 t.yaml:3:50: settings.accessLog.format: is not a JSON object",
        ),
        (
            "settings: {tracing: {customTags: {a: {}}}}\n",
            "TRB0102 t.yaml:3:22: settings.tracing.customTags: tag \"a\": has not one of literal, environment and header",
        ),
        (
            "settings: {tracing: {customTags: {a: {header: 'x y'}}}}\n",
            "TRB0102 t.yaml:3:22: settings.tracing.customTags: tag \"a\": \"x y\" is not the name of a header",
        ),
        (
            "settings: {tracing: {sampling: 101}}\n",
            "TRB0102 t.yaml:3:32: settings.tracing.sampling: 101 is not a percentage from 0 to 100",
        ),
        (
            "settings: {locality: {distribute: [{from: eu, to: {us: 90}}]}}\n",
            "TRB0102 t.yaml:3:12: settings.locality: the shares of distribute[0].to add up to 90; make them add up to 100",
        ),
        ("revision: a b\n", "TRB0102 t.yaml:3:1: revision: `a b` is not the value of a label"),
        (
            "xds:\n  listen: 0.0.0.0:15010\n",
            "TRB0104 t.yaml:4:3: xds.listen: 0.0.0.0:15010 is not a loopback",
        ),
        ("admin: {listen: '0.0.0.0:1'}\n", "TRB0102 t.yaml:3:9: admin.listen: 0.0.0.0:1 is not a loopback"),
        ("log: {level: 'a=b=c'}\n", "TRB0102 t.yaml:3:7: log.level: "),
        (
            "federatedServices:\n- {host: 'a b', members: [{host: a.b}]}\n",
            "TRB0102 t.yaml:4:4: federatedServices[0].host: ",
        ),
        (
            "federatedServices:\n- {host: a.c, members: [{host: a.b, standby: true}]}\n",
            "TRB0102 t.yaml:4:15: federatedServices[0].members: has standby",
        ),
        ("federatedServices:\n- {host: a.c, members: [{host: a.b, ports: {80: 0}}]}\n", "TRB0102 "),
        (
            "registries: [{kind: file, path: a}, {kind: kubernetes, name: k}]\nfederatedServices:\n- {host: a.c, members: [{host: a.b, registry: east}]}\n",
            "TRB0102 t.yaml:5:37: federatedServices[0].members[0].registry: registry `east` not found; use one of file, k, k-entries",
        ),
        (
            "federatedServices:\n- {host: a.c, members: [{host: a.b}, {host: a.d}, {host: A.B.}]}\n",
            "TRB0102 t.yaml:4:52: federatedServices[0].members[2].host: `A.B.` is listed twice",
        ),
        (
            "federatedServices:\n- {host: a.c, members: [{host: a.c}]}\n",
            "TRB0102 t.yaml:4:15: federatedServices[0].members: names the service itself and no other",
        ),
        (
            "federatedServices:\n- {host: a.c, members: [{host: a.b}]}\n- {host: A.C, members: [{host: a.b}]}\n",
            "TRB0102 t.yaml:5:4: federatedServices[1].host: `A.C` is listed twice",
        ),
        (
            "registries:\n- {kind: file, path: a, staleness: withdraw(0s)}\n",
            "TRB0102 t.yaml:4:25: registries[0].staleness: withdraw(0s) removes every endpoint",
        ),
        (
            "registries:\n- {kind: consul, datacenters: [dc1, dc1]}\n",
            "TRB0102 t.yaml:4:37: registries[0].datacenters[1]: \"dc1\" is listed twice",
        ),
        (
            "registries:\n- {kind: consul, addresses: ['unix:///a'], tls: {caFile: c}}\n",
            "TRB0102 t.yaml:4:44: registries[0].tls: has no effect on a unix socket",
        ),
        ("registries:\n- {kind: file, path: a, name: ''}\n", "TRB0102 t.yaml:4:25: registries[0].name: "),
        (
            "settings:\n  networks: {n: [10.0.0.0/99]}\n",
            "TRB0102 t.yaml:4:18: settings.networks.n[0]: `10.0.0.0/99`",
        ),
        ("xds: {}\nxds: {}\n", "TRB0102 t.yaml:4:1: `xds` is set twice"),
        ("xds: &a {}\nadmin: *a\n", "TRB0102 t.yaml"),
        ("xds: [\n", "TRB0102 t.yaml:3:6: not valid YAML: unclosed bracket"),
        ("a: [\n", "TRB0102 t.yaml:3:4: not valid YAML: unclosed bracket"),
        ("xds:\n\tlisten: a\n", "TRB0102 t.yaml:4:2: not valid YAML: tabs"),
        ("xds: {}\n---\nxds: {}\n", "TRB0102 t.yaml:5:1: a second document starts here"),
        ("clusterId: 'a\n", "TRB0102 t.yaml:4:1: not valid YAML: "),
        ("clusterId: a: b\n", "TRB0102 t.yaml:3:13: not valid YAML: mapping values"),
        ("xds: 127.0.0.1:1\n", "TRB0102 t.yaml:3:6: xds: text is not a mapping"),
        ("registries: file\n", "TRB0102 t.yaml:3:13: registries: text is not a list"),
        ("xds: {maxConnections: -5}\n", "TRB0102 t.yaml:3:23: xds.maxConnections: `-5` is out of range"),
        (
            "xds: {listen: 15010}\n",
            "TRB0102 t.yaml:3:15: xds.listen: `15010` is not an IP address with a port",
        ),
        (
            "settings: {blockUnknown: yes}\n",
            "TRB0102 t.yaml:3:26: settings.blockUnknown: `yes` is not a boolean",
        ),
        ("clusterId:\n", "TRB0102 t.yaml:3:10: clusterId: an empty value is not valid; write text"),
        (
            "drain: {timeout: [3s]}\n",
            "TRB0102 t.yaml:3:18: drain.timeout: a list is not valid; write a duration",
        ),
        (
            "log: {format: XML}\n",
            "TRB0102 t.yaml:3:15: log.format: `XML` is not valid; use one of auto, pretty, json",
        ),
        ("log: {level: loud}\n", "TRB0102 t.yaml:3:7: log.level: `loud` is not a log filter"),
        (
            "registries: [{kind: consul, addresses: ['htp:/x']}]\n",
            "TRB0102 t.yaml:3:41: registries[0].addresses[0]: the address has a path",
        ),
        (
            "registries: [{kind: kubernetes, namespaces: [Shop]}]\n",
            "TRB0102 t.yaml:3:46: registries[0].namespaces[0]: \"Shop\" is not a namespace",
        ),
        ("kind: Config\n", "TRB0102 t.yaml:3:1: `kind` is set twice"),
    ] {
        let error = error_of(body);
        assert!(error.starts_with(expected), "{body:?}\n  gave  {error}\n  not   {expected}");
    }
}

#[test]
fn every_error_of_a_file_is_reported() {
    let lines = |body: &str| -> Vec<String> {
        let failure = mk_loaded(body, Environment::default(), &ServeArgs::default()).unwrap_err();
        failure.message.lines().map(str::to_owned).collect()
    };
    let shape =
        lines("xds: {listen: a, maxConnections: b}\nregistries:\n- {kind: consul, rate: c, tgas: []}\n");
    assert_eq!(shape.len(), 4, "{shape:#?}");
    assert!(
        shape[3].starts_with("TRB0102 t.yaml:5:27: unknown field `registries[0].tgas`; did you mean `tags`?"),
        "{shape:#?}"
    );
    let values =
        lines("clusterId: a b\nregistries:\n- {kind: file}\n- {kind: nacos}\n- {kind: consul, rate: 0}\n");
    let starts = [
        "t.yaml:5:3: registries[0].path: ",
        "TRB0106 t.yaml:6:4: registries[1].kind: ",
        "TRB0102 t.yaml:7:18: registries[2].rate: ",
        "TRB0102 t.yaml:3:1: clusterId: ",
    ];
    assert!(
        values.len() == 4 && values.iter().zip(starts).all(|(line, start)| line.starts_with(start)),
        "{values:#?}"
    );
}

#[test]
fn file_that_cannot_be_read_is_named_with_a_next_step() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("binary"), [0xff; 9]).unwrap();
    for (name, why) in [
        ("absent", "absent: cannot read: no such file\n  next: check the path: "),
        (".", ": a directory, not a file\n  next: name a file in it"),
        ("binary", "binary: not text in UTF-8 from byte 1\n  next: check that"),
    ] {
        let text = ConfigFile::read(&dir.path().join(name)).unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
}

#[test]
fn invalid_variable_is_named_and_not_the_registry() {
    for (name, value, why) in [
        ("CONSUL_HTTP_ADDR", "nonsense://me:hunter2@x", "CONSUL_HTTP_ADDR: the address has a scheme other"),
        ("CONSUL_HTTP_SSL", "maybe", "CONSUL_HTTP_SSL: `maybe` is not a boolean"),
        ("POD_NAMESPACE", "a/b", "POD_NAMESPACE: systemNamespace: "),
        ("TRIBUTARY_DRAIN__TIMEOUT", "30", "TRIBUTARY_DRAIN__TIMEOUT: drain.timeout: `30` is not a duration"),
        ("ISTIO_WATCH_NAMESPACE", "Shop", "ISTIO_WATCH_NAMESPACE: registries[1].namespaces[0]: "),
    ] {
        let body = "registries: [{kind: consul}, {kind: kubernetes}, {kind: consul, name: c}]\n";
        let error = mk_loaded(body, Environment::from([(name, value)]), &ServeArgs::default()).unwrap_err();
        assert!(error.message.starts_with(why) && error.message.lines().count() == 1, "{error}");
        assert_eq!(error.next, "correct the variable or unset it");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn file_needs_its_api_version_and_kind() {
    for (text, expected) in [
        ("kind: Config\n", "t.yaml: apiVersion is missing"),
        ("apiVersion: tributary.dev/v2\nkind: Config\n", "t.yaml:1:1: apiVersion is `tributary.dev/v2`"),
        ("apiVersion: tributary.dev/v1alpha1\nkind: Mesh\n", "t.yaml:2:1: kind is `Mesh`, use `Config`"),
        ("", "t.yaml: apiVersion is missing"),
    ] {
        let message = ConfigFile::parse(Path::new("t.yaml"), text).unwrap_err().message;
        assert!(message.starts_with(expected), "{text:?}: {message}");
    }
}

#[test]
fn secret_of_a_registry_is_in_no_error() {
    let consul = "registries:\n- kind: consul\n  name: c\n";
    for (fields, wanted) in [
        ("  token: 720720\n", "write it in quotes"),
        ("  token: [720720]\n", "write it in quotes"),
        ("  token: '720720'\n  tokenFile: f\n", "registries[0].token: conflicts with `tokenFile`"),
        ("  token: '720720'\n  tokne: x\n", "unknown field"),
        ("  token: \"720720\\n\"\n", "registries[0].token: holds characters"),
    ] {
        let failure = mk_loaded(&format!("{consul}{fields}"), Environment::default(), &ServeArgs::default());
        let failure = failure.unwrap_err();
        let text = format!("{failure} {failure:?}");
        assert!(text.contains(wanted) && !text.contains("720720"), "{text}");
    }
    let config =
        mk_loaded(&format!("{consul}  token: '720720'\n"), Environment::default(), &ServeArgs::default());
    assert!(!format!("{:?}", config.unwrap().config).contains("720720"));
}
