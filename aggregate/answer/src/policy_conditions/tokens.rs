//! Conditions of a RequestAuthentication with rules whose tokens are refused, because no keys verify them.

use std::collections::BTreeSet;

use tributary_model::{
    Catalog, ClientKind, Code, Condition, KeysUri, Labels, Namespace, PolicyKey, PolicyView,
    RequestAuthentication, Resolution, TokenKeys,
};

use super::proxy::{Obstacle, obstacle};
use super::services::Services;
use super::{Beside, Selectable, condition};
use crate::resolve::resolve;
use crate::scope::{ClientSidecar, Scope, attach};
use crate::tokens::is_plain;

/// Most connected clients whose Sidecars are looked at for one policy.
const MAX_CLIENTS: usize = 1_000;

/// Returns the conditions of a policy.
pub(super) fn without_keys(
    catalog: &Catalog,
    beside: Beside<'_>,
    key: &PolicyKey,
    view: &PolicyView,
) -> Vec<Condition> {
    let Some(policy) = view.request_authentication() else { return Vec::new() };
    let readers = Readers { catalog, beside, key, policy };
    let fetched = |of: &dyn Fn(&KeysUri) -> Option<String>| named(policy, |keys| fetched(keys).and_then(of));
    [
        (Code::KEYS_UNREACHABLE, "its tokens are refused", fetched(&|from| readers.obstacle(from))),
        (Code::KEYS_IN_PLAIN_TEXT, "its tokens are refused", fetched(&|from| readers.in_plain_text(from))),
        (
            Code::KEYS_UNDECLARED,
            "its tokens are refused",
            named(policy, |keys| {
                (*keys == TokenKeys::Undeclared).then(|| "it has neither jwks nor jwksUri".to_owned())
            }),
        ),
    ]
    .into_iter()
    .filter(|(_, _, all)| !all.is_empty())
    .map(|(code, effect, all)| condition(code, view, format!("{}; {effect}", all.join("; "))))
    .collect()
}

const fn fetched(keys: &TokenKeys) -> Option<&KeysUri> {
    if let TokenKeys::Fetched(from) = keys { Some(from) } else { None }
}

/// Returns what is wrong with keys, with the paths of their rules.
fn named(policy: &RequestAuthentication, wrong: impl Fn(&TokenKeys) -> Option<String>) -> Vec<String> {
    let all = policy.rules.iter().enumerate();
    all.filter_map(|(at, rule)| Some(format!("jwtRules[{at}]: {}", wrong(&rule.keys)?))).collect()
}

/// Sidecars that fetch the keys of a policy.
struct Readers<'c> {
    catalog: &'c Catalog,
    beside: Beside<'c>,
    key: &'c PolicyKey,
    policy: &'c RequestAuthentication,
}

impl Readers<'_> {
    /// Whether workloads of every namespace have the policy.
    fn is_wide(&self) -> bool {
        self.catalog.settings.root_namespace().as_ref() == Some(&self.key.namespace)
    }
    /// Whether the service of keys may be declared elsewhere.
    fn is_elsewhere(&self, from: &KeysUri) -> bool {
        Services::new(self.catalog, self.beside.elsewhere).are_elsewhere(&from.host.clone().into())
    }
    /// Returns the namespaces whose workloads have the policy: its own, and if it is of the root namespace those of selected
    /// workloads and clients; the root namespace while none is known.
    fn namespaces(&self) -> BTreeSet<&Namespace> {
        let has = |labels: &Labels| self.policy.selector.is_subset_of(labels);
        let workloads = self.catalog.workloads.iter().filter(|_| self.is_wide());
        let workloads = workloads.filter(|(_, view)| has(&view.workload.labels));
        let clients = self.beside.clients.iter().filter(|client| self.is_wide() && has(&client.labels));
        let mut all: BTreeSet<&Namespace> =
            workloads.map(|(key, _)| &key.namespace).chain(clients.map(|client| &client.namespace)).collect();
        if all.is_empty() {
            all.insert(&self.key.namespace);
        }
        all
    }
    /// Returns why some of them cannot fetch keys: those of the policy's namespaces, or a connected client with a Sidecar.
    fn obstacle(&self, from: &KeysUri) -> Option<String> {
        let of = |namespace: &Namespace, sidecar: Option<&ClientSidecar>| {
            let why = obstacle(self.catalog, namespace, sidecar, (&from.host, from.port))?;
            let whose = match sidecar.filter(|_| why == Obstacle::NotImported) {
                Some(of) => format!(" (Sidecar {}/{})", of.key.namespace, of.key.name),
                None => String::new(),
            };
            Some(format!("keys of {from}: {}{whose}", why.text(namespace)))
        };
        if self.is_elsewhere(from) {
            return None;
        }
        self.without_endpoints(from)
            .or_else(|| self.namespaces().into_iter().find_map(|namespace| of(namespace, None)))
            .or_else(|| self.sidecars().iter().find_map(|(namespace, sidecar)| of(namespace, Some(sidecar))))
    }
    /// Returns why the service's clients connect to what each connection names, which fetching does not.
    fn without_endpoints(&self, from: &KeysUri) -> Option<String> {
        let all = self.namespaces().into_iter();
        let views = all.filter_map(|namespace| {
            resolve(self.catalog, from.host.as_str(), Scope::of(Some(namespace)), &mut ())
        });
        let mut ports = views.filter_map(|view| view.port(from.port));
        let is_open = ports.any(|port| {
            matches!(port.endpoints.inputs.resolution, Resolution::Passthrough | Resolution::Dynamic)
        });
        is_open.then(|| format!("keys of {from}: its service has no endpoints of its own"))
    }
    /// Returns that sidecars would connect to an https server in plain text.
    fn in_plain_text(&self, from: &KeysUri) -> Option<String> {
        let mut all = self.namespaces().into_iter();
        let is_plain = all.any(|namespace| is_plain(self.catalog, Some(namespace), from));
        is_plain.then(|| format!("keys of {from} would be fetched in plain text"))
    }
    /// Returns the Sidecars of connected clients that have the policy, each once for each namespace.
    fn sidecars(&self) -> Vec<(&Namespace, ClientSidecar)> {
        let has = |client: &&Selectable| {
            (self.is_wide() || client.namespace == self.key.namespace)
                && client.kind == ClientKind::Sidecar
                && self.policy.selector.is_subset_of(&client.labels)
        };
        let mut seen = BTreeSet::new();
        let own = self.beside.clients.iter().filter(has).take(MAX_CLIENTS).filter_map(|client| {
            let (key, sidecar) = attach(self.catalog, client.kind, Some(&client.namespace), &client.labels)?;
            seen.insert((&client.namespace, key))
                .then(|| (&client.namespace, ClientSidecar::new(key, sidecar)))
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests;
