//! tributary-service-entry.
