//! Measures the journal: what an address and a workload cost on disk, and how long a restore takes.
//!
//! Run it by hand: `cargo run --release -p tributary-journal --example restore -- 200000`. The argument is the number
//! of addresses; each has two ports and a pod.

use std::sync::Arc;
use std::time::Instant;

use tributary_journal::{Journal, JournalOptions, Now, StateDirectory};
use tributary_model::*;

/// Same allocator as the server: one thread allocates pieces and another frees them.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Addresses of one slice, as in Kubernetes.
const SLICE: usize = 100;

fn main() -> Fallible<()> {
    let count: usize = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let base = std::env::temp_dir().join(format!("tributary-journal-{}", std::process::id()));
    let clock = || Now { mono: Mono(1 << 40), wall: Timestamp::now() };
    let mut before = 0;
    for (what, workloads) in [("addresses", false), ("addresses and pods", true)] {
        let options = JournalOptions { most_keys: usize::MAX, ..JournalOptions::default() };
        let (journal, _) = Journal::open(StateDirectory::open(&base)?, options, Arc::new(clock))?;
        let records =
            (0..count / SLICE).map(|slice| slice_of(slice, workloads)).collect::<Fallible<Vec<_>>>()?;
        let (started, count_of) = (Instant::now(), count as u64);
        journal.record(records.into_iter().flatten().chain(lists(count, workloads)?).collect());
        let recorded = started.elapsed();
        journal.flush();
        let (took, stats) = (started.elapsed(), journal.stats());
        println!(
            "{what}: recorded in {recorded:?}, written in {took:?}; {} bytes each live, {} on disk",
            (stats.live_bytes - before) / count_of,
            stats.bytes / count_of
        );
        before = stats.live_bytes;
        let started = Instant::now();
        for turn in 0..20 {
            let changed = (0..5).map(|n| slice_of((turn * 5 + n) % (count / SLICE), workloads));
            journal.record(changed.collect::<Fallible<Vec<_>>>()?.into_iter().flatten().collect());
            journal.flush();
        }
        println!("{what}: a commit of 5 slices takes {:?}", started.elapsed() / 20);
        journal.close();
    }
    let started = Instant::now();
    let (journal, restoring) =
        Journal::open(StateDirectory::open(&base)?, JournalOptions::default(), Arc::new(clock))?;
    let opened = started.elapsed();
    let (mut facts, mut first, mut kept) = (0, None, Vec::new());
    for piece in restoring {
        first.get_or_insert_with(|| started.elapsed());
        assert!(piece.refused.is_empty() && piece.absent.is_none(), "{:?} {:?}", piece.refused, piece.absent);
        facts += piece.records.len();
        kept.push(piece);
    }
    println!(
        "{} endpoint-ports, {facts} records: opened in {opened:?}, first piece after {first:?}, all after {:?}",
        2 * count,
        started.elapsed()
    );
    journal.close();
    tributary_journal::inspect::clear(&base)?;
    Ok(std::fs::remove_dir_all(&base)?)
}

fn lists(count: usize, workloads: bool) -> Fallible<Vec<Record>> {
    let kinds = [
        (CollectionKind::Groups, count / SLICE),
        (CollectionKind::Workloads, if workloads { count } else { 0 }),
    ];
    let of = |(kind, count): (CollectionKind, usize)| -> Fallible<Record> {
        let result = Some(ListResult::Complete);
        let list = ListRecord { required: true, result, count: count as u64, confirmed: None };
        Ok(Record::List(RegistryName::new("east")?, Collection { scope: Scope::new("east")?, kind }, list))
    };
    kinds.into_iter().map(of).collect()
}

/// Builds one slice of a service, with its pods.
fn slice_of(slice: usize, workloads: bool) -> Fallible<Vec<Record>> {
    let namespace = Namespace::new(format!("shop-{}", slice % 50))?;
    let (name, cluster) = (format!("checkout-{slice}"), ClusterId::new("east")?);
    let host = Hostname::new(format!("{name}.{namespace}.svc.cluster.local"))?;
    let service = ServiceKey { host, namespace: namespace.clone() };
    let declaration = ObjectId::new("Service", namespace.as_str(), &name);
    let object = ObjectId::new("EndpointSlice", namespace.as_str(), format!("{name}-x7k2p"));
    let own: Labels =
        [("app", &*name), ("pod-template-hash", "7d9f8c6b5"), ("version", "v1")].into_iter().collect();
    let identity = Identity::spiffe("cluster.local", &namespace, "checkout")?;
    let (mut addresses, mut records) = (Vec::new(), Vec::new());
    for n in 0..SLICE {
        let node = format!("node-{}.east.example.com", (slice * 7 + n) % 200);
        let locality = Locality::new("eu-west-1", ["eu-west-1a", "eu-west-1b", "eu-west-1c"][n % 3], "");
        let topology = [
            (labels::REGION, "eu-west-1"),
            (labels::ZONE, &*locality.zone),
            (labels::NODE, &*node),
            (labels::CLUSTER, "east"),
            (labels::NETWORK, "net-1"),
        ];
        let augmented = topology.into_iter().collect::<Labels>().over(&own);
        let place = Arc::new(Topology {
            cluster: Some(cluster.clone()),
            network: Some(NetworkId::new("net-1")?),
            locality: locality.clone(),
            node: Some(NodeName::new(&node)?),
        });
        let number = slice * SLICE + n;
        let ip = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8].into();
        let pod: Arc<str> =
            format!("{name}-7d9f8c6b5-{:05x}", number * 2_654_435_761 % 0x10_0000).as_str().into();
        let object = ObjectId { kind: "Pod", namespace: namespace.as_str().into(), name: pod.clone() };
        addresses.push(Address {
            mtls: true,
            labels: augmented.clone(),
            identity: Some(identity.clone()),
            origin: Some(Arc::new(Origin { object: object.clone(), workload: name.as_str().into() })),
            ..Address::new(AddressRef::Ip(ip), place.clone())
        });
        if workloads {
            let key = WorkloadName {
                namespace: namespace.clone(),
                kind: WorkloadKind::Pod,
                name: pod,
                cluster: cluster.clone(),
            };
            let workload = Workload {
                source: Source {
                    version: ObjectVersion(format!("{}", 7_000_000 + number).as_str().into()),
                    ..Source::new(object)
                },
                addresses: [WorkloadAddress::Ip(ip)].into(),
                ports: [(PortName::new("http")?, PortNumber::new(8080)?)].into(),
                labels: own.clone(),
                augmented,
                topology: place,
                identity: Some(identity.clone()),
                account: "checkout".into(),
                health: Health::Healthy,
                mtls: true,
                weight: 1,
                name: name.as_str().into(),
                listed: [service.clone()].into(),
            };
            let fact = Fact::Workload(key.into(), Arc::new(workload));
            records.push(Record::Put(RegistryName::new("east")?, Scope::new("east")?, fact));
        }
    }
    let port = |name, number| -> Fallible<GroupPort> {
        Ok(GroupPort { name: PortName::new(name)?, number: Some(PortNumber::new(number)?) })
    };
    let ports: PortSet = [port("http", 8080)?, port("grpc", 9090)?].into();
    let group = EndpointGroup::new(Source::new(object.clone()), vec![ports], Vec::new(), addresses);
    let fact = Fact::Group(EndpointGroupKey { service, declaration, object, bucket: 0 }, Arc::new(group));
    records.push(Record::Put(RegistryName::new("east")?, Scope::new("east")?, fact));
    Ok(records)
}
