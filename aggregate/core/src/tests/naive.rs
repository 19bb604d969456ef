//! Naive computation of a catalog's content: nested loops over all facts, without any index, merge or
//! join of the core.

pub(crate) mod policies;
pub(crate) mod rules;
mod security;

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{
    AddressRef, Catalog, Code, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, ExportTo, Fact, FactId,
    Hostname, RegistrySpec, Resolution, ServiceKey, Settings, Target, Visibility, Workload, WorkloadAddress,
    WorkloadKey, WorkloadKind,
};

/// All facts, by registry (its index in the list of specs) and fact id.
pub(crate) type Facts = BTreeMap<(usize, FactId), Fact>;

/// Content of one service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Plain {
    /// Declaring objects with their visibility, in order.
    pub(crate) declarations: Vec<(String, Visibility)>,
    /// Name and protocol of each port.
    pub(crate) ports: BTreeMap<u16, (String, String)>,
    /// (registry, declaring object, address, port, health, weight, selected workload) of each port.
    pub(crate) endpoints: BTreeMap<u16, BTreeSet<Endpoint>>,
    /// Security of the connections to each port.
    pub(crate) security: BTreeMap<u16, Security>,
    /// Aliases of its host.
    pub(crate) aliases: BTreeSet<String>,
    /// Codes of its conditions.
    pub(crate) codes: BTreeSet<u16>,
}

/// Identities of the endpoints, whether mesh TLS is automatic, and whether all endpoints of a port where connections keep
/// their destination accept it.
pub(crate) type Security = (BTreeSet<String>, bool, bool);

pub(crate) type Endpoint = (String, String, String, u16, String, u32, String);

/// All services, the order of each host's claimants, and the services of each workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answers {
    pub(crate) services: BTreeMap<ServiceKey, Plain>,
    pub(crate) hosts: BTreeMap<Hostname, Vec<ServiceKey>>,
    pub(crate) workloads: BTreeMap<WorkloadKey, BTreeSet<ServiceKey>>,
    pub(crate) scoped: BTreeMap<String, BTreeSet<String>>,
    pub(crate) policies: policies::Policies,
}

/// Reads the content of a catalog.
pub(crate) fn read(catalog: &Catalog) -> Answers {
    let mut out = Answers::default();
    for (host, entry) in &catalog.hosts {
        out.hosts.insert(host.clone(), entry.claimants.iter().map(|v| v.key.clone()).collect());
        for view in entry.claimants.iter() {
            let mut plain = Plain::default();
            for d in view.declarations.iter() {
                plain.declarations.push((d.declaration.source.object.to_string(), d.visibility.clone()));
            }
            for port in view.ports.iter() {
                let number = port.number.get();
                plain.ports.insert(number, (port.name.as_str().into(), port.protocol.as_str().into()));
                let cluster = &port.cluster.inputs;
                let identities = cluster.identities.iter().map(ToString::to_string).collect();
                plain.security.insert(number, (identities, cluster.automatic_tls, cluster.all_meshed));
                let endpoints = plain.endpoints.entry(number).or_default();
                for source in port.endpoints.inputs.sources.iter() {
                    for a in source.group.addresses.iter() {
                        let Some(i) = source.ports[usize::from(a.port_set)] else { continue };
                        let to = source.group.ports(a)[usize::from(i)].number.map_or(0, |n| n.get());
                        let origin = a.origin.as_ref().map(|o| o.object.to_string()).unwrap_or_default();
                        endpoints.insert((
                            source.shard.registry.name.to_string(),
                            source.declaration.source.object.to_string(),
                            at(&source.group, a.at),
                            to,
                            a.health.as_str().into(),
                            a.weight,
                            origin,
                        ));
                    }
                }
            }
            plain.aliases = view.alias_hosts().into_iter().map(ToString::to_string).collect();
            plain.codes = view.conditions.iter().map(|c| c.code.number()).collect();
            out.services.insert(view.key.clone(), plain);
        }
    }
    for (key, view) in &catalog.workloads {
        out.workloads.insert(key.clone(), view.services.iter().cloned().collect());
    }
    for (namespace, hosts) in &catalog.scoped {
        out.scoped.insert(namespace.to_string(), hosts.iter().map(ToString::to_string).collect());
    }
    out.policies = policies::read(catalog);
    out
}

fn at(group: &EndpointGroup, at: AddressRef) -> String {
    match at {
        AddressRef::Ip(ip) => ip.to_string(),
        AddressRef::Name(i) | AddressRef::Unix(i) => group.names[usize::from(i)].to_string(),
    }
}

/// Declaration with the registry that reports it.
struct Declared<'a> {
    registry: usize,
    key: &'a DeclKey,
    value: &'a Declaration,
}

/// Facts by kind.
struct All<'a> {
    specs: &'a [RegistrySpec],
    default_export: Visibility,
    settings: Settings,
    declarations: Vec<Declared<'a>>,
    groups: Vec<(usize, &'a EndpointGroupKey, &'a EndpointGroup)>,
    workloads: Vec<(usize, &'a WorkloadKey, &'a Workload)>,
}

/// Computes the content from facts.
pub(crate) fn answer(specs: &[RegistrySpec], facts: &Facts) -> Answers {
    let mut all = All {
        specs,
        default_export: Visibility::Public,
        settings: Settings::default(),
        declarations: vec![],
        groups: vec![],
        workloads: vec![],
    };
    let mut settings: Option<&Settings> = None;
    for ((registry, _), fact) in facts {
        match fact {
            Fact::Service(key, value) => all.declarations.push(Declared { registry: *registry, key, value }),
            Fact::Group(key, value) => all.groups.push((*registry, key, value)),
            Fact::Workload(key, value) => all.workloads.push((*registry, key, value)),
            Fact::Settings(value) => settings = Some(value),
            Fact::Gateway(..)
            | Fact::GatewayName(..)
            | Fact::FederatedService(..)
            | Fact::Waiting(..)
            | Fact::Policy(..) => {}
        }
    }
    all.default_export = settings.map(Settings::default_export).unwrap_or_default();
    all.settings = settings.cloned().unwrap_or_default();
    Answers { policies: policies::answer(specs, facts), ..all.answer() }
}

impl<'a> All<'a> {
    fn answer(&self) -> Answers {
        let mut out = Answers::default();
        let keys: BTreeSet<&ServiceKey> = self.declarations.iter().map(|d| &d.key.service).collect();
        for key in &keys {
            out.services.insert((*key).clone(), self.service(key));
            out.hosts.entry(key.host.clone()).or_default().push((*key).clone());
        }
        for claimants in out.hosts.values_mut() {
            claimants.sort_by_key(|key| (self.rank(self.ordered(key)[0]), key.clone()));
        }
        self.conflicts(&mut out);
        self.aliases(&mut out);
        self.scopes(&mut out);
        for (_, key, _) in &self.workloads {
            let selecting =
                self.declarations.iter().filter(|d| self.selected(d).iter().any(|(k, _)| k == key));
            out.workloads.insert((*key).clone(), selecting.map(|d| d.key.service.clone()).collect());
        }
        out
    }

    /// Returns the precedence of a declaration as a tuple.
    fn rank(&self, declared: &Declared<'_>) -> impl Ord + use<> {
        let spec = &self.specs[declared.registry];
        let object = &declared.key.object;
        (
            (
                spec.precedence.provider,
                spec.id.provider.clone(),
                spec.precedence.rank,
                declared.value.created.map_or(i64::MAX, |t| t.as_second()),
            ),
            (spec.id.cluster.clone(), spec.id.name.clone()),
            (object.namespace.clone(), object.name.clone(), object.kind),
        )
    }

    /// Returns a service's declarations: shards in the order of their first declaration, oldest first.
    fn ordered(&self, key: &ServiceKey) -> Vec<&Declared<'a>> {
        let mut left: Vec<&Declared<'a>> =
            self.declarations.iter().filter(|d| d.key.service == *key).collect();
        let mut out = Vec::new();
        while !left.is_empty() {
            let first = left.iter().min_by_key(|d| self.rank(d)).unwrap().registry;
            let mut shard: Vec<&Declared<'a>> =
                left.iter().filter(|d| d.registry == first).copied().collect();
            shard.sort_by_key(|d| self.rank(d));
            out.extend(shard);
            left.retain(|d| d.registry != first);
        }
        out
    }

    fn visibility(&self, declared: &Declared<'_>) -> Visibility {
        let visibility = match &declared.value.export {
            ExportTo::Set(v) => v.clone(),
            ExportTo::Default => self.default_export.clone(),
        };
        if visibility == Visibility::Own {
            Visibility::Namespaces([declared.key.service.namespace.clone()].into())
        } else {
            visibility
        }
    }

    fn service(&self, key: &ServiceKey) -> Plain {
        let mut out = Plain::default();
        let ordered = self.ordered(key);
        for declared in &ordered {
            out.declarations.push((declared.value.source.object.to_string(), self.visibility(declared)));
            if declared.value.resolution != ordered[0].value.resolution {
                out.codes.insert(Code::RESOLUTION_CONFLICT.number());
            }
            for port in declared.value.ports.iter() {
                let names = (port.name.as_str().to_owned(), port.protocol.as_str().to_owned());
                let served = out.ports.entry(port.number.get()).or_insert_with(|| names.clone());
                if *served != names {
                    out.codes.insert(Code::PORT_CONFLICT.number());
                }
                out.endpoints.entry(port.number.get()).or_default();
            }
            if !matches!(declared.value.resolution, Resolution::Alias(_)) {
                self.listed(declared, &mut out);
                self.picked(declared, &mut out);
            }
        }
        let waits = |(registry, group, endpoints): &&(usize, &EndpointGroupKey, &EndpointGroup)| {
            group.service == *key
                && !endpoints.addresses.is_empty()
                && !ordered.iter().any(|d| d.registry == *registry && d.key.object == group.declaration)
        };
        if self.groups.iter().any(|g| waits(&g)) {
            out.codes.insert(Code::GROUP_WITHOUT_DECLARATION.number());
        }
        let identities = security::identities(self, &ordered);
        for port in out.ports.keys() {
            let automatic = self.settings.auto_mtls != Some(false);
            let meshed = ordered[0].value.resolution == Resolution::Passthrough
                && security::all_meshed(self, &ordered, *port);
            out.security.insert(*port, (identities.clone(), automatic, meshed));
        }
        out
    }

    /// Adds the endpoints of a declaration's listed groups.
    fn listed(&self, declared: &Declared<'_>, out: &mut Plain) {
        let own: Vec<_> = self
            .groups
            .iter()
            .filter(|(r, k, g)| {
                *r == declared.registry
                    && k.service == declared.key.service
                    && k.declaration == declared.key.object
                    && !g.addresses.is_empty()
            })
            .collect();
        let mut led: BTreeSet<u16> = BTreeSet::new();
        for (_, _, group) in &own {
            for set in group.port_sets.iter() {
                for (i, from) in set.iter().enumerate() {
                    let only = set.len() == 1 && declared.value.ports.len() == 1;
                    let to: Vec<_> =
                        declared.value.ports.iter().filter(|p| only || p.name == from.name).collect();
                    if to.is_empty() {
                        out.codes.insert(Code::UNMATCHED_PORT.number());
                    }
                    for port in to {
                        led.insert(port.number.get());
                        let here = |a: &&tributary_model::Address| {
                            std::sync::Arc::ptr_eq(&group.port_sets[usize::from(a.port_set)], set)
                        };
                        for a in group.addresses.iter().filter(here) {
                            let number = set[i].number.map_or(0, |n| n.get());
                            out.endpoints.get_mut(&port.number.get()).unwrap().insert((
                                self.specs[declared.registry].id.name.to_string(),
                                declared.value.source.object.to_string(),
                                at(group, a.at),
                                number,
                                a.health.as_str().into(),
                                a.weight,
                                String::new(),
                            ));
                        }
                    }
                }
            }
        }
        let some =
            !own.is_empty() || self.selected(declared).iter().any(|(k, w)| reaches_any(declared.value, k, w));
        for port in declared.value.ports.iter() {
            let selects = self.selected(declared).iter().any(|(k, w)| reach(port, k.kind, w).is_some());
            if some && !led.contains(&port.number.get()) && !selects {
                out.codes.insert(Code::UNMATCHED_PORT.number());
            }
        }
    }

    /// Returns the workloads that a declaration selects, each with its value first in precedence.
    fn selected(&self, declared: &Declared<'_>) -> Vec<(&'a WorkloadKey, &'a Workload)> {
        let Some(selector) = &declared.value.selector else { return Vec::new() };
        let keys: BTreeSet<&WorkloadKey> = self.workloads.iter().map(|(_, k, _)| *k).collect();
        let mut out = Vec::new();
        for key in keys {
            let values = self.workloads.iter().filter(|(_, k, _)| *k == key);
            let first = values.min_by_key(|(r, ..)| {
                let spec = &self.specs[*r];
                (spec.precedence, spec.id.cluster.clone(), spec.id.name.clone())
            });
            let (_, key, workload) = first.unwrap();
            let labels = if selector.augmented { &workload.augmented } else { &workload.labels };
            if !selector.labels.is_empty()
                && selector.labels.pairs().all(|pair| labels.pairs().any(|own| own == pair))
                && key.namespace == declared.key.service.namespace
                && selector.kinds.contains(&key.kind)
                && selector.cluster.as_ref().is_none_or(|c| *c == key.cluster)
                && (selector.names || matches!(workload.addresses[0], WorkloadAddress::Ip(_)))
            {
                out.push((*key, *workload));
            }
        }
        out
    }

    fn picked(&self, declared: &Declared<'_>, out: &mut Plain) {
        for (key, workload) in self.selected(declared) {
            for port in declared.value.ports.iter() {
                let Some(number) = reach(port, key.kind, workload) else {
                    out.codes.insert(Code::NO_TARGET_PORT.number());
                    continue;
                };
                let at = match &workload.addresses[0] {
                    WorkloadAddress::Ip(ip) => ip.to_string(),
                    WorkloadAddress::Name(text) | WorkloadAddress::Unix(text) => text.to_string(),
                };
                out.endpoints.get_mut(&port.number.get()).unwrap().insert((
                    self.specs[declared.registry].id.name.to_string(),
                    declared.value.source.object.to_string(),
                    at,
                    number,
                    workload.health.as_str().into(),
                    workload.weight,
                    workload.source.object.to_string(),
                ));
            }
        }
    }

    fn conflicts(&self, out: &mut Answers) {
        for claimants in out.hosts.values() {
            let of_host = self.declarations.iter().filter(|d| claimants.contains(&d.key.service));
            let providers: BTreeSet<_> =
                of_host.map(|d| self.specs[d.registry].id.provider.clone()).collect();
            if claimants.len() > 1 || providers.len() > 1 {
                for key in claimants {
                    out.services.get_mut(key).unwrap().codes.insert(Code::HOST_CONFLICT.number());
                }
            }
        }
    }

    /// Returns the target of a service if it is an alias.
    fn alias_target(&self, key: &ServiceKey) -> Option<&'a Hostname> {
        match &self.ordered(key)[0].value.resolution {
            Resolution::Alias(host) => Some(host),
            _ => None,
        }
    }

    fn aliases(&self, out: &mut Answers) {
        let keys: Vec<ServiceKey> = out.services.keys().cloned().collect();
        for key in keys {
            let Some(mut host) = self.alias_target(&key) else { continue };
            // more steps than services: a loop
            let mut steps = 0;
            let end = loop {
                let Some(claimants) = out.hosts.get(host) else { break Err(Code::ALIAS_DANGLING) };
                match self.alias_target(&claimants[0]) {
                    _ if *host == key.host => break Err(Code::ALIAS_LOOP),
                    None => break Ok(host.clone()),
                    Some(_) if steps > out.services.len() => break Err(Code::ALIAS_LOOP),
                    Some(next) => host = next,
                }
                steps += 1;
            };
            match end {
                Err(code) => {
                    out.services.get_mut(&key).unwrap().codes.insert(code.number());
                }
                Ok(host) => {
                    for claimant in out.hosts[&host].clone() {
                        if self.alias_target(&claimant).is_none() {
                            out.services.get_mut(&claimant).unwrap().aliases.insert(key.host.to_string());
                        }
                    }
                }
            }
        }
    }

    fn scopes(&self, out: &mut Answers) {
        for declared in &self.declarations {
            let mut namespaces = vec![declared.key.service.namespace.to_string()];
            if let Visibility::Namespaces(list) = self.visibility(declared) {
                namespaces.extend(list.iter().map(ToString::to_string));
            }
            for namespace in namespaces {
                out.scoped.entry(namespace).or_default().insert(declared.key.service.host.to_string());
            }
        }
    }
}

fn reaches_any(declaration: &Declaration, key: &WorkloadKey, workload: &Workload) -> bool {
    declaration.ports.iter().any(|p| reach(p, key.kind, workload).is_some())
}

/// Returns the number of a port on a workload; 0 for a unix path.
fn reach(port: &tributary_model::ServicePort, kind: WorkloadKind, workload: &Workload) -> Option<u16> {
    if let WorkloadAddress::Unix(_) = workload.addresses[0] {
        return Some(0);
    }
    let named = |name: &tributary_model::PortName| {
        workload.ports.iter().find(|(n, _)| n == name).map(|(_, number)| number.get())
    };
    match &port.target {
        Target::Name(name) => named(name),
        Target::NamedOr(n) => {
            let number = n.map_or(port.number.get(), |n| n.get());
            named(&port.name).or(Some(number))
        }
        Target::Number(n) if kind == WorkloadKind::Entry => named(&port.name).or_else(|| Some(n.get())),
        Target::Number(n) => Some(n.get()),
        Target::Same if kind == WorkloadKind::Entry => named(&port.name).or_else(|| Some(port.number.get())),
        Target::Same => Some(port.number.get()),
    }
}
