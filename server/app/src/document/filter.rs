//! Filter of a list: the bounded query of `/debug`.

use serde::Deserialize;
use tributary_model::Catalog;

use super::short_name;

/// Filter of a list. An absent field matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// Name: a host, an address, a client's id, a registry's name.
    pub name: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Host.
    pub host: Option<String>,
    /// Registry.
    pub registry: Option<String>,
    /// Text that a name, host, address or namespace of an item contains, in upper or lower case.
    pub search: Option<String>,
    /// Number of matching items before the first one of the answer.
    pub offset: Option<usize>,
    /// Maximum number of items; at most [`Filter::MAX`].
    pub limit: Option<usize>,
    /// Waits, for some seconds at most, until the catalog generation differs from this one.
    pub after: Option<u64>,
}

impl Filter {
    /// Maximum number of items in one list.
    pub const MAX: usize = 50_000;
    /// Maximum length of a filter text, in bytes.
    pub const MAX_TEXT: usize = 2_048;

    /// Returns the number of items that the list may hold.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(Self::MAX).min(Self::MAX)
    }
    /// Returns the number of items before the first one of the answer.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset.unwrap_or_default()
    }
    /// Whether any of the texts contains the searched one.
    pub fn finds<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        self.search.as_deref().is_none_or(|wanted| texts.into_iter().any(|text| contains(text, wanted)))
    }
    /// Whether every text is within the bound.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let parts = [&self.name, &self.namespace, &self.host, &self.registry, &self.search];
        parts.into_iter().flatten().all(|text| text.len() <= Self::MAX_TEXT)
    }
    /// Completes a short host name; an ambiguous one is an error with its candidates.
    pub fn complete(&mut self, catalog: &Catalog) -> Result<(), String> {
        if let Some(host) = &self.host {
            self.host = Some(short_name::host_in(catalog, host, self.namespace.as_deref())?);
        }
        Ok(())
    }
    /// Completes a name that is a short host: `HOST`, `NAMESPACE/HOST` or `KIND/NAMESPACE/HOST`.
    pub fn complete_name(&mut self, catalog: &Catalog) -> Result<(), String> {
        let Some(name) = &self.name else { return Ok(()) };
        let (place, host) = match name.rsplit_once('/') {
            Some((place, host)) => (Some(place), host),
            None => (None, &**name),
        };
        let of_place = place.map(|place| place.rsplit_once('/').map_or(place, |(_, namespace)| namespace));
        let host = short_name::host_in(catalog, host, of_place.or(self.namespace.as_deref()))?;
        self.name = Some(match place {
            Some(place) => format!("{place}/{host}"),
            None => host,
        });
        Ok(())
    }
    /// Whether the filter matches this namespace.
    #[must_use]
    pub fn takes_namespace(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
    }
    /// Whether the filter matches this host.
    #[must_use]
    pub fn takes_host(&self, host: &str) -> bool {
        self.host.as_deref().is_none_or(|wanted| same_host(wanted, host))
    }
    /// Whether the filter matches this registry.
    #[must_use]
    pub fn takes_registry(&self, registry: &str) -> bool {
        self.registry.as_deref().is_none_or(|wanted| wanted == registry)
    }
    /// Whether the filter's name is this object's: `NAME`, `NAMESPACE/NAME` or `KIND/NAMESPACE/NAME`.
    #[must_use]
    pub fn takes_object(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let Some(wanted) = &self.name else { return true };
        let mut parts = wanted.rsplit('/');
        parts.next().is_some_and(|of| same_host(of, name))
            && parts.next().is_none_or(|of| of == namespace)
            && parts.next().is_none_or(|of| of.eq_ignore_ascii_case(kind))
            && parts.next().is_none()
    }
    /// Whether the filter matches this name.
    #[must_use]
    pub fn takes_name(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

/// Compares hosts as DNS names.
pub fn same_host(wanted: &str, host: &str) -> bool {
    wanted.strip_suffix('.').unwrap_or(wanted).eq_ignore_ascii_case(host)
}

/// Whether a host begins with these labels and has more.
pub fn begins_with(host: &str, labels: &str) -> bool {
    host.strip_prefix(labels).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether a text contains another one, in upper or lower case of ASCII letters.
fn contains(text: &str, wanted: &str) -> bool {
    let mut windows = text.as_bytes().windows(wanted.len().max(1));
    wanted.is_empty() || windows.any(|part| part.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_finds_a_part_in_any_case() {
        let finds = |wanted: &str, texts: &[&str]| {
            let filter = Filter { search: Some(wanted.to_owned()), ..Filter::default() };
            filter.finds(texts.iter().copied())
        };
        assert!(finds("PAY", &["cart", "api.pay.shop"]) && finds("", &["x"]) && finds("é", &["café"]));
        assert!(!finds("pay", &["pa", "y"]) && !finds("pay", &[]) && !finds("payments", &["pay"]));
        assert!(Filter::default().finds([]));
    }

    #[test]
    fn object_is_named_with_or_without_namespace_and_kind() {
        let takes = |name: &str| {
            let filter = Filter { name: Some(name.to_owned()), ..Filter::default() };
            filter.takes_object("Sidecar", "web", "default")
        };
        for fine in ["default", "web/default", "Sidecar/web/default", "sidecar/web/default"] {
            assert!(takes(fine), "{fine}");
        }
        for bad in ["", "web", "shop/default", "Gateway/web/default", "x/Sidecar/web/default", "web/default/"]
        {
            assert!(!takes(bad), "{bad}");
        }
        assert!(Filter::default().takes_object("Sidecar", "web", "default"));
    }
}
