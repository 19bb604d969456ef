//! The one table of checks: what each requires, what a finding means, and what to do about it.
//!
//! [`judge`](super::judge) walks it, the reference page `checks.md` is generated from it, and a test requires a red and a green case
//! for every row.

use serde::{Deserialize, Serialize};

use super::before::{self, Before};
use super::{Documents, Found};
use super::{
    before_consul, certificates, clients, clusters, conditions, registries, replicas, serving, state,
};

/// Page of the reference with every check.
const PAGE: &str = "docs/reference/checks.md";

/// Section of checks, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// The server answers.
    Server,
    /// Configuration.
    Configuration,
    /// Rights and kinds of objects.
    Rights,
    /// Registries.
    Registries,
    /// Clusters.
    Clusters,
    /// Networks and gateways.
    Networks,
    /// Certificates.
    Certificates,
    /// Consul.
    Consul,
    /// Services.
    Services,
    /// Policies.
    Policies,
    /// Clients.
    Clients,
    /// Held removals.
    Guards,
    /// Kept state.
    State,
    /// Replicas.
    Replicas,
}

impl Section {
    /// Name in the output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Configuration => "configuration",
            Self::Rights => "rights",
            Self::Registries => "registries",
            Self::Clusters => "clusters",
            Self::Networks => "networks",
            Self::Certificates => "certificates",
            Self::Consul => "consul",
            Self::Services => "services",
            Self::Policies => "policies",
            Self::Clients => "clients",
            Self::Guards => "guards",
            Self::State => "state",
            Self::Replicas => "replicas",
        }
    }
}

/// Function of a check.
#[derive(Debug, Clone, Copy)]
pub enum Judge {
    /// Over the documents of one running server.
    Server(fn(&Documents) -> Found),
    /// Over the documents of several replicas.
    Replicas(fn(&[Documents]) -> Found),
    /// Over what was found before the installation.
    Before(fn(&Before) -> Found),
}

/// Row of the table.
#[derive(Debug, Clone, Copy)]
pub struct CheckInfo {
    /// Id; also its anchor in the reference.
    pub id: &'static str,
    /// Section.
    pub section: Section,
    /// What holds if it passes.
    pub title: &'static str,
    /// What a finding means.
    pub means: &'static str,
    /// What to do about a finding without a code of its own.
    pub next: &'static str,
    /// View of the console that shows more.
    pub view: &'static str,
    /// Whether the view has an item for each object of the findings.
    pub has_items: bool,
    /// Its function.
    pub judge: Judge,
}

impl CheckInfo {
    /// Returns the page of the reference with the check's anchor.
    #[must_use]
    pub fn link(&self) -> String {
        format!("{PAGE}#{}", self.id)
    }
}

/// Returns the row of an id.
#[must_use]
pub fn find(id: &str) -> Option<&'static CheckInfo> {
    TABLE.iter().find(|info| info.id == id)
}

macro_rules! checks {
    ($($id:literal $section:ident $stage:ident($judge:path) $view:literal $items:literal
        $title:literal $means:literal => $next:literal;)*) => {
        /// Every check, in the order of the output.
        pub const TABLE: &[CheckInfo] = &[$(CheckInfo {
            id: $id,
            section: Section::$section,
            title: $title,
            means: $means,
            next: $next,
            view: $view,
            has_items: $items,
            judge: Judge::$stage($judge),
        }),*];
    };
}

checks! {
    "server-answers" Server Server(serving::answers) "overview" false
        "the server answers"
        "The server does not answer, or one of its documents cannot be read: the checks that need it are incomplete."
        => "see that the server runs and that `--server` is its admin address; increase `--timeout` for a busy one";
    "server-ready" Server Server(serving::ready) "overview" false
        "the server is ready"
        "The server does not answer xDS clients: it is starting or stopping, or a registry has never been read."
        => "see `/readyz?verbose`; a registry that has not synced holds a first start until `start.firstSyncTimeout`";
    "server-version" Server Server(serving::version) "overview" false
        "client and server have the same version"
        "The command line and the server are of different releases: documents of the later one may have fields that the other does not know."
        => "use the `tributary` of the server's version";
    "server-clock" Server Server(serving::clock) "overview" false
        "the clocks of client and server agree"
        "The two clocks are more than a minute apart: tokens and certificates may be refused before or after their time, and ages are shown wrong."
        => "synchronize both clocks, for example by NTP";
    "cluster-clocks" Server Server(clusters::clocks) "clusters" true
        "the clocks of the server and of its clusters agree"
        "The clock of an API server is more than a minute from the server's: it may refuse tokens that are valid here."
        => "synchronize the clocks of the server and of the cluster's control plane";
    "config-reload" Configuration Server(serving::reload) "configuration" false
        "the running configuration is that of the file"
        "The configuration file has changed and is not in use in full: it is not valid, a part cannot be applied, or a change needs a restart."
        => "correct the named field, or restart the server for fields that need it";
    "rights" Rights Server(registries::rights) "registries" true
        "the server may read everything that it watches"
        "A credential lacks a right: objects of the named kind are not read, and the last known ones stay served."
        => "grant what `tributary rbac print` shows with the flags of `serve`";
    "kinds" Rights Server(registries::kinds) "registries" true
        "every watched kind is installed or known to be absent"
        "A watched kind of objects cannot be read, or its CustomResourceDefinition is not installed, which counts as a kind without objects."
        => "install the CustomResourceDefinition if you use the kind";
    "registries-live" Registries Server(registries::live) "registries" true
        "registries are Live"
        "A registry is not confirmed by its source: its last known facts stay served, or were never read."
        => "see the reason with `tributary get registries -o wide`";
    "registry-runs" Registries Server(registries::runs) "registries" true
        "no new run of a registry waits"
        "A new run of a registry does not take over: it must be accepted, or cannot read its source. The earlier one stays served."
        => "correct the source; a run that waits to be accepted names the command";
    "registry-problems" Registries Server(registries::problems) "registries" true
        "no object is quarantined"
        "Objects of a source are not valid: the last valid version of each stays served."
        => "correct the objects; `tributary get registries -o wide` lists them";
    "clusters-live" Clusters Server(clusters::live) "clusters" true
        "clusters are Live"
        "A cluster is not confirmed: it does not answer, refuses the credential, or its declaration is refused. Its last known facts stay served."
        => "see `tributary cluster describe NAME`";
    "cluster-credentials" Clusters Server(clusters::credentials) "clusters" true
        "credentials of clusters are valid for long enough"
        "The credential of a cluster has expired, or less than 25 % (and then 10 %) of its life is left."
        => "replace it with `tributary cluster rotate NAME`";
    "cluster-declarations" Clusters Server(clusters::declarations) "clusters" true
        "every declaration of a cluster is read and used"
        "A Secret or file that declares a cluster is refused, duplicated or not in use, or the declarations cannot be read."
        => "correct or remove the declaration that the message names";
    "cluster-identities" Clusters Server(clusters::identities) "clusters" true
        "each cluster is served once, under a known identity"
        "One cluster is declared under two names, so that its endpoints are served twice; or its identity cannot be read."
        => "remove one of the declarations; grant `list` on namespace kube-system so that the identity can be read";
    "cluster-tries" Clusters Server(clusters::tries) "clusters" true
        "every cluster answers when the server connects to it"
        "A connection that the server made for this check, by `--connect`, failed, or the credential may read less than is needed."
        => "correct address, credential or rights of the cluster";
    "gateways" Networks Server(registries::gateways) "map" false
        "every network has gateways that can be used"
        "A gateway of a network lacks something, or its host name is not resolved: clients of other networks do not use it."
        => "see `tributary get gateways -o wide`";
    "certificates" Certificates Server(certificates::ends) "configuration" false
        "certificates of the listeners are valid for long enough"
        "A certificate of the xDS listener or of the remote admin listener, or of an authority of their clients, has expired, or less than 25 % (and then 10 %) of its life is left, 30 days (7) at most."
        => "replace the file of the certificate; it is read again without a restart";
    "certificate-files" Certificates Server(certificates::files) "configuration" false
        "certificates in use are those of the files"
        "The changed files of a listener cannot be used: the earlier certificates stay in use."
        => "correct the file that the message names";
    "consul-tokens" Consul Server(registries::consul) "registries" true
        "the token of each Consul sees everything"
        "Consul filters its answers by the rights of the token, or answers are doubtful: services may be missing, and removals are not confirmed."
        => "give the token `service:read` and `node:read` for all that should be served";
    "service-conflicts" Services Server(conditions::services) "services" false
        "services do not conflict"
        "Services contest a host, a port, an address or a name, or a part of one has no effect; counts are by code, with examples."
        => "see `tributary get services`";
    "policies-valid" Policies Server(serving::policies_valid) "policies" false
        "every policy is served in its newest version"
        "The newest version of a policy is not valid: an earlier one is served, or what refuses requests stands in for it."
        => "correct the policy; `tributary get policies -o wide` has the reason";
    "policy-conditions" Policies Server(serving::policy_conditions) "policies" false
        "no policy has a condition"
        "A part of a policy has no effect, or not the intended one; counts are by code, with examples."
        => "see `tributary get policies -o wide`, or `tributary analyze`";
    "clients-synced" Clients Server(clients::synced) "clients" true
        "every client acknowledged what it was sent"
        "A client rejected a response (NACK), or has not answered or been sent one for more than 30 seconds."
        => "see `tributary get clients -o wide`";
    "client-notes" Clients Server(clients::notes) "clients" false
        "every client is served in full"
        "The server serves a client with less than it could, for the reason that the code names."
        => "see `tributary get clients`";
    "held-removals" Guards Server(state::held) "guard" false
        "no removal is held"
        "A source reported a removal without proof: the facts stay served until it is confirmed."
        => "wait for the source, or release it with `tributary guard release ID`";
    "state-kept" State Server(state::kept) "state" false
        "a restart would restore what is served"
        "State is not kept, or not in full: after a restart, parts are unknown until their sources are read."
        => "see `tributary state show`";
    "state-files" State Server(state::set_aside) "state" false
        "no journal was set aside"
        "A journal could not be used at a start and was set aside."
        => "report it as a bug, and delete the file when it is no longer needed";
    "replicas-answer" Replicas Replicas(replicas::answer) "overview" false
        "every replica answers"
        "A replica does not answer: what the others report is shown, and may be incomplete."
        => "see that the replica runs";
    "replicas-version" Replicas Replicas(replicas::version) "overview" false
        "replicas have one version"
        "Replicas are of different releases, as during an upgrade."
        => "finish the upgrade, or roll it back";
    "replicas-registries" Replicas Replicas(replicas::registries) "registries" true
        "replicas have the same registries and clusters"
        "A registry or a cluster is not on every replica: what clients receive depends on the replica that they are connected to."
        => "give every replica the same configuration, and rights to the same Secrets";
    "replicas-content" Replicas Replicas(replicas::content) "registries" true
        "replicas serve the same number of services and endpoints"
        "Replicas count different services or endpoints of a registry. That is normal for a moment while something changes."
        => "repeat the check; if it stays so, compare `tributary get registries -o wide` of both";
    "replicas-config" Replicas Replicas(replicas::config) "configuration" false
        "replicas run the same configuration"
        "A setting that decides what is served differs between replicas."
        => "give every replica the same configuration file";
    "before-config" Configuration Before(before::config) "" false
        "the configuration is valid"
        "The configuration that `serve` would run with is not valid."
        => "correct the named field";
    "before-ports" Server Before(before::ports) "" false
        "the ports are free"
        "The server could not listen on an address: another process has the port, or this machine does not have the address."
        => "choose another port, or stop the other process";
    "before-cluster" Clusters Before(before::cluster) "" false
        "the API server of each cluster answers"
        "The API server does not answer, refuses the credential, or its certificate is not valid here."
        => "check the kubeconfig: address, certificate authority and credential";
    "before-version" Clusters Before(before::version) "" false
        "the version of each API server is supported"
        "The API server is older than the oldest version that is supported, or states no version."
        => "upgrade the cluster";
    "before-clock" Clusters Before(before::clock) "" false
        "the clocks of this machine and of each cluster agree"
        "The clocks are more than a minute apart: the API server may refuse tokens."
        => "synchronize both clocks, for example by NTP";
    "before-rights" Rights Before(before::rights) "" false
        "the credential has the needed rights"
        "The server needs a right in the cluster that its credential lacks, by a SelfSubjectAccessReview."
        => "apply what `tributary rbac print` shows with the same flags";
    "before-kinds" Rights Before(before::kinds) "" false
        "every kind that the server reads is installed"
        "A CustomResourceDefinition is not installed: objects of the kind count as absent, which is right if you do not use it."
        => "install the CustomResourceDefinition if you use the kind";
    "before-namespace" Clusters Before(before::namespace) "" false
        "the system namespace and the mesh configuration exist"
        "The system namespace does not exist, or its ConfigMap with the mesh configuration does not, so that defaults apply."
        => "create the namespace, or name the right one with `--system-namespace`";
    "before-certificates" Certificates Before(before::certificates) "" false
        "certificates and keys can be used"
        "A certificate, key or CA of the xDS listener or of the remote admin listener cannot be read, does not match, has expired or ends soon."
        => "correct the file that the message names";
    "before-state" State Before(before::state) "" false
        "the state directory can be written"
        "The state directory cannot be created or written, or another server uses it."
        => "create it for the account of the server, or choose another with `--state-dir`";
    "before-consul" Consul Before(before_consul::reached) "" false
        "each Consul answers and has a leader"
        "No agent or server of the Consul answers, or it has no leader, so that nothing can be confirmed."
        => "check the addresses and that the Consul has a leader: `consul operator raft list-peers`";
    "before-consul-token" Consul Before(before_consul::token) "" false
        "the token of each Consul is valid and sees services"
        "Consul refuses the token, or it may not list services, or it expires soon."
        => "give the token `service:read` and `node:read` for all that should be served";
    "before-remotes" Clusters Before(before::remotes) "" false
        "every kubeconfig of a remote cluster is accepted"
        "A kubeconfig of the directory of remote clusters is refused or has expired."
        => "see `tributary cluster check -f FILE`";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_rows_are_complete() {
        let mut ids: Vec<&str> = TABLE.iter().map(|info| info.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TABLE.len());
        for info in TABLE {
            let texts = [info.title, info.means, info.next];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}", info.id);
            let is_running = !matches!(info.judge, Judge::Before(_));
            assert_eq!(is_running, !info.view.is_empty(), "{}: the console shows running servers", info.id);
        }
    }

    #[test]
    fn sections_of_running_servers_are_in_order() {
        let running = TABLE.iter().filter(|info| !matches!(info.judge, Judge::Before(_)));
        let sections: Vec<Section> = running.map(|info| info.section).collect();
        assert!(sections.windows(2).all(|pair| pair[0] <= pair[1]), "{sections:?}");
    }
}
