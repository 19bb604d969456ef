//! tributary-house.
