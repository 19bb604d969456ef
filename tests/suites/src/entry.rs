//! ServiceEntries as suites write them: one builder that says only what a test is about.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// A ServiceEntry in namespace `default`, one port, static endpoints.
#[derive(Debug, Clone)]
pub struct Entry {
    host: String,
    port: u16,
    protocol: String,
    annotations: Vec<(String, String)>,
    selector: Option<(String, String)>,
    endpoints: Vec<String>,
}

impl Entry {
    /// A ServiceEntry of that host with an HTTP port.
    pub fn http(host: &str, port: u16) -> Self {
        Self {
            host: host.to_owned(),
            port,
            protocol: "HTTP".to_owned(),
            annotations: Vec::new(),
            selector: None,
            endpoints: Vec::new(),
        }
    }

    /// With another protocol.
    pub fn protocol(mut self, protocol: &str) -> Self {
        protocol.clone_into(&mut self.protocol);
        self
    }

    /// With an endpoint, of which no more is known.
    pub fn at(self, host: SocketAddr) -> Self {
        self.with(host, "")
    }

    /// With these endpoints.
    pub fn all(self, hosts: &[SocketAddr]) -> Self {
        hosts.iter().fold(self, |entry, host| entry.at(*host))
    }

    /// With an endpoint in a locality.
    pub fn near(self, host: SocketAddr, locality: &str) -> Self {
        self.with(host, &format!("locality: {locality}"))
    }

    /// With an endpoint and further fields of it, such as `weight: 0`.
    pub fn with(mut self, host: SocketAddr, fields: &str) -> Self {
        let more = if fields.is_empty() { String::new() } else { format!(", {fields}") };
        // Quoted: an IPv6 address is full of colons.
        self.endpoints.push(format!(
            "{{address: \"{}\", ports: {{main: {}}}{more}}}",
            host.ip(),
            host.port()
        ));
        self
    }

    /// With traffic that stays near: `PreferClose` and its kin.
    pub fn distribution(self, value: &str) -> Self {
        self.annotation("networking.istio.io/traffic-distribution", value)
    }

    /// With an annotation.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Served by the workloads with this label rather than by endpoints of its own.
    pub fn selects(mut self, label: &str, value: &str) -> Self {
        self.selector = Some((label.to_owned(), value.to_owned()));
        self
    }

    /// The document.
    pub fn yaml(&self) -> String {
        let name = self.host.replace('.', "-").replace('*', "any");
        let mut text = format!(
            "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: {name}\n  namespace: default\n"
        );
        if !self.annotations.is_empty() {
            text.push_str("  annotations:\n");
        }
        for (name, value) in &self.annotations {
            let _ = writeln!(text, "    {name}: \"{value}\"");
        }
        let _ = writeln!(text, "spec:\n  hosts: [\"{}\"]\n  location: MESH_INTERNAL", self.host);
        let _ = writeln!(text, "  resolution: STATIC\n  ports:");
        let _ = writeln!(text, "  - {{number: {}, name: main, protocol: {}}}", self.port, self.protocol);
        if let Some((label, value)) = &self.selector {
            let _ = writeln!(text, "  workloadSelector: {{labels: {{{label}: {value}}}}}");
        } else if self.endpoints.is_empty() {
            text.push_str("  endpoints: []\n");
        } else {
            text.push_str("  endpoints:\n");
        }
        for endpoint in &self.endpoints {
            let _ = writeln!(text, "  - {endpoint}");
        }
        text
    }

    /// The name of its xDS cluster.
    pub fn cluster(&self) -> String {
        outbound(self.port, &self.host)
    }
}

/// The name of an xDS cluster.
pub fn outbound(port: u16, host: &str) -> String {
    format!("outbound|{port}||{host}")
}

/// An address that nobody listens on: 127.0.0.N, port 9.
pub fn nowhere(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], 9))
}
