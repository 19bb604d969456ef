//! The view that allocation has of a ServiceEntry.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::{Hostname, Timestamp};

use crate::address::parse_range;
use crate::document::{Body, Document, Resolution, ServiceEntry};

/// The label that disables allocation for an entry.
const DECLINES: &str = "networking.istio.io/enable-autoallocate-ip";

/// The addresses that one entry requests and has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AddressClaim {
    /// Creation time, if the server reports it; the older entry keeps a contested address.
    pub(crate) created: Option<Timestamp>,
    /// The object's resource version.
    pub(crate) version: Arc<str>,
    /// The API version in which the object was read and is written.
    pub(crate) api: &'static str,
    /// Whether it may be written: it is valid, of this revision and in a selected namespace.
    pub(crate) writable: bool,
    /// The hosts that need addresses, in the entry's order; empty if the entry is not eligible.
    pub(crate) hosts: Vec<Arc<str>>,
    /// The addresses in its `spec`.
    pub(crate) specified: Vec<IpNet>,
    /// The addresses in its `status`, verbatim: host and address.
    pub(crate) given: Vec<(Arc<str>, Arc<str>)>,
    /// Whether the object has a `status`.
    pub(crate) has_status: bool,
}

impl AddressClaim {
    /// The claim of a document; `None` if it is not a ServiceEntry.
    pub(crate) fn of(
        document: &Document,
        version: Arc<str>,
        api: &'static str,
        writable: bool,
    ) -> Option<Self> {
        let Body::ServiceEntry(entry) = &document.body else { return None };
        let declines = document.meta.labels.value.get(DECLINES).is_some_and(is_false);
        let eligible = !declines && entry.addresses.is_empty() && entry.resolution.value != Resolution::None;
        Some(Self {
            created: document.meta.created,
            version,
            api,
            writable,
            hosts: if eligible { hosts(entry) } else { Vec::new() },
            specified: entry.addresses.iter().filter_map(|text| net(&text.value)).collect(),
            given: entry.allocated.clone(),
            has_status: entry.has_status,
        })
    }
    /// The parsable addresses in its `status`.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (Arc<str>, IpAddr)> {
        let read = |(host, value): &(Arc<str>, Arc<str>)| Some((name(host)?, value.parse().ok()?));
        self.given.iter().filter_map(read)
    }
}

fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

/// The host names, without duplicates. One address cannot represent all hosts of a wildcard, so wildcards are
/// included only for `DYNAMIC_DNS`, where each request names its own host.
fn hosts(entry: &ServiceEntry) -> Vec<Arc<str>> {
    let mut known = BTreeSet::new();
    let named = entry.hosts.iter().filter_map(|text| Hostname::new(&text.value).ok());
    let fits = named.filter(|host| !host.is_wildcard() || entry.resolution.value == Resolution::DynamicDns);
    fits.filter(|host| known.insert(host.clone())).map(|host| host.as_str().into()).collect()
}

fn name(host: &str) -> Option<Arc<str>> {
    Hostname::new(host).ok().map(|host| host.as_str().into())
}

fn net(text: &str) -> Option<IpNet> {
    let range = parse_range(text)?;
    IpNet::new(range.ip, range.prefix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::load::load_str;

    fn claim(labels: &str, spec: &str) -> AddressClaim {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: a\n  labels: {{{labels}}}\nspec:\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n{spec}"
        );
        let load = load_str(&text, "f.yaml");
        assert!(load.problems.is_empty(), "{:#?}", load.problems);
        AddressClaim::of(&load.documents[0].document, "1".into(), "v1", true).unwrap()
    }

    fn hosts(labels: &str, spec: &str) -> Vec<String> {
        claim(labels, spec).hosts.iter().map(|host| host.to_string()).collect()
    }

    #[test]
    fn only_eligible_entries_request_addresses() {
        const STATIC: &str = "  hosts: [b.c, A.b]\n  resolution: STATIC\n";
        assert_eq!(hosts("", STATIC), ["b.c", "a.b"], "in the entry's order");
        assert!(hosts("", "  hosts: [a.b]\n  resolution: NONE\n").is_empty());
        assert!(hosts("", &format!("{STATIC}  addresses: [10.0.0.1]\n")).is_empty());
        assert!(hosts("networking.istio.io/enable-autoallocate-ip: \"false\"", STATIC).is_empty());
        assert_eq!(hosts("networking.istio.io/enable-autoallocate-ip: \"true\"", STATIC).len(), 2);
    }

    #[test]
    fn wildcard_gets_an_address_only_with_dynamic_dns() {
        assert_eq!(hosts("", "  hosts: [\"*.a.b\", a.b]\n  resolution: STATIC\n"), ["a.b"]);
        assert_eq!(hosts("", "  hosts: [\"*.a.b\"]\n  resolution: DYNAMIC_DNS\n"), ["*.a.b"]);
    }

    #[test]
    fn claim_reads_addresses_of_spec_and_status() {
        let claim = claim(
            "",
            "  hosts: [a.b]\n  resolution: STATIC\n  addresses: [10.0.0.1, 10.1.0.0/16]\nstatus:\n  addresses: [{value: 240.240.0.1, host: A.b}, {value: junk, host: a.b}]\n",
        );
        let specified: Vec<String> = claim.specified.iter().map(ToString::to_string).collect();
        assert_eq!(specified, ["10.0.0.1/32", "10.1.0.0/16"]);
        let given: Vec<_> = claim.addresses().collect();
        assert_eq!(given, [("a.b".into(), "240.240.0.1".parse().unwrap())]);
        assert_eq!(claim.given.len(), 2, "as written");
    }
}
