//! RequestAuthentications check tokens at the inbound listener of a real Envoy, and AuthorizationPolicies compare their claims.

use anyhow::{Context as _, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use tributary_suites::http_client::ask;

use super::inbound::{Callee, started};
use super::*;

const ISSUER: &str = "https://iss.test";
const OTHER: &str = "other";

/// Returns the signature of a text.
type Sign = Box<dyn Fn(&[u8]) -> Result<Vec<u8>> + Send + Sync>;

/// A key that signs tokens, and the set with the key that verifies them.
struct Signer {
    sign: Sign,
    algorithm: &'static str,
    keys: String,
}

impl Signer {
    /// A pair on P-256.
    fn pair() -> Result<Self> {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| anyhow!("no key"))?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random);
        let pair = pair.map_err(|fault| anyhow!("{fault}"))?;
        let (x, y) = pair.public_key().as_ref().get(1..).context("no point")?.split_at(32);
        let key = json!({"kty": "EC", "crv": "P-256", "x": base64(x), "y": base64(y), "use": "sig"});
        let sign = move |text: &[u8]| {
            let signature = pair.sign(&random, text).map_err(|_| anyhow!("not signed"))?;
            Ok(signature.as_ref().to_vec())
        };
        Ok(Self { sign: Box::new(sign), algorithm: "ES256", keys: json!({"keys": [key]}).to_string() })
    }
    /// One key for both.
    fn shared(secret: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let keys = json!({"keys": [{"kty": "oct", "k": base64(secret.as_bytes())}]}).to_string();
        let sign = move |text: &[u8]| Ok(hmac::sign(&key, text).as_ref().to_vec());
        Self { sign: Box::new(sign), algorithm: "HS256", keys }
    }
    /// Signs these claims.
    fn token(&self, claims: &Value) -> Result<String> {
        let head = json!({"alg": self.algorithm, "typ": "JWT"});
        let text =
            format!("{}.{}", base64(head.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        Ok(format!("{text}.{}", base64(&(self.sign)(text.as_bytes())?)))
    }
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Claims of a subject that are valid for years, with further ones.
fn claims(issuer: &str, subject: &str, more: Value) -> Value {
    let mut claims = json!({"iss": issuer, "sub": subject, "exp": 4_000_000_000_u64});
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    claims
}

/// A rule on tokens of an issuer with inline keys, and with further fields.
fn rule(issuer: &str, signer: &Signer, more: Value) -> Value {
    let mut rule = json!({"issuer": issuer, "jwks": signer.keys});
    for (name, value) in more.as_object().into_iter().flatten() {
        rule[name] = value.clone();
    }
    rule
}

impl Callee {
    /// Writes a policy of namespace `default`.
    fn put_policy(&self, kind: &str, spec: &Value) -> Result<()> {
        let policy = json!({
            "apiVersion": "security.istio.io/v1", "kind": kind,
            "metadata": {"name": "pay", "namespace": "default"}, "spec": spec,
        });
        self.mesh.files.put(&format!("{kind}.yaml"), &policy.to_string())
    }
    fn check(&self, rules: &[Value]) -> Result<()> {
        self.put_policy("RequestAuthentication", &json!({ "jwtRules": rules }))
    }
    fn authorize_by(&self, spec: &Value) -> Result<()> {
        self.put_policy("AuthorizationPolicy", spec)
    }
    /// Returns status and body of a request with this header.
    async fn asked(&self, path: &str, header: (&str, &str)) -> Result<(u16, String)> {
        let request = Request::get(path).header("host", "pay.test").header(header.0, header.1);
        let (head, body) = ask(self.at, request.body(Empty::<Bytes>::new())?).await?;
        Ok((head.status.as_u16(), body))
    }
    /// Waits until requests with these tokens, or without one, have these statuses.
    async fn statuses(&self, want: &[(Option<&str>, u16)]) -> Result<()> {
        eventually("the decisions on tokens", SOON, || async {
            for (at, (token, want)) in want.iter().enumerate() {
                let bearer = token.map(|token| format!("Bearer {token}"));
                let header = bearer.as_deref().map_or(NO_HEADER, |bearer| ("authorization", bearer));
                let (status, body) = self.asked("/", header).await?;
                ensure!(status == *want, "request {at}: {status}, not {want}: {body}");
            }
            Ok(())
        })
        .await
    }
}

async fn own(callee: &Callee, server: &TestServer) -> Result<Envoy> {
    let envoy = started(server, "pay", sidecar(json!({"LABELS": {"app": "pay"}}))).await?;
    callee.plain_is(true).await?;
    Ok(envoy)
}

/// A request passes without a token and with a valid one, of either of two issuers.
#[tokio::test]
async fn invalid_tokens_are_refused() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = own(&callee, &server).await?;
    let (pair, shared, foreign) = (Signer::pair()?, Signer::shared("a secret of both"), Signer::pair()?);
    let good = pair.token(&claims(ISSUER, "web", json!({"aud": ["pay", "cart"]})))?;
    let expired = pair.token(&claims(ISSUER, "web", json!({"aud": "pay", "exp": 1_000_000_000})))?;
    let elsewhere = pair.token(&claims(ISSUER, "web", json!({"aud": "cart"})))?;
    let forged = foreign.token(&claims(ISSUER, "web", json!({"aud": "pay"})))?;
    let second = shared.token(&claims(OTHER, "web", json!({})))?;
    let unknown = pair.token(&claims("unknown", "web", json!({})))?;
    callee.statuses(&[(None, 200), (Some("nonsense"), 200), (Some(&forged), 200)]).await?;
    let first = rule(ISSUER, &pair, json!({"audiences": ["pay"]}));
    callee.check(std::slice::from_ref(&first))?;
    let of_first = [
        (None, 200),
        (Some(&*good), 200),
        (Some("nonsense"), 401),
        (Some(&*expired), 401),
        (Some(&*elsewhere), 403),
        (Some(&*forged), 401),
        (Some(&*unknown), 401),
    ];
    callee.statuses(&of_first).await?;
    callee.statuses(&[(Some(&second), 401)]).await?;
    callee.check(&[first, rule(OTHER, &shared, json!({}))])?;
    callee.statuses(&[(Some(&second), 200)]).await?;
    callee.statuses(&of_first[..4]).await?;
    callee.statuses(&[(Some(&forged), 401), (Some(&unknown), 401)]).await?;
    callee.check(&[])?;
    callee.statuses(&[(Some("nonsense"), 200)]).await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Whether a request is accepted without a token, with one of the subject `web`, and with one of `other`.
type Decided = (Value, [u16; 3]);

/// AuthorizationPolicies compare issuer, subject and claims of valid tokens.
#[tokio::test]
async fn policies_decide_by_claims_of_tokens() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = own(&callee, &server).await?;
    let pair = Signer::pair()?;
    callee.check(&[rule(ISSUER, &pair, json!({}))])?;
    let web = json!({
        "aud": ["pay", "cart"], "azp": "shop", "groups": ["admin", "staff"], "scope": "read write",
        "deep": {"er": "value"},
    });
    let web = pair.token(&claims(ISSUER, "web", web))?;
    let other = pair.token(&claims(ISSUER, "other", json!({"aud": "cart", "groups": "staff"})))?;
    callee.statuses(&[(Some("nonsense"), 401)]).await?;
    let from = |source: Value| json!({"rules": [{"from": [{ "source": source }]}]});
    let when = |key: &str, value: &str| json!({"rules": [{"when": [{"key": key, "values": [value]}]}]});
    let deny = |mut spec: Value| {
        spec["action"] = "DENY".into();
        spec
    };
    let cases: [Decided; 13] = [
        (from(json!({"requestPrincipals": ["*"]})), [403, 200, 200]),
        (from(json!({"requestPrincipals": [format!("{ISSUER}/web")]})), [403, 200, 403]),
        (from(json!({"requestPrincipals": [format!("{ISSUER}/*")]})), [403, 200, 200]),
        (from(json!({"requestPrincipals": ["*/web"]})), [403, 200, 403]),
        (deny(from(json!({"notRequestPrincipals": ["*"]}))), [403, 200, 200]),
        (deny(from(json!({"requestPrincipals": [format!("{ISSUER}/web")]}))), [200, 403, 200]),
        (when("request.auth.principal", &format!("{ISSUER}/web")), [403, 200, 403]),
        (when("request.auth.audiences", "pay"), [403, 200, 403]),
        (when("request.auth.presenter", "shop"), [403, 200, 403]),
        (when("request.auth.claims[groups]", "staff"), [403, 200, 200]),
        (when("request.auth.claims[groups]", "adm*"), [403, 200, 403]),
        (when("request.auth.claims[scope]", "write"), [403, 200, 403]),
        (when("request.auth.claims[deep][er]", "value"), [403, 200, 403]),
    ];
    for (spec, [none, as_web, as_other]) in cases {
        callee.authorize_by(&spec)?;
        let want = [(None, none), (Some(&*web), as_web), (Some(&*other), as_other), (Some("nonsense"), 401)];
        callee.statuses(&want).await.with_context(|| spec.to_string())?;
    }
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Tokens come from the places of their rule, and the application gets what the rule passes on.
#[tokio::test]
async fn places_and_results_of_tokens_are_those_of_the_rule() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = own(&callee, &server).await?;
    let pair = Signer::pair()?;
    let token = pair.token(&claims(ISSUER, "web", json!({"group": "admin"})))?;
    callee.check(&[rule(
        ISSUER,
        &pair,
        json!({
            "fromHeaders": [{"name": "x-token", "prefix": "T "}], "fromParams": ["t"], "fromCookies": ["c"],
            "forwardOriginalToken": true, "outputPayloadToHeader": "x-claims",
            "outputClaimToHeaders": [{"header": "x-group", "claim": "group"}],
        }),
    )])?;
    let bearer = format!("Bearer {token}");
    let in_header = format!("T {token}");
    let (in_cookie, in_param) = (format!("c={token}"), format!("/?t={token}"));
    eventually("the rule", SOON, || async {
        let (status, body) = callee.asked("/", ("x-token", &in_header)).await?;
        ensure!(status == 200 && body.contains("x-group: admin") && body.contains("x-claims: "), "{body}");
        ensure!(body.contains(&in_header), "the token is passed on: {body}");
        Ok(())
    })
    .await?;
    for (path, header) in [("/", ("cookie", &*in_cookie)), (&*in_param, NO_HEADER)] {
        let (status, body) = callee.asked(path, header).await?;
        ensure!(status == 200 && body.contains("x-group: admin"), "{path} {header:?}: {status}: {body}");
    }
    let (status, body) = callee.asked("/", ("authorization", &bearer)).await?;
    ensure!(status == 200 && !body.contains("x-group"), "no place of the rule: {body}");
    let (_, body) = callee.asked("/", ("x-group", "admin")).await?;
    ensure!(!body.contains("x-group"), "a client sets no claim: {body}");
    let (_, body) = callee.asked("/", ("x-claims", "forged")).await?;
    ensure!(!body.contains("forged"), "a client sets no claims: {body}");
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Envoy fetches keys through the xDS cluster of their host. Without one the tokens are refused, and others are not.
#[tokio::test]
async fn keys_are_fetched_from_a_service() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    callee.import("HTTP", "*/*.keys.test")?;
    let server = callee.mesh.server().await?;
    let own = own(&callee, &server).await?;
    let (known, late, inline) = (Signer::pair()?, Signer::pair()?, Signer::pair()?);
    let (known_keys, late_keys) = (Backend::start(&known.keys).await?, Backend::start(&late.keys).await?);
    let port = ports::free_port()?;
    let declare =
        |host: &str, backend: &Backend| callee.mesh.put(host, &Entry::http(host, port).at(backend.addr()));
    let fetched =
        |issuer: &str, host: &str| json!({"issuer": issuer, "jwksUri": format!("http://{host}:{port}/jwks")});
    declare("known.keys.test", &known_keys)?;
    callee.check(&[
        fetched("known", "known.keys.test"),
        fetched("late", "late.keys.test"),
        json!({"issuer": "nowhere"}),
        rule("inline", &inline, json!({})),
    ])?;
    let of_known = known.token(&claims("known", "web", json!({})))?;
    let of_late = late.token(&claims("late", "web", json!({})))?;
    let of_nowhere = known.token(&claims("nowhere", "web", json!({})))?;
    let of_inline = inline.token(&claims("inline", "web", json!({})))?;
    let forged = late.token(&claims("known", "web", json!({})))?;
    // before the check, any token passes
    callee.statuses(&[(Some(&of_nowhere), 401)]).await?;
    callee
        .statuses(&[
            (None, 200),
            (Some(&of_known), 200),
            (Some(&of_inline), 200),
            (Some(&forged), 401),
            (Some(&of_late), 401),
            (Some(&of_nowhere), 401),
        ])
        .await?;
    ensure!(known_keys.requests() > 0, "the keys were fetched");
    let shown = |part: &'static str| {
        let server = &server;
        eventually("the conditions", SOON, move || async move {
            let (_, shown, _) = server.command(&["get", "policies", "pay", "-o", "wide"]).await?;
            ensure!(shown.contains(part), "{shown}");
            Ok(())
        })
    };
    shown("TRB0477").await?;
    shown("TRB0479").await?;
    // a host that is declared later needs nothing else
    declare("late.keys.test", &late_keys)?;
    callee.statuses(&[(Some(&of_late), 200), (Some(&of_known), 200), (Some(&of_nowhere), 401)]).await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Keys of an https address are not fetched over a connection without TLS, on which they could be replaced.
#[tokio::test]
async fn keys_of_https_are_never_fetched_in_plain_text() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    callee.import("HTTP", "*/*.keys.test")?;
    let server = callee.mesh.server().await?;
    let own = own(&callee, &server).await?;
    let signer = Signer::pair()?;
    let (backend, port) = (Backend::start(&signer.keys).await?, ports::free_port()?);
    callee.mesh.put("keys.keys.test", &Entry::http("keys.keys.test", port).at(backend.addr()))?;
    let from = |scheme: &str| {
        let uri = format!("{scheme}://keys.keys.test:{port}/jwks");
        callee.check(&[json!({"issuer": "iss", "jwksUri": uri})])
    };
    let token = signer.token(&claims("iss", "web", json!({})))?;
    from("https")?;
    callee.statuses(&[(Some(&token), 401), (None, 200)]).await?;
    let (_, shown, _) = server.command(&["get", "policies", "pay", "-o", "wide"]).await?;
    ensure!(shown.contains("TRB0478"), "{shown}");
    ensure!(backend.requests() == 0, "keys were requested in plain text");
    from("http")?;
    callee.statuses(&[(Some(&token), 200), (None, 200)]).await?;
    ensure!(backend.requests() > 0, "the server has the keys");
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// A policy that is not valid opens nothing: the last valid one stays, and without one every request is refused.
#[tokio::test]
async fn invalid_request_authentication_opens_nothing() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let pair = Signer::pair()?;
    let mut invalid = rule(ISSUER, &pair, json!({}));
    invalid["jwks"] = "-----BEGIN PUBLIC KEY-----".into();
    callee.check(&[invalid.clone()])?;
    let server = callee.mesh.server().await?;
    let own = started(&server, "pay", sidecar(json!({"LABELS": {"app": "pay"}}))).await?;
    let good = pair.token(&claims(ISSUER, "web", json!({})))?;
    callee.statuses(&[(None, 403), (Some(&good), 403)]).await?;
    callee.check(&[rule(ISSUER, &pair, json!({}))])?;
    let valid = [(None, 200), (Some(&*good), 200), (Some("nonsense"), 401)];
    callee.statuses(&valid).await?;
    callee.check(&[invalid])?;
    eventually("the fault to be shown", SOON, || async {
        let (_, shown, _) = server.command(&["get", "policies", "-o", "wide"]).await?;
        ensure!(shown.contains("Quarantined") && shown.contains("jwks"), "{shown}");
        Ok(())
    })
    .await?;
    callee.statuses(&valid).await?;
    callee.mesh.files.remove("RequestAuthentication.yaml")?;
    callee.statuses(&[(Some("nonsense"), 200)]).await?;
    assert_eq!(own.refused().await?, 0);
    Ok(())
}

/// Policies change under traffic that all of them accept, and no request of it fails.
#[tokio::test]
async fn checks_of_tokens_change_under_traffic() -> Result<()> {
    let callee = Callee::new("HTTP").await?;
    let server = callee.mesh.server().await?;
    let own = callee.sidecar(&server).await?;
    let web = callee.caller(&server, WEB).await?;
    callee.mesh.answers("pay.test", 200).await?;
    let load = Load::start(&LoadPlan::to(local(callee.mesh.port)).host("pay.test"));
    for _ in 0..3 {
        callee.check(&[rule(ISSUER, &Signer::pair()?, json!({}))])?;
        callee.statuses(&[(None, 200), (Some("nonsense"), 401)]).await?;
        callee.check(&[])?;
        callee.statuses(&[(Some("nonsense"), 200)]).await?;
    }
    load.finish().await.check_clean()?;
    assert_eq!((own.refused().await?, web.refused().await?), (0, 0));
    Ok(())
}
