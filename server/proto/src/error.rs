//! Errors of decoding.

/// Fault of a message from a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The bytes end inside a field.
    #[error("the message is truncated")]
    Truncated,
    /// A field has a wire type other than its definition.
    #[error("field {field} has a wrong wire type")]
    WireType {
        /// Number of the field.
        field: u32,
    },
    /// A number, tag or length that protobuf does not allow.
    #[error("the message is not valid protobuf")]
    Malformed,
    /// Text that is not UTF-8.
    #[error("field {field} is not UTF-8")]
    NotText {
        /// Number of the field.
        field: u32,
    },
    /// A value exceeds its bound.
    #[error("{what} exceeds its bound of {limit}; send less")]
    TooLarge {
        /// Name of the value.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A compressed message.
    #[error("compressed messages are not accepted; use identity encoding")]
    Compressed,
}
