//! Scenario 13: one client's behaviour has no cost for others.

use std::time::Instant;

use tributary_suites::ads::{EDS, client::Tuning, node};
use tributary_suites::{AdsClient, Follower, nowhere};

use super::*;

/// Returns a hundred services with forty endpoints: more than fits into the windows of a slow client.
fn large() -> Vec<Entry> {
    let hosts: Vec<SocketAddr> = (1..=40).map(nowhere).collect();
    (0..100).map(|number| Entry::http(&format!("large-{number}.test"), 80).all(&hosts)).collect()
}

/// Opens a client that requests everything and then reads nothing. Its windows are small and full.
async fn slow(world: &World, variant: Variant, names: &[String]) -> Result<AdsClient> {
    let stream = tokio::net::TcpStream::connect(world.xds()).await?;
    let tuning = Tuning { stream_window: 1 << 16, connection_window: 1 << 16, ..Tuning::default() };
    let mut client = AdsClient::over(stream, variant, Some(node("slow")), tuning).await?;
    client.subscribe(EDS, &texts(names))?;
    Ok(client)
}

async fn change_reaches(world: &World, client: &mut Follower, entry: &Entry, last: u8) -> Result<Duration> {
    let began = Instant::now();
    world.put(&Entry::http("svc-1.test", 80).at(nowhere(last)))?;
    client.has_endpoints(&entry.cluster(), &[nowhere(last)], SOON).await?;
    Ok(began.elapsed())
}

#[tokio::test]
async fn scenario_13_slow_reader_delays_no_other_client() -> Result<()> {
    let [entry, ..] = three();
    let mut entries = large();
    entries.push(entry.clone());
    let files = Files::new()?;
    let text: Vec<String> = entries.iter().map(Entry::yaml).collect();
    files.put("all.yaml", &text[..100].join("---\n"))?;
    put(&files, std::slice::from_ref(&entry))?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut world = World { files, server };
    let names = names(&entries);
    let mut slow_ones = Vec::new();
    for number in 0..6 {
        slow_ones.push(slow(&world, Variant::BOTH[number % 2], &names).await?);
    }
    world.server.shows("clients", SOON, |clients| clients.len() == 6).await?;
    let mut quick = Vec::new();
    for variant in Variant::BOTH {
        let mut client = Follower::connect(world.xds(), variant, node("quick")).await?;
        client.subscribe(EDS, &[&entry.cluster()])?;
        client.has_endpoints(&entry.cluster(), &[nowhere(1)], SOON).await?;
        quick.push(client);
    }
    let before = world.server.resident()?;
    let mut slowest = Duration::ZERO;
    for last in 2..=40 {
        for client in &mut quick {
            slowest = slowest.max(change_reaches(&world, client, &entry, last).await?);
        }
    }
    ensure!(slowest < Duration::from_secs(5), "a change took {slowest:?} beside readers that do not read");
    // Nothing accumulates for the slow clients: forty generations later they use the same memory.
    let grown = world.server.resident()?.saturating_sub(before);
    ensure!(grown < 32 << 20, "the server grew by {grown} bytes while no client read");
    // When they finally read, they get the newest state only.
    let mut late = Follower::over(slow_ones.swap_remove(0), Variant::Sotw);
    late.until("all that it asked for", SOON, |now| (now.names(EDS).len() == names.len()).then_some(()))
        .await?;
    late.has_endpoints(&entry.cluster(), &[nowhere(40)], SOON).await
}
