//! Interns values that many records share, while a journal is read.
//!
//! The restoring thread owns it. Names of namespaces, nodes and clusters, label sets and topologies repeat in
//! most records; a restored process must not hold more copies of them than the previous one did. Values are found by
//! the index of their text in the journal, before they are built or checked; adapters, which have the value at hand,
//! find it by the value (`tributary_registry_api::Interned`).
//! Bounded: beyond its bound the table starts over, which only costs copies.

use std::hash::Hash;
use std::sync::Arc;

use rapidhash::RapidHashMap;
use tributary_model::{
    ClusterId, Hostname, Identity, InvalidName, Labels, Locality, Namespace, NetworkId, NodeName, PortName,
    Topology,
};

use super::Fault;

/// Most interned texts.
const MOST_TEXTS: usize = 1 << 20;

/// Index of a text in the table.
pub(crate) type TextId = u32;

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    ids: RapidHashMap<Arc<str>, TextId>,
    texts: Vec<Arc<str>>,
    namespaces: Names<Namespace>,
    clusters: Names<ClusterId>,
    networks: Names<NetworkId>,
    nodes: Names<NodeName>,
    port_names: Names<PortName>,
    hosts: Names<Hostname>,
    identities: Names<Identity>,
    places: RapidHashMap<[TextId; 6], Arc<Topology>>,
    plain: RapidHashMap<Box<[TextId]>, u32>,
    layered: RapidHashMap<(u32, u32), u32>,
    labels: Vec<Labels>,
}

/// Names of one type by their text.
type Names<T> = RapidHashMap<TextId, T>;

macro_rules! names {
    ($($method:ident $table:ident $type:ident;)*) => {$(
        /// Returns the name with this text, validated.
        pub(crate) fn $method(&mut self, id: TextId) -> Result<$type, Fault> {
            let text = self.texts.get(id as usize).ok_or(Fault::Index("text"))?;
            kept(&mut self.$table, id, || $type::new(text))
        }
    )*};
}

impl Interner {
    /// Starts over if the table exceeds its bound. Indexes are valid until the next call.
    pub(crate) fn begin(&mut self) {
        if self.texts.len() > MOST_TEXTS || self.labels.len() > MOST_TEXTS {
            *self = Self::default();
        }
    }
    /// Returns the index of a text.
    pub(crate) fn id(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.texts.len() as TextId;
        let kept: Arc<str> = text.into();
        self.texts.push(kept.clone());
        self.ids.insert(kept, id);
        id
    }
    /// Returns the text of an index.
    pub(crate) fn text(&self, id: TextId) -> Arc<str> {
        self.texts.get(id as usize).cloned().unwrap_or_default()
    }
    names! {
        namespace namespaces Namespace;
        cluster clusters ClusterId;
        network networks NetworkId;
        node nodes NodeName;
        port_name port_names PortName;
        host hosts Hostname;
        identity identities Identity;
    }
    /// Returns the topology of these texts: cluster, network, node, region, zone, subzone.
    pub(crate) fn place(&mut self, texts: [Option<TextId>; 6]) -> Result<Arc<Topology>, Fault> {
        let key = texts.map(|id| id.unwrap_or(TextId::MAX));
        if let Some(known) = self.places.get(&key) {
            return Ok(known.clone());
        }
        let [cluster, network, node, region, zone, subzone] = texts;
        let part = |id: Option<TextId>| id.map(|id| self.text(id)).unwrap_or_default();
        let locality = Locality { region: part(region), zone: part(zone), subzone: part(subzone) };
        if [&locality.region, &locality.zone, &locality.subzone].iter().any(|p| p.len() > Locality::MAX_PART)
        {
            return Err(Fault::Malformed("a locality is too long"));
        }
        let place = Arc::new(Topology {
            cluster: cluster.map(|id| self.cluster(id)).transpose()?,
            network: network.map(|id| self.network(id)).transpose()?,
            locality,
            node: node.map(|id| self.node(id)).transpose()?,
        });
        self.places.insert(key, place.clone());
        Ok(place)
    }
    /// Returns the index of a label set, given alternating keys and values.
    pub(crate) fn plain_labels(&mut self, texts: &[TextId]) -> u32 {
        if let Some(&known) = self.plain.get(texts) {
            return known;
        }
        let labels = texts.chunks_exact(2).map(|pair| (self.text(pair[0]), self.text(pair[1]))).collect();
        let index = self.keep(labels);
        self.plain.insert(texts.into(), index);
        index
    }
    /// Returns the index of one label set over another.
    pub(crate) fn layered_labels(&mut self, upper: u32, lower: u32) -> u32 {
        if let Some(&known) = self.layered.get(&(upper, lower)) {
            return known;
        }
        let labels = self.labels(upper).over(&self.labels(lower));
        let index = self.keep(labels);
        self.layered.insert((upper, lower), index);
        index
    }
    /// Returns the label set of an index.
    pub(crate) fn labels(&self, index: u32) -> Labels {
        self.labels.get(index as usize).cloned().unwrap_or_default()
    }
    fn keep(&mut self, labels: Labels) -> u32 {
        self.labels.push(labels);
        self.labels.len() as u32 - 1
    }
}

fn kept<K: Eq + Hash, T: Clone>(
    table: &mut RapidHashMap<K, T>,
    key: K,
    make: impl FnOnce() -> Result<T, InvalidName>,
) -> Result<T, Fault> {
    if let Some(known) = table.get(&key) {
        return Ok(known.clone());
    }
    let made = make()?;
    table.insert(key, made.clone());
    Ok(made)
}
