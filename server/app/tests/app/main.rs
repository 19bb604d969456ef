//! Tests of the whole application in one process: commands against servers that they start. One binary, because each would link
//! the application again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod config_support;
#[path = "../support/world.rs"]
mod world;

mod admin;
mod alerts;
mod analyze;
mod check_command;
mod check_table;
mod check_worlds;
mod clients;
mod cluster;
mod cluster_check;
mod config;
mod config_errors;
mod console;
mod destination_rules;
mod events;
mod gateways;
mod guard;
mod merges;
mod migrate;
mod pages;
mod pending;
mod policies;
mod profiles;
mod rejections;
mod resources;
mod routes;
mod security_policies;
mod serve;
mod state;
mod state_commands;
mod state_damage;
mod traces;
