//! The variables that an istiod is set up with: which are taken here, and as what.
//!
//! Called by `layer` after the flags. A variable fills in what neither flags, `TRIBUTARY_*` nor the
//! file say. Every PILOT_ and ISTIO_ variable that is set is told at start, taken or not, so that
//! nobody who moves a deployment over has to guess.

use super::kind::RegistryKind;
use super::layers::Origins;
use super::model::Config;
use super::registry::RegistryConfig;
use crate::environment::Environment;

/// What becomes of a variable.
enum Does {
    /// It sets a field of each Kubernetes registry that does not say it itself.
    Sets(&'static str, fn(&mut RegistryConfig, &str) -> bool),
    /// What it asks for is always so, if it has this value; any other is not taken.
    Always(&'static str, &'static str),
    /// It is not taken; this is to be used instead.
    Instead(&'static str),
}

/// A variable of an istiod.
struct Known {
    name: &'static str,
    does: Does,
}

const TABLE: &[Known] = &[
    Known { name: "ISTIO_WATCH_NAMESPACE", does: Does::Sets("namespaces", namespaces) },
    Known {
        name: "ENABLE_MCS_SERVICE_DISCOVERY",
        does: Does::Sets("mcs.discovery", |r, v| flag(&mut r.mcs_mut().discovery, v)),
    },
    Known {
        name: "ENABLE_MCS_CLUSTER_LOCAL",
        does: Does::Sets("mcs.clusterLocal", |r, v| flag(&mut r.mcs_mut().cluster_local, v)),
    },
    Known { name: "ENABLE_MCS_HOST", does: Does::Sets("mcs.host", |r, v| flag(&mut r.mcs_mut().host, v)) },
    Known { name: "MCS_API_GROUP", does: Does::Sets("mcs.group", group) },
    Known {
        name: "PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES",
        does: Does::Always("true", "Services select WorkloadEntries"),
    },
    Known {
        name: "PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY",
        does: Does::Always("true", "WorkloadEntries of every cluster are read"),
    },
    Known { name: "ISTIO_DUAL_STACK", does: Does::Always("true", "both families of an address are known") },
    Known {
        name: "PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API",
        does: Does::Always("true", "gateway-api Gateways are gateways of networks"),
    },
    Known {
        name: "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE",
        does: Does::Always("true", "one precedence decides whose host is served"),
    },
    Known { name: "PILOT_ENABLE_IP_AUTOALLOCATE", does: Does::Instead("`writes: [addresses]`") },
    Known { name: "ENABLE_MCS_AUTO_EXPORT", does: Does::Instead("`writes: [serviceExports]`") },
    Known { name: "PILOT_REMOTE_CLUSTER_TIMEOUT", does: Does::Instead("`start.firstSyncTimeout`") },
    Known {
        name: "PILOT_SEND_UNHEALTHY_ENDPOINTS",
        does: Does::Instead(
            "publishNotReadyAddresses, or nothing: unhealthy endpoints are sent as the service asks",
        ),
    },
];

/// A variable that is set, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IstioVariable {
    /// Its name.
    pub name: String,
    /// Whether it has its effect here.
    pub honoured: bool,
    /// As what, or what to use instead.
    pub how: String,
}

/// Fills in what nothing else says, and returns every variable of an istiod that is set.
pub fn apply(config: &mut Config, env: &Environment, origins: &mut Origins) -> Vec<IstioVariable> {
    let mut out = Vec::new();
    for known in TABLE {
        let Some(value) = env.get(known.name) else { continue };
        let (honoured, how) = take(known, value, config, origins);
        out.push(IstioVariable { name: known.name.to_owned(), honoured, how });
    }
    for prefix in ["ISTIO_", "PILOT_"] {
        let rest = env.with_prefix(prefix).map(|(rest, _)| format!("{prefix}{rest}"));
        let unknown = rest.filter(|name| TABLE.iter().all(|known| known.name != name));
        out.extend(unknown.map(|name| IstioVariable {
            name,
            honoured: false,
            how: "has no effect here".to_owned(),
        }));
    }
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn take(known: &Known, value: &str, config: &mut Config, origins: &mut Origins) -> (bool, String) {
    let set = match &known.does {
        Does::Always(wanted, so) if value.eq_ignore_ascii_case(wanted) => {
            return (true, format!("always so: {so}"));
        }
        Does::Always(_, so) => return (false, format!("cannot be turned off: {so}")),
        Does::Instead(other) => return (false, format!("use {other}")),
        Does::Sets(_, set) => set,
    };
    let Does::Sets(field, _) = known.does else { return (false, String::new()) };
    let clusters = config.registries.iter_mut().enumerate();
    let mut taken = false;
    for (i, registry) in clusters.filter(|(_, r)| r.kind == RegistryKind::Kubernetes) {
        if set(registry, value) {
            taken = true;
            origins.insert(format!("registries[{i}].{field}"), known.name.to_owned());
        }
    }
    let how = if taken { "is" } else { "is set elsewhere, or not understood:" };
    (taken, format!("{how} `registries[].{field}`"))
}

fn namespaces(registry: &mut RegistryConfig, value: &str) -> bool {
    let open = registry.namespaces.is_none();
    if open {
        registry.namespaces = Some(value.split(',').map(|one| one.trim().to_owned()).collect());
    }
    open
}

fn flag(at: &mut Option<bool>, value: &str) -> bool {
    let read = match value.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" => Some(false),
        _ => None,
    };
    let open = at.is_none() && read.is_some();
    if open {
        *at = read;
    }
    open
}

fn group(registry: &mut RegistryConfig, value: &str) -> bool {
    let at = &mut registry.mcs_mut().group;
    let open = at.is_none();
    if open {
        *at = Some(value.to_owned());
    }
    open
}

/// The table as rows: name, and what it does here.
pub fn rows() -> impl Iterator<Item = (&'static str, String)> {
    TABLE.iter().map(|known| {
        let does = match &known.does {
            Does::Sets(field, _) => {
                format!("`registries[].{field}` of Kubernetes registries that leave it out")
            }
            Does::Always(value, so) => format!("`{value}` is always so: {so}"),
            Does::Instead(other) => format!("not taken; use {other}"),
        };
        (known.name, does)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(registry: &str, env: Environment) -> (RegistryConfig, Vec<IstioVariable>, Origins) {
        let mut config =
            Config { registries: vec![serde_saphyr::from_str(registry).unwrap()], ..Config::default() };
        let mut origins = Origins::new();
        let heard = apply(&mut config, &env, &mut origins);
        (config.registries.remove(0), heard, origins)
    }

    #[test]
    fn a_variable_fills_in_what_a_registry_leaves_out() {
        let env = || {
            Environment::from([
                ("ISTIO_WATCH_NAMESPACE", "shop"),
                ("ENABLE_MCS_HOST", "true"),
                ("ENABLE_MCS_SERVICE_DISCOVERY", "maybe"),
                ("MCS_API_GROUP", "mcs.example.test"),
            ])
        };
        let (registry, heard, origins) = mk("{kind: kubernetes}", env());
        assert_eq!(registry.namespaces, Some(vec!["shop".to_owned()]));
        let mcs = registry.mcs.unwrap();
        assert_eq!(
            (mcs.host, mcs.discovery, mcs.group.as_deref()),
            (Some(true), None, Some("mcs.example.test"))
        );
        assert_eq!(origins["registries[0].namespaces"], "ISTIO_WATCH_NAMESPACE");
        let honoured: Vec<&str> = heard.iter().filter(|h| h.honoured).map(|h| h.name.as_str()).collect();
        assert_eq!(honoured, ["ENABLE_MCS_HOST", "ISTIO_WATCH_NAMESPACE", "MCS_API_GROUP"]);
        let (registry, heard, _) = mk("{kind: kubernetes, namespaces: [own], mcs: {host: false}}", env());
        assert_eq!(
            (registry.namespaces.unwrap()[0].as_str(), registry.mcs.unwrap().host),
            ("own", Some(false))
        );
        assert!(heard.iter().filter(|h| h.honoured).all(|h| h.name == "MCS_API_GROUP"), "{heard:?}");
    }

    #[test]
    fn every_variable_of_an_istiod_that_is_set_is_told() {
        let env = Environment::from([
            ("PILOT_ENABLE_IP_AUTOALLOCATE", "true"),
            ("PILOT_TRACE_SAMPLING", "1"),
            ("ISTIO_DUAL_STACK", "false"),
            ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", "true"),
            ("HOME", "x"),
        ]);
        let (registry, heard, _) = mk("{kind: kubernetes}", env);
        let told: Vec<(&str, bool)> = heard.iter().map(|h| (h.name.as_str(), h.honoured)).collect();
        let all = [
            ("ISTIO_DUAL_STACK", false),
            ("PILOT_ENABLE_IP_AUTOALLOCATE", false),
            ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", true),
            ("PILOT_TRACE_SAMPLING", false),
        ];
        assert_eq!(told, all);
        assert!(heard[1].how.contains("writes: [addresses]"), "{:?}", heard[1]);
        assert_eq!(registry, RegistryConfig::of_kind(RegistryKind::Kubernetes), "none of them sets a field");
    }
}
