//! The core declares which attributes of a client an answer reads, the answers read them. Over all
//! worlds and a grid of clients: what an answer makes of the declared dimensions is what it makes of
//! all of them, or a client would be served another's answer.

use std::sync::Arc;

use anyhow::{Result, ensure};
use proptest::prelude::*;
use tributary_answer::{Class, cluster, endpoints, inline, listener, route};
use tributary_model::{
    Catalog, ClientKind, ClusterId, Dims, Locality, Namespace, NetworkId, NodeName, PortView,
};
use tributary_worlds::{Case, CoreBackend, run, worlds};

mod facts;

fn everything() -> Dims {
    let all = [
        Dims::KIND,
        Dims::NETWORK,
        Dims::CLUSTER,
        Dims::LOCALITY,
        Dims::NODE,
        Dims::NAMESPACE,
        Dims::FAMILIES,
        Dims::BINDS,
        Dims::DOMAIN,
        Dims::DNS_CAPTURE,
    ];
    all.into_iter().fold(Dims::NONE, |sum, dim| sum | dim)
}

/// Each attribute in two values, alone and together with the kind.
fn mk_classes() -> Result<Vec<Class>> {
    let mut out = Vec::new();
    for kind in [ClientKind::Envoy, ClientKind::Sidecar, ClientKind::Grpc] {
        let plain = Class::new(kind);
        let domain: Arc<str> = "shop.svc.cluster.local".into();
        out.extend([
            Class { network: Some(NetworkId::new("net1")?), ..plain.clone() },
            Class { cluster: Some(ClusterId::new("east")?), ..plain.clone() },
            Class { locality: Locality::parse("eu/1b"), ..plain.clone() },
            Class { node: Some(NodeName::new("n1")?), ..plain.clone() },
            Class { namespace: Some(Namespace::new("shop")?), ..plain.clone() },
            Class { namespace: Some(Namespace::new("web")?), ..plain.clone() },
            Class { families: (false, true), ..plain.clone() },
            Class { families: (true, false), ..plain.clone() },
            Class { binds: true, ..plain.clone() },
            Class { domain: Some(domain), ..plain.clone() },
            Class { dns_capture: true, ..plain.clone() },
            plain,
        ]);
    }
    Ok(out)
}

fn compare(port: &PortView, class: &Class) -> Result<()> {
    let all = class.project(everything());
    let about = || format!("port {} of {}, {class:?}", port.number, port.cluster.facts.service);
    let facet = &port.endpoints;
    let declared = class.project(facet.dims);
    let same = endpoints(&facet.facts, &declared, &mut ()) == endpoints(&facet.facts, &all, &mut ());
    ensure!(same, "endpoints: {}", about());
    let facet = &port.cluster;
    let declared = class.project(facet.dims);
    let same = cluster(&facet.facts, &declared, &mut ()) == cluster(&facet.facts, &all, &mut ());
    ensure!(same, "cluster: {}", about());
    if let Some(within) = &facet.facts.inline {
        let same = inline(&within.facts, &declared, &mut ()) == inline(&within.facts, &all, &mut ());
        ensure!(same, "inline: {}", about());
    }
    let facet = &port.listener;
    let declared = class.project(facet.dims);
    let same = listener(&facet.facts, &declared, &mut ()) == listener(&facet.facts, &all, &mut ());
    ensure!(same, "listener: {}", about());
    let facet = &port.route;
    ensure!(
        route(&facet.facts, &class.project(facet.dims)) == route(&facet.facts, &all),
        "route: {}",
        about()
    );
    Ok(())
}

/// Whether a client of this class could be given this service at all: visibility of the whole
/// service is decided before any facet is asked.
fn reaches(catalog: &Catalog, port: &PortView, class: &Class) -> bool {
    let view = catalog.service(&port.cluster.facts.service);
    view.is_some_and(|view| tributary_answer::visible(view, class.namespace.as_ref()))
}

#[tokio::test]
async fn what_answers_read_is_declared() -> Result<()> {
    let classes = mk_classes()?;
    let mut compared = 0;
    for (_, world) in worlds()? {
        for case in &world.cases {
            // What is served after each step, not after the last alone.
            for steps in 1..=case.steps.len() {
                let case = Case { steps: case.steps[..steps].to_vec(), ..case.clone() };
                let mut backend = CoreBackend::default();
                run(&world, &case, &mut backend).await?;
                let catalog = backend.catalog();
                for port in catalog.services().flat_map(|view| view.ports.iter()) {
                    for class in classes.iter().filter(|class| reaches(catalog, port, class)) {
                        compare(port, class)?;
                        compared += 1;
                    }
                }
            }
        }
    }
    ensure!(compared > 1000, "only {compared} answers were compared");
    Ok(())
}

proptest! {
    #[test]
    fn what_answers_read_is_declared_for_any_facts(facts in facts::any_facts()) {
        let catalog = facts::publish(facts).unwrap();
        for port in catalog.services().flat_map(|view| view.ports.iter()) {
            for class in mk_classes().unwrap().iter().filter(|class| reaches(&catalog, port, class)) {
                compare(port, class).unwrap();
            }
        }
    }
}
