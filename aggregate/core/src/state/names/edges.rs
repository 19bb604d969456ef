//! Edges of the graph of names, indexed by the host that is read.
//!
//! Owned by the graph. All edges of a reader are set together; readers are returned in order.

use std::collections::{BTreeMap, BTreeSet};

use tributary_model::{Hostname, Namespace, ServiceKey};

/// Service that reads hosts by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// Alias of the host (resolution Alias).
    Alias(ServiceKey),
    /// Federated service that joins the host's services, or whose own host it is.
    Join(ServiceKey),
}

/// Services that are read: those of a host, of one namespace or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// Host.
    pub(crate) host: Hostname,
    /// Namespace, if only its service is read.
    pub(crate) namespace: Option<Namespace>,
}

/// All edges.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    readers: BTreeMap<Hostname, BTreeSet<(Reader, Option<Namespace>)>>,
    reads: BTreeMap<Reader, Vec<Read>>,
}

impl Edges {
    /// Replaces the edges of a reader.
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
    /// Returns the readers of a host's service in a namespace.
    pub(crate) fn readers(&self, namespace: &Namespace, host: &Hostname) -> impl Iterator<Item = &Reader> {
        let all = self.readers.get(host).into_iter().flatten();
        all.filter(move |(_, of)| of.as_ref().is_none_or(|of| of == namespace)).map(|(reader, _)| reader)
    }
    /// Returns the readers of any service of a host.
    pub(crate) fn readers_of_any(&self, host: &Hostname) -> impl Iterator<Item = &Reader> {
        self.readers.get(host).into_iter().flatten().map(|(reader, _)| reader)
    }
    /// Returns whether there is no edge.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.reads.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_limited_to_their_namespace() {
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
