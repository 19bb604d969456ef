//! Addresses of keys: `http` or `https`, with the host of a service.

use tributary_model::{Hostname, KeysUri, PortNumber};

/// Longest address, as in Istio.
pub(crate) const LONGEST: usize = 2_048;

/// What to correct in an address with a user, which no message repeats: it may have a password.
pub(crate) const WITHOUT_USER: &str =
    "remove the user and the password, because sidecars fetch keys without them";

/// Reads an address, or returns what to correct.
pub(crate) fn read(text: &str) -> Result<KeysUri, &'static str> {
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.len() > LONGEST || !is_visible {
        return Err("write at most 2048 visible characters of ASCII");
    }
    let (is_tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return Err("begin it with http:// or https://"),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err(WITHOUT_USER);
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port_of(port)),
        None => (authority, PortNumber::new(if is_tls { 443 } else { 80 }).ok()),
    };
    let host = Hostname::new(host).ok().filter(|host| !host.is_wildcard());
    let host = host.ok_or("write the host of a service after the scheme, and a path that begins with /")?;
    let port = port.ok_or("write a port from 1 to 65535")?;
    Ok(KeysUri { uri: text.into(), is_tls, host, port })
}

fn port_of(text: &str) -> Option<PortNumber> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse::<u32>().ok().filter(|_| is_number).and_then(|port| PortNumber::new(port).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_host_and_a_port() {
        for (text, want) in [
            ("http://keys.test/jwks", (false, "keys.test", 80)),
            ("https://keys.test", (true, "keys.test", 443)),
            ("https://KEYS.test:8443/a?b=c#d", (true, "keys.test", 8443)),
            ("http://keys:1/", (false, "keys", 1)),
        ] {
            let uri = read(text).unwrap();
            assert_eq!((uri.is_tls, uri.host.as_str(), uri.port.get()), want, "{text}");
            assert_eq!(&*uri.uri, text);
        }
        for text in [
            "",
            "keys.test/jwks",
            "HTTP://keys.test/",
            "ftp://keys.test/",
            "http://",
            "http:///jwks",
            "http://user@keys.test/",
            "http://user:text@keys.test/",
            "http://keys.test?x=y",
            "http://keys.test#x",
            "http://keys.test:/",
            "http://keys.test:0/",
            "http://keys.test:65536/",
            "http://keys.test:+80/",
            "http://[::1]/",
            "http://*.test/",
            "http://keys.test/a b",
            "http://keys.test/\n",
            "http://kéys.test/",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&format!("http://keys.test/{}", "a".repeat(LONGEST))).is_err());
    }
}
