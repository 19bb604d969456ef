//! The binary `tributary`.
fn main() {}
