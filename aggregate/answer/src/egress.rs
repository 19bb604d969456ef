//! What a Sidecar lets its workloads reach: an index over its egress listeners.
//!
//! Attachment builds a value for each client; resolution asks it for every host. Values compare by content, so
//! an edit that changes no listener changes no client's class. The index is built on the first look-up.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use tributary_model::{
    CaptureMode, Catalog, EgressListener, HostEntry, HostImport, HostPattern, Hostname, ImportNamespace,
    Namespace, PortNumber, ServiceKey, ServiceView, Shared,
};

use crate::members::overlay;

/// Egress listeners of a Sidecar.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    listeners: Arc<[EgressListener]>,
    hash: u64,
    index: OnceLock<Index>,
}

impl PartialEq for Egress {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        let same = || Arc::ptr_eq(&a.listeners, &b.listeners) || a.listeners == b.listeners;
        Arc::ptr_eq(&self.0, &other.0) || a.hash == b.hash && same()
    }
}
impl Eq for Egress {}
impl Hash for Egress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

/// Ports of a service that a client reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortSet {
    /// Those that have xDS clusters and assignments: the imported ones, and all of a service that no egress listener imports
    /// but to which a route leads.
    Reached,
    /// Those that any egress listener imports: they have listeners.
    Imported,
    /// Those whose hosts are in route tables: a port that has an egress listener of its own takes hosts only from it.
    Routed,
}

impl Egress {
    /// Creates the value of these listeners; `None` if they import everything that is visible.
    #[must_use]
    pub fn new(listeners: &Arc<[EgressListener]>) -> Option<Self> {
        if listeners.is_empty() || listeners.iter().any(is_open) && listeners.len() == 1 {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        listeners.hash(&mut hasher);
        let inner = Inner { listeners: Arc::clone(listeners), hash: hasher.finish(), index: OnceLock::new() };
        Some(Self(Arc::new(inner)))
    }
    /// Whether the value was created from this very list.
    #[must_use]
    pub fn is(&self, listeners: &Arc<[EgressListener]>) -> bool {
        Arc::ptr_eq(&self.0.listeners, listeners)
    }
    /// Returns the listeners, in declared order.
    #[must_use]
    pub fn listeners(&self) -> &[EgressListener] {
        &self.0.listeners
    }
    /// Returns the position of the first listener that imports a port of a service; `None` if none does.
    #[must_use]
    pub fn rank(&self, own: Option<&Namespace>, view: &ServiceView) -> Option<usize> {
        let has = |port: Option<PortNumber>| port.is_none_or(|port| view.port(port).is_some());
        let imports = |listener: &Listener| has(listener.port) && listener.imports(own, &view.key);
        self.index().listeners.iter().position(imports)
    }
    /// Whether a port of an imported service reaches the client.
    #[must_use]
    pub fn admits(&self, own: Option<&Namespace>, key: &ServiceKey, port: PortNumber, set: PortSet) -> bool {
        let index = self.index();
        let of_port = |listener: &&Listener| listener.port == Some(port);
        let open = |listener: &&Listener| listener.port.is_none();
        let imports = |listener: &Listener| listener.imports(own, key);
        let has_listener = set == PortSet::Routed && index.listeners.iter().any(|l| of_port(&l));
        index.listeners.iter().filter(of_port).any(imports)
            || !has_listener && index.listeners.iter().filter(open).any(imports)
    }
    /// Whether any of these hosts of a namespace is imported for a port, as Istio imports VirtualServices: a wildcard on
    /// either side may match the other side.
    #[must_use]
    pub fn imports_any(
        &self,
        own: Option<&Namespace>,
        port: PortNumber,
        namespace: &Namespace,
        hosts: &[HostPattern],
    ) -> bool {
        let index = self.index();
        let has_listener = index.listeners.iter().any(|listener| listener.port == Some(port));
        let of_port = |listener: &&Listener| listener.port == has_listener.then_some(port);
        let mut listeners = index.listeners.iter().filter(of_port);
        listeners.any(|listener| hosts.iter().any(|host| listener.imports_pattern(own, namespace, host)))
    }
    /// Whether any of these hosts of a namespace is imported by any listener.
    #[must_use]
    pub fn imports_pattern(
        &self,
        own: Option<&Namespace>,
        namespace: &Namespace,
        hosts: &[HostPattern],
    ) -> bool {
        let imports =
            |listener: &Listener| hosts.iter().any(|host| listener.imports_pattern(own, namespace, host));
        self.index().listeners.iter().any(imports)
    }
    /// Returns the listener through which clients reach a port of a service, if any does: one for the port, else the
    /// one for all ports; with it, the listener for the port if that does not import the service.
    #[must_use]
    pub fn serving(
        &self,
        own: Option<&Namespace>,
        key: &ServiceKey,
        port: PortNumber,
    ) -> Option<(&EgressListener, Option<&EgressListener>)> {
        let all = || self.index().listeners.iter().zip(self.0.listeners.iter());
        let mut of_port = all().filter(|(index, _)| index.port == Some(port));
        let importing = |(index, _): &(&Listener, &EgressListener)| index.imports(own, key);
        if let Some((_, found)) = of_port.clone().find(importing) {
            return Some((found, None));
        }
        let (_, open) = all().filter(|(index, _)| index.port.is_none()).find(importing)?;
        Some((open, of_port.next().map(|(_, other)| other)))
    }
    /// Returns the first import that admits a port of a service, or any port; for traces only, it reads all imports.
    #[must_use]
    pub fn import_of(
        &self,
        own: Option<&Namespace>,
        view: &ServiceView,
        port: Option<PortNumber>,
    ) -> Option<&HostImport> {
        let serves = |listener: &&EgressListener| {
            let of = listener.port.as_ref().map(|of| of.number);
            of.is_none_or(|of| port.map_or_else(|| view.port(of).is_some(), |port| port == of))
        };
        let admits = |import: &&HostImport| {
            admits(&import.namespace, own, &view.key.namespace) && import.host.matches(&view.key.host)
        };
        self.0.listeners.iter().filter(serves).find_map(|listener| listener.hosts.iter().find(admits))
    }
    /// Returns the hosts that may be imported, those that imported VirtualServices may name, and those that their routes may
    /// lead to, if no import is a wildcard over all namespaces.
    #[must_use]
    pub fn candidates<'c>(
        &'c self,
        catalog: &'c Catalog,
        own: Option<&'c Namespace>,
    ) -> Option<BTreeSet<&'c Hostname>> {
        let narrow = self.index().narrow.as_ref()?;
        let declared = named(&narrow.namespaces, own).filter_map(|namespace| overlay(catalog, namespace));
        let exact = narrow.hosts.iter().filter_map(|host| catalog.hosts.get_key_value(host));
        let exact = exact.map(|(host, _): (_, &Shared<HostEntry>)| host);
        let is_any = narrow.of_routes.contains(&ImportNamespace::Any);
        let by_any = is_any.then(|| catalog.led_to.values()).into_iter().flatten();
        let by_named = named(&narrow.of_routes, own).filter_map(|namespace| catalog.led_to.get(namespace));
        let led_to = by_any.chain(by_named).flat_map(|hosts| hosts.iter());
        Some(declared.flatten().chain(exact).chain(led_to).collect())
    }
    fn index(&self) -> &Index {
        self.0.index.get_or_init(|| Index::new(&self.0.listeners))
    }
}

/// Whether a listener imports every visible host on every port, as without a Sidecar.
fn is_open(listener: &EgressListener) -> bool {
    let all = |import: &HostImport| import.namespace == ImportNamespace::Any && import.host.as_str() == "*";
    let plain = listener.bind.is_none() && listener.capture == CaptureMode::Default;
    listener.port.is_none() && plain && listener.hosts.iter().any(all)
}

#[derive(Debug)]
struct Index {
    listeners: Vec<Listener>,
    /// Without an import of a wildcard over all namespaces.
    narrow: Option<Narrow>,
}

/// Where all imported services are found.
#[derive(Debug)]
struct Narrow {
    /// Hosts of imports that name one.
    hosts: Vec<Hostname>,
    /// Namespaces of the other imports.
    namespaces: Vec<ImportNamespace>,
    /// Namespaces of all imports: any of them may import a VirtualService.
    of_routes: Vec<ImportNamespace>,
}

impl Narrow {
    fn new<'a>(imports: impl Iterator<Item = &'a HostImport>) -> Option<Self> {
        let mut out = Self { hosts: Vec::new(), namespaces: Vec::new(), of_routes: Vec::new() };
        for import in imports.filter(|import| import.namespace != ImportNamespace::None) {
            add(&mut out.of_routes, &import.namespace);
            let host = Hostname::new(import.host.as_str()).ok().filter(|host| !host.is_wildcard());
            match (host, &import.namespace) {
                (Some(host), _) => out.hosts.push(host),
                (None, ImportNamespace::Any) => return None,
                (None, namespace) => add(&mut out.namespaces, namespace),
            }
        }
        Some(out)
    }
}

fn add(namespaces: &mut Vec<ImportNamespace>, namespace: &ImportNamespace) {
    if !namespaces.contains(namespace) {
        namespaces.push(namespace.clone());
    }
}

/// Returns the namespaces that imports name; `own` is the client's.
fn named<'a>(
    imports: &'a [ImportNamespace],
    own: Option<&'a Namespace>,
) -> impl Iterator<Item = &'a Namespace> {
    imports.iter().filter_map(move |import| match import {
        ImportNamespace::Named(namespace) => Some(namespace),
        ImportNamespace::Own => own,
        ImportNamespace::Any | ImportNamespace::None => None,
    })
}

impl Index {
    fn new(listeners: &[EgressListener]) -> Self {
        let narrow = Narrow::new(listeners.iter().flat_map(|listener| listener.hosts.iter()));
        Self { listeners: listeners.iter().map(Listener::new).collect(), narrow }
    }
}

/// Imports of one listener by host, and by the suffix of wildcards.
#[derive(Debug)]
struct Listener {
    port: Option<PortNumber>,
    exact: HashMap<Box<str>, Namespaces>,
    /// Suffixes, with their leading dot if they have one; `*` is the empty suffix.
    suffixes: HashMap<Box<str>, Namespaces>,
    /// Whether a suffix begins within a label (`*-docker.pkg.dev`).
    partial: bool,
}

type Namespaces = Vec<ImportNamespace>;

impl Listener {
    fn new(listener: &EgressListener) -> Self {
        let port = listener.port.as_ref().map(|port| port.number);
        let mut out = Self { port, exact: HashMap::new(), suffixes: HashMap::new(), partial: false };
        for import in listener.hosts.iter().filter(|i| i.namespace != ImportNamespace::None) {
            let (table, name) = match import.host.as_str().strip_prefix('*') {
                Some(suffix) => {
                    out.partial |= !suffix.is_empty() && !suffix.starts_with('.');
                    (&mut out.suffixes, suffix)
                }
                None => (&mut out.exact, import.host.as_str()),
            };
            let namespaces = table.entry(name.into()).or_default();
            if !namespaces.contains(&import.namespace) {
                namespaces.push(import.namespace.clone());
            }
        }
        out
    }
    fn imports(&self, own: Option<&Namespace>, key: &ServiceKey) -> bool {
        self.imports_host(own, &key.namespace, key.host.as_str())
    }
    fn imports_pattern(&self, own: Option<&Namespace>, namespace: &Namespace, host: &HostPattern) -> bool {
        let Some(suffix) = host.suffix() else { return self.imports_host(own, namespace, host.as_str()) };
        let admits = |of: &Namespaces| of.iter().any(|import| admits(import, own, namespace));
        let within = self.exact.iter().chain(&self.suffixes).filter(|(text, _)| text.ends_with(suffix));
        self.imports_host(own, namespace, host.as_str()) || within.map(|(_, of)| of).any(admits)
    }
    fn imports_host(&self, own: Option<&Namespace>, namespace: &Namespace, host: &str) -> bool {
        let admits = |of: &Namespaces| of.iter().any(|import| admits(import, own, namespace));
        let ends = |at: usize| {
            let suffix = host.get(at..);
            suffix.and_then(|suffix| self.suffixes.get(suffix)).is_some_and(admits)
        };
        let starts = |(at, c): (usize, char)| (self.partial || c == '.') && ends(at);
        self.exact.get(host).is_some_and(admits)
            || !self.suffixes.is_empty() && (ends(host.len()) || host.char_indices().any(starts))
    }
}

/// Whether a client of namespace `own` imports from `namespace`. `.` is nothing to a client without a namespace.
fn admits(import: &ImportNamespace, own: Option<&Namespace>, namespace: &Namespace) -> bool {
    match own {
        Some(own) => import.admits(own, namespace),
        None => *import != ImportNamespace::Own && import.admits(namespace, namespace),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_model::{EndpointInputs, HostPattern, Visibility};

    use super::*;
    use crate::fixtures::*;

    fn reaches(egress: &Egress, host: &str, namespace: &str, port: u32, set: PortSet) -> bool {
        egress.admits(Some(&mk_ns("web")), &mk_key(host, namespace), mk_port(port), set)
    }

    #[test]
    fn listener_without_imports_that_matter_is_no_restriction() {
        assert!(Egress::new(&Arc::from([])).is_none());
        assert!(Egress::new(&mk_egress(&[(None, &["*/*", "shop/a.b"])])).is_none());
        assert!(Egress::new(&mk_egress(&[(Some(80), &["*/*"])])).is_some(), "only port 80 is reached");
        assert!(Egress::new(&mk_egress(&[(None, &["./*"])])).is_some());
    }

    #[test]
    fn a_port_with_its_own_listener_takes_hosts_only_from_it() {
        let egress = Egress::new(&mk_egress(&[(Some(80), &["./*"]), (None, &["shop/*"])])).unwrap();
        let cases = [
            ("a.web", "web", 80, true, true),
            ("a.web", "web", 81, false, false),
            ("a.shop", "shop", 80, true, false),
            ("a.shop", "shop", 81, true, true),
            ("a.pay", "pay", 80, false, false),
        ];
        for (host, namespace, port, clusters, listeners) in cases {
            assert_eq!(reaches(&egress, host, namespace, port, PortSet::Imported), clusters, "{host} {port}");
            assert_eq!(reaches(&egress, host, namespace, port, PortSet::Routed), listeners, "{host} {port}");
        }
    }

    #[test]
    fn the_first_listener_that_imports_a_port_ranks_a_service() {
        let egress =
            Egress::new(&mk_egress(&[(Some(81), &["./*"]), (None, &["shop/*", "./b.web"])])).unwrap();
        let on_80 = |host: &str, namespace: &str| {
            let facts = EndpointInputs { service: mk_key(host, namespace), ..mk_one(Vec::new()) };
            let view = ServiceView::clone(&mk_view(host, namespace, &[]));
            ServiceView { ports: [mk_port_view(facts)].into(), ..view }
        };
        let rank = |host, namespace| egress.rank(Some(&mk_ns("web")), &on_80(host, namespace));
        assert_eq!(rank("a.shop", "shop"), Some(1));
        assert_eq!(rank("b.web", "web"), Some(1), "the first listener has no port of it");
        assert_eq!([rank("a.web", "web"), rank("a.pay", "pay")], [None, None]);
    }

    #[test]
    fn candidates_are_those_of_imported_namespaces_unless_a_wildcard_is_over_all() {
        let names = [("a.x", "web"), ("b.x", "shop"), ("c.x", "shop"), ("d.x", "pay")];
        let views = names.map(|(host, namespace)| mk_view(host, namespace, &[Visibility::Public]));
        let (mut catalog, own) = (mk_catalog(views.to_vec()), mk_ns("web"));
        let led = |host: &str| Shared::new([mk_host(host)].into_iter().collect());
        catalog.led_to = [(mk_ns("shop"), led("l.x")), (mk_ns("pay"), led("m.x"))].into_iter().collect();
        let hosts = |imports: &[&str]| {
            let egress = Egress::new(&mk_egress(&[(None, imports)])).unwrap();
            let found = egress.candidates(&catalog, Some(&own))?;
            Some(found.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        let any = hosts(&["shop/b.x", "./a.x", "*/d.x", "*/e.x", "~/*"]);
        assert_eq!(any.as_deref(), Some("a.x b.x d.x l.x m.x"), "routes of any namespace");
        assert_eq!(hosts(&["./*.x", "shop/*"]).as_deref(), Some("a.x b.x c.x l.x"));
        assert_eq!(hosts(&["shop/b.x"]).as_deref(), Some("b.x l.x"), "a VirtualService of the host imported");
        assert_eq!(hosts(&["shop/b.x", "*/*.x"]), None);
        assert_eq!(hosts(&["~/*"]).as_deref(), Some(""));
    }

    #[test]
    fn values_compare_by_content() {
        let of = |imports: &[&str]| Egress::new(&mk_egress(&[(None, imports)])).unwrap();
        assert_eq!(of(&["./a.x"]), of(&["./a.x"]));
        assert_ne!(of(&["./a.x"]), of(&["./b.x"]));
    }

    fn some_import() -> impl Strategy<Value = HostImport> {
        let namespace = prop_oneof![
            Just(ImportNamespace::Any),
            Just(ImportNamespace::Own),
            Just(ImportNamespace::None),
            Just(ImportNamespace::Named(mk_ns("shop"))),
        ];
        let host = prop_oneof![
            Just("*"),
            Just("*.x"),
            Just("*.b.x"),
            Just("*b.x"),
            Just("a.b.x"),
            Just("b.x"),
            Just("*.a.b.x")
        ];
        (namespace, host)
            .prop_map(|(namespace, host)| HostImport { namespace, host: HostPattern::new(host).unwrap() })
    }

    proptest! {
        #[test]
        fn index_imports_what_the_patterns_match(
            hosts in prop::collection::vec(some_import(), 1..5),
            host in prop_oneof![Just("a.b.x"), Just("b.x"), Just("ab.x"), Just("*.b.x"), Just("*b.x"), Just("c")],
            namespace in prop_oneof![Just("shop"), Just("web"), Just("pay")],
        ) {
            let (own, key) = (mk_ns("web"), mk_key(host, namespace));
            let expected = hosts.iter().any(|import| import.admits(&own, &key.namespace, &key.host));
            let listener = EgressListener { hosts: hosts.into(), ..mk_egress(&[(None, &["./x.y"])])[0].clone() };
            let listeners = [listener.clone(), listener].into();
            let egress = Egress::new(&listeners).unwrap();
            let found = egress.admits(Some(&own), &key, mk_port(80), PortSet::Imported);
            prop_assert_eq!(found, expected);
        }
    }
}
