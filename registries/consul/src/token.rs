//! The ACL token: its source, and when it is read again.
//!
//! The run loop owns it and reads it at the start, when files may have changed, and when it was refused.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use tributary_registry_api::Reason;

use crate::answer::RequestFailure;
use crate::client::{Client, Fault, Get};
use crate::config::TokenSource;
use crate::wire::lists::{Login, login};

const MAX_TOKEN: usize = 64 << 10;

/// Token of one registry.
#[derive(Debug)]
pub struct Token {
    source: TokenSource,
    current: Option<SecretString>,
    /// Time at which a token from a login is replaced.
    renew_at: Option<Timestamp>,
}

impl Token {
    /// Creates a token without reading its source.
    #[must_use]
    pub const fn new(source: TokenSource) -> Self {
        Self { source, current: None, renew_at: None }
    }
    /// Reads the source. `refused` means that a request with the current token was refused; a login is repeated only if
    /// Consul no longer knows the token, or before it expires. Returns whether the token changed.
    pub async fn refresh(&mut self, client: &Client, now: Timestamp, refused: bool) -> Result<bool, Fault> {
        let found = match &self.source {
            TokenSource::None => None,
            TokenSource::Value(token) => Some(token.clone()),
            TokenSource::File(path) => Some(read(path).await?),
            TokenSource::Login { method, bearer } => {
                let expires = self.current.is_none() || self.renew_at.is_some_and(|at| at <= now);
                if !expires && (!refused || self.is_accepted(client).await) {
                    return Ok(false);
                }
                let given = log_in(client, method, &read(bearer).await?).await?;
                self.renew_at = given.expires.and_then(|expires| renewal(now, expires));
                Some(given.secret)
            }
        };
        if found.as_ref().is_some_and(|token| !can_be_sent(token)) {
            return Err(Fault { failure: RequestFailure::Auth, reason: Reason::new(UNSENDABLE) });
        }
        let text =
            |token: &Option<SecretString>| token.as_ref().map(|token| token.expose_secret().to_owned());
        let changed = text(&found) != text(&self.current);
        self.current = found;
        if changed {
            client.set_token(self.current.as_ref());
        }
        Ok(changed)
    }

    /// Returns whether Consul still accepts the current token, so that a refusal concerns only rights that it lacks. An
    /// address that gives no answer proves nothing and counts as acceptance.
    async fn is_accepted(&self, client: &Client) -> bool {
        if self.current.is_none() {
            return false;
        }
        let get = Get { path: &["acl", "token", "self"], query: Vec::new(), timeout: TIMEOUT, skip: None };
        for server in 0..client.addresses() {
            match client.get(server, &get).await {
                Ok(_) => return true,
                Err(fault) if fault.failure == RequestFailure::Auth => return false,
                Err(_) => {}
            }
        }
        true
    }
}

/// Time limit of a login and of a check of the token.
const TIMEOUT: Duration = Duration::from_secs(10);

const UNSENDABLE: &str =
    "the token holds characters that no header may have; write the token alone, on one line";

/// Returns whether a token is valid in a header. An invalid one must be an error, because without it the agent's own
/// token would apply silently.
pub(crate) fn can_be_sent(token: &SecretString) -> bool {
    http::HeaderValue::from_str(token.expose_secret()).is_ok()
}

/// Returns the time when four fifths of its life are over.
fn renewal(now: Timestamp, expires: Timestamp) -> Option<Timestamp> {
    let left = expires.as_second().saturating_sub(now.as_second()).max(0);
    now.checked_add(jiff::SignedDuration::from_secs(left.saturating_mul(4) / 5)).ok()
}

/// Reads a file without surrounding white space.
async fn read(path: &std::path::Path) -> Result<SecretString, Fault> {
    let refused = |why: String| Fault {
        failure: RequestFailure::Auth,
        reason: Reason::new(format!("token file {} {why}", path.display())),
    };
    let text =
        tokio::fs::read_to_string(path).await.map_err(|error| refused(format!("cannot be read: {error}")))?;
    let text = secrecy::zeroize::Zeroizing::new(text);
    match text.trim() {
        "" => Err(refused("is empty; write the token into it".to_owned())),
        long if long.len() > MAX_TOKEN => Err(refused("is too long for a token".to_owned())),
        token => Ok(SecretString::from(token)),
    }
}

/// Logs in at the first address that accepts.
async fn log_in(client: &Client, method: &str, bearer: &SecretString) -> Result<Login, Fault> {
    let mut last = None;
    for server in 0..client.addresses() {
        match log_in_at(client, server, method, bearer).await {
            Ok(given) => return Ok(given),
            Err(fault) => last = Some(fault),
        }
    }
    let none = || Fault { failure: RequestFailure::Config, reason: Reason::new("no address is configured") };
    Err(last.unwrap_or_else(none))
}

async fn log_in_at(
    client: &Client,
    server: usize,
    method: &str,
    bearer: &SecretString,
) -> Result<Login, Fault> {
    let body = serde_json::json!({ "AuthMethod": method, "BearerToken": bearer.expose_secret() });
    let get = Get { path: &["acl", "login"], query: Vec::new(), timeout: TIMEOUT, skip: None };
    let raw = client.post(server, &get, body.to_string().into_bytes()).await?;
    let body = raw.body.unwrap_or_default();
    login(raw.content_type.as_deref(), &body).map_err(|_| Fault {
        failure: RequestFailure::Broken,
        reason: Reason::new("the answer to a login is not Consul's; check the address"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unsendable_token_is_an_error() {
        let config = crate::config::ConsulConfig::new(vec!["http://127.0.0.1:1".parse().unwrap()]).unwrap();
        let client = Client::new(&config, &config.addresses).unwrap();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("token");
        std::fs::write(&path, "hunter2\n# of staging\n").unwrap();
        for source in [TokenSource::Value("hunter2\u{1}".into()), TokenSource::File(path)] {
            let refused =
                Token::new(source).refresh(&client, Timestamp::UNIX_EPOCH, false).await.unwrap_err();
            assert_eq!(refused.failure, RequestFailure::Auth);
            let why = format!("{refused:?}");
            assert!(why.contains("no header may have") && !why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn token_is_renewed_before_it_expires() {
        let now = Timestamp::from_second(1_000).unwrap();
        let at = |second| renewal(now, Timestamp::from_second(second).unwrap()).unwrap().as_second();
        assert_eq!((at(2_000), at(1_004), at(1_000), at(500)), (1_800, 1_003, 1_000, 1_000));
    }
}
