//! Clusters that follow the mesh configuration of the config cluster.

use tributary_kube_client::Event;
use tributary_model::*;

use super::context::{SHOP_ONLY, follow, mk_mesh, mk_shop, team, updates};
use crate::Index;
use crate::fixtures::*;
use crate::kind::{Kind, Name};
use crate::options::Options;
use crate::project::Object;

const WEB_ONLY: &str = "discoverySelectors: [{matchLabels: {team: web}}]";

/// Builds a remote cluster with these objects, in which all kinds have listed.
fn mk_remote(options: Options, objects: Vec<Object>) -> Index {
    let mut index = Index::new(Options { is_config: false, follows_mesh: true, ..options });
    objects.into_iter().for_each(|object| index.apply_put(object));
    list_all(&mut index);
    index
}
fn puts(index: &mut Index) -> usize {
    updates(index).iter().filter(|text| text.starts_with("put")).count()
}

#[test]
fn nothing_is_published_before_the_mesh_configuration_is_known() {
    let mut index = mk_remote(mk_options(), mk_shop());
    let texts = updates(&mut index);
    assert!(
        texts.iter().all(|text| text.starts_with("required") || text.starts_with("restart")),
        "{texts:?}"
    );
    assert!(index.objects().waits_for_mesh() && index.cluster_context().is_none());
    follow(&mut index, &mk_mesh("", ""));
    assert_eq!(puts(&mut index), 3);
    assert!(index.cluster_context().is_some());
}

#[test]
fn selectors_are_those_of_the_config_cluster() {
    let mut index = mk_remote(mk_options(), mk_shop());
    index.apply_put(mk_mesh(WEB_ONLY, ""));
    follow(&mut index, &mk_mesh(SHOP_ONLY, ""));
    assert_eq!(puts(&mut index), 3, "its own select nothing");
    follow(&mut index, &mk_mesh(WEB_ONLY, ""));
    let by = "changed ConfigMap tributary-system/istio";
    assert_eq!(updates(&mut index).iter().filter(|text| text.ends_with(by)).count(), 3);
    index.apply_put(team("web"));
    assert_eq!(puts(&mut index), 3);
    index.apply_put(mk_mesh(SHOP_ONLY, ""));
    assert_eq!(updates(&mut index), [""; 0]);
}

#[test]
fn networks_are_those_of_the_config_cluster() {
    let mut index = mk_remote(mk_options(), mk_shop());
    index.apply_put(mk_mesh("", "networks: {own: {endpoints: [{fromRegistry: c1}]}}"));
    let networks = "networks: {east: {endpoints: [{fromRegistry: c1}]}}";
    follow(&mut index, &mk_mesh("", networks));
    let own = index.objects().networks().own().unwrap();
    assert_eq!(own.network.as_str(), "east");
    assert_eq!(&*own.origin, "meshNetworks of ConfigMap tributary-system/istio of the config cluster");
}

#[test]
fn own_trust_domain_precedes_that_of_the_file_and_of_the_config_cluster() {
    for (own, file, home, want) in [
        ("own.test", Some("file.test"), "home.test", "own.test"),
        ("", Some("file.test"), "home.test", "file.test"),
        ("", None, "home.test", "home.test"),
        ("", None, "", "cluster.local"),
    ] {
        let text = |domain: &str| match domain {
            "" => String::new(),
            domain => format!("trustDomain: {domain}"),
        };
        let options = Options { trust_domain: file.map(Into::into), ..mk_options() };
        let mut index = mk_remote(options, Vec::new());
        index.apply_put(mk_mesh(&text(own), ""));
        follow(&mut index, &mk_mesh(&text(home), ""));
        assert_eq!(index.objects().trust_domain(), want);
        index.apply_delete(Kind::MeshConfig, Name::new("tributary-system", "istio"));
        let rest = file.or_else(|| Some(home).filter(|home| !home.is_empty())).unwrap_or("cluster.local");
        assert_eq!(index.objects().trust_domain(), rest, "without its own");
    }
}

#[test]
fn own_configuration_that_may_not_be_read_withholds_nothing_else() {
    let mut index = Index::new(Options { is_config: false, follows_mesh: true, ..mk_options() });
    mk_shop().into_iter().for_each(|object| index.apply_put(object));
    for scope in mk_options().watch_scopes() {
        let forbidden = Withheld { cause: WithheldCause::Forbidden, why: "403".into() };
        let event =
            if scope.kind == Kind::MeshConfig { Event::Unavailable(forbidden) } else { Event::InitDone };
        index.apply(&scope, event);
    }
    follow(&mut index, &mk_mesh("trustDomain: home.test", ""));
    let texts = updates(&mut index);
    assert_eq!(texts.iter().filter(|text| text.starts_with("put")).count(), 3, "{texts:?}");
    assert!(texts.contains(&"synced Services".to_owned()), "{texts:?}");
    let is_of_mesh = |text: &String| text.starts_with("withheld") || text.contains("configmaps");
    assert!(!texts.iter().any(is_of_mesh), "a follower reports no mesh configuration: {texts:?}");
    assert!(index.cluster_context().is_some(), "the other registry of the cluster waits for it");
    assert_eq!(index.objects().trust_domain(), "home.test");
}

#[test]
fn settings_carry_the_last_valid_documents_for_a_restart() {
    let text = |index: &mut Index| {
        index.flush().into_iter().find_map(|update| match update {
            RegistryUpdate::Put(_, Fact::Settings(settings), _) => settings.mesh_text.clone(),
            _ => None,
        })
    };
    let mut index = Index::new(mk_options());
    list_all(&mut index);
    assert_eq!(text(&mut index), Some(std::sync::Arc::default()), "an absent one is known");
    index.apply_put(mk_mesh(SHOP_ONLY, "networks: {}"));
    let written = text(&mut index).unwrap();
    assert_eq!((&*written.mesh, &*written.networks), (SHOP_ONLY, "networks: {}"));
    index.apply_put(mk_mesh("discoverySelectors: 5\nconnectTimeout: 2s", ""));
    assert_eq!(text(&mut index), Some(written));
}

#[test]
fn config_cluster_offers_its_configuration_once_it_is_known() {
    let mut index = Index::new(mk_options());
    index.apply_put(mk_mesh(SHOP_ONLY, ""));
    index.flush();
    assert_eq!(index.mesh_for_others(), None);
    list_all(&mut index);
    index.flush();
    assert_eq!(index.mesh_for_others(), Some(index.objects().mesh()));
    let mut absent = Index::new(mk_options());
    list_all(&mut absent);
    absent.flush();
    assert_eq!(
        absent.mesh_for_others(),
        Some(&crate::mesh::Mesh::default()),
        "an absent one has the defaults"
    );
}
