//! `RetryPolicy`: retries of a route's requests, as Istio sets them.

use tributary_model::{HttpRetries, Protocol};
use tributary_proto::wire::Writer;

use super::write_duration;

/// Attempts to select an endpoint that was not tried yet.
const HOST_SELECTIONS: u64 = 5;
/// Number of attempts after which the priorities of a request are computed again.
const PRIORITY_UPDATES: u64 = 2;
const INBOUND_CONDITIONS: &str = "reset-before-request";
const INBOUND_RETRIES: u32 = 2;

const RETRY_ON: u32 = 1;
const NUM_RETRIES: u32 = 2;

/// Retries of a route's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries<'a> {
    /// None.
    None,
    /// At other endpoints; the usual ones without settings.
    Outbound(Option<&'a HttpRetries>),
    /// At the workload itself, where a request did not reach it.
    Inbound,
}

impl Retries<'_> {
    /// Returns the retries of requests that arrive at a workload's port; a retry may break streams of gRPC.
    pub(super) fn inbound(protocol: Protocol) -> Self {
        if matches!(protocol, Protocol::Grpc | Protocol::GrpcWeb) { Self::None } else { Self::Inbound }
    }
    /// Writes the policy as a field of a route's action.
    pub(super) fn write(self, wire: &mut Writer, field: u32) {
        match self {
            Self::None => {}
            Self::Inbound => wire.message(field, |w| {
                w.string(RETRY_ON, INBOUND_CONDITIONS);
                w.wrapped(NUM_RETRIES, INBOUND_RETRIES);
            }),
            Self::Outbound(None) => write_outbound(wire, field, &HttpRetries::default()),
            Self::Outbound(Some(retries)) => write_outbound(wire, field, retries),
        }
    }
}

fn write_outbound(wire: &mut Writer, field: u32, retries: &HttpRetries) {
    if retries.attempts > 0 {
        wire.message(field, |w| outbound(w, retries));
    }
}

fn outbound(wire: &mut Writer, retries: &HttpRetries) {
    wire.string(RETRY_ON, &retries.conditions);
    wire.wrapped(NUM_RETRIES, retries.attempts);
    if let Some(timeout) = retries.per_try_timeout {
        write_duration(wire, 3, timeout);
    }
    if retries.remote_localities {
        wire.message(4, |w| {
            extension(w, "envoy.retry_priorities.previous_priorities", PRIORITIES, |w| {
                w.number(1, PRIORITY_UPDATES);
            })
        });
    }
    if retries.other_hosts {
        wire.message(5, |w| extension(w, "envoy.retry_host_predicates.previous_hosts", HOSTS, |_| ()));
    }
    wire.number(6, HOST_SELECTIONS);
    for code in &*retries.codes {
        wire.number(7, (*code).into());
    }
    if let Some(wait) = retries.backoff.filter(|wait| !wait.is_zero()) {
        wire.message(8, |w| write_duration(w, 1, wait));
    }
}

const HOSTS: &str = "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate";
const PRIORITIES: &str = "envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig";

/// Writes the name and the configuration of an extension.
fn extension(wire: &mut Writer, name: &str, message: &str, write: impl FnOnce(&mut Writer)) {
    let mut config = Writer::new();
    write(&mut config);
    wire.string(1, name);
    wire.message(3, |w| {
        w.string(1, &format!("type.googleapis.com/{message}"));
        w.bytes(2, &config.finish());
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use envoy_types::pb::envoy::config::route::v3 as pb;
    use envoy_types::pb::google::protobuf;
    use prost::Message;

    use super::*;

    fn policy(retries: Retries<'_>) -> Option<pb::RetryPolicy> {
        let mut wire = Writer::new();
        retries.write(&mut wire, 9);
        pb::RouteAction::decode(&wire.finish()[..]).unwrap().retry_policy
    }
    fn mk_duration(seconds: i64, nanos: i32) -> Option<protobuf::Duration> {
        Some(protobuf::Duration { seconds, nanos })
    }

    #[test]
    fn usual_retries_go_to_other_endpoints() {
        let usual = policy(Retries::Outbound(None)).unwrap();
        assert_eq!(
            (usual.num_retries.map(|n| n.value), usual.host_selection_retry_max_attempts),
            (Some(2), 5)
        );
        assert_eq!(usual.retry_on, HttpRetries::CONDITIONS);
        assert_eq!(usual.retry_host_predicate.len(), 1);
        assert_eq!((usual.retry_priority, usual.per_try_timeout, usual.retry_back_off), (None, None, None));
    }

    #[test]
    fn every_setting_is_a_field_of_the_policy() {
        let set = HttpRetries {
            attempts: 3,
            per_try_timeout: Some(Duration::from_millis(2_500)),
            backoff: Some(Duration::from_millis(10)),
            remote_localities: true,
            other_hosts: false,
            ..HttpRetries::default().on("5xx,503,429").unwrap()
        };
        let policy = policy(Retries::Outbound(Some(&set))).unwrap();
        assert_eq!(policy.num_retries.map(|n| n.value), Some(3));
        assert_eq!(policy.retry_on, "5xx,retriable-status-codes");
        assert_eq!(policy.retriable_status_codes, [503, 429]);
        assert_eq!(policy.per_try_timeout, mk_duration(2, 500_000_000));
        assert_eq!(policy.retry_back_off.unwrap().base_interval, mk_duration(0, 10_000_000));
        assert_eq!(policy.retry_host_predicate, []);
        assert_eq!(policy.host_selection_retry_max_attempts, 5);
        let priority = policy.retry_priority.unwrap();
        assert_eq!(priority.name, "envoy.retry_priorities.previous_priorities");
        let Some(pb::retry_policy::retry_priority::ConfigType::TypedConfig(config)) = priority.config_type
        else {
            panic!("no configuration")
        };
        assert_eq!(
            (&*config.type_url, &config.value[..]),
            (&*format!("type.googleapis.com/{PRIORITIES}"), &[8, 2][..])
        );
    }

    #[test]
    fn no_attempts_are_no_policy() {
        let none = HttpRetries { attempts: 0, ..HttpRetries::default() };
        assert_eq!(policy(Retries::Outbound(Some(&none))), None);
        assert_eq!(policy(Retries::None), None);
    }

    #[test]
    fn inbound_requests_are_retried_where_they_did_not_arrive() {
        let inbound = policy(Retries::inbound(Protocol::Http)).unwrap();
        assert_eq!(
            (&*inbound.retry_on, inbound.num_retries.map(|n| n.value)),
            ("reset-before-request", Some(2))
        );
        assert_eq!(inbound.retry_host_predicate, []);
        assert_eq!(policy(Retries::inbound(Protocol::Grpc)), None);
    }
}
