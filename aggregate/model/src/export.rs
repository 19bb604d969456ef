//! Who may see a declaration.

use std::sync::Arc;

use crate::id::Namespace;

/// What a declaration says of its visibility. `Default` is resolved by the core from the settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum ExportTo {
    /// Nothing was said.
    #[default]
    Default,
    /// This was said.
    Set(Visibility),
}

impl ExportTo {
    /// From the words of an `exportTo` list: `*` wins, `~` hides, `.` is the object's own
    /// namespace; an empty list says nothing. Words that are no namespace are skipped.
    #[must_use]
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>, own: &Namespace) -> Self {
        let words: Vec<&str> = words.into_iter().map(str::trim).filter(|w| !w.is_empty()).collect();
        if words.is_empty() {
            return Self::Default;
        }
        if words.contains(&"*") {
            return Self::Set(Visibility::Public);
        }
        if words.contains(&"~") {
            return Self::Set(Visibility::Hidden);
        }
        let mut named: Vec<Namespace> = words
            .iter()
            .filter_map(|&w| if w == "." { Some(own.clone()) } else { Namespace::new(w).ok() })
            .collect();
        named.sort();
        named.dedup();
        Self::Set(Visibility::Namespaces(named.into()))
    }
    /// What it comes to, given the mesh's default.
    #[must_use]
    pub fn resolve(&self, default: &Visibility) -> Visibility {
        match self {
            Self::Default => default.clone(),
            Self::Set(v) => v.clone(),
        }
    }
}

/// Who sees a declaration, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum Visibility {
    /// Every client.
    #[default]
    Public,
    /// Clients of these namespaces, sorted.
    Namespaces(Arc<[Namespace]>),
    /// The declaration's own namespace; only in settings, where no object is at hand.
    Own,
    /// Nobody.
    Hidden,
}

impl Visibility {
    /// Whether a client of this namespace sees a declaration made in `own`. A client without a
    /// namespace sees only what is public.
    #[must_use]
    pub fn admits(&self, own: &Namespace, client: Option<&Namespace>) -> bool {
        match self {
            Self::Public => true,
            Self::Hidden => false,
            Self::Own => client == Some(own),
            Self::Namespaces(list) => client.is_some_and(|ns| list.binary_search(ns).is_ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Namespace {
        Namespace::new(text).unwrap()
    }

    #[test]
    fn words_resolve_in_their_order_of_strength() {
        let own = ns("shop");
        assert_eq!(ExportTo::parse([], &own), ExportTo::Default);
        assert_eq!(ExportTo::parse(["~", "*"], &own), ExportTo::Set(Visibility::Public));
        assert_eq!(ExportTo::parse([".", "~"], &own), ExportTo::Set(Visibility::Hidden));
        let list = ExportTo::parse([".", "web", " web "], &own);
        assert_eq!(list, ExportTo::Set(Visibility::Namespaces([ns("shop"), ns("web")].into())));
    }

    #[test]
    fn a_client_without_a_namespace_sees_what_is_public() {
        let own = ns("shop");
        assert!(Visibility::Public.admits(&own, None));
        assert!(!Visibility::Own.admits(&own, None));
        assert!(!Visibility::Namespaces([ns("shop")].into()).admits(&own, None));
        assert!(Visibility::Own.admits(&own, Some(&own)));
        assert!(!Visibility::Hidden.admits(&own, Some(&own)));
    }
}
