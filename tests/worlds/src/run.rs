//! Reads worlds and runs them: each step is applied, then compared until it holds or cannot change any more.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::backend::Backend;
use crate::cluster::{ObjectName, documents};
use crate::core_backend::CoreBackend;
use crate::row::Row;
use crate::schema::{Case, ClientSpec, Expect, Explained, ServiceExpect, ServiceFound, Step, World};

/// Returns every world with the name of its file, in order.
pub fn worlds() -> Result<Vec<(String, World)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("worlds");
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    paths.iter().map(|path| Ok((name(path), read(path)?))).collect()
}

fn read(path: &Path) -> Result<World> {
    let text = std::fs::read_to_string(path)?;
    let world: World = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
    if world.cases.is_empty() {
        bail!("{}: a world without cases shows nothing", path.display());
    }
    Ok(world)
}

/// Order in which the documents of one step are applied; the result must not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As written.
    Written,
    /// Last document first.
    Reversed,
}

/// Runs one case of a world on a fresh backend. An error names the step and every difference.
pub async fn run<B: Backend>(world: &World, case: &Case, backend: &mut B) -> Result<()> {
    run_in(Order::Written, world, case, backend).await
}

/// Runs one case with the documents of each step in this order.
pub async fn run_in<B: Backend>(order: Order, world: &World, case: &Case, backend: &mut B) -> Result<()> {
    let stage = world.stage(case);
    backend.begin(&stage).await.with_context(|| format!("{:?}: begin", case.case))?;
    for (at, step) in case.steps.iter().enumerate() {
        let about = || format!("{:?}, step {} {}", case.case, at + 1, step.step);
        act(step, order, &stage.files, backend).await.with_context(about)?;
        check(&step.expect, &stage.clients, backend).await.with_context(about)?;
    }
    Ok(())
}

/// Runs on the core the cases of a world whose statements contain `part`, each with the documents of a step in both
/// orders. Reports every failure, so one broken rule does not hide others.
pub async fn run_on_core(file: &str, part: &str) -> Result<()> {
    let found = worlds()?.into_iter().find(|(name, _)| name == file);
    let (_, world) = found.with_context(|| format!("no world {file}"))?;
    let cases: Vec<&Case> = world.cases.iter().filter(|case| case.case.contains(part)).collect();
    ensure!(!cases.is_empty(), "{file} has no case {part:?}");
    let mut faults = Vec::new();
    for case in cases {
        for order in [Order::Written, Order::Reversed] {
            if let Err(error) = run_in(order, &world, case, &mut CoreBackend::default()).await {
                faults.push(format!("{order:?}: {error:#}"));
            }
        }
    }
    ensure!(faults.is_empty(), "{file}:\n{}", faults.join("\n"));
    Ok(())
}

async fn act<B: Backend>(
    step: &Step,
    order: Order,
    registries: &BTreeMap<String, String>,
    backend: &mut B,
) -> Result<()> {
    let mut documents = documents(&step.apply)?;
    let mut gone: Vec<ObjectName> =
        step.remove.iter().map(|name| ObjectName::parse(name)).collect::<Result<_>>()?;
    if order == Order::Reversed {
        documents.reverse();
        gone.reverse();
    }
    if !gone.is_empty() {
        backend.remove(&gone).await?;
    }
    if !documents.is_empty() {
        backend.apply(&documents).await?;
    }
    let mut remote = crate::cluster::documents(&step.remote)?;
    if order == Order::Reversed {
        remote.reverse();
    }
    if !remote.is_empty() {
        backend.apply_remote(&remote).await?;
    }
    let mut services: Vec<_> = step.consul.iter().collect();
    if order == Order::Reversed {
        services.reverse();
    }
    for (service, instances) in services {
        backend.consul(service, instances).await?;
    }
    for (path, text) in &step.write {
        let (registry, file) = place(path, registries)?;
        backend.write(&registry, file, text).await?;
    }
    for path in &step.delete {
        let (registry, file) = place(path, registries)?;
        backend.delete(&registry, file).await?;
    }
    for (registry, state) in &step.source {
        match state.as_str() {
            "up" => backend.source(registry, true).await?,
            "down" => backend.source(registry, false).await?,
            other => bail!("a source is up or down, not {other:?}"),
        }
    }
    Ok(())
}

fn place<'p>(path: &'p str, registries: &BTreeMap<String, String>) -> Result<(String, &'p str)> {
    if let Some((registry, file)) = path.split_once('/') {
        return Ok((registry.to_owned(), file));
    }
    let mut names = registries.keys();
    match (names.next(), names.next()) {
        (Some(only), None) => Ok((only.clone(), path)),
        _ => bail!("{path}: several registries; write REGISTRY/{path}"),
    }
}

async fn check<B: Backend>(
    expect: &Expect,
    clients: &BTreeMap<String, ClientSpec>,
    backend: &mut B,
) -> Result<()> {
    loop {
        let faults = faults(expect, clients, backend).await?;
        if faults.is_empty() {
            return Ok(());
        }
        if !backend.again().await {
            bail!("\n  {}", faults.join("\n  "));
        }
    }
}

async fn faults<B: Backend>(
    expect: &Expect,
    clients: &BTreeMap<String, ClientSpec>,
    backend: &mut B,
) -> Result<Vec<String>> {
    let mut faults = Faults::default();
    for (client, ports) in &expect.endpoints {
        known(client, clients)?;
        for (port, rows) in ports {
            let want: Vec<String> = sorted(rows)?;
            let got = backend.endpoints(client, port).await?;
            faults.compare(&format!("{client} receives of {port}"), want, strings(got));
        }
    }
    for (client, ports) in &expect.localities {
        known(client, clients)?;
        for (port, want) in ports {
            let got = backend.localities(client, port).await?;
            let got: Vec<String> = got.iter().map(ToString::to_string).collect();
            faults.compare(&format!("{client}'s localities of {port}"), want, &got);
        }
    }
    for (client, want) in &expect.clusters {
        known(client, clients)?;
        faults.compare(&format!("{client}'s xDS clusters"), want, &backend.clusters(client).await?);
    }
    for (host, want) in &expect.services {
        let found = backend.service(host).await?;
        faults.service(host, want.as_ref(), found);
    }
    for (host, want) in &expect.conditions {
        let mut want = want.clone();
        want.sort();
        faults.compare(
            &format!("conditions of {host}"),
            want,
            backend.conditions(host).await?.into_iter().collect(),
        );
    }
    if let Some(want) = &expect.problems {
        faults.compare("bad objects", want, &backend.problems().await?);
    }
    for explained in &expect.explain {
        explanation(explained, backend, &mut faults).await?;
    }
    for (client, hosts) in &expect.why_not {
        known(client, clients)?;
        for (host, want) in hosts {
            let document = backend.why_not(host, client).await?;
            let reasons = document["reasons"].as_array().into_iter().flatten();
            let codes = reasons.map(|r| text(&r["code"]));
            let got: Vec<String> = codes.filter(|code| code != HISTORY).collect();
            faults.compare(&format!("why {client} does not get {host}"), want.clone(), got);
        }
    }
    Ok(faults.0)
}

/// Code of what was there before, which only a running server knows: a world describes its present state.
const HISTORY: &str = "TRB0559";

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, want: T, got: T) {
        if want != got {
            self.0.push(format!("{what}: wanted {want:?}, got {got:?}"));
        }
    }
    fn service(&mut self, host: &str, want: Option<&ServiceExpect>, found: Option<ServiceFound>) {
        let (want, found) = match (want, found) {
            (Some(want), Some(found)) => (want, found),
            (None, None) => return,
            (want, found) => {
                return self.compare(&format!("{host} is there"), want.is_some(), found.is_some());
            }
        };
        self.part(host, "resolution", want.resolution.as_ref(), found.resolution);
        self.part(host, "addresses", want.addresses.as_ref(), found.addresses);
        self.part(host, "ports", want.ports.as_ref(), found.ports);
        self.part(host, "declarations", want.declarations.as_ref(), found.declarations);
        self.part(host, "aliases", want.aliases.as_ref(), found.aliases);
    }
    fn part<T: PartialEq + std::fmt::Debug>(&mut self, host: &str, part: &str, want: Option<&T>, got: T) {
        if let Some(want) = want {
            self.compare(&format!("{part} of {host}"), want, &got);
        }
    }
}

fn known(client: &str, clients: &BTreeMap<String, ClientSpec>) -> Result<()> {
    if clients.contains_key(client) { Ok(()) } else { bail!("no client is called {client:?}") }
}

fn sorted(rows: &[String]) -> Result<Vec<String>> {
    let mut rows: Vec<Row> = rows.iter().map(|row| row.parse()).collect::<Result<_>>()?;
    rows.sort();
    Ok(strings(rows))
}

fn strings(rows: Vec<Row>) -> Vec<String> {
    rows.iter().map(Row::to_string).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Passes if any service port of the endpoint is explained as expected.
async fn explanation<B: Backend>(want: &Explained, backend: &mut B, faults: &mut Faults) -> Result<()> {
    let documents = backend.explain(&want.endpoint, want.client.as_deref()).await?;
    let delivers = backend.delivers();
    let found: Vec<Vec<String>> = documents.iter().map(|d| differs(want, d, delivers)).collect();
    if !found.iter().any(Vec::is_empty) {
        let best = found.into_iter().min_by_key(Vec::len).unwrap_or_default();
        faults.0.push(format!("explain {} for {:?}: {}", want.endpoint, want.client, best.join("; ")));
    }
    Ok(())
}

fn differs(want: &Explained, document: &Value, delivers: bool) -> Vec<String> {
    let steps: Vec<&Value> = document["steps"].as_array().into_iter().flatten().collect();
    let lines: Vec<String> = steps
        .iter()
        .map(|s| format!("{} {} {}", text(&s["stage"]), text(&s["verdict"]), text(&s["code"])))
        .collect();
    let mut out = Faults::default();
    out.compare("verdict", want.verdict.clone(), text(&document["verdict"]));
    let mut rest = lines.iter();
    for step in want.steps.iter().filter(|s| delivers || !s.starts_with("deliver")) {
        if !rest.any(|line| line == step) {
            out.0.push(format!("no {step:?} at its place in {lines:?}"));
        }
    }
    out.0.extend(want.without.iter().filter(|s| lines.contains(s)).map(|s| format!("{s:?} is there")));
    let details: Vec<String> = steps.iter().map(|s| text(&s["detail"])).collect();
    let missing = want.mentions.iter().filter(|text| !details.iter().any(|d| d.contains(*text)));
    out.0.extend(missing.map(|text| format!("no detail mentions {text:?}: {details:?}")));
    out.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_document(verdict: &str, steps: &[(&str, &str, &str)]) -> Value {
        let steps: Vec<Value> = steps
            .iter()
            .map(|(stage, verdict, code)| {
                serde_json::json!({"stage": stage, "verdict": verdict, "code": code, "detail": "some text"})
            })
            .collect();
        serde_json::json!({"verdict": verdict, "steps": steps})
    }
    fn mk_expected(verdict: &str, steps: &[&str]) -> Explained {
        let steps = steps.iter().map(|s| (*s).to_owned()).collect();
        Explained { verdict: verdict.to_owned(), steps, ..Explained::default() }
    }

    #[test]
    fn explanation_must_contain_its_steps_in_order() {
        let document = mk_document("served", &[("source", "pass", "TRB0501"), ("scope", "pass", "TRB0505")]);
        let differ = |verdict, steps: &[&str]| differs(&mk_expected(verdict, steps), &document, false).len();
        assert_eq!(differ("served", &["source pass TRB0501", "scope pass TRB0505"]), 0);
        assert_eq!(differ("served", &["scope pass TRB0505", "source pass TRB0501"]), 1, "the order is wrong");
        assert_eq!(differ("dropped", &["scope drop TRB0506"]), 2);
        assert_eq!(differ("served", &["deliver pass TRB0520"]), 0, "this backend has no deliver stage");
        let mut want = mk_expected("served", &[]);
        want.mentions = vec!["other text".to_owned()];
        want.without = vec!["scope pass TRB0505".to_owned()];
        assert_eq!(differs(&want, &document, false).len(), 2);
    }

    #[test]
    fn file_without_prefix_belongs_to_the_only_registry() {
        let one = BTreeMap::from([("file".to_owned(), "c1".to_owned())]);
        assert_eq!(place("a.yaml", &one).unwrap(), ("file".to_owned(), "a.yaml"));
        let two = BTreeMap::from([("a".to_owned(), "c1".to_owned()), ("b".to_owned(), "c2".to_owned())]);
        assert!(place("a.yaml", &two).is_err());
        assert_eq!(place("b/a.yaml", &two).unwrap(), ("b".to_owned(), "a.yaml"));
    }
}
