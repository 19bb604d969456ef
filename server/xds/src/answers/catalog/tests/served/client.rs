//! Clients, and what each must hold: built for it alone, by a provider without history.

use std::collections::BTreeMap;

use tributary_answer::OwnSide;
use tributary_proto::{Node, Value};

use super::super::*;
use super::facts::Facts;
use crate::answers::ClientClass;
use crate::client::ClientNode;

/// How a client connects and what it subscribes to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) namespace: &'static str,
    pub(super) app: &'static str,
    pub(super) grpc: bool,
    pub(super) variant: Variant,
    /// Whether it has everything, and not only assignments by name.
    pub(super) everything: bool,
    /// Whether it subscribes to more assignments than are looked up one by one.
    pub(super) many: bool,
    /// Whether its listeners open sockets.
    pub(super) binds: bool,
}

pub(super) const SIDECAR: Kind = Kind {
    namespace: "shop",
    app: "pay",
    grpc: false,
    variant: Variant::Delta,
    everything: true,
    many: false,
    binds: false,
};
pub(super) const CLIENTS: [Kind; 11] = [
    SIDECAR,
    Kind { app: "cart", variant: Variant::Sotw, many: true, ..SIDECAR },
    Kind { namespace: "web", variant: Variant::Sotw, ..SIDECAR },
    Kind { namespace: "web", app: "", many: true, ..SIDECAR },
    Kind { namespace: "blog", many: true, ..SIDECAR },
    Kind { namespace: "blog", app: "", variant: Variant::Sotw, ..SIDECAR },
    Kind { everything: false, ..SIDECAR },
    Kind { binds: true, ..SIDECAR },
    Kind { namespace: "web", binds: true, variant: Variant::Sotw, ..SIDECAR },
    Kind { namespace: "web", grpc: true, everything: false, ..SIDECAR },
    Kind { namespace: "web", app: "", everything: false, variant: Variant::Sotw, many: true, ..SIDECAR },
];

impl Kind {
    pub(super) fn node(self) -> ClientNode {
        let Self { namespace, .. } = self;
        let id = format!("sidecar~10.0.0.7~w.{namespace}~{namespace}.svc.cluster.local");
        let values =
            [("GENERATOR", "grpc", self.grpc), ("INTERCEPTION_MODE", "NONE", self.binds)].into_iter();
        let given = values.filter(|(.., given)| *given);
        let metadata = given.map(|(name, value, _)| (name, Value::Text(value.into()))).collect();
        let node = Node { id: id.as_str().into(), metadata, ..Node::default() };
        let labels = [("app", self.app)].into_iter().filter(|(_, app)| !app.is_empty()).collect();
        ClientNode { labels, ..ClientNode::parse(Some(&node)).unwrap() }
    }
    pub(super) fn class(self, facts: &Facts) -> ClientClassKey {
        let sidecar = facts.sidecar(self.namespace, self.app).map(Arc::new);
        ClientClassKey::alone(ClientClass { sidecar, ..self.node().class })
    }
    /// Types with the names that it subscribes to; none is all.
    pub(super) fn subscriptions(self) -> Vec<(ResourceType, Vec<String>)> {
        let hosts = ["a", "b", "c", "d"].map(|host| format!("{host}.shop"));
        let more = (0..if self.many { 30 } else { 0 }).map(|n| format!("x{n}.shop"));
        let cluster = |host: String| [80, 81].map(|port| format!("outbound|{port}||{host}"));
        let assignments =
            (ResourceType::Endpoints, hosts.into_iter().chain(more).flat_map(cluster).collect());
        if !self.everything {
            return vec![assignments];
        }
        let tables = ["80", "81", "82"].map(str::to_owned).to_vec();
        vec![
            (ResourceType::Cluster, vec![]),
            assignments,
            (ResourceType::Listener, vec![]),
            (ResourceType::Route, tables),
        ]
    }
}

/// Resources by type and name.
pub(super) type Resources = BTreeMap<(ResourceType, String), Bytes>;

/// What a client must hold: built from all facts for it alone, by a provider without history or other clients.
pub(super) fn expected(facts: &Facts, client: Kind) -> Resources {
    let (catalog, answers) = (World::default().next(&facts.services), CatalogAnswers::default());
    let (class, node) = (client.class(facts), client.node());
    let side = OwnSide { workloads: &[], ips: &node.ips };
    let mut out = Resources::new();
    for (kind, names) in client.subscriptions() {
        let body = |resource: &Arc<EncodedResource>| answers.bytes(&catalog, &class, kind, resource).unwrap();
        let mut add = |resource: &Arc<EncodedResource>| {
            out.insert((kind, resource.name.to_string()), body(resource));
        };
        answers.all(&catalog, &class, kind).iter().for_each(&mut add);
        answers.private(&catalog, &class, kind, side).iter().for_each(&mut add);
        for name in names {
            let found = answers.one(&catalog, &class, kind, &name);
            let found = found.or_else(|| (kind == ResourceType::Endpoints).then(|| empty_assignment(&name)));
            found.iter().for_each(&mut add);
        }
    }
    out
}
