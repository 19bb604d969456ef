//! Worlds of Istio's objects, and the facts that a real pilot-discovery gave for them: what the real binary answers is
//! compared with these. `facts/NAME.yaml` has the objects and the clients, `facts/NAME.txt` the recorded facts with the
//! version that gave them, `facts/differences.tsv` each known difference with its reason.
//!
//! `TRIBUTARY_FACTS=FOLDER` also writes Tributary's facts there, for a look at a difference.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tributary_suites::facts::compare::{Difference, differences, faults, table};
use tributary_suites::facts::{Recorded, World, collect, format, parse};
use tributary_suites::{Files, ServerOptions, TestServer};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("facts")
}

/// Returns the names of the files with an extension, without it.
fn named(extension: &str) -> Result<BTreeSet<String>> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).context("a name that is no text")?;
        if path.extension().is_some_and(|found| found == extension) {
            out.insert(stem.to_owned());
        }
    }
    Ok(out)
}

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(folder().join(file)).with_context(|| format!("read {file}"))
}

/// Returns the facts of the real binary for a world.
async fn ours(world: &World) -> Result<Recorded> {
    let files = Files::new()?;
    world.write(&files.path().join("world.yaml"))?;
    let settings = Files::new()?;
    let config = settings.path().join("config.yaml");
    world.write_settings(&config)?;
    let server = TestServer::start(ServerOptions::files(files.path()).config(&config)).await?;
    let mut out = Recorded::new();
    for (name, client) in &world.clients {
        let facts =
            collect(server.xds(), client.node(name)).await.with_context(|| format!("client {name}"))?;
        out.insert(name.clone(), facts);
    }
    Ok(out)
}

async fn compare(name: &str) -> Result<Vec<Difference>> {
    let world = World::read(&folder().join(format!("{name}.yaml")))?;
    let recorded = parse(&read(&format!("{name}.txt"))?)?;
    let ours = ours(&world).await?;
    if let Some(into) = std::env::var_os("TRIBUTARY_FACTS") {
        std::fs::write(Path::new(&into).join(format!("{name}.txt")), format("Tributary", &ours))?;
    }
    ensure!(ours.keys().eq(recorded.keys()), "{name}: the recorded clients are not those of the world");
    let both = ours.iter().zip(recorded.values());
    Ok(both.flat_map(|((client, ours), theirs)| differences(name, client, ours, theirs)).collect())
}

#[tokio::test]
async fn answers_are_those_of_istio_but_for_known_differences() -> Result<()> {
    let mut found = Vec::new();
    for name in named("yaml")? {
        found.extend(compare(&name).await.with_context(|| format!("world {name}"))?);
    }
    let known = table(&read("differences.tsv")?)?;
    let faults = faults(&found, &known);
    let open = known.iter().filter(|row| row.reason.starts_with("open")).count();
    println!("{} differences, {} rows, {open} of them open", found.len(), known.len());
    ensure!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    Ok(())
}

#[test]
fn each_world_has_facts_and_their_version() -> Result<()> {
    let worlds = named("yaml")?;
    ensure!(!worlds.is_empty() && worlds == named("txt")?, "a world without facts, or facts without a world");
    for name in worlds {
        let text = read(&format!("{name}.txt"))?;
        let origin = text.lines().next().unwrap_or_default();
        ensure!(
            origin.starts_with("# pilot-discovery 1."),
            "{name}: the first line names no version: {origin}"
        );
        ensure!(!parse(&text)?.is_empty(), "{name}: no client");
    }
    Ok(())
}
