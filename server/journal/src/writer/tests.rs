//! The writer when the disk fails, fills up or is slow.

use std::time::Duration;

use tributary_model::*;

use crate::store::JOURNAL;
use crate::store::faulty::{FaultyDisk, Numbers};
use crate::testing::{Bench, Served, batch, list, note, options, put, registry};
use crate::writer::{JournalOptions, SLACK};

fn reopened(disk: &FaultyDisk) -> Served {
    Bench::open(disk, options()).unwrap().served()
}

#[test]
fn commit_on_a_full_disk_is_retried_without_loss() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let mut served = Served::new();
    let mut record = |bench: &Bench, from: u64, count: u64| {
        let mut records: Vec<Record> =
            (from..from + count).map(|n| put("east", "a", &format!("pod-{n}"), n + 5)).collect();
        records.push(list("east", "a", from + count));
        records.iter().for_each(|record| note(&mut served, record));
        bench.shared.record(records);
    };
    let mut errors = bench.shared.errors();
    record(&bench, 0, 10);
    assert!(bench.pass());
    disk.set_capacity(Some(disk.bytes(JOURNAL).len() as u64));
    record(&bench, 10, 2_000);
    assert!(!bench.pass());
    let stats = bench.shared.stats();
    assert!(stats.last_error.is_some() && !stats.is_whole(), "{stats:?}");
    assert!(errors.has_changed().unwrap() && *errors.borrow_and_update() == stats.last_error);
    assert_eq!(stats.pending_keys, 2_001);
    let east = [registry("east")];
    assert_eq!(
        (&stats.incomplete[..], &stats.unwritten[..]),
        (&east[..], &east[..]),
        "it is not whole on disk"
    );
    record(&bench, 2_010, 5);
    let tries = disk.operations();
    assert!(!bench.pass());
    assert_eq!(disk.operations(), tries, "not before the wait is over");
    assert!(!errors.has_changed().unwrap(), "the same error wakes no reader");
    disk.set_capacity(None);
    bench.now = bench.now.plus(Duration::from_secs(60));
    assert!(bench.pass());
    assert!(bench.shared.stats().is_whole() && bench.shared.stats().last_error.is_none());
    assert!(errors.has_changed().unwrap() && errors.borrow_and_update().is_none());
    drop(bench);
    assert_eq!(reopened(&disk), served);
}

#[test]
fn values_of_a_commit_in_progress_count_as_pending() {
    let bench = Bench::open(&FaultyDisk::default(), options()).unwrap();
    bench.shared.record(vec![put("east", "a", "pod-1", 1), list("east", "a", 1)]);
    bench.shared.ready();
    assert_eq!(bench.shared.stats().pending_keys, 3);
    let unwritten = |bench: &Bench| bench.shared.stats().unwritten;
    assert_eq!(unwritten(&bench), [registry("east")]);
    let taken = bench.shared.take();
    assert_eq!(bench.shared.stats().pending_keys, 3, "a crash now would lose these values");
    assert_eq!(unwritten(&bench), [registry("east")], "a crash now would lose it");
    assert!(bench.shared.stats().incomplete.is_empty(), "the next commit writes it");
    bench.shared.put_back(taken);
    assert_eq!(bench.shared.stats().pending_keys, 3);
    let mut bench = bench;
    assert!(bench.pass());
    assert_eq!(bench.shared.stats().pending_keys, 0);
    assert!(unwritten(&bench).is_empty());
}

#[test]
fn failed_sync_is_retried_on_a_reopened_file() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let mut served = Served::new();
    let mut numbers = Numbers(3);
    for pass in 0..12 {
        bench.shared.record(batch(&mut numbers, &mut served));
        disk.fail_sync(pass % 3 == 1);
        bench.now = bench.now.plus(Duration::from_secs(60));
        bench.pass();
    }
    assert!(bench.shared.stats().commits > 3);
    disk.fail_sync(false);
    bench.now = bench.now.plus(Duration::from_secs(60));
    bench.pass();
    drop(bench);
    assert_eq!(reopened(&disk), served);
}

#[test]
fn start_on_a_failing_disk_reads_the_state_and_keeps_changes_once_the_disk_works() {
    let disk = FaultyDisk::default();
    let mut served = Served::new();
    let mut record = |bench: &Bench, name: &str, weight: u64| {
        let records = vec![put("east", "a", name, weight), list("east", "a", weight)];
        records.iter().for_each(|record| note(&mut served, record));
        bench.shared.record(records);
        served.clone()
    };
    let mut bench = Bench::open(&disk, options()).unwrap();
    let before = record(&bench, "pod-1", 1);
    assert!(bench.pass());
    drop(bench);

    disk.fail_sync(true);
    let mut bench = Bench::open(&disk, options()).unwrap();
    assert_eq!(bench.served(), before);
    assert!(bench.notice.as_ref().is_some_and(|notice| notice.contains("sync failed")), "{:?}", bench.notice);
    let after = record(&bench, "pod-2", 2);
    assert!(!bench.pass());
    let stats = bench.shared.stats();
    assert!(!stats.open && stats.last_error.is_some(), "{stats:?}");

    disk.fail_sync(false);
    bench.now = bench.now.plus(Duration::from_secs(60));
    assert!(bench.pass() && bench.shared.stats().open);
    drop(bench);
    assert_eq!(reopened(&disk), after);
}

/// Answers every slice that the journal requests, as the owner of that state.
fn answer(bench: &Bench, served: &Served) -> usize {
    let mut slices = 0;
    while let Some(wanted) = bench.shared.wanted() {
        slices += 1;
        let mine = served.iter().filter(|((name, ..), _)| name == wanted.registry.as_str());
        let after = wanted.after.as_ref().map(|key| match &key.item {
            FactId::Workload(of) => (key.scope.as_str().to_owned(), of.name.to_string()),
            other => panic!("{other:?}"),
        });
        let rest = mine.filter(|((_, of, item), _)| {
            after.as_ref().is_none_or(|after| (of, item) > (&after.0, &after.1))
        });
        let rest: Vec<_> = rest.collect();
        let slice = rest.iter().take(wanted.most).map(|((name, of, item), value)| match item.as_str() {
            "list" => list(name, of, **value),
            item => put(name, of, item, **value),
        });
        bench.shared.slice(&wanted.registry, slice.collect(), rest.len() <= wanted.most);
        if slices > 1_000 {
            panic!("the slices do not end");
        }
    }
    slices
}

#[test]
fn journal_that_falls_behind_refills_from_slices() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, JournalOptions { most_keys: 50, ..options() }).unwrap();
    let mut served = Served::new();
    let first = vec![put("west", "a", "pod-1", 1), list("west", "a", 1)];
    first.iter().for_each(|record| note(&mut served, record));
    bench.shared.record(first);
    assert!(bench.pass());
    let mut many: Vec<Record> = (0..60).map(|n| put("east", "a", &format!("pod-{n:02}"), 1)).collect();
    many.push(list("east", "a", 60));
    many.iter().for_each(|record| note(&mut served, record));
    bench.shared.record(many);
    let stats = bench.shared.stats();
    assert_eq!((stats.incomplete, stats.pending_keys), (vec![registry("east")], 0));
    bench.pass();
    let restored = Bench::open(&disk.after_power_loss(&mut Numbers(0)), options()).unwrap();
    assert!(restored.pieces.iter().any(|piece| piece.name == registry("east") && piece.absent.is_some()));
    assert!(
        restored.served().keys().all(|(name, ..)| name == "west"),
        "part of a registry is never restored"
    );
    for pass in 0..20 {
        answer(&bench, &served);
        // Changes between slices are recorded as usual.
        let change = vec![put("east", "a", &format!("pod-{:02}", pass % 60), 7 + pass)];
        change.iter().for_each(|record| note(&mut served, record));
        bench.shared.record(change);
        bench.pass();
    }
    assert!(bench.shared.stats().is_whole(), "{:?}", bench.shared.stats());
    drop(bench);
    assert_eq!(reopened(&disk), served);
}

#[test]
fn unreadable_file_is_replaced_and_refilled() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let mut served = Served::new();
    let first = vec![put("east", "a", "pod-1", 1), list("east", "a", 1)];
    first.iter().for_each(|record| note(&mut served, record));
    bench.shared.record(first);
    assert!(bench.pass());
    // A failed commit makes the writer open the file again, which is damaged by then.
    disk.fail_sync(true);
    bench.shared.ready();
    assert!(!bench.pass());
    disk.fail_sync(false);
    disk.put(JOURNAL, vec![1; 9_000]);
    for _ in 0..3 {
        bench.now = bench.now.plus(Duration::from_secs(60));
        bench.pass();
        answer(&bench, &served);
    }
    assert!(bench.shared.stats().is_whole(), "{:?}", bench.shared.stats());
    drop(bench);
    let bench = Bench::open(&disk, options()).unwrap();
    assert_eq!((bench.served(), bench.meta.ready_once), (served, true));
}

#[test]
fn largest_registry_is_excluded_beyond_the_size_limit() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, JournalOptions { most_bytes: 100_000, ..options() }).unwrap();
    let mut served = Served::new();
    let small = vec![put("west", "a", "pod-1", 1), list("west", "a", 1)];
    small.iter().for_each(|record| note(&mut served, record));
    bench.shared.record(small);
    bench.shared.record((0..100).map(|n| put("east", "a", &format!("pod-{n}"), 6)).collect());
    bench.pass();
    bench.shared.record(vec![put("east", "a", "pod-1", 9)]);
    bench.pass();
    let stats = bench.shared.stats();
    assert_eq!(stats.dropped.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["east"]);
    assert!(stats.live_bytes < 1_000, "{stats:?}");
    bench.shared.record(vec![Record::Left(registry("east"))]);
    assert!(bench.pass() && bench.shared.stats().dropped.is_empty());
    drop(bench);
    assert_eq!(reopened(&disk), served);
}

#[test]
fn file_stays_below_twice_its_live_content_under_churn() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    let facts = 20_000;
    let mut records: Vec<Record> = (0..facts).map(|n| put("east", "a", &format!("pod-{n}"), 1)).collect();
    records.push(list("east", "a", facts));
    bench.shared.record(records);
    assert!(bench.pass());
    let mut numbers = Numbers(1);
    for _ in 0..60 {
        let change = |numbers: &mut Numbers| {
            put("east", "a", &format!("pod-{}", numbers.below(facts)), 1 + numbers.below(3) * 7)
        };
        bench.shared.record((0..500).map(|_| change(&mut numbers)).collect());
        assert!(bench.pass());
        let stats = bench.shared.stats();
        assert!(stats.bytes <= stats.live_bytes * 2 + SLACK, "{stats:?}");
    }
    // Most facts are removed: the file shrinks.
    let removed = (0..facts - 100).map(|n| {
        let key = FactKey {
            scope: crate::testing::scope("a"),
            item: crate::testing::fact(&format!("pod-{n}"), 1).item(),
        };
        Record::Remove(registry("east"), key, Evidence::Confirmed)
    });
    bench.shared.record(removed.chain([list("east", "a", 100)]).collect());
    assert!(bench.pass());
    let stats = bench.shared.stats();
    assert!(stats.compactions > 0 && stats.bytes <= stats.live_bytes * 2 + SLACK, "{stats:?}");
    drop(bench);
    assert_eq!(reopened(&disk).len(), 101);
}

#[test]
fn ended_scopes_are_bounded_and_leave_nothing_else() {
    let disk = FaultyDisk::default();
    let mut bench = Bench::open(&disk, options()).unwrap();
    for n in 0..600 {
        let of = format!("scope-{n}");
        bench.shared.record(vec![put("east", &of, "pod-1", 1), list("east", &of, 1)]);
        if n % 2 == 0 {
            bench.pass();
        }
        let scope = crate::testing::scope(&of);
        bench.shared.record(vec![Record::Ended(registry("east"), scope, Evidence::Operator, bench.now.mono)]);
    }
    bench.pass();
    drop(bench);
    let served = reopened(&disk);
    assert_eq!((served.len(), served.keys().filter(|(_, _, item)| item == "ended").count()), (256, 256));
}

#[test]
fn records_during_a_commit_are_committed_by_close() {
    use crate::store::directory::StateDirectory;
    let base = tempfile::tempdir().unwrap();
    let open = || {
        let directory = StateDirectory::open(base.path()).unwrap();
        crate::Journal::open(directory, options(), std::sync::Arc::new(crate::samples::now)).unwrap()
    };
    let (journal, restoring) = open();
    assert_eq!(restoring.all().registries, []);
    journal.record(vec![put("east", "a", "pod-1", 1), list("east", "a", 1)]);
    journal.flush();
    assert_eq!(journal.stats().commits, 1);
    journal.record(vec![put("east", "a", "pod-2", 2), list("east", "a", 2)]);
    journal.close();
    let (journal, restoring) = open();
    // Closed while no restored piece is taken.
    drop(journal);
    assert!(restoring.count() <= 1);
    let (_journal, restoring) = open();
    let all = restoring.all();
    assert_eq!(
        all.registries[0].records,
        [list("east", "a", 2), put("east", "a", "pod-1", 1), put("east", "a", "pod-2", 2)]
    );
}
