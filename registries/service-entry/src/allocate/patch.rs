//! A planned write as a JSON patch.
//!
//! The patch is bound to the version that it was planned from. If the `spec` or the addresses in the
//! `status` changed in the meantime, the write fails and is planned again from the new state. The
//! operation depends on the current `status`, because a patch cannot replace a value that is absent.
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tributary_kube_client::PatchOperation;

use super::plan::Write;

/// The patch operations, in order.
pub(crate) fn steps(write: &Write) -> [PatchOperation; 2] {
    let guard =
        PatchOperation::Test { path: "/metadata/resourceVersion".into(), value: json!(*write.was.version) };
    [guard, change(write)]
}

fn change(write: &Write) -> PatchOperation {
    const ADDRESSES: &str = "/status/addresses";
    let value = |(host, ip): &(Arc<str>, IpAddr)| json!({ "value": ip, "host": **host });
    let value: Value = write.addresses.iter().map(value).collect();
    match (write.addresses.is_empty(), write.was.given.is_empty()) {
        (true, _) => PatchOperation::Remove { path: ADDRESSES.into() },
        (false, false) => PatchOperation::Replace { path: ADDRESSES.into(), value },
        (false, true) if write.was.has_status => PatchOperation::Add { path: ADDRESSES.into(), value },
        (false, true) => PatchOperation::Add { path: "/status".into(), value: json!({ "addresses": value }) },
    }
}

#[cfg(test)]
mod tests {
    use tributary_kube_client::ObjectName;

    use super::*;
    use crate::allocate::AddressClaim;

    fn change(given: &[&str], has_status: bool, addresses: &[&str]) -> Value {
        let given = given.iter().map(|value| ("a.b".into(), Arc::from(*value))).collect();
        let was = AddressClaim { version: "7".into(), given, has_status, ..AddressClaim::default() };
        let addresses = addresses.iter().map(|ip| ("a.b".into(), ip.parse().unwrap())).collect();
        let name = ObjectName::new("shop", "a");
        let made = json!(steps(&Write { name, was: Arc::new(was), addresses }));
        assert_eq!(made[0], json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "7" }));
        made[1].clone()
    }

    #[test]
    fn each_state_of_the_status_has_its_own_operation() {
        let list = json!([{ "value": "240.240.0.1", "host": "a.b" }]);
        assert_eq!(
            change(&[], false, &["240.240.0.1"]),
            json!({ "op": "add", "path": "/status", "value": { "addresses": list } })
        );
        assert_eq!(
            change(&[], true, &["240.240.0.1"]),
            json!({ "op": "add", "path": "/status/addresses", "value": list })
        );
        assert_eq!(
            change(&["240.240.0.9"], true, &["240.240.0.1"]),
            json!({ "op": "replace", "path": "/status/addresses", "value": list })
        );
        assert_eq!(
            change(&["240.240.0.9"], true, &[]),
            json!({ "op": "remove", "path": "/status/addresses" })
        );
    }
}
