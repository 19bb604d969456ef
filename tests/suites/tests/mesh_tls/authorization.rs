//! AuthorizationPolicies decide at the inbound listener of a real Envoy: by the identity of the client, and by the request.

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{Method, Request};
use tributary_suites::http_client::ask;

use super::inbound::{Callee, started};
use super::*;

/// `spec` of an AuthorizationPolicy, and whether each of [`REQUESTS`] is accepted.
type Decided<'a> = (&'a str, [bool; 3]);

/// Requests of a client with the identity of `web`, and one in plain text.
const REQUESTS: [&str; 3] = ["web GET /", "web POST /admin", "plain GET /"];

impl Callee {
    /// Writes an AuthorizationPolicy of namespace `default` with this `spec`.
    fn authorize(&self, name: &str, annotations: &str, spec: &str) -> Result<()> {
        let text = format!(
            "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n\
             metadata: {{name: {name}, namespace: default, annotations: {{{annotations}}}}}\nspec: {spec}\n"
        );
        self.mesh.files.put(&format!("authorization-{name}.yaml"), &text)
    }

    /// Returns whether each of [`REQUESTS`] is accepted.
    async fn accepted(&self) -> Result<[bool; 3]> {
        let web = local(self.mesh.port);
        Ok([
            is_accepted(web, Method::GET, "/").await?,
            is_accepted(web, Method::POST, "/admin").await?,
            is_accepted(self.at, Method::GET, "/").await?,
        ])
    }

    async fn accepts(&self, want: [bool; 3]) -> Result<()> {
        eventually("the decision of the policies", SOON, || async {
            let found = self.accepted().await?;
            ensure!(found == want, "{REQUESTS:?} are accepted as {found:?}, not {want:?}");
            Ok(())
        })
        .await
    }
}

/// Returns whether a request is answered with 200. A refused one is answered with 403.
async fn is_accepted(at: SocketAddr, method: Method, path: &str) -> Result<bool> {
    let request = Request::builder().method(method).uri(path).header("host", "pay.test");
    let (head, body) = ask(at, request.body(Empty::<Bytes>::new())?).await?;
    match head.status.as_u16() {
        200 => Ok(true),
        403 if body.contains("RBAC: access denied") => Ok(false),
        other => anyhow::bail!("{other}: {body}"),
    }
}

/// Rules by identity, method and path, each alone and in the order of their actions.
#[tokio::test]
async fn rules_decide_by_identity_and_request() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    callee.accepts([true; 3]).await?;
    let web = "cluster.local/ns/default/sa/web";
    // an Envoy without a setting of its bootstrap refuses large regular expressions
    let (namespace, account) = ("n".repeat(63), "a".repeat(253));
    let long = format!(
        "{{source: {{serviceAccounts: [{namespace}/{account}]}}}}, {{source: {{principals: ['*/{account}'], namespaces: ['{namespace}*']}}}}"
    );
    let cases: &[Decided<'_>] = &[
        ("{}", [false; 3]),
        ("{rules: [{}]}", [true; 3]),
        (&format!("{{rules: [{{from: [{{source: {{principals: [{web}]}}}}]}}]}}"), [true, true, false]),
        ("{rules: [{from: [{source: {namespaces: [default]}}]}]}", [true, true, false]),
        ("{rules: [{from: [{source: {namespaces: [other]}}]}]}", [false; 3]),
        ("{rules: [{from: [{source: {serviceAccounts: [web]}}]}]}", [true, true, false]),
        ("{rules: [{to: [{operation: {methods: [GET]}}]}]}", [true, false, true]),
        ("{action: DENY, rules: [{to: [{operation: {paths: [/adm*]}}]}]}", [true, false, true]),
        ("{action: DENY, rules: [{from: [{source: {notPrincipals: ['*']}}]}]}", [true, true, false]),
        ("{action: DENY, rules: [{to: [{operation: {ports: ['1']}}]}]}", [true; 3]),
        (
            "{action: CUSTOM, provider: {name: opa}, rules: [{to: [{operation: {methods: [POST]}}]}]}",
            [true, false, true],
        ),
        ("{rules: [{from: [{source: {principals: ['*/sa/web']}}]}]}", [true, true, false]),
        ("{rules: [{from: [{source: {principals: ['*/ns/other/sa/web']}}]}]}", [false; 3]),
        ("{rules: [{from: [{source: {namespaces: [de*]}}]}]}", [true, true, false]),
        (&format!("{{action: DENY, rules: [{{from: [{long}]}}]}}"), [true; 3]),
        ("{selector: {matchLabels: {app: cart}}, action: DENY, rules: [{}]}", [true; 3]),
        ("{selector: {matchLabels: {app: pay}}, action: DENY, rules: [{}]}", [false; 3]),
    ];
    for (spec, want) in cases {
        callee.authorize("one", "", spec)?;
        callee.accepts(*want).await.with_context(|| (*spec).to_owned())?;
    }
    // what is denied stays denied, whatever allows it
    callee.authorize("one", "", "{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}")?;
    callee.authorize("two", "", "{rules: [{}]}")?;
    callee.accepts([true, false, true]).await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Policies change under traffic of a client that all of them accept, and no request of it fails.
#[tokio::test]
async fn policies_change_under_traffic() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    let load = Load::start(&LoadPlan::to(local(callee.mesh.port)).host("pay.test"));
    let allow = "{rules: [{from: [{source: {namespaces: [default]}}]}]}";
    let deny = "{action: DENY, rules: [{from: [{source: {notNamespaces: [default]}}]}]}";
    for (spec, plain) in [(allow, false), ("{rules: [{}]}", true), (deny, false)] {
        callee.authorize("pay", "", spec)?;
        callee.accepts([true, true, plain]).await.with_context(|| spec.to_owned())?;
    }
    callee.mesh.files.remove("authorization-pay.yaml")?;
    callee.accepts([true; 3]).await?;
    load.finish().await.check_clean()?;
    assert_eq!((own.refused().await?, web.refused().await?), (0, 0));
    Ok(())
}

/// On a port without HTTP only what connections have decides: a rule with properties of requests denies more, and allows less.
#[tokio::test]
async fn connections_lack_properties_of_requests() -> Result<()> {
    let callee = Callee::new("TCP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let _web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    for (spec, plain) in [
        ("{rules: [{from: [{source: {namespaces: [default]}}]}]}", false),
        ("{rules: [{to: [{operation: {methods: [GET]}}]}]}", false),
        ("{rules: [{}]}", true),
        ("{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}", false),
        ("{action: DENY, rules: [{from: [{source: {namespaces: [other]}}]}]}", true),
    ] {
        callee.authorize("pay", "", spec)?;
        callee.plain_is(plain).await.with_context(|| spec.to_owned())?;
    }
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// A dry run counts what it would refuse, and refuses nothing.
#[tokio::test]
async fn dry_run_refuses_nothing() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    callee.plain_is(true).await?;
    callee.authorize("pay", "'istio.io/dry-run': 'true'", "{action: DENY, rules: [{}]}")?;
    let denied = format!("http.inbound|{}||.rbac.istio_dry_run_deny_.shadow_denied", callee.at.port());
    eventually("a request that the dry run counts", SOON, || async {
        let (status, _) = get_as(callee.at, "pay.test", NO_HEADER).await?;
        ensure!(status == 200, "refused with {status}");
        ensure!(own.stat(&denied).await? > 0, "none");
        Ok(())
    })
    .await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// A policy that is not valid opens nothing: the last valid one stays, and without one every request is refused.
#[tokio::test]
async fn invalid_policy_opens_nothing() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let invalid = "{action: DENY, rules: [{to: [{operation: {ports: ['http']}}]}]}";
    callee.authorize("pay", "", invalid)?;
    let server = callee.mesh.server().await?;
    let own = started(&server, "pay", sidecar(json!({"LABELS": {"app": "pay"}}))).await?;
    let plain = |want: bool| {
        let at = callee.at;
        eventually("the decision", SOON, move || async move {
            let found = is_accepted(at, Method::GET, "/").await?;
            ensure!(found == want, "accepted: {found}");
            Ok(())
        })
    };
    plain(false).await?;
    let (_, shown, _) = server.command(&["get", "policies", "-o", "wide"]).await?;
    ensure!(shown.contains("authorization-pay.yaml") && shown.contains("ports"), "{shown}");
    callee.authorize("pay", "", "{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}")?;
    plain(true).await?;
    callee.authorize("pay", "", invalid)?;
    eventually("the fault to be shown", SOON, || async {
        let (_, shown, _) = server.command(&["get", "policies", "-o", "wide"]).await?;
        ensure!(shown.contains("Quarantined"), "{shown}");
        Ok(())
    })
    .await?;
    plain(true).await?;
    ensure!(!is_accepted(callee.at, Method::POST, "/").await?, "the last valid policy denies it");
    callee.mesh.files.remove("authorization-pay.yaml")?;
    eventually("the end of the policy", SOON, || async {
        ensure!(is_accepted(callee.at, Method::POST, "/").await?, "it is still refused");
        Ok(())
    })
    .await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Spellings of a path that a policy denies get around it, unless the mesh normalizes them.
#[tokio::test]
async fn spellings_of_paths_are_those_of_the_normalization() -> Result<()> {
    let cases = [
        (json!({}), [403, 403, 200, 200]),
        (json!({"pathNormalization": "none"}), [403, 200, 200, 200]),
        (json!({"pathNormalization": "mergeSlashes"}), [403, 403, 403, 200]),
        (json!({"pathNormalization": "decodeAndMergeSlashes"}), [403, 403, 403, 403]),
    ];
    for (settings, want) in cases {
        let callee = Callee::new("HTTP").await?;
        let server = callee.mesh.server_with(settings.clone()).await?;
        let _own = started(&server, "pay", sidecar(json!({"LABELS": {"app": "pay"}}))).await?;
        callee.plain_is(true).await?;
        callee.authorize(
            "paths",
            "",
            "{action: DENY, rules: [{to: [{operation: {paths: [/admin, /admin/*]}}]}]}",
        )?;
        let paths = ["/admin", "/x/../admin", "//admin", "/admin%2Fx"];
        eventually("the decisions on paths", SOON, || async {
            for (path, want) in paths.iter().zip(want) {
                let request = Request::get(*path).header("host", "pay.test").body(Empty::<Bytes>::new())?;
                let (head, _) = ask(callee.at, request).await?;
                ensure!(head.status.as_u16() == want, "{settings} {path}: {}", head.status);
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}
