//! Addresses of Consul agents and servers.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use reqwest::Url;

/// Longest path of a unix socket in bytes, which the kernel sets.
const MAX_SOCKET_PATH: usize = 107;

/// HTTP address of an agent or server, without user, query or secret; of an agent also a unix socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    url: Url,
    socket: Option<Arc<Path>>,
}

/// Invalid address. The text may hold a password and is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address {0}; write http://127.0.0.1:8500, https://consul.example.com:8501 or unix:///run/consul.sock"
)]
pub struct InvalidAddress(&'static str);

impl Address {
    /// Parses `host:port`, which means plain HTTP, or a URL.
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        Self::with_default_scheme(text, false)
    }
    /// Parses like [`Address::parse`]; without a scheme the address is `https` if `ssl`.
    pub fn with_default_scheme(text: &str, ssl: bool) -> Result<Self, InvalidAddress> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("unix://") {
            return Self::of_socket(path);
        }
        let full = match (text.contains("://"), ssl) {
            (true, _) => text.to_owned(),
            (false, true) => format!("https://{text}"),
            (false, false) => format!("http://{text}"),
        };
        let url = Url::parse(&full).map_err(|_| InvalidAddress("is neither a URL nor host and port"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidAddress("has a scheme other than http, https and unix"));
        }
        if !url.host_str().is_some_and(is_host) {
            return Err(InvalidAddress("has no valid host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidAddress("holds a user or password, which belongs in CONSUL_HTTP_AUTH"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidAddress("holds a query"));
        }
        if !text.contains("://") && text.contains('/') {
            return Err(InvalidAddress("has a path and no scheme such as http://"));
        }
        if authority(&full).ends_with(':') || url.port() == Some(0) {
            return Err(InvalidAddress("has no valid port"));
        }
        Ok(Self { url, socket: None })
    }
    /// Returns the address of a unix socket, over which requests are plain HTTP.
    fn of_socket(path: &str) -> Result<Self, InvalidAddress> {
        if !path.starts_with('/') {
            return Err(InvalidAddress("is a unix socket without an absolute path"));
        }
        if path.len() > MAX_SOCKET_PATH || path.contains('\0') {
            return Err(InvalidAddress("is not the path of a unix socket, which has at most 107 bytes"));
        }
        let url = Url::parse("http://localhost").map_err(|_| InvalidAddress("cannot be read"))?;
        Ok(Self { url, socket: Some(Path::new(path).into()) })
    }
    /// Returns whether the address uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.url.scheme() == "https"
    }
    /// Returns the path of the unix socket to connect to.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }
    /// Returns the host to connect to, an IPv6 address without brackets.
    #[must_use]
    pub fn dialled(&self) -> String {
        self.url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
    }
    /// Returns the URL of an endpoint below the address. Each part becomes one path segment.
    #[must_use]
    pub fn endpoint<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }
}

/// Returns the part of a URL between its scheme and its path.
fn authority(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

/// Whether a text is a DNS name or an IP address; URLs allow more characters.
fn is_host(text: &str) -> bool {
    text.starts_with('[')
        || text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "unix://{}", path.display()),
            None => f.write_str(self.url.as_str().trim_end_matches('/')),
        }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;
    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_host_and_port_or_url() {
        let cases = [
            ("127.0.0.1:8500", "http://127.0.0.1:8500"),
            ("http://consul:8500/", "http://consul:8500"),
            ("https://[2001:db8::1]:8501", "https://[2001:db8::1]:8501"),
            ("https://proxy.example.com/consul", "https://proxy.example.com/consul"),
            ("unix:///run/consul/http.sock", "unix:///run/consul/http.sock"),
        ];
        for (text, want) in cases {
            assert_eq!(Address::parse(text).unwrap().to_string(), want);
        }
        assert!(Address::with_default_scheme("consul:8501", true).unwrap().is_secure());
        assert!(!Address::with_default_scheme("http://consul:8500", true).unwrap().is_secure());
    }

    #[test]
    fn invalid_address_is_refused_without_its_password() {
        for bad in [
            "",
            "unix://run/consul.sock",
            "unix://",
            &format!("unix:///{}", "s".repeat(120)),
            "ftp://c:8500",
            "http://",
            "http://u:hunter2@c:8500",
            "u:hunter2@c:8500",
            "http://c:8500?token=hunter2",
            "c:8500?token=hunter2",
            "htp:/x",
            "http:/c",
            "http:c:8500",
            "nonsense://",
            "c:8500/prefix",
            "c:",
            "c:0",
            "http://c:",
            "https://:8501",
            "a,b",
            "a b:8500",
            "/run/consul.sock",
        ] {
            let error = Address::parse(bad).map(|address| address.to_string()).unwrap_err().to_string();
            assert!(!error.contains("hunter2") && error.contains("write http://"), "{error}");
        }
    }

    #[test]
    fn unix_socket_is_plain_http_whatever_the_default() {
        let address = Address::with_default_scheme("unix:///run/consul.sock", true).unwrap();
        assert_eq!(address.socket(), Some(Path::new("/run/consul.sock")));
        assert!(!address.is_secure() && Address::parse("c:8500").unwrap().socket().is_none());
        assert_eq!(address.endpoint(["v1", "status"]).as_str(), "http://localhost/v1/status");
    }

    #[test]
    fn every_name_is_one_path_segment() {
        let address = Address::parse("http://c:8500/prefix/").unwrap();
        let cases = [
            ("web", "/prefix/v1/health/service/web"),
            ("a/b#c d?e", "/prefix/v1/health/service/a%2Fb%23c%20d%3Fe"),
            ("gr\u{fc}n%2f", "/prefix/v1/health/service/gr%C3%BCn%252f"),
        ];
        for (name, want) in cases {
            let url = address.endpoint(["v1", "health", "service", name]);
            assert_eq!((url.path(), url.query(), url.fragment()), (want, None, None), "{name}");
        }
        for dots in [".", ".."] {
            let url = address.endpoint(["v1", "health", "service", dots]);
            assert!(url.path().starts_with("/prefix/v1/health/service"), "{dots} leads out: {url}");
        }
    }
}
