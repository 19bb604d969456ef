//! Mesh-wide defaults in listeners: a change of settings changes the listeners that read them, and no others.

use envoy_types::pb::envoy::config::listener::v3::{Listener, filter};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::RouteSpecifier;
use tributary_model::{AccessLog, HttpRetries, LogEncoding, RequestTracing, Settings, Shared};

use super::*;

fn mk_sidecar() -> ClientClassKey {
    mk_class(ClientKind::Sidecar, "shop")
}
/// Returns the catalog with other settings, as the next generation. Inputs of services stay the same.
fn mk_with(catalog: &Catalog, settings: Settings) -> Arc<Catalog> {
    let generation = catalog.generation + 1;
    Arc::new(Catalog { settings: Shared::new(settings), generation, ..catalog.clone() })
}
fn mk_listener(answers: &CatalogAnswers, catalog: &Arc<Catalog>, name: &str) -> Listener {
    let (class, kind) = (mk_sidecar(), ResourceType::Listener);
    let found = answers.one(catalog, &class, kind, name).unwrap();
    Listener::decode(answers.bytes(catalog, &class, kind, &found).unwrap()).unwrap()
}
/// Returns the names of the listeners that change for a sidecar.
fn changed(answers: &CatalogAnswers, from: &Arc<Catalog>, to: &Arc<Catalog>) -> Vec<String> {
    let changed = answers.changed(from, to, &mk_sidecar(), ResourceType::Listener);
    assert!(changed.removed.is_empty());
    changed.upserted.iter().map(|e| e.name.to_string()).collect()
}
/// A port without protocol whose virtual address leads to it: its listener has its own table.
fn mk_detected() -> Svc {
    mk_svc("auto.shop").on(&[(8000, Protocol::Unspecified)]).virtual_at(&["10.9.0.9"])
}

#[test]
fn retries_change_the_listeners_that_route_by_themselves() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = world.next(&[mk_svc("pay.shop"), mk_detected()]);
    let retries = HttpRetries { attempts: 7, ..HttpRetries::default() };
    let second = mk_with(&first, Settings { http_retries: Some(retries.into()), ..Settings::default() });
    assert_eq!(changed(&answers, &first, &second), ["10.9.0.9_8000"]);
    let attempts = |catalog| {
        let listener = mk_listener(&answers, catalog, "10.9.0.9_8000");
        let Some(filter::ConfigType::TypedConfig(config)) = &listener.filter_chains[0].filters[0].config_type
        else {
            panic!("no configuration")
        };
        let manager = HttpConnectionManager::decode(&config.value[..]).unwrap();
        let Some(RouteSpecifier::RouteConfig(table)) = manager.route_specifier else {
            panic!("no own table")
        };
        let action = table.virtual_hosts[0].routes[0].action.clone();
        let Some(envoy_types::pb::envoy::config::route::v3::route::Action::Route(action)) = action else {
            panic!("no route")
        };
        action.retry_policy.and_then(|policy| policy.num_retries).map(|number| number.value)
    };
    assert_eq!((attempts(&first), attempts(&second)), (Some(2), Some(7)));
    assert_eq!(changed(&answers, &second, &first), ["10.9.0.9_8000"]);
}

#[test]
fn tracing_changes_the_listeners_with_http_of_sidecars() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = world.next(&[mk_svc("pay.shop"), mk_detected()]);
    let of = |enabled: bool| {
        let tracing = RequestTracing { enabled, ..RequestTracing::default() };
        mk_with(&first, Settings { tracing: Some(tracing.into()), ..Settings::default() })
    };
    assert_eq!(changed(&answers, &first, &of(true)), ["0.0.0.0_80", "10.9.0.9_8000"]);
    assert!(changed(&answers, &first, &of(false)).is_empty());
    let grpc = mk_class(ClientKind::Grpc, "shop");
    assert!(answers.changed(&first, &of(true), &grpc, ResourceType::Listener).is_empty());
    let inbound = |catalog: &Arc<Catalog>| {
        let own = tributary_answer::OwnSide::default();
        let found = answers.private(catalog, &mk_sidecar(), ResourceType::Listener, own);
        found.into_iter().next()
    };
    let tag = b"ISTIO_META_CLUSTER_ID";
    let is_traced = |catalog: &Arc<Catalog>| {
        let listener = inbound(catalog).unwrap();
        listener.body().unwrap().windows(tag.len()).any(|window| window == tag)
    };
    assert_eq!((is_traced(&first), is_traced(&of(true)), is_traced(&of(false))), (false, true, false));
}

#[test]
fn access_log_changes_every_listener_of_sidecars() {
    let (mut world, answers) = (World::default(), CatalogAnswers::default());
    let first = world.next(&[mk_svc("pay.shop"), mk_detected()]);
    let of = |file: &str| {
        let log = AccessLog { file: file.into(), encoding: LogEncoding::Text, format: None };
        mk_with(&first, Settings { access_log: Some(log.into()), ..Settings::default() })
    };
    let all = ["0.0.0.0_80", "10.9.0.9_8000", "virtualOutbound"];
    assert_eq!(changed(&answers, &first, &of("/dev/stdout")), all);
    assert_eq!(changed(&answers, &of("/dev/stdout"), &of("/dev/stderr")), all);
    assert!(changed(&answers, &first, &of("")).is_empty(), "a log needs a file");
    let inbound = |catalog: &Arc<Catalog>| {
        let found = answers.private(
            catalog,
            &mk_sidecar(),
            ResourceType::Listener,
            tributary_answer::OwnSide::default(),
        );
        Listener::decode(found[0].body().unwrap()).unwrap().access_log.len()
    };
    assert_eq!((inbound(&first), inbound(&of("/dev/stdout"))), (0, 1));
    let grpc = mk_class(ClientKind::Grpc, "shop");
    assert!(answers.changed(&first, &of("/dev/stdout"), &grpc, ResourceType::Listener).is_empty());
    for kind in [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Route] {
        assert!(answers.changed(&first, &of("/dev/stdout"), &mk_sidecar(), kind).is_empty(), "{kind:?}");
    }
}
