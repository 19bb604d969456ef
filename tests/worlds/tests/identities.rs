//! Checks the identities that the endpoints of an xDS cluster may present: the union over all current
//! endpoints, without removed ones.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use tributary_worlds::{Backend, CoreBackend, Stage};

fn mk_entry(name: &str, account: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [pay.example.com]
  ports: [{{number: 80, name: http, protocol: HTTP}}]
  resolution: STATIC
  subjectAltNames: [spiffe://named/{name}]
  endpoints: [{{address: 10.0.0.1, serviceAccount: {account}}}]
"
    )
}

fn identities(backend: &CoreBackend) -> Result<Vec<String>> {
    let entry = backend.catalog().hosts.get("pay.example.com").context("no such host")?;
    let port = entry.claimants[0].ports.first().context("no port")?;
    Ok(port.cluster.inputs.identities.iter().map(|i| i.as_str().to_owned()).collect())
}

#[tokio::test]
async fn identities_are_those_of_current_endpoints() -> Result<()> {
    let mut backend = CoreBackend::default();
    let files = BTreeMap::from([("a".to_owned(), "c1".to_owned()), ("b".to_owned(), "c2".to_owned())]);
    backend.begin(&Stage { files, ..Stage::default() }).await?;
    backend.write("a", "pay.yaml", &mk_entry("one", "till")).await?;
    backend.write("b", "pay.yaml", &mk_entry("two", "safe")).await?;
    let of_two = ["spiffe://cluster.local/ns/shop/sa/safe", "spiffe://cluster.local/ns/shop/sa/till"];
    assert_eq!(identities(&backend)?, [of_two[0], of_two[1], "spiffe://named/one", "spiffe://named/two"]);
    backend.delete("b", "pay.yaml").await?;
    assert_eq!(identities(&backend)?, [of_two[1], "spiffe://named/one"]);
    Ok(())
}
