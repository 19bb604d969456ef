//! What each source of remote clusters declares: the Secrets of every label, and the files of the directory.
//!
//! The driver passes batches of the watches to it, event by event, and gives each event of the roster to the roster before it takes the
//! next one: the kept kubeconfigs are then those of the roster's claims.

use std::collections::BTreeMap;

use tributary_kube_client::Event;
use tributary_model::ClusterId;
use tributary_remote::roster::{self, Access, Policy, Source};
use tributary_remote::{DirectoryFollower, Look, Secret, SecretFollower, VettedKubeconfig};

use crate::ops::clusters::conditions::object;
use crate::ops::clusters::tries::KeptKubeconfig;

/// What the watches send to the driver.
#[derive(Debug)]
pub(super) enum Batch {
    /// Events of the watch of one label.
    Secrets(Source, Vec<Event<Secret>>),
    /// Lists of the watch of one label that begin from here on answer requests up to this number.
    Answers(Source, u64),
    /// The watches of Secrets could not begin, for this reason.
    Unconnected(String),
    /// A look at the directory.
    Files(Look),
}

/// Step of a batch.
pub(super) enum Input {
    Secret(Source, Event<Secret>),
    Unconnected(Source, String),
    Files(Look),
}

/// Followers of every source that is read.
pub(super) struct Followers {
    secrets: BTreeMap<Source, SecretFollower>,
    directory: Option<DirectoryFollower>,
}

impl Followers {
    pub(super) const fn new(
        secrets: BTreeMap<Source, SecretFollower>,
        directory: Option<DirectoryFollower>,
    ) -> Self {
        Self { secrets, directory }
    }
    /// Returns the sources.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        self.secrets.keys().copied().chain(self.directory.as_ref().map(|_| Source::Directory))
    }
    /// Divides a batch.
    pub(super) fn inputs(&self, batch: Batch) -> Vec<Input> {
        match batch {
            Batch::Secrets(source, events) => {
                events.into_iter().map(|event| Input::Secret(source, event)).collect()
            }
            Batch::Unconnected(why) => {
                self.secrets.keys().map(|source| Input::Unconnected(*source, why.clone())).collect()
            }
            Batch::Files(look) => vec![Input::Files(look)],
            Batch::Answers(..) => Vec::new(),
        }
    }
    /// Takes one step and returns the event of the roster, if it has one.
    pub(super) fn take(&mut self, input: Input) -> Option<roster::Event> {
        match input {
            Input::Secret(source, event) => self.secrets.get_mut(&source)?.take(event),
            Input::Unconnected(source, why) => Some(self.secrets.get_mut(&source)?.fail(why)),
            Input::Files(look) => self.directory.as_mut()?.take(look),
        }
    }
    /// Returns the kubeconfig of a claim, if it is still the one that an order rests on.
    pub(super) fn kubeconfig(&self, access: &Access, cluster: &ClusterId) -> Option<&VettedKubeconfig> {
        match access.source {
            Source::Secrets(_) => self.secrets.get(&access.source)?.kubeconfig(access, cluster),
            Source::Directory => self.directory.as_ref()?.kubeconfig(access, cluster),
            Source::ConfigFile => None,
        }
    }
    /// Sets the policies of files and returns the event of the roster, if one changed.
    pub(super) fn set_policies(&mut self, policies: BTreeMap<ClusterId, Policy>) -> Option<roster::Event> {
        self.directory.as_mut()?.set_policies(policies)
    }
    /// Returns every kubeconfig that is kept; of a Secret with both labels, one.
    pub(super) fn kept(&self) -> Vec<KeptKubeconfig> {
        let secrets = self.secrets.iter().flat_map(|(source, one)| one.kept().map(|kept| (*source, kept)));
        let files =
            self.directory.iter().flat_map(DirectoryFollower::kept).map(|kept| (Source::Directory, kept));
        let all = secrets.chain(files).map(|(source, (name, cluster, kubeconfig))| {
            let (object, cluster) = (object(source, name), cluster.to_string());
            (
                (object.clone(), cluster.clone()),
                KeptKubeconfig { cluster, object, kubeconfig: kubeconfig.clone() },
            )
        });
        all.collect::<BTreeMap<_, _>>().into_values().collect()
    }
    /// Returns why sources could not be read last.
    pub(super) fn errors(&self) -> BTreeMap<Source, String> {
        let secrets = self.secrets.iter().map(|(source, follower)| (*source, follower.error()));
        let directory = self.directory.iter().map(|follower| (Source::Directory, follower.error()));
        let all = secrets.chain(directory);
        all.filter_map(|(source, error)| Some((source, error?.to_owned()))).collect()
    }
}
