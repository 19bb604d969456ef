//! How single words of an instance are understood: its names, its health and weight, its address.
//!
//! Each module owns one rule, without order and without state; the parts together make no facts here.

pub mod address;
pub mod health;
pub mod name;
