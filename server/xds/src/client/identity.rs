//! Decides whether a peer's certificate proves the client that a node claims to be. The transport asks before it serves the
//! first request of a stream.

use tonic::Code as GrpcCode;
use tributary_model::{Code, Identity, Namespace, Settings};

use super::ClientNode;
use crate::session::Refusal;

/// Most URIs of a certificate that a message lists.
const MAX_SHOWN: usize = 3;

impl ClientNode {
    /// Checks that a peer's only URI matches this client: its trust domain must be that of the mesh or an alias, and
    /// its namespace and service account those of the node, if the node has them. A client without a namespace is in
    /// that of its identity.
    pub fn authorize(mut self, uris: &[Identity], settings: &Settings) -> Result<Self, Refusal> {
        if uris.len() > 1 {
            return Err(several(uris));
        }
        let trusted = uris
            .first()
            .and_then(|identity| Some((identity, SpiffeId::parse(identity.as_str())?)))
            .filter(|(_, id)| settings.trusts(id.trust_domain) && self.is_proven_by(id));
        if let Some((identity, id)) = trusted {
            (self.identity, self.class.namespace) = (Some(identity.clone()), Some(id.namespace));
            return Ok(self);
        }
        let message = format!(
            "the certificate presents {}, but node {:?} needs an identity{} in trust domain {} or its aliases; correct \
             metadata.NAMESPACE and SERVICE_ACCOUNT, the certificate, or settings.trustDomainAliases",
            presented(uris),
            self.id,
            self.claims(),
            settings.trust_domain()
        );
        Err(Refusal::new(GrpcCode::PermissionDenied, Code::CLIENT_IDENTITY, message))
    }
    /// Returns the namespace and service account that the node claims, for a message.
    fn claims(&self) -> String {
        let namespace = self.class.namespace.as_ref().map(|own| format!("namespace {own}"));
        let account = self.account.as_deref().map(|own| format!("service account {own:?}"));
        let claimed: Vec<String> = namespace.into_iter().chain(account).collect();
        if claimed.is_empty() { String::new() } else { format!(" of {}", claimed.join(" and ")) }
    }
    fn is_proven_by(&self, id: &SpiffeId<'_>) -> bool {
        self.class.namespace.as_ref().is_none_or(|own| *own == id.namespace)
            && self.account.as_deref().is_none_or(|own| own == id.account)
    }
}

/// Refuses a certificate with several URIs: by SPIFFE, the only URI is the identity, and nothing decides between several.
fn several(uris: &[Identity]) -> Refusal {
    let message = format!(
        "the certificate presents {} URIs, {}, but the certificate of a SPIFFE identity has exactly one; use a \
         certificate with one",
        uris.len(),
        presented(uris)
    );
    Refusal::new(GrpcCode::PermissionDenied, Code::CLIENT_IDENTITY, message)
}

/// Lists the first URIs of a certificate.
fn presented(uris: &[Identity]) -> String {
    if uris.is_empty() {
        return "no SPIFFE identity".to_owned();
    }
    let shown: Vec<&str> = uris.iter().take(MAX_SHOWN).map(Identity::as_str).collect();
    let more = uris.len() - shown.len();
    let rest = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{rest}", shown.join(", "))
}

/// The parts of `spiffe://<trust domain>/ns/<namespace>/sa/<account>`.
struct SpiffeId<'a> {
    trust_domain: &'a str,
    namespace: Namespace,
    account: &'a str,
}

impl<'a> SpiffeId<'a> {
    /// Parses an identity. The path must have exactly these parts: a prefix could be a different workload.
    fn parse(identity: &'a str) -> Option<Self> {
        let (trust_domain, path) = identity.strip_prefix("spiffe://")?.split_once('/')?;
        let parts: Vec<&str> = path.split('/').collect();
        let ["ns", namespace, "sa", account] = parts[..] else { return None };
        let namespace = Namespace::new(namespace).ok()?;
        (!trust_domain.is_empty() && !account.is_empty()).then_some(Self { trust_domain, namespace, account })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::tests::{SIDECAR, parse};

    #[test]
    fn an_identity_must_match_namespace_and_account() {
        let identity = |text: &str| Identity::new(text).unwrap();
        let settings = Settings { trust_domain: Some("td".into()), ..Settings::default() };
        let client = parse(SIDECAR, &[("SERVICE_ACCOUNT", "pay")]);
        let own = [identity("spiffe://td/ns/shop/sa/pay")];
        let proven = client.clone().authorize(&own, &settings).unwrap();
        assert_eq!((&proven.class, proven.identity.as_ref()), (&client.class, Some(&own[0])));
        for wrong in [
            "spiffe://td/ns/web/sa/pay",
            "spiffe://td/ns/shop/sa/other",
            "spiffe://td/ns/shop",
            "shop",
            "spiffe://td/ns/shop/sa/pay/x",
            "spiffe://td/a/ns/shop/sa/pay",
            "spiffe://td//ns/shop/sa/pay",
            "spiffe:///ns/shop/sa/pay",
            "spiffe://other/ns/shop/sa/pay",
        ] {
            let refusal = client.clone().authorize(&[identity(wrong)], &settings).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (GrpcCode::PermissionDenied, Code::CLIENT_IDENTITY));
        }
        assert!(client.authorize(&[], &settings).is_err());
    }

    #[test]
    fn refusal_names_what_is_presented_and_what_is_claimed() {
        let message = |id: &str, account: &[(&str, &str)], presented: &[&str]| {
            let identities: Vec<_> = presented.iter().map(|text| Identity::new(text).unwrap()).collect();
            let refusal = parse(id, account).authorize(&identities, &Settings::default()).unwrap_err();
            refusal.message.split("; ").next().unwrap().to_owned()
        };
        let trusted = "in trust domain cluster.local or its aliases";
        let one = "spiffe://other/ns/a/sa/1";
        assert_eq!(
            message(SIDECAR, &[("SERVICE_ACCOUNT", "pay")], &[one]),
            format!(
                "the certificate presents {one}, but node {SIDECAR:?} needs an identity of namespace shop and service \
                 account \"pay\" {trusted}"
            )
        );
        assert_eq!(
            message("x", &[], &[one]),
            format!("the certificate presents {one}, but node \"x\" needs an identity {trusted}")
        );
        let none = message("x", &[("SERVICE_ACCOUNT", "pay")], &[]);
        assert!(none.starts_with("the certificate presents no SPIFFE identity, but node"), "{none}");
        assert!(none.ends_with(&format!("an identity of service account \"pay\" {trusted}")), "{none}");
    }

    #[test]
    fn certificate_with_several_uris_proves_nothing() {
        let right = "spiffe://cluster.local/ns/shop/sa/pay";
        let message = |uris: &[&str]| {
            let uris: Vec<_> = uris.iter().map(|uri| Identity::new(*uri).unwrap()).collect();
            parse(SIDECAR, &[]).authorize(&uris, &Settings::default()).unwrap_err().message
        };
        for other in ["spiffe://other.test/ns/shop/sa/pay", "https://example.com", right] {
            assert_eq!(
                message(&[right, other]),
                format!(
                    "the certificate presents 2 URIs, {right}, {other}, but the certificate of a SPIFFE identity has \
                     exactly one; use a certificate with one"
                )
            );
        }
        assert!(message(&[right; 5]).contains("5 URIs") && message(&[right; 5]).contains(" and 2 more,"));
    }

    #[test]
    fn identity_of_an_alias_is_trusted() {
        let settings = Settings { trust_domain_aliases: Some(["old".into()].into()), ..Settings::default() };
        for (domain, is_trusted) in [("cluster.local", true), ("old", true), ("older", false)] {
            let identity = Identity::new(format!("spiffe://{domain}/ns/shop/sa/pay")).unwrap();
            assert_eq!(parse(SIDECAR, &[]).authorize(&[identity], &settings).is_ok(), is_trusted, "{domain}");
        }
    }

    #[test]
    fn client_without_a_namespace_is_in_that_of_its_identity() {
        let identity = [Identity::new("spiffe://cluster.local/ns/shop/sa/pay").unwrap()];
        let proven = |metadata: &[(&str, &str)]| {
            parse("test-id", metadata).authorize(&identity, &Settings::default()).map(|c| c.class.namespace)
        };
        assert_eq!(proven(&[]), Ok(Namespace::new("shop").ok()));
        assert!(proven(&[("SERVICE_ACCOUNT", "other")]).is_err());
        assert!(proven(&[("NAMESPACE", "web")]).is_err());
    }
}
