//! Policies that restrict what workloads accept, in the command line: read from files, and kept while invalid.

use crate::world::{World, put};
use tributary_app::exit::Exit;

fn mk(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n{spec}"
    )
}

#[tokio::test]
async fn peer_authentications_are_shown_with_their_modes() {
    let dir = tempfile::tempdir().unwrap();
    let mk_peer = |spec: &str| mk("PeerAuthentication", "strict", spec);
    let spec = "  selector: {matchLabels: {app: pay}}\n  mtls: {mode: STRICT}\n  portLevelMtls: {8080: {mode: UNSET}, 90: {mode: DISABLE}}\n";
    put(dir.path(), "a.yaml", &mk_peer(spec));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies PeerAuthentication -o wide", "strict").await;
    let row = table.lines().find(|line| line.contains("strict")).unwrap();
    for part in ["Served", "app=pay", "a.yaml:1:1"] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    let one = world.run("get policies PeerAuthentication/shop/strict -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let want = serde_json::json!({
        "selector": {"matchLabels": {"app": "pay"}},
        "mtls": {"mode": "STRICT"},
        "portLevelMtls": {"90": {"mode": "DISABLE"}, "8080": {"mode": "UNSET"}},
    });
    assert_eq!(one["items"][0]["spec"], want);
    let files = world.run(&format!("analyze -f {}", dir.path().display())).await;
    assert_eq!((files.exit, files.out.contains("strict")), (Ok(Exit::Ok), false), "{}", files.out);
    // an invalid version is quarantined with its position, and the last one is kept
    put(dir.path(), "a.yaml", &mk_peer(&spec.replace("STRICT", "STRONG")));
    let table = world.until("get policies strict -o wide", "Quarantined").await;
    assert!(table.contains("a.yaml:6:16: "), "{table}");
}

#[tokio::test]
async fn authorization_policies_are_shown_as_they_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let mk = |spec: &str| mk("AuthorizationPolicy", "pay", spec);
    let spec = "  selector: {matchLabels: {app: pay}}\n  action: DENY\n  rules:\n  - from: [{source: {notNamespaces: [web], serviceAccounts: [], ipBlocks: [10.0.0.1, 10.1.2.3/16]}}]\n    to: [{operation: {paths: [/a*, \"/b/{*}\"], ports: [\"80\"]}}]\n    when: [{key: \"request.headers[x]\", values: [\"*\"], notValues: [\"*z\"]}, {key: \"request.auth.claims[a][b]\", values: [v]}]\n";
    // no version is valid: its workloads must not be open
    put(dir.path(), "a.yaml", &mk(&spec.replace("DENY", "REFUSE")));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies AuthorizationPolicy -o wide", "Quarantined").await;
    let row = table.lines().find(|line| line.contains("shop")).unwrap();
    for part in ["app=pay", "TRB0305", "TRB0472", "no version is valid", "a.yaml:6:11: "] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    assert_eq!(row.matches("refuse every request").count(), 1, "{row}");
    let spec_of = async || {
        let one = world.run("get policies AuthorizationPolicy/shop/pay -o json").await.out;
        let one: serde_json::Value = serde_json::from_str(&one).unwrap();
        one["items"][0]["spec"].clone()
    };
    let selector = serde_json::json!({"matchLabels": {"app": "pay"}});
    let refusing = serde_json::json!({"selector": selector, "action": "DENY", "rules": [{}]});
    assert_eq!(spec_of().await, refusing);
    put(dir.path(), "a.yaml", &mk(spec));
    world.until("get policies pay -o wide", "Served").await;
    let want = serde_json::json!({
        "selector": selector,
        "action": "DENY",
        "rules": [{
            "from": [{"source": {"notNamespaces": ["web"], "ipBlocks": ["10.0.0.1", "10.1.0.0/16"]}}],
            "to": [{"operation": {"paths": ["/a*", "/b/{*}"], "ports": ["80"]}}],
            "when": [
                {"key": "request.headers[x]", "values": ["*"], "notValues": ["*z"]},
                {"key": "request.auth.claims[a][b]", "values": ["v"]},
            ],
        }],
    });
    assert_eq!(spec_of().await, want);
    let files = world.run(&format!("analyze -f {}", dir.path().display())).await;
    assert_eq!((files.exit, files.out.matches("pay").count()), (Ok(Exit::Ok), 1), "{}", files.out);
    assert!(
        files.out.contains("a.yaml:1:1: warning") && files.out.contains("rules[0] (TRB0473)"),
        "{}",
        files.out
    );
    // one that only reports is not shown as one that refuses
    let dry_run = mk(spec).replace("metadata: {", "metadata: {annotations: {istio.io/dry-run: \"true\"}, ");
    put(dir.path(), "a.yaml", &dry_run);
    world.until("get policies pay", "Served (dry run)").await;
    let one = world.run("get policies pay -o json").await.out;
    assert!(one.contains("\"dryRun\": true"), "{one}");
    put(dir.path(), "a.yaml", &mk(spec));
    world.until("get policies pay", "Served  ").await;
    // a later invalid version leaves the last one in place
    put(dir.path(), "a.yaml", &mk(&spec.replace("DENY", "REFUSE")));
    let table = world.until("get policies pay -o wide", "Quarantined").await;
    assert!(table.contains("a newer version is not valid") && !table.contains("TRB0472"), "{table}");
    assert_eq!(spec_of().await, want);
    // attached to a gateway, it concerns no sidecar
    put(
        dir.path(),
        "a.yaml",
        &mk("  targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: in}\n"),
    );
    let table = world.until("get policies pay -o wide", "NotServed").await;
    assert_eq!(table.matches("shop").count(), 1, "{table}");
    assert!(table.contains("TRB0327") && table.contains("no sidecar"), "{table}");
}

#[tokio::test]
async fn request_authentications_are_shown_as_they_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let mk = |spec: &str| mk("RequestAuthentication", "pay", spec);
    let keys = "{\"keys\":[{\"k\":\"c2VjcmV0\",\"kty\":\"oct\"}]}";
    let spec = format!(
        "  selector: {{matchLabels: {{app: pay}}}}\n  jwtRules:\n  - issuer: a\n    jwks: '{keys}'\n    fromHeaders: [{{name: x, prefix: \"B \"}}]\n  - jwksUri: https://keys.test/jwks\n    timeout: 7s\n"
    );
    // no version is valid: its workloads must not take any token
    put(dir.path(), "a.yaml", &mk(&spec.replace("https:", "ftp:")));
    let world = World::start(&["--registry", &format!("file={}", dir.path().display())]).await;
    let table = world.until("get policies RequestAuthentication -o wide", "Quarantined").await;
    let row = table.lines().find(|line| line.contains("shop")).unwrap();
    for part in ["app=pay", "TRB0326", "TRB0476", "no version is valid", "a.yaml:10:14: "] {
        assert!(row.contains(part), "no {part:?} in {row}");
    }
    put(dir.path(), "a.yaml", &mk(&spec));
    let table = world.until("get policies pay -o wide", "Served").await;
    assert!(table.contains("TRB0477") && table.contains("keys.test:443"), "{table}");
    let one = world.run("get policies RequestAuthentication/shop/pay -o json").await.out;
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    let want = serde_json::json!({
        "selector": {"matchLabels": {"app": "pay"}},
        "jwtRules": [
            {"issuer": "a", "jwks": keys.replace("c2VjcmV0", "hidden"), "fromHeaders": [{"name": "x", "prefix": "B "}]},
            {"jwksUri": "https://keys.test/jwks", "timeout": "7s"},
        ],
    });
    assert_eq!(one["items"][0]["spec"], want);
}
