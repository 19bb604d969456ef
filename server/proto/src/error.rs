//! Why a message was not taken.

/// What is wrong with a message from a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// The bytes end inside a field.
    #[error("the message is cut short")]
    Truncated,
    /// A field has another wire type than its definition.
    #[error("field {field} has a wire type that does not fit it")]
    WireType {
        /// The field's number.
        field: u32,
    },
    /// A number, tag or length that protobuf does not allow.
    #[error("the message is not protobuf")]
    Malformed,
    /// Text that is not UTF-8.
    #[error("field {field} is not UTF-8")]
    NotText {
        /// The field's number.
        field: u32,
    },
    /// Something exceeds its bound.
    #[error("{what} exceeds its bound of {limit}; send less")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A compressed message.
    #[error("compressed messages are not accepted; send identity")]
    Compressed,
}
