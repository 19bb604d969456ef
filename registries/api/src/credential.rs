//! Credentials: secrets that can be passed on but not printed.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// Secret for a source: a kubeconfig, a token, a key. It has no `Display` and no serialisation,
/// its `Debug` shows nothing, and its memory is wiped when the last holder drops it.
#[derive(Clone)]
pub struct Credential(Arc<Zeroizing<Vec<u8>>>);

impl Credential {
    /// Takes ownership of the secret.
    #[must_use]
    pub fn new(secret: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(secret)))
    }
    /// Creates an empty credential, for sources that need none.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new())
    }
    /// Returns the secret. The name makes uses easy to find in review.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Credential {
    /// Compares in constant time for equal lengths. An unchanged Secret must not cause a rotation.
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(other.0.iter()).fold(0, |different, (a, b)| different | (a ^ b)) == 0
    }
}
impl Eq for Credential {}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_content_and_length() {
        let shown = format!("{:?}", Credential::new(b"hunter2".to_vec()));
        assert_eq!(shown, format!("{:?}", Credential::new(b"a much longer secret".to_vec())));
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn credentials_compare_by_content() {
        let secret = |text: &str| Credential::new(text.as_bytes().to_vec());
        assert_eq!(secret("a"), secret("a"));
        assert_ne!(secret("a"), secret("b"));
        assert_ne!(secret("a"), secret("ab"));
    }
}
