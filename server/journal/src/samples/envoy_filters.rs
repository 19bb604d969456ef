//! Random EnvoyFilters.

use super::*;

fn optional() -> BoxedStrategy<Option<Arc<str>>> {
    of(text()).boxed()
}
fn one_of<T: Copy + std::fmt::Debug + 'static>(names: &[(&str, T)]) -> BoxedStrategy<T> {
    select(names.iter().map(|(_, value)| *value).collect::<Vec<_>>()).boxed()
}
fn chain() -> BoxedStrategy<ChainMatch> {
    let texts = (optional(), optional(), optional(), optional(), optional());
    (texts, vec(text(), 0..3), of(any::<u32>()))
        .prop_map(|((name, sni, transport, filter, sub_filter), applications, port)| {
            let applications = applications.into();
            ChainMatch { name, sni, transport, applications, port, filter, sub_filter }
        })
        .boxed()
}
fn virtual_host() -> BoxedStrategy<VirtualHostMatch> {
    let route =
        (optional(), one_of(RouteAction::NAMES)).prop_map(|(name, action)| RouteMatch { name, action });
    (optional(), optional(), of(route))
        .prop_map(|(name, domain, route)| VirtualHostMatch { name, domain, route })
        .boxed()
}
fn object() -> BoxedStrategy<ObjectMatch> {
    let listener = (of(any::<u32>()), optional(), optional(), of(chain())).prop_map(
        |(port, name, listener_filter, chain)| {
            ObjectMatch::Listener(Box::new(ListenerMatch { port, name, listener_filter, chain }))
        },
    );
    let routes = (of(any::<u32>()), optional(), of(virtual_host()))
        .prop_map(|(port, name, host)| ObjectMatch::Routes(Box::new(RoutesMatch { port, name, host })));
    let cluster =
        (optional(), optional(), of(any::<u32>()), optional()).prop_map(|(name, service, port, subset)| {
            ObjectMatch::Cluster(ClusterMatch { name, service, port, subset })
        });
    prop_oneof![Just(ObjectMatch::All), listener, routes, cluster].boxed()
}
fn patch() -> BoxedStrategy<ConfigPatch> {
    let kinds = (one_of(ApplyTo::NAMES), one_of(PatchContext::NAMES), one_of(Operation::NAMES));
    let version = select(vec![None, Some("1.*"), Some("^2$")]);
    let metadata = vec((text(), text()), 0..3);
    let value = of(vec(any::<u8>(), 0..20));
    (kinds, version, metadata, object(), value)
        .prop_map(|((apply_to, context, operation), version, metadata, object, value)| ConfigPatch {
            apply_to,
            context,
            proxy: ProxyMatch {
                version: version.map(|text| VersionPattern::new(text).unwrap()),
                metadata: metadata.into_iter().collect(),
            },
            object,
            operation,
            value: value.map(Into::into),
        })
        .boxed()
}

/// Any EnvoyFilter.
pub(super) fn envoy_filter() -> BoxedStrategy<Policy> {
    (labels(), any::<i32>(), any::<bool>(), vec(patch(), 0..3), vec(text(), 0..3))
        .prop_map(|(selector, priority, has_targets, patches, ignored)| {
            let (patches, ignored) = (patches.into(), ignored.into());
            Policy::EnvoyFilter(EnvoyFilter { selector, priority, has_targets, patches, ignored })
        })
        .boxed()
}
