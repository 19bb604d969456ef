//! Checks what a merge makes of a valid message, from what it changes there. The merged message is not made: a part of the value
//! that is new in it is checked whole, and of a list or a map the joined length counts.

use prost_reflect::{DynamicMessage, FieldDescriptor, ReflectMessage as _, Value};

use super::{Checked, Checker};
use crate::merge::is_whole;
use crate::read::{Step, ValueError};
use crate::types::Types;

impl Types {
    /// Checks that a valid message stays valid when another one of its type is merged into it. That one is checked already as a
    /// message that is not whole.
    pub fn check_merge(&self, into: &DynamicMessage, from: &DynamicMessage) -> Result<(), ValueError> {
        Checker { types: self, path: Vec::new() }.merge(into, from)
    }
}

impl Checker<'_> {
    fn merge(&mut self, into: &DynamicMessage, from: &DynamicMessage) -> Checked {
        from.fields().try_for_each(|(field, value)| {
            self.within(Step::Field(field.name().into()), |this| this.merge_field(into, &field, value))
        })
    }
    fn merge_field(&mut self, into: &DynamicMessage, field: &FieldDescriptor, value: &Value) -> Checked {
        let rules = self.types.rules(field);
        // a branch of a oneof whose place another one had is new, too
        if !into.has_field(field) {
            return self.value(value, rules.as_ref(), true);
        }
        match (value, &*into.get_field(field)) {
            (Value::Message(more), Value::Message(own)) if !is_whole(more) => {
                let is_skipped = rules.is_some_and(|rules| rules.skips()) || self.is_free(&more.descriptor());
                if is_skipped { Ok(()) } else { self.merge(own, more) }
            }
            (Value::List(more), Value::List(own)) => {
                let Some(rules) = rules else { return Ok(()) };
                self.holds(rules.check(&Value::List(own.iter().chain(more).cloned().collect())))
            }
            (Value::Map(more), Value::Map(own)) => {
                let Some(rules) = rules else { return Ok(()) };
                let all = own.iter().chain(more).map(|(key, value)| (key.clone(), value.clone()));
                self.holds(rules.check(&Value::Map(all.collect())))
            }
            (value, _) => self.value(value, rules.as_ref(), true),
        }
    }
}
