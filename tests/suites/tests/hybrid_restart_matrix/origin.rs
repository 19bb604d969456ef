//! What the matrix needs of a source, whatever its kind.

use std::net::SocketAddr;

use anyhow::Result;
use serde_json::Value;
use tributary_suites::consul::PORT;
use tributary_suites::outbound;

use crate::table::Source;

/// Services with the last bytes of their addresses.
pub(crate) const SERVICES: [(&str, &[u8]); 2] = [("pay", &[10, 11]), ("cart", &[20])];
/// A service that changes when a test wants to see that changes arrive.
pub(crate) const MARK: &str = "mark";
/// The last byte of its address, before and after.
pub(crate) const MARKED: [u8; 2] = [30, 31];

/// A source that a test fills, takes away and gives back.
pub(crate) trait Origin {
    /// The registry that reads it.
    fn registry(&self) -> &'static str;
    /// Its entry of the configuration.
    fn config(&self) -> Value;
    /// What its hosts end in.
    fn domain(&self) -> &'static str;
    /// Makes these the endpoints of a service.
    async fn set(&self, name: &str, last: &[u8]) -> Result<()>;
    /// Brings the source into a state.
    async fn take(&self, source: Source) -> Result<()>;
    /// Ends that state; of one that was empty, nothing is put back.
    async fn give_back(&self, source: Source) -> Result<()>;

    /// Puts everything there.
    async fn fill(&self) -> Result<()> {
        for (name, last) in SERVICES {
            self.set(name, last).await?;
        }
        self.set(MARK, &MARKED[..1]).await
    }
    /// The name of a service's assignment.
    fn assignment(&self, name: &str) -> String {
        outbound(PORT, &format!("{name}.{}", self.domain()))
    }
}

/// An address that nothing listens on.
pub(crate) fn host(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 77, 0, last], PORT))
}
