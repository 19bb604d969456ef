//! tributary-answer.
