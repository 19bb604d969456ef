//! Gateway of gateway-api: network, addresses and listeners.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tributary_model::{GatewayAddress, PortNumber};

use super::meta::Meta;
use super::text::{Pairs, Text};
use crate::interner::Interner;
use crate::kind::Kind;
use crate::mesh::address_of;

/// TLS option of a listener that routes connections by their SNI.
const PROTOCOL: &str = "gateway.istio.io/listener-protocol";
/// Label of waypoints only.
const WAYPOINT: &str = "istio.io/waypoint-for";
const MOST: usize = 1024;

/// Gateway with the used fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Metadata; a label names the network.
    pub meta: Meta,
    /// Class.
    pub class: Arc<str>,
    /// Addresses in the object's order, without invalid ones.
    pub addresses: Box<[GatewayAddress]>,
    /// Listeners.
    pub listeners: Box<[Listener]>,
}

/// Listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Port.
    pub port: PortNumber,
    /// Whether it routes connections by their SNI (auto-passthrough).
    pub passes: bool,
    /// Whether it has TLS settings.
    pub tls: bool,
    /// Whether it accepts HBONE.
    pub hbone: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, default)]
    gateway_class_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    addresses: Option<Vec<RawAddress<'a>>>,
    #[serde(borrow, default)]
    listeners: Option<Vec<RawListener<'a>>>,
}

#[derive(Deserialize)]
struct RawAddress<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    value: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct RawListener<'a> {
    port: u32,
    #[serde(borrow, default)]
    protocol: Option<Text<'a>>,
    #[serde(borrow, default)]
    tls: Option<RawTls<'a>>,
}

#[derive(Deserialize)]
struct RawTls<'a> {
    #[serde(borrow, default)]
    options: Option<Pairs<'a>>,
}

impl Gateway {
    /// Decodes the object.
    pub fn parse(json: &str) -> Result<Self, String> {
        let (metadata, spec, IgnoredAny) = super::read::read_object::<RawSpec<'_>, _>(json)?;
        let (addresses, listeners) = (spec.addresses.unwrap_or_default(), spec.listeners.unwrap_or_default());
        super::read::bounded("spec.addresses", &addresses, MOST)?;
        super::read::bounded("spec.listeners", &listeners, MOST)?;
        Ok(Self {
            class: spec.gateway_class_name.as_deref().unwrap_or_default().into(),
            addresses: addresses.iter().filter_map(address).collect(),
            listeners: listeners.iter().map(listener).collect::<Result<_, _>>()?,
            meta: metadata.meta(Kind::Gateway)?,
        })
    }
    /// Replaces values by their shared copies.
    pub fn share(&mut self, shared: &mut Interner) {
        self.meta.share(shared);
    }
    /// Whether it is a waypoint, which serves workloads of its own network and leads into no other.
    #[must_use]
    pub fn is_waypoint(&self) -> bool {
        self.class.ends_with("waypoint") || self.meta.labels.get(WAYPOINT).is_some()
    }
}

fn address(raw: &RawAddress<'_>) -> Option<GatewayAddress> {
    let address = address_of(raw.value.as_deref()?).ok()?;
    let fits = match raw.kind.as_deref() {
        None | Some("IPAddress") => matches!(address, GatewayAddress::Ip(_)),
        Some("Hostname") => matches!(address, GatewayAddress::Name(_)),
        Some(_) => false,
    };
    fits.then_some(address)
}

fn listener(raw: &RawListener<'_>) -> Result<Listener, String> {
    let option = raw.tls.as_ref().and_then(|tls| tls.options.as_ref()?.get(PROTOCOL));
    Ok(Listener {
        port: PortNumber::new(raw.port).map_err(|error| format!("spec.listeners: {error}"))?,
        tls: raw.tls.is_some(),
        passes: option == Some("auto-passthrough"),
        hbone: raw.protocol.as_deref() == Some("HBONE"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk(labels: &str, spec: &str) -> Result<Gateway, String> {
        let meta = format!(r#"{{"name":"eastwest","namespace":"istio-system","labels":{labels}}}"#);
        Gateway::parse(&format!(r#"{{"metadata":{meta},"spec":{spec}}}"#))
    }

    #[test]
    fn addresses_and_listeners_are_read_by_their_types() {
        let spec = r#"{"gatewayClassName":"istio-remote",
            "addresses":[{"value":"203.0.113.9"},{"type":"Hostname","value":"gw.test"},{"type":"IPAddress","value":"gw.test"},
                         {"type":"example.test/custom","value":"203.0.113.10"},{"type":"IPAddress"}],
            "listeners":[{"port":15443,"protocol":"TLS","tls":{"mode":"Passthrough","options":{"gateway.istio.io/listener-protocol":"auto-passthrough"}}},
                         {"port":15008,"protocol":"HBONE"},{"port":80,"protocol":"HTTP"}]}"#;
        let gateway = mk("{}", spec).unwrap();
        let ip = GatewayAddress::Ip("203.0.113.9".parse().unwrap());
        assert_eq!(*gateway.addresses, [ip, GatewayAddress::Name("gw.test".into())]);
        let listeners: Vec<_> = gateway.listeners.iter().map(|l| (l.port.get(), l.passes, l.hbone)).collect();
        assert_eq!(listeners, [(15443, true, false), (15008, false, true), (80, false, false)]);
        assert!(mk("{}", r#"{"listeners":[{"port":0}]}"#).is_err());
    }

    #[test]
    fn waypoints_are_recognized_by_class_or_label() {
        let waypoint = |labels: &str, class: &str| {
            mk(labels, &format!(r#"{{"gatewayClassName":"{class}"}}"#)).unwrap().is_waypoint()
        };
        assert!(waypoint("{}", "istio-waypoint") && waypoint("{}", "istio-agentgateway-waypoint"));
        assert!(waypoint(r#"{"istio.io/waypoint-for":"service"}"#, "istio"));
        assert!(!waypoint("{}", "istio-east-west") && !waypoint("{}", "istio-remote"));
    }
}
