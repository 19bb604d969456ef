//! Port numbers and names, and the target ports of service ports.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::id::InvalidName;
use crate::protocol::Protocol;

/// TCP or UDP port, 1 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct PortNumber(NonZeroU16);

impl PortNumber {
    /// Port of plain HTTP.
    pub const HTTP: Self = match NonZeroU16::new(80) {
        Some(number) => Self(number),
        None => Self(NonZeroU16::MIN),
    };

    /// Checks the number; fails for 0 and for numbers above 65535.
    pub fn new(number: u32) -> Result<Self, InvalidName> {
        u16::try_from(number)
            .ok()
            .and_then(NonZeroU16::new)
            .map(Self)
            .ok_or_else(|| InvalidName::new("port", &number.to_string(), "is not between 1 and 65535"))
    }
    /// Returns the number.
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

/// Name of a port: up to 63 visible ASCII characters; empty if the source allows unnamed ports.
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
    /// Name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Target port of a service port on the selected workloads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Target {
    /// The service port's own number.
    Same,
    /// This number.
    Number(PortNumber),
    /// The workload's port of this name.
    Name(PortName),
    /// The workload's port with the service port's name, then this number, then the service port's
    /// own number: the order of ServiceEntry (`docs/reference/service-entry.md`).
    NamedOr(Option<PortNumber>),
}

/// One port of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct ServicePort {
    /// Number that clients connect to.
    pub number: PortNumber,
    /// Name in the declaration.
    pub name: PortName,
    /// Protocol.
    pub protocol: Protocol,
    /// Target port.
    pub target: Target,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_numbers_outside_the_range_are_rejected() {
        assert!(PortNumber::new(0).is_err());
        assert!(PortNumber::new(65536).is_err());
        assert_eq!(PortNumber::new(65535).unwrap().get(), 65535);
    }
}
