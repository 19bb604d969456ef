//! tributary-worlds.
