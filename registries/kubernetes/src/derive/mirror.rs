//! Detection of Services that a Consul copied into the cluster: if that Consul is read directly, they would refer back to
//! it.

use crate::project::Service;
use crate::project::service::ServiceKind;

/// Label of Services that the synchronization from Consul creates.
const SYNCED: (&str, &str) = ("consul", "true");

/// Whether a Service is a copy of a service of a Consul with one of these domains. Without domains no Consul is read, and
/// no Service is a copy.
#[must_use]
pub fn is_mirror(service: &Service, domains: &[impl AsRef<str>]) -> bool {
    if domains.is_empty() {
        return false;
    }
    let labelled = service.meta.labels.get(SYNCED.0) == Some(SYNCED.1);
    // operators annotate Services of their own too, to exclude them from Consul; those have a selector
    let kept_out = service.unsynced && service.selector.is_empty();
    labelled || kept_out || domains.iter().any(|domain| leads_into(service, domain.as_ref()))
}

/// Whether it is an alias of a service of this domain.
fn leads_into(service: &Service, domain: &str) -> bool {
    let ServiceKind::External(name) = &service.address else { return false };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let head = name.strip_suffix(&format!(".{}", domain.to_ascii_lowercase()));
    head.is_some_and(|head| head.split('.').any(|label| label == "service"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::merge;

    fn mk_service(over: &serde_json::Value) -> Service {
        let mut base =
            json!({"metadata": {"name": "pay", "namespace": "shop"}, "spec": {"clusterIP": "10.0.0.1"}});
        merge(&mut base, over);
        Service::parse(&base.to_string()).unwrap()
    }

    #[test]
    fn consul_copy_is_a_mirror_while_that_consul_is_read() {
        let external =
            |name: &str| json!({"spec": {"type": "ExternalName", "clusterIP": "", "externalName": name}});
        let kept = |selector: serde_json::Value| {
            let annotations = json!({"consul.hashicorp.com/service-sync": "false"});
            json!({"metadata": {"annotations": annotations}, "spec": {"selector": selector}})
        };
        let cases = [
            (json!({}), false),
            (json!({"metadata": {"labels": {"consul": "true"}}}), true),
            (json!({"metadata": {"labels": {"consul": "false"}}}), false),
            (kept(json!({"app": "pay"})), false),
            (kept(json!({})), true),
            (external("pay.service.consul"), true),
            (external("Pay.Service.dc2.dc.CONSUL."), true),
            (external("pay.query.consul"), false),
            (external("pay.service.consul.example"), false),
        ];
        for (patch, want) in cases {
            let service = mk_service(&patch);
            assert_eq!(is_mirror(&service, &["consul"]), want, "{patch}");
            assert!(!is_mirror(&service, &[""; 0]), "no Consul is read");
        }
    }
}
