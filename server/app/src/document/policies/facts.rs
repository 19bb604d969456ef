//! Conditions of policies by what connected clients were sent and reject.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tributary_model::{ClientKind, Code, Condition, PolicyKey, PolicyView};

use super::{PolicyFacts, RejectedPatch};

/// Most patches of a filter that are named.
const NAMED: usize = 8;
/// Most rejected resources that are named.
const NAMED_RESOURCES: usize = 5;

impl PolicyFacts {
    /// Returns the conditions of a policy.
    pub(super) fn conditions<'f>(
        &'f self,
        key: &'f PolicyKey,
        view: &'f PolicyView,
    ) -> impl Iterator<Item = Condition> + 'f {
        self.rejected(key, view).into_iter().chain(self.left_out(key, view)).chain(self.unused(key, view))
    }
    /// Returns the condition of an EnvoyFilter that changed a resource which clients reject, or of a DestinationRule with files
    /// that they reject.
    fn rejected(&self, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
        let RejectedPatch { clients, resources, filters, is_suspected } = self.rejected_patches.get(key)?;
        let whose = match (*clients, is_suspected) {
            (1, false) => "a client rejects".to_owned(),
            (clients, false) => format!("{clients} clients reject"),
            (1, true) => "a client may reject".to_owned(),
            (clients, true) => format!("{clients} clients may reject"),
        };
        let beside = match filters.saturating_sub(1) {
            0 => String::new(),
            1 => " with another filter".to_owned(),
            others => format!(" with {others} other filters"),
        };
        let what = match view.destination_rule() {
            Some(_) => "files that it names".to_owned(),
            None => format!("what it changes{beside}"),
        };
        let message = format!("{whose} {what}: {}", rejected(resources)).into();
        Some(Condition { code: Code::NACKED, objects: [view.declared.source.reference()].into(), message })
    }
    /// Returns the condition of an EnvoyFilter with patches that were left out of resources.
    fn left_out(&self, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
        let of_filter = self.refused_patches.get(key).filter(|_| view.envoy_filter().is_some())?;
        let shown = of_filter.iter().take(NAMED).map(|(at, (kind, name, rule))| {
            let resource = format!("{} {name}", kind.as_str().to_uppercase());
            format!("spec.configPatches[{at}] ({resource}: {rule})")
        });
        let (shown, tail) = (shown.collect::<Vec<_>>().join(", "), tail(of_filter.len()));
        let message = format!("left out of parts that Envoy would refuse: {shown}{tail}").into();
        let objects = [view.declared.source.reference()].into();
        Some(Condition { code: Code::PATCH_LEFT_OUT, objects, message })
    }
    /// Returns the condition of an EnvoyFilter with patches that changed nothing for the connected sidecars.
    fn unused(&self, key: &PolicyKey, view: &PolicyView) -> Option<Condition> {
        let filter = view.envoy_filter()?;
        self.clients.iter().find(|client| client.kind == ClientKind::Sidecar)?;
        let (used, unserved) = (self.used_patches.get(key), filter.not_served().map(|(at, _)| at));
        let unserved: BTreeSet<usize> = unserved.collect();
        let left_out = self.refused_patches.get(key);
        let is_used = |at: &usize| {
            let is_left_out = left_out.is_some_and(|all| all.contains_key(at));
            is_left_out || unserved.contains(at) || used.is_some_and(|used| used.contains(at))
        };
        let unused: Vec<usize> = (0..filter.patches.len()).filter(|at| !is_used(at)).collect();
        let paths: Vec<String> =
            unused.iter().take(NAMED).map(|at| format!("spec.configPatches[{at}]")).collect();
        let tail = tail(unused.len());
        (!unused.is_empty()).then(|| Condition {
            code: Code::PATCH_UNUSED,
            objects: [view.declared.source.reference()].into(),
            message: format!("no connected client was sent what these change: {}{tail}", paths.join(", "))
                .into(),
        })
    }
}

/// Lists rejected resources with the error texts of clients, a text of several once.
fn rejected(resources: &BTreeMap<String, Arc<str>>) -> String {
    let mut by_text: Vec<(&str, Vec<&str>)> = Vec::new();
    for (resource, text) in resources.iter().take(NAMED_RESOURCES) {
        match by_text.iter_mut().find(|(known, _)| **known == **text) {
            Some((_, all)) => all.push(resource),
            None => by_text.push((text, vec![resource])),
        }
    }
    let parts = by_text.iter().map(|(text, all)| format!("{}: {text}", all.join(", ")));
    let more = match resources.len().saturating_sub(NAMED_RESOURCES) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    parts.collect::<Vec<_>>().join("; ") + &more
}

/// Returns the end of a list of patches of which some are not named.
fn tail(patches: usize) -> String {
    match patches.saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{EnvoyFilter, Namespace, ObjectId, Policy, PolicyKind};
    use tributary_xds::answers::ResourceType;

    use super::super::tests::mk_view;
    use super::*;

    #[test]
    fn rejected_resources_are_listed_with_their_texts() {
        let text = |count: usize, text: &dyn Fn(usize) -> String| {
            let all = (0..count).map(|at| (format!("CDS {at}"), text(at).into())).collect();
            rejected(&all)
        };
        assert_eq!(text(1, &|_| "bad".to_owned()), "CDS 0: bad");
        assert_eq!(text(2, &|_| "bad".to_owned()), "CDS 0, CDS 1: bad");
        assert_eq!(text(2, &|at| format!("bad {at}")), "CDS 0: bad 0; CDS 1: bad 1");
        assert_eq!(text(7, &|_| "bad".to_owned()), "CDS 0, CDS 1, CDS 2, CDS 3, CDS 4: bad; and 2 more");
    }

    #[test]
    fn patch_that_was_left_out_is_shown_with_its_rule() {
        let (kind, namespace) = (PolicyKind::EnvoyFilter, Namespace::new("shop").unwrap());
        let key = PolicyKey { kind, namespace, name: "a".into() };
        let id = ObjectId::new(kind.as_str(), "shop", "a");
        let view = mk_view(&id, Policy::EnvoyFilter(EnvoyFilter::default()));
        let one = (ResourceType::Route, "18080".into(), "route needs one of the fields cluster".into());
        let facts = PolicyFacts {
            refused_patches: [(key.clone(), BTreeMap::from([(2, one)]))].into(),
            ..PolicyFacts::default()
        };
        let shown: Vec<_> = facts.conditions(&key, &view).map(|of| (of.code, of.message)).collect();
        let message = "left out of parts that Envoy would refuse: \
                       spec.configPatches[2] (RDS 18080: route needs one of the fields cluster)";
        assert_eq!(shown, [(Code::PATCH_LEFT_OUT, message.into())]);
    }
}
