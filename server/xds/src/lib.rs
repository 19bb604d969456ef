//! tributary-xds.
