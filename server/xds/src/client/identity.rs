//! Decides whether a peer's certificate, or the account of its token, proves the client that a node claims to be. The transport
//! asks before it serves the first request of a stream. A proved identity decides the namespace of its client.

use tonic::Code as GrpcCode;
use tributary_model::{ClusterId, Code, Identity, Namespace, Settings};

use super::ClientNode;
use crate::session::Refusal;
use crate::token::{ServiceAccount, TokenRefused, is_account};

/// Most URIs of a certificate that a message lists.
const MAX_SHOWN: usize = 3;

/// What proves an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// The certificate of the connection.
    Certificate,
    /// A token of a service account, which its cluster reviewed.
    Token,
}

impl Proof {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Token => "token",
        }
    }
}

/// Identity of a client, and what proved it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Identity.
    pub identity: Identity,
    /// What proved it.
    pub proof: Proof,
}

impl ClientNode {
    /// Checks that a peer's only URI matches this client: its trust domain must be that of the mesh or an alias, and
    /// its namespace and service account those of the node, if the node has them. A client without a namespace is in
    /// that of its identity.
    pub fn authorize(mut self, uris: &[Identity], settings: &Settings) -> Result<Self, Refusal> {
        if uris.len() > 1 {
            return Err(several(uris));
        }
        let trusted =
            uris.first().and_then(|identity| Some((identity, SpiffeId::parse(identity.as_str())?))).filter(
                |(_, id)| settings.trusts(id.trust_domain) && self.is_proven_by(&id.namespace, id.account),
            );
        if let Some((identity, id)) = trusted {
            self.verified = Some(Verified { identity: identity.clone(), proof: Proof::Certificate });
            self.class.namespace = Some(id.namespace);
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
    /// Checks that the account of a token, which its cluster reviewed, is that of this client. A client without a namespace is in
    /// that of its account, and one that names no cluster in that of its token.
    pub fn authorize_account(
        mut self,
        account: &ServiceAccount,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        let ServiceAccount { namespace, name } = account;
        let identity = Identity::spiffe(settings.trust_domain(), namespace, name).ok();
        if let Some(identity) = identity.filter(|_| self.is_proven_by(namespace, name)) {
            self.verified = Some(Verified { identity, proof: Proof::Token });
            self.class.cluster = self.own_cluster();
            self.class.namespace = Some(namespace.clone());
            return Ok(self);
        }
        let message = format!(
            "the token is of service account \"{name}\" in namespace {namespace}, but node {:?} needs an identity{}; \
             correct metadata.NAMESPACE and SERVICE_ACCOUNT, or the token",
            self.id,
            self.claims(),
        );
        Err(Refusal::new(GrpcCode::PermissionDenied, Code::CLIENT_IDENTITY, message))
    }
    /// Returns the cluster whose tokens the client may present: the one that it names, or the server's.
    #[must_use]
    pub fn own_cluster(&self) -> Option<ClusterId> {
        self.class.cluster.clone().or_else(|| self.default_cluster.clone())
    }
    /// Returns the refusal of a client that proves nothing, where tokens are taken.
    #[must_use]
    pub fn unproven(&self) -> Refusal {
        let message = format!(
            "node {:?} proves no identity; send a token of its service account as `authorization: Bearer`, or connect with a \
             certificate where the server takes them",
            self.id
        );
        Refusal::new(GrpcCode::Unauthenticated, Code::CLIENT_IDENTITY, message)
    }
    /// Returns the refusal of a token. A client should try again only if its token was not reviewed.
    #[must_use]
    pub fn refuse_token(&self, why: &TokenRefused, audiences: &str) -> Refusal {
        let cluster = self.own_cluster().map_or_else(|| "none".to_owned(), |cluster| cluster.to_string());
        let id = &self.id;
        let (status, code, message) = match why {
            TokenRefused::Unavailable(why) => (
                GrpcCode::Unavailable,
                Code::CLIENT_TOKEN_UNREVIEWED,
                format!("the token of node {id:?} was not reviewed by cluster {cluster}: {why}; try again"),
            ),
            TokenRefused::NoCluster => (
                GrpcCode::Unauthenticated,
                Code::CLIENT_IDENTITY,
                format!(
                    "no registry reads cluster {cluster} of node {id:?}; correct metadata.CLUSTER_ID, or add the cluster"
                ),
            ),
            TokenRefused::Invalid(why) => {
                let of =
                    if audiences.is_empty() { String::new() } else { format!(" for audience {audiences}") };
                let next = format!("send a token of its service account in cluster {cluster}{of}");
                let message = format!("the token of node {id:?} proves nothing: {why}; {next}");
                (GrpcCode::Unauthenticated, Code::CLIENT_IDENTITY, message)
            }
        };
        Refusal::new(status, code, message)
    }
    /// Returns the namespace and service account that the node claims, for a message.
    fn claims(&self) -> String {
        let namespace = self.class.namespace.as_ref().map(|own| format!("namespace {own}"));
        let account = self.account.as_deref().map(|own| format!("service account {own:?}"));
        let claimed: Vec<String> = namespace.into_iter().chain(account).collect();
        if claimed.is_empty() { String::new() } else { format!(" of {}", claimed.join(" and ")) }
    }
    fn is_proven_by(&self, namespace: &Namespace, account: &str) -> bool {
        self.class.namespace.as_ref().is_none_or(|own| own == namespace)
            && self.account.as_deref().is_none_or(|own| own == account)
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
        (!trust_domain.is_empty() && is_account(account)).then_some(Self { trust_domain, namespace, account })
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
        let verified = Verified { identity: own[0].clone(), proof: Proof::Certificate };
        assert_eq!((&proven.class, proven.verified), (&client.class, Some(verified)));
        for wrong in [
            "spiffe://td/ns/web/sa/pay",
            "spiffe://td/ns/shop/sa/other",
            "spiffe://td/ns/shop",
            "shop",
            "spiffe://td/ns/shop/sa/pay/x",
            "spiffe://td/a/ns/shop/sa/pay",
            "spiffe://td//ns/shop/sa/pay",
            "spiffe:///ns/shop/sa/pay",
            "spiffe://td/ns/shop/sa/pay/",
            "spiffe://td/ns/shop/sa/",
            "spiffe://td/ns//sa/pay",
            "spiffe://td/ns/shop/sa/p%61y",
            "spiffe://td/ns/sh%6fp/sa/pay",
            "spiffe://td/ns/shop/sa/pay?x",
            "spiffe://td/ns/shop/sa/pay#x",
            "SPIFFE://td/ns/shop/sa/pay",
            "spiffe://td:80/ns/shop/sa/pay",
            "spiffe://x@td/ns/shop/sa/pay",
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

    #[test]
    fn client_that_claims_nothing_is_not_given_what_is_no_name() {
        for wrong in
            ["sa/p%61y", "sa/..", "sa/.", "sa/a b", "sa/pay?x", "sa/", "sa/pay/x", "SA/pay", "sa/pay\\x"]
        {
            let Ok(identity) = Identity::new(format!("spiffe://cluster.local/ns/shop/{wrong}")) else {
                continue;
            };
            assert!(parse("x", &[]).authorize(&[identity], &Settings::default()).is_err(), "{wrong}");
        }
    }

    fn account(namespace: &str, name: &str) -> ServiceAccount {
        ServiceAccount { namespace: Namespace::new(namespace).unwrap(), name: name.into() }
    }

    #[test]
    fn account_of_a_token_must_match_what_the_node_claims() {
        let settings = Settings { trust_domain: Some("td".into()), ..Settings::default() };
        let admitted = |id: &str, metadata: &[(&str, &str)], namespace: &str, name: &str| {
            parse(id, metadata).authorize_account(&account(namespace, name), &settings).map(|client| {
                let verified = client.verified.unwrap();
                (verified.identity.to_string(), verified.proof, client.class.namespace.unwrap().to_string())
            })
        };
        let proven = Ok(("spiffe://td/ns/shop/sa/pay".to_owned(), Proof::Token, "shop".to_owned()));
        assert_eq!(admitted(SIDECAR, &[("SERVICE_ACCOUNT", "pay")], "shop", "pay"), proven);
        assert_eq!(admitted(SIDECAR, &[], "shop", "pay"), proven);
        assert_eq!(admitted("x", &[], "shop", "pay"), proven, "the identity decides the namespace");
        for (id, metadata, namespace, name) in [
            (SIDECAR, &[][..], "web", "pay"),
            (SIDECAR, &[("NAMESPACE", "web")], "shop", "pay"),
            (SIDECAR, &[("SERVICE_ACCOUNT", "pay")], "shop", "other"),
            ("x", &[("NAMESPACE", "web")], "shop", "pay"),
        ] {
            let refusal = admitted(id, metadata, namespace, name).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (GrpcCode::PermissionDenied, Code::CLIENT_IDENTITY));
        }
        let message = admitted(SIDECAR, &[("SERVICE_ACCOUNT", "pay")], "web", "pay").unwrap_err().message;
        assert_eq!(
            message,
            format!(
                "the token is of service account \"pay\" in namespace web, but node {SIDECAR:?} needs an identity of \
                 namespace shop and service account \"pay\"; correct metadata.NAMESPACE and SERVICE_ACCOUNT, or the token"
            )
        );
    }

    #[test]
    fn client_of_a_token_is_in_the_cluster_that_reviewed_it() {
        let default = ClusterId::new("home").ok();
        let cluster = |metadata: &[(&str, &str)]| {
            let client = parse("x", metadata).defaulting_to(default.clone());
            let own = client.own_cluster();
            let admitted = client.authorize_account(&account("shop", "pay"), &Settings::default()).unwrap();
            assert_eq!(admitted.class.cluster, own);
            own.unwrap().to_string()
        };
        assert_eq!((cluster(&[]).as_str(), cluster(&[("CLUSTER_ID", "east")]).as_str()), ("home", "east"));
    }

    #[test]
    fn refused_token_gives_the_reason_and_whether_to_try_again() {
        let client = parse("x", &[("CLUSTER_ID", "east")]);
        let shown = |why: TokenRefused| {
            let refusal = client.refuse_token(&why, "a, b");
            (refusal.status, refusal.code, refusal.message)
        };
        let identity = Code::CLIENT_IDENTITY;
        assert_eq!(
            shown(TokenRefused::Invalid("it has expired".into())),
            (
                GrpcCode::Unauthenticated,
                identity,
                "the token of node \"x\" proves nothing: it has expired; send a token of its service account in cluster east \
                 for audience a, b"
                    .to_owned()
            )
        );
        let (status, code, message) = shown(TokenRefused::NoCluster);
        assert_eq!((status, code), (GrpcCode::Unauthenticated, identity));
        assert!(message.starts_with("no registry reads cluster east of node \"x\"; correct"), "{message}");
        let (status, code, message) = shown(TokenRefused::Unavailable("no answer".into()));
        assert_eq!((status, code), (GrpcCode::Unavailable, Code::CLIENT_TOKEN_UNREVIEWED));
        assert!(message.ends_with("was not reviewed by cluster east: no answer; try again"), "{message}");
    }
}
