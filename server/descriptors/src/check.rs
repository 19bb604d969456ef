//! Checks messages against the rules that Envoy's API declares for its fields, such as bounds of numbers and fields that are
//! required. Envoy refuses a message that breaks one, and with it, in a stream of whole states, every resource of the answer.
//!
//! Readers of EnvoyFilters call it for each value. Rules of patterns and of addresses are not checked.

mod merged;
mod rules;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use crate::read::{Step, ValueError, ValuePath, is_wrapper};
use crate::types::{ANY, Types};
use rules::{Broken, FieldRules};

/// Levels of nesting that are checked.
const MAX_DEPTH: usize = 64;

impl Types {
    /// Checks an encoded message of a type. A message that is not whole is merged into another one: what it lacks may be there.
    pub fn check(&self, name: &str, bytes: &[u8], whole: bool) -> Result<(), ValueError> {
        let Some(message) = self.decode(name, bytes) else { return Ok(()) };
        Checker { types: self, path: Vec::new() }.message(&message, whole)
    }
    /// Checks a decoded message.
    pub fn check_message(&self, message: &DynamicMessage) -> Result<(), ValueError> {
        Checker { types: self, path: Vec::new() }.message(message, true)
    }
    /// Returns the rules of a field.
    fn rules(&self, field: &FieldDescriptor) -> Option<FieldRules> {
        let extension = self.pool().get_extension_by_name("validate.rules")?;
        let options = field.options();
        let is_set = options.has_extension(&extension);
        let rules = is_set.then(|| options.get_extension(&extension).as_message().cloned());
        let of = match field.kind() {
            Kind::Enum(of) => Some(of),
            _ => None,
        };
        rules.flatten().map(|rules| FieldRules { rules, of })
    }
    /// Whether an option of a message or a oneof is true.
    fn has(&self, options: &DynamicMessage, name: &str) -> bool {
        let extension = self.pool().get_extension_by_name(name);
        extension.is_some_and(|extension| options.get_extension(&extension).as_bool() == Some(true))
    }
}

struct Checker<'t> {
    types: &'t Types,
    path: Vec<Step>,
}

type Checked = Result<(), ValueError>;

impl Checker<'_> {
    fn error(&self, why: impl Into<String>) -> ValueError {
        ValueError { at: ValuePath(self.path.clone()), why: why.into() }
    }
    fn holds(&self, rule: Result<(), Broken>) -> Checked {
        rule.map_err(|Broken(why)| self.error(why))
    }
    fn within(&mut self, step: Step, check: impl FnOnce(&mut Self) -> Checked) -> Checked {
        if self.path.len() >= MAX_DEPTH {
            return Ok(());
        }
        self.path.push(step);
        check(self)?;
        self.path.pop();
        Ok(())
    }
    fn message(&mut self, message: &DynamicMessage, whole: bool) -> Checked {
        let of = message.descriptor();
        if of.full_name() == ANY {
            return self.any(message, whole);
        }
        if self.is_free(&of) {
            return Ok(());
        }
        for field in of.fields() {
            self.within(Step::Field(field.name().into()), |this| this.field(message, &field, whole))?;
        }
        if whole { self.choices(message, &of) } else { Ok(()) }
    }
    /// Whether the fields of messages of a type have no rules.
    fn is_free(&self, of: &MessageDescriptor) -> bool {
        let options = of.options();
        of.full_name().starts_with("google.protobuf.")
            || ["validate.disabled", "validate.ignored"].iter().any(|name| self.types.has(&options, name))
    }
    /// Checks a nested message of any type; one of an unknown type holds.
    fn any(&mut self, any: &DynamicMessage, whole: bool) -> Checked {
        let url = any.get_field_by_name("type_url");
        let name = url.as_deref().and_then(Value::as_str).unwrap_or_default();
        let bytes = any.get_field_by_name("value");
        let bytes = bytes.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        match self.types.decode(name, &bytes) {
            Some(message) => self.message(&message, whole),
            None => Ok(()),
        }
    }
    /// Checks that one field of each required choice is set.
    fn choices(&self, message: &DynamicMessage, of: &MessageDescriptor) -> Checked {
        for choice in of.oneofs() {
            let is_open = choice.fields().all(|field| !message.has_field(&field));
            if is_open && self.types.has(&choice.options(), "validate.required") {
                let names: Vec<String> = choice.fields().map(|field| field.name().to_owned()).collect();
                return Err(self.error(format!("needs one of the fields {}", names.join(", "))));
            }
        }
        Ok(())
    }
    fn field(&mut self, message: &DynamicMessage, field: &FieldDescriptor, whole: bool) -> Checked {
        let rules = self.types.rules(field);
        if !message.has_field(field) {
            let Some(rules) = rules.filter(|_| whole) else { return Ok(()) };
            let is_checked = field.is_list() || field.is_map() || !field.supports_presence();
            // of a choice, another field may be set
            if field.containing_oneof().is_none() {
                self.holds(rules.absent())?;
            }
            return if is_checked {
                self.value(&message.get_field(field), Some(&rules), whole)
            } else {
                Ok(())
            };
        }
        let value = message.get_field(field);
        // merged, it leaves a value that is there
        let is_zero =
            |of: &DynamicMessage| is_wrapper(of.descriptor().full_name()) && of.fields().next().is_none();
        if !whole && value.as_message().is_some_and(is_zero) {
            return Ok(());
        }
        self.value(&value, rules.as_ref(), whole)
    }
    fn value(&mut self, value: &Value, rules: Option<&FieldRules>, whole: bool) -> Checked {
        if let Some(rules) = rules {
            self.holds(rules.check(value))?;
        }
        match value {
            Value::Message(message) if rules.is_some_and(FieldRules::skips) => self.duration(message),
            Value::Message(message) => {
                self.duration(message)?;
                self.message(message, whole)
            }
            // items are added whole
            Value::List(items) => {
                let of = rules.and_then(|rules| rules.of("repeated", "items"));
                for (i, item) in items.iter().enumerate() {
                    self.within(Step::Item(i), |this| this.value(item, of.as_ref(), true))?;
                }
                Ok(())
            }
            Value::Map(entries) => {
                let of = ["keys", "values"].map(|part| rules.and_then(|rules| rules.of("map", part)));
                // in one order, so that equal values have equal errors
                let mut entries: Vec<_> =
                    entries.iter().map(|(key, value)| (shown(key), key, value)).collect();
                entries.sort_by(|(a, ..), (b, ..)| a.cmp(b));
                for (name, key, value) in entries {
                    self.within(Step::Field(name.into()), |this| {
                        this.value(&Value::from(key.clone()), of[0].as_ref(), true)?;
                        this.value(value, of[1].as_ref(), true)
                    })?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
    /// Envoy accepts no negative duration in any field.
    fn duration(&self, message: &DynamicMessage) -> Checked {
        match rules::nanos(message) {
            Some(nanos) if nanos < 0 => Err(self.error("is a negative duration; Envoy accepts none")),
            _ => Ok(()),
        }
    }
}

fn shown(key: &MapKey) -> String {
    match key {
        MapKey::String(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests;
