//! Where a client has its certificates of the mesh (docs/reference/xds.md#mesh-tls), by its node and the settings.
//!
//! [`super::ClientNode`] reads the node with it once, and asks for the source with each generation.

use std::sync::Arc;

use tributary_model::{Catalog, CertificateFiles, CertificateSource, ClientKind};
use tributary_proto::Metadata;

use super::ClientNode;

/// Most bytes of the name of an xDS cluster of a client's bootstrap.
const MAX_NAME: usize = 255;
/// Most bytes of the path of a client's file.
const MAX_PATH: usize = 4096;

impl ClientNode {
    /// Returns where it has its certificates of the mesh: in files that its node names, at an xDS cluster that its node names
    /// and the settings list, or at Istio's agent. A client may name no other xDS cluster, because each name that clients
    /// have divides their resources, and Envoy rejects xDS clusters with a name that its bootstrap lacks.
    pub(super) fn certificates(&self, catalog: &Catalog) -> CertificateSource {
        if self.class.kind == ClientKind::Grpc {
            return CertificateSource::None;
        }
        if self.class.certificate_files.is_some() {
            return CertificateSource::Files;
        }
        let agent = || self.proxy.version.is_some().then(|| CertificateSource::AGENT.into());
        let named = |name: &Arc<str>| match &**name {
            CertificateSource::AGENT => Some(Arc::clone(name)),
            name => catalog.settings.sds_cluster(name),
        };
        let found = match &self.sds_cluster {
            Some(name) => named(name),
            None => agent(),
        };
        found.map_or(CertificateSource::None, CertificateSource::Sds)
    }
}

/// Reads the paths of the client's certificates of the mesh; all three, or none.
pub(super) fn files(meta: &Metadata) -> Option<CertificateFiles> {
    let path = |name: &str| {
        let path = meta.text(name).filter(|path| !path.is_empty() && path.len() <= MAX_PATH)?;
        (!path.contains(|c: char| c.is_control() || c == '~')).then(|| Arc::from(path))
    };
    Some(CertificateFiles {
        chain: path("TLS_CLIENT_CERT_CHAIN")?,
        key: path("TLS_CLIENT_KEY")?,
        authorities: path("TLS_CLIENT_ROOT_CERT")?,
    })
}

/// Reads the xDS cluster that serves the client's certificates of the mesh.
pub(super) fn sds_cluster(meta: &Metadata) -> Option<Arc<str>> {
    meta.text("SDS_CLUSTER").filter(|name| !name.is_empty() && name.len() <= MAX_NAME).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use tributary_model::{Settings, Shared};

    use super::super::tests::{SIDECAR, parse};
    use super::*;

    #[test]
    fn certificates_are_where_node_and_settings_have_them() {
        let clusters: Arc<[Arc<str>]> = ["spire".into()].into();
        let settings = Settings { sds_clusters: Some(clusters), ..Settings::default() };
        let catalog = Catalog { settings: Shared::new(settings), ..Catalog::default() };
        let of = |id, metadata: &[(&str, &str)]| parse(id, metadata).at(&catalog).0;
        let sds = |name: &str| CertificateSource::Sds(name.into());
        let istio = ("ISTIO_VERSION", "1.30.3");
        for id in [SIDECAR, "x"] {
            for (metadata, want) in [
                (&[][..], CertificateSource::None),
                (&[istio], sds("sds-grpc")),
                (&[("SDS_CLUSTER", "sds-grpc")], sds("sds-grpc")),
                (&[("SDS_CLUSTER", "spire")], sds("spire")),
                (&[istio, ("SDS_CLUSTER", "other")], CertificateSource::None),
            ] {
                assert_eq!(of(id, metadata).certificates, want, "{id} {metadata:?}");
            }
        }
        let files =
            [("TLS_CLIENT_CERT_CHAIN", "/c"), ("TLS_CLIENT_KEY", "/k"), ("TLS_CLIENT_ROOT_CERT", "/r")];
        let class = of(SIDECAR, &[&files[..], &[istio]].concat());
        assert_eq!(class.certificates, CertificateSource::Files);
        assert_eq!(class.certificate_files.map(|files| files.authorities.clone()).as_deref(), Some("/r"));
        assert_eq!(of(SIDECAR, &files[..2]).certificates, CertificateSource::None, "a file is missing");
        for bad in ["", "/c~d", "/c\n"] {
            let metadata = [("TLS_CLIENT_CERT_CHAIN", bad), files[1], files[2], istio];
            assert_eq!(of(SIDECAR, &metadata).certificates, sds("sds-grpc"), "{bad:?}");
        }
        assert_eq!(of("x", &[("GENERATOR", "grpc"), istio]).certificates, CertificateSource::None);
    }
}
