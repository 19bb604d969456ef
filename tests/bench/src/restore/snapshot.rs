//! The baseline's file: plain records one after the other, each field prefixed with its length.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};

use crate::intake::Plain;

/// Encodes all records.
pub(super) fn write(all: &BTreeMap<String, Vec<Plain>>) -> Vec<u8> {
    let mut out = Vec::new();
    for record in all.values().flatten() {
        out.extend(record.port.to_le_bytes());
        for field in [&record.address, &record.port_name, &record.locality, &record.identity, &record.network]
        {
            put(&mut out, field);
        }
        out.extend((record.labels.len() as u16).to_le_bytes());
        for (key, value) in &record.labels {
            put(&mut out, key);
            put(&mut out, value);
        }
    }
    out
}

/// Decodes the records that [`write`] encoded.
pub(super) fn read(mut bytes: &[u8]) -> Result<Vec<Plain>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let port = number(&mut bytes)?;
        let mut field = || text(&mut bytes);
        let (address, port_name, locality) = (field()?, field()?, field()?);
        let (identity, network) = (field()?, field()?);
        let mut labels = BTreeMap::new();
        for _ in 0..number(&mut bytes)? {
            labels.insert(text(&mut bytes)?, text(&mut bytes)?);
        }
        all.push(Plain { address, port, port_name, locality, labels, identity, network });
    }
    Ok(all)
}

fn put(out: &mut Vec<u8>, field: &str) {
    out.extend((field.len() as u16).to_le_bytes());
    out.extend(field.as_bytes());
}

fn number(bytes: &mut &[u8]) -> Result<u16> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(|| anyhow!("the snapshot is cut off"))?;
    *bytes = rest;
    Ok(u16::from_le_bytes(*first))
}

fn text(bytes: &mut &[u8]) -> Result<String> {
    let length = usize::from(number(bytes)?);
    let (first, rest) = bytes.split_at_checked(length).ok_or_else(|| anyhow!("the snapshot is cut off"))?;
    *bytes = rest;
    Ok(String::from_utf8(first.to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Size, World};

    #[test]
    fn a_snapshot_that_is_written_reads_back() {
        let size = Size { services: 2, ports: 2, addresses: 3, pods: false };
        let all = crate::intake::plain(size, &World::new(size).unwrap());
        let read = read(&write(&all)).unwrap();
        assert_eq!(read, all.into_values().flatten().collect::<Vec<_>>());
        assert_eq!(read.len(), 12);
    }
}
