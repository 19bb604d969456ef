//! What a client may make large, and how large at most.

/// The longest message on a delta stream: a reconnect names everything that the client holds.
pub const MAX_DELTA_MESSAGE: usize = 64 << 20;
/// The longest message on a state-of-the-world stream: names without versions.
pub const MAX_SOTW_MESSAGE: usize = 24 << 20;
/// How many names one request may carry, and one session may subscribe to.
pub const MAX_NAMES: usize = 262_144;
/// The longest resource name.
pub const MAX_NAME: usize = 4096;
/// The longest node metadata.
pub const MAX_METADATA: usize = 64 << 10;
/// The longest text of a refusal that is kept; what is longer is cut.
pub const MAX_ERROR_TEXT: usize = 4096;
/// The longest identifying text (node id, nonce, version, type).
pub const MAX_TEXT: usize = 4096;
/// How deep metadata may nest.
pub const MAX_DEPTH: usize = 16;
