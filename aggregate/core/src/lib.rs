//! tributary-core.
