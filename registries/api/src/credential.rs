//! A secret that can be handed on but not printed.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// What opens a source: a kubeconfig, a token, a key. It has no `Display` and no serialisation,
/// its `Debug` shows nothing, and its memory is wiped when the last holder drops it.
#[derive(Clone)]
pub struct Credential(Arc<Zeroizing<Vec<u8>>>);

impl Credential {
    /// Takes the secret over.
    #[must_use]
    pub fn new(secret: Vec<u8>) -> Self {
        Self(Arc::new(Zeroizing::new(secret)))
    }
    /// The absence of a secret, for sources that ask for none.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new())
    }
    /// The secret itself. Named so that a reader of the calling code stops and looks.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq for Credential {
    /// Compares the whole of both, wherever they differ: an unchanged Secret must not rotate.
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
    fn it_shows_neither_content_nor_length() {
        let shown = format!("{:?}", Credential::new(b"hunter2".to_vec()));
        assert_eq!(shown, format!("{:?}", Credential::new(b"a much longer secret".to_vec())));
        assert!(!shown.contains("hunter2"));
    }

    #[test]
    fn equal_secrets_are_equal() {
        let secret = |text: &str| Credential::new(text.as_bytes().to_vec());
        assert_eq!(secret("a"), secret("a"));
        assert_ne!(secret("a"), secret("b"));
        assert_ne!(secret("a"), secret("ab"));
    }
}
