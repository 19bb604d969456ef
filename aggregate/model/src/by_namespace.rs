//! Values that depend on the namespace of a client.

use std::sync::Arc;

use crate::id::Namespace;

/// A value for most clients, and another one for those of some namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ByNamespace<T> {
    usual: T,
    named: Arc<[(Namespace, T)]>,
}

/// Value that some clients have, by their namespace; absent if no client has one.
pub type ByClient<T> = Option<Arc<ByNamespace<Option<Arc<T>>>>>;

impl<T: PartialEq> ByNamespace<T> {
    /// Creates a value; keeps the namespaces whose value differs from the usual one.
    #[must_use]
    pub fn new(usual: T, named: impl IntoIterator<Item = (Namespace, T)>) -> Self {
        let mut named: Vec<(Namespace, T)> = named.into_iter().filter(|(_, value)| *value != usual).collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        named.dedup_by(|(a, _), (b, _)| a == b);
        Self { usual, named: named.into() }
    }
    /// Returns the first namespace whose clients have the same value as those of this one; `None` for the usual value.
    #[must_use]
    pub fn alike(&self, namespace: &Namespace) -> Option<&Namespace> {
        let own = self.own(namespace)?;
        self.named.iter().find(|(_, value)| value == own).map(|(first, _)| first)
    }
}

impl<T> ByNamespace<T> {
    /// Returns the value of a client.
    #[must_use]
    pub fn get(&self, namespace: Option<&Namespace>) -> &T {
        namespace.and_then(|namespace| self.own(namespace)).unwrap_or(&self.usual)
    }
    /// Returns every value, the usual one first.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.usual).chain(self.named.iter().map(|(_, value)| value))
    }
    /// Returns the namespaces with a value of their own, sorted.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.named.iter().map(|(namespace, _)| namespace)
    }
    /// Returns the value made from each value.
    #[must_use]
    pub fn map<U: PartialEq>(&self, make: impl Fn(&T) -> U) -> ByNamespace<U> {
        let named = self.named.iter().map(|(namespace, value)| (namespace.clone(), make(value)));
        ByNamespace::new(make(&self.usual), named)
    }
    fn own(&self, namespace: &Namespace) -> Option<&T> {
        let at = self.named.binary_search_by(|(own, _)| own.cmp(namespace)).ok()?;
        self.named.get(at).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Namespace {
        Namespace::new(text).unwrap()
    }

    #[test]
    fn client_has_the_value_of_its_namespace_else_the_usual_one() {
        let value = ByNamespace::new(0, [(ns("c"), 1), (ns("a"), 1), (ns("b"), 0), (ns("d"), 2)]);
        let got = |text: &str| *value.get(Some(&ns(text)));
        assert_eq!([got("a"), got("b"), got("c"), got("d"), *value.get(None)], [1, 0, 1, 2, 0]);
        assert_eq!(value.namespaces().collect::<Vec<_>>(), [&ns("a"), &ns("c"), &ns("d")]);
        assert_eq!(value.alike(&ns("c")), Some(&ns("a")));
        assert_eq!(value.alike(&ns("b")), None);
        assert_eq!(value.map(|n| n / 2).values().copied().collect::<Vec<_>>(), [0, 1]);
    }
}
