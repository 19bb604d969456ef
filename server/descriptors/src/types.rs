//! Types of Envoy's API as one shared set, for reading, changing and writing their messages.
//!
//! Readers of EnvoyFilters check values with it, and the xDS server changes resources with it. It is parsed when the first of
//! them asks for it, and kept: the parsed types are larger than everything that they describe.

use std::sync::OnceLock;

use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use prost_reflect::{DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::RESOURCES;

/// Full name of nested messages of any type.
pub(crate) const ANY: &str = "google.protobuf.Any";

/// Packages of `TypedStruct`, which names a type and has its fields unread. The published package leaves it out.
const TYPED_STRUCT: [&str; 2] = ["udpa.type.v1", "xds.type.v3"];

/// Types of Envoy's API.
#[derive(Debug)]
pub struct Types {
    pool: DescriptorPool,
}

impl Types {
    /// Returns the shared types. The first call parses them.
    pub fn shared() -> Result<&'static Self, &'static DescriptorError> {
        static SHARED: OnceLock<Result<Types, DescriptorError>> = OnceLock::new();
        SHARED.get_or_init(Self::parse).as_ref()
    }
    fn parse() -> Result<Self, DescriptorError> {
        let mut pool = DescriptorPool::decode(RESOURCES)?;
        pool.add_file_descriptor_protos(TYPED_STRUCT.map(typed_struct))?;
        Ok(Self { pool })
    }
    pub(crate) const fn pool(&self) -> &DescriptorPool {
        &self.pool
    }
    /// Returns the type of this full name, which may have a host in front.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(name.rsplit('/').next().unwrap_or_default())
    }
    /// Decodes a message of a type; `None` if the type is unknown or the bytes are not a message of it.
    #[must_use]
    pub fn decode(&self, name: &str, bytes: &[u8]) -> Option<DynamicMessage> {
        DynamicMessage::decode(self.get(name)?, bytes).ok()
    }
}

/// Describes a `TypedStruct`.
fn typed_struct(package: &str) -> FileDescriptorProto {
    let field = |name: &str, number, of: Type, type_name: Option<&str>| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(of.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    };
    let message = DescriptorProto {
        name: Some("TypedStruct".to_owned()),
        field: vec![
            field("type_url", 1, Type::String, None),
            field("value", 2, Type::Message, Some(".google.protobuf.Struct")),
        ],
        ..DescriptorProto::default()
    };
    FileDescriptorProto {
        name: Some(format!("{}/typed_struct.proto", package.replace('.', "/"))),
        package: Some(package.to_owned()),
        dependency: vec!["google/protobuf/struct.proto".to_owned()],
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}
