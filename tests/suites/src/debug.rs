//! Reports of the server under test about itself: the documents of `/debug`, health and metrics, read over its
//! admin port as an operator's tools read them.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::StatusCode;
use serde_json::Value;

use crate::{TestServer, eventually, http_client};

impl TestServer {
    /// Returns a document of `/debug`, such as `services?host=pay.shop`.
    pub async fn debug(&self, path: &str) -> Result<Value> {
        http_client::get_json(self.admin(), &format!("/debug/{path}")).await
    }

    /// Returns the items of a list of `/debug`.
    pub async fn items(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.debug(path).await?;
        list["items"].as_array().cloned().with_context(|| format!("/debug/{path} is no list: {list}"))
    }

    /// Returns a registry of `/debug/registries`.
    pub async fn registry(&self, name: &str) -> Result<Value> {
        let found = self.items("registries").await?.into_iter().find(|one| one["name"] == name);
        found.with_context(|| format!("no registry is called {name}"))
    }

    /// Waits until a registry is in this state and its report contains these texts.
    pub async fn registry_is(
        &self,
        name: &str,
        state: &str,
        texts: &[&str],
        within: Duration,
    ) -> Result<Value> {
        eventually(&format!("{name} to be {state}"), within, || async {
            let registry = self.registry(name).await?;
            let report = registry.to_string();
            ensure!(registry["state"] == state, "the state differs: {report}");
            ensure!(
                texts.iter().all(|text| report.contains(text)),
                "the report is {report}, without {texts:?}"
            );
            Ok(registry)
        })
        .await
    }

    /// Returns the only stream of the client with this node id.
    pub async fn client(&self, id: &str) -> Result<Value> {
        let mut streams = self.items("clients").await?;
        streams.retain(|client| client["id"] == id);
        ensure!(streams.len() == 1, "{} streams of {id}, wanted one", streams.len());
        Ok(streams.remove(0))
    }

    /// Returns one type of a client: `CDS`, `EDS`, `LDS` or `RDS`.
    pub async fn client_type(&self, id: &str, kind: &str) -> Result<Value> {
        let client = self.client(id).await?;
        let types = client["types"].as_array().into_iter().flatten();
        let found = types.into_iter().find(|one| one["type"] == kind).cloned();
        found.with_context(|| format!("{id} has no {kind}: {client}"))
    }

    /// Waits until a client has accepted everything it was sent, on all of its streams, without a rejection. A
    /// returning client that holds everything may receive nothing of some types.
    pub async fn is_content(&self, id: &str, within: Duration) -> Result<Value> {
        let client = eventually(&format!("{id} to take what it was sent"), within, || async {
            let mut streams = self.items("clients").await?;
            streams.retain(|client| client["id"] == id);
            streams.iter().try_for_each(content)?;
            streams.pop().with_context(|| format!("{id} is not connected"))
        })
        .await?;
        let refused = self.metric_sum("tributary_xds_nacks_total").await?;
        ensure!(refused == 0.0, "{refused} refusals came before this: {client:#}");
        Ok(client)
    }

    /// Returns the value of a metric: its name and labels as in the text format.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        let text = http_client::get_text(self.admin(), "/metrics").await?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no metric {name} in:\n{text}"))?;
        value.trim().parse().with_context(|| format!("{name} is {value}"))
    }

    /// Returns the sum of a metric over all of its labels; 0 where it has no value at all.
    pub async fn metric_sum(&self, name: &str) -> Result<f64> {
        let text = http_client::get_text(self.admin(), "/metrics").await?;
        let rest = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(['{', ' ']));
        let values = rest.map(|rest| rest.rsplit_once(' ').map_or(rest, |(_, value)| value).parse::<f64>());
        values.sum::<std::result::Result<f64, _>>().with_context(|| format!("read {name}"))
    }

    /// Waits until `probe` holds for the items of a list.
    pub async fn shows(
        &self,
        path: &str,
        within: Duration,
        probe: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        eventually(path, within, || async {
            let items = self.items(path).await?;
            ensure!(probe(&items), "it shows {}", Value::from(items));
            Ok(items)
        })
        .await
    }

    /// Returns true if `/readyz` reports ready.
    pub async fn is_ready(&self) -> Result<bool> {
        match http_client::get(self.admin(), "/readyz").await? {
            (StatusCode::OK, _) => Ok(true),
            (StatusCode::SERVICE_UNAVAILABLE, _) => Ok(false),
            (status, body) => bail!("readyz answered {status}: {body}"),
        }
    }

    /// Returns the conditions of `/readyz?verbose`.
    pub async fn readiness(&self) -> Result<String> {
        Ok(http_client::get(self.admin(), "/readyz?verbose").await?.1)
    }

    /// Returns the resident memory of the process, in bytes.
    pub fn resident(&mut self) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process().id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("read VmRSS")?;
        Ok(kilobytes * 1024)
    }
}

/// Fails if a stream has not accepted everything it was sent.
fn content(stream: &Value) -> Result<()> {
    let types = stream["types"].as_array().cloned().unwrap_or_default();
    let of = |state: &str| types.iter().filter(|one| one["state"] == state).count();
    ensure!(of("SYNCED") > 0 && of("SYNCED") + of("NOT SENT") == types.len(), "{stream:#}");
    Ok(())
}
