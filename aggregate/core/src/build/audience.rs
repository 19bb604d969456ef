//! Builds a service for the clients that see only some of its declarations: its ports, addresses and resolution come
//! from those.
//!
//! Called by the build before it assembles the view of all declarations. There is at most one such view for each
//! namespace that a declaration names, one for the service's own namespace, and one for all others.

use std::collections::BTreeMap;

use tributary_model::{AudienceView, DeclarationView, Namespace, Visibility};

use crate::build::assemble::{Kept, assemble};
use crate::merge::{Merged, merge_visible};
use crate::state::MergeContext;
use crate::state::services::{Hosts, Service};

/// Returns a view for each set of declarations that some clients see, but neither all nor none.
pub(crate) fn audience_views(
    context: &MergeContext,
    hosts: &Hosts,
    service: &Service,
    merged: &Merged,
    kept: &mut Kept<'_>,
) -> Vec<AudienceView> {
    let old = service.view.as_ref().map(|view| &*view.audiences).unwrap_or_default();
    let build = |(visible, namespace): (Vec<bool>, Option<&Namespace>)| {
        let before = old.iter().find(|audience| *audience.visible == *visible).map(|audience| &audience.view);
        let merged = merge_visible(context, service, namespace)?;
        let view = assemble(context, hosts, &service.key, merged, before, kept)?;
        Some(AudienceView { visible: visible.into(), view })
    };
    client_groups(&service.key.namespace, &merged.declarations).into_iter().filter_map(build).collect()
}

/// Returns, by which declarations they see, a namespace of each group of clients that see some of them; `None` stands
/// for a client without a namespace.
fn client_groups<'d>(
    own: &'d Namespace,
    declarations: &'d [DeclarationView],
) -> BTreeMap<Vec<bool>, Option<&'d Namespace>> {
    if declarations.windows(2).all(|pair| pair[0].visibility == pair[1].visibility) {
        return BTreeMap::new();
    }
    let named = declarations.iter().flat_map(|declaration| match &declaration.visibility {
        Visibility::Namespaces(list) => &list[..],
        Visibility::Public | Visibility::Own | Visibility::Hidden => &[],
    });
    let clients = named.chain([own]).map(Some).chain([None]);
    let sees = |client| declarations.iter().map(|d| d.visibility.admits(own, client)).collect::<Vec<bool>>();
    let mut out: BTreeMap<_, _> = clients.map(|client| (sees(client), client)).collect();
    out.retain(|visible, _| visible.contains(&true) && visible.contains(&false));
    out
}
