//! Builds one record: its fields, and the tables of texts, label sets and topologies that they refer to by index.
//!
//! The codecs of the kinds call it. Each text is stored once a record, without the prefix that it shares
//! with an earlier text; texts that every mesh has are not stored at all. Equal values give equal
//! bytes.

use std::net::IpAddr;
use std::sync::Arc;

use rapidhash::RapidHashMap;
use tributary_model::{Labels, Mono, Topology};

use super::preset;
use super::time::Now;
use super::wire::{close_nested, put_bytes, put_int, put_varint, zigzag};

/// Number of earlier texts that a text may share its prefix with: names of pods and of nodes alternate.
pub(crate) const LOOK_BACK: usize = 4;
/// The longest shared prefix: bounds the bytes that a reader writes for a byte that it reads.
pub(crate) const MOST_SHARED: usize = 120;

/// Fields of a record's outermost message.
pub(crate) mod part {
    /// Texts.
    pub(crate) const TEXTS: u32 = 1;
    /// Label sets.
    pub(crate) const LABELS: u32 = 2;
    /// Topologies.
    pub(crate) const PLACES: u32 = 3;
    /// The value.
    pub(crate) const BODY: u32 = 4;
}

/// One record under construction.
#[derive(Debug)]
pub(crate) struct Encoder {
    now: Now,
    body: Vec<u8>,
    texts: RapidHashMap<Box<str>, u32>,
    text_bytes: Vec<u8>,
    last_texts: [String; LOOK_BACK],
    labels: RapidHashMap<Labels, u32>,
    last_labels: Option<(Labels, u32)>,
    label_bytes: Vec<u8>,
    places: RapidHashMap<Arc<Topology>, u32>,
    last_place: Option<(Arc<Topology>, u32)>,
    place_bytes: Vec<u8>,
}

impl Encoder {
    /// Creates an empty record, whose times are relative to `now`.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            now,
            body: Vec::new(),
            texts: RapidHashMap::default(),
            text_bytes: Vec::new(),
            last_texts: Default::default(),
            labels: RapidHashMap::default(),
            last_labels: None,
            label_bytes: Vec::new(),
            places: RapidHashMap::default(),
            last_place: None,
            place_bytes: Vec::new(),
        }
    }
    /// Encodes a record with this function.
    pub(crate) fn body(&mut self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        write(self);
        self.finish()
    }
    /// Returns the record's bytes and empties the encoder.
    fn finish(&mut self) -> Vec<u8> {
        let parts = [&self.text_bytes, &self.label_bytes, &self.place_bytes, &self.body];
        let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 4).sum());
        for (field, part) in [part::TEXTS, part::LABELS, part::PLACES, part::BODY].into_iter().zip(parts) {
            if !part.is_empty() {
                put_bytes(&mut out, field, part);
            }
        }
        self.texts.clear();
        self.last_texts.iter_mut().for_each(String::clear);
        self.labels.clear();
        self.places.clear();
        (self.last_labels, self.last_place) = (None, None);
        for part in [&mut self.text_bytes, &mut self.label_bytes, &mut self.place_bytes, &mut self.body] {
            part.clear();
        }
        out
    }
    /// Writes a number.
    pub(crate) fn int(&mut self, field: u32, value: impl Into<u64>) {
        put_int(&mut self.body, field, value.into());
    }
    /// Writes a number; omits the default, which a reader assumes.
    pub(crate) fn int_but(&mut self, field: u32, value: impl Into<u64>, left_out: u64) {
        let value = value.into();
        if value != left_out {
            self.int(field, value);
        }
    }
    /// Writes an optional number.
    pub(crate) fn opt_int(&mut self, field: u32, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.int(field, value);
        }
    }
    /// Writes a boolean; omits false.
    pub(crate) fn flag(&mut self, field: u32, value: bool) {
        if value {
            self.int(field, 1u64);
        }
    }
    /// Writes a text; omits an empty one.
    pub(crate) fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            let index = self.text_index(text);
            self.int(field, index);
        }
    }
    /// Writes an optional text that is not empty.
    pub(crate) fn opt_text(&mut self, field: u32, text: Option<&str>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }
    /// Writes texts in their order, including empty ones.
    pub(crate) fn texts<'t>(&mut self, field: u32, texts: impl IntoIterator<Item = &'t str>) {
        for text in texts {
            let index = self.text_index(text);
            self.int(field, index);
        }
    }
    /// Writes nested fields.
    pub(crate) fn nest(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        put_varint(&mut self.body, u64::from(field) << 1 | 1);
        let start = self.body.len();
        write(self);
        close_nested(&mut self.body, start);
    }
    /// Writes bytes.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        put_bytes(&mut self.body, field, bytes);
    }
    /// Writes an IP address.
    pub(crate) fn ip(&mut self, field: u32, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => put_bytes(&mut self.body, field, &ip.octets()),
            IpAddr::V6(ip) => put_bytes(&mut self.body, field, &ip.octets()),
        }
    }
    /// Writes a time of this process, as wall time and age.
    pub(crate) fn time(&mut self, field: u32, at: Mono) {
        let (wall, age) = self.now.store(at);
        self.nest(field, |enc| {
            enc.int(1, zigzag(wall));
            enc.int(2, age);
        });
    }
    /// Writes labels; omits an empty set.
    pub(crate) fn labels(&mut self, field: u32, labels: &Labels) {
        if !labels.is_empty() {
            let index = self.label_index(labels);
            self.int(field, index);
        }
    }
    /// Writes labels as their difference to `lower`.
    pub(crate) fn labels_over(&mut self, field: u32, labels: &Labels, lower: &Labels) {
        if labels.split().is_some() || lower.is_empty() || labels == lower {
            return self.labels(field, labels);
        }
        if lower.pairs().any(|(key, _)| labels.get(key).is_none()) {
            return self.labels(field, labels);
        }
        let differs = |(key, value): &(&Arc<str>, &Arc<str>)| lower.get(key) != Some(value);
        let upper: Labels = labels.pairs().filter(differs).map(|(k, v)| (k.clone(), v.clone())).collect();
        self.labels(field, &upper.over(lower));
    }
    /// Writes a topology; omits an empty one.
    pub(crate) fn place(&mut self, field: u32, place: &Arc<Topology>) {
        if **place != Topology::default() {
            let index = self.place_index(place);
            self.int(field, index);
        }
    }

    /// Own texts have even numbers, preset ones odd numbers, so either list may grow.
    fn text_index(&mut self, text: &str) -> u64 {
        if let Some(index) = preset::index(text) {
            return u64::from(index) << 1 | 1;
        }
        if let Some(&index) = self.texts.get(text) {
            return u64::from(index) << 1;
        }
        let index = self.texts.len() as u32;
        let shares = (1..=LOOK_BACK.min(self.texts.len())).map(|back| {
            let before = &self.last_texts[(self.texts.len() - back) % LOOK_BACK];
            (shared_start(before, text), LOOK_BACK - back)
        });
        let (shared, nearness) = shares.max().unwrap_or((0, LOOK_BACK - 1));
        put_varint(&mut self.text_bytes, (shared * LOOK_BACK + LOOK_BACK - 1 - nearness) as u64);
        put_varint(&mut self.text_bytes, (text.len() - shared) as u64);
        self.text_bytes.extend_from_slice(&text.as_bytes()[shared..]);
        let last = &mut self.last_texts[self.texts.len() % LOOK_BACK];
        last.clear();
        last.push_str(text);
        self.texts.insert(text.into(), index);
        u64::from(index) << 1
    }
    /// Encodes a plain set as its number of pairs, which is not 0, and the pairs; a layered one as 0 and two sets.
    fn label_index(&mut self, labels: &Labels) -> u64 {
        // The addresses of one workload are adjacent, so the last set is compared first.
        if let Some((_, index)) = self.last_labels.as_ref().filter(|(known, _)| known.is_same(labels)) {
            return u64::from(*index);
        }
        if let Some(&index) = self.labels.get(labels) {
            return u64::from(index);
        }
        let mut entry = Vec::new();
        if let Some((upper, lower)) = labels.split() {
            put_varint(&mut entry, 0);
            for set in [upper, lower] {
                let index = self.label_index(set);
                put_varint(&mut entry, index);
            }
            // A layer may contain all pairs of both sets: then its index is that of the whole.
            if let Some(&index) = self.labels.get(labels) {
                return u64::from(index);
            }
        } else {
            put_varint(&mut entry, labels.pairs().count() as u64);
            for (key, value) in labels.pairs() {
                for text in [key, value] {
                    let index = self.text_index(text);
                    put_varint(&mut entry, index);
                }
            }
        }
        self.label_bytes.extend_from_slice(&entry);
        let index = self.labels.len() as u32;
        self.labels.insert(labels.clone(), index);
        self.last_labels = Some((labels.clone(), index));
        u64::from(index)
    }
    /// Encodes six texts; 0 is absent, else one more than the text's index.
    fn place_index(&mut self, place: &Arc<Topology>) -> u64 {
        if let Some((_, index)) = self.last_place.as_ref().filter(|(known, _)| Arc::ptr_eq(known, place)) {
            return u64::from(*index);
        }
        if let Some(&index) = self.places.get(place) {
            return u64::from(index);
        }
        let locality = &place.locality;
        let texts = [
            place.cluster.as_ref().map_or("", |c| c.as_str()),
            place.network.as_ref().map_or("", |n| n.as_str()),
            place.node.as_ref().map_or("", |n| n.as_str()),
            &locality.region,
            &locality.zone,
            &locality.subzone,
        ];
        for text in texts {
            let index = if text.is_empty() { 0 } else { self.text_index(text) + 1 };
            put_varint(&mut self.place_bytes, index);
        }
        let index = self.places.len() as u32;
        self.places.insert(place.clone(), index);
        self.last_place = Some((place.clone(), index));
        u64::from(index)
    }
}

fn shared_start(last: &str, text: &str) -> usize {
    let pairs = last.bytes().zip(text.bytes()).take(MOST_SHARED);
    let mut shared = pairs.take_while(|(a, b)| a == b).count();
    while !text.is_char_boundary(shared) {
        shared -= 1;
    }
    shared
}
