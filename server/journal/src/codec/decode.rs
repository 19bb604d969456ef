//! Decodes one record: its tables first, then the fields that refer to them.
//!
//! The codecs of the kinds call it. Indexes, names and lengths of the input are checked where they are
//! used; every error is a [`Fault`].

use std::net::IpAddr;
use std::sync::Arc;

use tributary_model::object::intern_kind;
use tributary_model::{
    ClusterId, Hostname, Identity, InvalidName, Labels, Mono, Namespace, NetworkId, PortName, PortNumber,
    Topology,
};

use super::Fault;
use super::encode::{LOOK_BACK, MOST_SHARED, part};
use super::intern::{Interner, TextId};
use super::preset::PRESET;
use super::time::Now;
use super::wire::{Fields, Value, take, take_varint, unzigzag};

/// Decodes records one after another and shares their common values.
#[derive(Debug)]
pub(crate) struct Decoder {
    now: Now,
    pub(super) interner: Interner,
    text: String,
    texts: Vec<Text>,
    labels: Vec<u32>,
    places: Vec<Arc<Topology>>,
    /// Texts of the record's key, which its value repeats.
    recent: Vec<Arc<str>>,
}

/// A text of the record: its end, and its interned value, so a text that is used often is interned once.
#[derive(Debug)]
struct Text {
    end: usize,
    id: Option<TextId>,
    kept: Option<Arc<str>>,
}

/// Most texts of a key that are compared with those of its value.
const MOST_RECENT: usize = 8;

impl Decoder {
    /// Creates a decoder for a process whose time is `now`.
    pub(crate) fn new(now: Now) -> Self {
        Self {
            now,
            interner: Interner::default(),
            text: String::new(),
            texts: Vec::new(),
            labels: Vec::new(),
            places: Vec::new(),
            recent: Vec::new(),
        }
    }
    /// Forgets the previous record; call it before reading the next key.
    pub(crate) fn begin(&mut self) {
        self.interner.begin();
        self.recent.clear();
    }
    /// Reads the tables of a record; returns the fields of its value.
    pub(crate) fn open<'a>(&mut self, record: &'a [u8]) -> Result<Fields<'a>, Fault> {
        self.text.clear();
        self.texts.clear();
        self.labels.clear();
        self.places.clear();
        let mut body: &[u8] = &[];
        let mut fields = Fields(record);
        while let Some((field, value)) = fields.next()? {
            match field {
                part::TEXTS => self.read_texts(value.bytes()?)?,
                part::LABELS => self.read_labels(value.bytes()?)?,
                part::PLACES => self.read_places(value.bytes()?)?,
                part::BODY => body = value.bytes()?,
                _ => {}
            }
        }
        Ok(Fields(body))
    }
    /// Returns a text that is specific to this record, such as the name of an object.
    pub(crate) fn fresh(&mut self, value: Value<'_>) -> Result<Arc<str>, Fault> {
        let (text, at) = self.slice(value.int()?)?;
        if let Some(kept) = self.texts.get(at).and_then(|text| text.kept.as_ref()) {
            return Ok(kept.clone());
        }
        let known = self.recent.iter().find(|known| ***known == *text).cloned();
        let made: Arc<str> = known.unwrap_or_else(|| text.into());
        if let Some(text) = self.texts.get_mut(at) {
            text.kept = Some(made.clone());
        }
        Ok(made)
    }
    /// Returns a text that other records also contain.
    pub(crate) fn shared(&mut self, value: Value<'_>) -> Result<Arc<str>, Fault> {
        let id = self.id(value.int()?)?;
        Ok(self.interner.text(id))
    }
    /// Returns the kind of an object.
    pub(crate) fn kind(&mut self, value: Value<'_>) -> Result<&'static str, Fault> {
        Ok(intern_kind(self.slice(value.int()?)?.0)?)
    }
    /// Returns a namespace.
    pub(crate) fn namespace(&mut self, value: Value<'_>) -> Result<Namespace, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.namespace(id)
    }
    /// Returns a cluster.
    pub(crate) fn cluster(&mut self, value: Value<'_>) -> Result<ClusterId, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.cluster(id)
    }
    /// Returns a network.
    pub(crate) fn network(&mut self, value: Value<'_>) -> Result<NetworkId, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.network(id)
    }
    /// Returns a port's name.
    pub(crate) fn port_name(&mut self, value: Value<'_>) -> Result<PortName, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.port_name(id)
    }
    /// Returns the empty port name, which is not stored.
    pub(crate) fn no_port_name(&mut self) -> Result<PortName, Fault> {
        let id = self.interner.id("");
        self.interner.port_name(id)
    }
    /// Returns a host.
    pub(crate) fn host(&mut self, value: Value<'_>) -> Result<Hostname, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.host(id)
    }
    /// Returns an identity.
    pub(crate) fn identity(&mut self, value: Value<'_>) -> Result<Identity, Fault> {
        let id = self.id(value.int()?)?;
        self.interner.identity(id)
    }
    /// Returns a name of a rare type.
    pub(crate) fn name<T>(
        &mut self,
        value: Value<'_>,
        new: fn(&str) -> Result<T, InvalidName>,
    ) -> Result<T, Fault> {
        Ok(new(self.slice(value.int()?)?.0)?)
    }
    /// Returns a label set.
    pub(crate) fn labels(&mut self, value: Value<'_>) -> Result<Labels, Fault> {
        let at = usize::try_from(value.int()?).map_err(|_| Fault::Index("label set"))?;
        let index = self.labels.get(at).ok_or(Fault::Index("label set"))?;
        Ok(self.interner.labels(*index))
    }
    /// Returns a topology.
    pub(crate) fn place(&mut self, value: Value<'_>) -> Result<Arc<Topology>, Fault> {
        let at = usize::try_from(value.int()?).map_err(|_| Fault::Index("place"))?;
        self.places.get(at).cloned().ok_or(Fault::Index("place"))
    }
    /// Returns the empty topology.
    pub(crate) fn unknown_place(&mut self) -> Result<Arc<Topology>, Fault> {
        self.interner.place([None; 6])
    }
    /// Returns a time.
    pub(crate) fn time(&self, value: Value<'_>) -> Result<Mono, Fault> {
        let (mut wall, mut age) = (None, 0);
        let mut fields = value.fields()?;
        while let Some((field, value)) = fields.next()? {
            match field {
                1 => wall = Some(unzigzag(value.int()?)),
                2 => age = value.int()?,
                _ => {}
            }
        }
        Ok(self.now.restore(wall.ok_or(Fault::Missing("wall time"))?, age))
    }
    /// Records a text of the key.
    pub(super) fn remember(&mut self, text: &Arc<str>) {
        if self.recent.len() < MOST_RECENT {
            self.recent.push(text.clone());
        }
    }

    fn slice(&self, index: u64) -> Result<(&str, usize), Fault> {
        let at = usize::try_from(index >> 1).map_err(|_| Fault::Index("text"))?;
        if index & 1 == 1 {
            return Ok((PRESET.get(at).ok_or(Fault::Index("text"))?, usize::MAX));
        }
        let end = self.texts.get(at).ok_or(Fault::Index("text"))?.end;
        let start = at.checked_sub(1).map_or(0, |before| self.texts[before].end);
        Ok((&self.text[start..end], at))
    }
    fn id(&mut self, index: u64) -> Result<TextId, Fault> {
        let (_, at) = self.slice(index)?;
        if let Some(id) = self.texts.get(at).and_then(|text| text.id) {
            return Ok(id);
        }
        let id = match index & 1 {
            1 => self.interner.id(PRESET[(index >> 1) as usize]),
            _ => {
                let start = at.checked_sub(1).map_or(0, |before| self.texts[before].end);
                self.interner.id(&self.text[start..self.texts[at].end])
            }
        };
        if let Some(text) = self.texts.get_mut(at) {
            text.id = Some(id);
        }
        Ok(id)
    }
    fn read_texts(&mut self, mut from: &[u8]) -> Result<(), Fault> {
        while !from.is_empty() {
            let shared = usize::try_from(take_varint(&mut from)?).map_err(|_| Fault::Truncated)?;
            let (shared, back) = (shared / LOOK_BACK, shared % LOOK_BACK + 1);
            let length = take_varint(&mut from)?;
            let own = std::str::from_utf8(take(&mut from, length)?)
                .map_err(|_| Fault::Malformed("a text is not UTF-8"))?;
            if shared > 0 {
                let at = self.texts.len().checked_sub(back).ok_or(Fault::Index("start of a text"))?;
                let start = at.checked_sub(1).map_or(0, |before| self.texts[before].end);
                let inside = shared <= MOST_SHARED && start + shared <= self.texts[at].end;
                if !inside || !self.text.is_char_boundary(start + shared) {
                    return Err(Fault::Index("start of a text"));
                }
                self.text.extend_from_within(start..start + shared);
            }
            self.text.push_str(own);
            self.texts.push(Text { end: self.text.len(), id: None, kept: None });
        }
        Ok(())
    }
    fn read_labels(&mut self, mut from: &[u8]) -> Result<(), Fault> {
        let mut texts = Vec::new();
        while !from.is_empty() {
            let pairs = take_varint(&mut from)?;
            let set = if pairs == 0 {
                let mut set = || -> Result<u32, Fault> {
                    let at =
                        usize::try_from(take_varint(&mut from)?).map_err(|_| Fault::Index("label set"))?;
                    self.labels.get(at).copied().ok_or(Fault::Index("label set"))
                };
                let (upper, lower) = (set()?, set()?);
                self.interner.layered_labels(upper, lower)
            } else if pairs <= Labels::MAX as u64 {
                texts.clear();
                for _ in 0..pairs * 2 {
                    let index = take_varint(&mut from)?;
                    texts.push(self.id(index)?);
                }
                self.interner.plain_labels(&texts)
            } else {
                return Err(Fault::Malformed("a label set is too large"));
            };
            self.labels.push(set);
        }
        Ok(())
    }
    fn read_places(&mut self, mut from: &[u8]) -> Result<(), Fault> {
        while !from.is_empty() {
            let mut texts = [None; 6];
            for text in &mut texts {
                if let Some(index) = take_varint(&mut from)?.checked_sub(1) {
                    *text = Some(self.id(index)?);
                }
            }
            let place = self.interner.place(texts)?;
            self.places.push(place);
        }
        Ok(())
    }
}

/// Returns an IP address.
pub(crate) fn ip(value: Value<'_>) -> Result<IpAddr, Fault> {
    let bytes = value.bytes()?;
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(v4.into());
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(v6.into()),
        Err(_) => Err(Fault::Malformed("an IP address has neither 4 nor 16 bytes")),
    }
}

/// Returns a port's number.
pub(crate) fn port(value: Value<'_>) -> Result<PortNumber, Fault> {
    Ok(PortNumber::new(value.narrow()?)?)
}
