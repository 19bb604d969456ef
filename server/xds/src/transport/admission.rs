//! Decides by which proof a client is served: its certificate, its token, or none where none is required.
//!
//! A stream asks before its first request reaches a session. A certificate is looked at first, since that is no I/O; where tokens
//! are taken, either proof is enough, and a stream keeps running when its token expires: the connection's age bounds it.

use std::time::Duration;

use tributary_model::{Code, Identity, Settings};

use super::patience::within;
use crate::client::ClientNode;
use crate::counters::Counters;
use crate::session::Refusal;
use crate::source::CatalogSource;
use crate::token::{BearerToken, TokenRefused, TokenReviewer};

/// Token of a stream's request, or why it has none; not read where tokens are not taken.
pub(crate) type Presented = Result<Option<BearerToken>, &'static str>;

/// What decides about clients.
pub(crate) struct Admission<'s> {
    pub(crate) source: &'s dyn CatalogSource,
    /// Reviews tokens; `None` takes none.
    pub(crate) tokens: Option<&'s dyn TokenReviewer>,
    pub(crate) counters: &'s Counters,
    /// Time limit of a review.
    pub(crate) limit: Duration,
}

impl Admission<'_> {
    /// Returns the client with the identity that it proves, and counts a refusal. `uris` are those of the peer's certificate,
    /// if it presents one.
    pub(crate) async fn admit(
        &self,
        client: ClientNode,
        uris: Option<&[Identity]>,
        token: Presented,
    ) -> Result<ClientNode, Refusal> {
        let by_certificate =
            uris.map(|uris| self.with_settings(|settings| client.clone().authorize(uris, settings)));
        let admitted = match (by_certificate, self.tokens, token) {
            (None, None, _) => Ok(client),
            (Some(decided), None, _) | (Some(decided @ Ok(_)), ..) | (Some(decided), _, Ok(None)) => decided,
            (None, Some(_), Ok(None)) => Err(client.unproven()),
            (_, Some(_), Err(why)) => Err(client.refuse_token(&TokenRefused::Invalid(why.to_owned()), "")),
            (_, Some(reviewer), Ok(Some(token))) => self.by_token(reviewer, token, client).await,
        };
        admitted.inspect_err(|refusal| self.count(refusal))
    }
    async fn by_token(
        &self,
        reviewer: &dyn TokenReviewer,
        token: BearerToken,
        client: ClientNode,
    ) -> Result<ClientNode, Refusal> {
        let Some(cluster) = client.own_cluster() else {
            return Err(client.refuse_token(&TokenRefused::NoCluster, &reviewer.audiences()));
        };
        let review = within(self.limit, reviewer.review(cluster, token)).await;
        let late = || Err(TokenRefused::Unavailable("its review took too long".to_owned()));
        match review.unwrap_or_else(late) {
            Ok(account) => self.with_settings(|settings| client.authorize_account(&account, settings)),
            Err(why) => Err(client.refuse_token(&why, &reviewer.audiences())),
        }
    }
    fn with_settings<T>(&self, decide: impl FnOnce(&Settings) -> T) -> T {
        decide(&self.source.current().settings)
    }
    fn count(&self, refusal: &Refusal) {
        match refusal.code {
            Code::CLIENT_TOKEN_UNREVIEWED => self.counters.tokens_unreviewed.inc(),
            _ => self.counters.identities_refused.inc(),
        }
    }
}
