//! Runs the conformance suite over real directories.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: what goes wrong here is a failed test"
)]

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tributary_conformance::{Ability, Act, Harness, Script, Service, conformance_tests};
use tributary_model::{ClusterId, Hostname, RegistryName, WithheldCause};
use tributary_registry_api::RegistryFactory;
use tributary_service_entry::{FileFactory, Timing};

conformance_tests!(real, FileHarness);

struct FileHarness;

#[async_trait]
impl Harness for FileHarness {
    async fn script(&self) -> Box<dyn Script> {
        let home = tempfile::tempdir().unwrap();
        for part in 0..2 {
            std::fs::create_dir(here(home.path(), part)).unwrap();
        }
        Box::new(FileScript { home, away: [false; 2], twice: false, configured: 2 })
    }
    fn declines(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Tear => Some("an interrupted listing is an unreadable directory, which Fail covers"),
            Ability::LieEmpty => Some(
                "a directory that is empty twice is empty; the reload tests cover one that is empty once",
            ),
            Ability::Reorder => Some("a directory is read as a whole; its changes have no order"),
            Ability::Refuse(WithheldCause::Forbidden) if reads_anything() => {
                Some("these tests run as a user who may read everything")
            }
            Ability::Shorten => Some("directories are configured"),
            Ability::End => Some("a missing directory may be a missing mount"),
            Ability::Swap => Some("a directory has no identity"),
            _ => None,
        }
    }
    fn patience(&self) -> Duration {
        Duration::from_secs(2)
    }
    fn is_quick(&self) -> bool {
        false
    }
}

/// Whether file permissions do not restrict the user of this process.
fn reads_anything() -> bool {
    let dir = tempfile::tempdir().unwrap();
    allow(dir.path(), 0o000);
    let reads = std::fs::read_dir(dir.path()).is_ok();
    allow(dir.path(), 0o700);
    reads
}

fn allow(dir: &Path, mode: u32) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
}

struct FileScript {
    home: TempDir,
    away: [bool; 2],
    twice: bool,
    /// Number of configured parts.
    configured: usize,
}

fn here(home: &Path, part: usize) -> PathBuf {
    home.join(format!("part{part}"))
}

fn elsewhere(home: &Path, part: usize) -> PathBuf {
    home.join(format!("away{part}"))
}

impl FileScript {
    /// The current directory of a part, whether or not the adapter can see it.
    fn dir(&self, part: usize) -> PathBuf {
        if self.away[part] { elsewhere(self.home.path(), part) } else { here(self.home.path(), part) }
    }
    fn write(&self, part: usize, name: &str, text: &str) {
        for _ in 0..=usize::from(self.twice) {
            let dir = self.dir(part);
            let temporary = dir.join(format!(".{name}"));
            std::fs::write(&temporary, text).unwrap();
            std::fs::rename(temporary, dir.join(format!("{name}.yaml"))).unwrap();
        }
    }
    fn hide(&mut self, part: usize) {
        if !self.away[part] {
            std::fs::rename(here(self.home.path(), part), elsewhere(self.home.path(), part)).unwrap();
            self.away[part] = true;
        }
    }
    fn show(&mut self, part: usize) {
        if self.away[part] {
            let _ = std::fs::remove_file(here(self.home.path(), part));
            std::fs::rename(elsewhere(self.home.path(), part), here(self.home.path(), part)).unwrap();
            self.away[part] = false;
        }
        allow(&here(self.home.path(), part), 0o700);
    }
}

fn entry(name: &str, endpoints: impl Iterator<Item = IpAddr>) -> String {
    let endpoints: Vec<String> = endpoints.map(|ip| format!("{{address: {ip}}}")).collect();
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  hosts: [{name}.example.com]\n  ports: [{{number: 5432, name: tcp, protocol: TCP}}]\n  resolution: STATIC\n  endpoints: [{}]\n",
        endpoints.join(", ")
    )
}

#[async_trait]
impl Script for FileScript {
    fn factory(&self) -> Arc<dyn RegistryFactory> {
        let dirs = (0..self.configured).map(|part| here(self.home.path(), part)).collect();
        let millis = Duration::from_millis;
        let timing =
            Timing { confirm: millis(100), quiet: millis(20), rescan: millis(500), retry: millis(50) };
        let name = RegistryName::new("files").unwrap();
        Arc::new(FileFactory::new(name, ClusterId::new("files").unwrap(), dirs).timing(timing))
    }
    fn host(&self, service: &str) -> Hostname {
        Hostname::new(format!("{service}.example.com")).unwrap()
    }
    async fn set(&mut self, part: usize, service: &Service) {
        self.write(part, &service.name, &entry(&service.name, service.endpoints.iter().copied()));
    }
    async fn delete(&mut self, service: &str) {
        for part in 0..2 {
            let _ = std::fs::remove_file(self.dir(part).join(format!("{service}.yaml")));
        }
    }
    async fn act(&mut self, act: Act) {
        match act {
            Act::Fail(Some(part)) => self.hide(part),
            Act::Fail(None) => (0..2).for_each(|part| self.hide(part)),
            Act::Refuse(_, WithheldCause::Failing) => {
                self.hide(1);
                // A file with that name: neither a directory nor absent.
                std::fs::write(here(self.home.path(), 1), "").unwrap();
            }
            Act::Refuse(_, WithheldCause::Forbidden) => allow(&here(self.home.path(), 1), 0o000),
            Act::Recover => (0..2).for_each(|part| self.show(part)),
            Act::Corrupt(name) => {
                let text =
                    entry(&name, std::iter::empty()).replace("resolution: STATIC", "resolution: SOMEHOW");
                self.write(0, &name, &text);
            }
            Act::Relist => {
                (0..2).for_each(|part| std::fs::write(self.dir(part).join("touched"), "").unwrap())
            }
            Act::Duplicate => self.twice = true,
            Act::Narrow => self.configured = 1,
            Act::Tear(_) | Act::LieEmpty | Act::Reorder | Act::Shorten | Act::End | Act::Swap => {
                panic!("{act:?} was declined")
            }
        }
    }
}
