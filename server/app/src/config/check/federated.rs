//! Rules for federated services: valid names, members that exist and are listed once, an active member.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_model::{FederatedService, Hostname, Namespace, PortNumber, RegistryName};

use super::Rules;
use crate::config::model::{Config, FederatedMemberConfig, FederatedServiceConfig, RegistryConfig};

/// Bound on the list, against configuration mistakes.
const MAX_FEDERATED_SERVICES: usize = 10_000;
/// Most names of registries that an error lists.
const MAX_SHOWN: usize = 10;

impl Rules<'_> {
    /// Checks every federated service. The registries of the configuration have names.
    pub(super) fn federated(&mut self, config: &Config) {
        if config.federated_services.len() > MAX_FEDERATED_SERVICES {
            return self.invalid("federatedServices", format!("more than {MAX_FEDERATED_SERVICES} services"));
        }
        let registries: BTreeSet<String> = config.registries.iter().flat_map(RegistryConfig::names).collect();
        let mut seen = BTreeSet::new();
        for (i, federated) in config.federated_services.iter().enumerate() {
            let field = |name: &str| format!("federatedServices[{i}].{name}");
            self.valid(&field("host"), Hostname::new(&federated.host));
            if !seen.insert(host(&federated.host)) {
                self.invalid(&field("host"), format!("`{}` is listed twice; keep one", federated.host));
            }
            if let Some(namespace) = &federated.namespace {
                self.valid(&field("namespace"), Namespace::new(namespace));
            }
            if federated.standby_after_stale.is_some_and(|time| time.get() < Duration::from_secs(1)) {
                let why = "is less than 1s, the time of a reconnection; write a longer time";
                self.invalid(&field("standbyAfterStale"), why);
            }
            self.federated_members(&field("members"), federated, &registries);
        }
    }

    fn federated_members(
        &mut self,
        field: &str,
        federated: &FederatedServiceConfig,
        registries: &BTreeSet<String>,
    ) {
        let members = &federated.members;
        if members.is_empty() || members.len() > FederatedService::MAX_MEMBERS {
            let (found, most) = (members.len(), FederatedService::MAX_MEMBERS);
            return self.invalid(field, format!("has {found} members; list 1 to {most}"));
        }
        if members.iter().all(|member| member.standby) {
            self.invalid(field, "has standby members only; one must be active");
        }
        if let [only] = &members[..]
            && host(&only.host) == host(&federated.host)
        {
            self.invalid(field, "names the service itself and no other; add a member or remove the service");
        }
        let mut seen = BTreeSet::new();
        for (i, member) in members.iter().enumerate() {
            let field = format!("{field}[{i}]");
            self.federated_member(&field, member, registries);
            if !seen.insert((host(&member.host), &member.registry, &member.namespace)) {
                let why = format!("`{}` is listed twice; keep one, with the weight of both", member.host);
                self.invalid(&format!("{field}.host"), why);
            }
        }
    }

    fn federated_member(
        &mut self,
        field: &str,
        member: &FederatedMemberConfig,
        registries: &BTreeSet<String>,
    ) {
        let field = |name: &str| format!("{field}.{name}");
        self.valid(&field("host"), Hostname::new(&member.host));
        if let Some(name) = &member.registry {
            match RegistryName::new(name) {
                Ok(_) if !registries.contains(name) => {
                    self.invalid(&field("registry"), not_found(name, registries));
                }
                found => self.valid(&field("registry"), found),
            }
        }
        if let Some(name) = &member.namespace {
            self.valid(&field("namespace"), Namespace::new(name));
        }
        for port in member.ports.iter().flat_map(|(own, theirs)| [*own, *theirs]) {
            self.valid(&field("ports"), PortNumber::new(u32::from(port)));
        }
    }
}

/// Returns a host in its usual form, or as it is written if it is invalid.
fn host(text: &str) -> String {
    Hostname::new(text).map_or_else(|_| text.to_owned(), |host| host.to_string())
}

fn not_found(name: &str, registries: &BTreeSet<String>) -> String {
    let known: Vec<&str> = registries.iter().take(MAX_SHOWN).map(String::as_str).collect();
    match known.is_empty() {
        true => format!("registry `{name}` not found; `registries` is empty"),
        false => format!("registry `{name}` not found; use one of {}", known.join(", ")),
    }
}
