//! The parts of a route table in runs, by namespace and host.
//!
//! A run is written once and shared by every table that contains it: by the next generation, and by the
//! tables of namespaces that see other parts differently. So a table costs the runs that differ.
//! Where runs begin depends on history; the version and the bytes of the table do not.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use tributary_model::{EncodedResource, Hostname, Namespace, Version, VersionSum};

use super::budget::Copies;
use super::weak_table::WeakTable;
use crate::encode::route::{append_host, host_len};

/// Identity of a part. Parts of one namespace are neighbours, because overlays replace those of their own.
pub(crate) type PartId = (Namespace, Hostname);

/// Changed parts of a table; `None` removes a part.
pub(crate) type Edits = BTreeMap<PartId, Option<Part>>;

type Part = Arc<EncodedResource>;

/// The runs of a table, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Vec<Arc<Run>>);

/// Runs in use, by hash and length: overlays of the next generation find those of the last.
#[derive(Debug, Default)]
pub(crate) struct RunTable(Mutex<WeakTable<(Version, usize), Run>>);

impl RunTable {
    fn shared(&self, parts: Vec<(PartId, Part)>) -> Arc<Run> {
        let run = Run::new(parts);
        let key = (run.sum.version(), run.len);
        let mut table = self.0.lock();
        if let Some(found) = table.get(&key) {
            return found;
        }
        let run = Arc::new(run);
        table.insert(key, &run);
        run
    }
}

#[derive(Debug)]
struct Run {
    parts: Box<[(PartId, Part)]>,
    sum: VersionSum,
    len: usize,
    bytes: OnceLock<Bytes>,
}

impl Run {
    fn new(parts: Vec<(PartId, Part)>) -> Self {
        // the namespace decides the order
        let term = |(id, part): &(PartId, Part)| {
            Version::of_all([part.version, Version::of(id.0.as_str().as_bytes())])
        };
        let sum = parts.iter().map(term).collect();
        let len = parts.iter().map(size).sum();
        Self { parts: parts.into(), sum, len, bytes: OnceLock::new() }
    }
}

fn size((_, part): &(PartId, Part)) -> usize {
    host_len(part.len as usize)
}

impl Runs {
    /// A shorter run is joined with the one before it, in bytes.
    const LEAST: usize = 12 << 10;
    /// A longer run is split.
    const MOST: usize = 24 << 10;

    /// Returns the runs after changes; runs without changes are shared.
    pub(crate) fn edited(&self, shared: &RunTable, edits: Edits) -> Self {
        let mut by_run: BTreeMap<usize, Edits> = BTreeMap::new();
        for (id, edit) in edits {
            let at = self.0.partition_point(|run| run.parts.first().is_some_and(|(first, _)| *first <= id));
            by_run.entry(at.saturating_sub(1)).or_default().insert(id, edit);
        }
        let mut out = Self(Vec::with_capacity(self.0.len() + 1));
        for at in 0..self.0.len().max(1) {
            match (by_run.remove(&at), self.0.get(at)) {
                (None, Some(run)) => out.0.push(Arc::clone(run)),
                (Some(edits), run) => {
                    out.append(shared, merged(run.map_or(&[], |run| &*run.parts), edits));
                }
                (None, None) => {}
            }
        }
        out
    }
    /// Appends parts as runs of even length.
    fn append(&mut self, shared: &RunTable, mut parts: Vec<(PartId, Part)>) {
        let mut len: usize = parts.iter().map(size).sum();
        if len < Self::LEAST
            && !parts.is_empty()
            && let Some(before) = self.0.pop()
        {
            parts = before.parts.iter().cloned().chain(parts).collect();
            len += before.len;
        }
        let target = len.div_ceil(len.div_ceil(Self::MOST).max(1));
        let mut run = Vec::new();
        let mut filled = 0;
        for part in parts {
            filled += size(&part);
            run.push(part);
            if filled >= target {
                self.0.push(shared.shared(std::mem::take(&mut run)));
                filled = 0;
            }
        }
        if !run.is_empty() {
            self.0.push(shared.shared(run));
        }
    }
    /// Whether there are no parts.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Returns the hash over the parts.
    pub(crate) fn version(&self) -> Version {
        Version::of_all([self.0.iter().fold(VersionSum::default(), |sum, run| sum.with(run.sum)).version()])
    }
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|run| run.len).sum()
    }
    /// Whether every run is written.
    pub(crate) fn are_written(&self) -> bool {
        self.0.iter().all(|run| run.bytes.get().is_some())
    }
    /// Returns the bytes of each run; `None` if `body` has no body of a part whose run is not written yet.
    pub(crate) fn bytes(
        &self,
        copies: &Arc<Copies>,
        mut body: impl FnMut(&PartId, &Part) -> Option<Bytes>,
    ) -> Option<Vec<Bytes>> {
        self.0.iter().map(|run| run.bytes(copies, &mut body)).collect()
    }
    /// Returns the number of runs that another table does not share.
    #[cfg(test)]
    pub(crate) fn own(&self, base: &Self) -> usize {
        let shared = |run: &&Arc<Run>| base.0.iter().any(|other| Arc::ptr_eq(other, run));
        self.0.iter().filter(|run| !shared(run)).count()
    }
}

impl Run {
    fn bytes(
        &self,
        copies: &Arc<Copies>,
        body: &mut impl FnMut(&PartId, &Part) -> Option<Bytes>,
    ) -> Option<Bytes> {
        if let Some(written) = self.bytes.get() {
            return Some(written.clone());
        }
        let mut out = Vec::with_capacity(self.len);
        for (id, part) in &self.parts {
            append_host(&mut out, &part.body().or_else(|| body(id, part))?);
        }
        Some(self.bytes.get_or_init(|| copies.own(out)).clone())
    }
}

fn merged(parts: &[(PartId, Part)], edits: Edits) -> Vec<(PartId, Part)> {
    let mut edits = edits.into_iter().peekable();
    let mut out = Vec::with_capacity(parts.len());
    for (id, part) in parts {
        while let Some((new, edit)) = edits.next_if(|(new, _)| new < id) {
            out.extend(edit.map(|part| (new, part)));
        }
        match edits.next_if(|(new, _)| new == id) {
            Some((_, edit)) => out.extend(edit.map(|part| (id.clone(), part))),
            None => out.push((id.clone(), Arc::clone(part))),
        }
    }
    out.extend(edits.filter_map(|(id, edit)| Some((id, edit?))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tributary_fixtures::{mk_host, mk_ns};

    fn mk_id(n: u16) -> PartId {
        (mk_ns(&format!("n{:02}", n / 10)), mk_host(&format!("s{n:04}.shop")))
    }
    fn mk_part(n: u16, body: u16) -> Part {
        Arc::new(EncodedResource::new("p".into(), format!("{n}/{body}/").repeat(50).into()))
    }
    fn mk_edits(all: impl Iterator<Item = (u16, Option<u16>)>) -> Edits {
        all.map(|(n, body)| (mk_id(n), body.map(|body| mk_part(n, body)))).collect()
    }
    fn flat(runs: &Runs) -> Vec<u8> {
        runs.bytes(&Arc::default(), |_, _| None).unwrap().concat()
    }

    #[test]
    fn change_of_one_namespace_replaces_at_most_two_runs() {
        let base = Runs::default().edited(&RunTable::default(), mk_edits((0..1_000).map(|n| (n, Some(0)))));
        assert!(base.0.len() > 10 && base.0.iter().all(|run| run.len >= Runs::LEAST));
        for namespace in 0..100 {
            let own = (namespace * 10..namespace * 10 + 10).map(|n| (n, Some(1)));
            let edited = base.edited(&RunTable::default(), mk_edits(own));
            assert!(edited.own(&base) <= 2, "{} runs are its own", edited.own(&base));
            assert_ne!(edited.version(), base.version());
        }
    }

    proptest! {
        #[test]
        fn runs_equal_those_built_at_once(
            steps in prop::collection::vec(prop::collection::btree_map(0u16..300, prop::option::weighted(0.7, 0u16..3), 0..200), 1..6),
        ) {
            let (mut runs, mut all) = (Runs::default(), BTreeMap::new());
            for step in steps {
                runs = runs.edited(&RunTable::default(), mk_edits(step.iter().map(|(&n, &body)| (n, body))));
                all.extend(step);
                all.retain(|_, body| body.is_some());
                let once = Runs::default().edited(&RunTable::default(), mk_edits(all.iter().map(|(&n, &body)| (n, body))));
                prop_assert_eq!(runs.version(), once.version());
                prop_assert_eq!((flat(&runs), runs.len()), (flat(&once), once.len()));
                prop_assert!(runs.0.iter().all(|run| !run.parts.is_empty() && run.len < 2 * Runs::MOST));
            }
        }
    }
}
