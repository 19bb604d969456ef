//! Checks of registries: state, runs, quarantined objects, rights and kinds; of gateways, and of Consul's tokens.

use std::collections::BTreeMap;

use tributary_model::Code;

use super::finding::{counted, needs_nothing};
use super::{Documents, Finding, Found};
use crate::document::registries::{PartItem, SourceItem};
use crate::document::{GatewayItem, RegistryItem};

/// Start of the reason of a watched kind that a cluster does not have.
const NOT_SERVED: &str = "not served";
/// Next step about a folder that cannot be read.
const FOLDER_UNREAD: &str =
    "create the folder or correct `path` of the registry; its last known facts stay served";
/// Next step about a folder that the server may not read.
const FOLDER_CLOSED: &str =
    "let the account of the server read the folder and its files; its last known facts stay served";
/// Value of the detail of a Consul whose answers the token limits.
const FILTERED: &str = "filtered by ACLs";

/// Judges the state of each registry that belongs to no cluster; those of clusters are judged with their cluster.
pub(super) fn live(documents: &Documents) -> Found {
    let own = || documents.registries.iter().filter(|one| !documents.is_of_cluster(&one.name));
    let live = own().filter(|one| one.state == "Live").count();
    let findings = own().filter_map(state).collect();
    let shown = match own().count() {
        0 => "those of clusters are judged with their clusters".to_owned(),
        count => format!("{live} of {count} Live"),
    };
    Found::new(shown, findings)
}

fn state(one: &RegistryItem) -> Option<Finding> {
    let since = one.sources.iter().filter_map(|source| source.since_millis_ago).max();
    let message = match &*one.reason {
        "" => one.state.clone(),
        reason => format!("{}: {reason}", one.state),
    };
    let code = match &*one.state {
        "Live" if one.reason.is_empty() => return None,
        "Live" => {
            let note = Finding::warning("a note on the registry", one.reason.as_str());
            return Some(note.about("registry", one.name.as_str()));
        }
        "Syncing" => Code::REGISTRY_UNKNOWN,
        "Stale" => Code::REGISTRY_STALE,
        "AuthFailed" | "Forbidden" => Code::SOURCE_FORBIDDEN,
        "Unreachable" | "Broken" => Code::SOURCE_UNREACHABLE,
        _ => Code::REGISTRY_FAILED,
    };
    let title = if one.state == "Syncing" { "not synced" } else { "not Live" };
    // the codes of sources speak of programs that run elsewhere
    let next = match (&*one.kind, code) {
        ("file", Code::SOURCE_UNREACHABLE) => FOLDER_UNREAD,
        ("file", Code::SOURCE_FORBIDDEN) => FOLDER_CLOSED,
        _ => "",
    };
    let since = if one.state == "Stale" { one.confirmed_millis_ago.or(since) } else { since };
    let made = Finding::error(title, message).next(next).about("registry", one.name.as_str());
    Some(made.since(since).code(code))
}

/// Judges runs that do not take over.
pub(super) fn runs(documents: &Documents) -> Found {
    let one = |one: &RegistryItem| {
        let finding = |title: &str, message: String| {
            Finding::warning(title, message).about("registry", one.name.as_str())
        };
        let why =
            if one.waits_for.is_empty() { "the new run waits".to_owned() } else { one.waits_for.clone() };
        match () {
            () if one.needs_accept && documents.is_of_cluster(&one.name) => Some(
                finding("a new run waits to be accepted", why)
                    .next(format!("if that is intended: `tributary cluster accept {}`", one.cluster)),
            ),
            () if one.needs_accept => Some(
                finding("a new run waits to be accepted", why)
                    .next(format!("if that is intended: `tributary state accept {}`", one.name)),
            ),
            () if one.failures > 0 && one.state == "Live" => {
                Some(finding("a new run fails", format!("{} failed runs in a row", one.failures)))
            }
            () => None,
        }
    };
    Found::new("", documents.registries.iter().filter_map(one).collect())
}

/// Counts quarantined objects by registry and code.
pub(super) fn problems(documents: &Documents) -> Found {
    let total: u64 = documents.registries.iter().map(|one| one.problems_total).sum();
    Found::new(
        counted(total, "object", "objects"),
        documents.registries.iter().flat_map(problems_of).collect(),
    )
}

fn problems_of(one: &RegistryItem) -> Vec<Finding> {
    let mut by_code: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for problem in &one.problems {
        by_code.entry(&problem.code).or_default().push(format!("{}: {}", problem.object, problem.message));
    }
    let listed = one.problems.len() as u64;
    let more = one.problems_total.saturating_sub(listed);
    let more = if more > 0 { format!(" (of the {listed} that are listed)") } else { String::new() };
    let finding = |(code, all): (&str, Vec<String>)| {
        let message = format!(
            "{}{more}, such as {}",
            counted(all.len() as u64, "object", "objects"),
            all.first().cloned().unwrap_or_default()
        );
        let has_action = code != Code::KIND_NOT_SERVED.to_string() && !needs_nothing(code);
        let made = if has_action {
            Finding::warning("objects are not valid", message)
        } else {
            Finding::info("objects of a kind that is not served", message)
        };
        made.about("registry", one.name.as_str()).coded(code)
    };
    by_code.into_iter().map(finding).collect()
}

/// Returns the parts of every source with their registry.
fn parts(documents: &Documents) -> impl Iterator<Item = (&RegistryItem, &SourceItem, &PartItem)> {
    let sources = documents.registries.iter().flat_map(|one| one.sources.iter().map(move |of| (one, of)));
    sources.flat_map(|(one, source)| source.parts.iter().map(move |part| (one, source, part)))
}

/// Judges what the credentials lack.
pub(super) fn rights(documents: &Documents) -> Found {
    let is_closed = |state: &str| matches!(state, "Forbidden" | "AuthFailed");
    let parts = parts(documents).filter(|(.., part)| part.state == "Forbidden").map(|(one, _, part)| {
        let message = format!("{}: {}", part.name, part.reason);
        let made = if is_closed(&one.state) {
            Finding::error("a right is missing", message)
        } else {
            Finding::warning("a right is missing", message)
        };
        made.about("registry", one.name.as_str())
            .since(Some(part.since_millis_ago))
            .code(Code::CLUSTER_RIGHT_MISSING)
    });
    let whole = documents.registries.iter().filter(|one| one.sources.iter().all(|of| of.parts.is_empty()));
    let whole = whole.flat_map(|one| one.sources.iter().map(move |source| (one, source)));
    let whole = whole.filter(|(_, source)| is_closed(&source.state)).map(|(one, source)| {
        Finding::error("access is refused", format!("scope {}: {}", source.scope, source.reason))
            .about("registry", one.name.as_str())
            .since(source.since_millis_ago)
            .code(Code::SOURCE_FORBIDDEN)
    });
    Found::new("", parts.chain(whole).collect())
}

/// Judges kinds that are not installed or cannot be read.
pub(super) fn kinds(documents: &Documents) -> Found {
    let finding = |(one, _, part): (&RegistryItem, &SourceItem, &PartItem)| {
        let message = format!("{}: {}", part.name, part.reason);
        let made = match &*part.state {
            _ if part.reason.starts_with(NOT_SERVED) => Finding::info("not installed", message),
            "Broken" | "Unreachable" => Finding::warning("cannot be read", message)
                .since(Some(part.since_millis_ago))
                .code(Code::SOURCE_UNREACHABLE),
            _ => return None,
        };
        Some(made.about("registry", one.name.as_str()))
    };
    let count = parts(documents).count();
    Found::new(counted(count as u64, "kind", "kinds"), parts(documents).filter_map(finding).collect())
}

/// Judges the gateways of each network: a network without a usable one is closed to others.
pub(super) fn gateways(documents: &Documents) -> Found {
    let is_used = |one: &GatewayItem| one.state == "Used";
    let mut networks: BTreeMap<&str, bool> = BTreeMap::new();
    for one in &documents.gateways {
        *networks.entry(&one.network).or_default() |= is_used(one);
    }
    let finding = |one: &GatewayItem| {
        let object = one.source.to_string();
        let place = format!("network {}, {object}", one.network);
        let made = match (is_used(one), &*one.failing) {
            (true, "") => return None,
            (true, failing) => Finding::warning("a host name is not resolved", format!("{place}: {failing}"))
                .code(Code::GATEWAY_NAME_FAILING),
            (false, _) if networks.get(&*one.network) == Some(&true) => {
                Finding::warning("a gateway is not used", format!("{place}: {}", one.reason))
                    .code(Code::GATEWAY_UNUSABLE)
            }
            (false, _) => {
                let message = format!("{place}: {}; no other gateway of the network is usable", one.reason);
                Finding::error("a network is closed", message).code(Code::GATEWAY_UNUSABLE)
            }
        };
        let name = if one.address.is_empty() { object } else { one.address.clone() };
        Some(made.about("gateway", name).since(one.failing_millis_ago))
    };
    let findings = documents.gateways.iter().filter_map(finding).collect();
    Found::new(format!("{} gateways of {} networks", documents.gateways.len(), networks.len()), findings)
}

/// Judges what the tokens of Consul show.
pub(super) fn consul(documents: &Documents) -> Found {
    let consuls = || documents.registries.iter().filter(|one| one.kind == "consul");
    if consuls().next().is_none() {
        return Found::skipped("no Consul is configured");
    }
    let sources = consuls().flat_map(|one| one.sources.iter().map(move |source| (one, source)));
    let findings = sources.flat_map(|(one, source)| {
        let has = |name: &str| source.details.iter().find(|detail| detail.name == name);
        let scope = &source.scope;
        let filtered = has("ACL view").filter(|view| view.value == FILTERED).map(|_| {
            Finding::warning("answers are filtered", format!("datacenter {scope}: the token sees a part"))
        });
        let doubtful = has("doubtful").and_then(|detail| detail.number).filter(|count| *count > 0);
        let doubtful = doubtful.map(|count| {
            let message = format!(
                "datacenter {scope}: answers about {} confirm nothing",
                counted(count, "service", "services")
            );
            Finding::warning("answers are doubtful", message)
                .next("see the state of the datacenter with `tributary get registries -o wide`")
        });
        let refused = (source.state == "AuthFailed").then(|| {
            Finding::error("the token is refused", format!("datacenter {scope}: {}", source.reason))
                .code(Code::SOURCE_FORBIDDEN)
        });
        let all = filtered.into_iter().chain(doubtful).chain(refused);
        all.map(|found| found.about("registry", one.name.as_str())).collect::<Vec<_>>()
    });
    Found::new(counted(consuls().count() as u64, "Consul", "Consuls"), findings.collect())
}
