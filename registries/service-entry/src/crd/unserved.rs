//! The kinds of a cluster whose objects are not served: one watch and one table for each, beside the documents.
//!
//! [`super::source`] owns them. Only metadata is requested. Each kind is a scope of its own, and no scope is waited for: one
//! that is absent, refused or failing changes no other scope and no fact.

mod table;

use std::sync::Arc;

use futures::future::select_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use tributary_kube_client::{
    ClusterContext, ClusterIdentity, Event, ObjectName, Projection, Watch, WatchSpec,
};
use tributary_model::{CollectionKind, InvalidName, Scope};

use super::kinds;
use super::options::CrdOptions;
use crate::document::unserved::UnservedKind;
use crate::source::{Content, Need, SourceEvent};
use table::UnservedTable;

/// What the scope of such a kind contains: no fact, only problems.
pub(crate) const CONTENT: Content = Content { kinds: &[CollectionKind::Policies], need: Need::Never };

/// An object that is not served: its name, and the revision to which it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnservedObject {
    name: ObjectName,
    revision: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Decoded {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    #[serde(default)]
    labels: Option<RevisionLabel>,
}

#[derive(Deserialize)]
struct RevisionLabel {
    #[serde(rename = "istio.io/rev", default)]
    revision: Option<String>,
}

impl Projection for UnservedObject {
    fn decode(raw: &RawValue) -> Result<Self, String> {
        let Decoded { metadata } = serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
        let name = ObjectName::new(&metadata.namespace, &metadata.name);
        Ok(Self { name, revision: metadata.labels.and_then(|labels| labels.revision).map(Arc::from) })
    }
}

/// The kinds of one cluster.
pub(crate) struct UnservedKinds(Vec<Followed>);

struct Followed {
    scope: Scope,
    watch: Watch<UnservedObject>,
    table: UnservedTable,
}

impl UnservedKinds {
    /// Creates the watches; they begin when their first event is awaited.
    pub(crate) fn new(
        client: &kube::Client,
        options: &CrdOptions,
        cluster: &ClusterIdentity,
    ) -> Result<Self, InvalidName> {
        let follow = |(known, namespace): (&'static UnservedKind, _)| {
            let scope = kinds::scope(&known.resource, namespace)?;
            let spec = WatchSpec { metadata_only: true, ..options.watch(&known.resource, namespace) };
            let random = options.random_source(scope.as_str());
            let watch = Watch::new(client.clone(), spec, random).of_cluster(cluster.clone());
            let table = UnservedTable::new(scope.clone(), known, options.revision.clone());
            Ok(Followed { scope, watch, table })
        };
        options.unserved().into_iter().map(follow).collect::<Result<_, _>>().map(Self)
    }
    /// The scopes.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.0.iter().map(|followed| &followed.scope)
    }
    /// Waits for events of a watch; returns its index. Never returns if there is no kind. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (usize, Vec<Event<UnservedObject>>) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let watches = self.0.iter_mut().map(|followed| Box::pin(followed.watch.next()));
        let (events, index, _) = select_all(watches).await;
        (index, events)
    }
    /// Applies events of a watch.
    pub(crate) fn apply(&mut self, index: usize, events: Vec<Event<UnservedObject>>) -> Vec<SourceEvent> {
        let Some(Followed { table, .. }) = self.0.get_mut(index) else { return Vec::new() };
        events.into_iter().flat_map(|event| table.apply(event)).collect()
    }
    /// Applies a new cluster context.
    pub(crate) fn set_context(&mut self, context: &Arc<ClusterContext>) -> Vec<SourceEvent> {
        self.0.iter_mut().flat_map(|followed| followed.table.set_context(context)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &str) -> Result<UnservedObject, String> {
        UnservedObject::decode(&RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn whole_object_and_its_metadata_are_read_alike() {
        let metadata =
            r#""metadata":{"name":"a","namespace":"shop","labels":{"istio.io/rev":"blue","app":"x"}}"#;
        let object = UnservedObject { name: ObjectName::new("shop", "a"), revision: Some("blue".into()) };
        for text in [
            format!(r#"{{"kind":"PartialObjectMetadata",{metadata}}}"#),
            format!(r#"{{"kind":"Telemetry","spec":{{"x":[1,{{}}]}},{metadata}}}"#),
        ] {
            assert_eq!(decode(&text), Ok(object.clone()), "{text}");
        }
        let bare = decode(r#"{"metadata":{"name":"a","labels":null}}"#);
        assert_eq!(bare, Ok(UnservedObject { name: ObjectName::new("", "a"), revision: None }));
        assert!(decode("{}").is_err() && decode(r#"{"metadata":{"name":"a","labels":"x"}}"#).is_err());
    }
}
