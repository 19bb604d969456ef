//! Decodes resources into JSON with the published descriptors.
//!
//! The server's pages about clients call it. Messages nested as `Any` are decoded as well. The value of a field that
//! Envoy's API marks as sensitive (private keys, passwords, tokens) never appears.

use prost_reflect::bytes::Bytes;
use prost_reflect::prost::Message as _;
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MapKey,
    ReflectMessage, Value as Field,
};
use serde_json::{Map, Value, json};

use crate::types::ANY;
use crate::{RESOURCES, Types};

/// Text in place of a sensitive value.
pub const REDACTED: &str = "[redacted]";
/// Most messages nested in each other through `Any`.
const MAX_NESTED: usize = 16;
/// Option of fields whose value is sensitive.
const SENSITIVE: &str = "udpa.annotations.sensitive";

/// Decoder of Envoy's resources. It holds the parsed descriptors, so keep it only while resources are decoded.
#[derive(Debug)]
pub struct Decoder {
    pool: DescriptorPool,
    sensitive: Option<ExtensionDescriptor>,
}

impl Decoder {
    /// Parses the descriptors.
    pub fn new() -> Result<Self, DescriptorError> {
        let pool = DescriptorPool::decode(RESOURCES)?;
        Ok(Self { sensitive: pool.get_extension_by_name(SENSITIVE), pool })
    }
    /// Returns a decoder of the shared types, which costs nothing if they are parsed already.
    #[must_use]
    pub fn shared() -> Option<Self> {
        let pool = Types::shared().ok()?.pool().clone();
        Some(Self { sensitive: pool.get_extension_by_name(SENSITIVE), pool })
    }
    /// Whether the type of this URL has a descriptor.
    #[must_use]
    pub fn knows(&self, type_url: &str) -> bool {
        self.pool.get_message_by_name(name_of(type_url)).is_some()
    }
    /// Decodes a message into JSON with the field names of the protobuf files. A message that cannot be decoded becomes
    /// its type, its length and the reason.
    #[must_use]
    pub fn decode(&self, type_url: &str, body: &[u8]) -> Value {
        self.decode_at(type_url, body, 0)
    }
    /// Returns a message with its sensitive values replaced. Nested messages without a descriptor are emptied, since
    /// nothing is known about their fields. `None` if it cannot be decoded.
    #[must_use]
    pub fn redact(&self, type_url: &str, body: &[u8]) -> Option<Vec<u8>> {
        self.redact_at(type_url, body, 0).map(|changed| changed.unwrap_or_else(|| body.to_vec()))
    }
    /// Returns the bytes if they differ.
    fn redact_at(&self, type_url: &str, body: &[u8], depth: usize) -> Option<Option<Vec<u8>>> {
        let descriptor = self.pool.get_message_by_name(name_of(type_url)).filter(|_| depth <= MAX_NESTED)?;
        let mut message = DynamicMessage::decode(descriptor, body).ok()?;
        Some(self.clean(&mut message, depth).then(|| message.encode_to_vec()))
    }
    /// Replaces sensitive values; returns whether there were any.
    fn clean(&self, message: &mut DynamicMessage, depth: usize) -> bool {
        if message.descriptor().full_name() == ANY {
            return self.clean_any(message, depth);
        }
        let mut changed = false;
        for (field, value) in message.fields_mut() {
            if self.is_sensitive(&field) {
                blank(value);
                changed = true;
            } else {
                each_message(value, &mut |message| changed |= self.clean(message, depth));
            }
        }
        changed
    }
    fn clean_any(&self, any: &mut DynamicMessage, depth: usize) -> bool {
        let (url, body) = parts(any);
        match self.redact_at(&url, &body, depth + 1) {
            Some(None) => false,
            Some(Some(cleaned)) => {
                any.set_field_by_name("value", Field::Bytes(cleaned.into()));
                true
            }
            None => {
                any.clear_field_by_name("value");
                true
            }
        }
    }
    fn decode_at(&self, type_url: &str, body: &[u8], depth: usize) -> Value {
        let opaque = |why: &str| json!({"@type": type_url, "bytes": body.len(), "notDecoded": why});
        let Some(descriptor) = self.pool.get_message_by_name(name_of(type_url)) else {
            return opaque("the type has no published descriptor");
        };
        if depth > MAX_NESTED {
            return opaque("nested too deep");
        }
        match DynamicMessage::decode(descriptor, body) {
            Ok(message) => self.message(&message, depth),
            Err(_) => opaque("the bytes are not a message of this type"),
        }
    }
    fn message(&self, message: &DynamicMessage, depth: usize) -> Value {
        let descriptor = message.descriptor();
        match descriptor.full_name() {
            ANY => self.any(message, depth),
            name if name.starts_with("google.protobuf.") => serde_json::to_value(message).unwrap_or_default(),
            _ => {
                let field = |(field, value): (FieldDescriptor, &Field)| {
                    (field.name().to_owned(), self.field(&field, value, depth))
                };
                Value::Object(message.fields().map(field).collect())
            }
        }
    }
    /// A nested message has its type beside its fields, as in protobuf's JSON form.
    fn any(&self, any: &DynamicMessage, depth: usize) -> Value {
        let (url, body) = parts(any);
        let mut out = Map::from_iter([("@type".to_owned(), url.as_str().into())]);
        match self.decode_at(&url, &body, depth + 1) {
            Value::Object(fields) => out.extend(fields),
            value => drop(out.insert("value".to_owned(), value)),
        }
        Value::Object(out)
    }
    fn field(&self, field: &FieldDescriptor, value: &Field, depth: usize) -> Value {
        if self.is_sensitive(field) {
            return REDACTED.into();
        }
        match value {
            Field::List(items) => items.iter().map(|item| self.value(field, item, depth)).collect(),
            Field::Map(entries) => {
                let Kind::Message(entry) = field.kind() else { return Value::Null };
                let of = entry.map_entry_value_field();
                let pairs = entries.iter().map(|(key, value)| (text(key), self.field(&of, value, depth)));
                Value::Object(pairs.collect())
            }
            one => self.value(field, one, depth),
        }
    }
    fn value(&self, field: &FieldDescriptor, value: &Field, depth: usize) -> Value {
        match value {
            Field::Message(message) => self.message(message, depth),
            Field::EnumNumber(number) => enum_name(field, *number),
            Field::Bool(it) => (*it).into(),
            Field::I32(it) => (*it).into(),
            Field::I64(it) => (*it).into(),
            Field::U32(it) => (*it).into(),
            Field::U64(it) => (*it).into(),
            Field::F32(it) => it.to_string().parse::<f64>().map_or(Value::Null, Value::from),
            Field::F64(it) => Value::from(*it),
            Field::String(it) => it.as_str().into(),
            Field::Bytes(it) => bytes(it),
            Field::List(_) | Field::Map(_) => Value::Null,
        }
    }
    fn is_sensitive(&self, field: &FieldDescriptor) -> bool {
        let marked = |option: &ExtensionDescriptor| {
            let options = field.options();
            options.has_extension(option) && options.get_extension(option).as_bool() == Some(true)
        };
        self.sensitive.as_ref().is_some_and(marked)
    }
}

/// Returns type and value of an `Any`.
fn parts(any: &DynamicMessage) -> (String, Bytes) {
    let (url, body) = (any.get_field_by_name("type_url"), any.get_field_by_name("value"));
    let url = url.as_deref().and_then(Field::as_str).unwrap_or_default().to_owned();
    (url, body.as_deref().and_then(Field::as_bytes).cloned().unwrap_or_default())
}

/// Calls a function with each message of a value.
fn each_message(value: &mut Field, of: &mut dyn FnMut(&mut DynamicMessage)) {
    match value {
        Field::Message(message) => of(message),
        Field::List(items) => items.iter_mut().for_each(|item| each_message(item, of)),
        Field::Map(entries) => entries.values_mut().for_each(|entry| each_message(entry, of)),
        _ => {}
    }
}

/// Replaces every text and every byte string of a value.
fn blank(value: &mut Field) {
    match value {
        Field::String(text) => *text = REDACTED.to_owned(),
        Field::Bytes(bytes) => *bytes = Bytes::from_static(REDACTED.as_bytes()),
        Field::List(items) => items.iter_mut().for_each(blank),
        Field::Map(entries) => entries.values_mut().for_each(blank),
        // the type of a nested message is no secret, and needed to decode it
        Field::Message(any) if any.descriptor().full_name() == ANY => any.clear_field_by_name("value"),
        Field::Message(message) => message.fields_mut().for_each(|(_, value)| blank(value)),
        _ => {}
    }
}

fn name_of(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or_default()
}

fn enum_name(field: &FieldDescriptor, number: i32) -> Value {
    let Kind::Enum(of) = field.kind() else { return number.into() };
    of.get_value(number).map_or_else(|| number.into(), |value| value.name().into())
}

fn text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(it) => it.to_string(),
        MapKey::I32(it) => it.to_string(),
        MapKey::I64(it) => it.to_string(),
        MapKey::U32(it) => it.to_string(),
        MapKey::U64(it) => it.to_string(),
        MapKey::String(it) => it.clone(),
    }
}

/// Bytes are shown as text if they are text, else by their length.
fn bytes(value: &[u8]) -> Value {
    std::str::from_utf8(value).map_or_else(|_| format!("{} bytes", value.len()).into(), Value::from)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    use envoy_types::pb::envoy::config::core::v3::{
        DataSource, TransportSocket, data_source, transport_socket,
    };
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
        CommonTlsContext, TlsCertificate, UpstreamTlsContext,
    };
    use envoy_types::pb::google::protobuf::{Any, Duration, UInt32Value};

    use super::*;

    const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    const TLS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";

    fn mk_cluster(socket: Any) -> Vec<u8> {
        let config_type = Some(transport_socket::ConfigType::TypedConfig(socket));
        let cluster = Cluster {
            name: "pay".into(),
            connect_timeout: Some(Duration { seconds: 1, nanos: 500_000_000 }),
            per_connection_buffer_limit_bytes: Some(UInt32Value { value: 32 }),
            transport_socket: Some(TransportSocket { name: "tls".into(), config_type }),
            ..Cluster::default()
        };
        cluster.encode_to_vec()
    }

    fn mk_source(text: &str) -> Option<DataSource> {
        let specifier = Some(data_source::Specifier::InlineString(text.into()));
        Some(DataSource { specifier, ..DataSource::default() })
    }

    fn mk_secret() -> Any {
        let certificate = TlsCertificate {
            certificate_chain: mk_source("public chain"),
            private_key: mk_source("hunter2"),
            ..TlsCertificate::default()
        };
        let common = CommonTlsContext { tls_certificates: vec![certificate], ..CommonTlsContext::default() };
        let tls = UpstreamTlsContext { common_tls_context: Some(common), ..UpstreamTlsContext::default() };
        Any { type_url: TLS.into(), value: tls.encode_to_vec() }
    }

    #[test]
    fn nested_messages_are_decoded_and_secrets_are_not_shown() {
        let value = Decoder::new().unwrap().decode(CLUSTER, &mk_cluster(mk_secret()));
        let fields = (&value["connect_timeout"], &value["per_connection_buffer_limit_bytes"]);
        assert_eq!(fields, (&json!("1.500s"), &json!(32)));
        let nested = &value["transport_socket"]["typed_config"];
        assert_eq!(nested["@type"], TLS);
        let shown = &nested["common_tls_context"]["tls_certificates"][0];
        assert_eq!(shown["certificate_chain"]["inline_string"], "public chain");
        assert_eq!(shown["private_key"], REDACTED);
        assert!(!value.to_string().contains("hunter2"), "{value}");
    }

    #[test]
    fn what_cannot_be_decoded_is_named_with_its_length() {
        let decoder = Decoder::new().unwrap();
        let socket = Any { type_url: "type.googleapis.com/example.Private".into(), value: b"secret".into() };
        let value = decoder.decode(CLUSTER, &mk_cluster(socket));
        let nested = &value["transport_socket"]["typed_config"];
        assert_eq!(
            (&nested["@type"], &nested["bytes"]),
            (&json!("type.googleapis.com/example.Private"), &json!(6))
        );
        assert!(!value.to_string().contains("secret"), "{value}");
        let value = decoder.decode(CLUSTER, &[0xff; 4]);
        assert_eq!(value["notDecoded"], "the bytes are not a message of this type");
    }

    #[test]
    fn redacted_message_keeps_all_but_its_secrets() {
        let decoder = Decoder::new().unwrap();
        let redacted = decoder.redact(CLUSTER, &mk_cluster(mk_secret())).unwrap();
        let value = decoder.decode(CLUSTER, &redacted);
        let shown = &value["transport_socket"]["typed_config"]["common_tls_context"]["tls_certificates"][0];
        assert_eq!(shown["certificate_chain"]["inline_string"], "public chain");
        assert!(!String::from_utf8_lossy(&redacted).contains("hunter2"));
        assert!(String::from_utf8_lossy(&redacted).contains(REDACTED));
        let unknown = Any { type_url: "type.googleapis.com/example.Private".into(), value: b"secret".into() };
        let redacted = decoder.redact(CLUSTER, &mk_cluster(unknown)).unwrap();
        assert!(!String::from_utf8_lossy(&redacted).contains("secret"));
        let plain = Cluster { name: "pay".into(), ..Cluster::default() }.encode_to_vec();
        assert_eq!(decoder.redact(CLUSTER, &plain), Some(plain), "a message without secrets is unchanged");
        assert_eq!(decoder.redact(CLUSTER, &[0xff; 4]), None);
    }
}
