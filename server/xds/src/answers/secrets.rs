//! Secrets of SDS, which name files of the client (docs/reference/destination-rule.md#files): those whose paths the name has,
//! and the client's certificates of the mesh, whose paths its node has.
//!
//! The server knows no keys and no certificates. A client that requests a name of its own reads only its own files.

use std::sync::Arc;

use tributary_answer::ClientClass;
use tributary_model::EncodedResource;

use crate::encode::mesh_tls::{AUTHORITIES, CERTIFICATE};
use crate::encode::tls::{self, SecretName};

/// Returns the secret of a name; `None` for a name that no xDS cluster of the client has.
pub(crate) fn secret(class: &ClientClass, name: &str) -> Option<Arc<EncodedResource>> {
    let content = own(class, name).or_else(|| name.parse().ok())?;
    let body = tls::secret(name, &content);
    Some(Arc::new(EncodedResource::new(name.into(), body.into())))
}

/// Returns the files of a client that its xDS clusters name by the mesh's names.
fn own(class: &ClientClass, name: &str) -> Option<SecretName> {
    let files = class.certificate_files.as_ref()?;
    match name {
        CERTIFICATE => Some(SecretName::Certificate(files.chain.as_ref().into(), files.key.as_ref().into())),
        AUTHORITIES => Some(SecretName::Roots(files.authorities.as_ref().into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tributary_model::{CertificateFiles, ClientKind};

    use super::*;

    #[test]
    fn secret_has_the_requested_name() {
        let class = ClientClass::new(ClientKind::Sidecar);
        assert_eq!(&*secret(&class, "file-root:/etc/ca.pem").unwrap().name, "file-root:/etc/ca.pem");
        assert!(secret(&class, "default").is_none() && secret(&class, "ROOTCA").is_none());
    }

    #[test]
    fn certificates_of_the_mesh_are_those_of_the_client() {
        let [chain, key, authorities] = ["/c", "/k", "/r"].map(Into::into);
        let files = Some(Arc::new(CertificateFiles { chain, key, authorities }));
        let class = ClientClass { certificate_files: files, ..ClientClass::new(ClientKind::Envoy) };
        let body = |name: &str| secret(&class, name).unwrap().body().unwrap();
        let files = |name: &str, content: &str| tls::secret(name, &content.parse().unwrap());
        assert_eq!(body("default"), files("default", "file-cert:/c~/k"));
        assert_eq!(body("ROOTCA"), files("ROOTCA", "file-root:/r"));
        assert!(secret(&class, "other").is_none());
    }
}
