//! Selection of the Services that get a generated ServiceExport (docs/reference/kubernetes.md).
//!
//! Pure; the exporter of the run loop calls it while this replica leads.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::derive::settings::local_hosts;
use crate::kind::Name;
use crate::project::Service;
use crate::project::service::ServiceKind;
use crate::state::ClusterObjects;
use crate::state::objects::within;

/// Services that may need an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suspects {
    /// These Services, and those of these namespaces.
    Some {
        /// Services by name.
        services: BTreeSet<Name>,
        /// Namespaces of other Services.
        namespaces: BTreeSet<Arc<str>>,
    },
    /// Every Service, after a change that affects many.
    All,
}

impl Suspects {
    /// Builds an empty set.
    #[must_use]
    pub const fn none() -> Self {
        Self::Some { services: BTreeSet::new(), namespaces: BTreeSet::new() }
    }
    /// Adds a Service.
    pub fn add(&mut self, name: &Name) {
        if let Self::Some { services, .. } = self {
            services.insert(name.clone());
        }
    }
    /// Adds the Services of a namespace.
    pub fn add_namespace(&mut self, namespace: &Arc<str>) {
        if let Self::Some { namespaces, .. } = self {
            namespaces.insert(Arc::clone(namespace));
        }
    }
}

/// Returns the Services among them that need a ServiceExport, sorted. Excludes aliases, Services of unselected
/// namespaces, and cluster-local Services.
#[must_use]
pub fn due(objects: &ClusterObjects, suspects: &Suspects) -> Vec<Name> {
    let settings = local_hosts(objects);
    let stays =
        |name: &Name| objects.host(name).map_or(true, |host| settings.is_cluster_local(&host) == Some(true));
    let is_due = |service: &Service| {
        let name = &service.meta.name;
        !matches!(service.address, ServiceKind::External(_))
            && objects.selected(&name.namespace)
            && !objects.exports.contains_key(name)
            && !stays(name)
    };
    let named = |service: &Arc<Service>| is_due(service).then(|| service.meta.name.clone());
    match suspects {
        Suspects::All => objects.services.values().filter_map(named).collect(),
        Suspects::Some { services, namespaces } => {
            let of_namespaces = namespaces
                .iter()
                .flat_map(|namespace| within(&objects.services, namespace).map(|(_, service)| service));
            let services = services.iter().filter_map(|name| objects.services.get(name)).chain(of_namespaces);
            services.filter_map(named).collect::<BTreeSet<_>>().into_iter().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::mk_options;
    use crate::project::Export;
    use crate::project::Object;
    use crate::publish::Index;
    use serde_json::{Value, json};
    use tributary_kube_client::Projection;

    fn raw<P: Projection>(object: &Value) -> Arc<P> {
        let raw = serde_json::value::to_raw_value(object).unwrap();
        Arc::new(P::decode(&raw).unwrap())
    }
    fn mk(namespace: &str, name: &str, spec: &Value) -> Object {
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        Object::Service(raw::<Service>(&object))
    }

    #[test]
    fn exported_alias_and_local_services_are_not_due() {
        let plain = json!({"clusterIP": "10.96.0.1", "ports": [{"port": 80}]});
        let mut index = Index::new(mk_options());
        index.apply_put(mk("shop", "pay", &plain));
        index.apply_put(mk("shop", "cart", &plain));
        index.apply_put(mk("kube-system", "dns", &plain));
        index.apply_put(mk("shop", "away", &json!({"type": "ExternalName", "externalName": "a.test"})));
        let named = |index: &Index| {
            let all = due(index.objects(), &Suspects::All);
            let every = index.objects().services.keys().cloned().collect();
            assert_eq!(
                due(index.objects(), &Suspects::Some { services: every, namespaces: BTreeSet::new() }),
                all,
                "by name or all at once"
            );
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(named(&index), ["shop/cart", "shop/pay"]);
        let export = json!({"metadata": {"namespace": "shop", "name": "pay"}});
        index.apply_put(Object::Export(raw::<Export>(&export)));
        assert_eq!(named(&index), ["shop/cart"], "already exported");
        let mut one = Suspects::none();
        one.add(&Name::new("shop", "pay"));
        one.add(&Name::new("shop", "gone"));
        assert!(due(index.objects(), &one).is_empty(), "other Services are not considered");
        one.add_namespace(&"kube-system".into());
        assert!(due(index.objects(), &one).is_empty());
        one.add_namespace(&"shop".into());
        assert_eq!(due(index.objects(), &one), [Name::new("shop", "cart")]);
    }
}
