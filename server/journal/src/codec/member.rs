//! Members of the mesh on disk: the registries and where each was configured.
//!
//! The writer and the restore call it. A member contains the location of its credential, never the credential.

use std::collections::BTreeSet;

use tributary_model::{
    ClusterId, Fingerprint, NetworkId, Precedence, ProviderId, RegistryId, RegistryName, Scope, Scopes,
    Version,
};

use super::Fault;
use super::decode::Decoder;
use super::encode::Encoder;
use super::wire::Value;

/// A registry as it was configured when the journal was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name, provider and cluster.
    pub id: RegistryId,
    /// Kind of registry in the configuration.
    pub kind: String,
    /// Position in the order of all registries.
    pub precedence: Precedence,
    /// Scopes that the configuration allows.
    pub scopes: Scopes,
    /// Network, if the configuration sets one.
    pub network: Option<NetworkId>,
    /// Pinned identity of its source.
    pub identity: Option<Fingerprint>,
    /// Where it was configured.
    pub origin: MemberOrigin,
    /// Digest of the configuration; if it changed, the first run fills a shadow.
    pub source_digest: Version,
    /// Location of the credential, for operators; never the credential.
    pub credential_from: String,
}

/// Where a registry was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberOrigin {
    /// A configuration file.
    File(String),
    /// A key of a Secret.
    Secret {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Key.
        key: String,
    },
    /// A kubeconfig in a directory of remote clusters, by its path.
    Kubeconfig(String),
    /// The command line.
    Flag,
}

/// Most bytes of a member's text.
const LONGEST: usize = 4096;

pub(crate) fn put(enc: &mut Encoder, member: &Member) {
    enc.text(1, member.id.name.as_str());
    enc.text(2, member.id.provider.as_str());
    enc.text(3, member.id.cluster.as_str());
    enc.texts(4, [&*member.kind]);
    enc.int(5, member.precedence.rank);
    if let Scopes::Configured(scopes) = &member.scopes {
        enc.nest(6, |enc| enc.texts(1, scopes.iter().map(Scope::as_str)));
    }
    enc.opt_text(7, member.network.as_ref().map(NetworkId::as_str));
    enc.opt_text(8, member.identity.as_ref().map(Fingerprint::as_str));
    match &member.origin {
        MemberOrigin::File(path) => enc.texts(9, [&**path]),
        MemberOrigin::Secret { namespace, name, key } => {
            enc.nest(10, |enc| enc.texts(1, [&**namespace, &**name, &**key]));
        }
        MemberOrigin::Kubeconfig(path) => enc.texts(14, [&**path]),
        MemberOrigin::Flag => {}
    }
    enc.int(11, member.source_digest.0);
    enc.texts(12, [&*member.credential_from]);
    enc.int(13, member.precedence.provider);
}

pub(crate) fn read(d: &mut Decoder, record: &[u8]) -> Result<Member, Fault> {
    let (mut name, mut provider, mut cluster) = (None, None, None);
    let (mut kind, mut credential_from) = (String::new(), String::new());
    let (mut precedence, mut scopes, mut network, mut identity) =
        (Precedence::default(), Scopes::Discovered, None, None);
    let (mut origin, mut source_digest) = (MemberOrigin::Flag, Version::default());
    let mut fields = d.open(record)?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.name(value, |text| RegistryName::new(text))?),
            2 => provider = Some(d.name(value, |text| ProviderId::new(text.to_owned()))?),
            3 => cluster = Some(d.name(value, |text| ClusterId::new(text))?),
            4 => kind = text(d, value)?,
            5 => precedence.rank = value.narrow()?,
            6 => scopes = Scopes::Configured(read_scopes(d, value)?),
            7 => network = Some(d.network(value)?),
            8 => identity = Some(d.name(value, |text| Fingerprint::new(text))?),
            9 => origin = MemberOrigin::File(text(d, value)?),
            10 => origin = read_secret(d, value)?,
            11 => source_digest = Version(value.int()?),
            12 => credential_from = text(d, value)?,
            13 => precedence.provider = value.narrow()?,
            14 => origin = MemberOrigin::Kubeconfig(text(d, value)?),
            _ => {}
        }
    }
    let name = name.ok_or(Fault::Missing("registry name"))?;
    let provider = provider.ok_or(Fault::Missing("provider"))?;
    let id = RegistryId { name, provider, cluster: cluster.ok_or(Fault::Missing("cluster"))? };
    Ok(Member { id, kind, precedence, scopes, network, identity, origin, source_digest, credential_from })
}

fn text(d: &mut Decoder, value: Value<'_>) -> Result<String, Fault> {
    let text = d.fresh(value)?;
    if text.len() > LONGEST {
        return Err(Fault::Malformed("a text of a member is too long"));
    }
    Ok((*text).to_owned())
}

fn read_scopes(d: &mut Decoder, value: Value<'_>) -> Result<BTreeSet<Scope>, Fault> {
    let mut out = BTreeSet::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        if field == 1 {
            out.insert(d.name(value, |text| Scope::new(text))?);
        }
    }
    Ok(out)
}

fn read_secret(d: &mut Decoder, value: Value<'_>) -> Result<MemberOrigin, Fault> {
    let mut texts = Vec::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        if field == 1 && texts.len() < 3 {
            texts.push(text(d, value)?);
        }
    }
    let [namespace, name, key] =
        <[String; 3]>::try_from(texts).map_err(|_| Fault::Missing("part of a Secret"))?;
    Ok(MemberOrigin::Secret { namespace, name, key })
}
