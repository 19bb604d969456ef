//! Which patches of EnvoyFilters are applied, and which parts of their values have an effect.
//!
//! The core builds conditions of it, and the answers leave out what is not applied.

use super::{ApplyTo, ConfigPatch, EnvoyFilter, ObjectMatch, Operation, PatchContext};

/// Number of the name in each message of a part.
const NAME: u64 = 1;
/// Number of `transport_socket` of an xDS cluster.
const SOCKET: u64 = 24;
/// Number of `typed_config` of network and HTTP filters.
const CONFIG: u64 = 4;
/// Number of `typed_config` of listener filters.
const LISTENER_CONFIG: u64 = 3;
const OF_FILTERS: &str = "of a filter, only name and typed_config are merged";

impl ConfigPatch {
    /// Returns why the patch is not applied to any client; `None` if it is applied to those that it matches.
    #[must_use]
    pub fn not_served(&self) -> Option<&'static str> {
        match (self.context, self.apply_to) {
            (PatchContext::Gateway, _) => return Some("gateways are not served"),
            (PatchContext::Waypoint, _) => return Some("waypoints are not served"),
            (_, ApplyTo::Bootstrap) => return Some("no resource has the bootstrap of a proxy"),
            (_, ApplyTo::ExtensionConfig) => return Some("extension configurations are not served"),
            _ => {}
        }
        match (self.apply_to, self.operation) {
            (ApplyTo::RouteConfiguration, Operation::Merge) => None,
            (ApplyTo::RouteConfiguration, _) => Some("route configurations are only merged"),
            (
                ApplyTo::Cluster | ApplyTo::Listener | ApplyTo::FilterChain | ApplyTo::HttpRoute,
                Operation::Replace,
            ) => Some("parts of this kind are not replaced"),
            (ApplyTo::NetworkFilter | ApplyTo::HttpFilter, Operation::Add) => {
                Some("ADD puts the filter behind the last one, which Envoy refuses; use INSERT_FIRST")
            }
            (ApplyTo::NetworkFilter | ApplyTo::HttpFilter, Operation::InsertAfter)
                if !self.names_filter() =>
            {
                Some("it puts the filter behind the last one, which Envoy refuses; use INSERT_FIRST")
            }
            (
                ApplyTo::NetworkFilter | ApplyTo::HttpFilter | ApplyTo::ListenerFilter,
                Operation::Replace | Operation::Remove,
            ) if !self.names_filter() => Some("the match names no filter"),
            (ApplyTo::Cluster | ApplyTo::Listener, operation) if operation.adds() => {
                self.value_name().is_empty().then_some("the value has no name")
            }
            (ApplyTo::Cluster, _) if self.context == PatchContext::Inbound && self.names_service() => {
                Some("inbound xDS clusters are found by name and port, not by service")
            }
            _ => None,
        }
    }
    /// Returns which part of the value has no effect; `None` if all of it has one.
    #[must_use]
    pub fn partly_served(&self) -> Option<&'static str> {
        if self.operation != Operation::Merge {
            return None;
        }
        let has_other = |known: &[u64]| self.fields().any(|field| !known.contains(&field));
        match self.apply_to {
            ApplyTo::Cluster if self.fields().any(|field| field == SOCKET) && has_other(&[NAME, SOCKET]) => {
                Some("beside transport_socket, nothing else of the value is merged")
            }
            ApplyTo::Cluster | ApplyTo::Listener | ApplyTo::RouteConfiguration => {
                self.renames().then_some("a resource keeps its name; the name in the value is left out")
            }
            ApplyTo::NetworkFilter | ApplyTo::HttpFilter if has_other(&[NAME, CONFIG]) => Some(OF_FILTERS),
            ApplyTo::ListenerFilter if has_other(&[NAME, LISTENER_CONFIG]) => Some(OF_FILTERS),
            _ => None,
        }
    }
    /// Whether its value has a name other than the matched one.
    fn renames(&self) -> bool {
        let matched = match &self.object {
            ObjectMatch::Listener(of) => of.name.as_deref(),
            ObjectMatch::Routes(of) => of.name.as_deref(),
            ObjectMatch::Cluster(of) => of.name.as_deref(),
            ObjectMatch::All => None,
        };
        let name = self.value_name();
        !name.is_empty() && matched != Some(name)
    }
    fn names_filter(&self) -> bool {
        let ObjectMatch::Listener(listener) = &self.object else { return false };
        let chain = listener.chain.as_ref();
        match self.apply_to {
            ApplyTo::ListenerFilter => listener.listener_filter.is_some(),
            ApplyTo::HttpFilter => chain.is_some_and(|chain| chain.sub_filter.is_some()),
            _ => chain.is_some_and(|chain| chain.filter.is_some()),
        }
    }
    const fn names_service(&self) -> bool {
        matches!(&self.object, ObjectMatch::Cluster(of) if of.service.is_some() && of.name.is_none())
    }
    /// Returns the name in the value of a resource.
    fn value_name(&self) -> &str {
        let name = fields(self.value.as_deref().unwrap_or_default()).find(|(number, _)| *number == NAME);
        name.and_then(|(_, text)| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
    /// Iterates over the numbers of the fields of its value.
    fn fields(&self) -> impl Iterator<Item = u64> {
        fields(self.value.as_deref().unwrap_or_default()).map(|(number, _)| number)
    }
}

impl EnvoyFilter {
    /// Returns the patches that are applied to no client, by position, with the reason.
    pub fn not_served(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let why = |patch: &ConfigPatch| match self.has_targets {
            true => Some("the filter has targetRefs, which name gateways and waypoints"),
            false => patch.not_served(),
        };
        self.patches.iter().enumerate().filter_map(move |(i, patch)| Some((i, why(patch)?)))
    }
    /// Returns the patches of whose value a part has no effect, by position, with the reason.
    pub fn partly_served(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let served = self.patches.iter().enumerate().filter(|(_, patch)| patch.not_served().is_none());
        served.filter_map(|(i, patch)| Some((i, patch.partly_served()?)))
    }
}

/// Iterates over the fields of an encoded message: number, and content of those that have a length. Ends at a field that is not
/// valid.
fn fields(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let length = match key & 7 {
            0 => varint(&mut rest).map(|_| 0)?,
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        rest = after;
        Some((key >> 3, content))
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterMatch, ProxyMatch};
    use super::*;

    fn mk_patch(apply_to: ApplyTo, operation: Operation, value: &[u8]) -> ConfigPatch {
        let (context, proxy, object) = (PatchContext::Any, ProxyMatch::default(), ObjectMatch::All);
        ConfigPatch { apply_to, context, proxy, object, operation, value: Some(value.into()) }
    }

    #[test]
    fn patch_that_cannot_be_applied_has_a_reason() {
        let mine = b"\x0a\x04mine";
        let why = |apply_to, operation, value: &[u8]| mk_patch(apply_to, operation, value).not_served();
        assert_eq!(why(ApplyTo::Cluster, Operation::Add, mine), None);
        assert!(why(ApplyTo::Cluster, Operation::Add, b"").is_some(), "without a name");
        assert!(why(ApplyTo::Listener, Operation::InsertFirst, b"\x12\x01x").is_some());
        assert_eq!(why(ApplyTo::VirtualHost, Operation::Replace, b""), None);
        assert!(why(ApplyTo::HttpRoute, Operation::Replace, b"").is_some());
        assert!(why(ApplyTo::RouteConfiguration, Operation::Remove, b"").is_some());
        assert!(why(ApplyTo::HttpFilter, Operation::Add, b"").is_some(), "behind the router");
        assert!(why(ApplyTo::HttpFilter, Operation::Remove, b"").is_some(), "of no filter");
        assert!(why(ApplyTo::Bootstrap, Operation::Merge, b"").is_some());
        for context in [PatchContext::Gateway, PatchContext::Waypoint] {
            let patch = ConfigPatch { context, ..mk_patch(ApplyTo::Cluster, Operation::Merge, b"") };
            assert!(patch.not_served().is_some());
        }
        let targeted = EnvoyFilter {
            has_targets: true,
            patches: [mk_patch(ApplyTo::Cluster, Operation::Merge, b"")].into(),
            ..EnvoyFilter::default()
        };
        assert_eq!(targeted.not_served().count(), 1);
    }

    #[test]
    fn only_a_name_that_differs_from_the_match_renames() {
        let is_partly = |patch: &ConfigPatch| patch.partly_served().is_some();
        let patch = mk_patch(ApplyTo::Cluster, Operation::Merge, b"\x0a\x04mine\x22\x00");
        assert!(is_partly(&patch));
        let named = ClusterMatch { name: Some("mine".into()), ..ClusterMatch::default() };
        assert!(!is_partly(&ConfigPatch { object: ObjectMatch::Cluster(named), ..patch }));
        assert!(!is_partly(&mk_patch(ApplyTo::Cluster, Operation::Merge, b"\x22\x00")));
        assert!(!is_partly(&mk_patch(ApplyTo::VirtualHost, Operation::Merge, b"\x0a\x04mine")));
        let long = [&[0x0a, 0xc8, 0x01][..], &[b'n'; 200]].concat();
        assert!(is_partly(&mk_patch(ApplyTo::Cluster, Operation::Merge, &long)));
        for torn in [&b"\x0a"[..], b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"\x0a\x09a"] {
            assert!(!is_partly(&mk_patch(ApplyTo::Cluster, Operation::Merge, torn)));
        }
    }

    #[test]
    fn fields_that_are_not_merged_are_named() {
        let is_partly =
            |apply_to, value: &[u8]| mk_patch(apply_to, Operation::Merge, value).partly_served().is_some();
        let (name, config, disabled) = (b"\x0a\x01x", b"\x22\x00", b"\x38\x01");
        assert!(!is_partly(ApplyTo::HttpFilter, &[&name[..], config].concat()));
        assert!(is_partly(ApplyTo::HttpFilter, &[&name[..], disabled].concat()));
        assert!(!is_partly(ApplyTo::ListenerFilter, b"\x1a\x00"));
        assert!(is_partly(ApplyTo::ListenerFilter, config));
        let (socket, timeout) = (b"\xc2\x01\x00", b"\x22\x00");
        assert!(!is_partly(ApplyTo::Cluster, socket));
        assert!(is_partly(ApplyTo::Cluster, &[&timeout[..], socket].concat()));
        assert!(mk_patch(ApplyTo::HttpFilter, Operation::InsertFirst, disabled).partly_served().is_none());
    }
}
