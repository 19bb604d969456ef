//! Short names that an operator writes: a host without its last labels, a pod instead of a node id.

use tributary_answer::ClusterName;
use tributary_model::{Catalog, HostEntry, PortNumber, Subset};
use tributary_xds::client::pod_of;

use super::filter::{begins_with, same_host};

/// Most candidates of an ambiguous name that are listed.
const MAX_CANDIDATES: usize = 10;

/// Returns the host that a name stands for: that host, else the one host that starts with the name's labels, preferring
/// one of the namespace. A name without candidates is returned unchanged. An ambiguous one is an error with its
/// candidates.
///
/// A port after the host (`pay:8080`) stays.
pub fn host(catalog: &Catalog, wanted: &str, namespace: Option<&str>) -> Result<String, String> {
    if let Some((name, port)) = split_port(wanted) {
        return Ok(format!("{}:{port}", host(catalog, name, namespace)?));
    }
    among(catalog, &|_| true, wanted, namespace)
}

/// Part of a service that an operator names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePart {
    /// Host.
    pub host: String,
    /// One of its ports; all of them if absent.
    pub port: Option<PortNumber>,
    /// Subset of the endpoints; all of them if absent.
    pub subset: Option<Subset>,
}

/// Reads `HOST`, `HOST:PORT` or the name of an xDS cluster. A host is as for [`host()`].
pub fn part(catalog: &Catalog, text: &str, namespace: Option<&str>) -> Result<ServicePart, String> {
    if let Ok(ClusterName { port, subset, host, .. }) = text.trim().parse() {
        return Ok(ServicePart { host: host.to_string(), port: Some(port), subset });
    }
    let name = host(catalog, text.trim(), namespace)?;
    let (host, port) = match split_port(&name) {
        Some((host, port)) => (host.to_owned(), PortNumber::new(port.into()).ok()),
        None => (name, None),
    };
    Ok(ServicePart { host, port, subset: None })
}

/// Returns the host that a name stands for among the hosts with a service in this namespace.
pub fn host_in(catalog: &Catalog, wanted: &str, namespace: Option<&str>) -> Result<String, String> {
    let is_listed = |entry: &HostEntry| {
        let mut claimants = entry.claimants.iter();
        namespace.is_none_or(|namespace| claimants.any(|view| view.key.namespace.as_str() == namespace))
    };
    among(catalog, &is_listed, wanted, namespace)
}

/// Returns a host and the port that follows it; `None` without a port.
fn split_port(text: &str) -> Option<(&str, u16)> {
    let (name, port) = text.trim().rsplit_once(':')?;
    (!name.contains([':', '|'])).then_some((name, port.parse().ok()?))
}

fn among(
    catalog: &Catalog,
    is_listed: &dyn Fn(&HostEntry) -> bool,
    wanted: &str,
    namespace: Option<&str>,
) -> Result<String, String> {
    let name = wanted.strip_suffix('.').unwrap_or(wanted).to_ascii_lowercase();
    let listed = || catalog.hosts.iter().filter(|(_, entry)| is_listed(entry));
    let all = || listed().map(|(host, _)| host.as_str());
    if name.is_empty() || name.parse::<std::net::IpAddr>().is_ok() || all().any(|host| same_host(&name, host))
    {
        return Ok(wanted.to_owned());
    }
    if let Some(namespace) = namespace {
        let own = format!("{name}.{namespace}");
        let mut own = all().filter(|host| *host == own || begins_with(host, &own));
        if let (Some(one), None) = (own.next(), own.next()) {
            return Ok(one.to_owned());
        }
    }
    choose(wanted, "hosts", all().filter(|host| begins_with(host, &name)))
}

/// Returns the only candidate; the name itself without candidates.
pub fn choose<'c>(
    wanted: &str,
    what: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Result<String, String> {
    let all: Vec<&str> = candidates.collect();
    match all[..] {
        [] => Ok(wanted.to_owned()),
        [one] => Ok(one.to_owned()),
        _ => Err(ambiguous(wanted, what, &all)),
    }
}

/// Returns the error for a name of several candidates; lists the first of them.
#[must_use]
pub fn ambiguous(wanted: &str, what: &str, all: &[&str]) -> String {
    let shown = all.iter().take(MAX_CANDIDATES).copied().collect::<Vec<_>>().join(", ");
    let more = all.len().saturating_sub(MAX_CANDIDATES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("`{wanted}` may be {} {what}: {shown}{more}; write one of them", all.len())
}

/// Whether a name is the `pod.namespace` or the pod of a node id.
#[must_use]
pub fn is_pod(node: &str, wanted: &str) -> bool {
    pod_of(node)
        .is_some_and(|pod| pod == wanted || pod.split_once('.').is_some_and(|(name, _)| name == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tributary_model::{HostEntry, Hostname, Shared};

    fn mk_catalog(hosts: &[&str]) -> Catalog {
        let mut catalog = Catalog::default();
        for host in hosts {
            let entry = HostEntry { claimants: Arc::from([]), led_by: Arc::default(), routes: None };
            catalog.hosts.insert(Hostname::new(host).unwrap(), Shared::new(entry));
        }
        catalog
    }

    #[test]
    fn short_host_is_the_only_host_that_starts_with_it() {
        let catalog =
            mk_catalog(&["pay.shop.svc.cluster.local", "pay.web.svc.cluster.local", "payment.io", "cart.io"]);
        let of = |name, namespace| host(&catalog, name, namespace);
        assert_eq!(of("pay.shop", None).as_deref(), Ok("pay.shop.svc.cluster.local"));
        assert_eq!(of("Cart.", None).as_deref(), Ok("cart.io"));
        assert_eq!(of("payment.io", None).as_deref(), Ok("payment.io"));
        assert_eq!(of("pay", Some("web")).as_deref(), Ok("pay.web.svc.cluster.local"));
        assert_eq!(of("nothing", Some("web")).as_deref(), Ok("nothing"));
        let ambiguous = of("pay", None).unwrap_err();
        assert_eq!(
            ambiguous,
            "`pay` may be 2 hosts: pay.shop.svc.cluster.local, pay.web.svc.cluster.local; write one of them"
        );
        assert_eq!(of("pay", Some("other")), Err(ambiguous));
        assert_eq!(of("pay.shop:8080", None).as_deref(), Ok("pay.shop.svc.cluster.local:8080"));
        for other in ["outbound|80||cart", "fd00::1:80", "cart:x"] {
            assert_eq!(of(other, None).as_deref(), Ok(other));
        }
    }

    #[test]
    fn candidates_are_bounded() {
        let names: Vec<String> = (0..100).map(|n| format!("a.n{n}")).collect();
        let text = choose("a", "hosts", names.iter().map(String::as_str)).unwrap_err();
        assert!(text.ends_with("a.n9 and 90 more; write one of them"), "{text}");
    }

    #[test]
    fn pod_is_the_third_part_of_a_node_id() {
        let node = "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local";
        assert!(is_pod(node, "web-0.shop") && is_pod(node, "web-0"));
        assert!(!is_pod(node, "web") && !is_pod(node, "shop") && !is_pod("web-0.shop", "web-0"));
        assert!(!is_pod("a~b~c.d", "c.d"), "not a node id of four parts");
    }
}
