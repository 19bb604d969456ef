//! Chooses the journal's directory, and decides what happens if it cannot be used.
//!
//! Called once, at start; pure, so a table test covers the order.

use std::path::{Path, PathBuf};

use super::directory::DirectoryError;

/// Settings that name a directory.
#[derive(Debug, Clone, Default)]
pub struct StateEnvironment {
    /// `--state-dir`.
    pub flag: Option<PathBuf>,
    /// `$STATE_DIRECTORY`, as systemd sets it: several directories are separated by colons, of which the first counts.
    pub state_directory: Option<String>,
    /// `$XDG_STATE_HOME`.
    pub xdg_state_home: Option<String>,
    /// `$HOME`.
    pub home: Option<String>,
}

/// A chosen directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChoice {
    /// The directory.
    pub path: PathBuf,
    /// Whether flag or `$STATE_DIRECTORY` named this very directory: then a second process is an error.
    pub named: bool,
}

/// Consequence of a directory that cannot be used.
#[derive(Debug)]
pub enum StateRefusal {
    /// The process does not start.
    Refuse(DirectoryError),
    /// The process starts without a journal, with a warning.
    Without(DirectoryError),
}

/// Chooses the directory: the flag, then `$STATE_DIRECTORY`, then `$XDG_STATE_HOME/tributary`, then
/// `~/.local/state/tributary` if `can_make` reports that it can be created, then `/var/lib/tributary`. Ignores relative
/// paths of variables, as their specification requires.
#[must_use]
pub fn choose_directory(from: &StateEnvironment, can_make: impl Fn(&Path) -> bool) -> StateChoice {
    if let Some(flag) = &from.flag {
        return StateChoice { path: flag.clone(), named: true };
    }
    let absolute = |text: &Option<String>| text.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
    let first =
        from.state_directory.as_ref().map(|list| list.split(':').next().unwrap_or_default().to_owned());
    if let Some(path) = absolute(&first) {
        return StateChoice { path, named: true };
    }
    if let Some(path) = absolute(&from.xdg_state_home) {
        return StateChoice { path: path.join("tributary"), named: false };
    }
    let home = absolute(&from.home).map(|home| home.join(".local/state/tributary"));
    let path = home.filter(|path| can_make(path)).unwrap_or_else(|| PathBuf::from("/var/lib/tributary"));
    StateChoice { path, named: false }
}

/// Decides about a directory that cannot be used. A named directory that another process holds is a mistake that would
/// leave one process without a journal; any other error leaves this one without, which it reports.
#[must_use]
pub fn refusal(choice: &StateChoice, error: DirectoryError) -> StateRefusal {
    match error {
        DirectoryError::Held { .. } if choice.named => StateRefusal::Refuse(error),
        error => StateRefusal::Without(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_follows_the_order_of_its_names() {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let cases = [
            ("/f", "/s", "/x", "/h", true, "/f", true),
            ("", "/s:/t", "/x", "/h", true, "/s", true),
            ("", "", "/x", "/h", true, "/x/tributary", false),
            ("", "relative", "also/relative", "/h", true, "/h/.local/state/tributary", false),
            ("", "", "", "/h", false, "/var/lib/tributary", false),
            ("", "", "", "", true, "/var/lib/tributary", false),
        ];
        for (flag, state, xdg, home, can, path, named) in cases {
            let from = StateEnvironment {
                flag: some(flag).map(PathBuf::from),
                state_directory: some(state),
                xdg_state_home: some(xdg),
                home: some(home),
            };
            let want = StateChoice { path: path.into(), named };
            assert_eq!(choose_directory(&from, |_| can), want);
        }
    }

    #[test]
    fn second_holder_of_a_named_directory_is_an_error() {
        let held = || DirectoryError::Held { path: "/d".into(), pid: Some(7) };
        let choice = |named| StateChoice { path: "/d".into(), named };
        assert!(matches!(refusal(&choice(true), held()), StateRefusal::Refuse(_)));
        assert!(matches!(refusal(&choice(false), held()), StateRefusal::Without(_)));
        let io = DirectoryError::Io("/d".into(), std::io::ErrorKind::PermissionDenied.into());
        assert!(matches!(refusal(&choice(true), io), StateRefusal::Without(_)));
    }
}
