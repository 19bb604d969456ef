//! Edits that a command prints because it makes none: of the configuration file and of the files of `remotes.directory`.
//!
//! Replicas read these files, each its own copy, so that only their owner can change them. Every text is a function of its arguments.

use super::super::Console;
use crate::exit::{CommandError, Exit};
use tributary_remote::roster::DRAIN;

/// Prints the edit of a cluster's entry of `remotes.clusters`; without a value the field is to be removed.
pub(super) fn policy(
    (name, path): (&str, &str),
    field: &str,
    value: Option<&str>,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    console.note(&format!("cluster `{name}` is declared by file {path}; nothing was changed"));
    console.data(&entry(name, field, value))?;
    Ok(Exit::No)
}

fn entry(name: &str, field: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!(
            "set this in the configuration file of every server:\nremotes:\n  clusters:\n    {name}:\n      {field}: {value}\n"
        ),
        None => {
            format!("remove `remotes.clusters.{name}.{field}` from the configuration file of every server\n")
        }
    }
}

/// Prints how a cluster of a file is removed, after this drain if one is given.
pub(super) fn removal(
    (name, path): (&str, &str),
    drain: Option<String>,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    if let Some(drain) = drain {
        // the policy counts while the file is there
        policy((name, path), DRAIN, Some(&drain), console)?;
        console
            .data("      remove: true\nwhen `tributary cluster wait` shows it as removed, delete both:\n")?;
    } else {
        console.note(&format!("cluster `{name}` is declared by file {path}; nothing was changed"));
        console.data("delete its file for every server:\n")?;
    }
    console.data(&format!("rm {path}\n"))?;
    Ok(Exit::No)
}

/// Prints the edit of the configuration file that removes a configured cluster.
pub(super) fn configured(
    name: &str,
    registries: &[String],
    has_drain: bool,
    console: &mut Console<'_>,
) -> Result<Exit, CommandError> {
    let Some(registry) = registries.first() else {
        return Err(CommandError::new(
            Exit::NotFound,
            tributary_model::Code::NOT_FOUND,
            format!("cluster `{name}` has no registry"),
        ));
    };
    console.note(&format!("cluster `{name}` is one of the configuration file; nothing was changed"));
    if has_drain {
        console.note("a cluster of the configuration file is not drained: its endpoints go with its entry");
    }
    console.data(&format!("remove this entry of `registries` from the configuration file:\n- name: {registry}\n  kind: kubernetes\n"))?;
    Ok(Exit::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_entry_is_configuration() {
        let text = entry("east", "paused", Some("true"));
        let (_, yaml) = text.split_once('\n').unwrap();
        let config: crate::config::Config = serde_saphyr::from_str(yaml).unwrap();
        assert!(config.remotes.clusters["east"].paused, "{yaml}");
        assert!(entry("east", "paused", None).starts_with("remove `remotes.clusters.east.paused`"));
    }
}
