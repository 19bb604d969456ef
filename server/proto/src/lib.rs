//! tributary-proto.
