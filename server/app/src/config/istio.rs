//! Environment variables of istiod: which of them take effect here, and how.
//!
//! `layer` calls `apply` after the flags. A variable sets a field that no flag, `TRIBUTARY_*` variable or
//! file sets. Every PILOT_ and ISTIO_ variable that is set is logged at start, with or without effect, for
//! operators that migrate a deployment.

use tributary_kubernetes::KubernetesFields;

use super::layers::Origins;
use super::model::Config;
use crate::environment::Environment;

/// Effect of a variable.
enum Does {
    /// Sets a field of each Kubernetes registry that does not set it.
    Sets(&'static str, fn(&mut KubernetesFields, &str) -> bool),
    /// Requests fixed behaviour; only this value is honoured.
    Always(&'static str, &'static str),
    /// Has no effect; names the replacement.
    Instead(&'static str),
}

/// Istiod variable with an effect or a replacement.
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
    Known {
        name: "ISTIO_DUAL_STACK",
        does: Does::Always("true", "a client uses the IP families of its own addresses"),
    },
    Known {
        name: "PILOT_MULTI_NETWORK_DISCOVER_GATEWAY_API",
        does: Does::Always("true", "gateway-api Gateways are gateways of networks"),
    },
    Known {
        name: "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE",
        does: Does::Always("true", "one precedence order selects the served service"),
    },
    Known { name: "PILOT_ENABLE_IP_AUTOALLOCATE", does: Does::Instead("`writes: [addresses]`") },
    Known { name: "ENABLE_MCS_AUTO_EXPORT", does: Does::Instead("`writes: [serviceExports]`") },
    Known { name: "PILOT_REMOTE_CLUSTER_TIMEOUT", does: Does::Instead("`start.firstSyncTimeout`") },
    Known {
        name: "PILOT_SEND_UNHEALTHY_ENDPOINTS",
        does: Does::Instead(
            "publishNotReadyAddresses; unhealthy endpoints are sent if the service requests it",
        ),
    },
];

/// Istiod variable that is set, with its effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IstioVariable {
    /// Name.
    pub name: String,
    /// Whether it takes effect.
    pub honoured: bool,
    /// Its effect, or the replacement.
    pub how: String,
}

/// Sets the fields that no other layer sets. Returns every istiod variable that is set.
pub fn apply(config: &mut Config, env: &Environment, origins: &mut Origins) -> Vec<IstioVariable> {
    let mut out = Vec::new();
    for known in TABLE {
        let Some(value) = env.get(known.name) else { continue };
        let (honoured, how) = apply_one(known, value, config, origins);
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

fn apply_one(known: &Known, value: &str, config: &mut Config, origins: &mut Origins) -> (bool, String) {
    let set = match &known.does {
        Does::Always(wanted, so) if value.eq_ignore_ascii_case(wanted) => {
            return (true, format!("always on: {so}"));
        }
        Does::Always(_, so) => return (false, format!("cannot be turned off: {so}")),
        Does::Instead(other) => return (false, format!("use {other}")),
        Does::Sets(_, set) => set,
    };
    let Does::Sets(field, _) = known.does else { return (false, String::new()) };
    let clusters = config.registries.iter_mut().enumerate();
    let mut applied = false;
    for (i, fields) in clusters.filter_map(|(i, registry)| Some((i, registry.kubernetes_mut()?))) {
        if set(fields, value) {
            applied = true;
            origins.insert(format!("registries[{i}].{field}"), known.name.to_owned());
        }
    }
    let how = if applied { "sets" } else { "another layer sets, or the value is invalid for," };
    (applied, format!("{how} `registries[].{field}`"))
}

fn namespaces(fields: &mut KubernetesFields, value: &str) -> bool {
    let open = fields.namespaces.is_none();
    if open {
        fields.namespaces = Some(value.split(',').map(|one| one.trim().to_owned()).collect());
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

fn group(fields: &mut KubernetesFields, value: &str) -> bool {
    let at = &mut fields.mcs_mut().group;
    let open = at.is_none();
    if open {
        *at = Some(value.to_owned());
    }
    open
}

/// Rows of the reference: name and effect.
pub fn rows() -> impl Iterator<Item = (&'static str, String)> {
    TABLE.iter().map(|known| {
        let does = match &known.does {
            Does::Sets(field, _) => {
                format!("`registries[].{field}` of Kubernetes registries that do not set it")
            }
            Does::Always(value, so) => format!("`{value}` is always on: {so}"),
            Does::Instead(other) => format!("no effect; use {other}"),
        };
        (known.name, does)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(registry: &str, env: Environment) -> (KubernetesFields, Vec<IstioVariable>, Origins) {
        let mut config =
            Config { registries: vec![serde_saphyr::from_str(registry).unwrap()], ..Config::default() };
        let mut origins = Origins::new();
        let found = apply(&mut config, &env, &mut origins);
        (config.registries[0].kubernetes().unwrap().clone(), found, origins)
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
        let (registry, found, origins) = mk("{kind: kubernetes}", env());
        assert_eq!(registry.namespaces, Some(vec!["shop".to_owned()]));
        let mcs = registry.mcs.unwrap();
        assert_eq!(
            (mcs.host, mcs.discovery, mcs.group.as_deref()),
            (Some(true), None, Some("mcs.example.test"))
        );
        assert_eq!(origins["registries[0].namespaces"], "ISTIO_WATCH_NAMESPACE");
        let honoured: Vec<&str> = found.iter().filter(|h| h.honoured).map(|h| h.name.as_str()).collect();
        assert_eq!(honoured, ["ENABLE_MCS_HOST", "ISTIO_WATCH_NAMESPACE", "MCS_API_GROUP"]);
        let (registry, found, _) = mk("{kind: kubernetes, namespaces: [own], mcs: {host: false}}", env());
        assert_eq!(
            (registry.namespaces.unwrap()[0].as_str(), registry.mcs.unwrap().host),
            ("own", Some(false))
        );
        assert!(found.iter().filter(|h| h.honoured).all(|h| h.name == "MCS_API_GROUP"), "{found:?}");
    }

    #[test]
    fn every_set_istiod_variable_is_reported() {
        let env = Environment::from([
            ("PILOT_ENABLE_IP_AUTOALLOCATE", "true"),
            ("PILOT_TRACE_SAMPLING", "1"),
            ("ISTIO_DUAL_STACK", "false"),
            ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", "true"),
            ("HOME", "x"),
        ]);
        let (registry, found, _) = mk("{kind: kubernetes}", env);
        let honoured: Vec<(&str, bool)> = found.iter().map(|h| (h.name.as_str(), h.honoured)).collect();
        let all = [
            ("ISTIO_DUAL_STACK", false),
            ("PILOT_ENABLE_IP_AUTOALLOCATE", false),
            ("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", true),
            ("PILOT_TRACE_SAMPLING", false),
        ];
        assert_eq!(honoured, all);
        assert!(found[1].how.contains("writes: [addresses]"), "{:?}", found[1]);
        assert_eq!(registry, KubernetesFields::default(), "they set no field");
    }
}
