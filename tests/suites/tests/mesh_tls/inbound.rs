//! Both ends of a connection are sidecars of the server: the inbound listener takes mesh TLS and plain text, and gives the
//! application the identity of the client.

use anyhow::Context as _;
use tributary_suites::Echo;

use super::*;

/// The endpoint of the service accepts mesh TLS.
const MESHED: &str = "serviceAccount: pay, labels: {app: pay}";
const CERTIFICATE_HEADER: &str = "x-forwarded-client-cert";

/// A workload whose sidecar receives on a port of its own and passes requests on to an echo server.
pub(super) struct Callee {
    pub(super) mesh: Mesh,
    pub(super) at: SocketAddr,
    echo: Echo,
}

impl Callee {
    /// Declares the service `pay.test` of this protocol, whose endpoint accepts mesh TLS.
    pub(super) async fn new(protocol: &str) -> Result<Self> {
        let (mesh, at, echo) = (Mesh::new().await?, ports::free_addr()?, Echo::start().await?);
        mesh.put("pay.test", &mesh.entry("pay.test").protocol(protocol).with(at, MESHED))?;
        let callee = Self { mesh, at, echo };
        callee.import(protocol, "~/*")?;
        Ok(callee)
    }

    /// Writes the Sidecar of the workload, which imports these hosts.
    pub(super) fn import(&self, protocol: &str, hosts: &str) -> Result<()> {
        let sidecar = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "Sidecar",
            "metadata": {"name": "pay", "namespace": "default"},
            "spec": {
                "workloadSelector": {"labels": {"app": "pay"}},
                "egress": [{"hosts": [hosts]}],
                "ingress": [{
                    "port": {"number": self.at.port(), "protocol": protocol, "name": "main"}, "bind": "127.0.0.1",
                    "captureMode": "NONE", "defaultEndpoint": format!("127.0.0.1:{}", self.echo.addr().port()),
                }],
            },
        });
        self.mesh.files.put("sidecar.yaml", &sidecar.to_string())
    }

    /// Starts the sidecar of the workload.
    pub(super) async fn sidecar(&self, server: &TestServer) -> Result<Envoy> {
        let identity = self.mesh.authority.workload("callee", PAY)?;
        let mut metadata = self.of_files(&identity);
        metadata["LABELS"] = json!({"app": "pay"});
        started(server, "pay", metadata).await
    }

    /// Starts a sidecar that sends requests with this identity.
    pub(super) async fn caller(&self, server: &TestServer, uri: &str) -> Result<Envoy> {
        let identity = self.mesh.authority.workload("caller", uri)?;
        started(server, "web", self.of_files(&identity)).await
    }

    /// Writes a PeerAuthentication of namespace `default` with this `spec`.
    fn peers(&self, name: &str, spec: &str) -> Result<()> {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n\
             metadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
        );
        self.mesh.files.put(&format!("peers-{name}.yaml"), &text)
    }

    /// Waits until plain text is refused, or answered with 200.
    pub(super) async fn plain_is(&self, accepted: bool) -> Result<()> {
        eventually(&format!("plain text to be accepted: {accepted}"), SOON, || async {
            let answer = get_as(self.at, "pay.test", NO_HEADER).await;
            ensure!(answer.as_ref().is_ok_and(|(status, _)| *status == 200) == accepted, "{answer:?}");
            Ok(())
        })
        .await
    }

    fn of_files(&self, identity: &Identity) -> Value {
        sidecar(json!({
            "TLS_CLIENT_CERT_CHAIN": identity.certificate_file,
            "TLS_CLIENT_KEY": identity.key_file,
            "TLS_CLIENT_ROOT_CERT": self.mesh.authority.file(),
        }))
    }

    /// Number of TLS handshakes that the workload's sidecar has accepted.
    async fn handshakes(&self, envoy: &Envoy) -> Result<u64> {
        envoy.stat(&format!("listener.127.0.0.1_{}.ssl.handshake", self.at.port())).await
    }
}

pub(super) async fn started(server: &TestServer, name: &str, metadata: Value) -> Result<Envoy> {
    let config = EnvoyConfig::new(server.xds(), Variant::Delta).sidecar(name).metadata(metadata);
    let envoy = Envoy::start(&config).await?;
    envoy.live(SOON).await?;
    Ok(envoy)
}

#[tokio::test]
async fn application_gets_the_identity_of_the_client() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    let answer = callee.mesh.answers("pay.test", 200).await?;
    let header = answer.lines().find(|line| line.starts_with(CERTIFICATE_HEADER)).unwrap_or_default();
    ensure!(header.contains(&format!("URI={WEB}")) && header.contains(&format!("By={PAY}")), "{answer}");
    ensure!(callee.handshakes(&own).await? > 0, "the connection was not TLS");
    // the same port takes plain text, whose sender proves nothing
    let forged = (CERTIFICATE_HEADER, "URI=spiffe://cluster.local/ns/default/sa/admin");
    let (status, answer) = get_as(callee.at, "pay.test", forged).await?;
    ensure!(status == 200 && !answer.contains(CERTIFICATE_HEADER), "{status}: {answer}");
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

#[tokio::test]
async fn client_of_another_trust_domain_is_refused() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server_with(json!({"trustDomainAliases": ["old"]})).await?;
    let own = callee.sidecar(&server).await?;
    for (uri, status) in [
        ("spiffe://strange/ns/default/sa/web", 503),
        ("spiffe://cluster.local.evil/ns/default/sa/web", 503),
        ("spiffe://old/ns/default/sa/web", 200),
    ] {
        let _web = callee.caller(&server, uri).await?;
        callee.mesh.answers("pay.test", status).await?;
    }
    let failed = format!("listener.127.0.0.1_{}.ssl.fail_verify_san", callee.at.port());
    ensure!(own.stat(&failed).await? > 0, "the callee refused them");
    Ok(())
}

/// A port of another protocol: mesh TLS ends at the sidecar, and TLS of the application passes through it.
#[tokio::test]
async fn port_without_http_takes_mesh_tls_and_other_connections() -> Result<()> {
    let callee = Callee::new("TCP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    let answer = callee.mesh.answers("pay.test", 200).await?;
    ensure!(!answer.contains(CERTIFICATE_HEADER), "connections have no headers: {answer}");
    ensure!(callee.handshakes(&own).await? > 0, "the connection was not TLS");
    let (status, _) = get_as(callee.at, "pay.test", NO_HEADER).await?;
    ensure!(status == 200, "plain text: {status}");
    let before = callee.echo.requests();
    let tls = callee.mesh.authority.connect(callee.at, None).await;
    ensure!(tls.is_err(), "the echo server has no TLS");
    let passed = format!("tcp.inbound|{}||.downstream_cx_total", callee.at.port());
    ensure!(own.stat(&passed).await? >= 3, "a greeting without a protocol of the mesh passes on");
    assert_eq!(callee.echo.requests(), before);
    Ok(())
}

/// PeerAuthentications change under traffic of mesh TLS, and no request of it fails; plain text is refused where it must be.
#[tokio::test]
async fn strict_refuses_plain_text_under_traffic() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    let load = Load::start(&LoadPlan::to(local(callee.mesh.port)).host("pay.test"));
    let port = callee.at.port();
    callee.plain_is(true).await?;
    for (name, spec, accepted) in [
        ("default", "{mtls: {mode: STRICT}}".to_owned(), false),
        ("pay", "{selector: {matchLabels: {app: pay}}, mtls: {mode: PERMISSIVE}}".to_owned(), true),
        (
            "pay",
            format!(
                "{{selector: {{matchLabels: {{app: pay}}}}, portLevelMtls: {{{port}: {{mode: STRICT}}}}}}"
            ),
            false,
        ),
        (
            "pay",
            format!(
                "{{selector: {{matchLabels: {{app: pay}}}}, portLevelMtls: {{{port}: {{mode: PERMISSIVE}}}}}}"
            ),
            true,
        ),
        ("pay", "{selector: {matchLabels: {app: cart}}, mtls: {mode: PERMISSIVE}}".to_owned(), false),
    ] {
        callee.peers(name, &spec)?;
        callee.plain_is(accepted).await.with_context(|| spec.clone())?;
    }
    load.finish().await.check_clean()?;
    assert_eq!((own.refused().await?, web.refused().await?), (0, 0));
    Ok(())
}

/// Clients send plain text to a workload whose mode is DISABLE, and mesh TLS again without it.
#[tokio::test]
async fn disabled_workload_gets_plain_text() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let disable = "{selector: {matchLabels: {app: pay}}, mtls: {mode: DISABLE}}";
    callee.peers("pay", disable)?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    let answer = callee.mesh.answers("pay.test", 200).await?;
    ensure!(!answer.contains(CERTIFICATE_HEADER), "plain text proves nothing: {answer}");
    assert_eq!(callee.handshakes(&own).await?, 0);
    callee.peers("pay", &disable.replace("DISABLE", "UNSET"))?;
    eventually("mesh TLS", SOON, || async {
        let answer = callee.mesh.answers("pay.test", 200).await?;
        ensure!(answer.contains(CERTIFICATE_HEADER), "{answer}");
        Ok(())
    })
    .await
}

/// A sidecar without certificates cannot prove who its clients are, so it refuses what must have mesh TLS, and shows it.
#[tokio::test]
async fn strict_sidecar_without_certificates_refuses_every_connection() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    callee.peers("default", "{mtls: {mode: STRICT}}")?;
    let server = callee.mesh.server().await?;
    let own = started(&server, "pay", sidecar(json!({"LABELS": {"app": "pay"}}))).await?;
    callee.plain_is(false).await?;
    let (_, shown, _) = server.command(&["get", "clients", "-o", "wide"]).await?;
    ensure!(shown.contains("TRB0610"), "{shown}");
    callee.peers("default", "{mtls: {mode: PERMISSIVE}}")?;
    callee.plain_is(true).await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}
