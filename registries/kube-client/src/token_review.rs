//! Reviews of tokens that others present: whose they are, for which audiences, and what their users may do.
//!
//! The application calls it for clients of the xDS server, and for operators on the remote admin listener. No error repeats a part of the token or of the answer, which holds it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tributary_registry_api::{Credential, Reason};

use crate::watch::ApiFailure;
use crate::write::Writer;

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Path of reviews of rights.
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// What errors show in the place of the token.
const HIDDEN: &str = "[redacted]";

/// What a cluster states about a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ReviewedToken {
    /// Whether it is valid.
    pub authenticated: bool,
    /// Its user.
    pub user: TokenUser,
    /// Those of the requested audiences that it is for.
    pub audiences: Vec<String>,
    /// Why it is not valid.
    pub error: String,
}

/// User of a token.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct TokenUser {
    /// Name, such as `system:serviceaccount:shop:pay`.
    pub username: String,
    /// Id that no later user of this name has.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes, which authorizers may read.
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Answer {
    status: ReviewedToken,
}

impl Writer {
    /// Requests a review of a token for these audiences.
    pub async fn review_token(
        &self,
        token: &Credential,
        audiences: &[String],
    ) -> Result<ReviewedToken, ApiFailure> {
        let garbled = || ApiFailure::Garbled("a TokenReview without a status".to_owned());
        let text = std::str::from_utf8(token.expose()).map_err(|_| garbled())?;
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": text, "audiences": audiences},
        });
        let answer = self.submit(PATH, &review).await?;
        // an error of the parser can repeat the token
        let Answer { status } = serde_json::from_slice(&answer).map_err(|_| garbled())?;
        let error = if text.is_empty() { status.error } else { status.error.replace(text, HIDDEN) };
        Ok(ReviewedToken { error: Reason::new(&error).as_str().to_owned(), ..status })
    }
    /// Requests a review of a user's right to a verb on a path that is no object of the cluster.
    pub async fn review_access(&self, user: &TokenUser, verb: &str, path: &str) -> Result<bool, ApiFailure> {
        let TokenUser { username, uid, groups, extra } = user;
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": username, "uid": uid, "groups": groups, "extra": extra,
                "nonResourceAttributes": {"verb": verb, "path": path},
            },
        });
        let answer = self.submit(ACCESS, &review).await?;
        let answer: Option<Value> = serde_json::from_slice(&answer).ok();
        let status = answer.as_ref().and_then(|answer| answer.pointer("/status"));
        let is = |name: &str| status.and_then(|status| status.get(name)).and_then(Value::as_bool);
        let allowed =
            is("allowed").ok_or_else(|| ApiFailure::Garbled("a review without status.allowed".to_owned()));
        Ok(allowed? && is("denied") != Some(true))
    }
}

#[cfg(test)]
mod tests {
    use tributary_scripted_api::{Answer as Scripted, ApiServer};

    use super::*;

    async fn review(answer: Scripted) -> Result<ReviewedToken, ApiFailure> {
        let server = ApiServer::new(&[]);
        server.answer(PATH, None, 1, answer);
        let token = Credential::new(b"hunter2".to_vec());
        Writer::new(server.client()).review_token(&token, &["istio-ca".to_owned()]).await
    }

    #[tokio::test]
    async fn status_of_a_review_is_returned() {
        let answer = json!({"spec": {"token": "hunter2"}, "status": {
            "authenticated": true, "audiences": ["istio-ca"],
            "user": {"username": "system:serviceaccount:shop:pay", "uid": "u", "groups": ["g"]},
        }});
        let reviewed = review(Scripted::Text(answer.to_string())).await.unwrap();
        assert_eq!((reviewed.authenticated, reviewed.audiences), (true, vec!["istio-ca".to_owned()]));
        assert_eq!(reviewed.user.username, "system:serviceaccount:shop:pay");
        let refused = json!({"status": {"error": "invalid bearer token hunter2"}});
        let refused = review(Scripted::Text(refused.to_string())).await.unwrap();
        assert_eq!(
            (refused.authenticated, refused.error.as_str()),
            (false, "invalid bearer [redacted] [redacted]")
        );
    }

    #[tokio::test]
    async fn access_needs_an_allowance_and_no_denial() {
        let of = |status: Value| async move {
            let server = ApiServer::new(&[]);
            server.answer(ACCESS, None, 1, Scripted::Text(json!({"status": status}).to_string()));
            Writer::new(server.client()).review_access(&TokenUser::default(), "get", "/debug/").await
        };
        assert_eq!(of(json!({"allowed": true})).await, Ok(true));
        assert_eq!(of(json!({"allowed": false})).await, Ok(false));
        assert_eq!(of(json!({"allowed": true, "denied": true})).await, Ok(false));
        assert!(of(json!({})).await.is_err());
    }

    #[tokio::test]
    async fn answer_without_a_status_is_a_failure_that_repeats_nothing() {
        for garbled in [json!({"spec": {"token": "hunter2"}}), json!({"status": "hunter2"})] {
            let failure = review(Scripted::Text(garbled.to_string())).await.unwrap_err();
            assert_eq!(failure, ApiFailure::Garbled("a TokenReview without a status".to_owned()));
        }
        let forbidden = review(Scripted::Status(403, "no")).await.unwrap_err();
        assert_eq!(forbidden, ApiFailure::Forbidden("no".to_owned()));
    }
}
