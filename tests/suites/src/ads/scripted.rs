//! A scripted ADS server: holds a table of resources, answers from it on SotW and delta, pushes changes of the
//! table, and records the requests of clients. It proves the harness and the accepted shapes of resources
//! independently of the real server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use parking_lot::Mutex;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Variant, frame};

mod session;
use session::Session;

/// Method of a server of secrets, such as the agent beside a proxy.
const SECRETS: &str = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";

/// Resources by type and name: their encoded form.
pub(super) type Table = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// One request that the server received.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReceivedRequest {
    /// Requested type.
    pub type_url: String,
    /// Names: all of them on SotW, the added ones on delta.
    pub names: Vec<String>,
    /// Nonce of the response that it answers, if any.
    pub nonce: String,
    /// Error message of a NACK.
    pub error: Option<String>,
    /// Id of the node, if the request had a node.
    pub node: Option<String>,
}

/// The running server; everything ends when it is dropped.
#[derive(Debug)]
pub struct ScriptedAds {
    addr: SocketAddr,
    table: watch::Sender<Table>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl ScriptedAds {
    /// Starts with an empty table on a free port.
    pub async fn start() -> Result<Self> {
        let addr = crate::ports::free_addr()?;
        let listener = TcpListener::bind(addr).await.with_context(|| format!("listen on {addr}"))?;
        let (table, reader) = watch::channel(Table::new());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(listener, reader, Arc::clone(&requests)));
        Ok(Self { addr, table, requests, task })
    }

    /// Returns the address that clients connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Adds or replaces resources of one type, in one step for clients.
    pub fn put<M: Message>(&self, type_url: &str, resources: &[(&str, M)]) {
        self.table.send_modify(|table| {
            let names = table.entry(type_url.to_owned()).or_default();
            names.extend(resources.iter().map(|(name, value)| ((*name).to_owned(), value.encode_to_vec())));
        });
    }

    /// Removes a resource.
    pub fn remove(&self, type_url: &str, name: &str) {
        self.table.send_modify(|table| {
            table.entry(type_url.to_owned()).or_default().remove(name);
        });
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().clone()
    }

    /// Returns the messages of every NACK so far.
    pub fn nacks(&self) -> Vec<String> {
        self.requests.lock().iter().filter_map(|request| request.error.clone()).collect()
    }
}

impl Drop for ScriptedAds {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    table: watch::Receiver<Table>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => {
                connections.spawn(connection(stream, table.clone(), Arc::clone(&requests)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    stream: TcpStream,
    table: watch::Receiver<Table>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut http = h2::server::handshake(stream).await?;
    let mut streams = JoinSet::new();
    while let Some(accepted) = http.accept().await {
        let (request, respond) = accepted?;
        streams.spawn(serve(request, respond, table.clone(), Arc::clone(&requests)));
    }
    Ok(())
}

async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    mut table: watch::Receiver<Table>,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
) -> Result<()> {
    let path = request.uri().path();
    let of_secrets = (path == SECRETS).then_some(Variant::Sotw);
    let Some(variant) = Variant::BOTH.into_iter().find(|variant| variant.path() == path).or(of_secrets)
    else {
        return unimplemented(&mut respond);
    };
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut send = respond.send_response(head, false)?;
    let mut reader = frame::Reader::new(request.into_body());
    let mut session = Session::new(variant);
    loop {
        tokio::select! {
            message = reader.next() => {
                let Some(bytes) = message? else { break };
                requests.lock().push(session.process(bytes)?);
            }
            changed = table.changed() => changed?,
        }
        let answers = session.answers(&table.borrow_and_update());
        for answer in answers {
            send.send_data(answer, false)?;
        }
    }
    send.send_trailers(status("0"))?;
    Ok(())
}

/// Answers other services, such as load reports, with UNIMPLEMENTED.
fn unimplemented(respond: &mut SendResponse<Bytes>) -> Result<()> {
    let mut head = Response::builder().header("content-type", "application/grpc").body(())?;
    head.headers_mut().extend(status("12"));
    respond.send_response(head, true)?;
    Ok(())
}

fn status(code: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("grpc-status", HeaderValue::from_static(code));
    headers
}
