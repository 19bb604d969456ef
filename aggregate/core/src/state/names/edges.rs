//! Who reads a host by its name: the edges of the graph of names, indexed by the host that is read.
//!
//! Owned by the graph. A reader's edges are set as one; readers come in their order.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Hostname, Namespace, ServiceKey};

/// A service that reads hosts by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// It leads to the host (resolution Alias).
    Alias(ServiceKey),
    /// It joins the host's services under its own host, or hides who else declares that.
    Join(ServiceKey),
}

/// What is read: the services of a host, of one namespace or of any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// The host.
    pub(crate) host: Hostname,
    /// The namespace, where only its service is read.
    pub(crate) namespace: Option<Namespace>,
}

/// All edges.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    readers: BTreeMap<Hostname, BTreeSet<(Reader, Option<Namespace>)>>,
    reads: BTreeMap<Reader, Vec<Read>>,
}

impl Edges {
    /// A reader reads these now, and nothing else.
    pub(crate) fn set(&mut self, reader: &Reader, reads: Vec<Read>) {
        for read in self.reads.remove(reader).unwrap_or_default() {
            self.unset(reader, read);
        }
        for Read { host, namespace } in &reads {
            self.readers.entry(host.clone()).or_default().insert((reader.clone(), namespace.clone()));
        }
        if !reads.is_empty() {
            self.reads.insert(reader.clone(), reads);
        }
    }
    fn unset(&mut self, reader: &Reader, read: Read) {
        let Some(readers) = self.readers.get_mut(&read.host) else { return };
        readers.remove(&(reader.clone(), read.namespace));
        if readers.is_empty() {
            self.readers.remove(&read.host);
        }
    }
    /// Who reads the service of a namespace under a host.
    pub(crate) fn readers(&self, namespace: &Namespace, host: &Hostname) -> impl Iterator<Item = &Reader> {
        let all = self.readers.get(host).into_iter().flatten();
        all.filter(move |(_, of)| of.as_ref().is_none_or(|of| of == namespace)).map(|(reader, _)| reader)
    }
    /// Who reads any service of a host.
    pub(crate) fn readers_of_any(&self, host: &Hostname) -> impl Iterator<Item = &Reader> {
        self.readers.get(host).into_iter().flatten().map(|(reader, _)| reader)
    }
    /// Whether nobody reads anything.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.reads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_one_namespace_is_no_reader_of_another_and_leaves_nothing_behind() {
        let (host, shop, web) = (
            Hostname::new("pay.shop").unwrap(),
            Namespace::new("shop").unwrap(),
            Namespace::new("web").unwrap(),
        );
        let reader = |name: &str| {
            Reader::Join(ServiceKey { host: Hostname::new(name).unwrap(), namespace: shop.clone() })
        };
        let read = |namespace: Option<&Namespace>| Read { host: host.clone(), namespace: namespace.cloned() };
        let mut edges = Edges::default();
        edges.set(&reader("a.mesh"), vec![read(Some(&shop))]);
        edges.set(&reader("b.mesh"), vec![read(None)]);
        assert_eq!(edges.readers(&shop, &host).count(), 2);
        assert_eq!(edges.readers(&web, &host).collect::<Vec<_>>(), [&reader("b.mesh")]);
        edges.set(&reader("a.mesh"), Vec::new());
        edges.set(&reader("b.mesh"), Vec::new());
        assert!(edges.is_empty());
    }
}
