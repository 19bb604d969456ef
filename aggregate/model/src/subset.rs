//! Name of a part of a service's endpoints.

use std::sync::Arc;

/// Name of a part of a service's endpoints: 1 to 63 ASCII letters, digits and `-`, without `-` at either end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Subset(Arc<str>);

impl Subset {
    /// Most bytes of a name.
    pub const MAX: usize = 63;

    /// Checks the text; `None` if it is not the name of a subset. Upper and lower case differ.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let is_valid = bytes.len() <= Self::MAX
            && is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        is_valid.then(|| Self(text.into()))
    }
    /// Name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
