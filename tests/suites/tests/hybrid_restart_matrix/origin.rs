//! The interface that the matrix needs of a source of any kind.

use std::net::SocketAddr;

use anyhow::Result;
use serde_json::Value;
use tributary_suites::consul::PORT;
use tributary_suites::outbound;

use crate::table::Source;

/// Services with the last bytes of their addresses.
pub(crate) const SERVICES: [(&str, &[u8]); 2] = [("pay", &[10, 11]), ("cart", &[20])];
/// A service that changes when a test checks that changes arrive.
pub(crate) const MARK: &str = "mark";
/// The last byte of its address, before and after.
pub(crate) const MARKED: [u8; 2] = [30, 31];

/// A source that a test fills, makes unavailable and restores.
pub(crate) trait Origin {
    /// Returns the name of the registry that reads it.
    fn registry(&self) -> &'static str;
    /// Returns its entry of the configuration.
    fn config(&self) -> Value;
    /// Returns the suffix of its hosts.
    fn domain(&self) -> &'static str;
    /// Makes these the endpoints of a service.
    async fn set(&self, name: &str, last: &[u8]) -> Result<()>;
    /// Brings the source into a state.
    async fn take(&self, source: Source) -> Result<()>;
    /// Ends that state; an emptied source stays empty.
    async fn give_back(&self, source: Source) -> Result<()>;

    /// Creates all services.
    async fn fill(&self) -> Result<()> {
        for (name, last) in SERVICES {
            self.set(name, last).await?;
        }
        self.set(MARK, &MARKED[..1]).await
    }
    /// Returns the name of a service's assignment.
    fn assignment(&self, name: &str) -> String {
        outbound(PORT, &format!("{name}.{}", self.domain()))
    }
}

/// Returns an address without a listener.
pub(crate) fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, last], PORT))
}
