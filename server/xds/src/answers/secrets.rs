//! Secrets of SDS, which name files of the client (docs/reference/destination-rule.md#files).
//!
//! A secret is decided by its name, which xDS clusters have: the server knows no keys and no certificates. A client that
//! requests a name of its own reads only its own files.

use std::sync::Arc;

use tributary_model::EncodedResource;

use crate::encode::tls;

/// Returns the secret of a name; `None` for a name that no xDS cluster has.
pub(crate) fn secret(name: &str) -> Option<Arc<EncodedResource>> {
    let body = tls::secret(&name.parse().ok()?);
    Some(Arc::new(EncodedResource::new(name.into(), body.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_the_requested_name() {
        assert_eq!(&*secret("file-root:/etc/ca.pem").unwrap().name, "file-root:/etc/ca.pem");
        assert!(secret("default").is_none());
    }
}
