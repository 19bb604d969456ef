//! Sends planned writes to the API server.

use futures::FutureExt;
use tributary_kube_client::{Failure, Writer};

use super::kinds::SERVICE_ENTRIES;
use crate::allocate::{Outcome, Sends, Write, steps};

/// Writes into the cluster behind this client.
pub(crate) fn sends(client: kube::Client) -> Sends {
    let writer = Writer::new(client);
    Box::new(move |write| send(writer.clone(), write.clone()).boxed())
}

async fn send(writer: Writer, write: Write) -> Outcome {
    let Write { name, was, .. } = &write;
    match writer.patch(&SERVICE_ENTRIES, was.api, name, Some("status"), &steps(&write)).await {
        Ok(_) => Outcome::Made,
        Err(Failure::Conflict(why)) => Outcome::Overtaken(why),
        Err(other) => Outcome::Refused(other.to_string()),
    }
}
