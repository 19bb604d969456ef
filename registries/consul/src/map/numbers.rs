//! Port numbers and protocols of a service, combined from its instances.
//!
//! Called by `facts` for each service. Every instance serves every number of a port at its own number, so that clients
//! of an old and of a new number reach all instances during a rollout. Each number is one that an instance declares or
//! listens on; how many instances have it, and their order, do not matter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{Code, DeclarationWarning, PortName, PortNumber, Protocol, ServicePort, Target};

use super::config::MapConfig;
use super::ports::{PRIMARY, Ports};

/// Maximum number of port numbers that one port is served under.
pub const MAX_NUMBERS: usize = 4;

/// Numbers and protocols that instances declare for one port.
#[derive(Debug, Default)]
struct PortDeclarations {
    /// Numbers from Meta or the registry's configuration.
    declared: BTreeSet<PortNumber>,
    /// Numbers of instances without a declared one.
    own: BTreeSet<PortNumber>,
    protocols: BTreeMap<Protocol, usize>,
}

/// Declarations of all instances for all ports.
#[derive(Debug, Default)]
pub(super) struct CombinedPorts<'a> {
    ports: BTreeMap<(bool, &'a PortName), PortDeclarations>,
}

impl<'a> CombinedPorts<'a> {
    /// Adds an instance.
    pub(super) fn add(&mut self, ports: &'a Ports, config: &MapConfig) {
        for (port, declared) in ports.set.iter().zip(&ports.declared) {
            let primary = port.name.as_str() == PRIMARY;
            let declarations = self.ports.entry((!primary, &port.name)).or_default();
            let given = config.service_port.filter(|_| primary);
            match declared.number.or(given) {
                Some(number) => declarations.declared.insert(number),
                None => port.number.is_some_and(|number| declarations.own.insert(number)),
            };
            *declarations.protocols.entry(declared.protocol.unwrap_or(config.protocol)).or_default() += 1;
        }
    }
    /// Returns the service's ports: the primary port's numbers first, then the others by name.
    pub(super) fn finish(self, warnings: &mut Vec<DeclarationWarning>) -> Arc<[ServicePort]> {
        let mut taken: BTreeMap<PortNumber, &PortName> = BTreeMap::new();
        let mut out = Vec::new();
        for ((other, name), declarations) in &self.ports {
            let protocol = protocol(name, declarations, warnings);
            for number in numbers(name, !other, declarations, warnings) {
                if let Some(first) = taken.get(&number) {
                    warnings.push(conflict(number, first, name));
                    continue;
                }
                taken.insert(number, name);
                out.push(ServicePort { number, name: (*name).clone(), protocol, target: Target::Same });
            }
        }
        out.into()
    }
}

/// Returns the numbers of a port, in order. If there are more than [`MAX_NUMBERS`], declared numbers precede the
/// instances' own, and low numbers precede high ones.
fn numbers(
    name: &PortName,
    primary: bool,
    declarations: &PortDeclarations,
    warnings: &mut Vec<DeclarationWarning>,
) -> BTreeSet<PortNumber> {
    let mut all =
        declarations.declared.iter().chain(declarations.own.difference(&declarations.declared)).copied();
    let served = all.by_ref().take(MAX_NUMBERS).collect();
    if all.next().is_some() {
        warnings.push(too_many(name.as_str(), primary, &served));
    }
    served
}

fn too_many(name: &str, primary: bool, served: &BTreeSet<PortNumber>) -> DeclarationWarning {
    let advice = match primary {
        true => "Meta `service-port` or the registry's `servicePort` sets one".to_owned(),
        false => format!("Meta `service-port-{name}` sets one"),
    };
    let served = served.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let message = format!(
        "instances use more than {MAX_NUMBERS} numbers for port {name:?}; {served} are served; {advice}"
    );
    DeclarationWarning { code: Code::DYNAMIC_PORTS, message: message.into() }
}

/// Returns the protocol of the majority; TCP if there is no majority.
fn protocol(
    name: &PortName,
    declarations: &PortDeclarations,
    warnings: &mut Vec<DeclarationWarning>,
) -> Protocol {
    let most = declarations.protocols.values().max().copied().unwrap_or_default();
    let mut first =
        declarations.protocols.iter().filter(|(_, count)| **count == most).map(|(protocol, _)| *protocol);
    let winner = first.next().filter(|_| first.next().is_none()).unwrap_or(Protocol::Tcp);
    if declarations.protocols.len() > 1 {
        let declared: Vec<&str> = declarations.protocols.keys().map(|p| p.as_str()).collect();
        let (declared, served) = (declared.join(", "), winner.as_str());
        let message =
            format!("instances declare {declared} for port {:?}; {served} is served", name.as_str());
        warnings.push(DeclarationWarning { code: Code::PROTOCOL_DISAGREES, message: message.into() });
    }
    winner
}

fn conflict(number: PortNumber, first: &PortName, other: &PortName) -> DeclarationWarning {
    let (first, other) = (first.as_str(), other.as_str());
    let message = format!(
        "port {number} is {first:?} on some instances and {other:?} on others; it leads to {first:?}"
    );
    DeclarationWarning { code: Code::PORT_CONFLICT, message: message.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{NamedPort, Service};

    /// Parses an instance such as `8080`, `8080>80/http`, or `web=80 admin=9` (the first is the primary port).
    fn mk_ports(text: &str, config: &MapConfig) -> Ports {
        let mut service = Service::default();
        for (at, part) in text.split(' ').enumerate() {
            let (part, protocol) = part.split_once('/').map_or((part, None), |(w, p)| (w, Some(p)));
            let (part, served) = part.split_once('>').map_or((part, None), |(w, s)| (w, Some(s)));
            let named = part.split_once('=');
            if let Some((name, port)) = named {
                let port = port.parse().unwrap();
                service.ports.push(NamedPort { name: name.into(), port, default: at == 0 });
            } else {
                service.port = part.parse().unwrap();
            }
            let key = |key: &str| {
                named.filter(|_| at > 0).map_or_else(|| key.to_owned(), |(n, _)| format!("{key}-{n}"))
            };
            service.meta.extend(served.map(|s| (key("service-port"), s.to_owned())));
            service.meta.extend(protocol.map(|p| (key("protocol"), p.to_owned())));
        }
        Ports::of(&service, None, config).unwrap()
    }

    fn served(instances: &[&str], config: &MapConfig) -> (String, Vec<Code>) {
        let ports: Vec<Ports> = instances.iter().map(|text| mk_ports(text, config)).collect();
        let finish = |ports: &mut dyn Iterator<Item = &Ports>| {
            let mut combined = CombinedPorts::default();
            let ports: Vec<&Ports> = ports.collect();
            ports.iter().for_each(|ports| combined.add(ports, config));
            let mut warnings = Vec::new();
            let served = combined.finish(&mut warnings);
            let text =
                served.iter().map(|p| format!("{} {} {}", p.number, p.name.as_str(), p.protocol.as_str()));
            (text.collect::<Vec<_>>().join(", "), warnings.iter().map(|r| r.code).collect())
        };
        let out = finish(&mut ports.iter());
        assert_eq!(out, finish(&mut ports.iter().rev()), "the order of instances matters");
        out
    }

    #[test]
    fn port_number_comes_from_meta_then_registry_then_instances() {
        let none = MapConfig::new().unwrap();
        let given = MapConfig { service_port: PortNumber::new(443).ok(), ..none.clone() };
        let cases: [(&[&str], &MapConfig, &str); 9] = [
            (&["8080"], &none, "8080 default TCP"),
            (&["8080", "8081"], &none, "8080 default TCP, 8081 default TCP"),
            (&["1", "2", "3", "4"], &none, "1 default TCP, 2 default TCP, 3 default TCP, 4 default TCP"),
            (&["8080>80", "9000>80"], &none, "80 default TCP"),
            (&["8080>80", "9000"], &none, "80 default TCP, 9000 default TCP"),
            (&["8080", "9000"], &given, "443 default TCP"),
            (&["8080>80", "9000"], &given, "80 default TCP, 443 default TCP"),
            (&["web=80 admin=9", "81"], &none, "80 default TCP, 81 default TCP, 9 admin TCP"),
            (&["web=80 admin=9>90", "web=80 admin=10>90"], &given, "443 default TCP, 90 admin TCP"),
        ];
        for (instances, config, want) in cases {
            assert_eq!(served(instances, config), (want.to_owned(), vec![]), "{instances:?}");
        }
    }

    #[test]
    fn fifth_number_changes_none_of_four() {
        let none = MapConfig::new().unwrap();
        let code = vec![Code::DYNAMIC_PORTS];
        let four = "1 default TCP, 2 default TCP, 3 default TCP, 4 default TCP";
        assert_eq!(served(&["1", "2", "3", "4", "5"], &none), (four.into(), code.clone()));
        let many = ["w=80 a=1", "w=80 a=2", "w=80 a=3", "w=80 a=4", "w=80 a=5"];
        let named = "80 default TCP, 1 a TCP, 2 a TCP, 3 a TCP, 4 a TCP";
        assert_eq!(served(&many, &none), (named.into(), code.clone()));
        let fixed = ["1>7", "2>7", "3>7", "4>7", "5>7"];
        assert_eq!(served(&fixed, &none), ("7 default TCP".into(), vec![]));
        let canary = ["1", "2", "3", "4", "5>9"];
        let declared_first = "1 default TCP, 2 default TCP, 3 default TCP, 9 default TCP";
        assert_eq!(served(&canary, &none), (declared_first.into(), code));
    }

    #[test]
    fn majority_decides_the_protocol() {
        let none = MapConfig::new().unwrap();
        let http = MapConfig { protocol: Protocol::Http, ..none.clone() };
        let code = vec![Code::PROTOCOL_DISAGREES];
        let cases: [(&[&str], &MapConfig, &str, &[Code]); 6] = [
            (&["80/http", "80/http"], &none, "80 default HTTP", &[]),
            (&["80/http", "80/http", "80/grpc"], &none, "80 default HTTP", &code),
            (&["80/http", "80/grpc"], &none, "80 default TCP", &code),
            (&["80/http", "80"], &none, "80 default TCP", &code),
            (&["80/http", "80"], &http, "80 default HTTP", &[]),
            (&["80/grpc", "81/grpc"], &none, "80 default GRPC, 81 default GRPC", &[]),
        ];
        for (instances, config, want, codes) in cases {
            assert_eq!(served(instances, config), (want.to_owned(), codes.to_vec()), "{instances:?}");
        }
    }

    #[test]
    fn number_belongs_to_one_port() {
        let none = MapConfig::new().unwrap();
        let (text, codes) = served(&["web=80 admin=9", "web=9 admin=8"], &none);
        assert_eq!(text, "9 default TCP, 80 default TCP, 8 admin TCP");
        assert_eq!(codes, [Code::PORT_CONFLICT]);
    }

    /// Returns the name of each served number, and whether a condition shows.
    fn names(instances: &[&String]) -> (BTreeMap<u32, String>, bool) {
        let instances: Vec<&str> = instances.iter().map(|text| text.as_str()).collect();
        let (text, codes) = served(&instances, &MapConfig::new().unwrap());
        let port = |text: &str| {
            let mut parts = text.split(' ');
            Some((parts.next()?.parse().ok()?, parts.next()?.to_owned()))
        };
        (text.split(", ").filter_map(port).collect(), !codes.is_empty())
    }

    /// Instances with a primary port, a named port or both, each with or without a declared number.
    fn any_instance() -> impl Strategy<Value = String> {
        let declared =
            || proptest::option::of(1_u32..9).prop_map(|n| n.map_or(String::new(), |n| format!(">{n}")));
        let named = (1_u32..9, declared(), 11_u32..19, declared());
        prop_oneof![
            (1_u32..9, declared()).prop_map(|(n, served)| format!("{n}{served}")),
            named.prop_map(|(n, served, other, meta)| format!("w={n}{served} a={other}{meta}")),
        ]
    }

    proptest! {
        #[test]
        fn port_names_survive_a_change_of_instances(
            all in proptest::collection::vec((any_instance(), any::<bool>()), 1..10),
        ) {
            let some: Vec<&String> = all.iter().filter(|(_, kept)| *kept).map(|(text, _)| text).collect();
            let every: Vec<&String> = all.iter().map(|(text, _)| text).collect();
            let ((before, _), (after, is_shown)) = (names(&some), names(&every));
            for (number, name) in &after {
                let has_number = |text: &&String| {
                    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
                    numbers.any(|own| own == number.to_string())
                };
                prop_assert!(every.iter().any(has_number), "{number} is on no instance");
                prop_assert!(is_shown || before.get(number).is_none_or(|own| own == name), "{number} renamed");
            }
            let lost = before.keys().find(|number| !after.contains_key(number));
            prop_assert!(lost.is_none() || is_shown, "{lost:?} lost to an added instance");
        }
    }
}
