//! Flags of `console`.

use std::net::SocketAddr;

use clap::Args;

use super::ServerArgs;
use crate::config::shape::ip_port;

/// Flags of `console`.
#[derive(Debug, Clone, Args)]
pub struct ConsoleArgs {
    /// Loopback address of the port-forward, for a server in a cluster
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = loopback)]
    pub listen: SocketAddr,
    /// Print the address only, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// Server to request.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Parses a loopback address: a process that reaches the port reaches the server.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = ip_port(text)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!("{address} is not a loopback address; use one such as 127.0.0.1:15014"))
}
