//! Properties of the codec for any record.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use tributary_model::*;

use super::entry::{EntryKey, EntryValue, put_entry_key, read_entry_key};
use super::wire::{Fields, Value, put_bytes, put_int};
use super::*;
use crate::samples::{entry, fact, now};

fn key_bytes(key: &EntryKey) -> Vec<u8> {
    let mut out = Vec::new();
    put_entry_key(&mut out, key).unwrap();
    out
}

/// Returns key and sealed value as on disk.
fn written(key: &EntryKey, value: &EntryValue) -> (Vec<u8>, Vec<u8>) {
    let key = key_bytes(key);
    let record = encode(&mut Encoder::new(now()), value);
    let value = seal(&key, &record);
    (key, value)
}

fn read(key: &[u8], value: &[u8]) -> Result<(EntryKey, EntryValue), Fault> {
    let record = unseal(key, value)?;
    unchecked(key, record)
}

fn unchecked(key: &[u8], record: &[u8]) -> Result<(EntryKey, EntryValue), Fault> {
    let mut d = Decoder::new(now());
    d.begin();
    let key = read_entry_key(&mut d, key)?;
    let value = decode(&mut d, &key, record)?;
    Ok((key, value))
}

/// Returns locations and versions of sources, which comparisons of facts ignore.
fn for_people(value: &EntryValue) -> Vec<Arc<str>> {
    let EntryValue::Fact(fact) = value else { return Vec::new() };
    let source = match fact {
        Fact::Service(_, value) => &value.source,
        Fact::Group(_, value) => &value.source,
        Fact::Workload(_, value) => &value.source,
        Fact::Gateway(_, value) => &value.source,
        Fact::Policy(_, value) => &value.source,
        _ => return Vec::new(),
    };
    vec![source.position.text(), source.version.0.clone()]
}

/// Returns the same record with an unknown field in every message with fields.
fn with_unknown_fields(record: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_int(&mut out, 200, 7);
    let mut fields = Fields(record);
    while let Ok(Some((field, value))) = fields.next() {
        match value {
            Value::Bytes(bytes) if field == 4 => {
                let mut body = bytes.to_vec();
                put_bytes(&mut body, 300, b"later");
                put_bytes(&mut out, field, &body);
            }
            Value::Bytes(bytes) => put_bytes(&mut out, field, bytes),
            Value::Int(value) => put_int(&mut out, field, value),
        }
    }
    out
}

proptest! {
    #[test]
    fn record_round_trips((key, value) in entry()) {
        let (on_disk, sealed) = written(&key, &value);
        let (read_key, read_value) = read(&on_disk, &sealed).unwrap();
        prop_assert_eq!(&read_key, &key);
        prop_assert_eq!(for_people(&read_value), for_people(&value));
        prop_assert_eq!(key_bytes(&read_key), on_disk, "keys are canonical");
        prop_assert_eq!(read_value, value);
    }

    #[test]
    fn records_read_by_one_decoder_round_trip(entries in proptest::collection::vec(entry(), 1..8)) {
        let (mut enc, mut d) = (Encoder::new(now()), Decoder::new(now()));
        for (key, value) in entries {
            let (bytes, record) = (key_bytes(&key), encode(&mut enc, &value));
            d.begin();
            let read_key = read_entry_key(&mut d, &bytes).unwrap();
            prop_assert_eq!(&decode(&mut d, &read_key, &record).unwrap(), &value);
            prop_assert_eq!(record, encode(&mut Encoder::new(now()), &value));
        }
    }

    #[test]
    fn truncated_record_is_rejected((key, value) in entry(), cut: prop::sample::Index) {
        let (key, sealed) = written(&key, &value);
        let at = cut.index(sealed.len());
        prop_assert!(read(&key, &sealed[..at]).is_err());
    }

    #[test]
    fn flipped_bit_of_key_or_value_is_rejected((key, value) in entry(), bit: prop::sample::Index) {
        let (mut key, mut sealed) = written(&key, &value);
        let bit = bit.index((key.len() + sealed.len()) * 8);
        let both = key.iter_mut().chain(&mut sealed);
        *both.into_iter().nth(bit / 8).unwrap() ^= 1 << (bit % 8);
        prop_assert!(read(&key, &sealed).is_err());
    }

    #[test]
    fn hostile_record_ends_without_a_panic((key, value) in entry(), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let key = key_bytes(&key);
        let mut record = encode(&mut Encoder::new(now()), &value);
        for (at, byte) in flips {
            if !record.is_empty() {
                let at = at.index(record.len());
                record[at] = byte;
            }
        }
        let _ = unchecked(&key, &record);
    }

    #[test]
    fn hostile_key_ends_without_a_panic(kind in 0u8..40, rest: Vec<u8>) {
        let mut key = vec![kind];
        key.extend(rest);
        let _ = unchecked(&key, &[]);
    }

    #[test]
    fn field_of_a_later_release_is_skipped((key, value) in entry()) {
        let record = encode(&mut Encoder::new(now()), &value);
        let (_, read) = unchecked(&key_bytes(&key), &with_unknown_fields(&record)).unwrap();
        prop_assert_eq!(read, value);
    }

    #[test]
    fn different_items_have_different_keys(facts in proptest::collection::vec(fact(), 1..20)) {
        let items: BTreeSet<FactId> = facts.iter().map(Fact::item).collect();
        let keys: BTreeSet<Vec<u8>> = items.iter().map(|item| key_bytes(&EntryKey::Fact(item.clone()))).collect();
        prop_assert_eq!(keys.len(), items.len());
    }
}

#[test]
fn waiting_addresses_have_no_key() {
    let key = EndpointGroupKey {
        service: ServiceKey { host: Hostname::new("a.b").unwrap(), namespace: Namespace::new("b").unwrap() },
        declaration: ObjectId::new("Service", "b", "a"),
        object: ObjectId::new("EndpointSlice", "b", "a"),
        bucket: 0,
    };
    assert!(put_entry_key(&mut Vec::new(), &EntryKey::Fact(FactId::Waiting(key))).is_none());
}

#[test]
fn repeated_text_is_stored_once() {
    let long: Arc<str> = "x".repeat(10_000).as_str().into();
    let address = |_| WorkloadAddress::Name(long.clone());
    let key = WorkloadKey::from(WorkloadName {
        namespace: Namespace::new("shop").unwrap(),
        kind: WorkloadKind::Entry,
        name: "a".into(),
        cluster: ClusterId::new("c").unwrap(),
    });
    let workload = Workload {
        addresses: (0..1_000).map(address).collect(),
        ..Workload::new(Source::new(ObjectId::new("WorkloadEntry", "shop", "a")))
    };
    let value = EntryValue::Fact(Fact::Workload(key.clone(), Arc::new(workload)));
    let record = encode(&mut Encoder::new(now()), &value);
    assert!(record.len() < 16_000, "{} bytes", record.len());
    let (_, read) = unchecked(&key_bytes(&EntryKey::Fact(FactId::Workload(key))), &record).unwrap();
    let EntryValue::Fact(Fact::Workload(_, read)) = read else { panic!("another kind of record") };
    let names: Vec<&Arc<str>> = read
        .addresses
        .iter()
        .map(|address| match address {
            WorkloadAddress::Name(name) => name,
            _ => panic!("another kind of address"),
        })
        .collect();
    assert!(names.iter().all(|name| Arc::ptr_eq(name, names[0])));
}

#[test]
fn member_of_any_provider_is_read_back() {
    let scopes = || Scopes::Configured([Scope::new("all").unwrap()].into());
    for (provider, position) in [("Kubernetes", 0), ("Nacos", 7), (&*"x".repeat(63), u16::MAX)] {
        let id = RegistryId {
            name: RegistryName::new("east").unwrap(),
            provider: ProviderId::new(provider.to_owned()).unwrap(),
            cluster: ClusterId::new("c").unwrap(),
        };
        let member = Member {
            id,
            kind: "any".to_owned(),
            precedence: Precedence { provider: position, rank: 1 },
            scopes: scopes(),
            network: Some(NetworkId::new("n").unwrap()),
            identity: None,
            origin: MemberOrigin::File("c.yaml".to_owned()),
            source_digest: Version(3),
            credential_from: String::new(),
        };
        let file =
            Member { origin: MemberOrigin::Kubeconfig("/clusters/c.yaml".to_owned()), ..member.clone() };
        for member in [member, file] {
            let record = encode_member(&mut Encoder::new(now()), &member);
            assert_eq!(decode_member(&mut Decoder::new(now()), &record).unwrap(), member);
        }
    }
}
