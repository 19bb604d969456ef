//! The core as its owner sees it: facts in, catalogs out.

mod merge;
mod mk;
