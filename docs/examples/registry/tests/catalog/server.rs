//! A scripted listing on a free loopback port.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tributary_conformance::{Act, Service};
use tributary_model::WithheldCause;

#[derive(Default)]
struct Part {
    services: BTreeMap<String, String>,
    status: Option<StatusCode>,
    torn: u32,
    is_lying: bool,
}

#[derive(Default)]
struct Parts {
    parts: [Part; 2],
    is_doubled: bool,
    is_reversed: bool,
}

/// The server; it ends when this is dropped.
pub(crate) struct Catalog {
    parts: Arc<Mutex<Parts>>,
    address: std::net::SocketAddr,
    task: JoinHandle<()>,
}

impl Catalog {
    /// Starts an empty listing.
    pub(crate) async fn start() -> Self {
        let parts = Arc::<Mutex<Parts>>::default();
        let routes = Router::new().route("/namespaces/{namespace}/services", get(list));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = axum::serve(listener, routes.with_state(Arc::clone(&parts)));
        let task = tokio::spawn(async move { serve.await.unwrap() });
        Self { parts, address, task }
    }
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }
    pub(crate) fn set(&self, part: usize, service: &Service) {
        let instances: Vec<String> =
            service.endpoints.iter().map(|ip| format!(r#"{{"ip":"{ip}","port":8080}}"#)).collect();
        let text = format!(
            r#"{{"name":"{}","port":80,"protocol":"http","instances":[{}]}}"#,
            service.name,
            instances.join(",")
        );
        self.parts.lock().parts[part].services.insert(service.name.clone(), text);
    }
    pub(crate) fn delete(&self, service: &str) {
        self.parts.lock().parts.iter_mut().for_each(|part| drop(part.services.remove(service)));
    }
    pub(crate) fn act(&self, act: &Act) {
        let mut all = self.parts.lock();
        match act {
            Act::Fail(Some(part)) => all.parts[*part].status = Some(StatusCode::SERVICE_UNAVAILABLE),
            Act::Fail(None) => all.each(|part| part.status = Some(StatusCode::SERVICE_UNAVAILABLE)),
            Act::Recover => all.each(|part| part.status = None),
            Act::Refuse(_, WithheldCause::Forbidden) => all.parts[1].status = Some(StatusCode::FORBIDDEN),
            Act::Refuse(_, WithheldCause::Failing) => {
                all.parts[1].status = Some(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Act::Corrupt(name) => all.each(|part| {
                if let Some(text) = part.services.get_mut(name) {
                    *text = text.replace(r#""port":80,"#, r#""port":0,"#);
                }
            }),
            Act::Tear(times) => all.each(|part| part.torn = *times),
            Act::LieEmpty => all.each(|part| part.is_lying = true),
            Act::Duplicate => all.is_doubled = true,
            Act::Reorder => all.is_reversed = true,
            // every poll is a list; the configuration belongs to the factory
            Act::Relist | Act::Narrow => {}
            Act::Shorten | Act::End | Act::Swap => panic!("{act:?} was declined"),
        }
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Parts {
    fn each(&mut self, change: impl FnMut(&mut Part)) {
        self.parts.iter_mut().for_each(change);
    }
}

async fn list(State(parts): State<Arc<Mutex<Parts>>>, Path(namespace): Path<String>) -> Response {
    let mut all = parts.lock();
    let (is_doubled, is_reversed) = (all.is_doubled, all.is_reversed);
    let Some(part) = all.parts.get_mut(usize::from(namespace == "part-1")) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if let Some(status) = part.status {
        return status.into_response();
    }
    let mut services: Vec<String> = part.services.values().cloned().collect();
    if std::mem::take(&mut part.is_lying) {
        services.clear();
    }
    if is_doubled {
        services = services.into_iter().flat_map(|text| [text.clone(), text]).collect();
    }
    if is_reversed {
        services.reverse();
    }
    let mut body = format!(r#"{{"services":[{}]}}"#, services.join(","));
    if part.torn > 0 {
        part.torn -= 1;
        body.truncate(body.len() / 2);
    }
    body.into_response()
}
