//! ServiceEntries for suites: one builder whose calls name only the relevant fields.

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
    /// Returns a ServiceEntry of that host with an HTTP port.
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

    /// Sets the protocol.
    pub fn protocol(mut self, protocol: &str) -> Self {
        protocol.clone_into(&mut self.protocol);
        self
    }

    /// Adds an endpoint without further fields.
    pub fn at(self, host: SocketAddr) -> Self {
        self.with(host, "")
    }

    /// Sets these endpoints.
    pub fn all(self, hosts: &[SocketAddr]) -> Self {
        hosts.iter().fold(self, |entry, host| entry.at(*host))
    }

    /// Adds an endpoint in a locality.
    pub fn near(self, host: SocketAddr, locality: &str) -> Self {
        self.with(host, &format!("locality: {locality}"))
    }

    /// Adds an endpoint with further fields, such as `weight: 0`.
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

    /// Sets the traffic distribution, such as `PreferClose`.
    pub fn distribution(self, value: &str) -> Self {
        self.annotation("networking.istio.io/traffic-distribution", value)
    }

    /// Adds an annotation.
    pub fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Selects the workloads with this label in place of inline endpoints.
    pub fn selects(mut self, label: &str, value: &str) -> Self {
        self.selector = Some((label.to_owned(), value.to_owned()));
        self
    }

    /// Returns the YAML document.
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

    /// Returns the name of its xDS cluster.
    pub fn cluster(&self) -> String {
        outbound(self.port, &self.host)
    }
}

/// Returns the name of an xDS cluster.
pub fn outbound(port: u16, host: &str) -> String {
    format!("outbound|{port}||{host}")
}

/// Returns an address without a listener: 127.0.0.N, port 9.
pub fn nowhere(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], 9))
}
