//! Protobuf's wire format: the one reader and the one writer.

mod reader;
mod writer;

pub use reader::{Field, Reader};
pub use writer::{Writer, field_len};
