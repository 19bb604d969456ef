//! A kubeconfig of another origin, reduced to what a connection may use.
//!
//! [`VettedKubeconfig::parse`] is the only constructor: what it returns holds no program, no path and no address inside this
//! machine beyond what the operator allows. It reports all faults at once, up to 16, and never a value.

mod fields;
mod login;
mod pem;
mod select;
mod server;

use std::fmt;

use jiff::Timestamp;
use tributary_registry_api::Credential;

use crate::allowed::Allowed;
use crate::refusal::{Faults, Refused, unreadable};
use crate::yaml::{self, Node};
use fields::{Fields, ROOT};
use login::Login;
pub use login::{ClientCertificate, Impersonation, Password};
use server::Server;

/// Size limit of a kubeconfig.
pub const MAX_BYTES: usize = 256 << 10;

/// Times between which a credential is valid, as it states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Time at which it was issued, if it states one.
    pub from: Option<Timestamp>,
    /// Time at which it expires.
    pub until: Timestamp,
}

impl Validity {
    /// Returns the validity of a token and of a client certificate in PEM, whichever ends first; `None` if none states it.
    #[must_use]
    pub fn of(token: Option<&Credential>, certificate: Option<&Credential>) -> Option<Self> {
        login::earliest(token, certificate)
    }
}

/// Kubeconfig with one server and one login. Its `Debug` shows the server and how it authenticates, and no credential.
#[derive(Clone, PartialEq, Eq)]
pub struct VettedKubeconfig {
    server: Server,
    login: Login,
}

impl VettedKubeconfig {
    /// Reads and vets a kubeconfig.
    pub fn parse(bytes: &[u8], allowed: &Allowed) -> Result<Self, Refused> {
        if bytes.len() > MAX_BYTES {
            return Err(unreadable("is larger than 256 KiB").into());
        }
        Self::vet(&yaml::one(bytes)?, allowed)
    }
    fn vet(document: &Node, allowed: &Allowed) -> Result<Self, Refused> {
        let mut faults = Faults::default();
        if document.value.entries().is_none() {
            return Err(unreadable("is not a kubeconfig: it is not a map").into());
        }
        let root = Fields::read("", document, ROOT, allowed, &mut faults);
        for (name, want) in [("apiVersion", "v1"), ("kind", "Config")] {
            if root.text(name, &mut faults).is_some_and(|text| text != want) {
                faults.add(root.invalid(
                    name,
                    "is not that of a kubeconfig",
                    "write `apiVersion: v1` and `kind: Config`",
                ));
            }
        }
        let selected = select::select(&root, allowed, &mut faults);
        let vetted = selected.and_then(|selected| {
            let server = server::read(&selected.cluster, allowed, &mut faults);
            let login = login::read(&selected.user, allowed, &mut faults);
            Some(Self { server: server?, login: login? })
        });
        faults.conclude(vetted)
    }

    /// Returns the address of the server, `https://HOST[:PORT][/PATH]`.
    #[must_use]
    pub fn server(&self) -> &str {
        self.server.url.as_str().trim_end_matches('/')
    }
    /// Returns the certificates of the server's authorities in PEM; `None` only where the operator allows a server that is not checked.
    #[must_use]
    pub fn authorities(&self) -> Option<&[u8]> {
        self.server.authorities.as_deref()
    }
    /// Returns the name in the server's certificate, if it is not the host of its address.
    #[must_use]
    pub fn tls_server_name(&self) -> Option<&str> {
        self.server.tls_name.as_deref()
    }
    /// Returns the proxy before the server.
    #[must_use]
    pub fn proxy(&self) -> Option<&str> {
        self.server.proxy.as_ref().map(url::Url::as_str)
    }
    /// Returns the token.
    #[must_use]
    pub const fn token(&self) -> Option<&Credential> {
        self.login.token.as_ref()
    }
    /// Returns the client certificate.
    #[must_use]
    pub const fn certificate(&self) -> Option<&ClientCertificate> {
        self.login.certificate.as_ref()
    }
    /// Returns user and password.
    #[must_use]
    pub const fn password(&self) -> Option<&Password> {
        self.login.password.as_ref()
    }
    /// Returns the user as whom requests act.
    #[must_use]
    pub const fn impersonation(&self) -> Option<&Impersonation> {
        self.login.acts_as.as_ref()
    }
    /// Returns the time at which the first credential expires; `None` if none does, or its expiry is not readable.
    #[must_use]
    pub fn expires(&self) -> Option<Timestamp> {
        self.login.validity.map(|validity| validity.until)
    }
    /// Returns the validity of the credential that expires first, as it states it: it is shown, and nothing is decided by it.
    #[must_use]
    pub const fn validity(&self) -> Option<Validity> {
        self.login.validity
    }
    /// Returns namespace and name of the service account whose token it has, as the token states them.
    #[must_use]
    pub fn account(&self) -> Option<(String, String)> {
        login::account(self.token()?)
    }
    /// Returns how it authenticates: `token`, `client certificate` and `password`, in this order.
    #[must_use]
    pub fn authentication(&self) -> Vec<&'static str> {
        let ways = [
            ("token", self.login.token.is_some()),
            ("client certificate", self.login.certificate.is_some()),
            ("password", self.login.password.is_some()),
        ];
        ways.into_iter().filter(|(_, is_set)| *is_set).map(|(way, _)| way).collect()
    }
}

impl fmt::Debug for VettedKubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VettedKubeconfig({} by {})", self.server(), self.authentication().join(" and "))
    }
}
