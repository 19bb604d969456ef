//! Security of connections by rule, mesh, endpoints and certificates of the client.

use tributary_model::Resolution;

use super::*;
use crate::fixtures::*;

fn mk_client(kind: ClientKind, certificates: CertificateSource) -> Projection {
    Projection { certificates: Some(certificates), ..mk_projection(kind) }
}
fn agent() -> CertificateSource {
    CertificateSource::Sds(CertificateSource::AGENT.into())
}
fn mk_inputs(automatic_tls: bool, all_meshed: bool) -> ClusterInputs {
    let identities = ["spiffe://mesh/ns/shop/sa/a", "spiffe://mesh/ns/shop/sa/b"];
    let identities: IdentitySet = identities.iter().map(|text| Identity::new(text).unwrap()).collect();
    ClusterInputs {
        automatic_tls,
        all_meshed,
        identities: Arc::new(identities),
        ..mk_cluster(Resolution::ClientSide, None)
    }
}
fn mk_policy(tls: Option<ClientTls>) -> TrafficPolicy {
    TrafficPolicy { tls: tls.map(Arc::new), ..TrafficPolicy::default() }
}
fn mutual(names: &[&str], sni: Option<&str>) -> ClientTls {
    let names = names.iter().map(|name| Arc::from(*name)).collect();
    ClientTls::IstioMutual(TlsSettings { names, sni: sni.map(Into::into), ..TlsSettings::default() })
}
fn mk_name(text: &str) -> ClusterName {
    text.parse().unwrap()
}
/// Returns the security as text: how, the server name, and the names of which the server proves one.
fn shown(
    inputs: &ClusterInputs,
    tls: Option<ClientTls>,
    reach: Reach,
    client: &Projection,
    name: &str,
) -> String {
    let policy = mk_policy(tls);
    let (how, tls) = match transport(inputs, Some(&policy), reach, client, &mk_name(name)) {
        Err(NoCertificates) => return "none".into(),
        Ok(Transport::Plain(why)) => return format!("plain {why:?}"),
        Ok(Transport::Files(_)) => return "files".into(),
        Ok(Transport::Automatic(tls)) => ("automatic", tls),
        Ok(Transport::Mesh(tls)) => ("always", tls),
    };
    let names: Vec<&str> = tls.names.iter().map(|name| name.rsplit('/').next().unwrap()).collect();
    format!("{how} {} {}", tls.sni.as_deref().unwrap_or("-"), names.join(","))
}

const NAME: &str = "outbound|80||pay.shop";
const SNI: &str = "outbound_.80_._.pay.shop";

#[test]
fn rule_or_else_mesh_and_endpoints_decide_the_security_of_connections() {
    use ClientKind::{Envoy, Grpc, Sidecar};
    use Reach::{Endpoint, Host, Original};
    let (with, without) = (|kind| mk_client(kind, agent()), |kind| mk_client(kind, CertificateSource::None));
    let inside = || mk_inputs(true, false);
    let (simple, disable) = (ClientTls::Simple(TlsSettings::default()), ClientTls::Disable);
    let automatic = format!("automatic {SNI} a,b");
    let always = format!("always {SNI} a,b");
    let cases: Vec<(ClusterInputs, Option<ClientTls>, Reach, Projection, &str)> = vec![
        (inside(), None, Endpoint, with(Sidecar), &automatic),
        (inside(), None, Endpoint, with(Envoy), &automatic),
        (inside(), None, Endpoint, without(Sidecar), "plain NoCertificates"),
        (inside(), None, Endpoint, with(Grpc), "plain Grpc"),
        (mk_inputs(false, false), None, Endpoint, with(Sidecar), "plain Outside"),
        (inside(), None, Host, with(Sidecar), "plain Outside"),
        (inside(), None, Original, with(Sidecar), "plain SomePlain"),
        (mk_inputs(true, true), None, Original, with(Sidecar), &always),
        (mk_inputs(true, true), None, Endpoint, with(Sidecar), &automatic),
        (mk_inputs(false, true), None, Original, with(Sidecar), "plain Outside"),
        (inside(), Some(disable.clone()), Endpoint, with(Sidecar), "plain Rule"),
        (inside(), Some(disable), Endpoint, with(Grpc), "plain Rule"),
        (inside(), Some(simple), Endpoint, with(Sidecar), "files"),
        (inside(), Some(mutual(&[], None)), Endpoint, with(Sidecar), &always),
        (inside(), Some(mutual(&[], None)), Original, with(Sidecar), &always),
        (mk_inputs(false, false), Some(mutual(&[], None)), Endpoint, with(Sidecar), &always),
        (inside(), Some(mutual(&[], None)), Endpoint, without(Sidecar), "none"),
        (inside(), Some(mutual(&[], None)), Endpoint, without(Grpc), &always),
        (inside(), Some(mutual(&[], None)), Host, with(Sidecar), "always - a,b"),
        (inside(), Some(mutual(&["x/y"], Some("front"))), Endpoint, with(Sidecar), "always front y"),
    ];
    for (inputs, tls, reach, client, want) in cases {
        assert_eq!(shown(&inputs, tls.clone(), reach, &client, NAME), want, "{tls:?} {reach:?} {client:?}");
    }
}

#[test]
fn server_name_is_that_of_the_xds_cluster_if_it_is_not_too_long() {
    let (inputs, client) = (mk_inputs(true, false), mk_client(ClientKind::Sidecar, agent()));
    let sni = |name: &str| shown(&inputs, None, Reach::Endpoint, &client, name);
    assert_eq!(sni("outbound|80|v1|pay.shop"), "automatic outbound_.80_.v1_.pay.shop a,b");
    let label = "a".repeat(60);
    let long = [&*label; 4].join(".");
    assert_eq!(sni(&format!("outbound|80||{long}")), "automatic - a,b", "Envoy takes 255 bytes at most");
}
