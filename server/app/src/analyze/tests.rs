//! Order, suppression and severities of findings.

use super::*;

fn mk_finding(severity: Severity, code: Code, position: &str, object: &str) -> Finding {
    Finding::new(severity, code, object.to_owned(), position, "m")
}

#[test]
fn worst_findings_precede_and_lines_are_numbers() {
    let of =
        |severity, position| mk_finding(severity, Code::ROUTE_SHADOWED, position, "VirtualService shop/a");
    let all = vec![
        of(Severity::Warning, "a.yaml:10:1"),
        of(Severity::Info, "a.yaml:1:1"),
        of(Severity::Warning, "a.yaml:9:1"),
        of(Severity::Error, "b.yaml:1:1"),
        of(Severity::Warning, "a.yaml:9:1"),
    ];
    let positions: Vec<String> = ordered(all, &[]).into_iter().map(|one| one.position).collect();
    assert_eq!(positions, ["b.yaml:1:1", "a.yaml:9:1", "a.yaml:10:1", "a.yaml:1:1"]);
}

#[test]
fn suppression_takes_its_code_and_object() {
    let finding = mk_finding(Severity::Error, Code::ROUTE_SHADOWED, "", "VirtualService shop/a");
    let cases = [
        ("TRB0452", true),
        ("TRB0452=shop/a", true),
        ("TRB0452=*/a", true),
        ("TRB0452=shop/*", true),
        ("TRB0452=web/a", false),
        ("TRB0452=shop/b", false),
        ("TRB0450", false),
    ];
    for (text, is_left_out) in cases {
        let left = ordered(vec![finding.clone()], &[text.parse().unwrap()]);
        assert_eq!(left.is_empty(), is_left_out, "{text}");
    }
    for (text, want) in
        [("450", "does not begin with a code"), ("TRB9999", "code"), ("TRB0452=a", "NAMESPACE/NAME")]
    {
        let error = text.parse::<Suppression>().unwrap_err();
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn lost_requests_are_errors_and_fields_without_effect_are_not() {
    assert_eq!(Severity::of(Code::ROUTE_DESTINATION_UNMATCHED), Severity::Error);
    assert_eq!(Severity::of(Code::ROUTE_SHADOWED), Severity::Warning);
    assert_eq!(Severity::of(Code::POLICY_FIELD_IGNORED), Severity::Info);
    // its clients may just not be connected
    assert_eq!(Severity::of(Code::PATCH_UNUSED), Severity::Info);
    assert_eq!(Severity::of(Code::ROUTE_HOST_EXCEPTED), Severity::Info);
    assert_eq!(Severity::of(Code::ROUTE_LACKED_BY_SOME), Severity::Warning);
}
