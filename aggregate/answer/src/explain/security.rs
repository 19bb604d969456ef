//! Names how connections of a client to a port are secured: mesh TLS with its server name and identities, or plain text and
//! why.
//!
//! Explain calls it for each endpoint, why-not for each port.

use tributary_model::{Code, PortView, Stage, Subset, TraceStep, Verdict};

use crate::client::ClientClass;
use crate::cluster::cluster;
use crate::key::key;
use crate::steps::{named, service_step};
use crate::transport::{MeshTls, Transport};

/// Returns the security of a client's connections to a port, or to an endpoint of it that accepts mesh TLS (`Some(true)`) or
/// does not. `None` where there is nothing to name: plain text to what is not part of the mesh, or files of a rule.
pub(super) fn step(
    port: &PortView,
    subset: Option<&Subset>,
    class: &ClientClass,
    accepts: Option<bool>,
) -> Option<TraceStep> {
    let plan = cluster(&port.cluster.inputs, subset, &key(&port.cluster, class), &mut ())?;
    let how = match (&plan.transport, accepts) {
        (Transport::Automatic(_), Some(false)) => {
            "plain text, because the endpoint does not accept mesh TLS".to_owned()
        }
        (Transport::Automatic(tls), Some(true)) => {
            format!("mesh TLS, because the endpoint accepts it{}", shown(tls))
        }
        (Transport::Automatic(tls), None) => {
            format!("mesh TLS to endpoints that accept it, plain text to others{}", shown(tls))
        }
        (Transport::Mesh(tls), _) => format!("mesh TLS to all endpoints{}", shown(tls)),
        (Transport::Plain(why), Some(true)) => format!("plain text, because {why}"),
        (Transport::Plain(_) | Transport::Files(_), _) => return None,
    };
    let detail = format!("port {}: {how}", port.number);
    Some(service_step(Stage::Deliver, Verdict::Pass, Code::CONNECTION_SECURITY, None, detail))
}

fn shown(tls: &MeshTls<'_>) -> String {
    let sni = tls.sni.as_ref().map(|sni| format!("; server name {sni}")).unwrap_or_default();
    let names = named(tls.names.iter());
    let proves = if names.is_empty() { "any certificate of the mesh" } else { "one of" };
    format!("{sni}; the server proves {proves} {names}").trim_end().to_owned()
}
