//! tributary-suites.
