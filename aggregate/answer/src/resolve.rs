//! Resolves a host to the service that a client gets.
//!
//! Clients name hosts without a namespace, and several services may claim one. The service of the
//! client's own namespace comes first, then the first visible claimant in order of precedence. Lists,
//! look-ups and explain all use this module (law 11).

use std::sync::Arc;

use tributary_model::{
    Catalog, Code, DeclarationView, Namespace, Recorder, Resolution, ServiceView, Stage, TraceStep, Verdict,
};

use crate::steps::about;

/// Maximum length of an alias chain. The core flattens chains and removes loops, so a longer chain is a loop.
const MAX_ALIASES: usize = 16;

/// Whether a client of this namespace sees any declaration of the service.
#[must_use]
pub fn visible(view: &ServiceView, namespace: Option<&Namespace>) -> bool {
    view.declarations.iter().any(|d| admits(view, d, namespace))
}

fn admits(view: &ServiceView, declaration: &DeclarationView, namespace: Option<&Namespace>) -> bool {
    declaration.visibility.admits(&view.key.namespace, namespace)
}

/// Returns the service that serves `host` to a client of this namespace, merged from the declarations that the client
/// sees.
pub fn resolve<'c, R: Recorder>(
    catalog: &'c Catalog,
    host: &str,
    namespace: Option<&Namespace>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    claimant(catalog, host, namespace, r).map(|view| view.seen_by(namespace))
}

/// Returns the service that serves `host` to a client of this namespace, with all its declarations.
pub(crate) fn claimant<'c, R: Recorder>(
    catalog: &'c Catalog,
    host: &str,
    namespace: Option<&Namespace>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    let Some(entry) = catalog.hosts.get(host) else {
        r.step(|| no_such_host(host));
        return None;
    };
    let sees = |view: &&Arc<ServiceView>| visible(view, namespace);
    let own = |view: &&Arc<ServiceView>| Some(&view.key.namespace) == namespace;
    let claimants = &entry.claimants;
    let chosen = claimants.iter().find(|v| own(v) && sees(v)).or_else(|| claimants.iter().find(sees));
    if r.is_on() {
        claimants.iter().for_each(|view| record(view, chosen, namespace, r));
    }
    chosen
}

/// Returns the service that an alias, or a chain of aliases, resolves to for this client; a service that is
/// not an alias resolves to itself.
pub fn concrete<'c, R: Recorder>(
    catalog: &'c Catalog,
    view: &'c Arc<ServiceView>,
    namespace: Option<&Namespace>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    let mut at = view;
    for _ in 0..MAX_ALIASES {
        let Some(Resolution::Alias(target)) = at.first().map(|d| &d.declaration.resolution) else {
            return Some(at);
        };
        at = resolve(catalog, target.as_str(), namespace, r)?;
    }
    about(r, (Stage::Merge, Verdict::Drop, Code::ALIAS_LOOP), &view.key, "its aliases form a loop");
    None
}

/// Returns the alias through which a client of this namespace resolves `host` to `end`; `None` if the host resolves
/// differently. The declarations of the alias, not those of `end`, claim the host's domains.
#[must_use]
pub fn find_alias<'c>(
    catalog: &'c Catalog,
    host: &str,
    namespace: Option<&Namespace>,
    end: &ServiceView,
) -> Option<&'c Arc<ServiceView>> {
    let view = resolve(catalog, host, namespace, &mut ())?;
    let target = concrete(catalog, view, namespace, &mut ())?;
    (target.key == end.key && target.key != view.key).then_some(view)
}

fn no_such_host(host: &str) -> TraceStep {
    let detail = format!("no source declares {host}");
    crate::steps::service_step(Stage::Merge, Verdict::Drop, Code::NO_SUCH_HOST, None, detail)
}

fn record<R: Recorder>(
    view: &Arc<ServiceView>,
    chosen: Option<&Arc<ServiceView>>,
    namespace: Option<&Namespace>,
    r: &mut R,
) {
    let is_chosen = chosen.is_some_and(|c| Arc::ptr_eq(c, view));
    for declaration in view.declarations.iter() {
        let sees = admits(view, declaration, namespace);
        r.step(|| decision(view, declaration, namespace, sees, is_chosen));
    }
}

fn decision(
    view: &ServiceView,
    declaration: &DeclarationView,
    namespace: Option<&Namespace>,
    sees: bool,
    chosen: bool,
) -> TraceStep {
    let client =
        namespace.map_or_else(|| "a client without a namespace".into(), |ns| format!("namespace {ns}"));
    let key = &view.key;
    let (stage, verdict, code, detail) = match (sees, chosen) {
        (false, _) => (
            Stage::Visibility,
            Verdict::Drop,
            Code::NOT_VISIBLE,
            format!("{key} is not exported to {client}"),
        ),
        (true, true) => {
            (Stage::Visibility, Verdict::Pass, Code::VISIBLE, format!("{key} is visible to {client}"))
        }
        (true, false) => {
            let detail =
                format!("{key} is visible to {client}, but another service of this host precedes it");
            (Stage::Merge, Verdict::Drop, Code::SHADOWED_SERVICE, detail)
        }
    };
    let source = &declaration.declaration.source;
    TraceStep {
        object: Some(source.reference()),
        ..crate::steps::service_step(stage, verdict, code, Some(&declaration.shard), detail)
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{Trace, Visibility};

    use super::*;
    use crate::fixtures::*;

    fn named(catalog: &Catalog, namespace: Option<&str>) -> Option<String> {
        let namespace = namespace.map(mk_ns);
        let view = resolve(catalog, "pay.shop", namespace.as_ref(), &mut ())?;
        Some(view.key.namespace.to_string())
    }
    fn only(namespace: &str) -> Visibility {
        Visibility::Namespaces([mk_ns(namespace)].into())
    }

    #[test]
    fn own_namespace_precedes_the_first_visible_claimant() {
        let catalog = mk_catalog(vec![
            mk_view("pay.shop", "hidden", &[Visibility::Hidden]),
            mk_view("pay.shop", "old", &[only("web")]),
            mk_view("pay.shop", "shop", &[Visibility::Public]),
            mk_view("pay.shop", "young", &[Visibility::Public]),
        ]);
        assert_eq!(named(&catalog, Some("young")).as_deref(), Some("young"));
        assert_eq!(named(&catalog, Some("web")).as_deref(), Some("old"));
        assert_eq!(named(&catalog, Some("cart")).as_deref(), Some("shop"));
        assert_eq!(named(&catalog, None).as_deref(), Some("shop"));
        assert_eq!(named(&catalog, Some("hidden")).as_deref(), Some("shop"), "its own service is hidden");
    }

    #[test]
    fn one_visible_declaration_makes_the_service_visible() {
        let catalog = mk_catalog(vec![mk_view("pay.shop", "shop", &[Visibility::Hidden, only("web")])]);
        assert_eq!(named(&catalog, Some("web")).as_deref(), Some("shop"));
        assert_eq!(named(&catalog, Some("cart")), None);
    }

    #[test]
    fn every_claimant_gets_a_step() {
        let catalog = mk_catalog(vec![
            mk_view("pay.shop", "shop", &[Visibility::Public]),
            mk_view("pay.shop", "old", &[only("web")]),
            mk_view("pay.shop", "young", &[Visibility::Public]),
        ]);
        let mut trace = Trace::default();
        resolve(&catalog, "pay.shop", None, &mut trace);
        let codes: Vec<u16> = trace.steps.iter().map(|s| s.code.number()).collect();
        assert_eq!(codes, [505, 506, 504]);
        let mut trace = Trace::default();
        assert!(resolve(&catalog, "unknown.shop", None, &mut trace).is_none());
        assert_eq!(trace.steps[0].code, Code::NO_SUCH_HOST);
    }

    #[test]
    fn aliases_resolve_to_visible_services() {
        let catalog = mk_catalog(vec![
            mk_alias("a.shop", "b.shop"),
            mk_alias("b.shop", "pay.shop"),
            mk_view("pay.shop", "shop", &[only("web")]),
            mk_alias("x.shop", "y.shop"),
            mk_alias("y.shop", "x.shop"),
        ]);
        let end = |host: &str, namespace: &str| {
            let namespace = mk_ns(namespace);
            let start = resolve(&catalog, host, Some(&namespace), &mut ()).unwrap();
            concrete(&catalog, start, Some(&namespace), &mut ()).map(|v| v.key.host.to_string())
        };
        assert_eq!(end("a.shop", "web").as_deref(), Some("pay.shop"));
        assert_eq!(end("pay.shop", "web").as_deref(), Some("pay.shop"));
        assert_eq!(end("a.shop", "cart"), None);
        assert_eq!(end("x.shop", "web"), None, "a loop resolves to nothing");
    }
}
