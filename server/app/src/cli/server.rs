//! The server, or the replicas of it, that a command requests documents from.
//!
//! Every command that reads or changes a running server calls [`Server::find`]. `http://` and `https://` name one server, several
//! addresses with commas between them are replicas, and `pods://NAMESPACE` is all replicas in a cluster: each request then goes to
//! every replica and the answers are merged. An answer that lacks a replica states it in its metadata. Commands that judge replicas
//! one by one call [`Server::replicas`].

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use reqwest::Method;

use super::console::Console;
use super::http::{DEFAULT, Http, Login, Query, Request, of_server};
use super::merge_replicas;
use super::replicas::{PodServers, PodsUrl, ReplicaAnswer, one_of};
use crate::args::{ConnectionArgs, ServerArgs};
use crate::document::Metadata;
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use tributary_model::Code;

/// One server, or all replicas of one.
pub struct Server {
    place: Place,
    timeout: Duration,
}

enum Place {
    One(Http),
    Several(Vec<Http>),
    Pods(Box<PodServers>),
}

impl Server {
    /// Returns the server of `--server`, else `TRIBUTARY_SERVER`, else the default.
    pub fn find(args: &ServerArgs, env: &Environment) -> Result<Self, CommandError> {
        Self::at(&args.connection, args.timeout.get(), env)
    }
    /// Returns the server of a command that has a time limit of its own.
    pub fn at(args: &ConnectionArgs, timeout: Duration, env: &Environment) -> Result<Self, CommandError> {
        let url = args.server.as_deref().or_else(|| env.get("TRIBUTARY_SERVER")).unwrap_or(DEFAULT);
        Self::of_url(url, timeout, &Login::of(args, env), env)
    }
    /// Parses `http://HOST:PORT` or `HOST:PORT`.
    pub fn parse(url: &str, timeout: Duration) -> Result<Self, CommandError> {
        Self::of_url(url, timeout, &Login::default(), &Environment::default())
    }
    fn of_url(url: &str, timeout: Duration, login: &Login, env: &Environment) -> Result<Self, CommandError> {
        let place = match PodsUrl::parse(url)? {
            Some(pods) => Place::Pods(Box::new(PodServers::new(pods, env.clone()))),
            None if url.contains(',') => {
                let all = url.split(',').map(|one| Http::parse(one.trim(), login));
                Place::Several(all.collect::<Result<_, _>>()?)
            }
            None => Place::One(Http::parse(url, login)?),
        };
        Ok(Self { place, timeout })
    }
    /// Returns each replica as a server of its own.
    pub async fn replicas(args: &ServerArgs, env: &Environment) -> Result<Vec<Self>, CommandError> {
        Self::find(args, env)?.split().await
    }
    /// Returns each replica as a server of its own.
    pub async fn split(&self) -> Result<Vec<Self>, CommandError> {
        let all: Vec<Place> = match &self.place {
            Place::One(http) => vec![Place::One(http.clone())],
            Place::Several(all) => all.iter().cloned().map(Place::One).collect(),
            Place::Pods(pods) => {
                pods.split().await?.into_iter().map(|one| Place::Pods(Box::new(one))).collect()
            }
        };
        Ok(all.into_iter().map(|place| Self { place, timeout: self.timeout }).collect())
    }
    /// Returns its address, as `--server` takes it.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.place {
            Place::One(http) => http.base().to_owned(),
            Place::Several(all) => all.iter().map(Http::base).collect::<Vec<_>>().join(","),
            Place::Pods(pods) => pods.url(),
        }
    }
    /// Sends a GET and returns the body; a status other than success is an error.
    pub async fn get(&self, path: &str, query: Query<'_>) -> Result<Bytes, CommandError> {
        self.merged(&Request::get(self.timeout, path, query)).await
    }
    /// Sends a POST that changes something and returns the body.
    pub async fn post(&self, path: &str, query: Query<'_>) -> Result<Bytes, CommandError> {
        self.merged(&Request { method: Method::POST, ..Request::get(self.timeout, path, query) }).await
    }
    /// Sends a GET that the server may delay until something changes.
    pub async fn get_held(
        &self,
        held: Duration,
        path: &str,
        query: Query<'_>,
    ) -> Result<Bytes, CommandError> {
        if query.iter().any(|(name, _)| *name == "after") {
            self.require_one().await?;
        }
        self.merged(&Request::get(self.timeout + held, path, query)).await
    }
    /// Sends a request to one server, such as those that [`Server::split`] returns. A failure does not name the server: the caller does.
    /// The server may take `held` longer than usual.
    pub async fn exchange(
        &self,
        (method, held): (Method, Duration),
        path: &str,
        query: Query<'_>,
    ) -> Result<Bytes, CommandError> {
        self.require_one().await?;
        let request = Request { method, ..Request::get(self.timeout + held, path, query) };
        self.answers(&request).await?.pop().map_or_else(|| Err(no_replica()), |only| only.body)
    }
    /// Returns the pods, if replicas are reached through a cluster.
    #[must_use]
    pub fn pods(&self) -> Option<&PodServers> {
        match &self.place {
            Place::Pods(pods) => Some(pods),
            Place::One(_) | Place::Several(_) => None,
        }
    }
    /// Fails unless there is exactly one replica.
    pub async fn require_one(&self) -> Result<(), CommandError> {
        match &self.place {
            Place::One(_) => Ok(()),
            Place::Several(all) => one_of(all.len(), all.first().map(Http::base).unwrap_or(DEFAULT)),
            Place::Pods(pods) => pods.require_one().await,
        }
    }
    async fn answers(&self, request: &Request<'_>) -> Result<Vec<ReplicaAnswer>, CommandError> {
        match &self.place {
            Place::One(http) => Ok(vec![answer(http, request).await]),
            Place::Several(all) => Ok(join_all(all.iter().map(|http| answer(http, request))).await),
            Place::Pods(pods) => pods.each(request).await,
        }
    }
    /// Returns the body of the only replica, or the merged answers of several.
    async fn merged(&self, request: &Request<'_>) -> Result<Bytes, CommandError> {
        let mut answers = self.answers(request).await?;
        match answers.pop() {
            Some(ReplicaAnswer { replica, body }) if answers.is_empty() => {
                body.map_err(|failure| of_server(failure, &replica))
            }
            Some(last) => {
                answers.push(last);
                merge_replicas::documents(request.path, answers)
            }
            None => Err(no_replica()),
        }
    }
}

fn no_replica() -> CommandError {
    CommandError::new(Exit::NotFound, Code::NOT_FOUND, "no replica was found")
}

async fn answer(http: &Http, request: &Request<'_>) -> ReplicaAnswer {
    ReplicaAnswer { replica: http.base().to_owned(), body: http.send(request).await }
}

/// Reports replicas that did not answer, and returns the exit code of a command that otherwise ends with `exit`.
pub fn conclude(metadata: &Metadata, exit: Exit, console: &mut Console<'_>) -> Exit {
    for silent in &metadata.silent {
        console.note(&format!("no answer of replica {silent}"));
    }
    match exit {
        Exit::Ok | Exit::No | Exit::NotFound if !metadata.silent.is_empty() => Exit::Partial,
        exit => exit,
    }
}
