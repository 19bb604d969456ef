//! Scenarios 11 and 12: equal views get equal bytes, and no client receives an older state again.

use tributary_suites::ads::{CDS, EDS, LDS, RDS, node};
use tributary_suites::{Follower, nowhere};

use super::*;

#[tokio::test]
async fn scenario_11_equal_views_get_equal_bytes() -> Result<()> {
    let world = World::start(&three()).await?;
    for variant in Variant::BOTH {
        let mut seen = Vec::new();
        for name in ["one", "two"] {
            let mut client = Follower::like_envoy(world.xds(), variant, sidecar(name)).await?;
            client.holds(EDS, &texts(&names(&three())), SOON).await?;
            client.subscribe(LDS, &[])?;
            client.subscribe(RDS, &["80"])?;
            client.until("routes", SOON, |now| now.names(RDS).contains("80").then_some(())).await?;
            seen.push([CDS, EDS, LDS, RDS].map(|kind| (client.versions(kind), client.bytes(kind))));
        }
        assert_eq!(seen[0], seen[1], "{variant:?}");
    }
    Ok(())
}

/// Delta and SotW send the same bodies, so a client may change protocols.
#[tokio::test]
async fn scenario_11_both_protocols_carry_the_same_bytes() -> Result<()> {
    let world = World::start(&three()).await?;
    let mut seen = Vec::new();
    for variant in Variant::BOTH {
        let mut client = Follower::like_envoy(world.xds(), variant, node("plain")).await?;
        client.holds(EDS, &texts(&names(&three())), SOON).await?;
        seen.push([CDS, EDS].map(|kind| client.bytes(kind)));
    }
    assert_eq!(seen[0], seen[1]);
    Ok(())
}

/// The same documents under other file names, and so read in another order, with another history.
#[tokio::test]
async fn scenario_11_order_of_arrival_does_not_matter() -> Result<()> {
    let shared = |last: u8, name: &str| {
        let yaml = Entry::http("shared.test", 80)
            .near(nowhere(last), "eu/b")
            .near(nowhere(last + 10), "eu/a")
            .yaml();
        yaml.replace("name: shared-test", &format!("name: {name}"))
    };
    let documents = [shared(1, "first"), shared(2, "second"), shared(3, "third")];
    let mut seen = Vec::new();
    for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
        let files = Files::new()?;
        files.put("0.yaml", &documents[order[0]])?;
        let server = TestServer::start(ServerOptions::files(files.path())).await?;
        for (place, document) in order.into_iter().enumerate().skip(1) {
            files.put(&format!("{place}.yaml"), &documents[document])?;
        }
        let mut client = Follower::like_envoy(server.xds(), Variant::Delta, node("plain")).await?;
        let hosts = [1, 2, 3, 11, 12, 13].map(nowhere);
        client.has_endpoints("outbound|80||shared.test", &hosts, SOON).await?;
        seen.push([CDS, EDS].map(|kind| (client.versions(kind), client.bytes(kind))));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    Ok(())
}

/// A service counts upwards, one endpoint at a time, while many clients watch: none may see a lower number
/// after a higher one.
#[tokio::test]
async fn scenario_12_no_client_receives_an_older_state() -> Result<()> {
    const LAST: u8 = 60;
    let counter = |count: u8| Entry::http("counter.test", 80).at(nowhere(count));
    let world = World::start(&[counter(1)]).await?;
    let name = counter(1).cluster();
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..8 {
        let variant = Variant::BOTH[reader % 2];
        let (xds, name) = (world.xds(), name.clone());
        readers.spawn(async move {
            let mut client = Follower::like_envoy(xds, variant, node(&format!("reader-{reader}"))).await?;
            let mut seen = vec![0];
            client
                .until("the last count", SOON * 3, |now| {
                    let count = count(now, &name).unwrap_or(0);
                    (seen.last() != Some(&count)).then(|| seen.push(count));
                    (count == LAST).then_some(())
                })
                .await?;
            ensure!(seen.is_sorted(), "reader {reader} on {variant:?} saw {seen:?}");
            Ok(seen.len())
        });
    }
    for count in 2..=LAST {
        world.put(&counter(count))?;
        tokio::task::yield_now().await;
    }
    while let Some(reader) = readers.join_next().await {
        ensure!(reader?? > 1, "a reader saw nothing");
    }
    Ok(())
}

fn count(client: &Follower, name: &str) -> Option<u8> {
    let endpoints = client.endpoints(name).ok()?;
    let address: SocketAddr = endpoints.first()?.parse().ok()?;
    match address.ip() {
        std::net::IpAddr::V4(ip) => Some(ip.octets()[3]),
        std::net::IpAddr::V6(_) => None,
    }
}
