//! JSON over HTTP and HTTPS, for the APIs of Kubernetes, etcd and Consul. The harness writes to them with it as
//! their users would; the product has clients of its own.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::{Client, ClientBuilder, Method, StatusCode};
use serde_json::Value;

use crate::Identity;
use crate::tls::trusting;

const WITHIN: Duration = Duration::from_secs(20);

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Rest {
    base: String,
    client: Client,
    header: Option<(&'static str, String)>,
}

impl Rest {
    /// Returns a client of a plain server, such as `http://127.0.0.1:8500`.
    pub fn plain(base: &str) -> Result<Self> {
        // The TLS configuration is unused; the builder requires one.
        Self::build(base, Client::builder().tls_backend_preconfigured(trusting("", None)?))
    }

    /// Returns a client of a server whose certificate these authorities (PEM) signed.
    pub fn tls(base: &str, authorities: &str, identity: Option<&Identity>) -> Result<Self> {
        Self::build(base, Client::builder().tls_backend_preconfigured(trusting(authorities, identity)?))
    }

    fn build(base: &str, builder: ClientBuilder) -> Result<Self> {
        let client = builder.timeout(WITHIN).no_proxy().build().context("make a client")?;
        Ok(Self { base: base.to_owned(), client, header: None })
    }

    /// Adds a header to every request: a bearer token, a Consul token.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.header = Some((name, value.to_owned()));
        self
    }

    /// Returns status and body of a request; a body that is not JSON is a string, an absent one is null.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<(StatusCode, Value)> {
        let (status, bytes) = self.exchange(method, path, body).await?;
        if bytes.is_empty() {
            return Ok((status, Value::Null));
        }
        let text = |_| Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(text)))
    }

    /// Returns status and raw body of a request.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<(StatusCode, Vec<u8>)> {
        let what = format!("{method} {}{path}", self.base);
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if let Some((name, value)) = &self.header {
            request = request.header(*name, value);
        }
        if let Some((kind, body)) = body {
            request = request.header("content-type", kind).body(body);
        }
        let response = request.send().await.with_context(|| what.clone())?;
        let status = response.status();
        Ok((status, response.bytes().await.with_context(|| what)?.to_vec()))
    }

    /// Returns the body of a GET, which must succeed.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.done(Method::GET, path, None).await
    }

    /// Returns the body of a POST of JSON, which must succeed.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.done(Method::POST, path, Some(body)).await
    }

    /// Returns the body of a PUT of JSON, which must succeed.
    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.done(Method::PUT, path, Some(body)).await
    }

    /// Returns the body of a request, which must succeed.
    pub async fn done(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let what = format!("{method} {}{path}", self.base);
        let json = body.map(|body| ("application/json", body.to_string().into_bytes()));
        match self.send(method, path, json).await? {
            (status, body) if status.is_success() => Ok(body),
            (status, body) => bail!("{what} answered {status}: {body}"),
        }
    }
}
