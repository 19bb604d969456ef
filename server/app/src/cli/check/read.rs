//! Reads the documents of servers that the checks judge.
//!
//! A document that cannot be read is missing, and the check of answers reports it; a server whose first document cannot be read for
//! lack of an answer is silent. Replicas are read side by side, each with one request at a time.

use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use reqwest::Method;
use serde::de::DeserializeOwned;

use super::super::Server;
use super::super::get::parse;
use crate::check::Documents;
use crate::document::{ClusterItem, List, PolicyItem, TriedCluster, VersionDocument, server};
use crate::exit::{CommandError, Exit};
use crate::ops::clusters::tries;

/// Path of the version, which is read first.
const VERSION: &str = "/debug/version";

/// Documents of one server.
#[derive(Debug)]
pub(in crate::cli) struct Answer {
    /// Documents.
    pub(in crate::cli) documents: Documents,
    /// Exit code of the failure, if the server did not answer.
    pub(in crate::cli) exit: Option<Exit>,
}

/// Reads the documents of every server. `connect` lets each connect to its clusters.
pub(in crate::cli) async fn all(servers: &[Server], connect: bool) -> Vec<Answer> {
    futures::future::join_all(servers.iter().map(|server| one(server, connect).boxed())).await
}

async fn one(server: &Server, connect: bool) -> Answer {
    let url = server.url();
    let version = server.exchange((Method::GET, Duration::ZERO), VERSION, &[]).await;
    let now = Timestamp::now();
    let version = match version {
        Ok(body) => parse::<VersionDocument>(&body).ok(),
        // a server of an earlier version
        Err(failure) if failure.exit == Exit::NotFound => None,
        Err(failure) => {
            let exit = Some(failure.exit);
            return Answer { documents: Documents::silent(&url, failure.message, now), exit };
        }
    };
    let server_time = version.as_ref().and_then(|of| of.as_of.parse().ok());
    let documents = Documents {
        server: url,
        now,
        server_time,
        reader_version: server::VERSION.to_owned(),
        version,
        ..Documents::default()
    };
    let mut reader = Reader { server, documents };
    reader.fill(connect).await;
    Answer { documents: reader.documents, exit: None }
}

struct Reader<'a> {
    server: &'a Server,
    documents: Documents,
}

impl Reader<'_> {
    async fn fill(&mut self, connect: bool) {
        self.documents.readiness = self.get("/debug/readiness").await;
        self.documents.config = self.get("/debug/config").await.unwrap_or_default();
        self.documents.certificates = self.items("/debug/certificates").await;
        self.documents.registries = self.items("/debug/registries").await;
        if let Some(list) = self.get::<List<ClusterItem>>("/debug/clusters").await {
            self.documents.clusters = list.items;
            self.documents.sources = list.metadata.sources;
        }
        self.documents.gateways = self.items("/debug/gateways").await;
        self.documents.conditions = self.items("/debug/conditions").await;
        if let Some(list) = self.get::<List<PolicyItem>>("/debug/policies").await {
            self.documents.policies = list.items;
            self.documents.more_policies = list.metadata.remaining;
        }
        self.documents.clients = self.items("/debug/clients").await;
        self.documents.held = self.items("/debug/guard").await;
        self.documents.state = self.get("/debug/state").await;
        if connect {
            let list: Option<List<TriedCluster>> = self.held(tries::ALL, "/debug/clusters/check").await;
            self.documents.tried = list.map(|list| list.items);
        }
    }
    async fn items<T: DeserializeOwned>(&mut self, path: &str) -> Vec<T> {
        self.get::<List<T>>(path).await.map(|list| list.items).unwrap_or_default()
    }
    async fn get<T: DeserializeOwned>(&mut self, path: &str) -> Option<T> {
        self.held(Duration::ZERO, path).await
    }
    /// Reads a document that the server may take some time for.
    async fn held<T: DeserializeOwned>(&mut self, time: Duration, path: &str) -> Option<T> {
        let read: Result<T, CommandError> =
            self.server.exchange((Method::GET, time), path, &[]).await.and_then(|body| parse(&body));
        read.map_err(|failure| self.documents.missing.push((path.to_owned(), failure.message))).ok()
    }
}
