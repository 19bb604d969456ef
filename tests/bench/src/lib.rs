//! tributary-bench.
