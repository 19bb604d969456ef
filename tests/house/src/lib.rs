//! The rules of the house, as checks: who may depend on whom, how files are laid out, and the ledger of what
//! is proven by which test. Each check is a function over values with a test that shows it red; the tests in
//! `tests/` apply it to this tree.

pub mod dependencies;
pub mod layers;
pub mod layout;
pub mod ledger;
pub mod rules;
pub mod scan;
pub mod tree;
