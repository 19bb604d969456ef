//! Decides how connections of an xDS cluster are secured: in plain text, by files that a rule names, or with certificates
//! of the mesh (docs/reference/xds.md#mesh-tls).
//!
//! `cluster` calls it for each plan, and explain for its steps.

use std::fmt;
use std::sync::Arc;

use tributary_model::{
    CertificateSource, ClientKind, ClientTls, ClusterInputs, Identity, IdentitySet, Projection, TlsSettings,
    TrafficPolicy,
};

use crate::names::ClusterName;

/// Longest server name that Envoy accepts.
const MOST_SNI: usize = 255;

/// Security of the connections of an xDS cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Transport<'a> {
    /// Plain text.
    Plain(PlainReason),
    /// TLS by files of the client that a rule names, or without a client certificate.
    Files(&'a ClientTls),
    /// TLS of the mesh to endpoints that accept it, plain text to others.
    Automatic(MeshTls<'a>),
    /// TLS of the mesh to all endpoints.
    Mesh(MeshTls<'a>),
}

/// Why connections are plain text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainReason {
    /// The rule of the client disables TLS.
    Rule,
    /// The client has no certificates of the mesh.
    NoCertificates,
    /// gRPC clients use mesh TLS only where a rule requires it.
    Grpc,
    /// The service is outside the mesh, or the mesh has no automatic TLS.
    Outside,
    /// Clients cannot treat the endpoints differently, and not all of them accept mesh TLS.
    SomePlain,
    /// A router passes the TLS of its clients on.
    Forwarded,
}

impl fmt::Display for PlainReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rule => "its DestinationRule disables TLS",
            Self::NoCertificates => "the client's node names no certificates of the mesh",
            Self::Grpc => "gRPC uses mesh TLS only where a DestinationRule has mode ISTIO_MUTUAL",
            Self::Outside => "the service is outside the mesh, or automatic mesh TLS is off",
            Self::Forwarded => "the router passes the mesh TLS of its clients on",
            Self::SomePlain => "connections keep their destination, and not all endpoints accept mesh TLS",
        })
    }
}

/// TLS with certificates of the mesh.
#[derive(Debug, Clone, PartialEq)]
pub struct MeshTls<'a> {
    /// Where the client has its certificates; unknown for gRPC, which has them from its own bootstrap.
    pub certificates: CertificateSource,
    /// Names of which the server must prove one; any certificate of the mesh without any.
    pub names: PeerNames<'a>,
    /// Name that the client requests; none where the host of each request is that.
    pub sni: Option<String>,
}

/// Names of which a server must prove one.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerNames<'a> {
    /// Those of the rule.
    Rule(&'a [Arc<str>]),
    /// Identities of the service's endpoints.
    Identities(&'a Arc<IdentitySet>),
}

impl PeerNames<'_> {
    /// Iterates over the names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let (rule, identities): (&[Arc<str>], &[Identity]) = match self {
            Self::Rule(names) => (names, &[]),
            Self::Identities(set) => (&[], set),
        };
        rule.iter().map(|name| &**name).chain(identities.iter().map(|identity| identity.as_str()))
    }
}

/// How a client knows where a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To an endpoint that it chooses, so that each may be treated apart.
    Endpoint,
    /// To the original destination of the connection.
    Original,
    /// To the host of the request.
    Host,
}

/// Error: a rule requires certificates of the mesh, and the client has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoCertificates;

/// Decides the security of connections.
pub(crate) fn transport<'a>(
    facts: &'a ClusterInputs,
    policy: Option<&'a TrafficPolicy>,
    reach: Reach,
    client: &Projection,
    name: &ClusterName,
) -> Result<Transport<'a>, NoCertificates> {
    let tls = policy.and_then(|policy| policy.tls.as_deref());
    let is_grpc = client.kind == Some(ClientKind::Grpc);
    let mesh = |rule: Option<&'a TlsSettings>| MeshTls {
        certificates: client.certificates.clone().unwrap_or_default(),
        names: match rule.map(|rule| &*rule.names).filter(|names| !names.is_empty()) {
            Some(names) => PeerNames::Rule(names),
            None => PeerNames::Identities(&facts.identities),
        },
        sni: rule.and_then(|rule| rule.sni.as_deref().map(str::to_owned)).or_else(|| sni(reach, name)),
    };
    let has_certificates = is_grpc || client.certificates.as_ref().is_some_and(CertificateSource::is_known);
    Ok(match tls {
        _ if client.kind == Some(ClientKind::Router) => Transport::Plain(PlainReason::Forwarded),
        Some(ClientTls::Disable) => Transport::Plain(PlainReason::Rule),
        Some(files @ (ClientTls::Simple(_) | ClientTls::Mutual(..))) => Transport::Files(files),
        Some(ClientTls::IstioMutual(_)) if !has_certificates => return Err(NoCertificates),
        Some(ClientTls::IstioMutual(rule)) => Transport::Mesh(mesh(Some(rule))),
        None => match (refused(facts, reach, is_grpc, has_certificates), reach) {
            (Some(why), _) => Transport::Plain(why),
            (None, Reach::Original) => Transport::Mesh(mesh(None)),
            (None, _) => Transport::Automatic(mesh(None)),
        },
    })
}

/// Returns why the client uses no mesh TLS without a rule; `None` if it does.
const fn refused(
    facts: &ClusterInputs,
    reach: Reach,
    is_grpc: bool,
    has_certificates: bool,
) -> Option<PlainReason> {
    match reach {
        _ if is_grpc => Some(PlainReason::Grpc),
        // hosts that only each request names are outside the mesh
        Reach::Host => Some(PlainReason::Outside),
        _ if !facts.automatic_tls => Some(PlainReason::Outside),
        Reach::Original if !facts.all_meshed => Some(PlainReason::SomePlain),
        _ if !has_certificates => Some(PlainReason::NoCertificates),
        _ => None,
    }
}

/// Returns the server name by which gateways between networks find the xDS cluster: `outbound_.80_._.pay.shop`.
fn sni(reach: Reach, name: &ClusterName) -> Option<String> {
    let sni = (reach != Reach::Host).then(|| name.clone().of(Some(ClientKind::Router)).to_string())?;
    (sni.len() <= MOST_SNI).then_some(sni)
}

#[cfg(test)]
mod tests;
