//! tributary-runtime.
