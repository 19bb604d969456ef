//! Meaning of an answer: the addresses that a name has now, or why it has none.
//!
//! Called by [`Names`](crate::Names). Pure. A family whose query fails keeps its last addresses; a family without records has none.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Answer of one lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Result for IPv4.
    pub v4: Family,
    /// Result for IPv6.
    pub v6: Family,
    /// Shortest time to live of the records, if they have any.
    pub ttl: Option<Duration>,
}

/// Result for the addresses of one IP family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Family {
    /// Addresses.
    Has(Vec<IpAddr>),
    /// The name has no address of the family; with the reason.
    Empty(Arc<str>),
    /// The query failed; with the reason.
    Failed(Arc<str>),
}

impl Answer {
    /// Creates the answer of a lookup that failed as a whole.
    #[must_use]
    pub fn failed(why: impl Into<Arc<str>>) -> Self {
        let why = why.into();
        Self { v4: Family::Failed(Arc::clone(&why)), v6: Family::Failed(why), ttl: None }
    }
    /// Whether it is no answer about the name: no family has addresses, and one could not be asked.
    pub(crate) fn is_failure(&self) -> bool {
        let families = [&self.v4, &self.v6];
        families.iter().any(|family| matches!(family, Family::Failed(_)))
            && !families.iter().any(|family| matches!(family, Family::Has(_)))
    }
    /// Returns the addresses of the name, with those of a failed family from before. Fails with the reason if the answer has no address
    /// that clients may use: nothing is known then, and the last addresses stay.
    pub(crate) fn addresses(&self, before: &[IpAddr]) -> Result<Vec<IpAddr>, Arc<str>> {
        let families = [&self.v4, &self.v6];
        let all = families.into_iter().flat_map(Family::list).map(|ip| ip.to_canonical());
        let (mut usable, refused): (Vec<IpAddr>, Vec<IpAddr>) = all.partition(|ip| refusal(*ip).is_none());
        if usable.is_empty() {
            return Err(self.reason(&refused));
        }
        let kept = before.iter().filter(|ip| self.has_failed(**ip));
        usable.extend(kept);
        Ok(usable)
    }
    fn has_failed(&self, ip: IpAddr) -> bool {
        matches!(if ip.is_ipv4() { &self.v4 } else { &self.v6 }, Family::Failed(_))
    }
    /// Returns why there is no usable address. A failure comes first: the next answer may differ.
    fn reason(&self, refused: &[IpAddr]) -> Arc<str> {
        let families = [&self.v4, &self.v6];
        let failed = families.iter().find_map(|family| match family {
            Family::Failed(why) => Some(Arc::clone(why)),
            _ => None,
        });
        let refused = || {
            let ip = refused.first()?;
            Some(format!("its address {ip} {}, which no client of another network can use", refusal(*ip)?))
        };
        let empty = || {
            families.iter().find_map(|family| match family {
                Family::Empty(why) => Some(Arc::clone(why)),
                _ => None,
            })
        };
        failed.or_else(|| refused().map(Into::into)).or_else(empty).unwrap_or_else(|| "no address".into())
    }
}

impl Family {
    fn list(&self) -> impl Iterator<Item = &IpAddr> {
        let list: &[IpAddr] = match self {
            Self::Has(list) => list,
            Self::Empty(_) | Self::Failed(_) => &[],
        };
        list.iter()
    }
}

/// Returns why an address of an answer is not used. DNS is not trusted as the objects of a cluster are: such an answer would lead every
/// client to itself or to services of its machine.
fn refusal(ip: IpAddr) -> Option<&'static str> {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    match ip {
        _ if ip.is_loopback() => Some("is a loopback address"),
        _ if ip.is_unspecified() => Some("is the unspecified address"),
        _ if ip.is_multicast() || is_broadcast => Some("is a multicast address"),
        _ if is_link_local => Some("is a link-local address"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(all: &[&str]) -> Vec<IpAddr> {
        all.iter().map(|ip| ip.parse().unwrap()).collect()
    }
    fn has(all: &[&str]) -> Family {
        Family::Has(ips(all))
    }
    fn empty() -> Family {
        Family::Empty("no such name".into())
    }
    fn failed() -> Family {
        Family::Failed("no answer".into())
    }

    /// Results of both families, and the addresses or the reason that follow.
    type Row = (Family, Family, Result<&'static [&'static str], &'static str>);

    #[test]
    fn answers_mean_addresses_or_a_reason() {
        let before = ips(&["192.0.2.1", "2001:db8::1"]);
        let table: [Row; 11] = [
            (has(&["192.0.2.9"]), empty(), Ok(&["192.0.2.9"])),
            (empty(), has(&["2001:db8::9"]), Ok(&["2001:db8::9"])),
            (has(&["192.0.2.9"]), has(&["2001:db8::9"]), Ok(&["192.0.2.9", "2001:db8::9"])),
            // what could not be asked stays
            (has(&["192.0.2.9"]), failed(), Ok(&["192.0.2.9", "2001:db8::1"])),
            (failed(), has(&["2001:db8::9"]), Ok(&["2001:db8::9", "192.0.2.1"])),
            (empty(), empty(), Err("no such name")),
            (empty(), failed(), Err("no answer")),
            (failed(), empty(), Err("no answer")),
            (has(&[]), has(&[]), Err("no address")),
            (has(&["127.0.0.1", "192.0.2.9"]), empty(), Ok(&["192.0.2.9"])),
            (has(&["::ffff:192.0.2.9"]), empty(), Ok(&["192.0.2.9"])),
        ];
        for (v4, v6, want) in table {
            let answer = Answer { v4, v6, ttl: None };
            let found = answer.addresses(&before);
            assert_eq!(found, want.map(ips).map_err(Into::into), "{answer:?}");
        }
    }

    #[test]
    fn addresses_of_the_clients_own_machine_are_refused() {
        let own = [
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ];
        for ip in own {
            let answer = Answer { v4: has(&[ip]), v6: empty(), ttl: None };
            let why = answer.addresses(&[]).unwrap_err();
            assert!(why.contains("which no client of another network can use"), "{ip}: {why}");
        }
        let private = has(&["10.0.0.1", "fd00::1", "100.64.0.1"]);
        let answer = Answer { v4: private, v6: empty(), ttl: None };
        assert_eq!(answer.addresses(&[]).unwrap().len(), 3, "networks may be private");
    }
}
