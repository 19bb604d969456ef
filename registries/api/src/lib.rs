//! tributary-registry-api.
