//! Protocols of service ports and their detection (`docs/explanation/model.md`).

/// Protocol of a service port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/2, cleartext or not.
    Http2,
    /// gRPC.
    Grpc,
    /// gRPC-Web.
    GrpcWeb,
    /// Port of an HTTP proxy.
    HttpProxy,
    /// HTTPS, passed through by SNI.
    Https,
    /// TLS, passed through by SNI.
    Tls,
    /// Plain TCP.
    Tcp,
    /// UDP; never served over xDS.
    Udp,
    /// MongoDB, as TCP.
    Mongo,
    /// Redis, as TCP.
    Redis,
    /// MySQL, as TCP.
    Mysql,
    /// Not declared; the client may detect it.
    Unspecified,
}

impl Protocol {
    /// Parses a protocol name in any case; `None` for an unknown name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        const NAMES: [(&str, Protocol); 12] = [
            ("http", Protocol::Http),
            ("http2", Protocol::Http2),
            ("grpc", Protocol::Grpc),
            ("grpc-web", Protocol::GrpcWeb),
            ("http_proxy", Protocol::HttpProxy),
            ("https", Protocol::Https),
            ("tls", Protocol::Tls),
            ("tcp", Protocol::Tcp),
            ("udp", Protocol::Udp),
            ("mongo", Protocol::Mongo),
            ("redis", Protocol::Redis),
            ("mysql", Protocol::Mysql),
        ];
        NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|&(_, p)| p)
    }

    /// Detects the protocol of a ServiceEntry port from its declared name alone.
    #[must_use]
    pub fn from_service_entry(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::Unspecified)
    }

    /// Detects the protocol of a Kubernetes port: UDP, then `appProtocol`, else the port's name up to its
    /// first `-`, then the well-known port numbers of server-first protocols.
    #[must_use]
    pub fn from_kubernetes(protocol: &str, app_protocol: Option<&str>, name: &str, number: u16) -> Self {
        if protocol.eq_ignore_ascii_case("udp") {
            return Self::Udp;
        }
        match app_protocol {
            Some("kubernetes.io/h2c") => return Self::Http2,
            Some("kubernetes.io/ws") => return Self::Http,
            // The client encrypts by itself, so a proxy cannot read requests.
            Some("kubernetes.io/wss") => return Self::Https,
            _ => {}
        }
        Self::from_candidate(app_protocol.unwrap_or(name), number)
    }

    fn from_candidate(text: &str, number: u16) -> Self {
        if text.get(..8).is_some_and(|head| head.eq_ignore_ascii_case("grpc-web")) {
            return Self::GrpcWeb;
        }
        let head = text.split('-').next().unwrap_or(text);
        match Self::parse(head) {
            Some(found) => found,
            None if matches!(number, 25 | 53 | 3306 | 27017) => Self::Tcp,
            None => Self::Unspecified,
        }
    }

    /// Whether requests can be routed by host.
    #[must_use]
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Http2 | Self::Grpc | Self::GrpcWeb | Self::HttpProxy)
    }
    /// Whether upstream connections are HTTP/2.
    #[must_use]
    pub const fn is_http2(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc | Self::GrpcWeb)
    }
    /// Whether connections can be routed by SNI.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Https | Self::Tls)
    }
    /// Display name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Http2 => "HTTP2",
            Self::Grpc => "GRPC",
            Self::GrpcWeb => "GRPC-Web",
            Self::HttpProxy => "HTTP_PROXY",
            Self::Https => "HTTPS",
            Self::Tls => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Mongo => "Mongo",
            Self::Redis => "Redis",
            Self::Mysql => "MySQL",
            Self::Unspecified => "unspecified",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_detection_follows_its_order() {
        let cases: [(&str, Option<&str>, &str, u16, Protocol); 14] = [
            ("UDP", Some("http"), "http", 80, Protocol::Udp),
            ("TCP", Some("kubernetes.io/h2c"), "x", 80, Protocol::Http2),
            ("TCP", Some("kubernetes.io/ws"), "x", 80, Protocol::Http),
            ("TCP", Some("kubernetes.io/wss"), "x", 80, Protocol::Https),
            ("TCP", Some("grpc"), "http", 80, Protocol::Grpc),
            ("TCP", None, "grpc-web-x", 80, Protocol::GrpcWeb),
            ("TCP", None, "GRPC-web", 80, Protocol::GrpcWeb),
            ("TCP", None, "http-main", 80, Protocol::Http),
            ("TCP", Some("http2-foo"), "tcp", 80, Protocol::Http2),
            ("TCP", None, "main", 3306, Protocol::Tcp),
            ("TCP", None, "main", 8080, Protocol::Unspecified),
            ("SCTP", None, "tcp", 1, Protocol::Tcp),
            ("TCP", None, "", 53, Protocol::Tcp),
            ("TCP", None, "http", 53, Protocol::Http),
        ];
        for (l4, app, name, number, want) in cases {
            assert_eq!(
                Protocol::from_kubernetes(l4, app, name, number),
                want,
                "{l4} {app:?} {name} {number}"
            );
        }
    }

    #[test]
    fn service_entry_ports_use_the_declared_name() {
        assert_eq!(Protocol::from_service_entry("gRPC"), Protocol::Grpc);
        assert_eq!(Protocol::from_service_entry("nonsense"), Protocol::Unspecified);
        assert_eq!(Protocol::from_service_entry(""), Protocol::Unspecified);
    }
}
