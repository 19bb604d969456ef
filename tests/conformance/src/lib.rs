//! tributary-conformance.
