//! Random facts and records for the tests of this crate.

mod authorization_policies;
mod envoy_filters;
mod gateways;
mod policies;
mod request_authentications;
mod traffic_policies;
mod virtual_services;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use tributary_model::settings::MeshText;
use tributary_model::*;

use crate::codec::Now;
use crate::codec::entry::{EntryKey, EntryValue, Header};

/// A moment far from every bound.
pub(crate) fn now() -> Now {
    Now { mono: Mono(1 << 40), wall: Timestamp::from_second(1_700_000_000).unwrap() }
}

fn name() -> BoxedStrategy<String> {
    prop_oneof![
        Just("shop".to_owned()),
        Just("http".to_owned()),
        "[a-z][a-z0-9]{0,12}",
        "web-7d9f8c6b5-[a-c]{1,5}"
    ]
    .boxed()
}
fn namespace() -> BoxedStrategy<Namespace> {
    name().prop_map(|n| Namespace::new(n).unwrap()).boxed()
}
fn cluster() -> BoxedStrategy<ClusterId> {
    name().prop_map(|n| ClusterId::new(n).unwrap()).boxed()
}
fn network() -> BoxedStrategy<NetworkId> {
    name().prop_map(|n| NetworkId::new(n).unwrap()).boxed()
}
fn host() -> BoxedStrategy<Hostname> {
    (name(), name()).prop_map(|(a, b)| Hostname::new(format!("{a}.{b}.svc.cluster.local")).unwrap()).boxed()
}
fn text() -> BoxedStrategy<Arc<str>> {
    prop_oneof![Just(String::new()), "\\PC{0,12}", "é{0,3}[a-z]{0,3}"].prop_map(|t| t.as_str().into()).boxed()
}
fn object() -> BoxedStrategy<ObjectId> {
    let kind = select(vec!["Service", "EndpointSlice", "Pod", "WorkloadEntry", "Rare"]);
    (kind, prop_oneof![Just(String::new()), name()], name())
        .prop_map(|(k, ns, n)| ObjectId::new(k, ns, n))
        .boxed()
}
fn position() -> BoxedStrategy<Position> {
    text().prop_map(Position::new).boxed()
}
fn source() -> BoxedStrategy<Source> {
    let all = (object(), position(), text().prop_map(ObjectVersion));
    all.prop_map(|(object, position, version)| Source { object, position, version }).boxed()
}
fn labels() -> BoxedStrategy<Labels> {
    let pairs = || btree_map(prop_oneof![Just("app".to_owned()), name()], text(), 0..4);
    let set = |pairs: std::collections::BTreeMap<String, Arc<str>>| -> Labels {
        pairs.iter().map(|(k, v)| (k.as_str(), &**v)).collect()
    };
    prop_oneof![pairs().prop_map(set), (pairs(), pairs()).prop_map(move |(a, b)| set(a).over(&set(b)))]
        .boxed()
}
fn identity() -> BoxedStrategy<Identity> {
    (namespace(), name())
        .prop_map(|(ns, account)| Identity::spiffe("cluster.local", &ns, &account).unwrap())
        .boxed()
}
fn place() -> BoxedStrategy<Arc<Topology>> {
    (of(cluster()), of(network()), of(name()), "[a-z]{0,3}", "[a-z]{0,3}")
        .prop_map(|(c, n, node, region, zone)| {
            Arc::new(Topology {
                cluster: c,
                network: n,
                locality: Locality::new(&region, &zone, ""),
                node: node.map(|n| NodeName::new(n).unwrap()),
            })
        })
        .boxed()
}
fn port() -> BoxedStrategy<PortNumber> {
    (1u32..65536).prop_map(|n| PortNumber::new(n).unwrap()).boxed()
}
fn port_name() -> BoxedStrategy<PortName> {
    "[a-z]{0,6}".prop_map(|n| PortName::new(n).unwrap()).boxed()
}
fn health() -> BoxedStrategy<Health> {
    select(vec![Health::Healthy, Health::Draining, Health::Unhealthy, Health::Terminating]).boxed()
}
fn visibility() -> BoxedStrategy<Visibility> {
    prop_oneof![
        Just(Visibility::Public),
        Just(Visibility::Own),
        Just(Visibility::Hidden),
        btree_set(namespace(), 0..3).prop_map(|set| Visibility::Namespaces(set.into_iter().collect())),
    ]
    .boxed()
}
fn export() -> BoxedStrategy<ExportTo> {
    of(visibility()).prop_map(|v| v.map_or(ExportTo::Default, ExportTo::Set)).boxed()
}
fn service() -> BoxedStrategy<ServiceKey> {
    (host(), namespace()).prop_map(|(host, namespace)| ServiceKey { host, namespace }).boxed()
}
fn mono() -> BoxedStrategy<Mono> {
    (0u64..100_000_000_000).prop_map(|age| Mono(now().mono.0 - age)).boxed()
}
fn duration() -> BoxedStrategy<Duration> {
    (0u64..1 << 40).prop_map(Duration::from_micros).boxed()
}
fn code() -> BoxedStrategy<Code> {
    select(vec![Code::PORT_CONFLICT, Code::SOURCE_FORBIDDEN]).boxed()
}

fn address() -> BoxedStrategy<Address> {
    let at = prop_oneof![
        any::<IpAddr>().prop_map(AddressRef::Ip),
        (0u16..2).prop_map(AddressRef::Name),
        Just(AddressRef::Unix(0))
    ];
    let origin = of((object(), text()).prop_map(|(object, workload)| Arc::new(Origin { object, workload })));
    let rest = (place(), labels(), of(identity()), origin);
    (at, 0u16..2, health(), any::<bool>(), 0u32..3, rest)
        .prop_map(|(at, port_set, health, mtls, weight, (place, labels, identity, origin))| Address {
            at,
            port_set,
            health,
            mtls,
            weight,
            topology: place,
            labels,
            identity,
            origin,
        })
        .boxed()
}
fn group() -> BoxedStrategy<Fact> {
    let ports = || vec((port_name(), of(port())).prop_map(|(name, number)| GroupPort { name, number }), 0..3);
    let key = (service(), object(), object(), 0u16..3).prop_map(|(service, declaration, object, bucket)| {
        EndpointGroupKey { service, declaration, object, bucket }
    });
    (key, of(source()), vec(ports(), 2), vec(text(), 2), vec(address(), 0..6), 0u32..30)
        .prop_map(|(key, source, sets, names, addresses, unit)| {
            let source = source.unwrap_or_else(|| Source::new(key.object.clone()));
            let sets = sets.into_iter().map(Into::into).collect();
            Fact::Group(
                key,
                Arc::new(EndpointGroup::new(source, sets, names, addresses).in_unit(WeightUnit::new(unit))),
            )
        })
        .boxed()
}
fn target() -> BoxedStrategy<Target> {
    prop_oneof![
        Just(Target::Same),
        port().prop_map(Target::Number),
        port_name().prop_map(Target::Name),
        of(port()).prop_map(Target::NamedOr)
    ]
    .boxed()
}
fn attributes() -> BoxedStrategy<Attributes> {
    let remark = (code(), text()).prop_map(|(code, message)| DeclarationWarning { code, message });
    let traffic =
        select(vec![TrafficDistribution::Any, TrafficDistribution::SameZone, TrafficDistribution::SameNode]);
    let part = select(vec![DeclarationRole::Whole, DeclarationRole::Offer, DeclarationRole::Import]);
    (labels(), any::<[bool; 8]>(), traffic, vec(identity(), 0..2), vec(remark, 0..2), part)
        .prop_map(|(labels, f, traffic, identities, warnings, part)| Attributes {
            labels,
            mesh_external: f[0],
            node_local: f[1],
            cluster_local: f[2],
            own_cluster_only: f[3],
            traffic,
            publish_not_ready: f[4],
            persistent_sessions: f[5],
            identities: identities.into(),
            race_connect: f[6],
            headless: f[7],
            warnings: warnings.into(),
            role: part,
        })
        .boxed()
}
fn declaration() -> BoxedStrategy<Fact> {
    let protocol = select(vec![Protocol::Http, Protocol::Unspecified, Protocol::Mysql]);
    let ports = (port(), port_name(), protocol, target())
        .prop_map(|(number, name, protocol, target)| ServicePort { number, name, protocol, target });
    let address = (of(cluster()), any::<IpAddr>(), 0u8..33, any::<bool>())
        .prop_map(|(cluster, ip, prefix, allocated)| ServiceAddress { cluster, ip, prefix, allocated });
    let resolution = prop_oneof![
        Just(Resolution::ClientSide),
        Just(Resolution::DnsStrict),
        Just(Resolution::DnsLogical),
        Just(Resolution::Passthrough),
        Just(Resolution::Dynamic),
        host().prop_map(Resolution::Alias)
    ];
    let selector = (
        labels(),
        vec(select(vec![WorkloadKind::Pod, WorkloadKind::Entry]), 0..2),
        of(cluster()),
        any::<[bool; 2]>(),
    )
        .prop_map(|(labels, kinds, cluster, f)| Selector {
            labels,
            kinds: kinds.into(),
            cluster,
            names: f[0],
            augmented: f[1],
        });
    let created =
        of((0i64..2_000_000_000, 0i32..1_000_000_000).prop_map(|(s, n)| Timestamp::new(s, n).unwrap()));
    let side = select(vec![MergeSide::Base, MergeSide::Joining]);
    let merge_name = of((text(), side, service()).prop_map(|(name, side, service)| MergeName {
        name,
        side,
        host: service.host,
    }));
    let rest = (resolution, of(selector), export(), attributes(), merge_name);
    (service(), source(), created, vec(ports, 0..3), vec(address, 0..2), rest)
        .prop_map(
            |(
                service,
                source,
                created,
                ports,
                addresses,
                (resolution, selector, export, attributes, merge_name),
            )| {
                let key = DeclKey { service, object: source.object.clone() };
                let value = Declaration {
                    source,
                    created,
                    ports: ports.into(),
                    addresses: addresses.into(),
                    resolution,
                    selector,
                    export,
                    attributes,
                    merge_name,
                };
                Fact::Service(key, Arc::new(value))
            },
        )
        .boxed()
}
fn workload() -> BoxedStrategy<Fact> {
    let kind = select(vec![WorkloadKind::Pod, WorkloadKind::Entry, WorkloadKind::Instance]);
    let key = (namespace(), kind, name(), cluster()).prop_map(|(namespace, kind, name, cluster)| {
        WorkloadKey::from(WorkloadName { namespace, kind, name: name.as_str().into(), cluster })
    });
    let address = prop_oneof![
        any::<IpAddr>().prop_map(WorkloadAddress::Ip),
        text().prop_map(WorkloadAddress::Name),
        text().prop_map(WorkloadAddress::Unix)
    ];
    let parts = (vec(address, 0..3), btree_map(port_name(), port(), 0..3), labels(), labels(), place());
    let rest = (of(identity()), text(), health(), any::<bool>(), 0u32..3, text(), vec(service(), 0..3));
    (key, source(), any::<bool>(), parts, rest)
        .prop_map(
            |(
                key,
                source,
                over,
                (addresses, ports, labels, more, place),
                (identity, account, health, mtls, weight, name, listed),
            )| {
                // As adapters build it, or with nothing in common.
                let augmented = if over { more.over(&labels).with([("app", "x")]) } else { more };
                let value = Workload {
                    source,
                    addresses: addresses.into(),
                    ports: ports.into_iter().collect(),
                    labels,
                    augmented,
                    topology: place,
                    identity,
                    account,
                    health,
                    mtls,
                    weight,
                    name,
                    listed: listed.into(),
                };
                Fact::Workload(key, Arc::new(value))
            },
        )
        .boxed()
}
fn settings() -> BoxedStrategy<Fact> {
    let pattern = (host(), any::<bool>()).prop_map(|(host, local)| (HostPattern::from(host), local));
    let caps = (visibility(), btree_map(namespace(), visibility(), 0..3)).prop_map(|(default, map)| {
        Arc::new(EntryVisibility { default, namespaces: map.into_iter().collect() })
    });
    let cidr = (any::<IpAddr>(), 0u8..33).prop_map(|(ip, prefix)| ipnet::IpNet::new(ip, prefix).unwrap());
    let networks = vec((network(), vec(cidr, 0..3).prop_map(|list| list.into())), 0..3);
    let merge = select(vec![MergeByName::Off, MergeByName::Report, MergeByName::On]);
    let mesh_text = (text(), text())
        .prop_map(|(mesh, networks)| MeshText { mesh: (&*mesh).into(), networks: (&*networks).into() });
    let aliases = of(vec(text(), 0..3));
    let paths = select(vec![PathNormalization::None, PathNormalization::DecodeAndMergeSlashes]);
    let domains = (
        of(text()),
        of(namespace()),
        (
            (of(retries()), of(any::<bool>()), of(vec(text(), 0..3)), of(paths)),
            of(access_log()),
            of(tracing()),
            of(traffic_policies::locality()),
        ),
    );
    let parts = (domains, aliases, of(text()), of(duration()), of(any::<bool>()), of(any::<bool>()));
    (of(visibility()), parts, of(vec(pattern, 0..3)), of(caps), of(networks), (of(merge), of(mesh_text)))
        .prop_map(
            |(
                default_export,
                (
                    (
                        trust_domain,
                        root_namespace,
                        ((retries, auto_mtls, sds_clusters, path_normalization), log, tracing, locality),
                    ),
                    aliases,
                    domain,
                    connect_timeout,
                    block,
                    direct,
                ),
                local,
                caps,
                networks,
                (merge, mesh_text),
            )| {
                Fact::Settings(Arc::new(Settings {
                    default_export,
                    trust_domain,
                    trust_domain_aliases: aliases.map(Into::into),
                    root_namespace,
                    domain,
                    connect_timeout,
                    block_unknown: block,
                    cluster_local: local.map(Into::into),
                    entry_visibility: caps,
                    cross_network_direct: direct,
                    networks: networks.map(Into::into),
                    http_retries: retries.map(Arc::new),
                    access_log: log.map(Arc::new),
                    tracing: tracing.map(Arc::new),
                    auto_mtls,
                    path_normalization,
                    sds_clusters: sds_clusters.map(Into::into),
                    locality: locality.map(Arc::new),
                    merge_by_name: merge,
                    mesh_text: mesh_text.map(Arc::new),
                }))
            },
        )
        .boxed()
}
fn retries() -> BoxedStrategy<HttpRetries> {
    let codes = vec(100u16..600, 0..3);
    (0u32..9, text(), codes, of(duration()), of(duration()), any::<bool>(), any::<bool>())
        .prop_map(
            |(attempts, conditions, codes, per_try_timeout, backoff, remote_localities, other_hosts)| {
                let codes = codes.into();
                let conditions = Arc::from(&*conditions);
                HttpRetries {
                    attempts,
                    conditions,
                    codes,
                    per_try_timeout,
                    backoff,
                    remote_localities,
                    other_hosts,
                }
            },
        )
        .boxed()
}
fn access_log() -> BoxedStrategy<AccessLog> {
    (text(), select(vec![LogEncoding::Text, LogEncoding::Json]), of(text()))
        .prop_map(|(file, encoding, format)| AccessLog { file, encoding, format })
        .boxed()
}
fn tracing() -> BoxedStrategy<RequestTracing> {
    let value = prop_oneof![
        text().prop_map(SpanTagValue::Literal),
        (text(), of(text())).prop_map(|(name, default)| SpanTagValue::Environment(name, default)),
        (text(), of(text())).prop_map(|(name, default)| SpanTagValue::Header(name, default)),
    ];
    let tag = (text(), value).prop_map(|(name, value)| SpanTag { name, value });
    (any::<bool>(), 0u32..1_000_001, any::<bool>(), vec(tag, 0..3), of(any::<u32>()))
        .prop_map(|(enabled, sampling, proxy_tags, tags, max_path)| {
            let (sampling, tags) = (SampledShare::of_millionths(sampling), tags.into());
            RequestTracing { enabled, sampling, proxy_tags, tags, max_path }
        })
        .boxed()
}
fn federated() -> BoxedStrategy<Fact> {
    let member =
        (host(), of(name()), of(namespace()), vec((port(), port()), 0..2), of(0u32..9), any::<bool>())
            .prop_map(|(host, registry, namespace, ports, weight, standby)| FederatedMember {
                host,
                registry: registry.map(|n| RegistryName::new(n).unwrap()),
                namespace,
                ports: ports.into(),
                weight,
                standby,
            });
    (host(), namespace(), export(), vec(member, 0..3), of(0u32..9), of(duration()), any::<bool>())
        .prop_map(|(host, namespace, export, members, healthy, silence, by_name)| {
            let federated = FederatedService {
                namespace,
                export,
                members: members.into(),
                min_healthy_active: healthy,
                standby_after_stale: silence,
                by_name,
            };
            Fact::FederatedService(host, Arc::new(federated))
        })
        .boxed()
}

/// Any fact that the journal keeps.
pub(crate) fn fact() -> BoxedStrategy<Fact> {
    prop_oneof![
        declaration(),
        group(),
        workload(),
        gateways::gateway(),
        gateways::gateway_name(),
        settings(),
        federated(),
        policies::policy()
    ]
    .boxed()
}

fn evidence() -> BoxedStrategy<Evidence> {
    let reference = || (object(), position()).prop_map(|(id, position)| ObjectRef { id, position });
    prop_oneof![
        reference().prop_map(Evidence::Deleted),
        Just(Evidence::AbsentFromList),
        Just(Evidence::Confirmed),
        Just(Evidence::Operator),
        Just(Evidence::Withdrawn),
        any::<u64>().prop_map(|n| Evidence::Superseded(Generation(n))),
        reference().prop_map(Evidence::Changed),
        text().prop_map(Evidence::Ended),
    ]
    .boxed()
}

/// Any record of the journal, with its key.
pub(crate) fn entry() -> BoxedStrategy<(EntryKey, EntryValue)> {
    let kind = select(CollectionKind::ALL.to_vec());
    let result =
        select(vec![ListResult::Withheld, ListResult::Partial, ListResult::Filtered, ListResult::Complete]);
    let list = (kind, any::<bool>(), of(result), any::<u64>(), of(mono())).prop_map(
        |(kind, required, result, count, confirmed)| {
            (EntryKey::List(kind), EntryValue::List(ListRecord { required, result, count, confirmed }))
        },
    );
    let problem =
        (object(), position(), code(), text(), mono()).prop_map(|(id, position, code, message, since)| {
            let object = ObjectRef { id: id.clone(), position };
            let record = ProblemRecord { object, problem: Problem { code, message }, since };
            (EntryKey::Problem(id), EntryValue::Problem(record))
        });
    let hold = (fact(), mono(), text()).prop_map(|(fact, since, reason)| {
        (EntryKey::Hold(fact.item()), EntryValue::Hold(HoldRecord { since, reason }))
    });
    let header = (any::<bool>(), of(name())).prop_map(|(whole, id)| {
        let identity = id.map(|id| Fingerprint::new(id).unwrap());
        (EntryKey::Header, EntryValue::Header(Header { whole, identity }))
    });
    prop_oneof![
        6 => fact().prop_map(|fact| (EntryKey::Fact(fact.item()), EntryValue::Fact(fact))),
        1 => list,
        1 => problem,
        1 => hold,
        1 => header,
        1 => (evidence(), mono()).prop_map(|(why, at)| (EntryKey::Ended, EntryValue::Ended(why, at))),
    ]
    .boxed()
}
