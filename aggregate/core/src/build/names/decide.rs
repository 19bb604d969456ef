//! Decides the outcome for one name: a pure function of the declarations under it.
//!
//! Called by the build's name phase. A merge by name never removes a port or a claimant from clients of the base's
//! host, and never changes its visibility. If it would, the services stay separate, and an operator may configure a
//! federated service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{
    Declaration, DeclarationRole, ExportTo, FederatedMember, FederatedService, Hostname, MergeByName,
    NameOutcome, NamedService, PortNumber, Protocol, SameName, SeparateReason, ServiceKey,
};

use crate::merge::precedence::ranked;
use crate::merge::refusal;
use crate::state::names::Sides;
use crate::state::services::Service;
use crate::state::{MergeContext, State};

impl<'a> Sides<'a> {
    fn all(&self) -> impl Iterator<Item = &'a Service> + '_ {
        self.base.iter().chain(&self.joining).copied()
    }
}

/// Reason to keep services separate.
type Reason = (SeparateReason, String);

impl State {
    /// Decides a name. Returns the outcome and the implied join; `None` if the name is not on both sides.
    pub(super) fn decide_name(
        &self,
        name: &Arc<str>,
        is_merged: bool,
    ) -> Option<(SameName, Option<FederatedHost>)> {
        let names = &self.context.names.same;
        let sides = names.sides(name, &self.hosts).filter(|_| names.mode != MergeByName::Off)?;
        let services: Vec<DeclaredService<'_>> =
            sides.all().map(|service| DeclaredService::new(&self.context, service)).collect();
        let mut why =
            ambiguous(&self.context, &sides).or_else(|| self.claimed(&sides)).or_else(|| separate(&services));
        if why.is_none() && names.mode == MergeByName::On && !is_merged && !names.complete {
            why = Some((SeparateReason::Unsynced, "a registry has not synced yet".to_owned()));
        }
        let outcome = match (why, names.mode) {
            (Some((why, message)), _) => NameOutcome::Separate { why, message: message.into() },
            (None, MergeByName::On) => NameOutcome::Merged,
            (None, _) => NameOutcome::Possible,
        };
        let federated = (outcome == NameOutcome::Merged).then(|| federated(&services)).flatten();
        let services = services.iter().map(DeclaredService::shown).collect();
        Some((SameName { name: Arc::clone(name), services, outcome }, federated))
    }

    /// Returns whether a declared federated service or a different namespace claims one of the hosts.
    fn claimed(&self, sides: &Sides<'_>) -> Option<Reason> {
        sides.all().find_map(|service| {
            let host = &service.key.host;
            if let Some(federated) = self.context.names.declared_join(host) {
                return Some((
                    SeparateReason::Federated,
                    format!("the federated service {} names {host}", federated.host),
                ));
            }
            let declares = |other: &&Service| other.shards.iter().any(|shard| !shard.declarations.is_empty());
            let mut others = self.hosts.of(host).iter().filter(|other| other.key != service.key);
            let other = others.find(declares)?;
            let message = format!("{} is declared in {} too", host, other.key.namespace);
            Some((SeparateReason::Contested, message))
        })
    }
}

/// Implied join with its host.
type FederatedHost = (Hostname, FederatedService);

/// Returns the reason of a side with several services.
fn ambiguous(context: &MergeContext, sides: &Sides<'_>) -> Option<Reason> {
    let reason = |side: &str, services: &[&Service]| {
        let keys: Vec<String> = services.iter().map(|service| service.key.to_string()).collect();
        (SeparateReason::Ambiguous, format!("{side} has several: {}", keys.join(", ")))
    };
    if sides.base.len() > 1 {
        return Some(reason("the cluster", &sides.base));
    }
    let provider = sides.joining.first().map(|service| provider(context, service)).unwrap_or_default();
    (sides.joining.len() > 1).then(|| reason(&provider, &sides.joining))
}

/// Returns the provider of a service's first declaration.
fn provider(context: &MergeContext, service: &Service) -> String {
    let ranked = ranked(&context.shards, service);
    ranked.first().map(|shard| shard.info.shard.registry.provider.to_string()).unwrap_or_default()
}

/// One service with its declarations in order of precedence.
struct DeclaredService<'a> {
    key: &'a ServiceKey,
    declarations: Vec<&'a Arc<Declaration>>,
    /// Reason why one of them cannot be joined.
    refusal: Option<&'static str>,
    registries: BTreeSet<&'a tributary_model::RegistryName>,
    /// Ports by number, with the protocol of the first declaration in precedence.
    ports: BTreeMap<PortNumber, Protocol>,
}

impl<'a> DeclaredService<'a> {
    fn new(context: &'a MergeContext, service: &'a Service) -> Self {
        let ranked = ranked(&context.shards, service);
        let declarations: Vec<_> =
            ranked.iter().flat_map(|shard| shard.declarations.iter().map(|decl| &decl.declaration)).collect();
        let mut ports = BTreeMap::new();
        for port in declarations.iter().flat_map(|declaration| declaration.ports.iter()) {
            ports.entry(port.number).or_insert(port.protocol);
        }
        let registries = ranked.iter().map(|shard| &shard.info.shard.registry.name).collect();
        let all = ranked.iter().flat_map(|shard| shard.declarations.iter().map(move |decl| (shard, *decl)));
        let refusal = all.into_iter().find_map(|(shard, decl)| refusal(context, shard, decl));
        Self { key: &service.key, declarations, refusal, registries, ports }
    }
    fn shown(&self) -> NamedService {
        NamedService {
            key: self.key.clone(),
            registries: self.registries.iter().map(|name| (*name).clone()).collect(),
            ports: self.ports.iter().map(|(number, protocol)| (*number, *protocol)).collect(),
        }
    }
    /// Refuses a service with host names: a join excludes them, but clients of the base receive them today.
    fn by_dns(&self) -> Option<Reason> {
        let by_dns = self.declarations.iter().any(|declaration| declaration.resolution.is_dns());
        let message = || format!("{} is resolved through DNS", self.key);
        by_dns.then(|| (SeparateReason::Resolution, message()))
    }
    fn resolution(&self) -> Option<Reason> {
        let refused = |declaration: &&Arc<Declaration>| {
            let one_by_one = declaration.attributes.headless.then_some("is headless");
            let part =
                (declaration.attributes.role != DeclarationRole::Whole).then_some("is declared in parts");
            one_by_one.or(part)
        };
        let why = self.refusal.or_else(|| self.declarations.iter().find_map(refused))?;
        Some((SeparateReason::Resolution, format!("{} {why}", self.key)))
    }
}

/// Returns the reason that forbids joining the first service, the base, with the second.
fn separate(services: &[DeclaredService<'_>]) -> Option<Reason> {
    let [base, joining] = services else { return None };
    let resolution = base.by_dns().or_else(|| base.resolution()).or_else(|| joining.resolution());
    resolution.or_else(|| ports(base, joining)).or_else(|| visibility(base))
}

fn ports(base: &DeclaredService<'_>, joining: &DeclaredService<'_>) -> Option<Reason> {
    let lacking: Vec<String> =
        base.ports.keys().filter(|port| !joining.ports.contains_key(port)).map(ToString::to_string).collect();
    if !lacking.is_empty() {
        let message = format!("{} has no port {}", joining.key, lacking.join(", "));
        return Some((SeparateReason::Ports, message));
    }
    let differs = |(port, own): (&PortNumber, &Protocol)| {
        let theirs = joining.ports.get(port).filter(|theirs| *theirs != own)?;
        Some(format!(
            "port {port} speaks {} by {} and {} by {}",
            own.as_str(),
            base.key,
            theirs.as_str(),
            joining.key
        ))
    };
    base.ports.iter().find_map(differs).map(|message| (SeparateReason::Protocol, message))
}

fn visibility(base: &DeclaredService<'_>) -> Option<Reason> {
    let exports: Vec<&ExportTo> = base.declarations.iter().map(|declaration| &declaration.export).collect();
    let differ = exports.windows(2).any(|pair| pair[0] != pair[1]);
    differ.then(|| {
        (SeparateReason::Visibility, format!("the declarations of {} have different visibilities", base.key))
    })
}

/// Returns the join under the host of the base, with its visibility.
fn federated(services: &[DeclaredService<'_>]) -> Option<FederatedHost> {
    let base = services.first()?;
    let member = |service: &DeclaredService<'_>| FederatedMember {
        namespace: Some(service.key.namespace.clone()),
        ..FederatedMember::new(service.key.host.clone())
    };
    let federated = FederatedService {
        namespace: base.key.namespace.clone(),
        export: base.declarations.first()?.export.clone(),
        members: services.iter().map(member).collect(),
        min_healthy_active: None,
        standby_after_stale: None,
        by_name: true,
    };
    Some((base.key.host.clone(), federated))
}
