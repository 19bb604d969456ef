//! `tributary state verify` as a process of its own, over damaged journals. Alone in its file: a child
//! process that starts during another test would inherit the lock of that test's directory.

use crate::world::{World, file_registry, mk_entry, mk_folder};

#[tokio::test]
async fn damaged_journal_fails_verification_in_one_line() {
    let dir = mk_folder(&[("pay.yaml", mk_entry("pay", "pay.shop", "10.0.0.1"))]);
    let state = tempfile::tempdir().unwrap();
    let args = ["--registry", &file_registry(&dir), "--state-dir", state.path().to_str().unwrap()];
    World::start(&args).await.server.stop().await;
    let file = state.path().join("journal.redb");
    let whole = std::fs::read(&file).unwrap();
    let verify = || {
        let verify = ["state", "verify", "--state-dir", state.path().to_str().unwrap()];
        std::process::Command::new(env!("CARGO_BIN_EXE_tributary")).args(verify).output().unwrap()
    };
    assert_eq!(verify().status.code(), Some(0));
    let mut unreadable = 0;
    for (at, length) in (0..24).map(|part| (whole.len() * part / 24, 64)).chain([(0, whole.len())]) {
        let mut damaged = whole.clone();
        damaged[at..].iter_mut().take(length).for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&file, &damaged).unwrap();
        let output = verify();
        let (out, talk) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(matches!(output.status.code(), Some(0 | 3)), "at {at}: {:?} {talk}", output.status);
        assert_eq!(talk.lines().count(), 1, "at {at}: {talk}");
        unreadable += usize::from(output.status.code() == Some(3) && out.is_empty());
    }
    assert!(unreadable > 1, "{unreadable} of 25 are unreadable: nothing was damaged");
}
