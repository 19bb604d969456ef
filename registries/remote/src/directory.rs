//! Files of the directory of kubeconfigs, as events of the roster: every file is one cluster, named after the file.
//!
//! The application lists the directory and calls [`DirectoryFollower`] with what it found, in order. It keeps the promise of
//! [`super::SecretFollower`]: the kept kubeconfigs are those of the claims that the roster has, and only a complete list removes a
//! file. A look that finds what the last one found gives no event.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tributary_model::{ClusterId, Code};
use tributary_registry_api::Credential;

use crate::allowed::Allowed;
use crate::kubeconfig::VettedKubeconfig;
use crate::roster::{
    self, Access, ClaimObject, Digest, DigestKey, Fault, Policy, Source, SourceHealth, Verdict,
};
use crate::secret::DeclaredClusters;

/// Extensions that are not part of a cluster's name.
pub const EXTENSIONS: [&str; 4] = ["yaml", "yml", "kubeconfig", "conf"];

/// What a look at the directory found.
#[derive(Debug)]
pub enum Look {
    /// It cannot be listed, for this reason; that proves nothing.
    Unreadable(String),
    /// Every file that declares a cluster, by its path.
    Listed(BTreeMap<PathBuf, FileContent>),
}

/// Content of one file.
#[derive(Debug)]
pub enum FileContent {
    /// Its bytes.
    Read(Credential),
    /// It is there and cannot be read, for this reason.
    Unread(Code, String),
}

/// File as it was taken last.
#[derive(Debug)]
struct Known {
    declared: DeclaredClusters,
    /// Digest of its bytes; `None` for one that was not read.
    bytes: Option<Digest>,
}

/// Files of the directory.
#[derive(Debug)]
pub struct DirectoryFollower {
    allowed: Allowed,
    key: DigestKey,
    /// By the cluster that a file is named after.
    policies: BTreeMap<ClusterId, Policy>,
    /// By the name of the object.
    known: BTreeMap<String, Known>,
    /// Why the last look failed.
    error: Option<String>,
    is_listed: bool,
}

impl DirectoryFollower {
    /// Creates a follower of a directory that was not listed yet.
    #[must_use]
    pub const fn new(allowed: Allowed, key: DigestKey) -> Self {
        let policies = BTreeMap::new();
        Self { allowed, key, policies, known: BTreeMap::new(), error: None, is_listed: false }
    }
    /// Sets the policies of clusters, which files cannot have.
    #[must_use]
    pub fn with_policies(self, policies: BTreeMap<ClusterId, Policy>) -> Self {
        Self { policies, ..self }
    }

    /// Sets other policies, and returns the event of the roster if one of a known file changed. While the directory cannot be read, the
    /// next look that succeeds has them.
    pub fn set_policies(&mut self, policies: BTreeMap<ClusterId, Policy>) -> Option<roster::Event> {
        self.policies = policies;
        let mut is_changed = false;
        for known in self.known.values_mut() {
            let object = &mut known.declared.object;
            let policy = policy(&self.policies, object.claims.keys().next());
            is_changed |= object.policy != policy;
            object.policy = policy;
        }
        let is_read = self.is_listed && self.error.is_none();
        (is_changed && is_read).then(|| self.list())
    }

    /// Takes the result of a look and returns the event of the roster, if something changed.
    pub fn take(&mut self, look: Look) -> Option<roster::Event> {
        match look {
            Look::Unreadable(why) => {
                let is_known = self.error.as_ref() == Some(&why);
                self.error = Some(why);
                (!is_known).then_some(roster::Event::Health(Source::Directory, SourceHealth::Failed))
            }
            Look::Listed(files) => self.listed(files),
        }
    }

    /// Returns why the directory cannot be read; `None` if it can.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns the kubeconfig of a claim, if it is still the one that an order rests on.
    #[must_use]
    pub fn kubeconfig(&self, access: &Access, cluster: &ClusterId) -> Option<&VettedKubeconfig> {
        self.known.get(&access.object)?.declared.kubeconfig(access, cluster)
    }

    /// Returns every kubeconfig that is kept, with the file and the cluster.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &ClusterId, &VettedKubeconfig)> {
        self.known.values().flat_map(|known| known.declared.kept())
    }

    fn listed(&mut self, files: BTreeMap<PathBuf, FileContent>) -> Option<roster::Event> {
        let mut before = std::mem::take(&mut self.known);
        let mut is_changed = self.error.take().is_some() || !self.is_listed || files.len() != before.len();
        for (path, content) in files {
            let object = shown(&path);
            let known = before.remove(&object);
            let was = known.as_ref().map(|known| known.declared.object.clone());
            let now = self.file(&path, &object, content, known);
            is_changed |= was.as_ref() != Some(&now.declared.object);
            self.known.insert(object, now);
        }
        self.is_listed = true;
        is_changed.then(|| self.list())
    }

    fn list(&self) -> roster::Event {
        let objects = self.known.values().map(|known| known.declared.object.clone()).collect();
        roster::Event::List(Source::Directory, objects)
    }

    fn file(&self, path: &Path, object: &str, content: FileContent, known: Option<Known>) -> Known {
        let bytes = match content {
            FileContent::Read(bytes) => bytes,
            FileContent::Unread(code, why) => {
                let mut unread = unread(path, object, Fault::coded(code, why), known);
                let cluster = unread.declared.object.claims.keys().next();
                unread.declared.object.policy = policy(&self.policies, cluster);
                return unread;
            }
        };
        let digest = self.key.of_bytes(bytes.expose());
        match known {
            Some(known) if known.bytes == Some(digest) => known,
            _ => Known { declared: self.declare(path, object, &bytes), bytes: Some(digest) },
        }
    }

    fn declare(&self, path: &Path, object: &str, bytes: &Credential) -> DeclaredClusters {
        let Some(cluster) = cluster_of(path) else { return nameless(object) };
        let vetted = VettedKubeconfig::parse(bytes.expose(), &self.allowed);
        let claims = [(cluster.clone(), Verdict::of(&vetted, &self.key))].into();
        let policy = policy(&self.policies, Some(&cluster));
        let object = ClaimObject { name: object.to_owned(), policy, claims, ..ClaimObject::default() };
        DeclaredClusters {
            object,
            kubeconfigs: vetted.ok().map(|vetted| (cluster, vetted)).into_iter().collect(),
        }
    }
}

fn policy(all: &BTreeMap<ClusterId, Policy>, cluster: Option<&ClusterId>) -> Policy {
    cluster.and_then(|cluster| all.get(cluster)).cloned().unwrap_or_default()
}

/// Returns the cluster that a file is named after.
fn cluster_of(path: &Path) -> Option<ClusterId> {
    let name = path.file_name()?.to_str()?;
    let stem = name.rsplit_once('.').filter(|(_, extension)| EXTENSIONS.contains(extension));
    ClusterId::new(stem.map_or(name, |(stem, _)| stem)).ok()
}

fn nameless(object: &str) -> DeclaredClusters {
    let text = "its name is not a cluster ID; use letters, digits, `-` and `.`".to_owned();
    let faults = vec![Fault::coded(Code::FILE_REFUSED, text)];
    let object = ClaimObject { name: object.to_owned(), faults, ..ClaimObject::default() };
    DeclaredClusters { object, ..DeclaredClusters::default() }
}

/// Returns a file that cannot be read: what it declared before stays, with the fault; one that was never read is a refused claim.
fn unread(path: &Path, object: &str, fault: Fault, known: Option<Known>) -> Known {
    let vetted = known.map(|known| known.declared).filter(|declared| !declared.kubeconfigs.is_empty());
    if let Some(mut declared) = vetted {
        declared.object.faults = vec![fault];
        return Known { declared, bytes: None };
    }
    let Some(cluster) = cluster_of(path) else {
        return Known { declared: nameless(object), bytes: None };
    };
    let claims = [(cluster, Verdict::Refused(vec![fault]))].into();
    let object = ClaimObject { name: object.to_owned(), claims, ..ClaimObject::default() };
    Known { declared: DeclaredClusters { object, ..DeclaredClusters::default() }, bytes: None }
}

/// Returns a path as it may be shown in one line.
fn shown(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
