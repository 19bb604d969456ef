//! Keys and values of the journal's records.
//!
//! The writer and the restore call it. On disk a key is the registry, the scope, the kind of record and
//! the item, in this order: a registry, and a scope, is one range. Keys are independent of the registry
//! and canonical: an item has exactly one key.

use tributary_model::object::intern_kind;
use tributary_model::{
    CollectionKind, DeclKey, EndpointGroupKey, Evidence, Fact, FactId, Fingerprint, GatewayKey, HoldRecord,
    ListRecord, Mono, ObjectId, PolicyKey, ProblemRecord, RegistryName, Scope, ServiceKey, WorkloadName,
};

use super::Fault;
use super::codes;
use super::decode::Decoder;
use super::preset::{self, PRESET};
use super::wire::{Fields, Value, put_bytes, put_int};

/// Key within a scope, or (the header) of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum EntryKey {
    /// The registry itself; its scope is empty on disk.
    Header,
    /// End of the scope.
    Ended,
    /// State of a collection.
    List(CollectionKind),
    /// A fact.
    Fact(FactId),
    /// An invalid object.
    Problem(ObjectId),
    /// A held removal.
    Hold(FactId),
}

/// Value of an [`EntryKey`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryValue {
    /// The registry itself.
    Header(Header),
    /// Reason and time of the scope's end.
    Ended(Evidence, Mono),
    /// State of a collection.
    List(ListRecord),
    /// A fact.
    Fact(Fact),
    /// An invalid object.
    Problem(ProblemRecord),
    /// A held removal.
    Hold(HoldRecord),
}

/// Record of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Header {
    /// Whether the journal contains all facts of the registry.
    pub(crate) whole: bool,
    /// Pinned identity of the source.
    pub(crate) identity: Option<Fingerprint>,
}

/// Numbers of the kinds of records: part of the format, and the order within a scope.
pub(crate) mod kind {
    /// See [`super::EntryKey::Header`].
    pub(crate) const HEADER: u8 = 1;
    /// See [`super::EntryKey::Ended`].
    pub(crate) const ENDED: u8 = 2;
    /// See [`super::EntryKey::List`].
    pub(crate) const LIST: u8 = 3;
    /// Declarations.
    pub(crate) const SERVICE: u8 = 10;
    /// Endpoints.
    pub(crate) const GROUP: u8 = 11;
    /// Workloads.
    pub(crate) const WORKLOAD: u8 = 12;
    /// Gateways.
    pub(crate) const GATEWAY: u8 = 13;
    /// Mesh-wide values.
    pub(crate) const SETTINGS: u8 = 14;
    /// Federated services.
    pub(crate) const FEDERATED_SERVICE: u8 = 15;
    /// Policies.
    pub(crate) const POLICY: u8 = 16;
    /// Host names of gateways.
    pub(crate) const GATEWAY_NAME: u8 = 17;
    /// See [`super::EntryKey::Problem`].
    pub(crate) const PROBLEM: u8 = 30;
    /// See [`super::EntryKey::Hold`].
    pub(crate) const HOLD: u8 = 31;
}

/// Returns the prefix of all keys of a registry.
pub(crate) fn registry_prefix(registry: &RegistryName) -> Vec<u8> {
    let mut out = registry.as_str().as_bytes().to_vec();
    out.push(0);
    out
}

/// Returns the prefix of all keys of a scope.
pub(crate) fn scope_prefix(registry: &RegistryName, scope: Option<&Scope>) -> Vec<u8> {
    let mut out = registry_prefix(registry);
    out.extend_from_slice(scope.map_or("", Scope::as_str).as_bytes());
    out.push(0);
    out
}

/// Appends the key of a record within its scope. Appends nothing for waiting addresses, which are not stored.
pub(crate) fn put_entry_key(out: &mut Vec<u8>, key: &EntryKey) -> Option<()> {
    match key {
        EntryKey::Header => out.push(kind::HEADER),
        EntryKey::Ended => out.push(kind::ENDED),
        EntryKey::List(of) => out.extend_from_slice(&[kind::LIST, codes::collection(*of) as u8]),
        EntryKey::Fact(item) => put_item(out, item)?,
        EntryKey::Problem(object) => {
            out.push(kind::PROBLEM);
            put_object(out, 1, object, None);
        }
        EntryKey::Hold(item) => {
            out.push(kind::HOLD);
            put_item(out, item)?;
        }
    }
    Some(())
}

fn put_item(out: &mut Vec<u8>, item: &FactId) -> Option<()> {
    match item {
        FactId::Service(key) => {
            out.push(kind::SERVICE);
            put_service(out, &key.service);
            put_object(out, 3, &key.object, Some(("", key.service.namespace.as_str(), "")));
        }
        FactId::Group(key) => {
            out.push(kind::GROUP);
            put_service(out, &key.service);
            let of = &key.declaration;
            put_object(out, 3, of, Some(("", key.service.namespace.as_str(), "")));
            put_object(out, 6, &key.object, Some((of.kind, &of.namespace, &of.name)));
            if key.bucket != 0 {
                put_int(out, 9, key.bucket.into());
            }
        }
        FactId::Workload(key) => {
            out.push(kind::WORKLOAD);
            put_text(out, 1, key.namespace.as_str());
            put_int(out, 2, codes::workload(key.kind));
            put_text(out, 3, &key.name);
            put_text(out, 4, key.cluster.as_str());
        }
        FactId::Gateway(key) => {
            out.push(kind::GATEWAY);
            put_text(out, 1, key.network.as_str());
            put_text(out, 2, key.cluster.as_str());
            put_object(out, 3, &key.object, None);
            put_int(out, 6, key.index.into());
        }
        FactId::Settings => out.push(kind::SETTINGS),
        FactId::FederatedService(host) => {
            out.push(kind::FEDERATED_SERVICE);
            put_text(out, 1, host.as_str());
        }
        FactId::Policy(key) => {
            out.push(kind::POLICY);
            put_int(out, 1, codes::policy(key.kind));
            put_text(out, 2, key.namespace.as_str());
            put_text(out, 3, &key.name);
        }
        FactId::GatewayName(name) => {
            out.push(kind::GATEWAY_NAME);
            put_text(out, 1, name);
        }
        FactId::Waiting(_) => return None,
    }
    Some(())
}

fn put_service(out: &mut Vec<u8>, service: &ServiceKey) {
    put_text(out, 1, service.host.as_str());
    put_text(out, 2, service.namespace.as_str());
}

fn put_object(out: &mut Vec<u8>, field: u32, object: &ObjectId, like: Option<(&str, &str, &str)>) {
    let like = like.unwrap_or_default();
    if object.kind != like.0 {
        put_text(out, field, object.kind);
    }
    if *object.namespace != *like.1 {
        put_text(out, field + 1, &object.namespace);
    }
    if *object.name != *like.2 {
        put_text(out, field + 2, &object.name);
    }
}

fn put_text(out: &mut Vec<u8>, field: u32, text: &str) {
    match preset::index(text) {
        Some(index) => put_int(out, field, index.into()),
        None => put_bytes(out, field, text.as_bytes()),
    }
}

/// Splits a key into registry, scope and the rest; the scope of a header is empty.
pub(crate) fn split_key(key: &[u8]) -> Result<(&str, &str, &[u8]), Fault> {
    let (registry, rest) = split_at_zero(key)?;
    let (scope, rest) = split_at_zero(rest)?;
    Ok((registry, scope, rest))
}

fn split_at_zero(bytes: &[u8]) -> Result<(&str, &[u8]), Fault> {
    let end = bytes.iter().position(|&byte| byte == 0).ok_or(Fault::Truncated)?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Fault::Malformed("a key is not UTF-8"))?;
    Ok((text, &bytes[end + 1..]))
}

/// Returns the collection of facts with this kind of record.
pub(crate) const fn collection_of(kind: u8) -> Option<CollectionKind> {
    match kind {
        kind::SERVICE => Some(CollectionKind::Services),
        kind::GROUP => Some(CollectionKind::Groups),
        kind::WORKLOAD => Some(CollectionKind::Workloads),
        kind::GATEWAY | kind::GATEWAY_NAME => Some(CollectionKind::Gateways),
        kind::SETTINGS | kind::FEDERATED_SERVICE => Some(CollectionKind::Settings),
        kind::POLICY => Some(CollectionKind::Policies),
        _ => None,
    }
}

/// Reads the key of a record within its scope.
pub(crate) fn read_entry_key(d: &mut Decoder, bytes: &[u8]) -> Result<EntryKey, Fault> {
    let (&kind, rest) = bytes.split_first().ok_or(Fault::Truncated)?;
    Ok(match kind {
        kind::HEADER => EntryKey::Header,
        kind::ENDED => EntryKey::Ended,
        kind::LIST => {
            let &[of] = rest else { return Err(Fault::Truncated) };
            EntryKey::List(codes::read_collection(of.into())?)
        }
        kind::PROBLEM => EntryKey::Problem(Texts::read(d, rest)?.object(d, 1, None)?),
        kind::HOLD => EntryKey::Hold(read_item(d, rest)?),
        _ => EntryKey::Fact(read_item(d, bytes)?),
    })
}

fn read_item(d: &mut Decoder, bytes: &[u8]) -> Result<FactId, Fault> {
    let (&kind, rest) = bytes.split_first().ok_or(Fault::Truncated)?;
    let t = Texts::read(d, rest)?;
    Ok(match kind {
        kind::SERVICE => {
            let service = t.service(d)?;
            let object = t.object(d, 3, Some(("", service.namespace.as_str(), "")))?;
            FactId::Service(DeclKey { service, object })
        }
        kind::GROUP => {
            let service = t.service(d)?;
            let declaration = t.object(d, 3, Some(("", service.namespace.as_str(), "")))?;
            let like = (declaration.kind, &*declaration.namespace, &*declaration.name);
            let object = t.object(d, 6, Some(like))?;
            FactId::Group(EndpointGroupKey { service, declaration, object, bucket: t.number(9)? })
        }
        kind::WORKLOAD => {
            let namespace = d.interner.id(t.text(1)?);
            let cluster = d.interner.id(t.text(4)?);
            let name: std::sync::Arc<str> = t.text(3)?.into();
            d.remember(&name);
            let (namespace, cluster) = (d.interner.namespace(namespace)?, d.interner.cluster(cluster)?);
            FactId::Workload(
                WorkloadName { namespace, kind: codes::read_workload(t.number(2)?)?, name, cluster }.into(),
            )
        }
        kind::GATEWAY => {
            let network = d.interner.id(t.text(1)?);
            let cluster = d.interner.id(t.text(2)?);
            let (network, cluster) = (d.interner.network(network)?, d.interner.cluster(cluster)?);
            FactId::Gateway(GatewayKey {
                network,
                cluster,
                object: t.object(d, 3, None)?,
                index: t.number(6)?,
            })
        }
        kind::SETTINGS => FactId::Settings,
        kind::FEDERATED_SERVICE => {
            let host = d.interner.id(t.text(1)?);
            FactId::FederatedService(d.interner.host(host)?)
        }
        kind::POLICY => {
            let namespace = d.interner.id(t.text(2)?);
            let name: std::sync::Arc<str> = t.text(3)?.into();
            d.remember(&name);
            let namespace = d.interner.namespace(namespace)?;
            FactId::Policy(PolicyKey { kind: codes::read_policy(t.number(1)?)?, namespace, name })
        }
        kind::GATEWAY_NAME => {
            let name: std::sync::Arc<str> = t.text(1)?.into();
            d.remember(&name);
            FactId::GatewayName(name)
        }
        _ => return Err(Fault::Unknown("kind of record")),
    })
}

/// Fields of a key by number. Keys contain their texts themselves.
struct Texts<'a>([Option<Value<'a>>; 10]);

impl<'a> Texts<'a> {
    fn read(_: &mut Decoder, bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut out = [None; 10];
        let mut fields = Fields(bytes);
        while let Some((field, value)) = fields.next()? {
            *out.get_mut(field as usize).ok_or(Fault::Unknown("field of a key"))? = Some(value);
        }
        Ok(Self(out))
    }
    fn opt(&self, field: usize) -> Result<Option<&'a str>, Fault> {
        match self.0.get(field).copied().flatten() {
            None => Ok(None),
            Some(Value::Int(index)) => {
                let at = usize::try_from(index).map_err(|_| Fault::Index("text"))?;
                PRESET.get(at).copied().map(Some).ok_or(Fault::Index("text"))
            }
            Some(Value::Bytes(bytes)) => {
                std::str::from_utf8(bytes).map(Some).map_err(|_| Fault::Malformed("a key is not UTF-8"))
            }
        }
    }
    fn text(&self, field: usize) -> Result<&'a str, Fault> {
        self.opt(field)?.ok_or(Fault::Missing("text of a key"))
    }
    fn number<T: TryFrom<u64> + Default>(&self, field: usize) -> Result<T, Fault> {
        self.0.get(field).copied().flatten().map_or_else(|| Ok(T::default()), Value::narrow)
    }
    fn service(&self, d: &mut Decoder) -> Result<ServiceKey, Fault> {
        let (host, namespace) = (d.interner.id(self.text(1)?), d.interner.id(self.text(2)?));
        Ok(ServiceKey { host: d.interner.host(host)?, namespace: d.interner.namespace(namespace)? })
    }
    fn object(
        &self,
        d: &mut Decoder,
        field: usize,
        like: Option<(&str, &str, &str)>,
    ) -> Result<ObjectId, Fault> {
        let like = like.unwrap_or_default();
        let kind = intern_kind(self.opt(field)?.unwrap_or(like.0))?;
        let namespace = d.interner.id(self.opt(field + 1)?.unwrap_or(like.1));
        let name: std::sync::Arc<str> = self.opt(field + 2)?.unwrap_or(like.2).into();
        d.remember(&name);
        Ok(ObjectId { kind, namespace: d.interner.text(namespace), name })
    }
}
