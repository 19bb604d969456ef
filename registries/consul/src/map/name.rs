//! Conversion of Consul's names to hosts. Names are case-insensitive and may contain any character. Each name gets
//! its own host, from which [`unlabel`] recovers the name.

use tributary_model::Hostname;

/// Encodes a name as one DNS label: lower case, `_` doubled, and every other byte that DNS does not allow as `_` and
/// two hex digits. `None` if the result exceeds 63 bytes.
#[must_use]
pub fn label(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let last = name.len().checked_sub(1)?;
    let mut out = String::new();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' if at != 0 && at != last => out.push('-'),
            b'_' => out.push_str("__"),
            other => out.push_str(&format!("_{other:02x}")),
        }
    }
    (out.len() <= 63).then_some(out)
}

/// Decodes a label made by [`label`]; returns the name in lower case.
#[must_use]
pub fn unlabel(label: &str) -> Option<String> {
    let mut bytes = label.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'_' {
            out.push(byte);
            continue;
        }
        let high = bytes.next()?;
        if high == b'_' {
            out.push(b'_');
        } else {
            let hex = |digit: u8| char::from(digit).to_digit(16);
            out.push(u8::try_from(hex(high)? * 16 + hex(bytes.next()?)?).ok()?);
        }
    }
    String::from_utf8(out).ok()
}

/// Part of a Consul that a service belongs to. Empty fields mean the defaults.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tenancy {
    /// Datacenter.
    pub datacenter: String,
    /// Partition.
    pub partition: String,
    /// Namespace.
    pub namespace: String,
    /// Peer.
    pub peer: String,
}

/// Returns the hosts of a service: the short one if its datacenter is the registry's own, then the full one.
#[must_use]
pub fn hosts(service: &str, part: &Tenancy, domain: &str, own_datacenter: &str) -> Vec<Hostname> {
    let Some(mut head) = label(service).map(|name| format!("{name}.service")) else { return Vec::new() };
    for (value, suffix) in [(&part.namespace, "ns"), (&part.partition, "ap"), (&part.peer, "peer")] {
        if value.is_empty() || (value == "default" && suffix != "peer") {
            continue;
        }
        let Some(value) = label(value) else { return Vec::new() };
        head.push_str(&format!(".{value}.{suffix}"));
    }
    let short = format!("{head}.{domain}");
    if !part.peer.is_empty() {
        return Hostname::new(short).into_iter().collect();
    }
    let full = label(&part.datacenter).map(|dc| format!("{head}.{dc}.dc.{domain}"));
    let own = part.datacenter.eq_ignore_ascii_case(own_datacenter).then_some(short);
    own.into_iter().chain(full).filter_map(|host| Hostname::new(host).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk_part(datacenter: &str, namespace: &str, partition: &str, peer: &str) -> Tenancy {
        let text = str::to_owned;
        let (partition, namespace) = (text(partition), text(namespace));
        Tenancy { datacenter: text(datacenter), partition, namespace, peer: text(peer) }
    }

    #[test]
    fn reference_page_lists_the_generated_hosts() {
        let page = include_str!("../../../../docs/reference/consul.md");
        let parts = [
            mk_part("dc1", "", "", ""),
            mk_part("dc2", "", "", ""),
            mk_part("dc1", "shop", "eu", ""),
            mk_part("dc1", "", "", "east"),
        ];
        for part in parts {
            let first = hosts("web", &part, "consul", "dc1").remove(0).to_string();
            assert!(page.contains(&format!("`{first}`")), "{first}");
        }
        let label = label("a b").unwrap();
        assert!(page.contains(&format!("(`a b` is `{label}`)")), "{label}");
    }

    #[test]
    fn hosts_contain_the_tenancy() {
        let cases: [(Tenancy, &[&str]); 5] = [
            (mk_part("dc1", "", "", ""), &["web.service.consul", "web.service.dc1.dc.consul"]),
            (mk_part("dc1", "default", "default", ""), &["web.service.consul", "web.service.dc1.dc.consul"]),
            (mk_part("dc2", "", "", ""), &["web.service.dc2.dc.consul"]),
            (mk_part("dc2", "shop", "eu", ""), &["web.service.shop.ns.eu.ap.dc2.dc.consul"]),
            (mk_part("dc1", "", "", "east"), &["web.service.east.peer.consul"]),
        ];
        for (part, want) in cases {
            let have = hosts("Web", &part, "consul", "dc1");
            assert_eq!(have.iter().map(Hostname::as_str).collect::<Vec<_>>(), want, "{part:?}");
        }
    }

    #[test]
    fn similar_names_have_distinct_labels() {
        let names = ["my-web", "my_web", "my web", "my.web", "my/web", "my_5fweb", "my__web", "my\u{e9}web"];
        let labels: std::collections::BTreeSet<_> = names.iter().map(|name| label(name).unwrap()).collect();
        assert_eq!(labels.len(), names.len());
        assert_eq!(label("my_web").as_deref(), Some("my__web"));
        assert_eq!(label("-a-"), Some("_2da_2d".to_owned()));
        assert_eq!((label(""), label(&"a".repeat(64))), (None, None));
    }

    proptest! {
        #[test]
        fn label_is_valid_dns_and_unlabel_inverts_it(name in "\\PC{1,12}") {
            if let Some(label) = label(&name) {
                prop_assert_eq!(unlabel(&label), Some(name.to_lowercase()));
                prop_assert!(Hostname::new(&label).is_ok(), "{} is no label", label);
            }
        }
        #[test]
        fn unlabel_accepts_any_text(text in ".{0,20}") {
            prop_assert!(unlabel(&text).is_none_or(|name| name.len() <= text.len()));
        }
    }
}
