//! Patches of xDS clusters.

use prost_reflect::{DynamicMessage, Value};
use tributary_answer::names;
use tributary_descriptors::encode;
use tributary_model::{ApplyTo, ClusterMatch, ObjectMatch, Operation};

use super::message::{Merged, child, child_mut, list, merge_config, merge_valid, set_text, text};
use super::{Added, Outcome, Patch, Patches, Side};

const SOCKET: &str = "transport_socket";
const MATCHES: &str = "transport_socket_matches";

/// Parts of the name of an xDS cluster.
#[derive(Debug, Clone, Copy)]
struct Named<'n> {
    name: &'n str,
    side: Side,
    host: &'n str,
    subset: &'n str,
    port: Option<u32>,
}

impl<'n> Named<'n> {
    fn new(name: &'n str) -> Self {
        let mut parts = name.splitn(4, '|');
        let mut next = || parts.next().unwrap_or_default();
        let (direction, port, subset, host) = (next(), next(), next(), next());
        let is_inbound = direction == "inbound" || name == names::INBOUND_PASSTHROUGH;
        let side = if is_inbound { Side::Inbound } else { Side::Outbound };
        Self { name, side, host, subset, port: port.parse().ok() }
    }
    fn is(&self, object: &ObjectMatch) -> bool {
        match object {
            ObjectMatch::Cluster(ClusterMatch { name: Some(name), .. }) => **name == *self.name,
            ObjectMatch::Cluster(of) => {
                of.subset.as_deref().is_none_or(|subset| subset == self.subset)
                    && of.service.as_deref().is_none_or(|host| host == self.host)
                    && of.port.is_none_or(|port| Some(port) == self.port)
            }
            ObjectMatch::All => true,
            ObjectMatch::Listener(_) | ObjectMatch::Routes(_) => false,
        }
    }
}

impl Patches {
    /// Applies the patches to an xDS cluster.
    #[must_use]
    pub fn cluster(&self, name: &str, body: &[u8]) -> Outcome {
        let mut matching = self.of_cluster(Named::new(name)).peekable();
        if matching.peek().is_none() {
            return Outcome::Same;
        }
        let Some(mut cluster) = self.types.decode(ApplyTo::Cluster.message(), body) else {
            return Outcome::Same;
        };
        let mut changed = false;
        for patch in matching {
            match (patch.of.operation, &patch.value) {
                (Operation::Remove, _) => {
                    patch.apply();
                    return Outcome::Removed;
                }
                (Operation::Merge, Some(value)) => {
                    changed |= patch.take(self.merge_cluster(&mut cluster, value));
                }
                _ => {}
            }
        }
        if !changed {
            return Outcome::Same;
        }
        set_text(&mut cluster, "name", name);
        Outcome::Changed(encode(&cluster))
    }
    /// Whether a patch matches an xDS cluster.
    #[must_use]
    pub fn may_change_cluster(&self, name: &str) -> bool {
        self.of_cluster(Named::new(name)).next().is_some()
    }
    /// Iterates over the patches that change or remove an xDS cluster.
    fn of_cluster(&self, named: Named<'_>) -> impl Iterator<Item = &Patch> {
        let changes = |patch: &&Patch| matches!(patch.of.operation, Operation::Merge | Operation::Remove);
        self.of(ApplyTo::Cluster, named.side).filter(changes).filter(move |patch| named.is(&patch.of.object))
    }
    /// Returns the xDS clusters that are added.
    #[must_use]
    pub fn added_clusters(&self) -> Vec<Added> {
        self.added(ApplyTo::Cluster)
    }
    /// A socket is merged into that of the same name, or replaces another one; nothing else of such a patch counts.
    fn merge_cluster(&self, cluster: &mut DynamicMessage, value: &DynamicMessage) -> Merged {
        let Some(socket) = child(value, SOCKET) else {
            return merge_valid(self.types, cluster, value);
        };
        let name = text(socket, "name");
        if !list(cluster, MATCHES).is_empty() {
            let Some(Value::List(items)) = cluster.get_field_by_name_mut(MATCHES) else { return Ok(false) };
            let sockets = items.iter_mut().filter_map(|item| child_mut(item.as_message_mut()?, SOCKET));
            let mut same = sockets.filter(|own| text(own, "name") == name);
            return same.next().map_or(Ok(false), |own| merge_config(self.types, own, socket));
        }
        if let Some(own) = child_mut(cluster, SOCKET).filter(|own| text(own, "name") == name) {
            return merge_config(self.types, own, socket);
        }
        self.types.check_message(socket)?;
        cluster.set_field_by_name(SOCKET, Value::Message(socket.clone()));
        Ok(true)
    }
}
