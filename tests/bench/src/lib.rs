//! An empty library: `tributary-bench` is a program.
