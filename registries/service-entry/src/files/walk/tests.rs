//! Walks of real directories.

use super::*;
use std::os::unix::fs::symlink;

fn mk_dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn walked(dir: &Path) -> Walk {
    bounded(dir, Bounds::default())
}

fn bounded(dir: &Path, bounds: Bounds) -> Walk {
    match walk(dir, &Stamps::default(), bounds) {
        Listing::Walked(walk) => walk,
        Listing::Unreadable(_, why) => panic!("{why}"),
    }
}

fn names(walk: &Walk) -> Vec<&str> {
    walk.files.keys().map(|path| path.to_str().unwrap()).collect()
}

#[test]
fn yaml_files_are_found_in_all_directories_in_one_order() {
    let dir =
        mk_dir(&[("b.yaml", "b"), ("a/z.yml", "z"), ("a/b/c.YAML", "c"), ("a.txt", ""), ("README", "")]);
    let walk = walked(dir.path());
    assert_eq!(names(&walk), ["a/b/c.YAML", "a/z.yml", "b.yaml"]);
    assert_eq!(walk.files[Path::new("b.yaml")], Seen::Text("b".into()));
    assert!(walk.faults.is_empty());
}

#[test]
fn hidden_names_are_passed_over_and_links_followed() {
    let dir = mk_dir(&[("..2024_1/a.yaml", "a"), (".swp.yaml", "x"), (".git/b.yaml", "x")]);
    symlink("..2024_1", dir.path().join("..data")).unwrap();
    symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
    symlink(".", dir.path().join("loop")).unwrap();
    let walk = walked(dir.path());
    assert_eq!(names(&walk), ["a.yaml"]);
    assert!(walk.faults.is_empty(), "{:?}", walk.faults);
}

#[test]
fn links_to_nothing_cannot_be_read() {
    let dir = mk_dir(&[("a.yaml", "a")]);
    symlink("nowhere", dir.path().join("b.yaml")).unwrap();
    let file = walked(dir.path());
    let Seen::Failed(Code::FILE_UNREADABLE, why) = &file.files[Path::new("b.yaml")] else {
        panic!("{file:?}")
    };
    assert_eq!(why, "is a link to nothing; restore its target, or remove the link");
    assert!(file.faults.is_empty(), "the listing is complete: {:?}", file.faults);
    symlink("nowhere", dir.path().join("team")).unwrap();
    let directory = walked(dir.path());
    let fault = &directory.faults[0];
    assert_eq!((fault.code, fault.state), (Code::FILE_UNREADABLE, SourceState::Unreachable));
    assert!(
        fault.why.ends_with("team is a link to nothing; restore its target, or remove the link"),
        "{fault:?}"
    );
}

#[test]
fn settled_and_unchanged_file_is_not_read_again() {
    let dir = mk_dir(&[("a.yaml", "a")]);
    let first = walked(dir.path());
    let settle = |settled| -> Stamps {
        Arc::new(
            first.stamps.iter().map(|(path, stamp)| (path.clone(), Stamp { settled, ..*stamp })).collect(),
        )
    };
    let again = |stamps: &Stamps| match walk(dir.path(), stamps, Bounds::default()) {
        Listing::Walked(walk) => walk.files[Path::new("a.yaml")].clone(),
        Listing::Unreadable(_, why) => panic!("{why}"),
    };
    assert_eq!(again(&settle(false)), Seen::Text("a".into()), "it was written just before");
    assert_eq!(again(&settle(true)), Seen::Same);
    fs::write(dir.path().join("new"), "b").unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("a.yaml")).unwrap();
    assert_eq!(again(&settle(true)), Seen::Text("b".into()), "a different file has the name");
}

#[test]
fn file_or_absent_directory_is_unreadable() {
    let dir = mk_dir(&[("file", "")]);
    for (path, state) in [("gone", SourceState::Unreachable), ("file", SourceState::Broken)] {
        match walk(&dir.path().join(path), &Stamps::default(), Bounds::default()) {
            Listing::Unreadable(got, why) => {
                assert_eq!(got, state, "{why}");
                assert!(why.contains(path), "{why}");
            }
            Listing::Walked(_) => panic!("{path} was walked"),
        }
    }
}

#[test]
fn directories_are_identified_by_more_than_a_name() {
    let (one, two) = (mk_dir(&[]), mk_dir(&[]));
    assert_eq!(walked(one.path()).dir, walked(one.path()).dir);
    assert_ne!(walked(one.path()).dir, walked(two.path()).dir);
}

#[test]
fn files_that_are_not_text_are_reported() {
    let dir = mk_dir(&[("huge.yaml", &"x".repeat(100))]);
    fs::write(dir.path().join("bytes.yaml"), b"a: \xff").unwrap();
    let walk = bounded(dir.path(), Bounds { file_bytes: 99, ..Bounds::default() });
    assert_eq!(
        walk.files.values().cloned().collect::<Vec<_>>(),
        [
            Seen::Failed(Code::FILE_UNREADABLE, "is not UTF-8 from byte 3 on; save it as UTF-8".into()),
            Seen::Failed(Code::SOURCE_LIMIT, "is 100 bytes long, more than 99; split it".into()),
        ]
    );
    assert!(walk.faults.is_empty(), "the listing is complete");
}

#[test]
fn exceeded_limit_makes_the_listing_incomplete() {
    let dir = mk_dir(&[("a.yaml", "a"), ("b.yaml", "b"), ("c.yaml", "c"), ("d/e/f.yaml", "f")]);
    let few = bounded(dir.path(), Bounds { files: 2, ..Bounds::default() });
    assert_eq!((names(&few).len(), few.faults.len(), few.faults[0].code), (2, 1, Code::SOURCE_LIMIT));
    let flat = bounded(dir.path(), Bounds { depth: 2, ..Bounds::default() });
    assert_eq!((names(&flat).len(), flat.faults.len()), (3, 1), "{:?}", flat.faults);
    let short = bounded(dir.path(), Bounds { walk_bytes: 3, ..Bounds::default() });
    assert_eq!(short.files.values().filter(|seen| matches!(seen, Seen::Failed(..))).count(), 1);
}
