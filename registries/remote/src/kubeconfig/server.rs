//! The API server of a kubeconfig: its address, how it is recognized, and the proxy before it.

use rustls_pki_types::ServerName;
use tributary_model::Code;
use url::{Host, Url};

use super::fields::{CLUSTER, Fields};
use super::pem;
use super::select::Part;
use crate::address::Blocked;
use crate::allowed::Allowed;
use crate::refusal::{Faults, OptIn, Refusal};

/// Server with an address that may be dialled.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) url: Url,
    /// Certificates of its authorities in PEM; `None` only if the server is not checked.
    pub(super) authorities: Option<Vec<u8>>,
    /// Name in its certificate, if it is not the host of the URL.
    pub(super) tls_name: Option<String>,
    pub(super) proxy: Option<Url>,
}

/// Reads the cluster.
pub(super) fn read(part: &Part<'_>, allowed: &Allowed, faults: &mut Faults) -> Option<Server> {
    let fields = Fields::read(&part.path, part.node, CLUSTER, allowed, faults);
    let url = address(&fields, "server", &["https"], allowed, faults);
    if fields.get("server").is_none() {
        faults.add(fields.invalid("server", "is missing", HTTPS));
    }
    let proxy = address(&fields, "proxy-url", &["http", "https", "socks5"], allowed, faults);
    let tls_name = tls_name(&fields, faults);
    let authorities = authorities(&fields, faults);
    url.map(|url| Server { url, authorities, tls_name, proxy })
}

const HTTPS: &str = "write https://HOST:PORT";

/// Reads an address with one of these schemes, to a host that is not refused.
fn address(
    fields: &Fields<'_>,
    name: &str,
    schemes: &[&str],
    allowed: &Allowed,
    faults: &mut Faults,
) -> Option<Url> {
    let text = fields.text(name, faults)?;
    match parse(text, schemes) {
        Err(why) => {
            faults.add(fields.invalid(
                name,
                why,
                if name == "server" { HTTPS } else { "write http://HOST:PORT" },
            ));
            None
        }
        Ok(url) => match check(&url, allowed) {
            Ok(()) => Some(url),
            Err(blocked) => {
                faults.add(refused(fields.invalid(name, blocked.class.describe(), REACHABLE), blocked));
                None
            }
        },
    }
}

const REACHABLE: &str = "use the address at which other machines reach it";

fn refused(fault: Refusal, blocked: Blocked) -> Refusal {
    Refusal { code: Code::SERVER_ADDRESS_REFUSED, ..fault.allow(OptIn::ServerCidr(blocked.range)) }
}

fn parse(text: &str, schemes: &[&str]) -> Result<Url, &'static str> {
    // URL parsers drop white space and control characters without an error
    if !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("has characters that no address has");
    }
    let url = Url::parse(text).map_err(|_| "is not an address")?;
    if !schemes.contains(&url.scheme()) {
        return Err("has a scheme that is not allowed");
    }
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
        return Err("holds a user or password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("holds a query or fragment");
    }
    if url.port() == Some(0) || url.host().is_none() {
        return Err("has no valid host and port");
    }
    Ok(url)
}

fn check(url: &Url, allowed: &Allowed) -> Result<(), Blocked> {
    match url.host() {
        Some(Host::Ipv4(address)) => allowed.check(address.into()),
        Some(Host::Ipv6(address)) => allowed.check(address.into()),
        Some(Host::Domain(name)) => {
            name.parse().map_or_else(|_| allowed.check_name(name), |ip| allowed.check(ip))
        }
        None => Ok(()),
    }
}

fn tls_name(fields: &Fields<'_>, faults: &mut Faults) -> Option<String> {
    let name = fields.text("tls-server-name", faults)?;
    if ServerName::try_from(name).is_err() {
        faults.add(fields.invalid(
            "tls-server-name",
            "is not a DNS name or an IP address",
            "write the name in the server's certificate",
        ));
        return None;
    }
    Some(name.to_owned())
}

fn authorities(fields: &Fields<'_>, faults: &mut Faults) -> Option<Vec<u8>> {
    const NAME: &str = "certificate-authority-data";
    let insecure = fields.get("insecure-skip-tls-verify").is_some();
    let found = match (fields.text(NAME, faults), insecure) {
        (Some(_), true) => Err(("is set beside insecure-skip-tls-verify", "keep one of them")),
        (None, true) => return None,
        (None, false) if fields.has_any(&[NAME, "certificate-authority", "insecure-skip-tls-verify"]) => {
            return None;
        }
        (None, false) => {
            Err(("is missing, so that nothing identifies the server", "add the certificate of its authority"))
        }
        (Some(text), false) => pem::certificates(text).map_err(|why| (why, "write the base64 of a PEM file")),
    };
    match found {
        Ok(chain) => Some(chain.pem.expose().to_vec()),
        Err((why, next)) => {
            faults.add(fields.invalid(NAME, why, next));
            None
        }
    }
}
