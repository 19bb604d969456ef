//! Failed requests of the commands that edit, as errors for operators.
//!
//! Each names the context and the server, the verb, the resource and the namespace, and what to do next. Nothing of a Secret and no
//! credential is part of an error: of a server, host and port are shown.

use std::fmt;

use tributary_kube_client::{ApiFailure, Right, Target};
use tributary_model::Code;

use crate::exit::{CommandError, Exit};
use crate::ops::clusters::findings::host_and_port;

/// API server as an operator names it: `context home (10.0.0.1:6443)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At(String);

impl At {
    /// Names the server of a context.
    pub(super) fn of(target: &Target) -> Self {
        Self(format!("context {} ({})", target.context, host_and_port(&target.server)))
    }
    /// Names a server that no context has, such as that of a pod's own account.
    pub(super) fn server(address: &str) -> Self {
        Self(format!("the API server {}", host_and_port(address)))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Describes a failed request to a server.
pub(super) fn failed(at: &At, right: &Right, object: &str, why: ApiFailure) -> CommandError {
    match why {
        ApiFailure::Forbidden(text) => forbidden(at, right, &text),
        ApiFailure::Unauthorized(text) => CommandError {
            exit: Exit::NotAuthorised,
            ..CommandError::plain(format!("{at} refuses the operator's credential: {text}"))
        }
        .next("log in again, or use another context"),
        ApiFailure::NotFound(text) => {
            CommandError::new(Exit::NotFound, Code::NOT_FOUND, format!("{object} not found in {at}: {text}"))
                .next("check that this is the context of the right cluster")
        }
        ApiFailure::Conflict(_) if right.verb == "create" => {
            CommandError::plain(format!("{object} exists already in {at}")).next("delete it, or edit it")
        }
        ApiFailure::Conflict(text) => {
            CommandError::plain(format!("{object} of {at} was changed by another writer: {text}"))
                .next("run the command again")
        }
        why @ ApiFailure::Unreachable(_) => CommandError::plain(format!("{at}: {object}: {why}")).next(
            "check that this API server runs, and the address and the certificate authority of the context",
        ),
        other => CommandError::plain(format!("{at}: {object}: {other}")),
    }
}

/// Describes a missing right.
pub(super) fn forbidden(at: &At, right: &Right, text: &str) -> CommandError {
    let Right { verb, resource, .. } = right;
    let group = if right.group.is_empty() { String::new() } else { format!(".{}", right.group) };
    let place = match &right.namespace {
        Some(namespace) => format!("namespace {namespace}"),
        None => "the whole cluster".to_owned(),
    };
    let text = if text.is_empty() { String::new() } else { format!(": {text}") };
    let message =
        format!("{at}: the operator's credential may not {verb} {resource}{group} in {place}{text}");
    let next = format!("grant `{verb}` on `{resource}` in {place}, or use another context");
    CommandError { exit: Exit::NotAuthorised, code: None, message, next }
}

#[cfg(test)]
mod tests {
    use tributary_remote::SECRETS;

    use super::super::store::right;
    use super::*;

    fn mk(verb: &str, why: ApiFailure) -> CommandError {
        let target = Target {
            context: "home".into(),
            server: "https://user:hunter2@a.test:6443/x".into(),
            ..Target::default()
        };
        failed(&At::of(&target), &right(verb, &SECRETS, Some("system")), "Secret system/remote", why)
    }

    #[test]
    fn refused_request_names_verb_resource_and_namespace() {
        let text = mk("patch", ApiFailure::Forbidden("no".to_owned())).to_string();
        let expected = "context home (a.test:6443): the operator's credential may not patch secrets in namespace system: no\n  \
                        next: grant `patch` on `secrets` in namespace system, or use another context";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_failure_names_context_and_server_and_has_its_exit_code() {
        let text = || "x".to_owned();
        let cases = [
            (ApiFailure::Forbidden(text()), Exit::NotAuthorised),
            (ApiFailure::Unauthorized(text()), Exit::NotAuthorised),
            (ApiFailure::NotFound(text()), Exit::NotFound),
            (ApiFailure::Conflict(text()), Exit::Failed),
            (ApiFailure::Unreachable(text()), Exit::Failed),
            (ApiFailure::Server(500, text()), Exit::Failed),
        ];
        for (why, exit) in cases {
            let failure = mk("get", why);
            assert_eq!(failure.exit, exit, "{failure}");
            assert!(failure.message.contains("context home (a.test:6443)"), "{failure}");
            assert!(!failure.to_string().contains("hunter2"), "{failure}");
        }
        let exists = mk("create", ApiFailure::Conflict(text()));
        assert_eq!(exists.message, "Secret system/remote exists already in context home (a.test:6443)");
    }
}
