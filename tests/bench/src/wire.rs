//! Minimal protobuf and gRPC framing for a client that counts what it receives.

use bytes::{BufMut, Bytes, BytesMut};
use tributary_proto::wire::{Field, Reader, Writer};

/// Type URL of xDS clusters.
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Type URL of assignments.
pub(crate) const EDS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Type URL of listeners.
pub(crate) const LDS: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// Type URL of route tables.
pub(crate) const RDS: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";

/// Reads the next field and its number; `None` at the end or if the bytes are not a message.
pub(crate) fn field(message: &mut Reader) -> Option<(u32, Field)> {
    message.field().ok().flatten()
}

/// Writes a length-delimited field.
pub(crate) fn put(out: &mut BytesMut, number: u32, value: &[u8]) {
    Writer::to(out).present(number, value);
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
pub(crate) fn response(message: Bytes, delta: bool) -> Response {
    let (mut message, mut out) = (Reader::new(message), Response::default());
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

fn any_body(any: Bytes) -> Bytes {
    let mut any = Reader::new(any);
    while let Some((number, value)) = field(&mut any) {
        if let (2, Field::Bytes(body)) = (number, value) {
            return body;
        }
    }
    Bytes::new()
}

fn resource(message: Bytes) -> (String, String, Bytes) {
    let (mut message, mut out) = (Reader::new(message), (String::new(), String::new(), Bytes::new()));
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
    match field(&mut Reader::new(body.clone())) {
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
        assert!(field(&mut Reader::new(Bytes::from_static(b"\x0a\x7fabc"))).is_none());
    }
}
