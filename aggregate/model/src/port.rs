//! Port numbers and names, and what a service port leads to.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::id::InvalidName;
use crate::protocol::Protocol;

/// A TCP or UDP port, 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct PortNumber(NonZeroU16);

impl PortNumber {
    /// Refuses 0 and what does not fit 16 bits.
    pub fn new(number: u32) -> Result<Self, InvalidName> {
        u16::try_from(number)
            .ok()
            .and_then(NonZeroU16::new)
            .map(Self)
            .ok_or_else(|| InvalidName::new("port", &number.to_string(), "is not between 1 and 65535"))
    }
    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}
impl std::fmt::Display for PortNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A port's name, up to 63 visible characters; may be empty where its source allows that.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct PortName(Arc<str>);

impl PortName {
    /// Checks length and characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidName> {
        let text = text.as_ref();
        if text.len() > 63 || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(InvalidName::new("port name", text, "is not up to 63 visible ASCII characters"));
        }
        Ok(Self(text.into()))
    }
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a service port leads on the workloads that it selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Target {
    /// The service port's own number.
    Same,
    /// A number.
    Number(PortNumber),
    /// The workload's port of that name.
    Name(PortName),
    /// A workload's port named like the service port, then this number, then the service port's
    /// own number (ServiceEntry's order, `registries.md` 4.2).
    NamedOr(Option<PortNumber>),
}

/// One port of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ServicePort {
    /// What clients connect to.
    pub number: PortNumber,
    /// The declaration's own name for it.
    pub name: PortName,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it leads.
    pub target: Target,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_overflow_are_no_ports() {
        assert!(PortNumber::new(0).is_err());
        assert!(PortNumber::new(65536).is_err());
        assert_eq!(PortNumber::new(65535).unwrap().get(), 65535);
    }
}
