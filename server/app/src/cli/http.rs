//! HTTP client of the admin surface: one connection per request, bounded in time and size.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Method, RequestBuilder, StatusCode, redirect};
use tributary_model::Code;

use crate::args::ServerArgs;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;

/// Default address of the server.
pub const DEFAULT: &str = "http://127.0.0.1:15014";
/// Largest answer that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Admin address of a server.
#[derive(Debug, Clone)]
pub struct Server {
    authority: String,
    timeout: Duration,
    client: Client,
}

impl Server {
    /// Returns the server of `--server`, else `TRIBUTARY_SERVER`, else the default.
    pub fn find(args: &ServerArgs, env: &Environment) -> Result<Self, CommandError> {
        let url = args.server.as_deref().or_else(|| env.get("TRIBUTARY_SERVER")).unwrap_or(DEFAULT);
        Self::parse(url, args.timeout.get())
    }
    /// Parses `http://HOST:PORT` or `HOST:PORT`.
    pub fn parse(url: &str, timeout: Duration) -> Result<Self, CommandError> {
        let wrong = |why: &str| {
            let message = format!("the server's address `{url}` {why}");
            CommandError::new(Exit::Usage, Code::FLAG_INVALID, message)
                .next(format!("use a URL such as {DEFAULT}"))
        };
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(wrong("does not start with http://")),
            None => url,
        };
        let authority: http::uri::Authority =
            rest.trim_end_matches('/').parse().map_err(|_| wrong("is not a host and port"))?;
        if authority.as_str().contains('@') {
            return Err(CommandError::new(
                Exit::Usage,
                Code::FLAG_INVALID,
                "the server's address contains a user",
            ));
        }
        let port = authority.port_u16().unwrap_or(15014);
        Ok(Self { authority: format!("{}:{port}", authority.host()), timeout, client: client()? })
    }
    /// Sends a GET and returns the body; a status other than success is an error.
    pub async fn get(&self, path: &str, query: &[(&str, Option<&str>)]) -> Result<Bytes, CommandError> {
        self.within(self.timeout, Method::GET, path, query).await
    }
    /// Sends a POST that changes something and returns the body.
    pub async fn post(&self, path: &str, query: &[(&str, Option<&str>)]) -> Result<Bytes, CommandError> {
        self.within(self.timeout, Method::POST, path, query).await
    }
    /// Sends a GET that the server may delay until something changes.
    pub async fn get_held(
        &self,
        held: Duration,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<Bytes, CommandError> {
        self.within(self.timeout + held, Method::GET, path, query).await
    }
    async fn within(
        &self,
        limit: Duration,
        method: Method,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<Bytes, CommandError> {
        let request = self.request(method, path, query).timeout(limit);
        match receive(request).await {
            Ok(Some((status, body))) => judge(status, body),
            Ok(None) => Err(self.unreachable(&format!("the answer is larger than {MAX_BYTES} bytes"))),
            Err(e) if e.is_timeout() => Err(CommandError {
                exit: Exit::TimedOut,
                code: Some(Code::SERVER_UNREACHABLE),
                message: format!("http://{} sent no answer within {limit:?}", self.authority),
                next: "increase --timeout".to_owned(),
            }),
            Err(e) => Err(self.unreachable(&root_cause(&e))),
        }
    }
    fn request(&self, method: Method, path: &str, query: &[(&str, Option<&str>)]) -> RequestBuilder {
        let pairs: Vec<(&str, &str)> =
            query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
        self.client.request(method, format!("http://{}{path}", self.authority)).query(&pairs)
    }
    fn unreachable(&self, why: &str) -> CommandError {
        let message = format!("cannot reach a server at http://{}: {why}", self.authority);
        CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, message)
    }
}

/// Returns a client of plain HTTP that follows no redirect, uses no proxy and keeps no idle connection.
fn client() -> Result<Client, CommandError> {
    // The builder prepares TLS for every client, which needs a provider; an empty set of authorities skips the
    // system's files.
    install_crypto();
    let builder = Client::builder().http1_only().no_proxy().redirect(redirect::Policy::none());
    let client = builder.pool_max_idle_per_host(0).tls_certs_only([]).build();
    client.map_err(|e| CommandError::plain(format!("cannot create an HTTP client: {}", root_cause(&e))))
}

/// Sends the request and reads the answer; `None` if the body is larger than the bound.
async fn receive(request: RequestBuilder) -> reqwest::Result<Option<(StatusCode, Bytes)>> {
    let mut response = request.send().await?;
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some((response.status(), body.freeze())))
}

/// Returns the text of the innermost error; the outer ones only repeat the URL.
fn root_cause(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |e| (*e).source()).last().map(ToString::to_string).unwrap_or_default()
}

fn judge(status: StatusCode, body: Bytes) -> Result<Bytes, CommandError> {
    if status.is_success() {
        return Ok(body);
    }
    let problem: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let message = problem.as_ref().and_then(|p| p.get("message")?.as_str()).map(ToOwned::to_owned);
    let message = message.unwrap_or_else(|| {
        let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
        format!("the server returned {status}: {}", text.trim())
    });
    Err(match status {
        StatusCode::NOT_FOUND => CommandError::new(Exit::NotFound, Code::NOT_FOUND, message),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => CommandError {
            exit: Exit::NotAuthorised,
            code: None,
            message,
            next: "run the command on the server's machine, with the admin address as --server".to_owned(),
        },
        StatusCode::BAD_REQUEST => {
            CommandError { exit: Exit::Usage, code: None, message, next: String::new() }
        }
        _ => CommandError::plain(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_address_accepts_a_url_or_host_and_port() {
        for (url, authority) in [
            ("http://127.0.0.1:1", "127.0.0.1:1"),
            ("localhost:2/", "localhost:2"),
            ("http://[::1]:3", "[::1]:3"),
            ("localhost", "localhost:15014"),
        ] {
            assert_eq!(Server::parse(url, Duration::ZERO).unwrap().authority, authority, "{url}");
        }
        for url in ["https://x", "http://", "http://user:secret@x", "a b"] {
            let failure = Server::parse(url, Duration::ZERO).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{url}");
        }
        let failure = Server::parse("http://user:secret@x", Duration::ZERO).unwrap_err();
        assert!(!failure.to_string().contains("secret"), "{failure}");
    }

    #[test]
    fn query_values_are_escaped() {
        let server = Server::parse("127.0.0.1:1", Duration::ZERO).unwrap();
        let url = |query: &[(&str, Option<&str>)]| {
            server.request(Method::GET, "/debug/explain", query).build().unwrap().url().to_string()
        };
        let query = [("client", Some("sidecar~10.0.0.1~a b&c")), ("host", None)];
        assert_eq!(url(&query), "http://127.0.0.1:1/debug/explain?client=sidecar%7E10.0.0.1%7Ea+b%26c");
        assert_eq!(url(&[]), "http://127.0.0.1:1/debug/explain");
    }

    #[tokio::test]
    async fn unreachable_server_error_names_the_cause() {
        let server = Server::parse("127.0.0.1:1", Duration::from_secs(5)).unwrap();
        let failure = server.get("/debug", &[]).await.unwrap_err();
        assert_eq!(failure.code, Some(Code::SERVER_UNREACHABLE));
        assert!(failure.message.ends_with("Connection refused (os error 111)"), "{failure}");
    }

    #[test]
    fn http_statuses_map_to_exit_codes() {
        let exit = |status| judge(status, Bytes::from_static(b"{\"message\":\"why\"}")).unwrap_err();
        for (status, code) in [
            (StatusCode::NOT_FOUND, Exit::NotFound),
            (StatusCode::FORBIDDEN, Exit::NotAuthorised),
            (StatusCode::BAD_REQUEST, Exit::Usage),
            (StatusCode::SERVICE_UNAVAILABLE, Exit::Failed),
        ] {
            let failure = exit(status);
            assert_eq!((failure.exit, failure.message.as_str()), (code, "why"), "{status}");
        }
    }
}
