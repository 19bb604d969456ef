//! Tests of the core through its public methods: facts in, catalogs out.

mod aliases;
mod audit;
mod costs;
mod explain;
pub(crate) mod fixtures;
mod generations;
mod guard;
mod joins;
mod journal;
mod merge;
mod naive;
mod names;
mod outage;
mod parts;
mod pending;
mod policies;
mod properties;
mod rotation;
mod rule_properties;
mod rules;
mod selection;
mod stale_sets;
mod statuses;
mod storms;
mod unread;
mod virtual_services;
mod visibility;
