//! Decoding of objects from JSON, with bounds.

use serde::Deserialize;

use super::meta::RawMeta;

/// Object with metadata, spec and status, as in the document.
#[derive(Deserialize)]
#[serde(bound(deserialize = "Spec: Deserialize<'de>, Status: Deserialize<'de>"))]
struct RawObject<'a, Spec, Status> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    spec: Option<Spec>,
    status: Option<Status>,
}

/// Decodes one object; the error names position and cause for operators.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// Decodes metadata, `spec` and `status` of an object; a missing part is empty.
pub(super) fn read_object<'a, Spec, Status>(json: &'a str) -> Result<(RawMeta<'a>, Spec, Status), String>
where
    Spec: Deserialize<'a> + Default,
    Status: Deserialize<'a> + Default,
{
    let RawObject { metadata, spec, status } = read(json)?;
    Ok((metadata, spec.unwrap_or_default(), status.unwrap_or_default()))
}

/// Rejects lists that are longer than any real one.
pub(super) fn bounded<T>(what: &str, list: &[T], most: usize) -> Result<(), String> {
    if list.len() > most {
        return Err(format!("{what} has {} items, more than {most} are not read", list.len()));
    }
    Ok(())
}
