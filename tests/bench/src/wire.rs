//! Minimal protobuf and gRPC framing for a client that counts what it receives.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Type URL of xDS clusters.
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Type URL of assignments.
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";

/// One field of a message.
#[derive(Debug, Clone)]
pub(crate) enum Field {
    Bytes(Bytes),
    Other,
}

/// Reads the next field and its number; `None` at the end or if the bytes are not a message.
pub(crate) fn field(buf: &mut Bytes) -> Option<(u64, Field)> {
    if buf.is_empty() {
        return None;
    }
    let tag = varint(buf)?;
    let value = match tag & 7 {
        0 => varint(buf).map(|_| Field::Other)?,
        1 => skip(buf, 8)?,
        5 => skip(buf, 4)?,
        2 => {
            let len = usize::try_from(varint(buf)?).ok()?;
            if buf.len() < len {
                return None;
            }
            Field::Bytes(buf.split_to(len))
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn skip(buf: &mut Bytes, n: usize) -> Option<Field> {
    (buf.len() >= n).then(|| buf.advance(n)).map(|()| Field::Other)
}

fn varint(buf: &mut Bytes) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        if buf.is_empty() {
            return None;
        }
        let byte = buf.get_u8();
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Writes a length-delimited field.
pub(crate) fn put(out: &mut BytesMut, number: u64, value: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, value.len() as u64);
    out.put_slice(value);
}

fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Puts the gRPC prefix before a message.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 5);
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(message);
    out.freeze()
}

/// A response reduced to what a client needs.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) type_url: String,
    pub(crate) version: String,
    pub(crate) nonce: String,
    /// Name (delta only), version (delta only) and body of each resource.
    pub(crate) resources: Vec<(String, String, Bytes)>,
    pub(crate) removed: usize,
}

/// Parses a DiscoveryResponse or, with `delta`, a DeltaDiscoveryResponse.
pub(crate) fn response(mut message: Bytes, delta: bool) -> Response {
    let mut out = Response::default();
    let text = |b: Bytes| String::from_utf8_lossy(&b).into_owned();
    while let Some((number, value)) = field(&mut message) {
        let Field::Bytes(bytes) = value else { continue };
        match (number, delta) {
            (1, _) => out.version = text(bytes),
            (2, false) => out.resources.push((String::new(), String::new(), any_body(bytes))),
            (2, true) => out.resources.push(resource(bytes)),
            (4, _) => out.type_url = text(bytes),
            (5, _) => out.nonce = text(bytes),
            (6, true) => out.removed += 1,
            _ => {}
        }
    }
    out
}

fn any_body(mut any: Bytes) -> Bytes {
    while let Some((number, value)) = field(&mut any) {
        if let (2, Field::Bytes(body)) = (number, value) {
            return body;
        }
    }
    Bytes::new()
}

fn resource(mut message: Bytes) -> (String, String, Bytes) {
    let mut out = (String::new(), String::new(), Bytes::new());
    while let Some((number, value)) = field(&mut message) {
        let Field::Bytes(bytes) = value else { continue };
        match number {
            1 => out.1 = String::from_utf8_lossy(&bytes).into_owned(),
            2 => out.2 = any_body(bytes),
            3 => out.0 = String::from_utf8_lossy(&bytes).into_owned(),
            _ => {}
        }
    }
    out
}

/// Returns the text in field 1: the name of a Cluster or ClusterLoadAssignment.
pub(crate) fn name_of(body: &Bytes) -> String {
    let mut body = body.clone();
    match field(&mut body) {
        Some((1, Field::Bytes(name))) => String::from_utf8_lossy(&name).into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_back() {
        let mut any = BytesMut::new();
        put(&mut any, 1, CDS.as_bytes());
        put(&mut any, 2, b"\x0a\x03abc");
        let mut message = BytesMut::new();
        put(&mut message, 1, b"v");
        put(&mut message, 2, &any);
        put(&mut message, 4, CDS.as_bytes());
        put(&mut message, 5, b"n1");
        let read = response(message.freeze(), false);
        assert_eq!((read.type_url.as_str(), read.nonce.as_str()), (CDS, "n1"));
        assert_eq!(name_of(&read.resources[0].2), "abc");
    }

    #[test]
    fn cut_bytes_end_the_walk() {
        let mut cut = Bytes::from_static(b"\x0a\x7fabc");
        assert!(field(&mut cut).is_none());
    }
}
