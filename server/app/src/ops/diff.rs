//! Differences between the resources of two clients, and the attributes of the clients that make them.
//!
//! The answers themselves are asked: if the first client, with one attribute of the second, would get another version,
//! that attribute makes a difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tributary_descriptors::Decoder;
use tributary_model::{Catalog, CertificateSource, ClientKind, ClosedPorts, Labels, Version};
use tributary_xds::answers::{
    ClientClass, ClientClassKey, PatchedAnswers, ResourceProvider as _, ResourceType,
};
use tributary_xds::session::{SentResource, SentView};

use super::sessions::{MAX_DECODED, Sessions};
use crate::admin::backend::Answer;
use crate::document::{DiffItem, Filter};

/// Most differing resources whose reason is looked for.
const MAX_EXPLAINED: usize = 1_000;
/// Most differing fields that are listed of a resource.
const MAX_FIELDS: usize = 8;

/// Differences, or the reason why there are none.
pub type Differences = Result<Answer<DiffItem>, String>;

/// Returns the differences between two clients, by type and name.
pub fn list(
    catalog: &Arc<Catalog>,
    sessions: &Sessions,
    (a, b): (&str, &str),
    kind: Option<ResourceType>,
) -> Differences {
    let (a, b) = (sessions.find(catalog, a)?, sessions.find(catalog, b)?);
    let mut pairs = Pairs::new();
    let (of_a, of_b) = (a.sent_resources(catalog, kind), b.sent_resources(catalog, kind));
    for (view, all) in &of_a {
        all.iter().for_each(|resource| pairs.entry(key(resource)).or_default().0 = Some((view, resource)));
    }
    for (view, all) in &of_b {
        all.iter().for_each(|resource| pairs.entry(key(resource)).or_default().1 = Some((view, resource)));
    }
    pairs.retain(|_, (a, b)| version(*a) != version(*b));
    let more = pairs.len().saturating_sub(Filter::MAX);
    let reasons = Reasons::new(catalog, &sessions.answers, (&a.client.class, &b.client.class));
    let mut fields = Fields { decoder: Decoder::new().ok(), left: MAX_DECODED };
    let mut items = Vec::new();
    for (at, (&(kind, name), &(a, b))) in pairs.iter().take(Filter::MAX).enumerate() {
        items.push(DiffItem {
            why: if at < MAX_EXPLAINED { reasons.of(kind, name, a.or(b)) } else { Vec::new() },
            fields: fields.of(a, b),
            ..item(kind, name, version(a), version(b))
        });
    }
    Ok(Answer { items, more, notes: [a.note, b.note].into_iter().flatten().collect() })
}

type Held<'s> = Option<(&'s SentView, &'s SentResource)>;
type Pairs<'s> = BTreeMap<(ResourceType, &'s str), (Held<'s>, Held<'s>)>;

fn key(resource: &SentResource) -> (ResourceType, &str) {
    (resource.kind, &resource.name)
}

fn version(held: Held<'_>) -> Option<Version> {
    held.and_then(|(_, resource)| resource.version)
}

fn item(kind: ResourceType, name: &str, a: Option<Version>, b: Option<Version>) -> DiffItem {
    let text = |version: Option<Version>| version.map(|version| version.to_string()).unwrap_or_default();
    let held_by = match (a, b) {
        (Some(_), None) => "a",
        (None, Some(_)) => "b",
        _ => "both",
    };
    let kind = kind.as_str().to_uppercase();
    DiffItem {
        kind,
        name: name.into(),
        held_by: held_by.into(),
        a: text(a),
        b: text(b),
        ..DiffItem::default()
    }
}

/// Finds the attribute of the clients that makes a difference, with the answers themselves.
struct Reasons<'s> {
    catalog: &'s Arc<Catalog>,
    answers: &'s PatchedAnswers,
    a: ClientClassKey,
    b: ClientClassKey,
    /// The first client with one attribute of the second, by attribute.
    mixed: Vec<(String, ClientClassKey)>,
}

impl<'s> Reasons<'s> {
    fn new(
        catalog: &'s Arc<Catalog>,
        answers: &'s PatchedAnswers,
        (a, b): (&ClientClass, &ClientClass),
    ) -> Self {
        let mixed = mixed(a, b).into_iter().map(|(text, class)| (text, ClientClassKey::alone(class)));
        let alone = |class: &ClientClass| ClientClassKey::alone(class.clone());
        Self { catalog, answers, a: alone(a), b: alone(b), mixed: mixed.collect() }
    }
    fn of(&self, kind: ResourceType, name: &str, held: Held<'_>) -> Vec<String> {
        if held.is_some_and(|(view, resource)| view.is_own(resource)) {
            return vec!["inbound resources of the client's own workload".to_owned()];
        }
        let of = |class: &ClientClassKey| {
            self.answers.one(self.catalog, class, kind, name).map(|resource| resource.version)
        };
        let (a, b) = (of(&self.a), of(&self.b));
        if a == b {
            return vec!["one client subscribes to it or has received it, the other not yet".to_owned()];
        }
        let differs = self.mixed.iter().filter(|(_, class)| of(class) != a);
        let why: Vec<String> = differs.map(|(text, _)| text.clone()).collect();
        if why.is_empty() { self.mixed.iter().map(|(text, _)| text.clone()).collect() } else { why }
    }
}

/// Attribute of a client that answers may depend on: its name, its text, and how to take it from another client.
type Attribute = (&'static str, fn(&ClientClass) -> String, fn(&mut ClientClass, &ClientClass));

/// What a client reaches; of a router it follows from Gateways.
const SIDECAR: &str = "Sidecar";

const ATTRIBUTES: [Attribute; 18] = [
    ("namespace", |c| text(c.namespace.as_ref()), |to, from| to.namespace.clone_from(&from.namespace)),
    (
        SIDECAR,
        |c| text(c.sidecar.as_ref().map(|s| format!("{}/{}", s.key.namespace, s.key.name)).as_ref()),
        |to, from| to.sidecar.clone_from(&from.sidecar),
    ),
    ("cluster", |c| text(c.cluster.as_ref()), |to, from| to.cluster.clone_from(&from.cluster)),
    ("network", |c| text(c.network.as_ref()), |to, from| to.network.clone_from(&from.network)),
    ("locality", |c| text(Some(&c.locality)), |to, from| to.locality.clone_from(&from.locality)),
    ("node", |c| text(c.node.as_ref()), |to, from| to.node.clone_from(&from.node)),
    ("DNS domain", |c| text(c.domain.as_ref()), |to, from| to.domain.clone_from(&from.domain)),
    ("kind", |c| format!("{:?}", c.kind).to_lowercase(), |to, from| to.kind = from.kind),
    ("IP families", |c| families(c.families), |to, from| to.families = from.families),
    ("listeners", |c| of_ports(c.binds), |to, from| to.binds = from.binds),
    ("closed ports", |c| closed(c.closed), |to, from| to.closed = from.closed),
    ("DNS capture", |c| on_off(c.dns_capture), |to, from| to.dns_capture = from.dns_capture),
    ("certificates of the mesh", certificates, |to, from| {
        to.certificates.clone_from(&from.certificates);
        to.certificate_files.clone_from(&from.certificate_files);
    }),
    ("EnvoyFilters", filters, |to, from| to.patches.clone_from(&from.patches)),
    ("mesh TLS of inbound connections", inbound, |to, from| {
        to.inbound.clone_from(&from.inbound);
        to.trust_domains.clone_from(&from.trust_domains);
        to.withholds_inbound = from.withholds_inbound;
    }),
    ("AuthorizationPolicies", authorization, |to, from| {
        to.authorization.clone_from(&from.authorization);
        to.trust_domains.clone_from(&from.trust_domains);
    }),
    ("checks of tokens", tokens, |to, from| to.tokens.clone_from(&from.tokens)),
    ("labels that rules compare", |c| labels(&c.labels), |to, from| to.labels.clone_from(&from.labels)),
];

fn text(value: Option<&impl ToString>) -> String {
    value.map(ToString::to_string).filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned())
}

fn families((v4, v6): (bool, bool)) -> String {
    let names = [(v4, "IPv4"), (v6, "IPv6")];
    names.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect::<Vec<_>>().join("+")
}

/// Describes the listeners of services: bound to their ports, or reached by redirection.
fn of_ports(binds: bool) -> String {
    if binds { "bound to ports" } else { "behind redirection" }.to_owned()
}

fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

fn labels(labels: &Labels) -> String {
    let texts: Vec<String> = labels.pairs().map(|(key, value)| format!("{key}={value}")).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(",") }
}

/// Describes where the client has its certificates; two clients with files have them at different paths.
fn certificates(class: &ClientClass) -> String {
    match (&class.certificates, &class.certificate_files) {
        (CertificateSource::Sds(cluster), _) => format!("SDS of {cluster}"),
        (CertificateSource::Files, Some(files)) => format!("files {}", files.chain),
        (CertificateSource::None | CertificateSource::Files, _) => "none".to_owned(),
    }
}

fn filters(class: &ClientClass) -> String {
    let keys = class.patches.iter().flat_map(|patches| patches.keys());
    let names: Vec<String> = keys.map(|key| format!("{}/{}", key.namespace, key.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(",") }
}

/// Describes the modes of PeerAuthentication: `PERMISSIVE, 8080 STRICT`.
fn inbound(class: &ClientClass) -> String {
    if class.withholds_inbound {
        return "withheld".to_owned();
    }
    let Some(modes) = &class.inbound else { return "none".to_owned() };
    let others = modes.others().map(|(port, mode)| format!("{port} {mode}"));
    std::iter::once(modes.usual().to_string()).chain(others).collect::<Vec<_>>().join(", ")
}

fn authorization(class: &ClientClass) -> String {
    let policies = class.authorization.iter().flat_map(|chain| chain.policies.iter());
    let names: Vec<String> = policies.map(|of| format!("{}/{}", of.key.namespace, of.key.name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(",") }
}

/// Describes the issuers of tokens, or the policies that refuse every request.
fn tokens(class: &ClientClass) -> String {
    let Some(checks) = &class.tokens else { return "none".to_owned() };
    let refusing = checks.refusing.iter().map(|key| format!("{}/{} refuses", key.namespace, key.name));
    let issuers = checks.rules.iter().map(|rule| rule.issuer.to_string());
    issuers.chain(refusing).collect::<Vec<_>>().join(",")
}

fn closed(ports: ClosedPorts) -> String {
    let ClosedPorts { privileged, status, metrics } = ports;
    let names = [(privileged, "below 1024"), (status, "status"), (metrics, "metrics")];
    let named: Vec<&str> = names.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if named.is_empty() { "none".to_owned() } else { named.join("+") }
}

/// Returns the first class with each attribute of the second that differs, and the two values.
fn mixed(a: &ClientClass, b: &ClientClass) -> Vec<(String, ClientClass)> {
    let mix = |(name, text, take): &Attribute| {
        let (of_a, of_b) = (text(a), text(b));
        let mut class = a.clone();
        take(&mut class, b);
        let is_of_routers = *name == SIDECAR && a.kind == ClientKind::Router && b.kind == ClientKind::Router;
        let name = if is_of_routers { "Gateways" } else { name };
        (of_a != of_b).then(|| (format!("{name} {of_a} / {of_b}"), class))
    };
    ATTRIBUTES.iter().filter_map(mix).collect()
}

/// Lists differing fields of decoded resources within a bound.
struct Fields {
    decoder: Option<Decoder>,
    left: usize,
}

impl Fields {
    fn of(&mut self, a: Held<'_>, b: Held<'_>) -> Vec<String> {
        let (Some(decoder), Some((view_a, a)), Some((view_b, b))) = (&self.decoder, a, b) else {
            return Vec::new();
        };
        let (Some(body_a), Some(body_b)) = (view_a.body(a), view_b.body(b)) else { return Vec::new() };
        let length = body_a.len() + body_b.len();
        if length > self.left {
            return Vec::new();
        }
        self.left -= length;
        let of = |body: &[u8]| decoder.decode(a.kind.type_url(), body);
        let mut out = Vec::new();
        differing("", &of(&body_a), &of(&body_b), &mut out);
        out
    }
}

/// Adds the paths of values that differ.
fn differing(path: &str, a: &Value, b: &Value, out: &mut Vec<String>) {
    if out.len() >= MAX_FIELDS || a == b {
        return;
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                differing(&at, a.get(name).unwrap_or_default(), b.get(name).unwrap_or_default(), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(n, (a, b))| differing(&format!("{path}[{n}]"), a, b, out));
        }
        _ => out.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tributary_answer::ClientSidecar;
    use tributary_model::{Locality, Namespace, PolicyKey, PolicyKind, Sidecar};

    #[test]
    fn differing_fields_are_listed_by_path() {
        let mut out = Vec::new();
        let a = json!({"name": "x", "list": [{"v": 1}, {"v": 2}], "only": true});
        let b = json!({"name": "x", "list": [{"v": 1}, {"v": 3}], "more": [1]});
        differing("", &a, &b, &mut out);
        assert_eq!(out, ["list[1].v", "only", "more"]);
        let many = |of: i32| Value::Object((0..100).map(|n| (n.to_string(), json!(n * of))).collect());
        let mut out = Vec::new();
        differing("", &many(1), &many(2), &mut out);
        assert_eq!(out.len(), MAX_FIELDS);
    }

    #[test]
    fn sidecars_are_named_without_their_kind() {
        let of = |namespace: &str, name: &str| {
            let namespace = Namespace::new(namespace).unwrap();
            let key = PolicyKey { kind: PolicyKind::Sidecar, namespace, name: name.into() };
            let sidecar = Some(Arc::new(ClientSidecar::new(&key, &Sidecar::default())));
            ClientClass { sidecar, ..ClientClass::new(ClientKind::Sidecar) }
        };
        let text = |a: &ClientClass, b: &ClientClass| mixed(a, b).remove(0).0;
        let (web, root) = (of("web", "default"), of("mesh-root", "default"));
        assert_eq!(text(&web, &root), "Sidecar web/default / mesh-root/default");
        assert_eq!(text(&web, &ClientClass::new(ClientKind::Sidecar)), "Sidecar web/default / none");
        let router = |class: ClientClass| ClientClass { kind: ClientKind::Router, ..class };
        assert_eq!(text(&router(web), &router(root)), "Gateways web/default / mesh-root/default");
    }

    #[test]
    fn switches_are_described() {
        let a = ClientClass::new(ClientKind::Sidecar);
        let certificates = CertificateSource::Sds("sds-grpc".into());
        let b = ClientClass { binds: true, dns_capture: true, certificates, ..a.clone() };
        let tried: Vec<String> = mixed(&a, &b).into_iter().map(|(text, _)| text).collect();
        let certificates = "certificates of the mesh none / SDS of sds-grpc";
        let listeners = "listeners behind redirection / bound to ports";
        assert_eq!(tried, [listeners, "DNS capture off / on", certificates]);
    }

    #[test]
    fn each_differing_attribute_is_tried_alone() {
        let a =
            ClientClass { namespace: Namespace::new("shop").ok(), ..ClientClass::new(ClientKind::Sidecar) };
        let b = ClientClass { locality: Locality::parse("eu/1b"), ..ClientClass::new(ClientKind::Sidecar) };
        let tried = mixed(&a, &b);
        let texts: Vec<&str> = tried.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["namespace shop / none", "locality none / eu/1b"]);
        assert_eq!(tried[0].1, ClientClass { namespace: None, ..a });
        assert_eq!(tried[1].1.locality, b.locality);
        // an attribute that is added to clients must be added to the table
        let ClientClass {
            kind: _,
            namespace: _,
            sidecar: _,
            cluster: _,
            network: _,
            locality: _,
            node: _,
            families: _,
            binds: _,
            closed: _,
            domain: _,
            dns_capture: _,
            certificates: _,
            certificate_files: _,
            labels: _,
            patches: _,
            inbound: _,
            authorization: _,
            tokens: _,
            trust_domains: _,
            withholds_inbound: _,
        } = a;
        assert_eq!(ATTRIBUTES.len(), 18);
    }
}
