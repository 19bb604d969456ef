//! Limits of the lists of a document, for the rules of each kind.

use tributary_model::Code;

use crate::read::fault::{Faults, Pos};

/// Refuses lists that are longer than they may be: each has a path, its length and its limit. `fix` is the correction.
pub(super) fn refuse_longer(
    lists: impl IntoIterator<Item = (String, usize, usize)>,
    at: Pos,
    fix: &str,
    faults: &mut Faults,
) {
    for (path, have, most) in lists.into_iter().filter(|(_, have, most)| have > most) {
        let message = format!("{path} has {have} items, more than {most}; {fix}");
        faults.refuse(Code::DOCUMENT_TOO_LARGE, at, message);
    }
}
