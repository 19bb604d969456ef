//! The image: complete, equal for equal input, and run with its root read-only as its user.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tributary_suites::deploy::{self, Release, fail, path, succeed};

/// A small binary that needs the C library alone.
const SMALL: &str = "/usr/bin/true";

fn args(out: &Path, more: &[&str]) -> Result<Vec<String>> {
    let text = |path: &Path| path.display().to_string();
    let cache = text(&deploy::packages()?);
    let own = ["--binary", SMALL, "--out", &text(out), "--packages", &cache].map(str::to_owned);
    Ok(own.into_iter().chain(more.iter().map(|arg| (*arg).to_owned())).collect())
}

#[tokio::test]
async fn image_runs_as_its_user_with_a_read_only_root() -> Result<()> {
    let release = Release::shared().await?;
    let report = succeed(path("image/check"), [release.oci()]).await?;
    for line in ["no shell", "by-hosts is resolved", "by-dns is resolved", "state: written by user 65532"] {
        ensure!(report.contains(line), "{line} is not in {report}");
    }
    let index: Value = serde_json::from_str(&std::fs::read_to_string(release.oci().join("index.json"))?)?;
    let blob = |digest: &Value| -> Result<Value> {
        let name = digest.as_str().unwrap_or_default().replace(':', "/");
        Ok(serde_json::from_str(&std::fs::read_to_string(release.oci().join("blobs").join(name))?)?)
    };
    let manifest = blob(&index["manifests"][0]["digest"])?;
    let config = blob(&manifest["config"]["digest"])?;
    ensure!(
        config["config"]["User"] == "65532:65532" && config["config"]["Entrypoint"][0] == "/tributary",
        "{config}"
    );
    let labels = &config["config"]["Labels"];
    ensure!(labels["org.opencontainers.image.version"] == "0.1.0", "{labels}");
    ensure!(labels["org.opencontainers.image.revision"] == "abc", "{labels}");
    Ok(())
}

#[tokio::test]
async fn image_has_equal_bytes_for_equal_input() -> Result<()> {
    let (a, b) = (TempDir::new()?, TempDir::new()?);
    let pins = deploy::pins(a.path()).await?.map(|path| path.display().to_string());
    let more: Vec<&str> = pins.iter().flat_map(|pins| ["--pins", pins]).collect();
    let digest = succeed(path("image/build"), args(a.path(), &more)?).await?;
    assert_eq!(succeed(path("image/build"), args(b.path(), &more)?).await?, digest);
    let read = |folder: &TempDir| std::fs::read(folder.path().join("tributary.tar"));
    ensure!(read(&a)? == read(&b)?, "the archives differ");
    Ok(())
}

#[tokio::test]
async fn image_that_cannot_be_complete_is_refused_with_the_next_step() -> Result<()> {
    let out = TempDir::new()?;
    let pins = out.path().join("pins.tsv");
    let text = std::fs::read_to_string(path("image/packages.tsv"))?;
    let pinned = pins.display().to_string();
    let libc = text.lines().find(|line| line.contains("\tlibc6\t")).unwrap_or_default();
    let version = libc.split('\t').nth(2).unwrap_or_default();
    for (pins_text, named, next) in [
        (text.replace(version, "0.1-1"), "libc6 0.1-1 for amd64 is not available", "update-pins amd64"),
        (text.replace("\tlibc6\t", "\tlibc5\t"), "pins no libc6 for amd64", "update-pins amd64"),
    ] {
        std::fs::write(&pins, pins_text)?;
        let error = fail(path("image/build"), args(out.path(), &["--pins", &pinned])?).await?;
        ensure!(error.contains(named) && error.contains(next), "{error}");
    }
    let error = fail(path("image/build"), args(out.path(), &["--arch", "arm64"])?).await?;
    ensure!(error.contains("is for amd64, and the image for arm64"), "{error}");
    Ok(())
}

#[tokio::test]
async fn packages_of_each_architecture_are_pinned_and_a_binary_of_another_is_refused() -> Result<()> {
    let text = std::fs::read_to_string(path("image/packages.tsv"))?;
    let of = |arch: &str| -> Vec<(String, String)> {
        let rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let own = rows.filter(|row| row[0] == arch && row.get(3).is_some_and(|sha| sha.len() == 64));
        own.map(|row| (row[1].to_owned(), row[2].to_owned())).collect()
    };
    ensure!(of("amd64").len() == 5 && of("amd64") == of("arm64"), "{text}");
    // An ELF header of arm64 is enough to see the machine.
    let folder = TempDir::new()?;
    let binary = folder.path().join("tributary");
    let mut header = std::fs::read(SMALL)?;
    header.splice(18..20, [183, 0]);
    std::fs::write(&binary, header)?;
    std::fs::set_permissions(&binary, Permissions::from_mode(0o755))?;
    let (binary, out) = (binary.display().to_string(), folder.path().display().to_string());
    let package = ["--binary", &binary, "--out", &out, "--version", "1"];
    let error = fail(path("debian/build"), package).await?;
    ensure!(error.contains("is for arm64, and the package for amd64"), "{error}");
    let error = fail(path("debian/build"), package.iter().chain(&["--arch", "arm64"])).await?;
    ensure!(error.contains("does not run here") && error.contains("--pages-by"), "{error}");
    let stand_in = ["--arch", "arm64", "--pages-by", "/usr/bin/true"];
    succeed(path("debian/build"), package.iter().chain(&stand_in)).await?;
    let error = fail(path("image/build"), args(folder.path(), &["--arch", "s390x"])?).await?;
    ensure!(error.contains("is for amd64, and the image for s390x"), "{error}");
    Ok(())
}
