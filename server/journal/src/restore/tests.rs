//! Restores after a crash, of a damaged file, or of another release's file.

use crate::store::JOURNAL;
use crate::store::faulty::{FaultyDisk, Numbers};
use crate::testing::{Bench, Served, batch, list, note, options, put, registry, scope};
use std::sync::Arc;
use std::time::Duration;
use tributary_model::*;

/// Runs a writer until the disk stops; returns its states, and the number of the last committed one.
fn run_until_stopped(disk: &FaultyDisk, numbers: &mut Numbers) -> (Vec<Served>, usize) {
    let mut states = vec![Served::new()];
    let mut committed = 0;
    let Ok(mut bench) = Bench::open(disk, options()) else { return (states, 0) };
    for _ in 0..8 {
        let mut served = states.last().cloned().unwrap_or_default();
        bench.shared.record(batch(numbers, &mut served));
        states.push(served);
        if numbers.below(2) == 0 && bench.pass() {
            committed = states.len() - 1;
        }
    }
    (states, committed)
}

#[test]
fn journal_killed_at_any_moment_reopens_in_a_recorded_state() {
    let (mut restored, mut behind) = (0, 0);
    for seed in 0..1_000 {
        let mut numbers = Numbers(seed);
        let disk = FaultyDisk::default();
        disk.stop_after(numbers.below(140));
        let (states, committed) = run_until_stopped(&disk, &mut numbers);
        let disk = disk.after_power_loss(&mut numbers);
        let bench = Bench::open(&disk, options()).unwrap();
        assert_eq!(bench.notice, None, "seed {seed}");
        let served = bench.served();
        let found = states.iter().rposition(|state| *state == served);
        assert!(
            found.is_some_and(|at| at >= committed),
            "seed {seed}: {found:?}, committed {committed}: {served:?}"
        );
        assert!(
            bench.pieces.iter().all(|piece| piece.refused.is_empty() && piece.absent.is_none()),
            "seed {seed}"
        );
        restored += usize::from(!served.is_empty());
        behind += usize::from(found.is_some_and(|at| at + 1 < states.len()));
    }
    assert!(restored > 300 && behind > 300, "{restored} restored something, {behind} lost a tail");
}

/// Returns a journal with two registries of two scopes each.
fn filled() -> (FaultyDisk, Served) {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let mut served = Served::new();
    for (name, of) in [("east", "a"), ("east", "b"), ("west", "a"), ("west", "b")] {
        let mut records: Vec<Record> = (0..20).map(|n| put(name, of, &format!("pod-{n}"), n)).collect();
        records.push(list(name, of, 20));
        records.iter().for_each(|record| note(&mut served, record));
        bench.shared.record(records);
        assert!(bench.pass());
    }
    (disk, served)
}

#[test]
fn journal_torn_at_any_byte_restores_only_served_facts() {
    let (disk, served) = filled();
    let whole = disk.bytes(JOURNAL);
    let mut numbers = Numbers(7);
    for _ in 0..60 {
        let disk = FaultyDisk::default();
        disk.put(JOURNAL, whole[..numbers.below(whole.len() as u64) as usize].to_vec());
        let mut bench = Bench::open(&disk, options()).unwrap();
        let found = bench.served();
        assert!(
            found.iter().all(|(key, value)| served.get(key) == Some(value)),
            "a fact that was never served"
        );
        let shown = bench.notice.is_some() || bench.shared.stats().last_error.is_some();
        assert!(
            found == served
                || shown
                || bench.pieces.iter().any(|p| !p.refused.is_empty() || p.absent.is_some())
        );
        bench.shared.record(vec![put("north", "a", "pod-1", 1), list("north", "a", 1)]);
        bench.pass();
        assert!(
            bench.pass() || bench.shared.stats().commits > 0,
            "it is written again: {:?}",
            bench.shared.stats()
        );
    }
}

#[test]
fn flipped_byte_never_restores_an_unserved_fact() {
    let (disk, served) = filled();
    let whole = disk.bytes(JOURNAL);
    let mut numbers = Numbers(11);
    let mut refused = 0;
    for _ in 0..150 {
        let mut bytes = whole.clone();
        // Most of the file is free space without content.
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
        let at = (4096 + numbers.below(used - 4096)) as usize;
        bytes[at] ^= 1 << numbers.below(8);
        let disk = FaultyDisk::default();
        disk.put(JOURNAL, bytes);
        let Ok(bench) = Bench::open(&disk, options()) else { continue };
        let found = bench.served();
        assert!(found.iter().all(|(key, value)| served.get(key) == Some(value)), "byte {at}");
        refused += usize::from(found != served);
    }
    assert!(refused > 10, "only {refused} flips hit a record");
}

#[test]
fn scope_with_a_bad_checksum_or_count_is_not_restored() {
    let (disk, mut served) = filled();
    let mut bench = Bench::open(&disk, options()).unwrap();
    bench.shared.record(vec![list("east", "a", 21)]);
    assert!(bench.pass());
    drop(bench);
    let mut bench = Bench::open(&disk, options()).unwrap();
    served.retain(|(name, of, _), _| name != "east" || of != "a");
    assert_eq!(bench.served(), served);
    let refused: Vec<_> = bench.pieces.iter().flat_map(|piece| &piece.refused).cloned().collect();
    let why: Arc<str> = "a collection has 20 facts; 21 were recorded".into();
    assert_eq!(refused, [(scope("a"), why)]);
    assert!(bench.pass(), "rejected scopes are removed from disk");
    drop(bench);
    let bench = Bench::open(&disk, options()).unwrap();
    assert_eq!(bench.served(), served);
    assert!(bench.pieces.iter().all(|piece| piece.refused.is_empty()));
}

#[test]
fn facts_without_a_list_are_absent() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    bench.shared.record(vec![put("east", "a", "pod-1", 1)]);
    assert!(bench.pass());
    drop(bench);
    let bench = Bench::open(&disk, options()).unwrap();
    assert!(bench.served().is_empty());
    assert_eq!(bench.pieces[0].refused.len(), 1);
}

#[test]
fn times_ids_and_state_beside_facts_are_restored() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let at = bench.now.mono;
    let (name, of) = (registry("east"), scope("a"));
    let object = ObjectId::new("Pod", "shop", "bad");
    let problem = ProblemRecord {
        object: ObjectRef::new(object.clone()),
        problem: Problem { code: Code::PORT_CONFLICT, message: "two ports".into() },
        since: at,
    };
    let key = FactKey { scope: of.clone(), item: crate::testing::fact("pod-1", 1).item() };
    let hold = HoldRecord { since: at, reason: "short list".into() };
    let identity = Fingerprint::new("uid-1").unwrap();
    bench.shared.record(vec![
        Record::Identity(name.clone(), identity.clone()),
        put("east", "a", "pod-1", 1),
        list("east", "a", 1),
        Record::Problem(name.clone(), of.clone(), object.clone(), Some(problem.clone())),
        Record::Hold(name.clone(), key.clone(), Some(hold.clone())),
        Record::Ended(name.clone(), scope("removed"), Evidence::Operator, at),
    ]);
    bench.shared.ready();
    bench.shared.remotes_known(true);
    assert!(bench.pass());
    drop(bench);
    let bench = Bench::open(&disk, options()).unwrap();
    assert!(bench.meta.ready_once && bench.meta.remotes_known && !bench.meta.membership_synced);
    assert_eq!(bench.pieces.len(), 1);
    let piece = &bench.pieces[0];
    assert_eq!(piece.identity, Some(identity));
    // Half a second passed between record and commit, on a clock that is equal at the restart.
    let since = Mono(at.0 - 500);
    let want = [
        list("east", "a", 1),
        put("east", "a", "pod-1", 1),
        Record::Problem(name.clone(), of, object, Some(ProblemRecord { since, ..problem })),
        Record::Hold(name.clone(), key, Some(HoldRecord { since, ..hold })),
        Record::Ended(name, scope("removed"), Evidence::Operator, since),
    ];
    assert_eq!(piece.records, want);
}

#[test]
fn knowledge_of_the_remote_clusters_can_be_withdrawn() {
    let disk = FaultyDisk::default();
    for known in [true, false] {
        let mut bench = Bench::open(&disk, options()).unwrap();
        bench.shared.remotes_known(known);
        assert!(bench.pass());
        drop(bench);
        assert_eq!(Bench::open(&disk, options()).unwrap().meta.remotes_known, known);
    }
}

#[test]
fn journal_of_a_later_release_stays_beside_a_new_one() {
    let (disk, served) = filled();
    crate::store::set_format(&disk, 9, 9);
    let before = disk.bytes(JOURNAL);
    let mut bench = Bench::open(&disk, options()).unwrap();
    assert!(bench.served().is_empty());
    assert!(bench.notice.as_ref().unwrap().contains("format 9"), "{:?}", bench.notice);
    bench.shared.record(vec![put("east", "a", "pod-1", 1), list("east", "a", 1)]);
    assert!(bench.pass());
    assert_eq!(disk.bytes("journal.redb.format-9").len(), before.len());
    drop(bench);
    let kept = FaultyDisk::default();
    kept.put(JOURNAL, disk.bytes("journal.redb.format-9"));
    crate::store::set_format(&kept, 1, 1);
    assert_eq!(Bench::open(&kept, options()).unwrap().served(), served, "the file is unchanged");
}

#[test]
fn previous_and_compatible_later_formats_are_read() {
    for (format, reader) in [(0, 0), (5, 1)] {
        let (disk, served) = filled();
        crate::store::set_format(&disk, format, reader);
        let mut bench = Bench::open(&disk, options()).unwrap();
        assert_eq!((bench.served(), &bench.notice), (served, &None), "format {format}");
        bench.shared.ready();
        assert!(bench.pass());
        drop(bench);
        assert_eq!(Bench::open(&disk, options()).unwrap().meta.format, 1);
    }
}

#[test]
fn unreadable_file_is_set_aside_and_two_are_kept() {
    let disk = FaultyDisk::default();
    for n in 0..4u8 {
        disk.put(JOURNAL, vec![n + 1; 9000]);
        let bench = Bench::open(&disk, options()).unwrap();
        assert!(bench.served().is_empty() && bench.notice.is_some());
    }
    let names = crate::store::Files::names(&disk).unwrap();
    assert_eq!(names, [JOURNAL, "journal.redb.unreadable-3", "journal.redb.unreadable-4"]);
    assert_eq!(disk.bytes("journal.redb.unreadable-4"), vec![4; 9000]);
}

#[test]
fn age_of_a_list_includes_the_time_that_the_process_was_down() {
    let now = crate::samples::now();
    let (wall, age) = now.store(Mono(now.mono.0 - 10_000));
    let later = crate::codec::Now { mono: Mono(1 << 40), ..now.plus(Duration::from_secs(60)) };
    assert_eq!(later.restore(wall, age), Mono((1 << 40) - 70_000));
}
