//! `tributary cluster check` over files as a user has them, as a process of its own.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// What `istioctl create-remote-secret --name=east` prints.
const ISTIO: &str = include_str!("../../../../docs/examples/clusters/east.yaml");
/// Value that no output may hold.
const PLANTED: &str = "s3cr3t-hunter2";
/// JSON whose `exp` is a time in 2001, and one in 2100, as the claims of a token.
const EXPIRED: &str = "eyJleHAiOjEwMDAwMDAwMDB9";
const VALID: &str = "eyJleHAiOjQxMDI0NDQ4MDB9";

struct Ran {
    code: Option<i32>,
    out: String,
    notes: String,
}

/// Runs the command with `text` as its standard input and checks that no output holds the planted secret.
fn check(text: &str, args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
    command.args(["cluster", "check"]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // a command that does not read its input closes it
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    let (out, notes) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!out.contains(PLANTED) && !notes.contains(PLANTED), "a secret is shown: {out} {notes}");
    Ran { code: output.status.code(), out, notes }
}

/// The Secret of istioctl with another line in place of its token, and its server.
fn mk_secret(user: &str, server: &str) -> String {
    let token = ISTIO.lines().find(|line| line.trim().starts_with("token:")).unwrap().trim();
    ISTIO.replace(token, user).replace("https://10.4.0.1:6443", server)
}

#[test]
fn accepted_cluster_is_shown_with_server_and_authentication() {
    let ran = check(ISTIO, &["-f", "-"]);
    assert_eq!(
        (ran.code, ran.notes.as_str()),
        (Some(0), "accepted: 1, expired: 0, refused: 0\n"),
        "{}",
        ran.out
    );
    let row: Vec<&str> = ran.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["east", "Accepted", "https://10.4.0.1:6443", "token", "-", "-"]);
    let wide = check(ISTIO, &["-f", "-", "-o", "wide", "--no-headers"]).out;
    assert!(wide.trim_end().ends_with("-, Secret istio-system/istio-remote-secret-east"), "{wide}");
}

#[test]
fn refused_cluster_names_field_line_next_step_and_code() {
    let user = format!("token: t\n        exec: {{command: {PLANTED}}}\n        username: {PLANTED}");
    let ran = check(&mk_secret(&user, "https://10.0.0.1"), &["-f", "-"]);
    assert_eq!(
        (ran.code, ran.notes.as_str()),
        (Some(3), "accepted: 0, expired: 0, refused: 1\n"),
        "{}",
        ran.out
    );
    let program = "users[0].user.exec (line 19) runs a program on the server's machine; use the token of a service account or a \
                   client certificate (TRB0702)";
    assert!(ran.out.contains(program), "{}", ran.out);
    assert!(ran.out.contains("or allow it with `--allow-kubeconfig basic` (TRB0702)"), "{}", ran.out);
}

#[test]
fn opt_ins_of_the_message_allow_what_it_refuses() {
    let user = format!("username: ada\n        password: {PLANTED}");
    let text = mk_secret(&user, "https://127.0.0.1:6443");
    let refused: Value = serde_json::from_str(&check(&text, &["-f", "-", "-o", "json"]).out).unwrap();
    let reasons = refused["items"][0]["reasons"].as_array().unwrap();
    let flags: Vec<&str> = reasons.iter().flat_map(|one| one["optIn"].as_str().unwrap().split(' ')).collect();
    assert!(flags.contains(&"--allow-server-cidr") && flags.contains(&"127.0.0.0/8"), "{flags:?}");
    let ran = check(&text, &[&["-f", "-"], &flags[..]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(ran.out.contains("https://127.0.0.1:6443   password"), "{}", ran.out);
}

#[test]
fn expiry_is_shown_and_an_expired_credential_is_not_accepted() {
    let of = |claims: &str| mk_secret(&format!("token: e30.{claims}.{PLANTED}"), "https://10.0.0.1");
    let expired = check(&of(EXPIRED), &["-f", "-"]);
    assert_eq!((expired.code, expired.notes.as_str()), (Some(3), "accepted: 0, expired: 1, refused: 0\n"));
    assert!(expired.out.contains("d ago") && expired.out.contains("(TRB0705)"), "{}", expired.out);
    let valid = check(&of(VALID), &["-f", "-"]);
    assert!(
        valid.code == Some(0) && valid.out.contains("in ") && !valid.out.contains("TRB"),
        "{}",
        valid.out
    );
}

#[test]
fn json_is_one_document_with_every_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (east, west) = (put("east.yaml", ISTIO), put("west.kubeconfig", &format!("users: [{PLANTED}]\n")));
    let ran = check("", &["-f", &east, "-f", &west, "-o", "json"]);
    assert_eq!((ran.code, ran.notes.as_str()), (Some(3), ""));
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&document["apiVersion"], &document["kind"]),
        (&"tributary.dev/v1".into(), &"ClusterCheckList".into())
    );
    let items = document["items"].as_array().unwrap();
    let verdicts: Vec<(&str, &str)> = items
        .iter()
        .map(|one| (one["cluster"].as_str().unwrap(), one["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts, [("east", "Accepted"), ("west", "Refused")]);
    assert_eq!(items[0]["server"], "https://10.4.0.1:6443");
    assert_eq!(
        (&items[1]["reasons"][0]["code"], &items[1]["reasons"][0]["field"]),
        (&"TRB0703".into(), &"users[0]".into())
    );
    assert_eq!(check("", &["-f", &east, "-f", &west, "-o", "name"]).out, "east\nwest\n");
    let none = check("kind: List\nitems: []\n", &["-f", "-"]);
    assert_eq!(none.code, Some(4), "no cluster is declared: {}", none.notes);
}

#[test]
fn file_that_cannot_be_read_and_invalid_flags_are_usage_errors() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("missing"), dir.path().to_owned()] {
        let ran = check("", &["-f", path.to_str().unwrap()]);
        assert_eq!(ran.code, Some(2), "{}", ran.notes);
        assert!(
            ran.notes.starts_with("tributary: TRB0317 ") && ran.notes.contains("next: name a kubeconfig"),
            "{}",
            ran.notes
        );
    }
    for flags in [&["--allow-kubeconfig", "exec"][..], &["--allow-server-cidr", "localhost"], &[]] {
        let args = if flags.is_empty() { vec![] } else { [&["-f", "-"], flags].concat() };
        assert_eq!(check(ISTIO, &args).code, Some(2), "{flags:?}");
    }
}

#[test]
fn bytes_of_any_kind_are_refused_and_not_shown() {
    for text in [
        String::new(),
        format!("a: [{PLANTED}"),
        format!("{PLANTED}: {PLANTED}"),
        format!("a: &{PLANTED} x"),
        format!("\u{0}{PLANTED}"),
    ] {
        let ran = check(&text, &["-f", "-"]);
        assert_eq!(ran.code, Some(3), "{text:?}: {} {}", ran.out, ran.notes);
        assert!(ran.out.contains("(TRB070"), "{}", ran.out);
    }
}
