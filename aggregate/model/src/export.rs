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
    /// Who sees one of several declarations made in `own`.
    #[must_use]
    pub fn any_of<'a>(all: impl IntoIterator<Item = &'a Self>, own: &Namespace) -> Self {
        let mut named: Vec<Namespace> = Vec::new();
        for one in all {
            match one {
                Self::Public => return Self::Public,
                Self::Namespaces(list) => named.extend(list.iter().cloned()),
                Self::Own => named.push(own.clone()),
                Self::Hidden => {}
            }
        }
        named.sort();
        named.dedup();
        if named.is_empty() { Self::Hidden } else { Self::Namespaces(named.into()) }
    }
    /// A mesh's default, from the words of such a list: `*` wins, then `~`, then `.`, which is each
    /// declaration's own namespace; an empty list says nothing.
    #[must_use]
    pub fn default_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let words: Vec<&str> = words.into_iter().map(str::trim).collect();
        if words.contains(&".") && !words.contains(&"*") && !words.contains(&"~") {
            return Some(Self::Own);
        }
        // No object is at hand whose namespace `.` could be, so any will do.
        let nobody = Namespace::new("default").ok()?;
        match ExportTo::parse(words, &nobody) {
            ExportTo::Set(visibility) => Some(visibility),
            ExportTo::Default => None,
        }
    }
    /// Who of these is left under a cap that an administrator set for declarations made in `own`. A
    /// cap only ever narrows: who was not meant to see a declaration does not see it by a wide cap.
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

/// Caps on who sees ServiceEntries, by the namespace that declares them (`registries.md` 4.1).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, serde::Serialize)]
pub struct EntryVisibility {
    /// Where nothing else is said.
    pub default: Visibility,
    /// Namespaces with another cap, sorted.
    pub namespaces: Arc<[(Namespace, Visibility)]>,
}

impl EntryVisibility {
    /// The cap of a namespace's entries.
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
    fn words_resolve_in_their_order_of_strength() {
        let own = ns("shop");
        assert_eq!(ExportTo::parse([], &own), ExportTo::Default);
        assert_eq!(ExportTo::parse(["~", "*"], &own), ExportTo::Set(Visibility::Public));
        assert_eq!(ExportTo::parse([".", "~"], &own), ExportTo::Set(Visibility::Hidden));
        let list = ExportTo::parse([".", "web", " web "], &own);
        assert_eq!(list, ExportTo::Set(Visibility::Namespaces([ns("shop"), ns("web")].into())));
    }

    #[test]
    fn a_default_has_no_namespace_of_its_own() {
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
    fn a_cap_narrows_and_never_widens() {
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
        for (said, cap, left) in cases {
            assert_eq!(said.under(cap, &own), left, "{said:?} under {cap:?}");
        }
        let caps =
            EntryVisibility { default: Visibility::Own, namespaces: [(ns("web"), public.clone())].into() };
        assert_eq!((caps.of(&own), caps.of(&ns("web"))), (&Visibility::Own, &public));
    }

    #[test]
    fn of_several_declarations_each_adds_who_sees_it() {
        let own = ns("shop");
        let only = |names: &[&str]| Visibility::Namespaces(names.iter().map(|name| ns(name)).collect());
        let any = |all: &[Visibility]| Visibility::any_of(all, &own);
        assert_eq!(any(&[]), Visibility::Hidden);
        assert_eq!(any(&[only(&["web"]), Visibility::Own, Visibility::Hidden]), only(&["shop", "web"]));
        assert_eq!(any(&[only(&["web"]), Visibility::Public]), Visibility::Public);
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
