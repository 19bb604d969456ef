//! HTTP client of the admin surface: one connection per request, bounded in time and size.
//!
//! `server` calls it for a server that has an address. A token goes over TLS alone, and no error repeats one.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use reqwest::{Certificate, Client, ClientBuilder, Identity, Method, RequestBuilder, StatusCode, redirect};
use tributary_model::Code;

use crate::args::ConnectionArgs;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::serve::install_crypto;

/// Default address of the server.
pub const DEFAULT: &str = "http://127.0.0.1:15014";
/// Largest answer that is read, in bytes.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// Parameters of a request; those without a value are left out.
pub type Query<'a> = &'a [(&'a str, Option<&'a str>)];

/// A request for a document.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Longest time until the answer is complete.
    pub limit: Duration,
    /// GET, or POST for a change.
    pub method: Method,
    /// Path, without parameters.
    pub path: &'a str,
    /// Parameters.
    pub query: Query<'a>,
}

impl<'a> Request<'a> {
    /// Returns a GET.
    #[must_use]
    pub const fn get(limit: Duration, path: &'a str, query: Query<'a>) -> Self {
        Self { limit, method: Method::GET, path, query }
    }
    /// Returns the parameters that have a value.
    pub(super) fn pairs(&self) -> Vec<(&'a str, &'a str)> {
        self.query.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect()
    }
}

/// What a command presents to a server behind TLS, by file.
#[derive(Debug, Clone, Default)]
pub struct Login {
    ca: Option<PathBuf>,
    token: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Login {
    /// Returns the files of the flags, else those of the variables.
    #[must_use]
    pub fn of(args: &ConnectionArgs, env: &Environment) -> Self {
        let file =
            |flag: &Option<PathBuf>, name: &str| flag.clone().or_else(|| env.get(name).map(Into::into));
        Self {
            ca: file(&args.server_ca, "TRIBUTARY_SERVER_CA"),
            token: file(&args.server_token, "TRIBUTARY_SERVER_TOKEN"),
            certificate: file(&args.server_cert, "TRIBUTARY_SERVER_CERT"),
            key: file(&args.server_key, "TRIBUTARY_SERVER_KEY"),
        }
    }
    fn token(&self) -> Result<Option<HeaderValue>, CommandError> {
        let Some(path) = &self.token else { return Ok(None) };
        let text = read(path)?;
        let value = [b"Bearer ", text.trim_ascii()].concat();
        let mut value = HeaderValue::from_bytes(&value).map_err(|_| unusable(path, "it is no token"))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// One server by its address.
#[derive(Clone)]
pub struct Http {
    base: String,
    token: Option<HeaderValue>,
    client: Client,
}

impl Http {
    /// Parses `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`.
    pub fn parse(url: &str, login: &Login) -> Result<Self, CommandError> {
        let wrong = |why: &str| {
            let message = format!("the server's address `{url}` {why}");
            CommandError::new(Exit::Usage, Code::FLAG_INVALID, message)
                .next(format!("use a URL such as {DEFAULT}, or pods://NAMESPACE for replicas in a cluster"))
        };
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
            Some(_) => return Err(wrong("does not start with http://, https:// or pods://")),
            None => ("http", url),
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
        let port = authority.port_u16().unwrap_or(if scheme == "https" { 15017 } else { 15014 });
        let base = format!("{scheme}://{}:{port}", authority.host());
        if scheme == "https" {
            return Ok(Self { base, token: login.token()?, client: secure_client(login)? });
        }
        if login.token.is_some() {
            return Err(wrong("has no TLS, so no token is sent to it"));
        }
        Ok(Self { base, token: None, client: plain_client()? })
    }
    /// Scheme, host and port.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }
    /// Sends a request and returns the body; a status other than success is an error. An error does not name the server: it states what
    /// the server did, and [`of_server`] adds the name.
    pub async fn send(&self, request: &Request<'_>) -> Result<Bytes, CommandError> {
        match receive(self.built(request).timeout(request.limit)).await {
            Ok(Some((status, body))) => judge(status, body),
            Ok(None) => Err(self.failed(format!("sent an answer of more than {MAX_BYTES} bytes"))),
            Err(e) if e.is_timeout() => Err(silent(request.limit)),
            Err(e) => Err(self.failed(unreachable(&root_cause(&e)))),
        }
    }
    fn built(&self, request: &Request<'_>) -> RequestBuilder {
        let url = format!("{}{}", self.base, request.path);
        let built = self.client.request(request.method.clone(), url).query(&request.pairs());
        match &self.token {
            Some(token) => built.header(AUTHORIZATION, token.clone()),
            None => built,
        }
    }
    fn failed(&self, message: String) -> CommandError {
        let error = CommandError::new(Exit::Failed, Code::SERVER_UNREACHABLE, message);
        match self.base.starts_with("https") {
            true => {
                error.next("check the address, and that --server-ca has the authority of its certificate")
            }
            false => error,
        }
    }
}

/// Returns the error of a server that sent no answer in time.
pub(super) fn silent(limit: Duration) -> CommandError {
    CommandError {
        exit: Exit::TimedOut,
        code: Some(Code::SERVER_UNREACHABLE),
        message: format!("sent no answer within {limit:?}"),
        next: "increase --timeout".to_owned(),
    }
}

/// Returns the text of a server without a connection.
pub(super) fn unreachable(why: &str) -> String {
    format!("cannot be reached: {why}")
}

/// Names the server in the failure of an exchange with it.
pub(super) fn of_server(failure: CommandError, server: &str) -> CommandError {
    if failure.code != Some(Code::SERVER_UNREACHABLE) {
        return failure;
    }
    CommandError { message: format!("server {server} {}", failure.message), ..failure }
}

/// Returns a client that follows no redirect, uses no proxy and keeps no idle connection.
fn builder() -> ClientBuilder {
    // The builder prepares TLS for every client, which needs a provider.
    install_crypto();
    let builder = Client::builder().http1_only().no_proxy().redirect(redirect::Policy::none());
    builder.pool_max_idle_per_host(0)
}

/// Returns a client of plain HTTP. An empty set of authorities skips the system's files.
fn plain_client() -> Result<Client, CommandError> {
    builder().tls_certs_only([]).build().map_err(|e| no_client(&e))
}

/// Returns a client of TLS that trusts the given authorities alone, or those of the system if none are given.
fn secure_client(login: &Login) -> Result<Client, CommandError> {
    let mut builder = builder().https_only(true);
    if let Some(path) = &login.ca {
        let all = Certificate::from_pem_bundle(&read(path)?).map_err(|e| unusable(path, &root_cause(&e)))?;
        builder = builder.tls_certs_only(all);
    }
    match (&login.certificate, &login.key) {
        (Some(certificate), Some(key)) => {
            let both = [read(certificate)?, b"\n".to_vec(), read(key)?].concat();
            // the text of the parser's error could repeat the key
            let identity = Identity::from_pem(&both);
            let identity = identity.map_err(|_| unusable(certificate, "certificate and key are not PEM"))?;
            builder = builder.identity(identity);
        }
        (None, None) => {}
        (Some(path), None) | (None, Some(path)) => {
            return Err(unusable(path, "--server-cert and --server-key belong together"));
        }
    }
    builder.build().map_err(|e| no_client(&e))
}

fn no_client(error: &reqwest::Error) -> CommandError {
    CommandError::plain(format!("cannot create an HTTP client: {}", root_cause(error)))
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path).map_err(|e| unusable(path, &e.to_string()))
}

fn unusable(path: &Path, why: &str) -> CommandError {
    let message = format!("{} cannot be used for the server: {why}", path.display());
    CommandError::new(Exit::Usage, Code::TLS_FILES, message)
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
pub(super) fn root_cause(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |e| (*e).source()).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns the body of a success, or the error of a refusal.
pub(super) fn judge(status: StatusCode, body: Bytes) -> Result<Bytes, CommandError> {
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
            next: "run the command on the server's machine with the admin address as --server, or pass --server-token or --server-cert".to_owned(),
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

    fn parse(url: &str) -> Result<Http, CommandError> {
        Http::parse(url, &Login::default())
    }

    #[test]
    fn server_address_accepts_a_url_or_host_and_port() {
        for (url, base) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
            ("localhost:2/", "http://localhost:2"),
            ("http://[::1]:3", "http://[::1]:3"),
            ("localhost", "http://localhost:15014"),
            ("https://mesh.example", "https://mesh.example:15017"),
        ] {
            assert_eq!(parse(url).map(|http| http.base).unwrap(), base, "{url}");
        }
        for url in ["ftp://x", "http://", "http://user:secret@x", "a b"] {
            assert_eq!(parse(url).err().unwrap().exit, Exit::Usage, "{url}");
        }
        let failure = parse("http://user:secret@x").err().unwrap();
        assert!(!failure.to_string().contains("secret"), "{failure}");
    }

    #[test]
    fn token_is_sent_over_tls_alone() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "canary\n").unwrap();
        let login = Login { token: Some(token.clone()), ..Login::default() };
        let failure = Http::parse("http://127.0.0.1:1", &login).err().unwrap();
        assert!(failure.message.contains("no token is sent"), "{failure}");
        let request =
            Http::parse("https://x:1", &login).unwrap().built(&Request::get(Duration::ZERO, "/debug", &[]));
        let request = request.build().unwrap();
        assert_eq!(request.headers()[AUTHORIZATION], "Bearer canary");
        assert!(!format!("{request:?}").contains("canary"));
        std::fs::write(&token, "can\nary").unwrap();
        let failure = Http::parse("https://x:1", &login).err().unwrap().to_string();
        assert!(failure.contains("is no token") && !failure.contains("ary"), "{failure}");
    }

    #[test]
    fn query_values_are_escaped() {
        let server = parse("127.0.0.1:1").unwrap();
        let url = |query: &[(&str, Option<&str>)]| {
            let request = Request::get(Duration::ZERO, "/debug/explain", query);
            server.built(&request).build().unwrap().url().to_string()
        };
        let query = [("client", Some("sidecar~10.0.0.1~a b&c")), ("host", None)];
        assert_eq!(url(&query), "http://127.0.0.1:1/debug/explain?client=sidecar%7E10.0.0.1%7Ea+b%26c");
        assert_eq!(url(&[]), "http://127.0.0.1:1/debug/explain");
    }

    #[tokio::test]
    async fn unreachable_server_error_names_the_cause() {
        let sent =
            parse("127.0.0.1:1").unwrap().send(&Request::get(Duration::from_secs(5), "/debug", &[])).await;
        let failure = sent.unwrap_err();
        assert_eq!(failure.code, Some(Code::SERVER_UNREACHABLE));
        assert_eq!(failure.message, "cannot be reached: Connection refused (os error 111)");
        let named = of_server(failure, "http://127.0.0.1:1");
        assert!(named.message.starts_with("server http://127.0.0.1:1 cannot be reached: "), "{named}");
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
