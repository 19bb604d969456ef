//! Route tables and listeners that a client was sent, of which the parts that concern a host are decoded.
//!
//! Lists of routes and explanations call it. What was sent is the only record of which of several services owns a domain or
//! an address for this client, so nothing is composed again here. A table is split into its virtual hosts without decoding
//! them, as tables may have thousands. The bytes that one answer reads are bounded; [`SentTables::is_cut`] reports whether the bound
//! left something out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use prost::Message;
use tributary_model::{Catalog, Hostname, PolicyKey};
use tributary_xds::answers::ResourceType;
use tributary_xds::session::{SentResource, SentView};

use super::sent_listener::SentListener;
use super::sent_route::{SentHost, is_rest, rank};
use super::sessions::{Found, MAX_DECODED};

/// Route tables and listeners of one client.
pub(super) struct SentTables {
    sent: Vec<(SentView, Vec<SentResource>)>,
    tables: BTreeMap<String, Option<EncodedHosts>>,
    listeners: BTreeMap<String, Option<SentListener>>,
    left: usize,
    is_cut: bool,
}

/// The virtual hosts of a route table, encoded.
#[derive(Clone, PartialEq, Message)]
struct EncodedHosts {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    all: Vec<Bytes>,
}

/// The domains of a virtual host.
#[derive(Clone, PartialEq, Message)]
struct Domains {
    #[prost(string, repeated, tag = "2")]
    all: Vec<String>,
}

impl EncodedHosts {
    /// Returns the virtual host with the highest rank of its domains, the first of equal ones, and its position.
    fn best<R: Ord>(&self, rank: impl Fn(&[String]) -> Option<R>) -> Option<(usize, SentHost)> {
        let ranked = self.all.iter().enumerate().filter_map(|(at, host)| {
            let domains = Domains::decode(host.clone()).ok()?;
            Some((rank(&domains.all)?, at))
        });
        let best = ranked.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.and_then(|(_, at)| Some((at, decoded(self.all.get(at)?)?)))
    }
    /// Returns the first `most` virtual hosts with a route to an xDS cluster of a host, as `is` decides. Only those that name
    /// one are decoded.
    fn leading(&self, to: &Hostname, most: usize, is: impl Fn(&SentHost) -> bool) -> Vec<SentHost> {
        let named = naming(to);
        let all = self.all.iter().filter(|host| contains(host, &named)).filter_map(decoded);
        all.filter(is).take(most).collect()
    }
}

fn decoded(host: &Bytes) -> Option<SentHost> {
    Some(SentHost::read(&VirtualHost::decode(host.clone()).ok()?))
}

impl SentTables {
    /// Reads the names of the tables and listeners that a client was sent.
    pub(super) fn new(catalog: &Arc<Catalog>, found: &Found) -> Self {
        let kinds = [ResourceType::Route, ResourceType::Listener];
        let sent = kinds.into_iter().flat_map(|kind| found.sent_resources(catalog, Some(kind))).collect();
        Self { sent, tables: BTreeMap::new(), listeners: BTreeMap::new(), left: MAX_DECODED, is_cut: false }
    }
    /// Whether a table or listener was left out, because all together are too large for one answer.
    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }
    /// Whether the client was sent any resource of a type.
    pub(super) fn has_any(&self, kind: ResourceType) -> bool {
        self.all().any(|(_, one)| one.kind == kind)
    }
    /// Returns the names of all route tables, sorted.
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.names_of(ResourceType::Route)
    }
    /// Returns the names of all resources of a type, sorted.
    pub(super) fn names_of(&self, kind: ResourceType) -> BTreeSet<String> {
        self.all().filter(|(_, one)| one.kind == kind).map(|(_, one)| one.name.to_string()).collect()
    }
    /// Returns a resource and the view that has it.
    pub(super) fn resource(&self, kind: ResourceType, name: &str) -> Option<(&SentView, &SentResource)> {
        self.all().find(|(_, one)| one.kind == kind && &*one.name == name)
    }
    /// Returns the EnvoyFilters that changed a resource.
    pub(super) fn filters(&self, kind: ResourceType, name: &str) -> Vec<PolicyKey> {
        let known = self.resource(kind, name);
        known.map(|(view, one)| view.patched_by(one)).unwrap_or_default()
    }
    /// Whether a route table can be read: the client holds it, and it is within the bound.
    pub(super) fn has_table(&mut self, name: &str) -> bool {
        self.table(name).is_some()
    }
    /// Returns the virtual host of a route table that takes requests for a host, and its position. That of all other requests
    /// does not count.
    pub(super) fn host(&mut self, table: &str, host: &str) -> Option<(usize, SentHost)> {
        let found = self.table(table)?.best(|domains| rank(domains, host))?;
        (!found.1.is_rest()).then_some(found)
    }
    /// Returns the virtual host of a route table that takes the requests that no other one takes.
    pub(super) fn rest(&mut self, table: &str) -> Option<SentHost> {
        let rest = self.table(table)?.best(|domains| is_rest(domains).then_some(()))?;
        Some(rest.1)
    }
    /// Returns all virtual hosts of the route table of a gRPC target, which has few.
    pub(super) fn hosts(&mut self, table: &str) -> Vec<SentHost> {
        let all = self.table(table).map(|table| &table.all);
        all.into_iter().flatten().filter_map(decoded).collect()
    }
    /// Returns the first `most` virtual hosts of a route table with a route to an xDS cluster of a host, as `is` decides.
    pub(super) fn leading(
        &mut self,
        table: &str,
        (to, most): (&Hostname, usize),
        is: impl Fn(&SentHost) -> bool,
    ) -> Vec<SentHost> {
        self.table(table).map(|table| table.leading(to, most, is)).unwrap_or_default()
    }
    /// Returns where the connections of a listener go; `None` as for tables.
    pub(super) fn listener(&mut self, name: &str) -> Option<&SentListener> {
        if !self.listeners.contains_key(name) {
            let read = self.listener_if(name, |_| true);
            self.listeners.insert(name.to_owned(), read);
        }
        self.listeners.get(name)?.as_ref()
    }
    /// Returns where the connections of a listener go that names an xDS cluster of a host.
    pub(super) fn listener_naming(&mut self, name: &str, to: &Hostname) -> Option<SentListener> {
        let named = naming(to);
        self.listener_if(name, |body| contains(body, &named))
    }
    fn listener_if(&mut self, name: &str, is_wanted: impl FnOnce(&[u8]) -> bool) -> Option<SentListener> {
        let body = self.body(ResourceType::Listener, name).filter(|body| is_wanted(body))?;
        SentListener::read(body)
    }
    fn table(&mut self, name: &str) -> Option<&EncodedHosts> {
        if !self.tables.contains_key(name) {
            let body = self.body(ResourceType::Route, name);
            let hosts = body.and_then(|body| EncodedHosts::decode(body).ok());
            self.tables.insert(name.to_owned(), hosts);
        }
        self.tables.get(name)?.as_ref()
    }
    fn all(&self) -> impl Iterator<Item = (&SentView, &SentResource)> {
        self.sent.iter().flat_map(|(view, all)| all.iter().map(move |one| (view, one)))
    }
    /// Returns a body within the bound. The length of one that is beyond it is known without encoding it.
    fn body(&mut self, kind: ResourceType, name: &str) -> Option<Bytes> {
        let (view, resource) = self.resource(kind, name)?;
        let length = usize::try_from(resource.len()?).ok()?;
        let is_within = length <= self.left;
        let body = if is_within { view.body(resource) } else { None };
        self.is_cut |= !is_within;
        self.left = self.left.saturating_sub(body.as_ref().map_or(0, Bytes::len));
        body
    }
}

/// Returns how the names of the xDS clusters of a host end.
fn naming(host: &Hostname) -> Vec<u8> {
    format!("|{host}").into_bytes()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

/// Returns the virtual hosts of an encoded route table; none if it does not decode.
pub(super) fn hosts_of(body: Bytes) -> Vec<SentHost> {
    RouteConfiguration::decode(body).map(|table| SentHost::all(&table)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
    use envoy_types::pb::envoy::config::route::v3::{Route, RouteAction, route};

    use super::*;

    fn mk_host(name: &str, domains: &[&str]) -> VirtualHost {
        let cluster_specifier = Some(ClusterSpecifier::Cluster(format!("outbound|80|v1|{name}")));
        let action = route::Action::Route(RouteAction { cluster_specifier, ..RouteAction::default() });
        VirtualHost {
            name: name.into(),
            domains: domains.iter().map(|&domain| domain.into()).collect(),
            routes: vec![Route { action: Some(action), ..Route::default() }],
            ..VirtualHost::default()
        }
    }
    /// Splits a table with a virtual host behind these that does not decode, but whose domains can be read.
    fn mk_table(hosts: &[VirtualHost]) -> EncodedHosts {
        let hosts = hosts.to_vec();
        let mut table =
            RouteConfiguration { virtual_hosts: hosts, ..RouteConfiguration::default() }.encode_to_vec();
        let broken: &[u8] = b"\x12\x08bad.shop\x1a\x01\xff";
        table.extend([0x12, u8::try_from(broken.len()).unwrap()]);
        table.extend(broken);
        EncodedHosts::decode(&*table).unwrap()
    }

    #[test]
    fn only_the_virtual_host_of_a_host_is_decoded() {
        let table = mk_table(&[
            mk_host("rest", &["*"]),
            mk_host("any", &["*.shop"]),
            mk_host("pay.shop", &["pay.shop", "pay"]),
        ]);
        let found = |host: &str| table.best(|domains| rank(domains, host)).map(|(at, host)| (at, host.name));
        assert_eq!(found("pay.shop"), Some((2, "pay.shop".into())));
        assert_eq!(found("other.shop"), Some((1, "any".into())));
        assert_eq!(found("x.test"), Some((0, "rest".into())));
        assert_eq!(found("bad.shop"), None, "it does not decode");
    }

    #[test]
    fn only_virtual_hosts_that_name_the_destination_are_decoded() {
        let table = mk_table(&[mk_host("other.pay.shop", &["a"]), mk_host("pay.shop", &["b"])]);
        let leading = |to: &str, most: usize| {
            let found = table.leading(&Hostname::new(to).unwrap(), most, |_| true);
            found.into_iter().map(|host| host.name).collect::<Vec<_>>()
        };
        assert_eq!(leading("pay.shop", 8), ["pay.shop"]);
        assert_eq!(leading("pay.shop", 0), [""; 0]);
        assert_eq!(leading("none.shop", 8), [""; 0]);
    }
}
