//! Conditions of a RequestAuthentication with rules whose tokens are refused, because no keys verify them.

use std::collections::BTreeSet;

use tributary_model::{
    Catalog, ClientKind, ClientTls, Code, Condition, KeysUri, Namespace, PolicyKey, PolicyView,
    RequestAuthentication, Resolution, TokenKeys,
};

use super::proxy::{Obstacle, obstacle};
use super::{Selectable, condition};
use crate::resolve::resolve;
use crate::scope::{ClientSidecar, Scope, attach};

/// Most connected clients whose Sidecars are looked at for one policy.
const MAX_CLIENTS: usize = 1_000;

/// Returns the conditions of a policy.
pub(super) fn without_keys(
    catalog: &Catalog,
    clients: &[Selectable],
    key: &PolicyKey,
    view: &PolicyView,
) -> Vec<Condition> {
    let Some(policy) = view.request_authentication() else { return Vec::new() };
    let readers = Readers { catalog, clients, key, policy };
    let fetched = |of: &dyn Fn(&KeysUri) -> Option<String>| named(policy, |keys| fetched(keys).and_then(of));
    [
        (Code::KEYS_UNREACHABLE, "its tokens are refused", fetched(&|from| readers.obstacle(from))),
        (
            Code::KEYS_IN_PLAIN_TEXT,
            "what answers there decides which tokens are valid",
            fetched(&|from| readers.in_plain_text(from)),
        ),
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
    clients: &'c [Selectable],
    key: &'c PolicyKey,
    policy: &'c RequestAuthentication,
}

impl Readers<'_> {
    /// Whether workloads of every namespace have the policy.
    fn is_wide(&self) -> bool {
        self.catalog.settings.root_namespace().as_ref() == Some(&self.key.namespace)
    }
    /// Returns why some of them cannot fetch keys: those of the policy's namespace, or a connected client with a Sidecar.
    fn obstacle(&self, from: &KeysUri) -> Option<String> {
        let of = |namespace: &Namespace, sidecar: Option<&ClientSidecar>| {
            let why = obstacle(self.catalog, namespace, sidecar, (&from.host, from.port))?;
            let whose = match sidecar.filter(|_| why == Obstacle::NotImported) {
                Some(of) => format!(" (Sidecar {}/{})", of.key.namespace, of.key.name),
                None => String::new(),
            };
            Some(format!("keys of {from}: {}{whose}", why.text(namespace)))
        };
        self.without_endpoints(from)
            .or_else(|| of(&self.key.namespace, None))
            .or_else(|| self.sidecars().iter().find_map(|(namespace, sidecar)| of(namespace, Some(sidecar))))
    }
    /// Returns why the service's clients connect to what each connection names, which fetching does not.
    fn without_endpoints(&self, from: &KeysUri) -> Option<String> {
        let view = resolve(self.catalog, from.host.as_str(), self.scope(), &mut ())?;
        let port = view.port(from.port)?;
        let inputs = &port.endpoints.inputs;
        let fits = !matches!(inputs.resolution, Resolution::Passthrough | Resolution::Dynamic);
        (!fits).then(|| format!("keys of {from}: its service has no endpoints of its own"))
    }
    /// Returns that sidecars connect to an https server in plain text.
    fn in_plain_text(&self, from: &KeysUri) -> Option<String> {
        let view = resolve(self.catalog, from.host.as_str(), self.scope(), &mut ())?;
        let inputs = &view.port(from.port).filter(|_| from.is_tls)?.cluster.inputs;
        let tls = inputs.policy_of(Some(&self.key.namespace)).and_then(|policy| policy.whole.tls.as_deref());
        let is_plain = tls.is_none_or(|tls| *tls == ClientTls::Disable) && !inputs.automatic_tls;
        is_plain.then(|| format!("keys of {from} are fetched in plain text"))
    }
    fn scope(&self) -> Scope<'_> {
        Scope::of(Some(&self.key.namespace))
    }
    /// Returns the Sidecars of connected clients that have the policy, each once for each namespace.
    fn sidecars(&self) -> Vec<(&Namespace, ClientSidecar)> {
        let has = |client: &&Selectable| {
            (self.is_wide() || client.namespace == self.key.namespace)
                && client.kind == ClientKind::Sidecar
                && self.policy.selector.is_subset_of(&client.labels)
        };
        let mut seen = BTreeSet::new();
        let own = self.clients.iter().filter(has).take(MAX_CLIENTS).filter_map(|client| {
            let (key, sidecar) = attach(self.catalog, client.kind, Some(&client.namespace), &client.labels)?;
            seen.insert((&client.namespace, key))
                .then(|| (&client.namespace, ClientSidecar::new(key, sidecar)))
        });
        own.collect()
    }
}

#[cfg(test)]
mod tests;
