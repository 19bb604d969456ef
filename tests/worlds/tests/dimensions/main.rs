//! Checks that the core declares every attribute of a client that an answer reads. Over all worlds and a grid
//! of clients, the answer for the declared dimensions equals the answer for all of them; otherwise a client
//! would receive another client's answer.

use std::sync::Arc;

use anyhow::{Result, ensure};
use proptest::prelude::*;
use tributary_answer::{ClientClass, cluster, endpoints, endpoints_of, inline, key, listener, route};
use tributary_model::{
    Catalog, CertificateSource, ClientDimensions, ClientKind, ClosedPorts, ClusterId, Locality, Namespace,
    NetworkId, NodeName, PortView, Projection, Subset,
};
use tributary_worlds::{Case, CoreBackend, run, worlds};

mod facts;

fn everything() -> ClientDimensions {
    let all = [
        ClientDimensions::KIND,
        ClientDimensions::NETWORK,
        ClientDimensions::CLUSTER,
        ClientDimensions::LOCALITY,
        ClientDimensions::NODE,
        ClientDimensions::NAMESPACE,
        ClientDimensions::FAMILIES,
        ClientDimensions::BINDS,
        ClientDimensions::DOMAIN,
        ClientDimensions::DNS_CAPTURE,
        ClientDimensions::LABELS,
        ClientDimensions::CERTIFICATES,
    ];
    all.into_iter().fold(ClientDimensions::NONE, |sum, dim| sum | dim)
}

/// Returns classes with two values of each attribute, alone and together with the kind.
fn mk_classes() -> Result<Vec<ClientClass>> {
    let mut out = Vec::new();
    for kind in [ClientKind::Envoy, ClientKind::Sidecar, ClientKind::Grpc, ClientKind::Router] {
        let plain = ClientClass::new(kind);
        let domain: Arc<str> = "shop.svc.cluster.local".into();
        out.extend([
            ClientClass { network: Some(NetworkId::new("net1")?), ..plain.clone() },
            ClientClass { cluster: Some(ClusterId::new("east")?), ..plain.clone() },
            ClientClass { locality: Locality::parse("eu/1b"), ..plain.clone() },
            ClientClass {
                locality: Locality::parse("us/2a"),
                namespace: Some(Namespace::new("web")?),
                ..plain.clone()
            },
            ClientClass { labels: [("tier", "a")].into_iter().collect(), ..plain.clone() },
            ClientClass { node: Some(NodeName::new("n1")?), ..plain.clone() },
            ClientClass { namespace: Some(Namespace::new("shop")?), ..plain.clone() },
            ClientClass { namespace: Some(Namespace::new("web")?), ..plain.clone() },
            ClientClass { families: (false, true), ..plain.clone() },
            ClientClass { families: (true, false), ..plain.clone() },
            ClientClass { binds: true, ..plain.clone() },
            ClientClass {
                closed: ClosedPorts { privileged: true, ..ClosedPorts::default() },
                binds: true,
                ..plain.clone()
            },
            ClientClass { domain: Some(domain), ..plain.clone() },
            ClientClass { dns_capture: true, ..plain.clone() },
            ClientClass { certificates: CertificateSource::Files, ..plain.clone() },
            ClientClass { certificates: CertificateSource::Files, families: (false, true), ..plain.clone() },
            plain,
        ]);
    }
    Ok(out)
}

/// Returns a client reduced to declared dimensions. Every key of a router has its kind, because its names differ.
fn declared(class: &ClientClass, dimensions: ClientDimensions) -> Projection {
    let is_router = class.kind == ClientKind::Router;
    class.project(if is_router { dimensions | ClientDimensions::KIND } else { dimensions })
}

fn compare(port: &PortView, class: &ClientClass) -> Result<()> {
    let all = class.project(everything());
    let about = || format!("port {} of {}, {class:?}", port.number, port.cluster.inputs.service);
    let part = &port.endpoints;
    let known = declared(class, part.dimensions);
    let same = endpoints(&part.inputs, &known, &mut ()) == endpoints(&part.inputs, &all, &mut ());
    ensure!(same, "endpoints: {}", about());
    let v1 = Subset::new("v1");
    let of = |client: &Projection| endpoints_of(&part.inputs, v1.as_ref(), client, &mut ());
    ensure!(of(&known) == of(&all), "subset: {}", about());
    ensure!(of(&key(part, class)) == of(&all), "key of a subset: {}", about());
    let part = &port.cluster;
    let known = declared(class, part.dimensions);
    let same = cluster(&part.inputs, None, &known, &mut ()) == cluster(&part.inputs, None, &all, &mut ());
    ensure!(same, "cluster: {}", about());
    if let Some(within) = &part.inputs.inline {
        let same = inline(&within.inputs, &known, &mut ()) == inline(&within.inputs, &all, &mut ());
        ensure!(same, "inline: {}", about());
    }
    let part = &port.listener;
    let known = declared(class, part.dimensions);
    let same = listener(&part.inputs, &known, &mut ()) == listener(&part.inputs, &all, &mut ());
    ensure!(same, "listener: {}", about());
    let part = &port.route;
    ensure!(
        route(&part.inputs, &declared(class, part.dimensions)) == route(&part.inputs, &all),
        "route: {}",
        about()
    );
    Ok(())
}

/// Returns true if a client of this class can receive this service at all: the visibility of the whole service
/// is decided before any inputs are read.
fn reaches(catalog: &Catalog, port: &PortView, class: &ClientClass) -> bool {
    let view = catalog.service(&port.cluster.inputs.service);
    view.is_some_and(|view| tributary_answer::visible(view, class.scope()))
}

#[tokio::test]
async fn attributes_that_answers_read_are_declared() -> Result<()> {
    let classes = mk_classes()?;
    let mut compared = 0;
    for (_, world) in worlds()? {
        for case in &world.cases {
            // Compares the results after each step, not only after the last.
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
    fn attributes_that_answers_read_are_declared_for_any_facts(facts in facts::any_facts()) {
        let catalog = facts::publish(facts).unwrap();
        for port in catalog.services().flat_map(|view| view.ports.iter()) {
            for class in mk_classes().unwrap().iter().filter(|class| reaches(&catalog, port, class)) {
                compare(port, class).unwrap();
            }
        }
    }
}
