//! Sends planned writes to the API server.

use futures::FutureExt;
use http::{Method, Request, StatusCode};
use tributary_kube_client::ObjectName;

use super::kinds::SERVICE_ENTRIES;
use crate::allocate::{Outcome, Sends, Write, operations};

/// Writes into the cluster behind this client.
pub(crate) fn sends(client: kube::Client) -> Sends {
    Box::new(move |write| send(client.clone(), request(write)).boxed())
}

fn request(write: &Write) -> Request<Vec<u8>> {
    let ObjectName { namespace, name } = &write.name;
    let root = SERVICE_ENTRIES.path(write.was.api, namespace.as_deref());
    let mut request = Request::new(operations(write).to_string().into_bytes());
    *request.method_mut() = Method::PATCH;
    *request.uri_mut() = format!("{root}/{name}/status").parse().unwrap_or_default();
    let json_patch = http::HeaderValue::from_static("application/json-patch+json");
    request.headers_mut().insert(http::header::CONTENT_TYPE, json_patch);
    request
}

async fn send(client: kube::Client, request: Request<Vec<u8>>) -> Outcome {
    match client.request_text(request).await {
        Ok(_) => Outcome::Made,
        Err(kube::Error::Api(status)) => outcome(status.code, &status.message),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// A guard that does not hold is a conflict, or an operation that cannot be done.
fn outcome(code: u16, message: &str) -> Outcome {
    let overtaken = [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY];
    let why = format!("{code} {message}");
    let known = overtaken.iter().any(|known| known.as_u16() == code);
    if known { Outcome::Overtaken(why) } else { Outcome::Refused(why) }
}
