//! The restart matrix: a server is killed and restarted for every kind of registry, state of its source and
//! state of its journal. A table states what each cell serves and shows; when the source returns, every cell
//! ends as the first server was, and no assignment differed in between.

mod cell;
mod consul;
mod folder;
mod journal;
mod kube;
mod lab;
mod origin;
mod table;

use anyhow::{Context as _, Result, ensure};

use cell::Cell;
use lab::Lab;
use origin::{MARK, MARKED, Origin};
use table::{Row, Source};

const SOURCES: [Source; 6] =
    [Source::Up, Source::Paused, Source::Killed, Source::Refusing, Source::Blind, Source::Empty];

/// Runs all rows of a table, the cells of one source at the same time.
async fn matrix(origin: impl Origin, table: &[Row]) -> Result<()> {
    let places = |source| -> usize {
        table.iter().filter(|row| row.source == source).map(|row| row.journals.len()).sum()
    };
    let most = SOURCES.into_iter().map(places).max().unwrap_or_default();
    let lab = Lab::start(origin, most).await?;
    for source in SOURCES.into_iter().filter(|source| places(*source) > 0) {
        lab.origin.take(source).await.with_context(|| format!("bring the source to {source:?}"))?;
        let mut cells = start(&lab, table, source)?;
        every(&mut cells, async |cell| cell.check().await).await?;
        give_back(&lab, source).await?;
        every(&mut cells, async |cell| cell.ends_whole().await).await?;
        lab.origin.set(MARK, &MARKED[1..]).await?;
        every(&mut cells, async |cell| cell.has_not_flapped().await).await?;
        lab.origin.set(MARK, &MARKED[..1]).await?;
    }
    Ok(())
}

/// Applies a check to every cell, and names those that fail. Sequential: after the first wait the other cells
/// need no time, and no requests reached them meanwhile.
async fn every<O: Origin>(
    cells: &mut [Cell<'_, O>],
    step: impl AsyncFn(&mut Cell<'_, O>) -> Result<()>,
) -> Result<()> {
    let mut failed = Vec::new();
    for cell in cells {
        if let Err(error) = step(cell).await {
            failed.push(format!("{}: {error:#}", cell.name()));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn start<'l, O: Origin>(lab: &'l Lab<O>, table: &[Row], source: Source) -> Result<Vec<Cell<'l, O>>> {
    let rows = table.iter().filter(|row| row.source == source);
    let cells = rows.flat_map(|row| row.journals.iter().map(|journal| (*row, *journal)));
    cells.enumerate().map(|(place, (row, journal))| Cell::start(lab, row, journal, place)).collect()
}

async fn give_back<O: Origin>(lab: &Lab<O>, source: Source) -> Result<()> {
    lab.origin.give_back(source).await.with_context(|| format!("end {source:?}"))?;
    if source == Source::Empty { lab.origin.fill().await } else { Ok(()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_restarts_match_their_table() -> Result<()> {
    matrix(kube::Cluster::start(false).await?, &table::KUBERNETES).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_restarts_match_their_table() -> Result<()> {
    matrix(kube::Cluster::start(true).await?, &table::CUSTOM).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalog_restarts_match_their_table() -> Result<()> {
    matrix(consul::Catalog::start().await?, &table::CONSUL).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_restarts_match_their_table() -> Result<()> {
    matrix(folder::Folder::new()?, &table::FOLDER).await
}
