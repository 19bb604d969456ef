//! Decision tables of Istio's tasks on security, each step as real requests through real Envoys: authorization of HTTP by method and
//! identity, explicit denial, and the migration to mutual TLS.

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Method, Request};
use tributary_suites::http_client::ask;

use super::inbound::Callee;
use super::*;

/// Policies of a step, as `kind/namespace/name` and `spec`; an empty `spec` removes one.
type Step<'a> = (&'a [(&'a str, &'a str)], [Outcome; 3]);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ok,
    /// Answered with 403.
    Denied,
    /// The connection is closed.
    Closed,
}

use Outcome::{Closed, Denied, Ok as Passed};

/// A request: whether it comes by mesh TLS, its method, path and the header `x-token`.
type Asked<'a> = (bool, &'a str, &'a str, &'a str);

impl Callee {
    fn put(&self, (name, spec): (&str, &str)) -> Result<()> {
        let file = format!("{}.yaml", name.replace('/', "-"));
        if spec.is_empty() {
            return self.mesh.files.remove(&file);
        }
        let [kind, namespace, name] = name.splitn(3, '/').collect::<Vec<_>>()[..] else {
            anyhow::bail!("{name} is not kind/namespace/name")
        };
        let head = format!(
            "apiVersion: security.istio.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}"
        );
        self.mesh.files.put(&file, &format!("{head}\nspec: {spec}\n"))
    }

    async fn outcome(&self, (meshed, method, path, token): Asked<'_>) -> Result<Outcome> {
        let at = if meshed { local(self.mesh.port) } else { self.at };
        let request = Request::builder().method(Method::from_bytes(method.as_bytes())?).uri(path);
        let request = request.header("host", "pay.test").header("x-token", token);
        let Ok((head, body)) = ask(at, request.body(Empty::<Bytes>::new())?).await else { return Ok(Closed) };
        match head.status.as_u16() {
            200 => Ok(Passed),
            403 if body.contains("RBAC: access denied") => Ok(Denied),
            // the sidecar of the caller has no connection
            503 => Ok(Closed),
            other => anyhow::bail!("{other}: {body}"),
        }
    }

    /// Goes through the steps of a table with three requests.
    async fn decides(&self, requests: [Asked<'_>; 3], steps: &[Step<'_>]) -> Result<()> {
        for (policies, want) in steps {
            policies.iter().try_for_each(|policy| self.put(*policy))?;
            eventually("the decisions of the table", SOON, || async {
                for (request, want) in requests.iter().zip(want) {
                    let found = self.outcome(*request).await?;
                    ensure!(found == *want, "{request:?}: {found:?}, not {want:?}");
                }
                Ok(())
            })
            .await
            .with_context(|| format!("{policies:?}"))?;
        }
        Ok(())
    }
}

/// "Authorization policy for HTTP traffic": nothing is allowed, then reading, then what one identity does.
#[tokio::test]
async fn table_of_http_traffic() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let _own = callee.sidecar(&server).await?;
    let (nothing, viewer) =
        ("AuthorizationPolicy/default/allow-nothing", "AuthorizationPolicy/default/viewer");
    let reading = "{selector: {matchLabels: {app: pay}}, action: ALLOW, rules: [{to: [{operation: {methods: [GET]}}]}]}";
    let by_web = "{selector: {matchLabels: {app: pay}}, action: ALLOW, rules: [{from: [{source: \
        {principals: [cluster.local/ns/default/sa/web]}}], to: [{operation: {methods: [GET]}}]}]}";
    let requests = [(true, "GET", "/", ""), (true, "POST", "/", ""), (false, "GET", "/", "")];
    for (identity, first) in [(WEB, Passed), ("spiffe://cluster.local/ns/default/sa/sleep", Denied)] {
        let _caller = callee.caller(&server, identity).await?;
        callee.mesh.answers("pay.test", 200).await?;
        let steps: [Step<'_>; 5] = [
            (&[(nothing, "{}")], [Denied; 3]),
            (&[(viewer, reading)], [Passed, Denied, Passed]),
            (&[(viewer, by_web)], [first, Denied, Denied]),
            (&[(viewer, "")], [Denied; 3]),
            (&[(nothing, "")], [Passed; 3]),
        ];
        callee.decides(requests, &steps).await.with_context(|| identity.to_owned())?;
    }
    Ok(())
}

/// "Explicit deny": a method is denied, then those without a token, and what is denied stays so beside what is allowed.
#[tokio::test]
async fn table_of_explicit_denial() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let _own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    let (deny, allow) = ("AuthorizationPolicy/default/deny-get", "AuthorizationPolicy/default/allow-ip");
    let get = "{action: DENY, rules: [{to: [{operation: {methods: [GET]}}]}]}";
    let without = "{action: DENY, rules: [{to: [{operation: {methods: [GET]}}], when: [{key: 'request.headers[x-token]', notValues: [admin]}]}]}";
    let ip = "{action: ALLOW, rules: [{to: [{operation: {paths: [/ip]}}]}]}";
    let requests =
        [(true, "GET", "/get", "admin"), (true, "GET", "/ip", "guest"), (true, "POST", "/ip", "guest")];
    let steps: [Step<'_>; 4] = [
        (&[(deny, get)], [Denied, Denied, Passed]),
        (&[(deny, without)], [Passed, Denied, Passed]),
        (&[(allow, ip)], [Denied, Denied, Passed]),
        (&[(deny, "")], [Denied, Passed, Passed]),
    ];
    callee.decides(requests, &steps).await?;
    callee.decides([(true, "GET", "/ip", "admin"); 3], &[(&[(deny, without)], [Passed; 3])]).await
}

/// "Mutual TLS migration": clients in plain text reach a workload until its namespace, or the mesh, is strict.
#[tokio::test]
async fn table_of_the_migration_to_mutual_tls() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let _own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    let (own, mesh) = ("PeerAuthentication/default/default", "PeerAuthentication/istio-system/default");
    let (other, workload) = ("PeerAuthentication/other/default", "PeerAuthentication/default/pay");
    let strict = "{mtls: {mode: STRICT}}";
    let port = callee.at.port();
    let of_port = format!(
        "{{selector: {{matchLabels: {{app: pay}}}}, mtls: {{mode: STRICT}}, portLevelMtls: {{{port}: {{mode: DISABLE}}}}}}"
    );
    let requests = [(true, "GET", "/", ""), (false, "GET", "/", ""), (false, "POST", "/", "")];
    let steps: [Step<'_>; 7] = [
        (&[(other, strict)], [Passed; 3]),
        (&[(own, strict)], [Passed, Closed, Closed]),
        (&[(own, "{mtls: {mode: UNSET}}")], [Passed; 3]),
        (&[(own, ""), (mesh, strict)], [Passed, Closed, Closed]),
        (&[(own, "{mtls: {mode: PERMISSIVE}}")], [Passed; 3]),
        (&[(own, strict), (workload, &of_port)], [Passed; 3]),
        (&[(workload, "")], [Passed, Closed, Closed]),
    ];
    callee.decides(requests, &steps).await
}
