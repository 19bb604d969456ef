//! Names of registries, clusters, namespaces, networks, nodes and identities.
//!
//! Every crate calls the constructors where input enters and passes the checked types on. Names sort by
//! text, so sorted output is equal on every replica.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Error: a text is not a valid name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} {why}")]
pub struct InvalidName {
    /// Kind of name, for messages (`registry name`).
    pub what: &'static str,
    /// Text, cut to 80 characters.
    pub text: String,
    /// Fault, as the end of a sentence (`is empty`).
    pub why: &'static str,
}

impl InvalidName {
    pub(crate) fn new(what: &'static str, text: &str, why: &'static str) -> Self {
        Self { what, text: text.chars().take(80).collect(), why }
    }
}

fn check(what: &'static str, text: &str, max: usize, ok: fn(u8) -> bool) -> Result<(), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::new(what, text, "is empty"));
    }
    if text.len() > max {
        return Err(InvalidName::new(what, text, "is too long"));
    }
    if !text.bytes().all(ok) {
        let why = match ok(b'/') {
            true => "has a character other than visible ASCII",
            false => "has a character other than letters, digits, `-`, `.` and `_`",
        };
        return Err(InvalidName::new(what, text, why));
    }
    Ok(())
}

const fn name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')
}

const fn visible_byte(b: u8) -> bool {
    b.is_ascii_graphic()
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $max:literal, $ok:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the text; the error names the text and the broken rule.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
                let text = text.as_ref();
                check($what, text, $max, $ok)?;
                Ok(Self(text.into()))
            }
            /// Returns the text, shared.
            #[must_use]
            pub fn to_shared(&self) -> Arc<str> {
                Arc::clone(&self.0)
            }
            /// Returns a value that equals no name. It stands for every name that makes no difference to an answer.
            #[must_use]
            pub fn unnamed() -> Self {
                Self("".into())
            }
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
            /// Whether another handle to the same name exists. Intern tables drop names that only they hold.
            #[must_use]
            pub fn is_shared(&self) -> bool {
                Arc::strong_count(&self.0) > 1
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
        impl std::str::FromStr for $type {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// Name of a registry, unique in one server (`east`, `file`).
    RegistryName, "registry name", 63, name_byte
);
name!(
    /// Kubernetes cluster, or the equivalent of another provider.
    ClusterId, "cluster id", 253, name_byte
);
name!(
    /// Namespace of services and workloads.
    Namespace, "namespace", 63, name_byte
);
name!(
    /// Network. Addresses inside one network reach each other without a gateway.
    NetworkId, "network", 253, name_byte
);
name!(
    /// Node (machine) that a workload runs on.
    NodeName, "node name", 253, name_byte
);
name!(
    /// Identity of a source, such as a cluster's UID. A different value under the same name means a different source.
    Fingerprint, "source identity", 512, visible_byte
);
name!(
    /// Part of a registry that fails as one: a namespace set, a datacenter, a directory.
    Scope, "scope", 512, visible_byte
);

/// Workload identity: a SPIFFE URI or another subject alternative name. One pointer wide,
/// because every address carries one.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(Arc<Box<str>>);

impl Identity {
    /// Accepts visible ASCII text of up to 2,048 bytes.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        let text = text.as_ref();
        check("identity", text, 2048, visible_byte)?;
        Ok(Self(Arc::new(text.into())))
    }
    /// Builds `spiffe://<trust domain>/ns/<namespace>/sa/<account>`.
    pub fn spiffe(trust_domain: &str, namespace: &Namespace, account: &str) -> Result<Self, InvalidName> {
        Self::new(format!("spiffe://{trust_domain}/ns/{namespace}/sa/{account}"))
    }
    /// Whether another handle to the same identity exists. Intern tables drop identities that only they hold.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    /// The identity as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl serde::Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Kind of source. Every adapter names its own; the constants are those of this repository.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct ProviderId(Cow<'static, str>);

impl ProviderId {
    /// Services and EndpointSlices of a Kubernetes cluster.
    pub const KUBERNETES: Self = Self(Cow::Borrowed("Kubernetes"));
    /// ServiceEntry, WorkloadEntry and WorkloadGroup, from files or custom resources.
    pub const SERVICE_ENTRY: Self = Self(Cow::Borrowed("ServiceEntry"));
    /// Consul datacenter.
    pub const CONSUL: Self = Self(Cow::Borrowed("Consul"));
    /// Configuration of the server itself (federated services, settings).
    pub const CONFIG: Self = Self(Cow::Borrowed("Config"));
    /// Host names of gateways, resolved by DNS.
    pub const DNS: Self = Self(Cow::Borrowed("DNS"));
    /// In-memory registry of the tests.
    pub const MEMORY: Self = Self(Cow::Borrowed("Memory"));

    /// Checks the text, of up to 63 bytes; the error names the text and the broken rule.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Result<Self, InvalidName> {
        let text = text.into();
        check("provider", &text, 63, name_byte)?;
        Ok(Self(text))
    }
    /// Display name, also part of shard names.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Identity of one registry; shared by all facts that it reports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct RegistryId {
    /// Name, unique in one server.
    pub name: RegistryName,
    /// Kind of source.
    pub provider: ProviderId,
    /// Cluster whose services it reports.
    pub cluster: ClusterId,
}

impl fmt::Display for RegistryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.cluster)
    }
}

/// Number of one run of a registry with one credential and configuration. 0 marks facts that a journal restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// Number of the next run.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}
impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected() {
        assert!(Namespace::new("shop").is_ok());
        for bad in ["", "a b", "a/b", "a\u{e9}", &"x".repeat(64)] {
            assert!(Namespace::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(Scope::new("dir:/etc/x").is_ok(), "a path is a valid scope");
        assert!(Scope::new("a\nb").is_err());
    }

    #[test]
    fn name_error_shows_the_kind_and_the_text() {
        let e = NetworkId::new("net a").unwrap_err().to_string();
        assert_eq!(e, r#"network "net a" has a character other than letters, digits, `-`, `.` and `_`"#);
    }

    #[test]
    fn provider_name_is_open_and_checked() {
        assert_eq!(ProviderId::new("Consul").unwrap(), ProviderId::CONSUL);
        assert_eq!(ProviderId::new("Nacos").unwrap().as_str(), "Nacos");
        for bad in ["", "a b", "a/b", &"x".repeat(64)] {
            assert!(ProviderId::new(bad.to_owned()).is_err(), "{bad:?} was accepted");
        }
    }
}
