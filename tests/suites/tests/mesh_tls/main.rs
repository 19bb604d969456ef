//! Mesh TLS through real Envoys: a sidecar connects with certificates of a test authority to the Envoy of a workload, whose one
//! port takes mesh TLS and plain text. The workload's Envoy answers with another backend for each, so that every answer shows
//! how its request arrived.

mod authorization;
mod grpc_server;
mod inbound;
mod tables;
mod tokens;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use envoy_types::pb::envoy::config::core::v3::{DataSource, data_source::Specifier};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate, secret::Type,
};
use serde_json::{Value, json};
use tributary_suites::ads::SDS;
use tributary_suites::http_client::get_as;
use tributary_suites::{
    Authority, Backend, Entry, Envoy, EnvoyConfig, Files, GrpcClient, GrpcConfig, GrpcServer, Identity,
    Language, Load, LoadPlan, ScriptedAds, ServerOptions, TestServer, Variant, Workload, eventually,
    outbound, ports,
};

const SOON: Duration = Duration::from_secs(20);
const NO_HEADER: (&str, &str) = ("x-test", "1");
/// Identity of the sidecar that sends the requests.
const WEB: &str = "spiffe://cluster.local/ns/default/sa/web";
/// Identity of the workload that answers them.
const PAY: &str = "spiffe://cluster.local/ns/default/sa/pay";

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A mesh of one authority: the identity of the sidecar, and two backends.
struct Mesh {
    authority: Authority,
    web: Identity,
    by_tls: Backend,
    plain: Backend,
    files: Files,
    config: Files,
    port: u16,
}

impl Mesh {
    async fn new() -> Result<Self> {
        let authority = Authority::new()?;
        Ok(Self {
            web: authority.workload("web", WEB)?,
            authority,
            by_tls: Backend::start("tls").await?,
            plain: Backend::start("plain").await?,
            files: Files::new()?,
            config: Files::new()?,
            port: ports::free_port()?,
        })
    }

    /// Returns a workload with this identity on a free port that takes mesh TLS and plain text. TLS must come from the sidecar
    /// and request the server name of the host.
    fn workload(&self, name: &str, uri: &str, host: &str) -> Result<(SocketAddr, Workload)> {
        let at = ports::free_addr()?;
        let identity = self.authority.workload(name, uri)?;
        let sni = format!("outbound_.{}_._.{host}", self.port);
        let workload = Workload::new(at, &self.authority, &identity, self.by_tls.addr());
        Ok((at, workload.plain(self.plain.addr()).server_name(&sni).client(WEB)))
    }

    fn entry(&self, host: &str) -> Entry {
        Entry::http(host, self.port)
    }

    fn put(&self, host: &str, entry: &Entry) -> Result<()> {
        self.files.put(&format!("{host}.yaml"), &entry.yaml())
    }

    /// Writes a service, and a rule with this `tls` for it.
    fn put_ruled(&self, host: &str, entry: &Entry, tls: &str) -> Result<()> {
        let rule = format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n\
             metadata: {{name: {}, namespace: default}}\n\
             spec: {{host: {host}, trafficPolicy: {{tls: {tls}}}}}\n",
            host.replace('.', "-")
        );
        self.files.put(&format!("{host}.yaml"), &format!("{}---\n{rule}", entry.yaml()))
    }

    /// Starts a server of secrets with the certificate of the sidecar.
    async fn agent(&self) -> Result<ScriptedAds> {
        let agent = ScriptedAds::start().await?;
        agent.put(SDS, &secrets(&self.web, &self.authority));
        Ok(agent)
    }

    /// Returns the metadata of a sidecar whose certificates are files.
    fn with_files(&self) -> Value {
        sidecar(json!({
            "TLS_CLIENT_CERT_CHAIN": self.web.certificate_file,
            "TLS_CLIENT_KEY": self.web.key_file,
            "TLS_CLIENT_ROOT_CERT": self.authority.file(),
        }))
    }

    /// Waits until a request for a host has this status, and returns the body.
    async fn answers(&self, host: &str, status: u16) -> Result<String> {
        eventually(&format!("{host} to answer {status}"), SOON, || async {
            let (found, body) = get_as(local(self.port), host, NO_HEADER).await?;
            ensure!(found.as_u16() == status, "it answers {found}: {body}");
            Ok(body)
        })
        .await
    }

    async fn server(&self) -> Result<TestServer> {
        self.server_with(json!({})).await
    }

    /// Starts a server with the automatic choice of mesh TLS, and with these settings.
    async fn server_with(&self, mut settings: Value) -> Result<TestServer> {
        settings["autoMtls"] = json!(true);
        let config = json!({"apiVersion": "tributary.dev/v1alpha1", "kind": "Config", "settings": settings});
        self.config.put("config.yaml", &config.to_string())?;
        let options = ServerOptions::files(self.files.path()).config(&self.config.path().join("config.yaml"));
        TestServer::start(options).await
    }
}

/// Returns the metadata of a sidecar whose listeners bind, with these fields.
fn sidecar(more: Value) -> Value {
    let mut metadata =
        json!({"NAMESPACE": "default", "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE"});
    for (name, value) in more.as_object().into_iter().flatten() {
        metadata[name] = value.clone();
    }
    metadata
}

fn of_agent() -> Value {
    sidecar(json!({"ISTIO_VERSION": "1.30.3"}))
}

fn inline(text: &str) -> Option<DataSource> {
    Some(DataSource { specifier: Some(Specifier::InlineString(text.into())), ..DataSource::default() })
}

fn secrets(identity: &Identity, authority: &Authority) -> [(&'static str, Secret); 2] {
    let own = Type::TlsCertificate(TlsCertificate {
        certificate_chain: inline(&identity.certificate),
        private_key: inline(&identity.key),
        ..TlsCertificate::default()
    });
    let roots = Type::ValidationContext(CertificateValidationContext {
        trusted_ca: inline(authority.certificate()),
        ..CertificateValidationContext::default()
    });
    let secret = |name: &'static str, content| (name, Secret { name: name.into(), r#type: Some(content) });
    [secret("default", own), secret("ROOTCA", roots)]
}

/// Endpoints that accept mesh TLS get it, others plain text; each endpoint of a service by its own.
async fn endpoints_decide(variant: Variant) -> Result<()> {
    let mesh = Mesh::new().await?;
    let (meshed, of_meshed) = mesh.workload("pay", PAY, "meshed.test")?;
    let (both, of_both) = mesh.workload("both", PAY, "both.test")?;
    mesh.put("meshed.test", &mesh.entry("meshed.test").with(meshed, "serviceAccount: pay"))?;
    mesh.put("plain.test", &mesh.entry("plain.test").at(meshed))?;
    let labelled = "serviceAccount: pay, labels: {security.istio.io/tlsMode: disabled}";
    mesh.put("off.test", &mesh.entry("off.test").with(meshed, labelled))?;
    let mixed = mesh.entry("both.test").with(both, "serviceAccount: pay").at(mesh.plain.addr());
    mesh.put("both.test", &mixed)?;
    let external = mesh.entry("external.test").with(meshed, "serviceAccount: pay").yaml();
    mesh.files.put("external.yaml", &external.replace("MESH_INTERNAL", "MESH_EXTERNAL"))?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![of_meshed, of_both])).await?;
    let (server, agent) = (mesh.server().await?, mesh.agent().await?);
    let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(of_agent());
    let envoy = Envoy::start(&config.secrets_at("sds-grpc", agent.addr())).await?;
    envoy.live(SOON).await?;
    for (host, how) in
        [("meshed.test", "tls"), ("plain.test", "plain"), ("off.test", "plain"), ("external.test", "plain")]
    {
        assert_eq!(mesh.answers(host, 200).await?, how, "{host}");
    }
    let load = Load::start(&LoadPlan::to(local(mesh.port)).host("both.test"));
    load.reaches("tls", 10, SOON).await?;
    load.reaches("plain", 10, SOON).await?;
    load.finish().await.check_clean()?;
    assert_eq!(envoy.refused().await?, 0);
    ensure!(agent.requests().iter().any(|request| request.type_url == SDS), "the agent was not asked");
    Ok(())
}

#[tokio::test]
async fn endpoints_decide_between_mesh_tls_and_plain_text_sotw() -> Result<()> {
    endpoints_decide(Variant::Sotw).await
}

#[tokio::test]
async fn endpoints_decide_between_mesh_tls_and_plain_text_delta() -> Result<()> {
    endpoints_decide(Variant::Delta).await
}

/// A server that proves another identity than those of the service's endpoints is refused, also if the authority signed it;
/// one of an alias of the trust domain is not.
#[tokio::test]
async fn server_with_a_wrong_identity_is_refused() -> Result<()> {
    let mesh = Mesh::new().await?;
    let cases = [
        ("right.test", PAY, 200),
        ("wrong.test", "spiffe://cluster.local/ns/default/sa/other", 503),
        ("longer.test", "spiffe://cluster.local/ns/default/sa/pay/more", 503),
        ("alias.test", "spiffe://old/ns/default/sa/pay", 200),
        ("stranger.test", "spiffe://strange/ns/default/sa/pay", 503),
    ];
    let mut workloads = Vec::new();
    for (host, uri, _) in cases {
        let (at, workload) = mesh.workload(host, uri, host)?;
        mesh.put(host, &mesh.entry(host).with(at, "serviceAccount: pay"))?;
        workloads.push(workload);
    }
    let server = mesh.server_with(json!({"trustDomainAliases": ["old"]})).await?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(workloads)).await?;
    let agent = mesh.agent().await?;
    for variant in Variant::BOTH {
        let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(of_agent());
        let envoy = Envoy::start(&config.secrets_at("sds-grpc", agent.addr())).await?;
        envoy.live(SOON).await?;
        for (host, uri, status) in cases {
            mesh.answers(host, status).await?;
            let failed = format!("cluster.{}.ssl.fail_verify_san", outbound(mesh.port, host));
            assert_eq!(envoy.stat(&failed).await? > 0, status == 503, "{host} proves {uri}");
        }
    }
    Ok(())
}

/// The endpoints of a service get a sidecar, and lose it again, under traffic: no request fails.
async fn switch_is_clean(variant: Variant) -> Result<()> {
    let mesh = Mesh::new().await?;
    let (host, mut ends, mut workloads) = ("switch.test", Vec::new(), Vec::new());
    for name in ["one", "two"] {
        let (at, workload) = mesh.workload(name, PAY, host)?;
        ends.push(at);
        workloads.push(workload);
    }
    let put = |meshed: usize| {
        let entry = ends.iter().enumerate().fold(mesh.entry(host), |entry, (n, at)| {
            if n < meshed { entry.with(*at, "serviceAccount: pay") } else { entry.at(*at) }
        });
        mesh.put(host, &entry)
    };
    put(0)?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(workloads)).await?;
    let (server, agent) = (mesh.server().await?, mesh.agent().await?);
    let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(of_agent());
    let envoy = Envoy::start(&config.secrets_at("sds-grpc", agent.addr())).await?;
    envoy.live(SOON).await?;
    let load = Load::start(&LoadPlan::to(local(mesh.port)).host(host).at_least(200.0));
    load.reaches("plain", 50, SOON).await?;
    ensure!(load.tally().of("tls") == 0, "no endpoint accepts mesh TLS yet");
    for meshed in [1, 2, 1, 0, 2, 0, 2] {
        put(meshed)?;
        if meshed > 0 {
            load.reaches("tls", 50, SOON).await?;
        }
        if meshed < ends.len() {
            load.reaches("plain", 50, SOON).await?;
        }
    }
    load.keeps(200.0, SOON).await?;
    load.finish().await.check_clean()?;
    assert_eq!(envoy.refused().await?, 0);
    Ok(())
}

#[tokio::test]
async fn endpoints_switch_to_mesh_tls_and_back_under_load_sotw() -> Result<()> {
    switch_is_clean(Variant::Sotw).await
}

#[tokio::test]
async fn endpoints_switch_to_mesh_tls_and_back_under_load_delta() -> Result<()> {
    switch_is_clean(Variant::Delta).await
}

/// A rule decides for all endpoints; certificates come from files that the node names, by SDS of this server.
#[tokio::test]
async fn rules_require_and_disable_mesh_tls() -> Result<()> {
    let mesh = Mesh::new().await?;
    let (plain, of_plain) = mesh.workload("a", PAY, "always.test")?;
    let (named, of_named) = mesh.workload("b", "spiffe://x/y", "front.test")?;
    let (off, of_off) = mesh.workload("c", PAY, "never.test")?;
    let of_named = of_named.server_name("front.example");
    mesh.put_ruled("always.test", &mesh.entry("always.test").at(plain), "{mode: ISTIO_MUTUAL}")?;
    let tls = "{mode: ISTIO_MUTUAL, sni: front.example, subjectAltNames: ['spiffe://x/y']}";
    mesh.put_ruled("front.test", &mesh.entry("front.test").with(named, "serviceAccount: pay"), tls)?;
    mesh.put_ruled(
        "never.test",
        &mesh.entry("never.test").with(off, "serviceAccount: pay"),
        "{mode: DISABLE}",
    )?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![of_plain, of_named, of_off])).await?;
    let server = mesh.server().await?;
    for variant in Variant::BOTH {
        let config = EnvoyConfig::new(server.xds(), variant).sidecar("web").metadata(mesh.with_files());
        let envoy = Envoy::start(&config).await?;
        envoy.live(SOON).await?;
        for (host, how) in [("always.test", "tls"), ("front.test", "tls"), ("never.test", "plain")] {
            assert_eq!(mesh.answers(host, 200).await?, how, "{host}");
        }
        assert_eq!((envoy.refused().await?, envoy.warming_clusters().await?), (0, 0));
    }
    Ok(())
}

/// A sidecar without certificates connects in plain text, also to endpoints that accept mesh TLS, and has no xDS cluster where
/// a rule requires it.
#[tokio::test]
async fn sidecar_without_certificates_has_no_mesh_tls() -> Result<()> {
    let mesh = Mesh::new().await?;
    let (at, workload) = mesh.workload("pay", PAY, "meshed.test")?;
    mesh.put("meshed.test", &mesh.entry("meshed.test").with(at, "serviceAccount: pay"))?;
    mesh.put_ruled("always.test", &mesh.entry("always.test").at(at), "{mode: ISTIO_MUTUAL}")?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![workload])).await?;
    let server = mesh.server().await?;
    let envoy = Envoy::start(&EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("web")).await?;
    envoy.live(SOON).await?;
    assert_eq!(mesh.answers("meshed.test", 200).await?, "plain");
    mesh.answers("always.test", 503).await?;
    ensure!(!envoy.clusters().await?.contains(&outbound(mesh.port, "always.test")), "it may not be plain");
    Ok(())
}

/// A certificate of the sidecar that its agent replaces is used for new connections, without an update of the server.
#[tokio::test]
async fn certificates_are_replaced_by_the_agent() -> Result<()> {
    let mesh = Mesh::new().await?;
    let (at, workload) = mesh.workload("pay", PAY, "meshed.test")?;
    mesh.put("meshed.test", &mesh.entry("meshed.test").with(at, "serviceAccount: pay"))?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![workload])).await?;
    let (server, agent) = (mesh.server().await?, ScriptedAds::start().await?);
    let other = mesh.authority.workload("other", "spiffe://cluster.local/ns/default/sa/other")?;
    agent.put(SDS, &secrets(&other, &mesh.authority));
    let config = EnvoyConfig::new(server.xds(), Variant::Delta).sidecar("web").metadata(of_agent());
    let envoy = Envoy::start(&config.secrets_at("sds-grpc", agent.addr())).await?;
    envoy.live(SOON).await?;
    mesh.answers("meshed.test", 503).await?;
    agent.put(SDS, &secrets(&mesh.web, &mesh.authority));
    assert_eq!(mesh.answers("meshed.test", 200).await?, "tls");
    Ok(())
}

/// Another server of secrets, such as SPIRE's, serves a client that names it, if the settings list it; an Envoy that is no
/// sidecar may have certificates too.
#[tokio::test]
async fn settings_list_servers_of_secrets() -> Result<()> {
    let mesh = Mesh::new().await?;
    let (at, workload) = mesh.workload("pay", PAY, "meshed.test")?;
    mesh.put("meshed.test", &mesh.entry("meshed.test").with(at, "serviceAccount: pay"))?;
    let _workloads = Envoy::start(&EnvoyConfig::of_workloads(vec![workload])).await?;
    let (server, agent) = (mesh.server_with(json!({"sdsClusters": ["spire"]})).await?, mesh.agent().await?);
    let cluster = outbound(mesh.port, "meshed.test");
    for (name, how) in [("spire", "tls"), ("unlisted", "plain")] {
        let config = EnvoyConfig::new(server.xds(), Variant::Delta).listen_for(&cluster);
        let config = config.metadata(json!({"NAMESPACE": "default", "SDS_CLUSTER": name}));
        let envoy = Envoy::start(&config.secrets_at(name, agent.addr())).await?;
        envoy.has_hosts(&cluster, &[at], SOON).await?;
        envoy.live(SOON).await?;
        let (status, body) = get_as(envoy.listener(0)?, "meshed.test", NO_HEADER).await?;
        assert_eq!((status.as_u16(), body.as_str()), (200, how), "{name}");
        assert_eq!(envoy.refused().await?, 0);
    }
    Ok(())
}

/// A rule with ISTIO_MUTUAL makes a gRPC client use the certificate provider of its bootstrap, and verify the identities of the
/// service.
#[tokio::test]
async fn grpc_client_uses_its_certificate_provider() -> Result<()> {
    let mesh = Mesh::new().await?;
    let (right, of_right) = mesh.workload("right", PAY, "right.test")?;
    let (wrong, of_wrong) =
        mesh.workload("wrong", "spiffe://cluster.local/ns/default/sa/other", "wrong.test")?;
    for (host, at) in [("right.test", right), ("wrong.test", wrong)] {
        let entry = mesh.entry(host).protocol("GRPC").with(at, "serviceAccount: pay");
        mesh.put_ruled(host, &entry, "{mode: ISTIO_MUTUAL}")?;
    }
    let plain = mesh.entry("plain.test").protocol("GRPC").at(mesh.plain.addr());
    mesh.put("plain.test", &plain)?;
    let workloads = EnvoyConfig::of_workloads(vec![of_right.grpc(), of_wrong.grpc()]);
    let _workloads = Envoy::start(&workloads).await?;
    let server = mesh.server().await?;
    let config = GrpcConfig::new(server.xds()).certificates(&mesh.authority, &mesh.web);
    let mut client = GrpcClient::start(Language::Python, &config).await?;
    for (host, backend) in [("right.test", "tls"), ("plain.test", "plain")] {
        let called = client.call(&format!("{host}:{}", mesh.port), SOON, true).await?;
        ensure!(called.ok && called.backend == backend, "{host}: {called:?}");
    }
    let called = client.call(&format!("wrong.test:{}", mesh.port), SOON, false).await?;
    ensure!(!called.ok && called.code == "UNAVAILABLE", "it proves another identity: {called:?}");
    server.is_content("grpc-under-test", SOON).await.map(drop)
}
