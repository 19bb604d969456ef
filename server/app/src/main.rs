//! The binary `tributary`.

use std::process::ExitCode;

use tributary_app::Extensions;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tributary_app::run(Extensions::default())
}
