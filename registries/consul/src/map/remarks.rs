//! What is odd about the instances of a service that are served all the same, or left out on purpose: one line for
//! each kind of oddness, naming the first few.

use std::collections::BTreeMap;

use tributary_model::{Code, DeclarationWarning};

use super::address::Where;
use super::instance::{Instance, InstanceId, LeftOut};

/// How many instances one remark names.
const NAMED: usize = 3;

type Test = fn(&Instance) -> bool;

const TABLE: [(Code, &str, Test); 6] = [
    (Code::MIRRORED, "copied from a cluster that is watched directly, so that they are left out", |i| {
        i.reach == Err(LeftOut::Mirror)
    }),
    (
        Code::META_NOT_UNDERSTOOD,
        "with a port, or a port's number or protocol in Meta, that is not understood",
        |i| matches!(&i.reach, Ok((_, ports)) if ports.unclear),
    ),
    (Code::UNKNOWN_CHECK, "with a check whose status is not known", |i| i.marks.odd_check),
    (Code::LABELS_DROPPED, "with labels that are not kept: their keys become one, or are none", |i| {
        i.marks.labels_dropped
    }),
    (Code::NAMED_INSTANCES, "with a DNS name for an address, so that clients resolve the service", |i| {
        matches!(i.reach, Ok((Where::Name(_), _)))
    }),
    (Code::INVALID_ADDRESS, "without an address or port, so that they are left out", |i| {
        matches!(i.reach, Err(LeftOut::NoAddress | LeftOut::NoPort | LeftOut::Socket))
    }),
];

/// Adds what is odd about these.
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
