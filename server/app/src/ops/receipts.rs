//! Removed clusters: the plan of a removal, and the receipts of the last ones.
//!
//! The plan is a function of the catalog. The receipts are shared by the task of the remote clusters, which adds them, and the admin
//! surface, which shows them. With a state directory they survive restarts.

mod file;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tributary_model::{Catalog, RegistryName, ServiceView};

use crate::document::ClusterItem;
use crate::document::endpoints;
use crate::document::receipts::{LeavePlan, MOST_HOSTS, PlanItem, ReceiptItem};
use file::ReceiptFile;

/// Most receipts that are kept.
pub const MOST_RECEIPTS: usize = 100;

/// Receipts of the last removals. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Receipts {
    last: Arc<Mutex<VecDeque<ReceiptItem>>>,
    /// File that keeps them, if state is kept; its lock orders the writes.
    file: Option<Arc<Mutex<ReceiptFile>>>,
}

impl Receipts {
    /// Reads those of earlier processes, and keeps new ones in this directory. Waits for the disk.
    #[must_use]
    pub fn kept_in(directory: &Path) -> Self {
        let file = ReceiptFile::of(directory);
        let last = Arc::new(Mutex::new(file.read().into()));
        Self { last, file: Some(Arc::new(Mutex::new(file))) }
    }
    /// Adds one, and drops the oldest beyond [`MOST_RECEIPTS`].
    pub fn add(&self, receipt: ReceiptItem) {
        let mut all = self.last.lock();
        all.push_front(receipt);
        all.truncate(MOST_RECEIPTS);
    }
    /// Whether they survive a restart.
    #[must_use]
    pub const fn are_kept(&self) -> bool {
        self.file.is_some()
    }
    /// Writes all to the file, if there is one. Waits for the disk.
    pub fn write(&self) {
        if let Some(file) = &self.file {
            file.lock().write(&self.all());
        }
    }
    /// Returns all, the newest first.
    #[must_use]
    pub fn all(&self) -> Vec<ReceiptItem> {
        self.last.lock().iter().cloned().collect()
    }
}

/// Returns what the removal of these registries takes away.
#[must_use]
pub fn plan(catalog: &Catalog, registries: &[RegistryName]) -> LeavePlan {
    let mut plan = LeavePlan::default();
    for (host, entry) in &catalog.hosts {
        let (mut own, mut others) = (0, 0);
        for view in entry.claimants.iter() {
            let (of_registries, of_others) = count(view, registries);
            let declares = view.declarations.iter().any(|one| registries.contains(&one.shard.registry.name));
            plan.services += u64::from(declares || of_registries > 0);
            own += of_registries;
            others += of_others;
        }
        plan.endpoints += own;
        if own > 0 && others == 0 {
            plan.emptied += 1;
            plan.hosts.extend((plan.hosts.len() < MOST_HOSTS).then(|| host.to_string()));
        }
    }
    plan
}

/// Returns what the removal of a cluster with these registries would take away.
#[must_use]
pub fn plan_of(catalog: &Catalog, cluster: &ClusterItem) -> PlanItem {
    let names = cluster.registries.iter().filter_map(|one| RegistryName::new(&one.name).ok());
    let names: Vec<RegistryName> = names.collect();
    PlanItem { cluster: cluster.name.clone(), plan: plan(catalog, &names) }
}

/// Returns the numbers of a service's endpoints of these registries and of others. An endpoint of several ports counts once.
fn count(view: &ServiceView, registries: &[RegistryName]) -> (u64, u64) {
    let (mut own, mut others) = (BTreeSet::new(), BTreeSet::new());
    for source in view.ports.iter().flat_map(|port| port.endpoints.inputs.sources.iter()) {
        let is_own = registries.contains(&source.shard.registry.name);
        let all = if is_own { &mut own } else { &mut others };
        let served = source.group.addresses.iter().enumerate();
        let served = served.filter(|(_, address)| endpoints::name(source, address).is_some());
        all.extend(served.map(|(at, _)| (Arc::as_ptr(&source.group).addr(), at)));
    }
    (own.len() as u64, others.len() as u64)
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;
    use tributary_core::{Core, RunOrder};
    use tributary_model::*;

    use super::*;

    /// Adds a registry with services of one port, given as host and number of endpoints. Its cluster has its name, without `-entries`.
    pub(in crate::ops) fn list(core: &mut Core, name: &str, services: &[(&str, u8)]) {
        let of = name.strip_suffix("-entries").unwrap_or(name);
        let (provider, cluster) = (ProviderId::KUBERNETES, ClusterId::new(of).unwrap());
        let id = RegistryId { name: RegistryName::new(name).unwrap(), provider, cluster };
        let spec = RegistrySpec::new(Arc::new(id.clone()), 0);
        core.add_registry(&spec).unwrap();
        core.serve(Mono(1), &RunOrder::first(spec)).unwrap();
        let scope = Scope::new("all").unwrap();
        let put = |fact| RegistryUpdate::Put(scope.clone(), fact, Basis::Authoritative);
        let stamp = |value| {
            let (registry, generation) = (id.name.clone(), Generation(1));
            Stamped { registry, generation, at: Mono(2), value }
        };
        let facts = services.iter().flat_map(|(host, endpoints)| mk_facts(name, host, *endpoints));
        core.apply(Mono(2), facts.map(put).map(stamp).collect());
    }

    fn mk_facts(name: &str, host: &str, endpoints: u8) -> [Fact; 2] {
        let object = ObjectId::new("Service", "shop", host);
        let service =
            ServiceKey { host: Hostname::new(host).unwrap(), namespace: Namespace::new("shop").unwrap() };
        let port = |number, name: &str| ServicePort {
            number: PortNumber::new(number).unwrap(),
            name: PortName::new(name).unwrap(),
            protocol: Protocol::Http,
            target: Target::Same,
        };
        let ports = [port(80, "http"), port(81, "more")];
        let set = ports.iter().map(|port| GroupPort { name: port.name.clone(), number: Some(port.number) });
        let set: Arc<[GroupPort]> = set.collect();
        let declaration =
            Declaration { ports: ports.into(), ..Declaration::new(Source::new(object.clone())) };
        let net = u8::try_from(name.len()).unwrap();
        let address =
            |at| Address::new(AddressRef::Ip(std::net::Ipv4Addr::new(10, net, 0, at).into()), Arc::default());
        let addresses = (1..=endpoints).map(address).collect();
        let group = EndpointGroup::new(Source::new(object.clone()), vec![set], vec![], addresses);
        let key = DeclKey { service: service.clone(), object: object.clone() };
        let of_group = EndpointGroupKey { service, declaration: object.clone(), object, bucket: 0 };
        [Fact::Service(key, Arc::new(declaration)), Fact::Group(of_group, Arc::new(group))]
    }

    #[test]
    fn plan_counts_what_leaves_and_names_hosts_that_become_empty() {
        let mut core = Core::default();
        list(&mut core, "home", &[("pay.test", 1), ("cart.test", 0)]);
        list(&mut core, "away", &[("pay.test", 2), ("cart.test", 3), ("idle.test", 0)]);
        let catalog = core.publish();
        let plan_of = |name: &str| plan(&catalog, &[RegistryName::new(name).unwrap()]);
        let hosts = vec!["cart.test".to_owned()];
        let expected = LeavePlan { services: 3, endpoints: 5, emptied: 1, hosts };
        assert_eq!(plan_of("away"), expected, "each endpoint has two ports and counts once");
        let LeavePlan { services, endpoints, emptied, .. } = plan_of("home");
        assert_eq!((services, endpoints, emptied), (2, 1, 0));
        let both = ["home", "away"].map(|name| RegistryName::new(name).unwrap());
        assert_eq!(plan(&catalog, &both).hosts, ["cart.test", "pay.test"]);
        assert_eq!(plan_of("unknown"), LeavePlan::default());
    }

    pub(super) fn mk_receipt(generation: u64) -> ReceiptItem {
        ReceiptItem {
            cluster: "away".into(),
            registry: "away".into(),
            object: String::new(),
            generation,
            began: Timestamp::UNIX_EPOCH,
            plan: LeavePlan::default(),
            removed: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn receipts_are_those_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let before = Receipts::kept_in(dir.path());
        before.add(mk_receipt(1));
        before.write();
        let after = Receipts::kept_in(dir.path());
        after.add(mk_receipt(2));
        after.write();
        assert_eq!(Receipts::kept_in(dir.path()).all(), [mk_receipt(2), mk_receipt(1)]);
    }

    #[test]
    fn last_receipts_are_kept_the_newest_first() {
        let receipts = Receipts::default();
        for generation in 0..=MOST_RECEIPTS as u64 {
            receipts.clone().add(mk_receipt(generation));
        }
        let all: Vec<u64> = receipts.all().iter().map(|one| one.generation).collect();
        assert_eq!((all.len(), all[0], all[99]), (MOST_RECEIPTS, 100, 1));
    }
}
