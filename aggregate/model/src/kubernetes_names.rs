//! Syntax of the names and labels of Kubernetes objects.
//!
//! Readers of objects and of the mesh configuration call it.

/// Whether this names a Kubernetes object (RFC 1123 subdomain).
#[must_use]
pub fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether this names a namespace (RFC 1123 label).
#[must_use]
pub fn is_label_name(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Whether this is the key of a label: a name after an optional `domain/`.
#[must_use]
pub fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_object_name) && !name.is_empty() && !name.contains('/') && is_label_value(name)
}

/// Whether this is the value of a label. It may also contain `/`, because localities contain it.
#[must_use]
pub fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    let edges = match (bytes.first(), bytes.last()) {
        (Some(a), Some(z)) => a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric(),
        _ => true,
    };
    value.len() <= 63 && edges && bytes.iter().all(inner)
}

fn is_part(part: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = part.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&a), Some(&z)) if alphanumeric(a) && alphanumeric(z))
        && bytes.iter().all(|&b| alphanumeric(b) || b == b'-')
}
