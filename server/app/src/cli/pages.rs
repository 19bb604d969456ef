//! `tributary completion` and `tributary man`: files for shells and for `man`, made from the definition of the command line.
//! Packages install them. They need no server.

use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use super::Console;
use crate::args::Cli;
use crate::exit::CommandError;

const NAME: &str = "tributary";

/// Writes the completion of a shell.
pub(super) fn completion(shell: Shell, console: &mut Console<'_>) -> Result<(), CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), NAME, &mut script);
    console.data(&String::from_utf8_lossy(&script))
}

/// Writes a page for each command that is not hidden into a directory, such as `tributary-get.1`.
pub(super) fn man(directory: &Path) -> Result<(), CommandError> {
    clap_mangen::generate_to(Cli::command(), directory).map_err(|e| {
        let at = directory.display();
        CommandError::plain(format!("cannot write pages to {at}: {e}; create the directory first"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_each_command_names_its_flags_and_no_hidden_command() {
        let folder = tempfile::tempdir().unwrap();
        man(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("tributary-serve.1").contains("state\\-dir"));
        assert!(read("tributary-cluster-add.1").contains("tributary\\-cluster\\-add"));
        for hidden in ["tributary-reference.1", "tributary-man.1"] {
            assert!(!folder.path().join(hidden).exists(), "{hidden}");
        }
        assert!(!read("tributary.1").contains("reference"), "a hidden command is named");
        let error = man(&folder.path().join("absent")).unwrap_err();
        assert!(error.message.contains("create the directory first"), "{}", error.message);
    }
}
