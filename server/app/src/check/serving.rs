//! Checks of the server itself, of its configuration, and of policies.

use jiff::SignedDuration;
use serde_json::Value;
use tributary_model::Code;

use super::conditions;
use super::finding::{counted, needs_nothing, without_next};
use super::{Documents, Finding, Found};
use crate::document::PolicyItem;

/// Largest difference of two clocks that is not reported.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// Judges whether the server answered each request.
pub(super) fn answers(documents: &Documents) -> Found {
    let silent = documents.silent.iter().map(|why| {
        Finding::error("no answer", why).about("server", &documents.server).code(Code::SERVER_UNREACHABLE)
    });
    let missing = documents.missing.iter().map(|(path, why)| {
        let message = format!("{path} cannot be read: {why}");
        Finding::warning("a document is missing", message).about("server", &documents.server)
    });
    Found::new(documents.server.as_str(), silent.chain(missing).collect())
}

/// Judges readiness. What concerns one registry, policy or file has a check of its own.
pub(super) fn ready(documents: &Documents) -> Found {
    let Some(readiness) = &documents.readiness else { return Found::skipped("not known") };
    if readiness.ready {
        return Found::new("", Vec::new());
    }
    let failed = readiness.checks.iter().filter(|check| !check.ok);
    let reasons: Vec<String> = failed
        .map(|check| match &*check.detail {
            "" => check.name.clone(),
            detail => format!("{}: {detail}", check.name),
        })
        .collect();
    let finding = Finding::error("not ready", reasons.join("; ")).about("server", &documents.server);
    Found::new("", vec![finding])
}

/// Compares the versions of both sides.
pub(super) fn version(documents: &Documents) -> Found {
    let Some(server) = &documents.version else { return Found::skipped("not known") };
    let (own, theirs) = (&documents.reader_version, &server.version);
    let differ = (own != theirs).then(|| {
        Finding::warning("another version", format!("the server has {theirs}, this program {own}"))
            .about("server", &documents.server)
    });
    Found::new(theirs.as_str(), differ.into_iter().collect())
}

/// Compares the clocks of reader and server.
pub(super) fn clock(documents: &Documents) -> Found {
    let Some(server) = documents.server_time else { return Found::skipped("not known") };
    let skew = server.duration_since(documents.now).abs();
    let apart = format!("{} s apart", skew.as_secs());
    let differ = (skew > SKEW)
        .then(|| Finding::warning("clocks differ", apart.as_str()).about("server", &documents.server));
    Found::new(apart, differ.into_iter().collect())
}

/// Judges the last reload of the configuration file.
pub(super) fn reload(documents: &Documents) -> Found {
    let last = &documents.config["lastReload"];
    let text = |field: &str| last.get(field).and_then(Value::as_str).unwrap_or_default();
    let error = Some(text("error")).filter(|error| !error.is_empty()).map(|error| {
        Finding::error(
            "a change is not in use",
            format!("{} at {}: {}", text("result"), text("at"), without_next(error)),
        )
        .code(Code::CONFIG_RELOAD_FAILED)
    });
    let fields = last.get("needsRestart").and_then(Value::as_array).into_iter().flatten();
    let fields: Vec<&str> = fields.filter_map(Value::as_str).collect();
    let restart = (!fields.is_empty()).then(|| {
        Finding::warning("a restart is needed", format!("changed and not in use: {}", fields.join(", ")))
            .next("restart the server, replica by replica")
    });
    let summary = documents.config["file"].as_str().unwrap_or("no file");
    Found::new(summary, error.into_iter().chain(restart).collect())
}

/// Judges the status of each policy.
pub(super) fn policies_valid(documents: &Documents) -> Found {
    let invalid = documents.policies.iter().filter(|policy| policy.status != "Served");
    let invalid = invalid.filter(|policy| !policy.status.is_empty());
    let shown = documents.policies.len();
    let summary = match documents.more_policies {
        0 => counted(shown as u64, "policy", "policies"),
        more => format!("{shown} of {} policies", shown + more),
    };
    Found::new(summary, invalid.map(invalid_policy).collect())
}

fn invalid_policy(policy: &PolicyItem) -> Finding {
    let message = format!("{}: {}", policy.status, policy.reason);
    let is_unserved_kind = policy.code == Code::KIND_NOT_SERVED.to_string();
    let made = match &*policy.status {
        _ if is_unserved_kind => Finding::info("the kind is not served", message),
        "NotServed" if needs_nothing(&policy.code) => Finding::info("not served", message),
        "NotServed" => Finding::error("no version is valid", message),
        _ => Finding::warning("the newest version is not valid", message),
    };
    made.about(&policy.kind, format!("{}/{}", policy.namespace, policy.name)).coded(&policy.code)
}

/// Counts the conditions of policies.
pub(super) fn policy_conditions(documents: &Documents) -> Found {
    let counts = conditions::of_policies(&documents.policies);
    let count: u64 = counts.iter().map(|row| row.count).sum();
    Found::new(
        counted(count, "condition", "conditions"),
        conditions::findings(("policy", "policies"), &counts),
    )
}
