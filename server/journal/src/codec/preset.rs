//! Texts that are not stored, because every mesh has them.
//!
//! Both directions of the codec read it. The list is part of the format: entries are only appended,
//! never moved or removed.

use tributary_model::labels;

/// The texts, by their index.
pub(crate) const PRESET: [&str; 32] = [
    "",
    "Pod",
    "Service",
    "EndpointSlice",
    "ServiceEntry",
    "WorkloadEntry",
    "WorkloadGroup",
    "Instance",
    "Gateway",
    "ServiceImport",
    "ServiceExport",
    "ConfigMap",
    labels::REGION,
    labels::ZONE,
    labels::SUBZONE,
    labels::CLUSTER,
    labels::NETWORK,
    labels::NODE,
    labels::TLS_MODE,
    labels::LOCALITY,
    labels::WORKLOAD_NAME,
    labels::CANONICAL_NAME,
    labels::CANONICAL_REVISION,
    labels::REVISION,
    "app",
    "version",
    "pod-template-hash",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "http",
    "istio",
];

/// Returns the index of a text in the list.
pub(crate) fn index(text: &str) -> Option<u32> {
    // Most texts of a record are names, so length and first byte decide before texts are compared.
    PRESET.iter().position(|known| known.len() == text.len() && *known == text).map(|at| at as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preset_list_has_no_duplicates_and_a_fixed_order() {
        for (at, text) in PRESET.iter().enumerate() {
            assert_eq!(index(text), Some(at as u32), "{text}");
        }
        let all = PRESET.join("\n");
        assert_eq!(tributary_model::Version::of(all.as_bytes()).to_string(), PINNED);
    }
    /// A mismatch means that journals on disk are read incorrectly: append instead, and pin again.
    const PINNED: &str = "5317e9c0321309c8";
}
