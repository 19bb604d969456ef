//! Rules on names: labels, ports, networks, accounts, identities, namespaces.

use tributary_model::kubernetes_names::{is_label_key, is_label_value, is_object_name};
use tributary_model::{Code, Identity, Labels, Namespace, NetworkId};

use crate::document::{Located, ServiceEntry, Text};
use crate::read::fault::{Faults, Pos, clip};

fn refuse(faults: &mut Faults, at: Pos, what: &str, text: &str, fix: &str) {
    faults.refuse(Code::INVALID_NAME, at, format!("{what} {:?} is not valid; {fix}", clip(text)));
}

/// Keys and values of labels, by the rules of Kubernetes; a value may also contain `/`, because
/// localities contain it.
pub(super) fn labels(labels: &Located<Labels>, path: &str, faults: &mut Faults) {
    for (key, value) in labels.value.pairs() {
        if !is_label_key(key) {
            refuse(
                faults,
                labels.at,
                &format!("{path}: key"),
                key,
                "use letters, digits, `-`, `_`, `.` after an optional `domain/`",
            );
        }
        if !is_label_value(value) {
            refuse(
                faults,
                labels.at,
                &format!("{path}: value of {key}"),
                value,
                "use up to 63 letters, digits, `-`, `_`, `.`",
            );
        }
    }
}

/// Whether a port may have this name: a DNS label of any case.
pub(super) fn is_port_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric())
        && bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

pub(super) fn network(network: &Text, path: &str, faults: &mut Faults) {
    if !network.value.is_empty() && NetworkId::new(&network.value).is_err() {
        refuse(
            faults,
            network.at,
            &format!("{path}.network"),
            &network.value,
            "use letters, digits, `-`, `_`, `.`",
        );
    }
}

pub(super) fn account(account: &Text, path: &str, faults: &mut Faults) {
    if !account.value.is_empty() && !is_object_name(&account.value) {
        refuse(
            faults,
            account.at,
            &format!("{path}.serviceAccount"),
            &account.value,
            "write the account's name, without its namespace",
        );
    }
}

/// `exportTo` contains `*`, `.`, `~` or namespaces.
pub(super) fn export_to_names_namespaces(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, item) in entry.export_to.iter().enumerate() {
        if !matches!(&*item.value, "*" | "." | "~") && Namespace::new(&item.value).is_err() {
            refuse(
                faults,
                item.at,
                &format!("spec.exportTo[{i}]"),
                &item.value,
                "write `*`, `.`, `~` or a namespace",
            );
        }
    }
}

/// `subjectAltNames` contains identities.
pub(super) fn subject_alt_names_are_identities(entry: &ServiceEntry, faults: &mut Faults) {
    for (i, name) in entry.subject_alt_names.iter().enumerate() {
        if Identity::new(&name.value).is_err() {
            refuse(
                faults,
                name.at,
                &format!("spec.subjectAltNames[{i}]"),
                &name.value,
                "write a SPIFFE URI or a DNS name",
            );
        }
    }
}
