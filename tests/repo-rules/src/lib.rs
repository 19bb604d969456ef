//! Checks of the repository: dependencies between crates, the layout of files, and the ledger of rules and
//! their tests. Each check is a function over values and has a test that shows it red; the tests in
//! `tests/` apply each check to this tree.

pub mod circles;
pub mod dependencies;
pub mod layers;
pub mod layout;
pub mod ledger;
pub mod references;
pub mod rules;
pub mod scan;
pub mod tree;
pub mod vocabulary;
