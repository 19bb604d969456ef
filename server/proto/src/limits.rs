//! Bounds of values that a client controls (docs/reference/xds.md#limits).

/// Most bytes of a message on a delta stream: a reconnect lists everything that the client holds.
pub const MAX_DELTA_MESSAGE: usize = 64 << 20;
/// Most bytes of a message on a state-of-the-world stream: names without versions.
pub const MAX_SOTW_MESSAGE: usize = 24 << 20;
/// Most names that one request may list, and that one session may subscribe to.
pub const MAX_NAMES: usize = 262_144;
/// Most bytes of a resource name.
pub const MAX_NAME: usize = 4096;
/// Most bytes of node metadata.
pub const MAX_METADATA: usize = 64 << 10;
/// Most bytes of a rejection's error text; of a longer one the beginning and the end are kept.
pub const MAX_ERROR_TEXT: usize = 4096;
/// Most bytes of it that are shown.
pub const MAX_SHOWN_ERROR: usize = 1400;
/// Most bytes of an identifying text (node id, nonce, version, type).
pub const MAX_TEXT: usize = 4096;
/// Deepest nesting of metadata.
pub const MAX_DEPTH: usize = 16;
