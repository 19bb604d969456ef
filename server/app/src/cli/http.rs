//! HTTP client of the admin surface: one connection per request, bounded in time and size.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tributary_model::Code;

use crate::args::ServerArgs;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};

/// Default address of the server.
pub const DEFAULT: &str = "http://127.0.0.1:15014";
/// Largest answer that is read, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Admin address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    authority: String,
    timeout: Duration,
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
        Ok(Self { authority: format!("{}:{port}", authority.host()), timeout })
    }
    /// Sends a GET and returns the body; a status other than success is an error.
    pub async fn get(&self, path: &str, query: &[(&str, Option<&str>)]) -> Result<Bytes, CommandError> {
        self.within(self.timeout, &Method::GET, path, query).await
    }
    /// Sends a POST that changes something and returns the body.
    pub async fn post(&self, path: &str, query: &[(&str, Option<&str>)]) -> Result<Bytes, CommandError> {
        self.within(self.timeout, &Method::POST, path, query).await
    }
    /// Sends a GET that the server may delay until something changes.
    pub async fn get_held(
        &self,
        held: Duration,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<Bytes, CommandError> {
        self.within(self.timeout + held, &Method::GET, path, query).await
    }
    async fn within(
        &self,
        limit: Duration,
        method: &Method,
        path: &str,
        query: &[(&str, Option<&str>)],
    ) -> Result<Bytes, CommandError> {
        let target = target(path, query);
        match tokio::time::timeout(limit, self.ask(method, &target)).await {
            Ok(answer) => answer.and_then(|(status, body)| judge(status, body)),
            Err(_) => Err(CommandError {
                exit: Exit::TimedOut,
                code: Some(Code::SERVER_UNREACHABLE),
                message: format!("http://{} sent no answer within {limit:?}", self.authority),
                next: "increase --timeout".to_owned(),
            }),
        }
    }
    async fn ask(&self, method: &Method, target: &str) -> Result<(StatusCode, Bytes), CommandError> {
        let stream = TcpStream::connect(&self.authority).await.map_err(|e| self.unreachable(&e))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| self.unreachable(&e))?;
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, &self.authority)
            .body(Empty::<Bytes>::new())
            .map_err(|e| self.unreachable(&e))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(|e| self.unreachable(&e))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
            let body = body.map_err(|e| self.unreachable(&*e))?;
            Ok((status, body.to_bytes()))
        };
        // The connection is polled beside the answer and dropped with it, so no task outlives the request.
        tokio::pin!(connection, answer);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        }
    }
    fn unreachable(&self, why: &(impl std::fmt::Display + ?Sized)) -> CommandError {
        let message = format!("cannot reach a server at http://{}: {why}", self.authority);
        CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, message)
    }
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

fn target(path: &str, query: &[(&str, Option<&str>)]) -> String {
    let pairs = query.iter().filter_map(|(name, value)| Some(format!("{name}={}", percent((*value)?))));
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
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
        let query = [("client", Some("sidecar~10.0.0.1~a b&c")), ("host", None)];
        assert_eq!(target("/debug/explain", &query), "/debug/explain?client=sidecar~10.0.0.1~a%20b%26c");
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
