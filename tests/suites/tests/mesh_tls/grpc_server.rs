//! Real gRPC servers whose listeners this server configures: mesh TLS by PeerAuthentications, and AuthorizationPolicies.

use anyhow::Context as _;
use tributary_suites::grpc::Called;

use super::*;

/// Target whose rule makes the client use its certificates.
const MESHED: &str = "meshed.test";
/// Target to which the client connects in plain text.
const PLAIN: &str = "plain.test";

/// A gRPC server that two services lead to, and a client of both.
struct Served {
    mesh: Mesh,
    at: SocketAddr,
    server: TestServer,
    _callee: GrpcServer,
}

impl Served {
    /// Starts the gRPC server; its node has these labels.
    async fn new(labels: Value) -> Result<Self> {
        Self::with(labels, true).await
    }

    /// Starts the gRPC server, with or without certificates.
    async fn with(labels: Value, has_certificates: bool) -> Result<Self> {
        let (mesh, at) = (Mesh::new().await?, ports::free_addr()?);
        let entry = |host| mesh.entry(host).protocol("GRPC").with(at, "serviceAccount: pay");
        mesh.put_ruled(MESHED, &entry(MESHED), "{mode: ISTIO_MUTUAL}")?;
        mesh.put_ruled(PLAIN, &entry(PLAIN), "{mode: DISABLE}")?;
        let server = mesh.server().await?;
        let identity = mesh.authority.workload("callee", PAY)?;
        let metadata = json!({"GENERATOR": "grpc", "NAMESPACE": "default", "LABELS": labels});
        let config = GrpcConfig::new(server.xds()).node_id(ID);
        let config = config.metadata(metadata);
        let config = if has_certificates { config.certificates(&mesh.authority, &identity) } else { config };
        let callee = GrpcServer::start(at, "pay", &config).await?;
        Ok(Self { mesh, at, server, _callee: callee })
    }

    /// Writes a policy of namespace `default`.
    fn policy(&self, kind: &str, name: &str, spec: &str) -> Result<()> {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
        );
        self.mesh.files.put(&format!("{kind}-{name}.yaml"), &text)
    }

    /// Starts a client with this identity.
    async fn client(&self, uri: &str) -> Result<GrpcClient> {
        let identity = self.mesh.authority.workload(&uri.replace([':', '/'], "-"), uri)?;
        let config = GrpcConfig::new(self.server.xds()).certificates(&self.mesh.authority, &identity);
        GrpcClient::start(Language::Python, &config).await
    }

    /// Calls a method of a target until the outcome is as wanted: a backend, or a status code.
    async fn answers(&self, client: &mut GrpcClient, host: &str, path: &str, want: &str) -> Result<()> {
        let target = format!("{host}:{}", self.mesh.port);
        let client = tokio::sync::Mutex::new(client);
        eventually(&format!("{path} of {host} to give {want}"), SOON, || async {
            let called = client.lock().await.call_at_once(&target, path, &[]).await?;
            ensure!(shown(&called) == want, "{called:?}");
            Ok(())
        })
        .await
    }
}

fn shown(called: &Called) -> &str {
    if called.ok { &called.backend } else { &called.code }
}

const ID: &str = "sidecar~127.0.0.1~pay-1.default~default.svc.cluster.local";
const ECHO: &str = "/tributary.test.Echo/Call";
const BY_WEB: &str = "pay spiffe://cluster.local/ns/default/sa/web";

/// A port takes mesh TLS or plain text as PeerAuthentications set it; PERMISSIVE is what its workload is declared to accept.
#[tokio::test]
async fn grpc_server_takes_mesh_tls_or_plain_text_by_mode() -> Result<()> {
    let served = Served::new(json!({"app": "pay"})).await?;
    let mut web = served.client(WEB).await?;
    served.answers(&mut web, PLAIN, ECHO, "pay").await?;
    served.answers(&mut web, MESHED, ECHO, "UNAVAILABLE").await?;
    let other = served.at.port() ^ 1;
    let of_port = format!(
        "{{selector: {{matchLabels: {{app: pay}}}}, mtls: {{mode: DISABLE}}, portLevelMtls: {{{}: {{mode: STRICT}}}}}}",
        served.at.port()
    );
    let of_other = format!(
        "{{selector: {{matchLabels: {{app: pay}}}}, mtls: {{mode: DISABLE}}, portLevelMtls: {{{other}: {{mode: STRICT}}}}}}"
    );
    let cases = [
        ("{mtls: {mode: STRICT}}", true),
        ("{mtls: {mode: PERMISSIVE}}", false),
        (&of_port, true),
        (&of_other, false),
    ];
    for (spec, is_meshed) in cases {
        served.policy("PeerAuthentication", "own", spec)?;
        let (meshed, plain) = if is_meshed { (BY_WEB, "UNAVAILABLE") } else { ("UNAVAILABLE", "pay") };
        served.answers(&mut web, MESHED, ECHO, meshed).await.with_context(|| spec.to_owned())?;
        served.answers(&mut web, PLAIN, ECHO, plain).await.with_context(|| spec.to_owned())?;
    }
    Ok(())
}

/// A server whose labels declare mesh TLS takes it without any policy. Clients of other trust domains are refused, also if the
/// authority signed them.
#[tokio::test]
async fn grpc_server_with_mesh_tls_refuses_other_trust_domains() -> Result<()> {
    let served = Served::new(json!({"security.istio.io/tlsMode": "istio"})).await?;
    let mut web = served.client(WEB).await?;
    served.answers(&mut web, MESHED, ECHO, BY_WEB).await?;
    served.answers(&mut web, PLAIN, ECHO, "UNAVAILABLE").await?;
    for stranger in ["spiffe://strange/ns/default/sa/web", "spiffe://cluster.local.strange/ns/default/sa/web"]
    {
        let mut client = served.client(stranger).await?;
        served
            .answers(&mut client, MESHED, ECHO, "PERMISSION_DENIED")
            .await
            .with_context(|| stranger.to_owned())?;
    }
    Ok(())
}

/// AuthorizationPolicies decide by identity and method; what a gRPC server cannot check refuses.
#[tokio::test]
async fn grpc_server_applies_authorization_policies() -> Result<()> {
    let served = Served::new(json!({"security.istio.io/tlsMode": "istio"})).await?;
    let (mut web, mut other) =
        (served.client(WEB).await?, served.client("spiffe://cluster.local/ns/other/sa/x").await?);
    served.answers(&mut web, MESHED, ECHO, BY_WEB).await?;
    let cases = [
        ("{}", [false; 3]),
        ("{rules: [{}]}", [true; 3]),
        (
            "{rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/web]}}]}]}",
            [true, true, false],
        ),
        ("{rules: [{from: [{source: {namespaces: [default]}}]}]}", [true, true, false]),
        ("{rules: [{to: [{operation: {paths: [/tributary.test.Echo/*]}}]}]}", [true, false, true]),
        ("{rules: [{to: [{operation: {hosts: [meshed.test, 'meshed.test:*']}}]}]}", [true; 3]),
        ("{rules: [{to: [{operation: {methods: [GET]}}]}]}", [false; 3]),
        ("{action: DENY, rules: [{to: [{operation: {paths: [/a.B/C]}}]}]}", [true, false, true]),
        ("{action: DENY, rules: [{from: [{source: {notNamespaces: [default]}}]}]}", [true, true, false]),
        ("{action: DENY, rules: [{when: [{key: 'request.headers[x-a]', values: ['1']}]}]}", [true; 3]),
        ("{rules: [{when: [{key: 'request.headers[grpc-timeout]', values: ['*']}]}]}", [false; 3]),
        ("{rules: [{from: [{source: {requestPrincipals: ['*']}}]}]}", [false; 3]),
        (
            "{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ['*']}}], to: [{operation: {paths: [/a.B/C]}}]}]}",
            [true, false, true],
        ),
        ("{action: DENY, rules: [{when: [{key: 'request.headers[te]', values: ['*']}]}]}", [false; 3]),
        ("{action: DENY, rules: [{from: [{source: {remoteIpBlocks: [9.9.9.9]}}]}]}", [false; 3]),
        ("{rules: [{when: [{key: connection.sni, values: ['*']}]}]}", [false; 3]),
        (
            "{action: CUSTOM, provider: {name: opa}, rules: [{to: [{operation: {paths: [/a.B/C]}}]}]}",
            [true, false, true],
        ),
        ("{action: AUDIT, rules: [{}]}", [true; 3]),
    ];
    for (spec, want) in cases {
        served.policy("AuthorizationPolicy", "own", spec)?;
        let outcome =
            |accepted: bool, by: &str| if accepted { by.to_owned() } else { "PERMISSION_DENIED".to_owned() };
        let by_other = "pay spiffe://cluster.local/ns/other/sa/x";
        let check = async || {
            served.answers(&mut web, MESHED, ECHO, &outcome(want[0], BY_WEB)).await?;
            served.answers(&mut web, MESHED, "/a.B/C", &outcome(want[1], BY_WEB)).await?;
            served.answers(&mut other, MESHED, ECHO, &outcome(want[2], by_other)).await
        };
        let mut check = check;
        check().await.with_context(|| spec.to_owned())?;
    }
    Ok(())
}

/// Policies change under traffic of a client that all of them accept, and no call of it fails.
#[tokio::test]
async fn policies_of_a_grpc_server_change_under_traffic() -> Result<()> {
    let served = Served::new(json!({"security.istio.io/tlsMode": "istio"})).await?;
    let (mut web, mut other) =
        (served.client(WEB).await?, served.client("spiffe://cluster.local/ns/other/sa/x").await?);
    served.answers(&mut web, MESHED, ECHO, BY_WEB).await?;
    web.start_load(&format!("{MESHED}:{}", served.mesh.port), 100, 4).await?;
    let own = "{rules: [{from: [{source: {namespaces: [default]}}]}]}";
    let all = "{rules: [{}]}";
    let by_other = "pay spiffe://cluster.local/ns/other/sa/x";
    for (spec, want) in
        [(own, "PERMISSION_DENIED"), (all, by_other), (own, "PERMISSION_DENIED"), (all, by_other)]
    {
        served.policy("AuthorizationPolicy", "own", spec)?;
        served.answers(&mut other, MESHED, ECHO, want).await?;
        web.reaches(BY_WEB, 50, SOON).await?;
    }
    web.stop_load().await?.check_clean()
}

/// A server without certificates serves plain text. It rejects the listener of STRICT, which would leave it open as it was, and is
/// sent one that refuses every call; both are shown. It serves again when the policy is gone.
#[tokio::test]
async fn grpc_server_without_certificates_refuses_where_it_must_have_them() -> Result<()> {
    let served = Served::with(json!({"app": "pay"}), false).await?;
    let mut web = served.client(WEB).await?;
    served.answers(&mut web, PLAIN, ECHO, "pay").await?;
    served.policy("PeerAuthentication", "own", "{mtls: {mode: STRICT}}")?;
    served.answers(&mut web, PLAIN, ECHO, "PERMISSION_DENIED").await?;
    eventually("the note of the server", SOON, || async {
        let shown = served.server.client(ID).await?.to_string();
        ensure!(shown.contains("TRB0614") && shown.contains("certificate provider"), "{shown}");
        Ok(())
    })
    .await?;
    served.policy("PeerAuthentication", "own", "{mtls: {mode: DISABLE}}")?;
    served.answers(&mut web, PLAIN, ECHO, "pay").await?;
    let shown = served.server.client(ID).await?.to_string();
    ensure!(!shown.contains("TRB0614"), "{shown}");
    Ok(())
}

/// Policies that are too large for a message refuse every call, and the server gets what follows.
#[tokio::test]
async fn policies_that_are_too_large_for_a_grpc_server_refuse_every_call() -> Result<()> {
    let served = Served::new(json!({"app": "pay"})).await?;
    let mut web = served.client(WEB).await?;
    served.answers(&mut web, PLAIN, ECHO, "pay").await?;
    let paths: Vec<String> = (0..1_500).map(|n| format!("/{n}/{}", "x".repeat(1_000))).collect();
    let large =
        format!("{{action: DENY, rules: [{{to: [{{operation: {{paths: [{}]}}}}]}}]}}", paths.join(", "));
    served.policy("AuthorizationPolicy", "own", &large)?;
    served.answers(&mut web, PLAIN, ECHO, "PERMISSION_DENIED").await?;
    let shown = served.server.client(ID).await?.to_string();
    ensure!(shown.contains("TRB0614") && shown.contains("larger together"), "{shown}");
    served.policy("AuthorizationPolicy", "own", "{rules: [{}]}")?;
    served.answers(&mut web, PLAIN, ECHO, "pay").await
}
