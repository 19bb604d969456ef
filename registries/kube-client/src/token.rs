//! Tokens of service accounts that end on their own.
//!
//! The commands that add and rotate a cluster request one with the operator's rights. The token is in a type that cannot be printed, and no
//! error repeats a part of the answer.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tributary_registry_api::Credential;

use crate::resource::{ObjectName, Resource};
use crate::watch::ApiFailure;
use crate::write::Writer;

/// Kind of the accounts.
pub const SERVICE_ACCOUNTS: Resource = Resource {
    group: Cow::Borrowed(""),
    versions: &["v1"],
    plural: "serviceaccounts",
    kind: "ServiceAccount",
    namespaced: true,
    optional: false,
};

/// Issued token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// Token.
    pub token: Credential,
    /// Time at which it expires, as the server states it. A server may limit the requested time.
    pub expires: String,
}

#[derive(Deserialize)]
struct Answer {
    status: AnswerStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerStatus {
    token: String,
    expiration_timestamp: String,
}

impl Writer {
    /// Requests a token of an account that is valid for about this time.
    pub async fn request_token(
        &self,
        account: &ObjectName,
        lasting: Duration,
    ) -> Result<IssuedToken, ApiFailure> {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": lasting.as_secs()},
        });
        let answer = self.post(&SERVICE_ACCOUNTS, "v1", (account, "token"), &body).await?;
        // an error of the parser can repeat the token
        let Answer { status } = serde_json::from_slice(&answer)
            .map_err(|_| ApiFailure::Garbled("a TokenRequest without a token".to_owned()))?;
        let AnswerStatus { token, expiration_timestamp } = status;
        Ok(IssuedToken { token: Credential::new(token.into_bytes()), expires: expiration_timestamp })
    }
}

#[cfg(test)]
mod tests {
    use tributary_scripted_api::{Answer as Scripted, ApiServer, Kind};

    use super::*;

    async fn request(answer: serde_json::Value) -> Result<IssuedToken, ApiFailure> {
        let kind = Kind {
            group: "",
            version: "v1",
            plural: "serviceaccounts",
            kind: "ServiceAccount",
            namespaced: true,
        };
        let server = ApiServer::new(&[kind]);
        server.answer("/serviceaccounts/reader/token", None, 1, Scripted::Text(answer.to_string()));
        let account = ObjectName::new("system", "reader");
        Writer::new(server.client()).request_token(&account, Duration::from_secs(3600)).await
    }

    #[tokio::test]
    async fn token_is_returned_and_never_shown() {
        let status = json!({"token": "hunter2", "expirationTimestamp": "2030-01-01T00:00:00Z"});
        let issued = request(json!({"status": status})).await.unwrap();
        assert_eq!(
            (issued.token.expose(), issued.expires.as_str()),
            (&b"hunter2"[..], "2030-01-01T00:00:00Z")
        );
        assert!(!format!("{issued:?}").contains("hunter2"));
        let garbled = request(json!({"status": "hunter2"})).await.unwrap_err();
        assert_eq!(garbled, ApiFailure::Garbled("a TokenRequest without a token".to_owned()));
    }
}
