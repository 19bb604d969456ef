//! Services of Consul's mesh: names of sidecars, and the condition of a service that has one.
//!
//! Only the names of sidecars are listed, so the service is found by the name that Consul gives the sidecar it
//! registers. Called by the scope's run; Connect-native instances are found by `warnings`.

use tributary_model::{Code, Declaration, DeclarationWarning};

/// End of the name that Consul gives the sidecar of a service.
const SUFFIX: &str = "-sidecar-proxy";

const SIDECAR: &str = "the service has a sidecar of Consul's mesh; its own port may accept local clients only, and is served without the mesh's TLS";

/// Returns the service of a sidecar by the sidecar's name.
#[must_use]
pub fn service_of(sidecar: &str) -> Option<&str> {
    sidecar.strip_suffix(SUFFIX).filter(|service| !service.is_empty())
}

/// Returns a declaration with the condition of a service that has a sidecar.
#[must_use]
pub fn with_sidecar(declaration: &Declaration) -> Declaration {
    let mut declaration = declaration.clone();
    let warning = DeclarationWarning { code: Code::MESH_SERVICE, message: SIDECAR.into() };
    let mut warnings: Vec<DeclarationWarning> = declaration.attributes.warnings.to_vec();
    warnings.push(warning);
    warnings.sort();
    declaration.attributes.warnings = warnings.into();
    declaration
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sidecar_names_its_service() {
        let cases = [
            ("web-sidecar-proxy", Some("web")),
            ("a-sidecar-proxy-sidecar-proxy", Some("a-sidecar-proxy")),
            ("-sidecar-proxy", None),
            ("web-proxy", None),
        ];
        for (name, want) in cases {
            assert_eq!(service_of(name), want, "{name}");
        }
    }
}
