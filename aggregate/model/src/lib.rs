//! tributary-model.
