//! Completion and manual pages, read by bash and groff.

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tributary_suites::deploy::{output, succeed};
use tributary_suites::tools;

#[tokio::test]
async fn bash_completes_commands_kinds_and_flags() -> Result<()> {
    let folder = TempDir::new()?;
    let script = folder.path().join("completion").display().to_string();
    std::fs::write(&script, succeed(tools::tributary()?, ["completion", "bash"]).await?)?;
    succeed("bash", ["-n", &script]).await?;
    let complete = tools::script("complete.bash")?.display().to_string();
    for (typed, wanted) in [
        (&["get", ""][..], &["services", "endpoints", "clients", "registries", "policies"][..]),
        (&["cluster", ""], &["add", "rotate", "remove"]),
        (&["serve", "--log-format", ""], &["auto", "pretty", "json"]),
        (&["comp"], &["completion"]),
    ] {
        let offered = succeed("bash", [&[complete.as_str(), &script], typed].concat()).await?;
        for one in wanted {
            ensure!(offered.lines().any(|line| line == *one), "{typed:?}: {one} is not in {offered}");
        }
    }
    for shell in ["zsh", "fish", "powershell", "elvish"] {
        let script = succeed(tools::tributary()?, ["completion", shell]).await?;
        ensure!(script.contains("rotate"), "{shell}: {script}");
    }
    Ok(())
}

#[tokio::test]
async fn manual_pages_have_no_warning() -> Result<()> {
    let folder = TempDir::new()?;
    succeed(tools::tributary()?, ["man".as_ref(), folder.path().as_os_str()]).await?;
    let mut pages: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder.path())? {
        pages.push(entry?.path().display().to_string());
    }
    ensure!(pages.len() > 30, "{pages:?}");
    if output("groff", ["--version"]).await.is_err() {
        eprintln!("groff is absent, so the pages are not read");
        return Ok(());
    }
    let checked = output("groff", ["-man", "-ww", "-z"].map(str::to_owned).into_iter().chain(pages)).await?;
    ensure!(checked.stderr.is_empty(), "{}", String::from_utf8_lossy(&checked.stderr));
    Ok(())
}
