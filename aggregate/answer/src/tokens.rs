//! RequestAuthentications of a catalog that apply to a workload.
//!
//! xds keeps the result in the class of a client and encodes it into the filters of inbound listeners. It holds only what they
//! are encoded from, so that an edit of a selector changes no listener of workloads that stay selected. The keys that clients
//! fetch are no part of it: an xDS cluster is named by its host and port, whether the client has it or not. Keys of an `https`
//! address count as undeclared while their xDS cluster connects in plain text, where anyone on the way could replace them;
//! [`KeyServers`] notices when that may have changed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tributary_model::{
    Catalog, ClientKind, ClientTls, ClusterInputs, Hostname, KeysUri, Labels, Namespace, PolicyKey,
    PolicyKind, PortNumber, PortView, RequestAuthentication, ResourceInputs, Shared, TokenKeys, TokenRule,
};

use crate::policies;

/// How a workload checks the tokens of requests. It has rules, or policies that refuse everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenChecks {
    /// Rules of all its policies by issuer, each once.
    pub rules: Arc<[TokenRule]>,
    /// Policies of which no version is valid: they refuse every request.
    pub refusing: Arc<[PolicyKey]>,
}

impl TokenChecks {
    /// Returns what of it a kind of client does. A gRPC server checks no tokens, and refuses where a policy has no valid version.
    pub(crate) fn of_kind(self, kind: ClientKind) -> Option<Self> {
        match kind {
            ClientKind::Sidecar => Some(self),
            ClientKind::Grpc if !self.refusing.is_empty() => Some(Self { rules: Arc::default(), ..self }),
            ClientKind::Grpc | ClientKind::Envoy | ClientKind::Router => None,
        }
    }
}

/// Returns how a workload of a namespace with these labels checks tokens; `None` if no policy does.
#[must_use]
pub fn token_checks(
    catalog: &Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Option<TokenChecks> {
    let all = request_authentications(catalog, namespace, labels);
    let (refusing, valid): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, policy)| policy.is_stand_in());
    let mut seen = HashSet::new();
    let rules = valid.iter().flat_map(|(_, policy)| policy.rules.iter());
    let mut rules: Vec<&TokenRule> = rules.filter(|rule| seen.insert(*rule)).collect();
    rules.sort_by(|a, b| a.issuer.cmp(&b.issuer));
    let rules = rules.into_iter().map(|rule| secured(catalog, namespace, rule));
    let checks = TokenChecks {
        rules: rules.collect(),
        refusing: refusing.into_iter().map(|(key, _)| key.clone()).collect(),
    };
    (!checks.rules.is_empty() || !checks.refusing.is_empty()).then_some(checks)
}

/// Returns a rule whose keys are fetched only where they cannot be replaced on the way.
fn secured(catalog: &Catalog, namespace: Option<&Namespace>, rule: &TokenRule) -> TokenRule {
    match &rule.keys {
        TokenKeys::Fetched(from) if is_plain(catalog, namespace, from) => {
            TokenRule { keys: TokenKeys::Undeclared, ..rule.clone() }
        }
        _ => rule.clone(),
    }
}

/// Whether the keys of an `https` address may be fetched in plain text by clients of a namespace: no DestinationRule sets TLS to a
/// service of the host. Mesh TLS that is automatic does not count: endpoints without it are reached in plain text.
pub(crate) fn is_plain(catalog: &Catalog, namespace: Option<&Namespace>, from: &KeysUri) -> bool {
    from.is_tls
        && servers(catalog, &from.host, from.port).any(|port| {
            let tls = port.cluster.inputs.policy_of(namespace).and_then(|policy| policy.whole.tls.as_deref());
            tls.is_none_or(|tls| *tls == ClientTls::Disable)
        })
}

/// Returns the ports of the services of an address of keys, of whichever clients.
fn servers<'c>(
    catalog: &'c Catalog,
    host: &Hostname,
    port: PortNumber,
) -> impl Iterator<Item = &'c PortView> + use<'c> {
    let entry = catalog.hosts.get(host);
    entry.into_iter().flat_map(|entry| entry.claimants.iter()).filter_map(move |view| view.port(port))
}

/// Facts beside the policies on which [`token_checks`] depend: the xDS clusters of `https` addresses of keys, each address once.
#[derive(Debug, Clone, Default)]
pub struct KeyServers(BTreeMap<(Hostname, PortNumber), Vec<KeyCluster>>);

/// Inputs of the xDS cluster of one service of an address; compared by identity.
type KeyCluster = Shared<ResourceInputs<ClusterInputs>>;

impl KeyServers {
    /// Reads them.
    #[must_use]
    pub fn of(catalog: &Catalog) -> Self {
        let kind = PolicyKind::RequestAuthentication;
        let first = PolicyKey { kind, namespace: Namespace::unnamed(), name: "".into() };
        let all = catalog.policies.range(first..).map_while(|(_, view)| view.request_authentication());
        let keys = all.flat_map(|policy| policy.rules.iter().map(|rule| &rule.keys));
        let mut out = BTreeMap::new();
        for keys in keys {
            if let TokenKeys::Fetched(from) = keys
                && from.is_tls
            {
                let clusters = || clusters(catalog, (&from.host, from.port)).cloned().collect();
                out.entry((from.host.clone(), from.port)).or_insert_with(clusters);
            }
        }
        Self(out)
    }
    /// Whether a catalog with the same policies has the same. Called for each client in each round.
    #[must_use]
    pub fn is_of(&self, catalog: &Catalog) -> bool {
        self.0.iter().all(|((host, port), known)| clusters(catalog, (host, *port)).eq(known))
    }
}

fn clusters<'c>(
    catalog: &'c Catalog,
    (host, port): (&Hostname, PortNumber),
) -> impl Iterator<Item = &'c KeyCluster> + use<'c> {
    servers(catalog, host, port).map(|port| &port.cluster)
}

/// Returns the policies that select a workload of a namespace with these labels, as
/// [`authorization_of`](crate::authorization_of) does.
pub(crate) fn request_authentications<'c>(
    catalog: &'c Catalog,
    namespace: Option<&Namespace>,
    labels: &Labels,
) -> Vec<(&'c PolicyKey, &'c RequestAuthentication)> {
    let all = policies::selecting(catalog, PolicyKind::RequestAuthentication, namespace, labels);
    all.into_iter().filter_map(|(key, view)| Some((key, view.request_authentication()?))).collect()
}

#[cfg(test)]
mod tests {
    use tributary_model::{Policy, Resolution, Settings, Visibility};

    use super::*;
    use crate::fixtures::*;

    fn mk_rule(issuer: &str, audience: &str) -> TokenRule {
        TokenRule { audiences: [audience.into()].into(), ..mk_token_rule(issuer, TokenKeys::Undeclared) }
    }
    fn mk_catalog_of(rows: &[(&str, &str, &[TokenRule])]) -> Catalog {
        let policies = rows.iter().map(|(at, app, rules)| {
            let (namespace, name) = at.split_once('/').unwrap();
            let selector = Some(("app", *app)).filter(|(_, app)| !app.is_empty()).into_iter().collect();
            let mut policy = RequestAuthentication::stand_in(selector);
            if !name.starts_with('!') {
                (policy.rules, policy.ignored) = ((*rules).into(), Arc::default());
            }
            mk_policy(namespace, name, Policy::RequestAuthentication(policy))
        });
        let settings = Settings { root_namespace: Some(mk_ns("config")), ..Settings::default() };
        Catalog { settings: Shared::new(settings), policies: policies.collect(), ..Catalog::default() }
    }
    fn of(catalog: &Catalog, namespace: Option<&str>) -> Option<(Vec<String>, Vec<String>)> {
        let labels = [("app", "pay"), ("version", "1")].into_iter().collect();
        let checks = token_checks(catalog, namespace.map(mk_ns).as_ref(), &labels)?;
        let rules = checks.rules.iter().map(|rule| format!("{} {}", rule.issuer, rule.audiences[0]));
        Some((rules.collect(), checks.refusing.iter().map(|key| key.name.to_string()).collect()))
    }

    #[test]
    fn rules_of_all_policies_apply_by_issuer_each_once() {
        let (a, b, c) = (mk_rule("a", "1"), mk_rule("b", "1"), mk_rule("a", "2"));
        let catalog = mk_catalog_of(&[
            ("config/x", "pay", &[b.clone(), a]),
            ("config/y", "till", &[mk_rule("no", "1")]),
            ("shop/v", "", &[c, b]),
            ("shop/w", "", &[]),
            ("shop/!bad", "till", &[]),
            ("web/z", "", &[mk_rule("no", "1")]),
        ]);
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(&catalog, Some("shop")), Some((all(&["a 1", "a 2", "b 1"]), vec![])));
        assert_eq!(of(&catalog, None), Some((all(&["a 1", "b 1"]), vec![])));
        assert_eq!(of(&catalog, Some("config")), of(&catalog, Some("other")));
    }

    /// Returns a catalog with a service of keys, of which a rule sets TLS or not, and with a policy that fetches them.
    fn mk_catalog_with_keys(tls: Option<ClientTls>, uri: &str) -> Catalog {
        let from = KeysUri {
            uri: uri.into(),
            is_tls: uri.starts_with("https"),
            host: mk_host("keys.test"),
            port: mk_port(443),
        };
        let rule = mk_token_rule("iss", TokenKeys::Fetched(from));
        let view = mk_key_server("keys.test", Visibility::Public, Resolution::ClientSide, tls);
        Catalog { policies: mk_catalog_of(&[("shop/a", "", &[rule])]).policies, ..mk_catalog(vec![view]) }
    }
    fn is_fetched(catalog: &Catalog) -> bool {
        let checks = token_checks(catalog, Some(&mk_ns("shop")), &Labels::default()).unwrap();
        matches!(checks.rules[0].keys, TokenKeys::Fetched(_))
    }

    #[test]
    fn keys_that_could_be_replaced_on_the_way_are_not_fetched() {
        let simple = || Some(ClientTls::Simple(Default::default()));
        assert!(is_fetched(&mk_catalog_with_keys(simple(), "https://keys.test/")));
        assert!(!is_fetched(&mk_catalog_with_keys(None, "https://keys.test/")));
        assert!(!is_fetched(&mk_catalog_with_keys(Some(ClientTls::Disable), "https://keys.test/")));
        assert!(is_fetched(&mk_catalog_with_keys(None, "http://keys.test:443/")), "as declared");
        let unknown =
            Catalog { hosts: Default::default(), ..mk_catalog_with_keys(None, "https://keys.test/") };
        assert!(is_fetched(&unknown), "there is no xDS cluster of it");
    }

    #[test]
    fn key_servers_change_with_the_clusters_of_https_addresses() {
        let plain = mk_catalog_with_keys(None, "https://keys.test/");
        let servers = KeyServers::of(&plain);
        assert!(servers.is_of(&plain));
        let secure = mk_catalog_with_keys(Some(ClientTls::Simple(Default::default())), "https://keys.test/");
        assert!(!servers.is_of(&Catalog { hosts: secure.hosts, ..plain.clone() }));
        assert!(!servers.is_of(&Catalog { hosts: Default::default(), ..plain }));
        let http = mk_catalog_with_keys(None, "http://keys.test:443/");
        assert!(KeyServers::of(&http).is_of(&Catalog { hosts: Default::default(), ..http.clone() }));
    }

    #[test]
    fn policy_that_stands_in_refuses_and_one_without_rules_does_nothing() {
        let catalog = mk_catalog_of(&[("shop/!bad", "pay", &[]), ("web/w", "", &[])]);
        assert_eq!(of(&catalog, Some("shop")), Some((vec![], vec!["!bad".to_owned()])));
        assert_eq!(of(&catalog, Some("web")), None);
        assert_eq!(of(&catalog, None), None);
    }
}
