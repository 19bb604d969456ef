//! `tributary rbac`: the rights that `serve` with the same flags needs in a cluster, printed as roles or
//! checked against the cluster.

use std::collections::BTreeSet;

use tributary_kube_client::{Right, Writer};
use tributary_model::Code;

use super::Console;
use super::table::{Cell, Table, Tone};
use crate::args::{RbacCommand, RbacPrintArgs, ServeArgs};
use crate::config::model::{Config, RegistryConfig};
use crate::config::{RegistryKind, load};
use crate::environment::Environment;
use crate::exit::{CommandError, Exit};
use crate::ops::rights::{Rules, needed, needless, roles};
use crate::wiring::cluster::Cluster;
use crate::wiring::factories::Factories;
use crate::{overlay, serve};

/// Runs the command.
pub async fn run(
    command: &RbacCommand,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    match command {
        RbacCommand::Print(args) => print(args, env, console),
        RbacCommand::Verify(args) => verify(args, env, console).await,
    }
}

/// Returns the configuration that `serve` would run with; one cluster if it names no registry.
fn configured(args: &ServeArgs, env: &Environment) -> Result<(Config, Vec<Cluster>), CommandError> {
    let mut args = args.clone();
    let file = args.config.clone().or_else(|| env.get("TRIBUTARY_CONFIG").map(Into::into));
    if file.is_none() && args.registries.is_empty() && args.kinds.is_empty() {
        args.registries.push(RegistryConfig::of_kind(RegistryKind::Kubernetes));
    }
    let loaded = load(file.as_deref(), env, &|config, origins| overlay::apply(&args, config, origins))?;
    let clusters = Factories::new(env.clone()).clusters(&loaded.config)?;
    if clusters.is_empty() {
        return Err(CommandError::new(
            Exit::Usage,
            Code::NO_REGISTRY,
            "no Kubernetes registry is configured",
        )
        .next("add `--registry kubernetes`"));
    }
    Ok((loaded.config, clusters))
}

fn print(args: &RbacPrintArgs, env: &Environment, console: &mut Console<'_>) -> Result<Exit, CommandError> {
    let (config, clusters) = configured(&args.serve, env)?;
    let several = clusters.len() > 1;
    for cluster in &clusters {
        if several {
            console.data(&format!("# cluster {}\n", cluster.options.cluster))?;
        }
        for (namespace, rules) in &roles(&needed(cluster, &config.writes)) {
            let system = cluster.options.system_namespace.as_str();
            let namespace = namespace.as_deref();
            let name = name_of(&args.name, namespace, system);
            console.data(&role((&name, namespace), rules, &args.account, system))?;
        }
    }
    Ok(Exit::Ok)
}

/// Returns the name of a role. A role outside of the system namespace may meet those of other servers, so its name has that
/// namespace. The default one is left out: its roles are the ones with the plain name.
fn name_of(name: &str, namespace: Option<&str>, system: &str) -> String {
    if namespace == Some(system) || system == Config::default().system_namespace {
        return name.to_owned();
    }
    format!("{system}:{name}")
}

/// Writes a role, of this name and namespace, and its binding as YAML.
fn role((name, namespace): (&str, Option<&str>), rules: &Rules, account: &str, system: &str) -> String {
    let prefix = if namespace.is_some() { "" } else { "Cluster" };
    let (name, account, system) = (scalar(name), scalar(account), scalar(system));
    let place = namespace.map(|ns| format!(", namespace: {}", scalar(ns))).unwrap_or_default();
    let mut out = format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}Role\nmetadata: {{name: {name}{place}}}\nrules:\n"
    );
    for ((group, resource, name), verbs) in rules {
        let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
        let names = name.as_ref().map(|name| format!(", resourceNames: [{name}]")).unwrap_or_default();
        out.push_str(&format!(
            "- {{apiGroups: ['{group}'], resources: [{resource}]{names}, verbs: [{}]}}\n",
            verbs.join(", ")
        ));
    }
    out.push_str(&format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {prefix}RoleBinding\nmetadata: {{name: {name}{place}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {prefix}Role, name: {name}}}\n\
         subjects:\n- {{kind: ServiceAccount, name: {account}, namespace: {system}}}\n"
    ));
    out
}

/// Returns a text as a YAML scalar that is read as text; quoted only if it must be.
fn scalar(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let read = serde_saphyr::from_str::<serde_json::Value>(text);
    if text.chars().all(is_name) && read.is_ok_and(|value| value == text) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "''"))
}

/// Compares the cluster's answers with the needed rights. Exit 3 if a right is missing, else 0: excess rights
/// do not stop the server.
async fn verify(
    args: &ServeArgs,
    env: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    serve::install_crypto();
    let (config, clusters) = configured(args, env)?;
    let (mut table, mut missing, mut excess) =
        (Table::new(&["VERB", "RESOURCE", "NAMESPACE", "NEEDED", "ALLOWED"], &[], true), 0, 0);
    for cluster in &clusters {
        let connection = cluster.open().map_err(|e| CommandError::plain(e.to_string()))?;
        console.note(&format!("{} at {}", connection.described(), connection.server()));
        let writer = Writer::new(connection.client());
        let wanted = needed(cluster, &config.writes);
        missing += ask(&writer, &wanted, true, &mut table).await?;
        let not: BTreeSet<Right> = needless(&wanted).into_iter().collect();
        excess += ask(&writer, &not, false, &mut table).await?;
    }
    console.data(&table.render(true, console.color))?;
    console.note(&match (missing, excess) {
        (0, 0) => "every needed right is allowed, and no excess right".to_owned(),
        (missing, excess) => {
            format!("{missing} needed rights are missing, {excess} excess rights are allowed")
        }
    });
    if missing > 0 {
        console.note("next: `tributary rbac print` with the same flags prints the roles");
        return Ok(Exit::No);
    }
    Ok(Exit::Ok)
}

/// Requests a review of each right and returns the number of wrong answers. A right that is neither needed
/// nor allowed has no row.
async fn ask(
    writer: &Writer,
    rights: &BTreeSet<Right>,
    need: bool,
    table: &mut Table,
) -> Result<usize, CommandError> {
    let mut odd = 0;
    for right in rights {
        let allowed = writer.review(right).await;
        let allowed = allowed
            .map_err(|e| CommandError::plain(format!("the cluster did not answer the access review: {e}")))?;
        if allowed != need {
            odd += 1;
        }
        if need || allowed {
            table.row(row(right, need, allowed));
        }
    }
    Ok(odd)
}

/// Returns a resource with its group, such as `gateways.networking.istio.io`.
pub(super) fn full_name(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Describes a right, such as `list pods in every namespace`.
pub(super) fn described(right: &Right) -> String {
    let name = right.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let place = right
        .namespace
        .as_ref()
        .map_or_else(|| "in every namespace".to_owned(), |namespace| format!("in namespace {namespace}"));
    format!("{} {}{name} {place}", right.verb, full_name(&right.resource, &right.group))
}

fn row(right: &Right, need: bool, allowed: bool) -> Vec<Cell> {
    let name = right.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
    let tone = match (need, allowed) {
        (true, false) => Tone::Bad,
        (false, true) => Tone::Warn,
        _ => Tone::Plain,
    };
    let yes = |is: bool| if is { "yes" } else { "no" };
    vec![
        right.verb.clone().into(),
        format!("{}{name}", full_name(&right.resource, &right.group)).into(),
        right.namespace.clone().unwrap_or_else(|| "*".to_owned()).into(),
        yes(need).into(),
        Cell(yes(allowed).to_owned(), tone),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_text_in_the_printed_role() {
        for (account, system) in
            [("1234", "on"), ("true", "1e3"), ("it's {a: b}", "null"), ("tributary", "mesh")]
        {
            let text = role(("tributary", None), &Rules::default(), account, system);
            let binding: serde_json::Value =
                serde_saphyr::from_str(text.rsplit("---\n").next().unwrap()).unwrap();
            let subject = &binding["subjects"][0];
            assert_eq!(
                (&subject["name"], &subject["namespace"]),
                (&account.into(), &system.into()),
                "{text}"
            );
        }
        assert!(
            role(("tributary", None), &Rules::default(), "tributary", "mesh")
                .contains("name: tributary, namespace: mesh}")
        );
    }

    #[test]
    fn roles_of_two_servers_have_different_names() {
        for (name, namespace, system, want) in [
            ("tributary", None, "tributary-system", "tributary"),
            ("tributary", Some("shop"), "tributary-system", "tributary"),
            ("tributary", Some("mesh"), "mesh", "tributary"),
            ("tributary", None, "mesh", "mesh:tributary"),
            ("tributary", Some("shop"), "mesh", "mesh:tributary"),
            ("blue", None, "mesh", "mesh:blue"),
            // With `-` between both parts, these would be one.
            ("b-c", None, "a", "a:b-c"),
            ("c", None, "a-b", "a-b:c"),
        ] {
            assert_eq!(name_of(name, namespace, system), want);
        }
        let text = role(("mesh:tributary", None), &Rules::default(), "tributary", "mesh");
        for document in text.split("---\n").skip(1) {
            let object: serde_json::Value = serde_saphyr::from_str(document).unwrap();
            assert_eq!(object["metadata"]["name"], "mesh:tributary", "{document}");
            assert!(
                object["roleRef"].is_null() || object["roleRef"]["name"] == "mesh:tributary",
                "{document}"
            );
        }
    }
}
