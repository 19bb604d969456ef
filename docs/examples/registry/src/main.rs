//! Tributary with registries of kind `listing`: every command and every other kind of the binary `tributary` too.

use std::process::ExitCode;

use tributary_app::Extensions;
use tributary_example_registry::ListingFactory;

fn main() -> ExitCode {
    tributary_app::run(Extensions::default().registry("listing", ListingFactory::new))
}
