//! Resolves a host to the service that a client gets.
//!
//! Clients name hosts without a namespace, and several services may claim one. The service of the
//! client's own namespace comes first, then the first visible claimant in order of precedence. With a Sidecar, those
//! of its first egress listener that imports any come before those of later ones; where none is imported, a route of a
//! VirtualService that is may lead to one. Lists, look-ups and explain all use this module (law 11).

use std::sync::Arc;

use tributary_model::{
    Catalog, Code, DeclarationView, Hostname, PortNumber, Recorder, ResourceInputs, RouteInputs, RouteOwner,
    ServiceView, Shared, Stage, TraceStep, Verdict,
};

use crate::scope::Scope;
use crate::scope::trace::{imported, not_imported};
use crate::steps::about;

/// Maximum length of an alias chain. The core flattens chains and removes loops, so a longer chain is a loop.
pub(crate) const MAX_ALIASES: usize = 16;

/// Whether a client of this scope sees any declaration of the service, and imports the service.
#[must_use]
pub fn visible(view: &ServiceView, scope: Scope<'_>) -> bool {
    is_exported(view, scope) && scope.rank(view).is_some()
}

/// Whether a client of this scope sees any declaration of the service.
pub(crate) fn is_exported(view: &ServiceView, scope: Scope<'_>) -> bool {
    view.declarations.iter().any(|d| admits(view, d, scope))
}

fn admits(view: &ServiceView, declaration: &DeclarationView, scope: Scope<'_>) -> bool {
    declaration.visibility.admits(&view.key.namespace, scope.namespace)
}

/// Returns the service that serves `host` to a client of this scope, merged from the declarations that the client
/// sees.
pub fn resolve<'c, R: Recorder>(
    catalog: &'c Catalog,
    host: &str,
    scope: Scope<'_>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    claimant(catalog, host, scope, r).map(|view| view.seen_by(scope.namespace))
}

/// Returns the service that serves `host` to a client of this scope, with all its declarations.
pub(crate) fn claimant<'c, R: Recorder>(
    catalog: &'c Catalog,
    host: &str,
    scope: Scope<'_>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    let found = catalog.hosts.get(host);
    let Some(entry) = found.filter(|entry| entry.has_service()) else {
        r.step(|| no_such_host(host, found.and_then(|entry| entry.routes.as_deref())));
        return None;
    };
    let claimants = &entry.claimants;
    let seen = claimants.iter().filter(|view| is_exported(view, scope));
    let imported = seen.clone().filter_map(|view| Some((scope.rank(view)?, view)));
    // Of equal ranks the first stays: claimants are in order of precedence.
    let imported = imported.min_by_key(|(rank, _)| *rank).map(|(_, view)| view);
    let led_to = || scope.is_led_to(entry).then(|| nearest(seen, scope)).flatten();
    let chosen = imported.or_else(led_to);
    if r.is_on() {
        claimants.iter().for_each(|view| record(catalog, view, chosen, scope, r));
    }
    chosen
}

/// Returns the service of the client's own namespace, else the first.
fn nearest<'c>(
    seen: impl Iterator<Item = &'c Arc<ServiceView>>,
    scope: Scope<'_>,
) -> Option<&'c Arc<ServiceView>> {
    seen.min_by_key(|view| Some(&view.key.namespace) != scope.namespace)
}

/// Returns the service that an alias, or a chain of aliases, resolves to for this client; a service that is
/// not an alias resolves to itself.
pub fn concrete<'c, R: Recorder>(
    catalog: &'c Catalog,
    view: &'c Arc<ServiceView>,
    scope: Scope<'_>,
    r: &mut R,
) -> Option<&'c Arc<ServiceView>> {
    let mut at = view;
    // filled for traces only
    let mut passed: Vec<&ServiceView> = Vec::new();
    for _ in 0..MAX_ALIASES {
        let Some(target) = at.alias_target() else { return Some(at) };
        if r.is_on() {
            if passed.iter().any(|one| one.key == at.key) {
                break;
            }
            passed.push(at);
            about(r, (Stage::Merge, Verdict::Pass, Code::ALIAS), &at.key, &led_to(catalog, target));
        }
        at = resolve(catalog, target.as_str(), scope, r)?;
    }
    r.step(|| alias_loop(view, &passed, at));
    None
}

/// Describes what takes the traffic of an alias.
fn led_to(catalog: &Catalog, target: &Hostname) -> String {
    match catalog.has_service(target.as_str()) {
        true => format!("is an alias of {target}, whose listeners and routes take its traffic"),
        false => format!(
            "is an alias of {target}, which no source declares; connections to it are those to an unknown host"
        ),
    }
}

/// Names the aliases of a loop that returns to `at`.
fn alias_loop(view: &ServiceView, passed: &[&ServiceView], at: &ServiceView) -> TraceStep {
    let first = passed.iter().position(|one| one.key == at.key).unwrap_or_default();
    let hosts = passed[first..].iter().map(|one| one.key.host.as_str()).chain([at.key.host.as_str()]);
    let hosts: Vec<&str> = hosts.collect();
    let detail = format!("{}: its aliases form a loop: {}", view.key, hosts.join(" -> "));
    crate::steps::service_step(Stage::Merge, Verdict::Drop, Code::ALIAS_LOOP, None, detail)
}

fn no_such_host(host: &str, routes: Option<&ResourceInputs<RouteInputs>>) -> TraceStep {
    let first = routes.and_then(|routes| routes.inputs.virtual_services.first());
    let routed = first.map(|first| {
        let (key, port) = (&first.of.key, PortNumber::HTTP);
        format!("; {key} routes requests for it on port {port} of sidecars that see it")
    });
    let detail = format!("no source declares {host}{}", routed.unwrap_or_default());
    crate::steps::service_step(Stage::Merge, Verdict::Drop, Code::NO_SUCH_HOST, None, detail)
}

/// Records the decisions about one claimant.
pub(crate) fn record<R: Recorder>(
    catalog: &Catalog,
    view: &Arc<ServiceView>,
    chosen: Option<&Arc<ServiceView>>,
    scope: Scope<'_>,
    r: &mut R,
) {
    let is_chosen = chosen.is_some_and(|c| Arc::ptr_eq(c, view));
    let imports = scope.rank(view).is_some();
    for declaration in view.declarations.iter() {
        let sees = admits(view, declaration, scope);
        if imports || !sees || is_chosen {
            r.step(|| decision(view, declaration, scope, sees, is_chosen));
        }
    }
    if !imports && !is_chosen && is_exported(view, scope) {
        r.step(|| not_imported(catalog, &view.key, None, scope));
    }
}

fn decision(
    view: &ServiceView,
    declaration: &DeclarationView,
    scope: Scope<'_>,
    sees: bool,
    chosen: bool,
) -> TraceStep {
    let client =
        scope.namespace.map_or_else(|| "a client without a namespace".into(), |ns| format!("namespace {ns}"));
    let key = &view.key;
    let (stage, verdict, code, detail) = match (sees, chosen) {
        (false, _) => (
            Stage::Visibility,
            Verdict::Drop,
            Code::NOT_VISIBLE,
            format!("{key} is not exported to {client}"),
        ),
        (true, true) => {
            let detail = format!("{key} is visible to {client}{}", imported(view, scope));
            (Stage::Visibility, Verdict::Pass, Code::VISIBLE, detail)
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

/// Returns the routes of a host for clients for which no service has it on port 80, if any of its VirtualServices is for
/// clients of this scope.
#[must_use]
pub fn own_routes<'c>(
    catalog: &'c Catalog,
    host: &Hostname,
    scope: Scope<'_>,
) -> Option<&'c Shared<ResourceInputs<RouteInputs>>> {
    let routes = catalog.hosts.get(host)?.routes.as_ref()?;
    let imports = |of: &RouteOwner| {
        let (own, namespace) = (scope.namespace, &of.key.namespace);
        scope.egress().is_none_or(|egress| egress.imports_any(own, PortNumber::HTTP, namespace, &of.hosts))
    };
    let mut candidates = routes.inputs.virtual_services.iter();
    let concerns = candidates.any(|one| one.of.tier(scope.namespace).is_some() && imports(&one.of));
    concerns.then_some(routes)
}

#[cfg(test)]
mod tests {
    use tributary_model::{Trace, Visibility};

    use super::*;
    use crate::fixtures::*;

    fn named(catalog: &Catalog, namespace: Option<&str>) -> Option<String> {
        let namespace = namespace.map(mk_ns);
        let view = resolve(catalog, "pay.shop", Scope::of(namespace.as_ref()), &mut ())?;
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
        resolve(&catalog, "pay.shop", Scope::default(), &mut trace);
        let codes: Vec<u16> = trace.steps.iter().map(|s| s.code.number()).collect();
        assert_eq!(codes, [505, 506, 504]);
        let mut trace = Trace::default();
        assert!(resolve(&catalog, "unknown.shop", Scope::default(), &mut trace).is_none());
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
            let scope = Scope::of(Some(&namespace));
            let start = resolve(&catalog, host, scope, &mut ()).unwrap();
            concrete(&catalog, start, scope, &mut ()).map(|v| v.key.host.to_string())
        };
        assert_eq!(end("a.shop", "web").as_deref(), Some("pay.shop"));
        assert_eq!(end("pay.shop", "web").as_deref(), Some("pay.shop"));
        assert_eq!(end("a.shop", "cart"), None);
        assert_eq!(end("x.shop", "web"), None, "a loop resolves to nothing");
    }

    #[test]
    fn alias_loop_names_each_alias_once() {
        let catalog = mk_catalog(vec![
            mk_alias("a.shop", "b.shop"),
            mk_alias("b.shop", "c.shop"),
            mk_alias("c.shop", "b.shop"),
            mk_alias("out.shop", "db.example.com"),
        ]);
        let steps = |host: &str| {
            let start = resolve(&catalog, host, Scope::default(), &mut ()).unwrap();
            let mut trace = Trace::default();
            assert!(concrete(&catalog, start, Scope::default(), &mut trace).is_none());
            trace.steps.retain(|step| step.code != Code::VISIBLE);
            trace.steps.iter().map(|step| format!("{} {}", step.code, step.detail)).collect::<Vec<_>>()
        };
        let alias = |of: &str, target: &str| {
            format!("TRB0539 shop/{of}: is an alias of {target}, whose listeners and routes take its traffic")
        };
        let around = "TRB0407 shop/a.shop: its aliases form a loop: b.shop -> c.shop -> b.shop";
        let want = [alias("a.shop", "b.shop"), alias("b.shop", "c.shop"), alias("c.shop", "b.shop")];
        assert_eq!(steps("a.shop"), [&want[..], &[around.to_owned()]].concat());
        let outside = "TRB0539 shop/out.shop: is an alias of db.example.com, which no source declares; \
                       connections to it are those to an unknown host";
        assert_eq!(steps("out.shop"), [outside, "TRB0524 no source declares db.example.com"]);
    }
}
