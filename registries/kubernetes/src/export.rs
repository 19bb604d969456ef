//! Which Services are to be exported by a ServiceExport that is written for them (`registries.md` 3.8).
//!
//! Pure; the rim's exporter asks it while this replica leads.

use crate::derive::settings::local_hosts;
use crate::input::Name;
use crate::inputs::Inputs;
use crate::project::service::ServiceKind;

/// The Services without a ServiceExport that may have one, sorted: all but other names for something, those of
/// namespaces that are not selected, and those that stay within their cluster.
#[must_use]
pub fn due(inputs: &Inputs) -> Vec<Name> {
    let settings = local_hosts(inputs);
    let stays =
        |name: &Name| inputs.host(name).map_or(true, |host| settings.is_cluster_local(&host) == Some(true));
    let mut due: Vec<Name> = inputs
        .services
        .values()
        .filter(|service| !matches!(service.address, ServiceKind::External(_)))
        .map(|service| &service.meta.name)
        .filter(|name| {
            inputs.selected(&name.namespace) && !inputs.exports.contains_key(*name) && !stays(name)
        })
        .cloned()
        .collect();
    due.sort();
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use crate::input::{Input, Object};
    use crate::mk::mk_options;
    use crate::project::{Export, Service};
    use serde_json::{Value, json};
    use std::sync::Arc;
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
        let named = |index: &Index| due(index.inputs()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(named(&index), ["shop/cart", "shop/pay"]);
        let export = json!({"metadata": {"namespace": "shop", "name": "pay"}});
        index.apply(Input::Put(Object::Export(raw::<Export>(&export))));
        assert_eq!(named(&index), ["shop/cart"], "somebody has exported it already");
    }
}
