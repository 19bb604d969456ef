//! Invalid or conflicting documents: each is shown, and none affects another.

use tributary_suites::ads::CDS;

use super::*;

/// Google, June 2025: a record with blank fields reached every region and ended every process that read it.
#[tokio::test]
async fn blank_and_unknown_fields_quarantine_object() -> Result<()> {
    let files = Files::new()?;
    files.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    files.put("next.yaml", &Entry::http("next.test", 80).at(nowhere(2)).yaml())?;
    let mut server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut client = follow(&server).await?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1)], SOON).await?;
    let good = svc(&[nowhere(1)]).yaml();
    let bad = [
        good.replace("number: 80", "number:"),
        good.replace("hosts: [\"svc.test\"]", "hosts: [\"\"]"),
        good.replace("hosts: [\"svc.test\"]", "hosts:"),
        good.replace("resolution: STATIC", "resolution: \"\""),
        good.replace("address: \"127.0.0.1\"", "address: \"\""),
        good.replace("spec:", "spec:\n  quota: null"),
        good.replace("name: main, ", "name: main, colour: red, "),
        good.replace("name: svc-test", "name: \"\""),
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n".to_owned(),
    ];
    for (number, bad) in bad.iter().enumerate() {
        ensure!(*bad != good, "document {number} is not bad");
        files.put("svc.yaml", bad)?;
        let shown = server
            .shows("registries", SOON, |items| {
                items.iter().any(|one| one["problems"].to_string().contains("svc.yaml"))
            })
            .await?;
        let problem = &shown[0]["problems"][0];
        ensure!(
            problem["code"].as_str().is_some_and(|code| code.starts_with("TRB03")),
            "{number}: {problem}"
        );
        let message = problem["message"].as_str().unwrap_or_default();
        ensure!(!message.is_empty(), "{number}: {problem}");
        // The next document is read, and the last good version of this one is served.
        let mark = nowhere(20 + u8::try_from(number)?);
        files.put("next.yaml", &Entry::http("next.test", 80).at(mark).yaml())?;
        client.has_endpoints("outbound|80||next.test", &[mark], SOON).await?;
        client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1)], SOON).await?;
        files.put("svc.yaml", &good)?;
        server.shows("registries", SOON, |items| items.iter().all(|one| one["problems"].is_null())).await?;
    }
    server.process().check_running()
}

/// istio#46105: another registry's port of the same number but another name lost its endpoints without a
/// report.
#[tokio::test]
async fn port_conflict_reported_and_isolated() -> Result<()> {
    let (first, second) = (Files::new()?, Files::new()?);
    first.put("svc.yaml", &svc(&[nowhere(1)]).yaml())?;
    first.put("other.yaml", &Entry::http("other.test", 80).at(nowhere(3)).yaml())?;
    let renamed = svc(&[nowhere(2)]).protocol("GRPC").yaml();
    let renamed = renamed.replace("name: main,", "name: web,").replace("ports: {main:", "ports: {web:");
    second.put("svc.yaml", &renamed)?;
    let server = TestServer::start(ServerOptions::files(first.path()).and_files(second.path())).await?;
    let mut client = follow(&server).await?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(1), nowhere(2)], SOON).await?;
    client.has_endpoints("outbound|80||other.test", &[nowhere(3)], SOON).await?;
    let conditions = |host: &str| {
        let path = format!("services?host={host}");
        let server = &server;
        async move {
            let services = server.items(&path).await?;
            ensure!(services.len() == 1, "{services:#?}");
            anyhow::Ok((services[0]["conditions"].to_string(), services[0]["ports"][0].clone()))
        }
    };
    let (text, port) = conditions("svc.test").await?;
    ensure!(text.contains("TRB0401"), "the conflict is not shown: {text}");
    assert_eq!((&port["name"], &port["protocol"]), (&"main".into(), &"HTTP".into()), "the first is served");
    let (text, _) = conditions("other.test").await?;
    assert_eq!(text, "null", "a service that has no conflict shows one");
    // The conflict ends with its cause, and the port then belongs to the other.
    first.remove("svc.yaml")?;
    client.has_endpoints(&svc(&[]).cluster(), &[nowhere(2)], SOON).await?;
    let (text, port) = conditions("svc.test").await?;
    ensure!(!text.contains("TRB0401") && port["protocol"] == "GRPC", "{text} {port}");
    Ok(())
}

/// One file with many documents, one of them invalid: the others are served, and the invalid one is reported
/// with its line.
#[tokio::test]
async fn only_the_invalid_document_is_quarantined() -> Result<()> {
    let files = Files::new()?;
    let entries = [1, 2, 3].map(|last| Entry::http(&format!("svc-{last}.test"), 80).at(nowhere(last)));
    let mut texts = entries.each_ref().map(Entry::yaml);
    texts[1] = texts[1].replace("number: 80", "number: eighty");
    files.put("all.yaml", &texts.join("---\n"))?;
    let server = TestServer::start(ServerOptions::files(files.path())).await?;
    let mut client = follow(&server).await?;
    client.holds(CDS, &[&entries[0].cluster(), &entries[2].cluster()], SOON).await?;
    let registries = server.items("registries").await?;
    let problems = registries[0]["problems"].to_string();
    let line =
        texts[0].lines().count() + 1 + texts[1].lines().position(|l| l.contains("eighty")).unwrap_or(0) + 1;
    ensure!(problems.contains(&format!("all.yaml:{line}")), "no line {line} in {problems}");
    Ok(())
}
