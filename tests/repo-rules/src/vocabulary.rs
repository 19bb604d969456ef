//! Words, phrases and old identifiers that the repository does not use, each with its replacement. The tests in
//! `tests/` apply the table to names, comments, messages and documents.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::tree::Text;

/// A term that is not used, and the term to use.
pub type Term = (&'static str, &'static str);

/// Words, also as parts of names such as `old_word` or `OldWord`.
pub const WORDS: [Term; 49] = [
    ("say", "report, send or log"),
    ("says", "reports, sends or logs"),
    ("said", "reported"),
    ("saying", "reporting"),
    ("unsaid", "unset"),
    ("tell", "report or send"),
    ("tells", "reports or sends"),
    ("telling", "reporting"),
    ("told", "reported or sent"),
    ("untold", "unreported"),
    ("hear", "receive"),
    ("hears", "receives"),
    ("heard", "received"),
    ("hearing", "receiving"),
    ("unheard", "unknown"),
    ("word", "update, value or text"),
    ("words", "updates, values or text"),
    ("anew", "again"),
    ("herald", "status log"),
    ("heralds", "status logs"),
    ("rim", "run loop"),
    ("rims", "run loops"),
    ("pump", "core task"),
    ("pumps", "core tasks"),
    ("doorbell", "notify and fetch"),
    ("facet", "resource inputs"),
    ("facets", "resource inputs"),
    ("surroundings", "cluster context"),
    ("inlet", "update sender"),
    ("inlets", "update senders"),
    ("outlet", "update receiver"),
    ("outlets", "update receivers"),
    ("whoever", "the name of the component"),
    ("nobody", "no client, no operator or the name of the component"),
    ("fares", "status"),
    ("faring", "status"),
    ("duty", "work queue or task"),
    ("duties", "tasks"),
    ("lest", "so that it does not"),
    ("whence", "from which"),
    ("hither", "here"),
    ("aught", "anything"),
    ("nought", "nothing or zero"),
    ("thereof", "of it"),
    ("wherein", "in which"),
    ("betwixt", "between"),
    ("amid", "during or among"),
    ("nay", "no"),
    ("oft", "often"),
];

/// Phrases: negated nouns and inversions.
pub const PHRASES: [Term; 6] = [
    ("is none", "is absent, or a sentence with a verb"),
    ("is another", "changed or differs"),
    ("are others", "changed or differ"),
    ("no more.", "no longer"),
    ("no more,", "no longer"),
    ("of which is none", "without any"),
];

/// Identifiers, keys and metrics of earlier versions.
pub const IDENTIFIERS: [Term; 38] = [
    ("AliasMember", "FederatedMember"),
    ("AskSender", "ConfirmSender"),
    ("Asks", "ConfirmReceiver"),
    ("Chance", "RandomSource"),
    ("ClassKey", "ClientClassKey"),
    ("Dims", "ClientDimensions"),
    ("DropRecords", "NoJournal"),
    ("Ground", "WorkloadAttributes"),
    ("LeftOut", "ExcludedObject"),
    ("RecordSink", "JournalSink"),
    ("RegistryDelta", "RegistryUpdate"),
    ("Remark", "DeclarationWarning"),
    ("SaidPod", "PodWorkload"),
    ("Seat", "MemberEntry or ClientEntryGuard"),
    ("Spot", "EntryTopology"),
    ("Standing", "ShardPriority, SourceHealth or LoggedState"),
    ("Sweep", "StaleSet"),
    ("Sweeping", "FullPasses"),
    ("Unsure", "PossiblyPartial"),
    ("mk.rs", "fixtures.rs"),
    ("activeUntilHealthyBelow", "minHealthyActive"),
    ("activeUntilSilentFor", "standbyAfterStale"),
    ("barTags", "pipeTags"),
    ("leaveOutKubernetes", "excludeKubernetesCopies"),
    ("liveFor", "staleAfter"),
    ("saidMillisAgo", "reportedMillisAgo"),
    ("set_standing", "a status of the registry"),
    ("syncedClusters", "catalogSyncNodes"),
    ("tributary_guard_held", "tributary_removals_held"),
    ("tributary_house", "tributary_repo_rules"),
    ("tributary_source_detail", "tributary_scope_detail"),
    ("tributary_source_live", "tributary_scope_live"),
    ("tributary_source_mode", "tributary_scope_mode"),
    ("tributary_xds_noop_suppressed_total", "tributary_xds_noop_wakeups_total"),
    ("KubeSurroundings", "ClusterContext"),
    ("DoorbellMode", "NotifyAndFetch"),
    ("first_words", "initial_updates"),
    ("tell_cluster", "report_cluster"),
];

/// A file that may use a term, with the reason; every term where `term` is `*`.
#[derive(Debug, Clone, Copy)]
pub struct Exception {
    /// Path of the file, or of a folder with `/` at its end.
    pub path: &'static str,
    /// The term.
    pub term: &'static str,
    /// Reason why the term is correct there.
    pub reason: &'static str,
}

/// Uses that are correct.
pub const EXCEPTIONS: [Exception; 2] = [
    Exception { path: "tests/repo-rules/src/vocabulary.rs", term: "*", reason: "holds the table" },
    Exception { path: "CHANGELOG.md", term: "*", reason: "lists replaced names beside the new ones" },
];

static WORD_TABLE: LazyLock<HashMap<&str, Term>> =
    LazyLock::new(|| WORDS.iter().map(|term| (term.0, *term)).collect());

static IDENTIFIER_TABLE: LazyLock<HashMap<&str, Term>> =
    LazyLock::new(|| IDENTIFIERS.iter().map(|term| (term.0, *term)).collect());

const KINDS: [&str; 8] = [".rs", ".md", ".py", ".sh", ".toml", ".yaml", ".json", ".tsv"];

/// Returns the uses of terms that are not used, with the line and the replacement.
pub fn faults(texts: &[Text]) -> Vec<String> {
    let checked = texts.iter().filter(|text| KINDS.iter().any(|kind| text.path.ends_with(kind)));
    checked.flat_map(faults_of).collect()
}

fn faults_of(text: &Text) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.text.lines().enumerate() {
        let found = terms(line).into_iter().filter(|(old, _)| !is_allowed(&text.path, old));
        faults.extend(
            found.map(|(old, new)| format!("{}:{}: {old:?} is not used; write {new}", text.path, number + 1)),
        );
    }
    faults
}

/// Returns the terms of the table that a line uses.
fn terms(line: &str) -> Vec<Term> {
    let lower = line.to_lowercase();
    let phrases = PHRASES.iter().filter(|(old, _)| lower.contains(old)).copied();
    let identifiers = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')));
    let identifiers = identifiers.filter_map(|name| IDENTIFIER_TABLE.get(name.trim_matches('.')));
    let words = split_words(line);
    let words = words.iter().filter_map(|word| WORD_TABLE.get(word.as_str()));
    phrases.chain(identifiers.copied()).chain(words.copied()).collect()
}

/// Splits a line into lowercase words: at characters other than letters, and before a capital letter in a name.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (was_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if let (true, Some(last)) = (c.is_alphabetic(), words.last_mut()) {
            last.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_allowed(path: &str, old: &str) -> bool {
    EXCEPTIONS.iter().any(|allowed| {
        let here = allowed.path == path || (allowed.path.ends_with('/') && path.starts_with(allowed.path));
        here && (allowed.term == "*" || allowed.term == old)
    })
}

/// Returns exceptions whose file does not exist or does not use the term.
pub fn unused_exceptions(texts: &[Text]) -> Vec<String> {
    let is_used = |allowed: &Exception| {
        let here = texts.iter().filter(|text| text.path.starts_with(allowed.path));
        let mut found = here.flat_map(|text| text.text.lines()).flat_map(terms);
        found.any(|(old, _)| allowed.term == "*" || allowed.term == old)
    };
    let unused = EXCEPTIONS.iter().filter(|allowed| !is_used(allowed));
    unused.map(|allowed| format!("{}: remove the exception for {:?}", allowed.path, allowed.term)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> Vec<String> {
        faults(&[Text::new(path, line)])
    }

    #[test]
    fn unused_word_is_found_with_line_and_replacement() {
        assert_eq!(
            found("a.rs", "//! X.\n// a herald"),
            ["a.rs:2: \"herald\" is not used; write status log"]
        );
    }

    #[test]
    fn word_is_found_in_every_kind_of_name() {
        for line in ["fn first_word() {}", "struct WordList;", "Words", "a-word: x", "SAID"] {
            assert_eq!(found("a.rs", line).len(), 1, "{line}");
        }
    }

    #[test]
    fn longer_words_are_not_found() {
        for line in ["essay, password, retell, hearsay, keywords", "trimmed pumpkin", "shears"] {
            assert_eq!(found("a.md", line), [""; 0], "{line}");
        }
    }

    #[test]
    fn phrase_and_old_identifier_are_found() {
        assert_eq!(found("a.md", "There IS NONE here").len(), 1);
        assert_eq!(found("a.rs", "let x: LeftOut = y;").len(), 1);
        assert_eq!(found("a.rs", "let x: LeftOuter = y;"), [""; 0]);
    }

    #[test]
    fn exceptions_and_other_kinds_of_files_pass() {
        assert_eq!(found("CHANGELOG.md", "herald"), [""; 0]);
        assert_eq!(found("a.go", "herald"), [""; 0]);
    }
}
