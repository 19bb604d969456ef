//! Resources that a client was sent, decoded on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::to_raw_value;
use tributary_answer::{AppliedRule, ClusterName, applied_rules, lost_destination, named, resolve};
use tributary_descriptors::Decoder;
use tributary_model::{Catalog, PolicyKey};
use tributary_xds::answers::{ResourceType, empty_assignment};
use tributary_xds::session::{ResourceState, SentResource, SentView};

use super::routing_rules::RoutingRules;
use super::sessions::{Found, MAX_DECODED, Sessions};
use crate::admin::backend::Answer;
use crate::document::{Filter, ObjectItem, ResourceItem, short_name};

/// Request for the resources of a client.
#[derive(Debug, Clone, Default)]
pub struct ResourceRequest {
    /// Node id, connection or `pod.namespace`.
    pub client: String,
    /// Only this type.
    pub kind: Option<ResourceType>,
    /// Only the resource of this name.
    pub name: Option<String>,
    /// Only resources of this host.
    pub host: Option<String>,
    /// Whether to decode the resources.
    pub bodies: bool,
}

/// Resources, or the reason why there are none.
pub type Resources = Result<Answer<ResourceItem>, String>;

/// Returns the resources of a client, by type and name.
pub fn list(catalog: &Arc<Catalog>, sessions: &Sessions, request: &ResourceRequest) -> Resources {
    let found = sessions.find(catalog, &request.client)?;
    let namespace = found.client.class.namespace.as_ref().map(|namespace| namespace.as_str());
    let host = request.host.as_deref().map(|host| short_name::host(catalog, host, namespace)).transpose()?;
    let (mut items, mut more, mut notes) = (Vec::new(), 0, Vec::from_iter(found.note.clone()));
    let mut bodies = if request.bodies { Bodies::new(MAX_DECODED)? } else { Bodies::none() };
    let mut routing = RoutingRules::new(catalog, &found);
    for (view, all) in found.sent_resources(catalog, request.kind) {
        let wanted = |name: &str| {
            request.name.as_deref().is_none_or(|only| only == name)
                && host.as_deref().is_none_or(|host| view.is_of_host(name, host))
        };
        notes.extend(removals(catalog, &view, wanted));
        for resource in all.iter().filter(|resource| wanted(&resource.name)) {
            if items.len() >= Filter::MAX {
                more += 1;
                continue;
            }
            let (mut rules, note) = rules(catalog, &found, resource);
            rules.extend(routing.rules(&view, resource).iter().map(|key| object_of(catalog, key)));
            rules.extend(filters(catalog, &view, resource));
            let note = of_state(resource.state).map_or(note, str::to_owned);
            let item = ResourceItem { rules, note, ..item(resource) };
            items.push(bodies.add(&view, resource, item));
        }
    }
    Ok(Answer { items, more, notes })
}

/// Returns which EnvoyFilters removed resources of a type, one note for each.
fn removals(catalog: &Arc<Catalog>, view: &SentView, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut all: BTreeMap<PolicyKey, Vec<Arc<str>>> = BTreeMap::new();
    for (name, by) in view.removed(catalog).into_iter().filter(|(name, _)| wanted(name)) {
        all.entry(by).or_default().push(name);
    }
    let kind = view.kind().as_str().to_uppercase();
    let note = |(by, names): (PolicyKey, Vec<Arc<str>>)| {
        let names = named(names.iter().map(|name| &**name));
        format!("{by} removes {kind} {names} from what the client is sent")
    };
    all.into_iter().map(note).collect()
}

fn item(resource: &SentResource) -> ResourceItem {
    ResourceItem {
        kind: resource.kind.as_str().to_uppercase(),
        name: resource.name.to_string(),
        version: resource.version.map(|version| version.to_string()).unwrap_or_default(),
        state: resource.state.as_str().to_owned(),
        error: resource.error.as_ref().map(ToString::to_string).unwrap_or_default(),
        bytes: resource.len(),
        note: String::new(),
        rules: Vec::new(),
        body: None,
    }
}

/// Returns what a state means that its name alone does not explain.
const fn of_state(state: ResourceState) -> Option<&'static str> {
    match state {
        ResourceState::Unconfirmed => Some(
            "in a response that the client rejected because of another resource; clients mostly use the rest",
        ),
        ResourceState::Kept => Some("removed; the client keeps it until it accepts its listeners and routes"),
        ResourceState::Sent(_) | ResourceState::Absent | ResourceState::HeldBack => None,
    }
}

/// Returns the DestinationRules that apply to the client of an xDS cluster or its endpoints, and why it is absent or a subset has
/// nothing.
fn rules(catalog: &Catalog, found: &Found, resource: &SentResource) -> (Vec<ObjectItem>, String) {
    if !matches!(resource.kind, ResourceType::Cluster | ResourceType::Endpoints) {
        return (Vec::new(), String::new());
    }
    let Ok(name) = resource.name.parse::<ClusterName>() else {
        return (Vec::new(), String::new());
    };
    let class = &found.client.class;
    let view = resolve(catalog, name.host.as_str(), class.scope(), &mut ());
    let port = view.and_then(|view| view.port(name.port));
    let of = |port| applied_rules(catalog, port, class.namespace.as_ref(), name.subset.as_ref());
    let applied: Vec<AppliedRule<'_>> = port.map(of).unwrap_or_default();
    let rules = applied.iter().map(|rule| ObjectItem::from(&rule.view.declared.source)).collect();
    let is_empty = resource.version.is_none_or(|held| held == empty_assignment(&resource.name).version);
    let why = || match view {
        None => format!("the client sees no service {}", name.host),
        Some(_) if port.is_none() => format!("{} has no port {}", name.host, name.port),
        Some(_) => why_empty(catalog, found, resource, &name),
    };
    (rules, if is_empty { why() } else { String::new() })
}

/// Returns why an xDS cluster of an existing port is absent, or the endpoints of its subset are none.
fn why_empty(catalog: &Catalog, found: &Found, resource: &SentResource, name: &ClusterName) -> String {
    let is_absent = resource.kind == ResourceType::Cluster && resource.state == ResourceState::Absent;
    let why = lost_destination(catalog, name, &found.client).map(|(_, why)| why);
    match why.filter(|_| is_absent || name.subset.is_some()) {
        Some(why) => why,
        None if is_absent => "tributary why-not names the reason".to_owned(),
        None => String::new(),
    }
}

/// Returns the EnvoyFilters that changed or added a resource.
fn filters(catalog: &Catalog, view: &SentView, resource: &SentResource) -> Vec<ObjectItem> {
    view.patched_by(resource).iter().map(|key| object_of(catalog, key)).collect()
}

/// Describes a policy, with its position if it is known.
pub(super) fn object_of(catalog: &Catalog, key: &PolicyKey) -> ObjectItem {
    match catalog.policies.get(key) {
        Some(known) => ObjectItem::from(&known.declared.source),
        None => ObjectItem::of_policy(key),
    }
}

/// Decodes bodies within a bound.
struct Bodies {
    decoder: Option<Decoder>,
    left: usize,
}

impl Bodies {
    const fn none() -> Self {
        Self { decoder: None, left: 0 }
    }
    fn new(left: usize) -> Result<Self, String> {
        let decoder = Decoder::new().map_err(|error| format!("the descriptors cannot be read: {error}"))?;
        Ok(Self { decoder: Some(decoder), left })
    }
    fn add(&mut self, view: &SentView, resource: &SentResource, mut item: ResourceItem) -> ResourceItem {
        if self.decoder.is_some() && resource.version.is_some() {
            match self.body(view, resource) {
                Ok(body) => item.body = Some(body),
                Err(why) => item.note = why,
            }
        }
        item
    }
    fn body(
        &mut self,
        view: &SentView,
        resource: &SentResource,
    ) -> Result<Box<serde_json::value::RawValue>, String> {
        let gone = "the server no longer holds this version; the client is about to receive another";
        let (Some(decoder), Some(body)) = (&self.decoder, view.body(resource)) else {
            return Err(gone.to_owned());
        };
        let full = || {
            format!(
                "left out: {} MiB are decoded at most; give --type, --resource or --host",
                MAX_DECODED >> 20
            )
        };
        // the text of a message is longer than the message, with few exceptions
        if body.len() > self.left {
            return Err(full());
        }
        let decoded = to_raw_value(&decoder.decode(resource.kind.type_url(), &body));
        let decoded = decoded.map_err(|error| format!("cannot be written: {error}"))?;
        let length = decoded.get().len();
        if length > self.left {
            return Err(full());
        }
        self.left -= length;
        Ok(decoded)
    }
}
