//! The context of a kubeconfig, and the cluster and user that it names.
//!
//! Vetting reads only these. Other clusters and users are never used and not vetted; what decides the choice must be unambiguous.

use std::collections::BTreeSet;

use tributary_model::Code;

use super::fields::{CONTEXT, Fields, invalid};
use crate::allowed::Allowed;
use crate::refusal::{Faults, Refusal};
use crate::yaml::{Node, line};

/// Part of a kubeconfig with its path.
pub(super) struct Part<'n> {
    pub(super) path: String,
    pub(super) node: &'n Node,
}

/// Cluster and user of the context.
pub(super) struct Selected<'n> {
    pub(super) cluster: Part<'n>,
    pub(super) user: Part<'n>,
}

/// Item of one of the three lists.
struct Named<'n> {
    name: &'n str,
    part: Part<'n>,
}

/// Selects the current context, or the only one.
pub(super) fn select<'n>(root: &Fields<'n>, allowed: &Allowed, faults: &mut Faults) -> Option<Selected<'n>> {
    let contexts = list(root, "contexts", "context", faults);
    let clusters = list(root, "clusters", "cluster", faults);
    let users = list(root, "users", "user", faults);
    let context = current(root, &contexts, faults)?;
    let fields = Fields::read(&context.path, context.node, CONTEXT, allowed, faults);
    let cluster = named(&fields, "cluster", clusters, faults);
    let user = named(&fields, "user", users, faults);
    Some(Selected { cluster: cluster?, user: user? })
}

fn current<'n, 'c>(
    root: &Fields<'n>,
    contexts: &'c [Named<'n>],
    faults: &mut Faults,
) -> Option<&'c Part<'n>> {
    let fault = match (root.text("current-context", faults), contexts) {
        (_, []) => root.invalid("contexts", "is missing", "add a context that names a cluster and a user"),
        (None, [only]) => return Some(&only.part),
        (None, _) => root.invalid(
            "current-context",
            "is missing and there are several contexts",
            "set it, or keep one context",
        ),
        (Some(name), _) => match contexts.iter().find(|context| context.name == name) {
            Some(context) => return Some(&context.part),
            None => {
                root.invalid("current-context", "names no context of the kubeconfig", "write the name of one")
            }
        },
    };
    faults.add(fault);
    None
}

/// Returns the cluster or user that the context names.
fn named<'n>(context: &Fields<'n>, what: &str, all: Vec<Named<'n>>, faults: &mut Faults) -> Option<Part<'n>> {
    let name = context.text(what, faults);
    let found = name.and_then(|name| all.into_iter().find(|one| one.name == name));
    if found.is_none() {
        let why = if name.is_none() { "is missing" } else { "names nothing that the kubeconfig defines" };
        faults.add(context.invalid(what, why, "write the name of one"));
    }
    found.map(|one| one.part)
}

/// Reads one of the lists; `of` is the field beside the name of an item.
fn list<'n>(root: &Fields<'n>, list: &str, of: &str, faults: &mut Faults) -> Vec<Named<'n>> {
    let Some(node) = root.get(list) else { return Vec::new() };
    let Some(items) = node.value.items() else {
        faults.add(root.invalid(list, "is not a list", "write a list of names with their values"));
        return Vec::new();
    };
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for (at, item) in items.iter().enumerate() {
        match entry(&format!("{list}[{at}]"), item, of) {
            Ok(one) if names.insert(one.name) => all.push(one),
            Ok(one) => faults.add(twice(&one)),
            Err(fault) => faults.add(fault),
        }
    }
    all
}

fn twice(one: &Named<'_>) -> Refusal {
    let why = "has the same name as one before it";
    Refusal::new(Code::KUBECONFIG_FIELD_REFUSED, one.part.path.clone(), why, "keep one")
        .at(line(one.part.node))
}

/// Reads an item: a name, and one value.
fn entry<'n>(path: &str, item: &'n Node, of: &str) -> Result<Named<'n>, Refusal> {
    let fault = |why| invalid(path, why, "write a name and its value").at(line(item));
    let entries = item.value.entries().ok_or_else(|| fault("is not a map"))?;
    let other = entries.iter().find(|(key, _)| key.value != "name" && key.value != of);
    if let Some((key, _)) = other {
        return Err(Refusal::new(
            Code::KUBECONFIG_FIELD_REFUSED,
            format!("{path}.{}", crate::refusal::shown_name(&key.value)),
            "is an unknown field",
            "remove it or correct its spelling",
        )
        .at(line(key)));
    }
    let name =
        item.value.get("name").and_then(|node| node.value.text()).ok_or_else(|| fault("has no name"))?;
    let node = item.value.get(of).ok_or_else(|| fault("has no value beside its name"))?;
    Ok(Named { name, part: Part { path: format!("{path}.{of}"), node } })
}
