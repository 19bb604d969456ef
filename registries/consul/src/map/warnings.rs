//! Warnings about instances that are served in spite of a fault, or excluded on purpose: one line for each kind, with
//! the first few names.

use std::collections::BTreeMap;

use tributary_model::{Code, DeclarationWarning};

use super::address::InstanceAddress;
use super::instance::{ExclusionReason, Instance, InstanceId};

/// Number of instances that one warning names.
const NAMED: usize = 3;

type Test = fn(&Instance) -> bool;

const TABLE: [(Code, &str, Test); 7] = [
    (Code::MIRRORED, "copied from a cluster that is watched directly, and therefore excluded", |i| {
        i.reach == Err(ExclusionReason::Mirror)
    }),
    (
        Code::META_NOT_UNDERSTOOD,
        "with an invalid port, or an invalid port number or protocol in Meta",
        |i| matches!(&i.reach, Ok((_, ports)) if ports.unclear),
    ),
    (Code::UNKNOWN_CHECK, "with a check of unknown status", |i| i.flags.odd_check),
    (Code::LABELS_DROPPED, "with dropped labels: their keys are invalid or become equal", |i| {
        i.flags.labels_dropped
    }),
    (
        Code::MESH_SERVICE,
        "that are Connect native: they may accept only the mesh's TLS, and are served without it",
        |i| i.flags.native,
    ),
    (Code::NAMED_INSTANCES, "with a DNS name as address, which clients resolve", |i| {
        matches!(i.reach, Ok((InstanceAddress::Name(_), _)))
    }),
    (Code::INVALID_ADDRESS, "without an address or port, and therefore excluded", |i| {
        matches!(i.reach, Err(ExclusionReason::NoAddress | ExclusionReason::NoPort | ExclusionReason::Socket))
    }),
];

/// Adds the warnings for these instances.
pub(super) fn gather(instances: &BTreeMap<InstanceId, Instance>, out: &mut Vec<DeclarationWarning>) {
    for (code, what, test) in TABLE {
        let odd: Vec<&str> =
            instances.iter().filter(|(_, i)| test(i)).map(|(id, _)| &*id.object().name).collect();
        if odd.is_empty() {
            continue;
        }
        let named = odd.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        let more = if odd.len() > NAMED { ", …" } else { "" };
        let message = format!("{} instances {what}: {named}{more}", odd.len());
        out.push(DeclarationWarning { code, message: message.into() });
    }
}
