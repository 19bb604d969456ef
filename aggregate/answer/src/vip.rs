//! Selects the virtual addresses and the names by which a client reaches a service (`docs/explanation/model.md`).
//!
//! Listeners, routes and name tables use the same selection, so a name never resolves to an address
//! without a listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tributary_model::{Projection, ServiceAddress};

/// Returns the addresses that this client uses, in the given order: those of its own cluster or of all
/// clusters; without such addresses, allocated ones if it captures DNS; else those of another cluster,
/// which its network may reach.
#[must_use]
pub fn vips<'a>(addresses: &'a [ServiceAddress], client: &Projection) -> Vec<&'a ServiceAddress> {
    let own = client.cluster.as_ref().and_then(Option::as_ref);
    let here = |a: &&ServiceAddress| !a.allocated && (a.cluster.is_none() || a.cluster.as_ref() == own);
    let allocated = |a: &&ServiceAddress| a.allocated && client.dns_capture == Some(true);
    let usable: Vec<&ServiceAddress> = addresses.iter().filter(|a| client.takes(a.ip)).collect();
    let pick = |rule: &dyn Fn(&&ServiceAddress) -> bool| {
        usable.iter().copied().filter(rule).collect::<Vec<&'a ServiceAddress>>()
    };
    let foreign = usable.iter().filter_map(|a| a.cluster.as_ref()).min();
    [pick(&here), pick(&allocated), pick(&|a| !a.allocated && a.cluster.as_ref() == foreign)]
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default()
}

/// Addresses of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenAddress {
    /// Address in the listener's name.
    pub ip: IpAddr,
    /// IPv6 address beside an IPv4 address, for a client that uses both families.
    pub additional: Option<Ipv6Addr>,
}

impl ListenAddress {
    /// Returns a single address.
    #[must_use]
    pub const fn only(ip: IpAddr) -> Self {
        Self { ip, additional: None }
    }
    fn of(client: &Projection, four: Ipv4Addr, six: Ipv6Addr) -> Self {
        match client.families {
            Some((false, true)) => Self::only(six.into()),
            Some((true, true)) => Self { ip: four.into(), additional: Some(six) },
            _ => Self::only(four.into()),
        }
    }
}

/// Returns the unspecified addresses of the IP families that the client uses.
#[must_use]
pub fn any_address(client: &Projection) -> ListenAddress {
    ListenAddress::of(client, Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
}

/// Returns the loopback addresses of the IP families that the client uses.
#[must_use]
pub fn loopback(client: &Projection) -> ListenAddress {
    ListenAddress::of(client, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST)
}

/// Returns the short forms of a host for a client of this DNS domain: `pay`, `pay.shop` and
/// `pay.shop.svc` in the client's own namespace, the latter two in other namespaces. Empty unless both are
/// names of one Kubernetes domain, because other search lists are unknown.
#[must_use]
pub fn short_forms<'h>(host: &'h str, domain: Option<&str>) -> Vec<&'h str> {
    let Some((own, suffix)) = domain.and_then(|d| d.split_once(".svc.")) else { return Vec::new() };
    let Some((name, rest)) = host.split_once(".svc.") else { return Vec::new() };
    let Some((service, namespace)) = name.split_once('.') else { return Vec::new() };
    if rest != suffix || service == "*" {
        return Vec::new();
    }
    let with_svc = &host[..name.len() + ".svc".len()];
    if namespace == own { vec![service, name, with_svc] } else { vec![name, with_svc] }
}

/// Returns the hosts that a short name may mean for a client of this DNS domain, the most likely first.
#[must_use]
pub fn long_forms(name: &str, domain: Option<&str>) -> Vec<String> {
    let mut out = vec![name.to_owned()];
    let mut rest = domain;
    while let Some(suffix) = rest.filter(|s| !s.is_empty()) {
        out.push(format!("{name}.{suffix}"));
        rest = suffix.split_once('.').map(|(_, tail)| tail);
    }
    out
}

#[cfg(test)]
mod tests {
    use tributary_model::ClusterId;

    use super::*;

    fn mk_vip(cluster: &str, ip: &str, allocated: bool) -> ServiceAddress {
        let ip: IpAddr = ip.parse().unwrap();
        let prefix = if ip.is_ipv4() { 32 } else { 128 };
        ServiceAddress { cluster: ClusterId::new(cluster).ok(), ip, prefix, allocated }
    }
    fn client(cluster: &str, families: (bool, bool), dns_capture: bool) -> Projection {
        let cluster = Some(ClusterId::new(cluster).ok());
        Projection {
            cluster,
            families: Some(families),
            dns_capture: Some(dns_capture),
            ..Projection::default()
        }
    }
    fn chosen(addresses: &[ServiceAddress], client: &Projection) -> Vec<String> {
        vips(addresses, client).iter().map(|a| a.ip.to_string()).collect()
    }

    #[test]
    fn own_cluster_precedes_allocated_and_foreign_addresses() {
        let of_clusters = [
            mk_vip("c1", "10.1.0.1", false),
            mk_vip("c1", "fd00::1", false),
            mk_vip("c2", "10.2.0.1", false),
        ];
        assert_eq!(chosen(&of_clusters, &client("c2", (true, true), false)), ["10.2.0.1"]);
        assert_eq!(chosen(&of_clusters, &client("c1", (false, true), false)), ["fd00::1"]);
        assert_eq!(chosen(&of_clusters, &client("c3", (true, false), false)), ["10.1.0.1"]);
        assert_eq!(chosen(&of_clusters, &client("c2", (false, true), false)), ["fd00::1"]);
        assert_eq!(chosen(&of_clusters[2..], &client("c1", (false, true), false)), [""; 0]);
        let allocated = [mk_vip("", "240.240.0.1", true), mk_vip("", "2001:2::1", true)];
        assert_eq!(chosen(&allocated, &client("c1", (true, false), true)), ["240.240.0.1"]);
        assert_eq!(chosen(&allocated, &client("c1", (true, true), false)), [""; 0]);
        let both = [mk_vip("", "192.0.2.1", false), mk_vip("", "240.240.0.1", true)];
        assert_eq!(chosen(&both, &client("c1", (true, true), true)), ["192.0.2.1"]);
    }

    #[test]
    fn listen_addresses_follow_the_clients_families() {
        let of = |families| {
            let client = client("c1", families, false);
            [any_address(&client), loopback(&client)].map(|a| (a.ip.to_string(), a.additional))
        };
        let [any, local] = [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST];
        assert_eq!(of((true, false)), [("0.0.0.0".into(), None), ("127.0.0.1".into(), None)]);
        assert_eq!(of((false, true)), [("::".into(), None), ("::1".into(), None)]);
        assert_eq!(of((true, true)), [("0.0.0.0".into(), Some(any)), ("127.0.0.1".into(), Some(local))]);
    }

    #[test]
    fn short_forms_depend_on_the_namespace() {
        let forms = |host: &'static str, domain| short_forms(host, domain);
        let host = "pay.shop.svc.cluster.local";
        assert_eq!(forms(host, Some("shop.svc.cluster.local")), ["pay", "pay.shop", "pay.shop.svc"]);
        assert_eq!(forms(host, Some("web.svc.cluster.local")), ["pay.shop", "pay.shop.svc"]);
        assert_eq!(forms(host, Some("shop.svc.other.local")), [""; 0]);
        assert_eq!(forms(host, None), [""; 0]);
        assert_eq!(forms("api.example.com", Some("shop.svc.cluster.local")), [""; 0]);
        assert_eq!(forms("*.shop.svc.cluster.local", Some("shop.svc.cluster.local")), [""; 0]);
    }

    #[test]
    fn every_short_form_expands_to_its_host() {
        let host = "pay.shop.svc.cluster.local";
        for domain in ["shop.svc.cluster.local", "web.svc.cluster.local"] {
            for short in short_forms(host, Some(domain)) {
                assert!(long_forms(short, Some(domain)).contains(&host.to_owned()), "{short} in {domain}");
            }
        }
        assert_eq!(long_forms("a", None), ["a"]);
    }
}
