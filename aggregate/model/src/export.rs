//! Visibility of declarations: `exportTo` lists, mesh defaults and administrators' caps.

use std::sync::Arc;

use crate::id::Namespace;

/// Declared visibility. The core resolves `Default` from the settings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum ExportTo {
    /// Not declared.
    #[default]
    Default,
    /// Declared.
    Set(Visibility),
}

impl ExportTo {
    /// Parses the entries of an `exportTo` list: `*` wins, `~` hides, `.` is the object's own
    /// namespace; an empty list is `Default`. Skips entries that are not valid namespaces.
    #[must_use]
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>, own: &Namespace) -> Self {
        let entries: Vec<&str> = entries.into_iter().map(str::trim).filter(|w| !w.is_empty()).collect();
        if entries.is_empty() {
            return Self::Default;
        }
        if entries.contains(&"*") {
            return Self::Set(Visibility::Public);
        }
        if entries.contains(&"~") {
            return Self::Set(Visibility::Hidden);
        }
        let mut named: Vec<Namespace> = entries
            .iter()
            .filter_map(|&w| if w == "." { Some(own.clone()) } else { Namespace::new(w).ok() })
            .collect();
        named.sort();
        named.dedup();
        Self::Set(Visibility::Namespaces(named.into()))
    }
    /// Returns the declared visibility, else the mesh default.
    #[must_use]
    pub fn resolve(&self, default: &Visibility) -> Visibility {
        match self {
            Self::Default => default.clone(),
            Self::Set(v) => v.clone(),
        }
    }
}

/// Resolved visibility of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub enum Visibility {
    /// Every client.
    #[default]
    Public,
    /// Clients of these namespaces, sorted.
    Namespaces(Arc<[Namespace]>),
    /// The declaration's own namespace; used only in settings, which belong to no namespace.
    Own,
    /// No client.
    Hidden,
}

impl Visibility {
    /// Whether a client of this namespace sees a declaration of namespace `own`. A client without a
    /// namespace sees public declarations only.
    #[must_use]
    pub fn admits(&self, own: &Namespace, client: Option<&Namespace>) -> bool {
        match self {
            Self::Public => true,
            Self::Hidden => false,
            Self::Own => client == Some(own),
            Self::Namespaces(list) => client.is_some_and(|ns| list.binary_search(ns).is_ok()),
        }
    }
    /// Returns the namespaces that it names for a declaration of namespace `own`, sorted; none if it is for every client.
    pub fn namespaces<'a>(&'a self, own: &'a Namespace) -> impl Iterator<Item = &'a Namespace> {
        let (own, list): (_, &[Namespace]) = match self {
            Self::Public | Self::Hidden => (None, &[]),
            Self::Own => (Some(own), &[]),
            Self::Namespaces(list) => (None, list),
        };
        own.into_iter().chain(list)
    }
    /// Parses a mesh default from an `exportTo` list: `*` wins, then `~`, then `.`, which is each
    /// declaration's own namespace. An empty list gives `None`.
    #[must_use]
    pub fn default_of<'a>(entries: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let entries: Vec<&str> = entries.into_iter().map(str::trim).collect();
        if entries.contains(&".") && !entries.contains(&"*") && !entries.contains(&"~") {
            return Some(Self::Own);
        }
        // The list contains no effective `.`, so the namespace passed here is unused.
        let unused = Namespace::new("default").ok()?;
        match ExportTo::parse(entries, &unused) {
            ExportTo::Set(visibility) => Some(visibility),
            ExportTo::Default => None,
        }
    }
    /// Restricts this visibility by an administrator's cap for declarations of namespace `own`. A cap only
    /// narrows: a wide cap never adds clients.
    #[must_use]
    pub fn under(&self, cap: &Self, own: &Namespace) -> Self {
        match cap {
            Self::Public => self.clone(),
            Self::Hidden => Self::Hidden,
            Self::Own | Self::Namespaces(_) => {
                let capped = match cap {
                    Self::Namespaces(list) => list.to_vec(),
                    _ => vec![own.clone()],
                };
                let left: Vec<Namespace> =
                    capped.into_iter().filter(|ns| self.admits(own, Some(ns))).collect();
                if left.is_empty() { Self::Hidden } else { Self::Namespaces(left.into()) }
            }
        }
    }
}

/// Caps on the visibility of ServiceEntries, by declaring namespace (`docs/reference/service-entry.md`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct EntryVisibility {
    /// Cap of all other namespaces.
    pub default: Visibility,
    /// Namespaces with their own cap, sorted.
    pub namespaces: Arc<[(Namespace, Visibility)]>,
}

impl EntryVisibility {
    /// Returns the cap for ServiceEntries of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &Namespace) -> &Visibility {
        let at = self.namespaces.binary_search_by(|(ns, _)| ns.cmp(namespace));
        at.ok().and_then(|at| self.namespaces.get(at)).map_or(&self.default, |(_, cap)| cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Namespace {
        Namespace::new(text).unwrap()
    }

    #[test]
    fn export_entries_resolve_by_strength() {
        let own = ns("shop");
        assert_eq!(ExportTo::parse([], &own), ExportTo::Default);
        assert_eq!(ExportTo::parse(["~", "*"], &own), ExportTo::Set(Visibility::Public));
        assert_eq!(ExportTo::parse([".", "~"], &own), ExportTo::Set(Visibility::Hidden));
        let list = ExportTo::parse([".", "web", " web "], &own);
        assert_eq!(list, ExportTo::Set(Visibility::Namespaces([ns("shop"), ns("web")].into())));
    }

    #[test]
    fn mesh_default_dot_means_own_namespace() {
        assert_eq!(Visibility::default_of(["."]), Some(Visibility::Own));
        assert_eq!(Visibility::default_of([".", "*"]), Some(Visibility::Public));
        assert_eq!(Visibility::default_of(["~", "."]), Some(Visibility::Hidden));
        assert_eq!(
            Visibility::default_of(["b", "a"]),
            Some(Visibility::Namespaces([ns("a"), ns("b")].into()))
        );
        assert_eq!(Visibility::default_of([]), None);
    }

    #[test]
    fn cap_narrows_and_never_widens_visibility() {
        let own = ns("shop");
        let only = |name: &str| Visibility::Namespaces([ns(name)].into());
        let (public, hidden) = (Visibility::Public, Visibility::Hidden);
        let cases = [
            (&public, &Visibility::Own, only("shop")),
            (&only("web"), &Visibility::Own, hidden.clone()),
            (&only("web"), &public, only("web")),
            (&public, &hidden, hidden.clone()),
            (&hidden, &Visibility::Own, hidden.clone()),
        ];
        for (declared, cap, left) in cases {
            assert_eq!(declared.under(cap, &own), left, "{declared:?} under {cap:?}");
        }
        let caps =
            EntryVisibility { default: Visibility::Own, namespaces: [(ns("web"), public.clone())].into() };
        assert_eq!((caps.of(&own), caps.of(&ns("web"))), (&Visibility::Own, &public));
    }

    #[test]
    fn client_without_namespace_sees_public_only() {
        let own = ns("shop");
        assert!(Visibility::Public.admits(&own, None));
        assert!(!Visibility::Own.admits(&own, None));
        assert!(!Visibility::Namespaces([ns("shop")].into()).admits(&own, None));
        assert!(Visibility::Own.admits(&own, Some(&own)));
        assert!(!Visibility::Hidden.admits(&own, Some(&own)));
    }
}
