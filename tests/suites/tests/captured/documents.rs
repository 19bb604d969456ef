//! The services of the captured suite and the backends behind them. Each has an address of both IP families:
//! `10.98.0.N` and `fd98::N`; the virtual address with number N is `10.97.0.N` and `fd97::N`.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP family of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the address of a machine in the world.
    pub(crate) fn host(self, number: u8) -> IpAddr {
        self.of(98, number)
    }

    /// Returns a virtual address, which no machine has.
    pub(crate) fn virtual_ip(self, number: u8) -> IpAddr {
        self.of(97, number)
    }

    fn of(self, net: u8, number: u8) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::new(10, net, 0, number).into(),
            // Written in decimal, as the IPv4 address is: fd98::11.
            Self::V6 => {
                let hexadecimal = |decimal: u8| u16::from(decimal / 10) * 16 + u16::from(decimal % 10);
                Ipv6Addr::new(0xfd00 + hexadecimal(net), 0, 0, 0, 0, 0, 0, hexadecimal(number)).into()
            }
        }
    }
}

/// A service of the world with one machine.
pub(crate) struct Service {
    pub(crate) host: &'static str,
    /// Number of its virtual address; none without.
    pub(crate) vip: Option<u8>,
    pub(crate) port: u16,
    /// Empty if the port declares none.
    pub(crate) protocol: &'static str,
    /// Number of its machine.
    pub(crate) machine: u8,
    /// Port of its machine.
    pub(crate) target: u16,
}

const fn service(
    host: &'static str,
    vip: Option<u8>,
    (port, protocol): (u16, &'static str),
    (machine, target): (u8, u16),
) -> Service {
    Service { host, vip, port, protocol, machine, target }
}

/// The services of the world.
pub(crate) const SERVICES: &[Service] = &[
    service("web.test", Some(1), (80, "HTTP"), (11, 8080)),
    service("shop.test", Some(2), (80, "HTTP"), (12, 8080)),
    service("db.test", Some(3), (5432, "TCP"), (13, 5432)),
    service("rpc.test", Some(4), (7000, "GRPC"), (14, 7001)),
    service("any.test", Some(5), (7100, ""), (15, 7101)),
    service("other.test", Some(6), (7100, ""), (16, 7101)),
    service("bare.test", None, (7200, ""), (17, 7200)),
    service("a.test", None, (6000, "TCP"), (21, 6000)),
    service("b.test", None, (6000, "TCP"), (22, 6000)),
    service("secure.test", None, (443, "TLS"), (23, 8443)),
    service("safe.test", None, (443, "TLS"), (24, 8443)),
    service("set.test", None, (8080, "HTTP"), (25, 8080)),
    service(PROXY, Some(8), (3128, ""), (26, 3128)),
    // The proxy has listeners of its own on these ports.
    service("out.own.test", None, (15_001, "HTTP"), (27, 8080)),
    service("in.own.test", None, (15_006, "HTTP"), (28, 8080)),
];

/// Service that receives what is for strangers, where there is an egress proxy.
pub(crate) const PROXY: &str = "out.test";

/// Returns a Sidecar that has the proxy for its strangers.
pub(crate) fn egress_proxy() -> String {
    let mut text = String::new();
    head(&mut text, "Sidecar", "default");
    let policy = format!("{{mode: ALLOW_ANY, egressProxy: {{host: {PROXY}, port: {{number: 3128}}}}}}");
    let _ = writeln!(text, "spec:\n  outboundTrafficPolicy: {policy}");
    text
}

/// Machine that belongs to no service.
pub(crate) const STRANGER: u8 = 50;
/// Ports on which the stranger listens: those of services, and one that no service has.
pub(crate) const STRANGER_PORTS: [u16; 9] = [80, 443, 5432, 6000, 7000, 7100, 7200, 8080, 9999];

/// A port of the pod's own service: number, protocol, port of the application, and its name.
pub(crate) const OWN: [(u16, &str, u16, &str); 3] =
    [(9000, "HTTP", 9100, "own-http"), (9001, "TCP", 9101, "own-tcp"), (9002, "GRPC", 9102, "own-grpc")];
/// Port of the application that no service has.
pub(crate) const OWN_SECRET: (u16, &str) = (9200, "own-secret");
/// Number of the virtual address of the pod's own service.
pub(crate) const OWN_VIP: u8 = 9;

/// Returns the documents of the file registry.
pub(crate) fn documents() -> String {
    let mut text = String::new();
    for service in SERVICES {
        entry(&mut text, service);
    }
    range(&mut text);
    own(&mut text);
    text
}

fn entry(text: &mut String, service: &Service) {
    let Service { host, vip, port, protocol, machine, target } = service;
    head(text, "ServiceEntry", &host.replace('.', "-"));
    let _ = writeln!(text, "spec:\n  hosts: [{host}]\n  location: MESH_INTERNAL\n  resolution: STATIC");
    vip.iter().for_each(|vip| addresses(text, *vip));
    let _ = writeln!(
        text,
        "  ports:\n  - {{number: {port}, name: main, protocol: \"{protocol}\"}}\n  endpoints:"
    );
    for family in Family::BOTH {
        let _ = writeln!(text, "  - {{address: \"{}\", ports: {{main: {target}}}}}", family.host(*machine));
    }
}

/// Number in the range of addresses of `range.test`.
pub(crate) const IN_RANGE: u8 = 200;

/// A service with a range of virtual addresses, `10.97.0.192/26` and `fd97::100/120`, and no protocol.
fn range(text: &mut String) {
    head(text, "ServiceEntry", "range");
    text.push_str(
        "spec:\n  hosts: [range.test]\n  location: MESH_INTERNAL\n  resolution: STATIC\n  \
         addresses: [\"10.97.0.192/26\", \"fd97::100/120\"]\n  ports:\n  - {number: 7300, name: main}\n  endpoints:\n",
    );
    for family in Family::BOTH {
        let _ = writeln!(text, "  - {{address: \"{}\", ports: {{main: 7101}}}}", family.host(15));
    }
}

/// The pod is two WorkloadEntries, one per family, which the service selects.
fn own(text: &mut String) {
    head(text, "ServiceEntry", "own");
    text.push_str("spec:\n  hosts: [own.test]\n  location: MESH_INTERNAL\n  resolution: STATIC\n");
    addresses(text, OWN_VIP);
    text.push_str("  workloadSelector: {labels: {app: own}}\n  ports:\n");
    for (number, protocol, target, name) in OWN {
        let _ = writeln!(
            text,
            "  - {{number: {number}, name: {name}, protocol: {protocol}, targetPort: {target}}}"
        );
    }
    for family in Family::BOTH {
        head(text, "WorkloadEntry", &format!("own-{family:?}").to_lowercase());
        let _ = writeln!(text, "spec:\n  address: \"{}\"\n  labels: {{app: own}}", family.host(2));
    }
}

fn addresses(text: &mut String, vip: u8) {
    let [four, six] = Family::BOTH.map(|family| family.virtual_ip(vip));
    let _ = writeln!(text, "  addresses: [\"{four}\", \"{six}\"]");
}

fn head(text: &mut String, kind: &str, name: &str) {
    let _ = writeln!(
        text,
        "---\napiVersion: networking.istio.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: default"
    );
}
