//! Fields of messages by name, and nested messages of any type.

use std::borrow::Cow;

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use tributary_descriptors::{Types, ValueError, encode, merge};

/// Returns a set field.
pub(crate) fn get<'m>(message: &'m DynamicMessage, name: &str) -> Option<&'m Value> {
    message.fields().find_map(|(field, value)| (field.name() == name).then_some(value))
}

/// Returns a text field, empty if it is not set.
pub(crate) fn text<'m>(message: &'m DynamicMessage, name: &str) -> Cow<'m, str> {
    get(message, name).and_then(Value::as_str).unwrap_or_default().into()
}

/// Returns the texts of a list.
pub(crate) fn texts<'m>(message: &'m DynamicMessage, name: &str) -> impl Iterator<Item = &'m str> {
    list(message, name).iter().filter_map(Value::as_str)
}

/// Returns the items of a list.
pub(crate) fn list<'m>(message: &'m DynamicMessage, name: &str) -> &'m [Value] {
    get(message, name).and_then(Value::as_list).unwrap_or_default()
}

/// Takes the items of a list out of a message.
pub(crate) fn take_list(message: &mut DynamicMessage, name: &str) -> Vec<Value> {
    match message.take_field_by_name(name) {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    }
}

/// Sets the items of a list.
pub(crate) fn set_list(message: &mut DynamicMessage, name: &str, items: Vec<Value>) {
    message.set_field_by_name(name, Value::List(items));
}

/// Sets a text field.
pub(crate) fn set_text(message: &mut DynamicMessage, name: &str, text: &str) {
    message.set_field_by_name(name, Value::String(text.to_owned()));
}

/// Returns a nested message that is set.
pub(crate) fn child<'m>(message: &'m DynamicMessage, name: &str) -> Option<&'m DynamicMessage> {
    get(message, name)?.as_message()
}

/// Returns a nested message that is set.
pub(crate) fn child_mut<'m>(message: &'m mut DynamicMessage, name: &str) -> Option<&'m mut DynamicMessage> {
    if !message.has_field_by_name(name) {
        return None;
    }
    message.get_field_by_name_mut(name)?.as_message_mut()
}

/// Returns a number that is set, also one in a wrapper.
pub(crate) fn number(message: &DynamicMessage, name: &str) -> Option<u32> {
    match get(message, name)? {
        Value::Message(wrapper) => Some(get(wrapper, "value").and_then(Value::as_u32).unwrap_or_default()),
        plain => plain.as_u32(),
    }
}

/// Returns the type of a nested message of any type, without its host.
pub(crate) fn type_of(any: &DynamicMessage) -> Cow<'_, str> {
    match text(any, "type_url") {
        Cow::Borrowed(url) => url.rsplit('/').next().unwrap_or_default().into(),
        Cow::Owned(url) => url.rsplit('/').next().unwrap_or_default().to_owned().into(),
    }
}

/// Decodes a nested message of any type; `None` if its type is unknown.
pub(crate) fn unpack(types: &Types, any: &DynamicMessage) -> Option<DynamicMessage> {
    let bytes = get(any, "value").and_then(Value::as_bytes).cloned().unwrap_or_default();
    types.decode(&type_of(any), &bytes)
}

/// Replaces the content of a nested message by one of the same type.
pub(crate) fn pack(any: &mut DynamicMessage, message: &DynamicMessage) {
    any.set_field_by_name("value", Value::Bytes(encode(message).into()));
}

/// Whether a value was merged, or the rule of Envoy's API that the merged message would break; then nothing is changed.
pub(crate) type Merged = Result<bool, ValueError>;

/// Merges a message into a valid one of the same type.
pub(crate) fn merge_valid(types: &Types, into: &mut DynamicMessage, from: &DynamicMessage) -> Merged {
    types.check_merge(into, from)?;
    merge(into, from);
    Ok(true)
}

/// Merges `typed_config` of a filter or socket into that of another one of the same type, and sets it where it is absent.
/// Nothing is merged if the types differ.
pub(crate) fn merge_config(types: &Types, into: &mut DynamicMessage, from: &DynamicMessage) -> Merged {
    const CONFIG: &str = "typed_config";
    let Some(more) = child(from, CONFIG) else { return Ok(true) };
    let Some(any) = child_mut(into, CONFIG) else {
        types.check_message(more)?;
        into.set_field_by_name(CONFIG, Value::Message(more.clone()));
        return Ok(true);
    };
    if type_of(any) != type_of(more) {
        return Ok(false);
    }
    let (Some(mut config), Some(more)) = (unpack(types, any), unpack(types, more)) else {
        return Ok(false);
    };
    debug_assert_eq!(config.descriptor(), more.descriptor());
    merge_valid(types, &mut config, &more)?;
    pack(any, &config);
    Ok(true)
}
