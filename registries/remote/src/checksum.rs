//! Checksum of a kubeconfig, by which an annotation names one credential and no later one.
//!
//! `cluster accept --rights` writes it into the Secret that holds the kubeconfig, and [`super::Secret`] compares it. Who reads the
//! annotation reads the credential too, so that it reveals nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use tributary_registry_api::Credential;

use crate::roster::hex;

/// Start of a checksum.
pub(crate) const ALGORITHM: &str = "sha256:";
/// Bytes of the digest that are kept: enough to distinguish the credentials of one cluster.
const KEPT: usize = 8;

/// Returns the checksum of a kubeconfig that is stored in base64; `None` if it is not base64.
pub(crate) fn checksum(stored: &Credential) -> Option<String> {
    let bytes = zeroize::Zeroizing::new(STANDARD.decode(stored.expose()).ok()?);
    let digest = digest(&SHA256, &bytes);
    digest.as_ref().get(..KEPT).map(|kept| format!("{ALGORITHM}{}", hex(kept)))
}

/// Returns whether the text has the form of a checksum.
pub(crate) fn is_checksum(text: &str) -> bool {
    let hex = |digits: &str| digits.len() == 2 * KEPT && digits.bytes().all(|b| b.is_ascii_hexdigit());
    text.strip_prefix(ALGORITHM).is_some_and(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_start_of_the_sha256_of_the_kubeconfig() {
        // printf abc | sha256sum
        let stored = Credential::new(STANDARD.encode("abc").into_bytes());
        let sum = checksum(&stored).unwrap();
        assert_eq!(sum, "sha256:ba7816bf8f01cfea");
        assert!(is_checksum(&sum));
        assert_eq!(checksum(&Credential::new(b"!".to_vec())), None);
        for text in ["", "sha256:", "sha256:ba7816bf8f01cfe", "sha256:ba7816bf8f01cfeg", "ba7816bf8f01cfea"] {
            assert!(!is_checksum(text), "{text}");
        }
    }
}
