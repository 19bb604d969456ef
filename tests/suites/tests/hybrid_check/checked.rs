//! Runs `tributary check` as an operator would, and reads its result.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tributary_suites::{TestServer, tools};

/// Longest time of one command.
pub(crate) const LATER: Duration = Duration::from_secs(60);

/// Result of `check -o json`: its exit code and its document.
pub(crate) struct Checked(pub(crate) Option<i32>, Value);

impl Checked {
    /// Returns the results that are neither passed nor skipped, as `check: message; next`.
    pub(crate) fn red(&self) -> Vec<String> {
        let red = self.items().filter(|item| matches!(item["outcome"].as_str(), Some("Error" | "Warning")));
        let text = |item: &Value| {
            let of = |finding: &Value| {
                let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
                format!(
                    "{}: {}; {}",
                    item["check"].as_str().unwrap_or_default(),
                    text("message"),
                    text("next")
                )
            };
            item["findings"].as_array().into_iter().flatten().map(of).collect::<Vec<_>>()
        };
        red.flat_map(text).collect()
    }
    /// Asserts that a check is red with this text; others may be, too.
    pub(crate) fn has_red(&self, id: &str, text: &str) -> Result<()> {
        let red = self.red();
        let found = red.iter().any(|one| one.starts_with(&format!("{id}: ")) && one.contains(text));
        ensure!(found, "{id} with {text:?} is not in {red:#?}");
        Ok(())
    }
    /// Asserts that a check has a finding with this text, of whatever severity.
    pub(crate) fn has(&self, id: &str, text: &str) -> Result<()> {
        let item =
            self.items().find(|item| item["check"] == id).with_context(|| format!("no result of {id}"))?;
        ensure!(item["findings"].to_string().contains(text), "{text:?} is not in {item:#}");
        Ok(())
    }
    fn items(&self) -> impl Iterator<Item = &Value> {
        self.1["items"].as_array().into_iter().flatten()
    }
    /// Asserts that no line of a finding repeats an address or a code.
    fn repeats_nothing(&self) -> Result<()> {
        for finding in self.items().flat_map(|item| item["findings"].as_array().into_iter().flatten()) {
            let part = |of: &Value| of.as_str().unwrap_or_default().to_owned();
            let object = &finding["object"];
            let line =
                [&object["kind"], &object["name"], &finding["message"], &finding["code"]].map(part).join(" ");
            let parts = line.split(|c: char| c.is_whitespace() || "()[],;/".contains(c));
            let parts = parts.map(|part| part.trim_end_matches(':'));
            let is_code = |part: &str| part.starts_with("TRB") || part.starts_with("127.0.0.1:");
            let mut all: Vec<&str> = parts.filter(|part| is_code(part)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            ensure!(all.len() == count, "an address or a code is repeated: {line}");
        }
        Ok(())
    }
    /// Asserts that only these checks are red, each with a text of its finding or its next step.
    pub(crate) fn is_red(&self, expected: &[(&str, &str)]) -> Result<()> {
        let red = self.red();
        expected.iter().try_for_each(|(check, text)| self.has_red(check, text))?;
        let other =
            red.iter().find(|one| !expected.iter().any(|(check, _)| one.starts_with(&format!("{check}: "))));
        ensure!(other.is_none(), "{other:?} is red, too: {red:#?}");
        Ok(())
    }
    pub(crate) fn is_green(&self) -> Result<()> {
        ensure!(self.0 == Some(0) && self.red().is_empty(), "exit {:?}: {:#?}", self.0, self.red());
        Ok(())
    }
}

pub(crate) async fn run(args: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command = tokio::process::Command::new(tools::tributary()?);
    command.args(args).kill_on_drop(true).env_remove("TRIBUTARY_SERVER");
    let output = tokio::time::timeout(LATER * 2, command.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

pub(crate) async fn check(args: &[&str]) -> Result<Checked> {
    let (code, out, notes) = run(&[&["check", "-o", "json"], args].concat()).await?;
    let document = serde_json::from_str(&out).with_context(|| format!("exit {code:?}: {out}{notes}"))?;
    let checked = Checked(code, document);
    checked.repeats_nothing()?;
    Ok(checked)
}

pub(crate) async fn before(config: &Path) -> Result<Checked> {
    check(&["--before", "--config", &config.display().to_string()]).await
}

pub(crate) async fn after(server: &TestServer, more: &[&str]) -> Result<Checked> {
    check(&[&["--server", &server.admin().to_string()], more].concat()).await
}

/// Repeats `check` until this one is red.
pub(crate) async fn until_red(server: &TestServer, id: &str) -> Result<Checked> {
    tributary_suites::eventually(&format!("{id} to be red"), LATER, || async {
        let found = after(server, &["--connect"]).await?;
        found.has_red(id, "").map(|()| found)
    })
    .await
}
