//! Ports of one instance: names, numbers, and the Meta of each.
//!
//! The primary port comes first and is named [`PRIMARY`] whatever its own name, so that instances with one port and
//! instances with named ports serve the same port of the service.

use std::collections::BTreeMap;

use tributary_model::{GroupPort, PortName, PortNumber, PortSet, Protocol};

use super::config::MapConfig;
use crate::wire::{NamedPort, Service};

/// Name of every instance's primary port.
pub const PRIMARY: &str = "default";

/// Values that an instance's Meta declares for one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct DeclaredPort {
    /// Number under which it is served.
    pub(super) number: Option<PortNumber>,
    /// Its protocol.
    pub(super) protocol: Option<Protocol>,
}

/// Ports of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Ports {
    /// Ports as a group has them: the primary one first, the others by name.
    pub(super) set: PortSet,
    /// Declared values of each.
    pub(super) declared: Box<[DeclaredPort]>,
    /// Whether a port, number or protocol could not be parsed.
    pub(super) unclear: bool,
}

impl Ports {
    /// Returns the ports of an instance; `tagged` is the port that came with its address. `None` if it has no port.
    pub(super) fn of(service: &Service, tagged: Option<i64>, config: &MapConfig) -> Option<Self> {
        let mut unclear = false;
        let mut named = named(&service.ports, &mut unclear);
        let (own, primary) = match service.ports.iter().find(|p| p.default).or_else(|| service.ports.first())
        {
            Some(first) => (&*first.name, first.port),
            None => ("", service.port),
        };
        named.retain(|name, _| name.as_str() != own);
        let primary = number(tagged.unwrap_or(primary)).or_else(|| number(primary));
        let mut meta = Meta { service, config, unclear };
        let first = primary.and_then(|n| Some((PortName::new(PRIMARY).ok()?, n, meta.primary(own))));
        // a missing primary port is a fault even if other ports are served
        meta.unclear |= first.is_none();
        let others = named.into_iter().map(|(name, n)| (name.clone(), n, meta.named(&name)));
        let all: Vec<(PortName, PortNumber, DeclaredPort)> = first.into_iter().chain(others).collect();
        let set: PortSet =
            all.iter().map(|(name, n, _)| GroupPort { name: name.clone(), number: Some(*n) }).collect();
        let declared = all.iter().map(|(.., declared)| *declared).collect();
        (!set.is_empty()).then_some(Self { set, declared, unclear: meta.unclear })
    }
}

/// Returns the usable named ports by name. Only a default port may be named [`PRIMARY`].
fn named(ports: &[NamedPort], unclear: &mut bool) -> BTreeMap<PortName, PortNumber> {
    let mut out = BTreeMap::new();
    for port in ports {
        match (PortName::new(&port.name), number(port.port)) {
            (Ok(name), Some(number))
                if !name.as_str().is_empty() && (port.default || name.as_str() != PRIMARY) =>
            {
                out.entry(name).or_insert(number);
            }
            _ => *unclear |= !port.default,
        }
    }
    out
}

fn number(port: i64) -> Option<PortNumber> {
    u32::try_from(port).ok().and_then(|port| PortNumber::new(port).ok())
}

/// Meta of an instance.
struct Meta<'a> {
    service: &'a Service,
    config: &'a MapConfig,
    unclear: bool,
}

impl Meta<'_> {
    fn primary(&mut self, own: &str) -> DeclaredPort {
        let number = self.number("service-port");
        let key = self.config.protocol_key.clone();
        let protocol = self.protocol(&format!("{key}-{own}")).or_else(|| self.protocol(&key));
        DeclaredPort { number, protocol: protocol.or_else(|| by_name(own)) }
    }
    fn named(&mut self, name: &PortName) -> DeclaredPort {
        let number = self.number(&format!("service-port-{}", name.as_str()));
        let protocol = self.protocol(&format!("{}-{}", self.config.protocol_key, name.as_str()));
        DeclaredPort { number, protocol: protocol.or_else(|| by_name(name.as_str())) }
    }
    fn number(&mut self, key: &str) -> Option<PortNumber> {
        let text = self.service.meta.get(key)?;
        let found = text.trim().parse().ok().and_then(number);
        self.unclear |= found.is_none();
        found
    }
    fn protocol(&mut self, key: &str) -> Option<Protocol> {
        let text = self.service.meta.get(key)?;
        let found = Protocol::parse(text.trim());
        self.unclear |= found.is_none();
        found
    }
}

/// Returns the protocol that a port's name declares up to its first `-`.
fn by_name(name: &str) -> Option<Protocol> {
    let found = Protocol::from_kubernetes("tcp", None, name, 0);
    (found != Protocol::Unspecified).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_service(port: i64, ports: &[(&str, i64, bool)], meta: &[(&str, &str)]) -> Service {
        let named =
            |&(name, port, default): &(&str, i64, bool)| NamedPort { name: name.into(), port, default };
        Service {
            port,
            ports: ports.iter().map(named).collect(),
            meta: meta.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
            ..Service::default()
        }
    }

    /// Formats ports as `default=80>8080/HTTP admin=9`: name, number, served number, protocol; `?` if something could
    /// not be parsed.
    fn read(service: &Service, tagged: Option<i64>) -> String {
        let Some(ports) = Ports::of(service, tagged, &MapConfig::new().unwrap()) else {
            return "none".into();
        };
        let one = |(port, declared): (&GroupPort, &DeclaredPort)| {
            let served = declared.number.map(|n| format!(">{n}")).unwrap_or_default();
            let protocol = declared.protocol.map(|p| format!("/{}", p.as_str())).unwrap_or_default();
            format!("{}={}{served}{protocol}", port.name.as_str(), port.number.unwrap())
        };
        let text: Vec<String> = ports.set.iter().zip(&ports.declared).map(one).collect();
        format!("{}{}", text.join(" "), if ports.unclear { " ?" } else { "" })
    }

    #[test]
    fn one_port_or_named_ports() {
        let web: &[_] = &[("web", 80, true), ("admin", 9, false)];
        type Case<'a> = (i64, &'a [(&'a str, i64, bool)], Option<i64>, &'a str);
        let cases: [Case<'_>; 12] = [
            (8080, &[], None, "default=8080"),
            (0, &[], None, "none"),
            (70_000, &[], None, "none"),
            (8080, &[], Some(81), "default=81"),
            (8080, &[], Some(70_000), "default=8080"),
            (0, web, None, "default=80 admin=9"),
            (7, web, Some(81), "default=81 admin=9"),
            (0, &[("b", 2, false), ("a", 1, false)], None, "default=2 a=1"),
            (0, &[("web", 80, true), ("bad", 0, false)], None, "default=80 ?"),
            (0, &[("web", 0, true), ("admin", 9, false)], None, "admin=9 ?"),
            (0, &[("web", 0, true), ("admin", 9, false)], Some(81), "default=81 admin=9"),
            (0, &[("web", 80, true), ("default", 9, false)], None, "default=80 ?"),
        ];
        for (port, ports, tagged, want) in cases {
            assert_eq!(read(&mk_service(port, ports, &[]), tagged), want, "{port} {ports:?} {tagged:?}");
        }
    }

    #[test]
    fn protocol_comes_from_meta_then_port_name() {
        let ports: &[_] = &[("grpc-main", 80, true), ("http", 9, false), ("raw", 10, false)];
        type Case<'a> = (&'a [(&'a str, i64, bool)], &'a [(&'a str, &'a str)], &'a str);
        let cases: [Case<'_>; 6] = [
            (&[], &[("protocol", "http")], "default=80/HTTP"),
            (&[], &[("protocol", "HTTP2"), ("service-port", "8080")], "default=80>8080/HTTP2"),
            (&[], &[("protocol", "morse"), ("service-port", "0")], "default=80 ?"),
            (ports, &[], "default=80/GRPC http=9/HTTP raw=10"),
            (
                ports,
                &[("protocol", "http"), ("protocol-raw", "redis"), ("service-port-raw", "6379")],
                "default=80/HTTP http=9/HTTP raw=10>6379/Redis",
            ),
            (
                ports,
                &[("protocol", "tcp"), ("protocol-grpc-main", "http2")],
                "default=80/HTTP2 http=9/HTTP raw=10",
            ),
        ];
        for (ports, meta, want) in cases {
            assert_eq!(read(&mk_service(80, ports, meta), None), want, "{ports:?} {meta:?}");
        }
    }
}
