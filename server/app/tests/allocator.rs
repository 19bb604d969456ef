//! The allocator's options in the binary: without them it keeps the freed pages of a storm.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::process::Command;

/// Returns an option as the binary prints it at its end, with these options in the environment.
fn option(name: &str, environment: &str) -> String {
    let mut binary = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let options = format!("stats_print:true{environment}");
    let output = binary.arg("--version").env("_RJEM_MALLOC_CONF", options).output().unwrap();
    let all = String::from_utf8(output.stderr).unwrap();
    let line = all.lines().find_map(|line| line.trim().strip_prefix(&format!("opt.{name}: ")));
    let value = line.and_then(|line| line.split(' ').next());
    value.unwrap_or_else(|| panic!("no {name} in {all:?}")).to_owned()
}

#[test]
fn freed_pages_return_to_the_system_within_a_second() {
    assert_eq!(option("background_thread", ""), "true");
    assert_eq!(option("dirty_decay_ms", ""), "1000");
    assert_eq!(option("muzzy_decay_ms", ""), "0");
}

#[test]
fn the_environment_overrides_an_option() {
    assert_eq!(option("dirty_decay_ms", ",dirty_decay_ms:10000"), "10000");
    assert_eq!(option("background_thread", ",dirty_decay_ms:10000"), "true");
}
