//! Results of each collection as watches list, are refused and are confirmed.

use tributary_model::{CollectionKind, Withheld};

use super::*;
use crate::fixtures::mk_options;
use crate::options::Mcs;

/// Formats results and confirmations as `scope/Kind result`.
fn ended(sync: &mut Sync) -> Vec<String> {
    sync.begun();
    let name = |c: &Collection| format!("{}/{:?}", c.scope, c.kind);
    let text = |update: &RegistryUpdate| match update {
        RegistryUpdate::ListEnded(collection, how) => format!("{} {how:?}", name(collection)),
        RegistryUpdate::Withheld(collection, why) => {
            format!("{} {:?}: {}", name(collection), why.cause, why.why)
        }
        RegistryUpdate::Progress(collection) => format!("{} confirmed", name(collection)),
        RegistryUpdate::Follows { optional, .. } => {
            format!("optional {}", optional.iter().map(name).collect::<Vec<_>>().join(" "))
        }
        other => panic!("{other:?}"),
    };
    sync.end().iter().map(text).collect()
}
fn results(sync: &mut Sync) -> Vec<String> {
    let mut texts = ended(sync);
    texts.retain(|text| !text.ends_with("confirmed") && !text.starts_with("optional"));
    texts
}
fn confirmed(sync: &mut Sync) -> usize {
    ended(sync).iter().filter(|text| text.ends_with("confirmed")).count()
}
fn mk_listed(options: &Options, but: Kind) -> Sync {
    let mut sync = Sync::new(options);
    options.watch_scopes().iter().filter(|scope| scope.kind != but).for_each(|scope| sync.listed(scope));
    sync
}
fn scope(options: &Options, kind: Kind) -> WatchScope {
    options.watch_scopes().into_iter().find(|scope| scope.kind == kind).unwrap()
}

#[test]
fn withheld_kind_withholds_only_its_own_collections() {
    let mcs = Mcs { discovery: true, host: true, ..Mcs::default() };
    let options = Options { mcs, ..mk_options() };
    let table: [(Kind, &[&str]); 9] = [
        (Kind::Gateway, &["gateways/Gateways"]),
        (Kind::Import, &["serviceimports/Services"]),
        (Kind::Export, &["serviceexports/Services", "serviceexports/Groups"]),
        (Kind::Slice, &["cluster/Groups", "serviceexports/Groups"]),
        (Kind::Pod, &["cluster/Workloads"]),
        (Kind::Service, &["cluster/Services", "cluster/Gateways", "serviceexports/Services"]),
        (Kind::Node, &[]),
        (Kind::Namespace, &[]),
        (Kind::MeshConfig, &["configmaps/Settings", "configmaps/Gateways"]),
    ];
    for (kind, collections) in table {
        let mut sync = mk_listed(&options, kind);
        sync.withheld(&scope(&options, kind), Withheld::forbidden("403"));
        let texts = results(&mut sync);
        let withheld: Vec<&str> =
            texts.iter().filter_map(|text| text.strip_suffix(" Forbidden: 403")).collect();
        assert_eq!(withheld, collections, "{kind:?}");
        assert_eq!(texts.len(), Listing::ALL.len(), "{kind:?}: every collection has a result: {texts:?}");
        assert_eq!(results(&mut sync), [""; 0], "{kind:?} is reported once");
        sync.listed(&scope(&options, kind));
        let back: Vec<String> = collections.iter().map(|one| format!("{one} Complete")).collect();
        assert_eq!(results(&mut sync), back, "{kind:?}");
    }
}

#[test]
fn withheld_kind_resumes_without_a_list() {
    let options = mk_options();
    let mut sync = mk_listed(&options, Kind::Gateway);
    let gateways = scope(&options, Kind::Gateway);
    sync.listed(&gateways);
    results(&mut sync);
    sync.withheld(&gateways, Withheld::failing("500"));
    assert_eq!(results(&mut sync), ["gateways/Gateways Failing: 500"]);
    sync.withheld(&gateways, Withheld::forbidden("403"));
    assert_eq!(results(&mut sync), ["gateways/Gateways Forbidden: 403"], "a changed reason is reported");
    sync.resumed(&gateways);
    assert_eq!(results(&mut sync), ["gateways/Gateways Complete"]);
}

#[test]
fn withheld_kind_delays_no_confirmation_of_others() {
    let options = mk_options();
    let mut sync = mk_listed(&options, Kind::Pod);
    sync.withheld(&scope(&options, Kind::Pod), Withheld::forbidden("403"));
    ended(&mut sync);
    let others: Vec<WatchScope> =
        options.watch_scopes().into_iter().filter(|scope| scope.kind != Kind::Pod).collect();
    others.iter().for_each(|scope| sync.confirmed(scope));
    let texts = ended(&mut sync);
    assert_eq!(texts.len(), options.listings().count() - 1, "{texts:?}");
    assert!(!texts.contains(&"cluster/Workloads confirmed".to_owned()), "{texts:?}");
    assert_eq!(confirmed(&mut sync), 0, "one confirmation per round");
}

#[test]
fn everything_is_held_back_and_released() {
    let options = mk_options();
    let mut sync = mk_listed(&options, Kind::MeshConfig);
    sync.withheld(&scope(&options, Kind::MeshConfig), Withheld::forbidden("403"));
    sync.hold_back(Some(Withheld::forbidden("configmaps")));
    let texts = results(&mut sync);
    assert_eq!(texts.len(), options.listings().count());
    assert!(texts.iter().all(|text| text.ends_with("Forbidden: configmaps")), "{texts:?}");
    assert!(!sync.is_ready(Listing::SERVICES) && !sync.has_begun());
    sync.listed(&scope(&options, Kind::MeshConfig));
    sync.hold_back(None);
    assert!(results(&mut sync).iter().all(|text| text.ends_with("Complete")));
}

#[test]
fn outputs_are_in_doubt_while_a_deciding_kind_is_withheld() {
    let options = Options { mcs: Mcs { discovery: true, ..Mcs::default() }, ..mk_options() };
    let name = || Name::new("shop", "pay");
    let of = |kind: Kind, is_known: bool, output: &DerivedKey, lacks: Option<Kind>| {
        let mut sync = mk_listed(&options, kind);
        if is_known {
            sync.listed(&scope(&options, kind));
        }
        sync.withheld(&scope(&options, kind), Withheld::forbidden("403"));
        sync.doubt(output, lacks.map(|kind| (kind, name())).as_ref()).is_some()
    };
    let (group, workload, service) =
        (DerivedKey::Group(name()), DerivedKey::Workload(name()), DerivedKey::Service(name()));
    assert!(of(Kind::Slice, true, &group, None), "slices may list more");
    assert!(of(Kind::Pod, true, &group, Some(Kind::Pod)));
    assert!(!of(Kind::Pod, true, &group, None), "all of its pods are known");
    assert!(!of(Kind::Node, false, &group, None), "nodes decide attributes only");
    assert!(of(Kind::Export, false, &service, Some(Kind::Export)));
    assert!(!of(Kind::Export, false, &service, None));
    assert!(of(Kind::Slice, false, &workload, None) && !of(Kind::Slice, true, &workload, None));
    assert!(!of(Kind::Gateway, false, &group, Some(Kind::Pod)), "a deleted pod is known to be deleted");
}

#[test]
fn collection_kinds_are_reported_by_some_part() {
    let kinds: BTreeSet<CollectionKind> = Listing::ALL.into_iter().map(|listing| listing.kind).collect();
    assert_eq!(kinds.len(), 5);
}

#[test]
fn withheld_optional_collections_are_not_waited_for() {
    let options = mk_options();
    let mut sync = mk_listed(&options, Kind::Gateway);
    let gateways = scope(&options, Kind::Gateway);
    sync.withheld(&gateways, Withheld::forbidden("403"));
    let follows = |texts: Vec<String>| texts.into_iter().find(|text| text.starts_with("optional"));
    assert_eq!(follows(ended(&mut sync)).as_deref(), Some("optional gateways/Gateways"));
    sync.withheld(&scope(&options, Kind::Slice), Withheld::forbidden("403"));
    assert_eq!(follows(ended(&mut sync)), None, "slices are required");
    sync.listed(&gateways);
    assert_eq!(follows(ended(&mut sync)).as_deref(), Some("optional "));
}
