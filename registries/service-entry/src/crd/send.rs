//! Sends planned writes to the API server.

use futures::FutureExt;
use tributary_kube_client::{Outcome, Sends, Writer};

use super::kinds::SERVICE_ENTRIES;
use crate::allocate::{Write, steps};

/// Returns the function that writes into the cluster of this client.
pub(crate) fn sends(client: kube::Client) -> Sends<Write> {
    let writer = Writer::new(client);
    Box::new(move |write| send(writer.clone(), write.clone()).boxed())
}

async fn send(writer: Writer, write: Write) -> Outcome {
    let Write { name, was, .. } = &write;
    writer.patch(&SERVICE_ENTRIES, was.api, name, Some("status"), &steps(&write)).await.map(drop)
}
