//! Tokens of service accounts that clients present with a stream, and what a review of one proves.
//!
//! The transport reads a [`BearerToken`] from the header `authorization` and passes it to a [`TokenReviewer`], which `app`
//! implements over the TokenReview API of clusters. Nothing here is I/O. A token cannot be printed.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tributary_model::{ClusterId, Namespace};
use zeroize::Zeroizing;

/// Longest token in bytes. Tokens of service accounts have about a thousand.
const MAX_BYTES: usize = 8 << 10;

/// Start of the user names of service accounts.
const PREFIX: &str = "system:serviceaccount:";

/// A token. Its `Debug` shows nothing, and its memory is wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(Zeroizing<Vec<u8>>);

impl BearerToken {
    /// Returns the token of a request; `None` if the request has no `authorization`. The error is a reason for the client.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, &'static str> {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = all.next() else { return Ok(None) };
        if all.next().is_some() {
            return Err("the request has several `authorization` entries");
        }
        let bytes = value.as_bytes();
        let (scheme, token) = bytes.split_at_checked(7).ok_or("`authorization` holds no bearer token")?;
        if !scheme.eq_ignore_ascii_case(b"bearer ") {
            return Err("`authorization` holds no bearer token");
        }
        Self::new(token).map(Some)
    }
    /// Accepts the form of a JSON web token, which every token of a service account has, so that no other text costs a review.
    pub fn new(token: &[u8]) -> Result<Self, &'static str> {
        if token.len() > MAX_BYTES {
            return Err("the token is longer than 8 KiB");
        }
        let is_part = |part: &[u8]| {
            !part.is_empty() && part.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let parts: Vec<&[u8]> = token.split(|b| *b == b'.').collect();
        if parts.len() != 3 || !parts.into_iter().all(is_part) {
            return Err("the token is no JSON web token");
        }
        Ok(Self(Zeroizing::new(token.to_vec())))
    }
    /// Returns the token. The name makes uses easy to find in review.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(not shown)")
    }
}

/// A service account of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Namespace.
    pub namespace: Namespace,
    /// Name.
    pub name: Arc<str>,
}

impl ServiceAccount {
    /// Parses `system:serviceaccount:<namespace>:<name>`, with exactly these parts.
    #[must_use]
    pub fn of_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
        let namespace = Namespace::new(namespace).ok()?;
        is_account(name).then(|| Self { namespace, name: name.into() })
    }
}

/// Whether a text can be the name of a service account, and a part of the path of a SPIFFE identity: no other text than a name
/// reaches a comparison, and a part that is encoded or leads upwards never does.
pub(crate) fn is_account(name: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(is_fine) && !matches!(name, "." | "..")
}

/// Why a token proves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRefused {
    /// It is no token of a service account of the cluster, or for another audience. The text is the reason.
    Invalid(String),
    /// No registry reads the cluster that the client names.
    NoCluster,
    /// The cluster did not answer, or may not be requested. The client should try again.
    Unavailable(String),
}

/// Reviews tokens in the clusters that issued them.
pub trait TokenReviewer: Send + Sync {
    /// Reviews a token in the cluster that its client names. Ends in bounded time.
    fn review(
        &self,
        cluster: ClusterId,
        token: BearerToken,
    ) -> BoxFuture<'static, Result<ServiceAccount, TokenRefused>>;
    /// Returns the audiences of which a token must have one, for messages.
    fn audiences(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_bearer_token_of_the_form_of_a_token_is_read() {
        let read = |values: &[&str]| {
            let pairs = values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap()));
            BearerToken::of(&pairs.collect()).map(|token| token.map(|token| token.expose().to_vec()))
        };
        assert_eq!(read(&[]), Ok(None));
        for scheme in ["Bearer", "bearer", "BEARER"] {
            assert_eq!(read(&[&format!("{scheme} a.b-_.9")]), Ok(Some(b"a.b-_.9".to_vec())));
        }
        let long = format!("Bearer a.b.{}", "c".repeat(MAX_BYTES));
        for wrong in
            ["", "Bearer", "Bearer ", "Basic a.b.c", "Bearer a.b", "Bearer a.b.c.d", "Bearer a..c", "a.b.c"]
                .into_iter()
                .chain([
                    "Bearer  a.b.c",
                    "Bearer a.b.c ",
                    "Bearer a.b.c, Bearer d.e.f",
                    "Bearer a.b.\u{e9}",
                    &long,
                ])
        {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
        assert!(read(&["Bearer a.b.c", "Bearer a.b.c"]).is_err(), "nothing decides between several");
    }

    #[test]
    fn token_is_never_shown() {
        let token = BearerToken::new(b"hunter2.hunter2.hunter2").unwrap();
        assert!(!format!("{token:?}").contains("hunter2"));
    }

    #[test]
    fn only_a_service_account_is_read_from_a_user() {
        let read =
            |user: &str| ServiceAccount::of_user(user).map(|a| (a.namespace.to_string(), a.name.to_string()));
        let pair = |namespace: &str, name: &str| Some((namespace.to_owned(), name.to_owned()));
        assert_eq!(read("system:serviceaccount:shop:pay"), pair("shop", "pay"));
        assert_eq!(read("system:serviceaccount:shop:pay.v1"), pair("shop", "pay.v1"));
        for wrong in [
            "",
            "pay",
            "system:anonymous",
            "system:node:n1",
            "system:serviceaccount:",
            "system:serviceaccount:shop",
            "system:serviceaccount:shop:",
            "system:serviceaccount::pay",
            "system:serviceaccount:shop:pay:x",
            "system:serviceaccount:shop:pay/x",
            "system:serviceaccount:shop:..",
            "system:serviceaccount:sh%6fp:pay",
            "system:serviceaccounts:shop:pay",
            " system:serviceaccount:shop:pay",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
