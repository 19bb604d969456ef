//! From the listing of one namespace to facts. Pure: called once for each answer, and total for any input.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tributary_model::{
    Code, DeclKey, Declaration, EndpointGroup, EndpointGroupKey, Fact, Health, Hostname, InvalidName,
    Namespace, ObjectId, PortName, PortNumber, Problem, Protocol, Scope, ServiceKey, ServicePort, Source,
    Target,
};
use tributary_registry_api::Reading;

/// The answer for one namespace. Services are read one by one, so that one bad service is refused alone.
#[derive(Debug, Deserialize)]
struct Listing {
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

/// The facts and problems of an answer; the reason if the answer as a whole cannot be read.
pub fn convert(body: &[u8], scope: &Scope, domain: &str) -> Result<Reading, String> {
    let listing: Listing = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let namespace = Namespace::new(scope.as_str()).map_err(|e| e.to_string())?;
    let mut reading = Reading::default();
    for value in listing.services {
        // services without a name share one problem: nothing identifies them
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let object = ObjectId::new("ListedService", namespace.as_str(), &name);
        let service = serde_json::from_value(value).map_err(|e| e.to_string());
        match service
            .and_then(|service| facts(&service, &object, &namespace, domain).map_err(|e| e.to_string()))
        {
            Ok(facts) => reading.facts.extend(facts),
            Err(why) => {
                let problem = Problem { code: Code::OBJECT_UNREADABLE, message: why.into() };
                reading.problems.insert(object, problem);
            }
        }
    }
    Ok(reading)
}

/// The declaration and the endpoint group of one service.
fn facts(
    service: &Service,
    object: &ObjectId,
    namespace: &Namespace,
    domain: &str,
) -> Result<[Fact; 2], InvalidName> {
    let host = Hostname::new(format!("{}.{domain}", service.name))?;
    let key = ServiceKey { host, namespace: namespace.clone() };
    let name = PortName::new("main")?;
    let number = PortNumber::new(service.port)?;
    let protocol = Protocol::parse(&service.protocol).unwrap_or(Protocol::Tcp);
    let port = ServicePort { number, name: name.clone(), protocol, target: Target::Same };
    let endpoint = |instance: &Instance| {
        let health = if instance.healthy { Health::Healthy } else { Health::Unhealthy };
        Ok((instance.ip, PortNumber::new(instance.port)?, health))
    };
    let endpoints: Vec<_> = service.instances.iter().map(endpoint).collect::<Result<_, InvalidName>>()?;
    let group = EndpointGroup::of_ips(Source::new(object.clone()), &name, endpoints);
    let declaration = Declaration { ports: [port].into(), ..Declaration::new(Source::new(object.clone())) };
    let declared = DeclKey { service: key.clone(), object: object.clone() };
    let listed =
        EndpointGroupKey { service: key, declaration: object.clone(), object: object.clone(), bucket: 0 };
    Ok([Fact::Service(declared, Arc::new(declaration)), Fact::Group(listed, Arc::new(group))])
}
