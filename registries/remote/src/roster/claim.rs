//! Claims: which objects declare which clusters, and the order that decides between them.
//!
//! The caller reads a source and builds one [`ClaimObject`] per object; the roster indexes and orders them. The order depends on
//! the objects only, never on the time at which they arrived, so that every replica serves the same claim.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tributary_model::{ClusterId, Code, Timestamp};

use super::digest::{Digest, DigestKey};
use super::policy::Policy;
use crate::kubeconfig::VettedKubeconfig;
use crate::manifest::LABELS;
use crate::refusal::{OptIn, Refusal, Refused};

/// Kind of source; the first has precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// The server's configuration file.
    ConfigFile,
    /// The directory of kubeconfigs.
    Directory,
    /// Secrets of the system namespace.
    Secrets,
}

impl SourceKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::ConfigFile, Self::Directory, Self::Secrets];
}

/// Label that makes a Secret declare clusters. Each has a watch of its own, and a Secret may have both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretLabel {
    /// `istio/multiCluster`.
    Istio,
    /// `tributary.dev/cluster`.
    Tributary,
}

impl SecretLabel {
    /// Returns the label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        LABELS[self as usize]
    }
}

/// Source of claims that is listed and fails as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The server's configuration file.
    ConfigFile,
    /// The directory of kubeconfigs.
    Directory,
    /// The watch of Secrets with one label.
    Secrets(SecretLabel),
}

impl Source {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(self) -> SourceKind {
        match self {
            Self::ConfigFile => SourceKind::ConfigFile,
            Self::Directory => SourceKind::Directory,
            Self::Secrets(_) => SourceKind::Secrets,
        }
    }
}

/// Fault of a claim or an object, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    /// Code from the table of codes, if the fault has one.
    pub code: Option<Code>,
    /// Path of the field of a kubeconfig; empty for any other fault.
    pub field: String,
    /// What is wrong and what to do; never a value of a kubeconfig.
    pub text: String,
    /// What the operator can set to allow the field.
    pub opt_in: Option<OptIn>,
}

impl Fault {
    /// Returns a fault without a code.
    #[must_use]
    pub const fn text(text: String) -> Self {
        Self { code: None, field: String::new(), text, opt_in: None }
    }
    /// Returns a fault with a code and without a field.
    #[must_use]
    pub const fn coded(code: Code, text: String) -> Self {
        Self { code: Some(code), field: String::new(), text, opt_in: None }
    }
}

impl From<&Refusal> for Fault {
    fn from(one: &Refusal) -> Self {
        Self { code: Some(one.code), field: one.field.clone(), text: one.to_string(), opt_in: one.opt_in }
    }
}

/// What vetting found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The credential may be used; its digest.
    Vetted(Digest),
    /// The credential may not be used.
    Refused(Vec<Fault>),
}

impl Verdict {
    /// Returns the verdict of a vetted kubeconfig, with its digest, or its faults.
    #[must_use]
    pub fn of(vetted: &Result<VettedKubeconfig, Refused>, key: &DigestKey) -> Self {
        match vetted {
            Ok(vetted) => Self::Vetted(key.of(vetted)),
            Err(refused) => Self::Refused(refused.0.iter().map(Fault::from).collect()),
        }
    }
}

/// Object that declares clusters: a Secret, a file of the directory, or `clusters.NAME` of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimObject {
    /// Name, unique in its source: `NAMESPACE/NAME` of a Secret, the path of a file.
    pub name: String,
    /// Time of creation; an object without one comes after the others.
    pub created: Option<Timestamp>,
    /// Policy of all its claims.
    pub policy: Policy,
    /// Verdict of each cluster that it declares.
    pub claims: BTreeMap<ClusterId, Verdict>,
    /// Faults of the object itself: keys that are no cluster ID, annotations that cannot be read.
    pub faults: Vec<Fault>,
}

impl ClaimObject {
    /// Returns its position among the objects of one kind of source.
    pub(super) fn position(&self) -> Position<'_> {
        (Reverse(self.policy.priority), self.created.is_none(), self.created, &self.name)
    }
}

/// Priority, creation and name.
pub(super) type Position<'a> = (Reverse<i32>, bool, Option<Timestamp>, &'a str);

/// Position of a claim among all claims: the lowest wins. One with `remove` comes after the others that can be used, so that another
/// declaration takes its place and the cluster leaves with the last. Of one object in two watches, the healthy watch counts.
pub(super) type Rank<'a> = (bool, bool, SourceKind, Position<'a>, bool, Source);

/// Claim of one object to one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) source: Source,
    pub(super) object: &'a ClaimObject,
    pub(super) verdict: &'a Verdict,
    pub(super) is_healthy: bool,
}

impl<'a> Claim<'a> {
    pub(super) fn rank(&self) -> Rank<'a> {
        let is_refused = matches!(self.verdict, Verdict::Refused(_));
        let is_removed = self.object.policy.remove;
        (is_refused, is_removed, self.source.kind(), self.object.position(), !self.is_healthy, self.source)
    }
    /// Returns true for the claim of one Secret in the watches of two labels.
    pub(super) fn is_same_object(&self, other: &Self) -> bool {
        self.source.kind() == other.source.kind() && self.object.name == other.object.name
    }
}
