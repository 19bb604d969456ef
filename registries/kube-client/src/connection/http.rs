//! HTTP client of a connection: HTTP/2 where the API server offers it by ALPN, else HTTP/1.1; HTTP/1.1 alone for upgrades.
//!
//! [`super::Connection`] builds one client per credential. With HTTP/2 every watch, probe and write of a cluster shares one TCP
//! connection, so a hundred clusters are a hundred sockets, and a dead peer is found by one PING for all watches.

use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Error;
use kube::client::{ConfigExt as _, RustlsTlsError};

use super::refusals::Refusals;

/// Time limit of a TCP and TLS connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit of a write on a connection.
const WRITE: Duration = Duration::from_secs(30);
/// Time between HTTP/2 PINGs, also while no request is open.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time limit of the answer to a PING; then the connection and its requests fail.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of one response that may wait for its reader (RFC 9113, 5.2). A watch that is read slowly holds back no more than this.
const STREAM_WINDOW: u32 = 1 << 19;
/// Bytes of all responses of a connection that may wait: enough for 32 slow readers, so that one does not delay another.
const CONNECTION_WINDOW: u32 = 1 << 24;

/// Versions of HTTP that a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    /// HTTP/2 and HTTP/1.1.
    Any,
    /// HTTP/1.1: a request that upgrades to a WebSocket needs it.
    Http1,
}

/// Builds the client for `config`: `connector` opens the TCP connections. `refusals` sees every answer.
pub(super) fn client<C>(
    config: &kube::Config,
    connector: C,
    refusals: &Refusals,
    versions: Versions,
) -> Result<kube::Client, Error>
where
    C: tower::Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    let mut connector = TimeoutConnector::new(secured(config, connector, versions)?);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_write_timeout(Some(WRITE));
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector);
    let service = tower::ServiceBuilder::new()
        .layer(refusals.layer())
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace.clone()))
}

/// Adds TLS with the certificates of `config`. kube's own connector offers no HTTP/2.
fn secured<C>(config: &kube::Config, connector: C, versions: Versions) -> Result<HttpsConnector<C>, Error> {
    let builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    let builder = match config.tls_server_name.clone() {
        Some(name) => {
            let name =
                name.try_into().map_err(RustlsTlsError::InvalidServerName).map_err(Error::RustlsTls)?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    Ok(match versions {
        Versions::Any => builder.enable_http1().enable_http2().wrap_connector(connector),
        Versions::Http1 => builder.enable_http1().wrap_connector(connector),
    })
}
