//! What a Consul answers to the configured token, before anything depends on it.
//!
//! The application calls [`preflight`] for a Consul that is not served yet. It reads the leader, the list of services and the token
//! itself, from the first address that answers. Nothing is written; a login creates a token, as a run does.

use std::time::Duration;

use jiff::Timestamp;

use crate::answer::{Headers, RequestFailure};
use crate::client::{Client, Fault, Get, Raw};
use crate::config::ConsulConfig;
use crate::token::Token;
use crate::wire::{lists, services};

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a Consul answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preflight {
    /// Why no address answers.
    pub unreachable: Option<String>,
    /// Whether it has a leader.
    pub has_leader: bool,
    /// Why the token is refused, or cannot be read.
    pub refused: Option<String>,
    /// Whether the list of services may be filtered by the rights of the token.
    pub is_filtered: bool,
    /// Number of services that the token sees.
    pub services: usize,
    /// Time at which the token expires; `None` if it does not, or no token is configured.
    pub expires: Option<Timestamp>,
}

/// Requests what a run would need first.
pub async fn preflight(config: &ConsulConfig) -> Preflight {
    let client = match Client::new(config, &config.addresses) {
        Ok(client) => client,
        Err(error) => return unreachable(error.to_string()),
    };
    let mut token = Token::new(config.auth.token.clone());
    if let Err(fault) = token.refresh(&client, Timestamp::now(), false).await {
        return match fault.failure {
            RequestFailure::Auth | RequestFailure::Config => Preflight {
                has_leader: true,
                refused: Some(fault.reason.to_string()),
                ..Preflight::default()
            },
            _ => unreachable(fault.reason.to_string()),
        };
    }
    let leader = match first(&client, &["status", "leader"]).await {
        Ok(answer) => answer.body.unwrap_or_default(),
        Err(fault) => return unreachable(fault.reason.to_string()),
    };
    let has_leader = leader.len() > br#""""#.len();
    let listed = first(&client, &["catalog", "services"]).await;
    let found = Preflight { has_leader, ..of_list(config, listed) };
    if !config.auth.has_token() || found.refused.is_some() {
        return found;
    }
    with_token(found, first(&client, &["acl", "token", "self"]).await)
}

fn unreachable(why: String) -> Preflight {
    Preflight { unreachable: Some(why), ..Preflight::default() }
}

/// Requests a path from each address in turn until one answers. A refused token is an answer.
async fn first(client: &Client, path: &[&str]) -> Result<Raw, Fault> {
    let get = Get { path, query: Vec::new(), timeout: TIMEOUT, skip: None };
    let mut last = client.get(0, &get).await;
    for server in 1..client.addresses() {
        if !matches!(&last, Err(fault) if fault.failure.is_temporary()) {
            return last;
        }
        last = client.get(server, &get).await;
    }
    last
}

/// Whether the Consul has no ACLs: it then refuses to describe a token, and answers everything else.
fn is_without_acls(fault: &Fault) -> bool {
    fault.reason.to_string().contains("ACL support disabled")
}

fn of_list(config: &ConsulConfig, listed: Result<Raw, Fault>) -> Preflight {
    let raw = match listed {
        Ok(raw) => raw,
        Err(fault) if fault.failure == RequestFailure::Auth => return refused(fault),
        Err(fault) => return unreachable(fault.reason.to_string()),
    };
    let is_filtered = |headers: &Headers| headers.may_be_filtered(config.auth.has_token());
    match services(raw.content_type.as_deref(), &raw.body.unwrap_or_default()) {
        Ok(named) => Preflight {
            is_filtered: is_filtered(&raw.headers),
            services: named.len(),
            ..Preflight::default()
        },
        Err(error) => unreachable(error.to_string()),
    }
}

fn refused(fault: Fault) -> Preflight {
    Preflight { refused: Some(fault.reason.to_string()), ..Preflight::default() }
}

fn with_token(found: Preflight, own: Result<Raw, Fault>) -> Preflight {
    match own {
        Ok(raw) => {
            let own = lists::token_self(raw.content_type.as_deref(), &raw.body.unwrap_or_default());
            Preflight { expires: own.ok().and_then(|own| own.expires), ..found }
        }
        Err(fault) if fault.failure == RequestFailure::Auth && !is_without_acls(&fault) => {
            Preflight { refused: Some(fault.reason.to_string()), ..found }
        }
        // without ACLs there is no such endpoint, and the token has no effect
        Err(_) => found,
    }
}
