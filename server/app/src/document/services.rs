//! Services as documents: merged, with every declaration and condition.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tributary_answer::{ClientClass, conditions, contested_by_service};
use tributary_model::{
    Catalog, ClientKind, Condition, DeclarationView, Health, PortView, Resolution, ServiceKey, ServiceView,
    Visibility,
};

use super::filter::Filter;
use super::{ConditionItem, ObjectItem, Page};

/// One service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceItem {
    /// Host.
    pub host: String,
    /// Namespace of its declarations.
    pub namespace: String,
    /// Position in the precedence of the services with this host; 0 is served to every client that can see it.
    pub precedence: usize,
    /// How endpoints are found.
    pub resolution: String,
    /// Virtual addresses.
    pub addresses: Vec<String>,
    /// Ports.
    pub ports: Vec<PortItem>,
    /// Declarations, in order of precedence.
    pub declarations: Vec<DeclarationItem>,
    /// Endpoints of all ports.
    pub endpoints: CountItem,
    /// Whether it runs outside the mesh.
    #[serde(default)]
    pub mesh_external: bool,
    /// Alias hosts of this service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionItem>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortItem {
    /// Number.
    pub number: u16,
    /// Name.
    pub name: String,
    /// Protocol.
    pub protocol: String,
    /// Endpoints.
    pub endpoints: CountItem,
}

/// Number of endpoints, and of healthy ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountItem {
    /// Healthy endpoints.
    pub healthy: usize,
    /// All endpoints.
    pub total: usize,
}

/// Source of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclarationItem {
    /// Registry.
    pub registry: String,
    /// Provider and cluster.
    pub shard: String,
    /// Scope of the registry.
    pub scope: String,
    /// Object.
    pub object: ObjectItem,
    /// Visibility: `*`, `.`, `~` or namespaces.
    pub export_to: Vec<String>,
}

/// What services contest, also before a client: a plain sidecar meets all that is public, and one whose listeners bind
/// their ports what shares a port.
#[derive(Debug, Default)]
pub struct Contested(BTreeMap<ServiceKey, Vec<Condition>>);

impl Contested {
    /// Compares all services. `has_binding` is whether listeners of a client bind their ports.
    #[must_use]
    pub fn of(catalog: &Catalog, has_binding: bool) -> Self {
        let plain = ClientClass::new(ClientKind::Sidecar);
        let mut out = contested_by_service(catalog, &plain);
        let binding = has_binding.then(|| ClientClass { binds: true, ..plain });
        let more = binding.map(|class| contested_by_service(catalog, &class)).unwrap_or_default();
        for (key, found) in more {
            let own = out.entry(key).or_default();
            let new: Vec<Condition> = found.into_iter().filter(|one| !own.contains(one)).collect();
            own.extend(new);
        }
        Self(out)
    }
    /// Iterates over the conditions of each service.
    pub fn iter(&self) -> impl Iterator<Item = (&ServiceKey, &[Condition])> {
        self.0.iter().map(|(key, conditions)| (key, &**conditions))
    }
    fn by(&self, view: &ServiceView) -> &[Condition] {
        self.0.get(&view.key).map_or(&[][..], Vec::as_slice)
    }
}

/// Returns the services that match the filter, ordered by host and precedence. Walks no endpoint of a service off the page.
#[must_use]
pub fn list(catalog: &Catalog, filter: &Filter, contested: &Contested) -> Page<ServiceItem> {
    let hosts = catalog.hosts.iter().filter(|(host, _)| filter.takes_host(host.as_str()));
    let claims = hosts.flat_map(|(_, entry)| entry.claimants.iter().enumerate());
    let mut text = String::new();
    let matches = claims.filter(move |(_, view)| {
        let (namespace, host) = (view.key.namespace.as_str(), view.key.host.as_str());
        filter.takes_namespace(namespace)
            && filter.takes_object("Service", namespace, host)
            && of_registry(view, filter)
            && is_found(view, filter, &mut text)
    });
    Page::of(matches, filter, |(precedence, view)| {
        let unread = catalog.unread_condition(view).into_iter();
        item(precedence, view, &contested.by(view).iter().cloned().chain(unread).collect::<Vec<_>>())
    })
}

/// Whether the searched text is part of the host, the namespace or a virtual address. `text` is reused, so that a search allocates
/// nothing for services that it does not find.
fn is_found(view: &ServiceView, filter: &Filter, text: &mut String) -> bool {
    let all = || view.declarations.iter().flat_map(|view| view.declaration.addresses.iter());
    filter.finds([view.key.host.as_str(), view.key.namespace.as_str()])
        || all().any(|address| {
            text.clear();
            write!(text, "{}", address.ip).is_ok() && filter.finds([&**text])
        })
}

fn of_registry(view: &ServiceView, filter: &Filter) -> bool {
    filter.registry.is_none()
        || view.declarations.iter().any(|d| filter.takes_registry(d.shard.registry.name.as_str()))
}

fn item(precedence: usize, view: &ServiceView, contested: &[Condition]) -> ServiceItem {
    let ports: Vec<PortItem> = view.ports.iter().map(port).collect();
    let endpoints = ports.iter().fold(CountItem::default(), |sum, port| CountItem {
        healthy: sum.healthy + port.endpoints.healthy,
        total: sum.total + port.endpoints.total,
    });
    ServiceItem {
        host: view.key.host.to_string(),
        namespace: view.key.namespace.to_string(),
        precedence,
        resolution: served_by(view).map(resolution).unwrap_or_default(),
        addresses: addresses(view),
        ports,
        declarations: view.declarations.iter().map(declaration).collect(),
        endpoints,
        mesh_external: view.first().is_some_and(|d| d.declaration.attributes.mesh_external),
        aliases: view.alias_hosts().into_iter().map(ToString::to_string).collect(),
        conditions: conditions(view).iter().chain(contested).map(ConditionItem::from).collect(),
    }
}

fn addresses(view: &ServiceView) -> Vec<String> {
    let all = view.declarations.iter().flat_map(|d| d.declaration.addresses.iter());
    let text = |a: &tributary_model::ServiceAddress| {
        if a.is_host() { a.ip.to_string() } else { format!("{}/{}", a.ip, a.prefix) }
    };
    let unique: std::collections::BTreeSet<String> = all.map(text).collect();
    unique.into_iter().collect()
}

fn port(port: &PortView) -> PortItem {
    PortItem {
        number: port.number.get(),
        name: port.name.as_str().to_owned(),
        protocol: format!("{:?}", port.protocol).to_uppercase(),
        endpoints: count(port),
    }
}

fn count(port: &PortView) -> CountItem {
    let mut out = CountItem::default();
    for source in port.endpoints.inputs.sources.iter() {
        for address in source.group.addresses.iter() {
            let is_served = source.ports.get(usize::from(address.port_set)).is_some_and(Option::is_some);
            out.total += usize::from(is_served);
            out.healthy += usize::from(is_served && address.health == Health::Healthy);
        }
    }
    out
}

fn declaration(view: &DeclarationView) -> DeclarationItem {
    DeclarationItem {
        registry: view.shard.registry.name.to_string(),
        shard: view.shard.registry.to_string(),
        scope: view.shard.scope.to_string(),
        object: ObjectItem::from(&view.declaration.source),
        export_to: export(&view.visibility),
    }
}

fn export(visibility: &Visibility) -> Vec<String> {
    match visibility {
        Visibility::Public => vec!["*".to_owned()],
        Visibility::Own => vec![".".to_owned()],
        Visibility::Hidden => vec!["~".to_owned()],
        Visibility::Namespaces(list) => list.iter().map(ToString::to_string).collect(),
    }
}

/// Returns how clients find the endpoints. A federated service may differ from its members' declarations.
fn served_by(view: &ServiceView) -> Option<&Resolution> {
    let served = view.ports.first().map(|port| &port.endpoints.inputs.resolution);
    served.or_else(|| view.first().map(|first| &first.declaration.resolution))
}

fn resolution(resolution: &Resolution) -> String {
    match resolution {
        Resolution::Alias(host) => format!("Alias({host})"),
        other => format!("{other:?}"),
    }
}
