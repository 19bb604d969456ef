//! Which Services are to be exported by a ServiceExport that is written for them (`registries.md` 3.8).
//!
//! Pure; the rim's exporter asks it while this replica leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::derive::settings::local_hosts;
use crate::input::Name;
use crate::objects::ClusterObjects;
use crate::project::Service;
use crate::project::service::ServiceKind;

/// Services that may have become due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspects {
    /// These.
    Named(BTreeSet<Name>),
    /// Every one: what decides for many has changed.
    All,
}

impl Suspects {
    /// One more.
    pub fn add(&mut self, name: &Name) {
        if let Self::Named(names) = self {
            names.insert(name.clone());
        }
    }
}

/// Which of them are Services without a ServiceExport that may have one, sorted: all but other names for
/// something, those of namespaces that are not selected, and those that stay within their cluster.
#[must_use]
pub fn due(inputs: &ClusterObjects, suspects: &Suspects) -> Vec<Name> {
    let settings = local_hosts(inputs);
    let stays =
        |name: &Name| inputs.host(name).map_or(true, |host| settings.is_cluster_local(&host) == Some(true));
    let is_due = |service: &Service| {
        let name = &service.meta.name;
        !matches!(service.address, ServiceKind::External(_))
            && inputs.selected(&name.namespace)
            && !inputs.exports.contains_key(name)
            && !stays(name)
    };
    let named = |service: &Arc<Service>| is_due(service).then(|| service.meta.name.clone());
    match suspects {
        Suspects::All => inputs.services.values().filter_map(named).collect(),
        Suspects::Named(names) => {
            names.iter().filter_map(|name| inputs.services.get(name)).filter_map(named).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mk_options;
    use crate::index::Index;
    use crate::input::{Input, Object};
    use crate::project::Export;
    use serde_json::{Value, json};
    use tributary_kube_client::Projection;

    fn raw<P: Projection>(object: &Value) -> Arc<P> {
        let raw = serde_json::value::to_raw_value(object).unwrap();
        Arc::new(P::decode(&raw).unwrap())
    }
    fn mk(namespace: &str, name: &str, spec: &Value) -> Input {
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        Input::Put(Object::Service(raw::<Service>(&object)))
    }

    #[test]
    fn what_is_exported_another_name_or_local_is_not_due() {
        let plain = json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80}]});
        let mut index = Index::new(mk_options());
        index.apply(mk("shop", "pay", &plain));
        index.apply(mk("shop", "cart", &plain));
        index.apply(mk("kube-system", "dns", &plain));
        index.apply(mk("shop", "away", &json!({"type": "ExternalName", "externalName": "a.test"})));
        let named = |index: &Index| {
            let all = due(index.inputs(), &Suspects::All);
            let every = index.inputs().services.keys().cloned().collect();
            assert_eq!(due(index.inputs(), &Suspects::Named(every)), all, "one by one or all at once");
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(named(&index), ["shop/cart", "shop/pay"]);
        let export = json!({"metadata": {"namespace": "shop", "name": "pay"}});
        index.apply(Input::Put(Object::Export(raw::<Export>(&export))));
        assert_eq!(named(&index), ["shop/cart"], "somebody has exported it already");
        let mut one = Suspects::Named(BTreeSet::new());
        one.add(&Name::new("shop", "pay"));
        one.add(&Name::new("shop", "gone"));
        assert!(due(index.inputs(), &one).is_empty(), "nobody else is asked about");
    }
}
