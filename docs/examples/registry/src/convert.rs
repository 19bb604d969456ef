//! From the listing of one namespace to facts. Pure: called once for each answer, and total for any input.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tributary_model::{
    Address, AddressRef, Code, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, Fact, GroupPort,
    Health, Hostname, InvalidName, Namespace, ObjectId, PortName, PortNumber, Problem, Protocol, Scope,
    ServiceKey, ServicePort, Source, Target, Topology,
};
use tributary_registry_api::Reading;

/// The answer for one namespace. Services are read one by one, so that one bad service is refused alone.
#[derive(Debug, Deserialize)]
pub struct Listing {
    services: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct Service {
    name: String,
    port: u32,
    #[serde(default)]
    protocol: String,
    instances: Vec<Instance>,
}

#[derive(Debug, Deserialize)]
struct Instance {
    ip: IpAddr,
    port: u32,
    #[serde(default = "yes")]
    healthy: bool,
}

const fn yes() -> bool {
    true
}

/// The facts and problems of a listing. Fails only if the namespace itself has no valid name.
pub fn convert(listing: Listing, scope: &Scope, domain: &str) -> Result<Reading, InvalidName> {
    let namespace = Namespace::new(scope.as_str())?;
    let mut reading = Reading::default();
    for value in listing.services {
        // services without a name share one problem: nothing identifies them
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let object = ObjectId::new("CatalogService", namespace.as_str(), &name);
        match service(value, &object, &namespace, domain) {
            Ok(facts) => reading.facts.extend(facts),
            Err(message) => {
                let problem = Problem { code: Code::OBJECT_UNREADABLE, message: message.into() };
                reading.problems.insert(object, problem);
            }
        }
    }
    Ok(reading)
}

/// The declaration and the endpoint group of one service, or the reason why it cannot be used.
fn service(
    value: Value,
    object: &ObjectId,
    namespace: &Namespace,
    domain: &str,
) -> Result<[Fact; 2], String> {
    let service: Service = serde_json::from_value(value).map_err(|e| e.to_string())?;
    let text = |e: InvalidName| e.to_string();
    let host = Hostname::new(format!("{}.{domain}", service.name)).map_err(text)?;
    let key = ServiceKey { host, namespace: namespace.clone() };
    let port = ServicePort {
        number: PortNumber::new(service.port).map_err(text)?,
        name: PortName::new("main").map_err(text)?,
        protocol: Protocol::parse(&service.protocol).unwrap_or(Protocol::Tcp),
        target: Target::Same,
    };
    let group = group(object, &port.name, &service.instances).map_err(text)?;
    let declaration = Declaration { ports: [port].into(), ..Declaration::new(Source::new(object.clone())) };
    let declared = DeclKey { service: key.clone(), object: object.clone() };
    let listed =
        EndpointGroupKey { service: key, declaration: object.clone(), object: object.clone(), bucket: 0 };
    Ok([Fact::Service(declared, Arc::new(declaration)), Fact::Group(listed, Arc::new(group))])
}

fn group(object: &ObjectId, port: &PortName, instances: &[Instance]) -> Result<EndpointGroup, InvalidName> {
    let mut port_sets = Vec::new();
    let mut addresses = Vec::new();
    let topology = Arc::new(Topology::default());
    for instance in instances {
        let set =
            Arc::from([GroupPort { name: port.clone(), number: Some(PortNumber::new(instance.port)?) }]);
        let index = port_sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            port_sets.push(set);
            port_sets.len() - 1
        });
        let health = if instance.healthy { Health::Healthy } else { Health::Unhealthy };
        let address = Address::new(AddressRef::Ip(instance.ip), Arc::clone(&topology));
        addresses.push(Address { port_set: u16::try_from(index).unwrap_or(u16::MAX), health, ..address });
    }
    Ok(EndpointGroup::new(Source::new(object.clone()), port_sets, Vec::new(), addresses))
}
