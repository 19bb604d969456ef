//! Encodes messages in one order: fields by number, entries of maps by key. Equal messages have equal bytes in every process,
//! so that versions of resources agree.

use prost_reflect::prost::encoding::{self, WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, Value};

/// Encodes a message.
#[must_use]
pub fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::new();
    put_message(message, &mut out);
    out
}

fn put_message(message: &DynamicMessage, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    for (field, value) in fields {
        match value {
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                entries.into_iter().for_each(|(key, value)| put_entry(&field, key, value, out));
            }
            Value::List(items) if field.is_packed() => put_packed(&field, items, out),
            Value::List(items) => items.iter().for_each(|item| put(field.number(), &field, item, out)),
            one => put(field.number(), &field, one, out),
        }
    }
    message.unknown_fields().for_each(|field| field.encode(out));
}

fn put_entry(field: &FieldDescriptor, key: &MapKey, value: &Value, out: &mut Vec<u8>) {
    let Kind::Message(entry) = field.kind() else { return };
    let mut inner = Vec::new();
    put(1, &entry.map_entry_key_field(), &Value::from(key.clone()), &mut inner);
    put(2, &entry.map_entry_value_field(), value, &mut inner);
    put_bytes(field.number(), &inner, out);
}

fn put_packed(field: &FieldDescriptor, items: &[Value], out: &mut Vec<u8>) {
    if items.is_empty() {
        return;
    }
    let mut inner = Vec::new();
    for item in items {
        let mut one = Vec::new();
        put(1, field, item, &mut one);
        // without the key, which has one byte for field 1
        inner.extend_from_slice(one.get(1..).unwrap_or_default());
    }
    put_bytes(field.number(), &inner, out);
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes one value of a field's kind under a number.
fn put(number: u32, field: &FieldDescriptor, value: &Value, out: &mut Vec<u8>) {
    match (value, field.kind()) {
        (Value::Message(message), _) => {
            let mut inner = Vec::new();
            put_message(message, &mut inner);
            put_bytes(number, &inner, out);
        }
        (Value::String(text), _) => put_bytes(number, text.as_bytes(), out),
        (Value::Bytes(bytes), _) => put_bytes(number, bytes, out),
        (Value::Bool(it), _) => encoding::bool::encode(number, it, out),
        (Value::EnumNumber(it), _) => encoding::int32::encode(number, it, out),
        (Value::F32(it), _) => encoding::float::encode(number, it, out),
        (Value::F64(it), _) => encoding::double::encode(number, it, out),
        (Value::I32(it), Kind::Sint32) => encoding::sint32::encode(number, it, out),
        (Value::I32(it), Kind::Sfixed32) => encoding::sfixed32::encode(number, it, out),
        (Value::I32(it), _) => encoding::int32::encode(number, it, out),
        (Value::I64(it), Kind::Sint64) => encoding::sint64::encode(number, it, out),
        (Value::I64(it), Kind::Sfixed64) => encoding::sfixed64::encode(number, it, out),
        (Value::I64(it), _) => encoding::int64::encode(number, it, out),
        (Value::U32(it), Kind::Fixed32) => encoding::fixed32::encode(number, it, out),
        (Value::U32(it), _) => encoding::uint32::encode(number, it, out),
        (Value::U64(it), Kind::Fixed64) => encoding::fixed64::encode(number, it, out),
        (Value::U64(it), _) => encoding::uint64::encode(number, it, out),
        (Value::List(_) | Value::Map(_), _) => {}
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::prost::Message as _;
    use prost_reflect::prost_types::FileDescriptorSet;
    use serde_json::json;

    use super::*;
    use crate::Types;

    const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

    #[test]
    fn entries_of_maps_are_sorted_and_decode_again() {
        let names: Vec<String> = (0..40).map(|i| format!("k{i:02}")).collect();
        let fields: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), json!({}))).collect();
        let value = json!({"name": "c", "metadata": {"filter_metadata": fields}, "connect_timeout": "1s"});
        let types = Types::shared().unwrap();
        let bytes = types.read(CLUSTER, &value).unwrap().bytes;
        let places: Vec<_> =
            names.iter().map(|name| bytes.windows(3).position(|part| part == name.as_bytes())).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some));
        let message = types.decode(CLUSTER, &bytes).unwrap();
        assert_eq!(encode(&message), bytes);
        assert_eq!(message.encoded_len(), bytes.len());
    }

    #[test]
    fn encoding_equals_that_of_prost() {
        // descriptors have numbers, texts, lists and nested messages
        let set = FileDescriptorSet::decode(crate::DISCOVERY).unwrap();
        let types = Types::shared().unwrap();
        for file in set.file.iter().take(10) {
            let bytes = file.encode_to_vec();
            let message = types.decode("google.protobuf.FileDescriptorProto", &bytes).unwrap();
            assert_eq!(encode(&message), message.encode_to_vec());
        }
    }
}
