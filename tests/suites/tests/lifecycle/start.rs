//! Failures that end the process before it serves, and their messages.

use tributary_suites::ports;

use super::*;

/// Returns the exit code and all output of a server that cannot start.
async fn fails(options: ServerOptions) -> Result<(i32, String)> {
    let mut server = TestServer::launch(options)?;
    let status = server.process().ended(SOON).await?;
    let taken = std::net::TcpStream::connect(server.xds()).is_ok();
    ensure!(!taken || server.process().output().contains("TRB0103"), "it serves although it has failed");
    Ok((status.code().unwrap_or(-1), server.process().output()))
}

fn contains(output: &str, texts: &[&str]) -> Result<()> {
    for text in texts {
        ensure!(output.contains(text), "no {text:?} in:\n{output}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_registry_the_server_shows_how_to_name_one() -> Result<()> {
    let (code, output) = fails(ServerOptions::default()).await?;
    assert_eq!(code, 2, "{output}");
    contains(&output, &["TRB0101"])?;
    let examples = output.lines().filter(|line| line.trim().starts_with("tributary serve --")).count();
    assert_eq!(examples, 4, "an example of each kind, and of a file: {output}");
    Ok(())
}

#[tokio::test]
async fn an_unknown_kind_of_registry_ends_the_start() -> Result<()> {
    let (code, output) = fails(ServerOptions::default().arg("--registry").arg("zookeeper=/x")).await?;
    assert_eq!(code, 2, "{output}");
    contains(&output, &["TRB0106", "zookeeper", "file"])
}

#[tokio::test]
async fn an_unknown_field_ends_the_start_with_its_place() -> Result<()> {
    let files = Files::new()?;
    let path = files.path().join("config.yaml");
    std::fs::write(&path, config(&[files.path()], "xds:\n  maxConections: 5\n"))?;
    let (code, output) = fails(ServerOptions::default().config(&path)).await?;
    assert_eq!(code, 2, "{output}");
    contains(&output, &["TRB0102", "config.yaml:7", "maxConections"])
}

#[tokio::test]
async fn plaintext_on_an_open_address_ends_the_start() -> Result<()> {
    let files = Files::new()?;
    let everywhere = SocketAddr::from(([0, 0, 0, 0], ports::free_port()?));
    let (code, output) =
        fails(ServerOptions::files(files.path()).on(everywhere, ports::free_addr()?)).await?;
    assert_eq!(code, 2, "{output}");
    contains(&output, &["TRB0104", &everywhere.to_string(), "--xds-listen"])
}

#[tokio::test]
async fn a_port_in_use_ends_the_start() -> Result<()> {
    let files = Files::new()?;
    for taken in 0..2 {
        let addrs = [ports::free_addr()?, ports::free_addr()?];
        let _holder = std::net::TcpListener::bind(addrs[taken])?;
        let (code, output) = fails(ServerOptions::files(files.path()).on(addrs[0], addrs[1])).await?;
        assert_eq!(code, 1, "{output}");
        contains(&output, &["TRB0103", &addrs[taken].to_string()])?;
        let other = std::net::TcpStream::connect(addrs[1 - taken]);
        ensure!(other.is_err(), "the other port is served although the process has failed");
    }
    Ok(())
}

#[tokio::test]
async fn unreadable_certificates_end_the_start() -> Result<()> {
    let files = Files::new()?;
    files.put("cert.pem", "not a certificate")?;
    let path = files.path().join("cert.pem").display().to_string();
    let options = ServerOptions::files(files.path()).arg("--xds-cert").arg(&path).arg("--xds-key").arg(&path);
    let (code, output) = fails(options).await?;
    assert_ne!(code, 0, "{output}");
    contains(&output, &["TRB0107", "cert.pem"])
}

/// An absent source does not end the server: it reports the source, is alive, and reads the source when it
/// appears.
#[tokio::test]
async fn source_that_is_down_never_ends_the_server() -> Result<()> {
    let there = Files::new()?;
    there.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    let absent = there.path().join("absent");
    let options =
        ServerOptions::files(there.path()).arg("--registry").arg(&format!("file={}", absent.display()));
    let mut server = TestServer::start(options.arg("--first-sync-timeout").arg("1s")).await?;
    let registries = server.items("registries").await?;
    ensure!(registries.iter().any(|one| one["state"] != "Live" && one["reason"] != ""), "{registries:#?}");
    let (_, readiness) = tributary_suites::http_client::get(server.admin(), "/readyz?verbose").await?;
    ensure!(readiness.contains("file-2"), "readyz does not name the unknown registry: {readiness}");
    let mut client = follow(&server).await?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1)], SOON).await?;
    std::fs::create_dir(&absent)?;
    std::fs::write(absent.join("late.yaml"), Entry::http("late.test", 80).at(nowhere(2)).yaml())?;
    client.has_endpoints("outbound|80||late.test", &[nowhere(2)], SOON).await?;
    server.process().check_running()
}
