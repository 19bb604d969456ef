//! What a server answers to a credential, before anything depends on it.
//!
//! The application calls [`preflight`] for a cluster that is not served yet. It reads three things: the version and the clock of the
//! server, which show that the address, the certificate and the credential are right; the identity of the cluster; and one object of each kind.
//! Nothing is written.

use serde::Deserialize;
use tributary_model::Fingerprint;

use crate::connection::Connection;
use crate::identity;
use crate::resource::Resource;
use crate::watch::{ApiFailure, send};

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// Version of the server, such as `v1.34.1`.
    pub version: String,
    /// Time of its clock as the header `Date` of its answer states it.
    pub date: Option<String>,
    /// Identity of the cluster, or why it cannot be read.
    pub identity: Result<Fingerprint, ApiFailure>,
    /// Kinds that cannot be listed, by plural name, and why. A kind that the server does not have is not among them.
    pub unread: Vec<(String, ApiFailure)>,
}

#[derive(Deserialize)]
struct ServerVersion {
    #[serde(rename = "gitVersion")]
    git_version: String,
}

#[derive(Deserialize)]
struct NamedList {
    items: Vec<serde::de::IgnoredAny>,
}

/// Requests the version of a server, its identity and one object of each kind. Fails with the first answer that concerns all
/// requests: none at all, or a refused credential.
pub async fn preflight(connection: &Connection, kinds: &[Resource]) -> Result<Preflight, ApiFailure> {
    let (version, date) = send::dated(connection.client(), "/version").await?;
    let garbled = |error| ApiFailure::Garbled(format!("the version of the server: {error}"));
    let ServerVersion { git_version } = serde_json::from_slice(&version).map_err(garbled)?;
    let identity = match identity::read(connection.client()).await {
        Err(why @ (ApiFailure::Unauthorized(_) | ApiFailure::Unreachable(_))) => return Err(why),
        read => read,
    };
    let mut unread = Vec::new();
    for kind in kinds {
        match one_of(connection, kind).await {
            Ok(()) | Err(ApiFailure::NotFound(_)) => {}
            Err(why) => unread.push((kind.plural.to_owned(), why)),
        }
    }
    Ok(Preflight { version: git_version, date, identity, unread })
}

/// Returns true if the server does not have a kind; an error if that is not known, such as for lack of the right to list it.
pub async fn not_served(connection: &Connection, kind: &Resource) -> Result<bool, ApiFailure> {
    match one_of(connection, kind).await {
        Ok(()) => Ok(false),
        Err(ApiFailure::NotFound(_)) => Ok(true),
        Err(why) => Err(why),
    }
}

/// Returns true if an object exists, by a list: a credential that may list need not have the right to get.
pub async fn exists(
    connection: &Connection,
    kind: &Resource,
    namespace: Option<&str>,
    name: &str,
) -> Result<bool, ApiFailure> {
    let version = kind.versions.first().copied().unwrap_or("v1");
    let selector = format!("metadata.name={name}");
    let path = send::with_pair(kind.path(version, namespace), "fieldSelector", &selector);
    let list = send::names(connection.client(), &path).await?;
    let garbled = |error| ApiFailure::Garbled(format!("a list of {}: {error}", kind.plural));
    let NamedList { items } = serde_json::from_slice(&list).map_err(garbled)?;
    Ok(!items.is_empty())
}

async fn one_of(connection: &Connection, kind: &Resource) -> Result<(), ApiFailure> {
    let version = kind.versions.first().copied().unwrap_or("v1");
    send::names(connection.client(), &format!("{}?limit=1", kind.path(version, None))).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;
    use tributary_scripted_api::{Answer, ApiServer, Kind};

    use super::*;

    fn mk_kind(plural: &'static str, kind: &'static str) -> (Kind, Resource) {
        let namespaced = plural != "namespaces";
        let served = Kind { group: "", version: "v1", plural, kind, namespaced };
        let asked = Resource {
            group: Cow::Borrowed(""),
            versions: &["v1"],
            plural,
            kind,
            namespaced,
            optional: false,
        };
        (served, asked)
    }

    /// Requests of a server with these kinds namespaces, services and pods.
    async fn ask(has: &[&str], script: impl FnOnce(&ApiServer)) -> Result<Preflight, ApiFailure> {
        let all =
            [mk_kind("namespaces", "Namespace"), mk_kind("services", "Service"), mk_kind("pods", "Pod")];
        let served: Vec<Kind> =
            all.iter().filter(|(kind, _)| has.contains(&kind.plural)).map(|(kind, _)| *kind).collect();
        let server = ApiServer::new(&served);
        server.put("namespaces", json!({"metadata": {"name": "kube-system", "uid": "u-1"}}));
        server.answer("/version", None, 9, Answer::Text(json!({"gitVersion": "v1.34.1"}).to_string()));
        script(&server);
        let connection = Connection::over(server.client(), "a test", "https://api.test");
        preflight(&connection, &all.map(|(_, asked)| asked)).await
    }

    const ALL: [&str; 3] = ["namespaces", "services", "pods"];

    #[tokio::test]
    async fn server_that_answers_everything_lacks_nothing() {
        let found = ask(&ALL, |_| {}).await.unwrap();
        let identity = Ok(Fingerprint::new("u-1").unwrap());
        let expected = Preflight { version: "v1.34.1".to_owned(), date: None, identity, unread: Vec::new() };
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn kinds_that_may_not_be_listed_are_named_and_absent_ones_are_not() {
        let found = ask(&ALL[..2], |server| server.answer("/services", None, 9, Answer::Status(403, "no")))
            .await
            .unwrap();
        let unread = vec![("services".to_owned(), ApiFailure::Forbidden("no".to_owned()))];
        assert_eq!(found.unread, unread);
    }

    #[tokio::test]
    async fn refused_credential_and_no_answer_concern_everything() {
        let refused = ask(&ALL, |server| server.answer("/api", None, 9, Answer::Status(401, "no"))).await;
        assert_eq!(refused, Err(ApiFailure::Unauthorized("no".to_owned())));
        let reset = ask(&ALL, |server| {
            server.heal();
            server.answer("/version", None, 9, Answer::Reset);
        });
        let reset = reset.await;
        assert!(matches!(reset, Err(ApiFailure::Torn(_) | ApiFailure::Unreachable(_))), "{reset:?}");
    }

    #[tokio::test]
    async fn identity_that_may_not_be_read_is_named() {
        let found = ask(&ALL, |server| server.answer("/namespaces", None, 9, Answer::Status(403, "no")));
        let found = found.await.unwrap();
        assert_eq!(found.identity, Err(ApiFailure::Forbidden("no".to_owned())));
        assert_eq!(found.unread.len(), 1);
    }
}
