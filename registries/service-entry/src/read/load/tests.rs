//! Streams of documents: each is loaded alone.

use proptest::prelude::*;

use super::*;

fn doc(name: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: {name}\nspec:\n  address: 10.0.0.1\n"
    )
}

fn names(load: &Load) -> Vec<&str> {
    load.documents.iter().map(|object| &*object.document.meta.name).collect()
}

#[test]
fn invalid_document_leaves_the_others_readable() {
    for broken in [
        "{]",
        "a: [1, 2",
        "\"never closed",
        "key: |\n  text\n ---\n",
        "\tkey: value",
        "a: b: c",
        "%BAD\n",
        "&a *b",
        "? [",
        "- - - :",
        "'",
        "a: \u{7}",
        "!!binary x",
    ] {
        let text = format!("{}---\n{broken}\n---\n{}", doc("one"), doc("two"));
        let load = load_str(&text, "f.yaml");
        assert_eq!(names(&load), ["one", "two"], "{broken:?}");
        assert_eq!(load.problems.len(), 1, "{broken:?}: {:?}", load.problems);
        assert!(load.problems[0].is_refused());
        assert_eq!(load.problems[0].object.id.to_string(), "Document f.yaml#1");
    }
}

#[test]
fn invalid_document_with_a_name_reports_on_its_object() {
    let text = doc("one").replace("address: 10.0.0.1", "address: [");
    let load = load_str(&text, "f.yaml");
    assert_eq!(load.problems[0].object.id, ObjectId::new("WorkloadEntry", "default", "one"));
    assert!(load.problems[0].problem.message.starts_with("f.yaml:"), "{}", load.problems[0].problem.message);
}

#[test]
fn markers_comments_line_breaks_and_marks_are_as_yaml_has_them() {
    let text = format!(
        "\u{feff}# head\n---\n# only a comment\n---\n{}...\n%YAML 1.2\n---\n{}--- # note\n{}",
        doc("one"),
        doc("two"),
        doc("three")
    );
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        let load = load_str(&text, "f.yaml");
        assert!(load.problems.is_empty(), "{:?}", load.problems);
        assert_eq!(names(&load), ["one", "two", "three"]);
        assert_eq!(&*load.documents[1].position, "f.yaml:14:1");
    }
}

#[test]
fn marker_in_a_block_scalar_is_text_unless_at_column_0() {
    let note = |line: &str| {
        doc("one").replace("metadata:\n", &format!("metadata:\n  annotations:\n    note: |\n{line}\n"))
    };
    let inside = load_str(&note("      ---\n      text"), "f.yaml");
    let document = &inside.documents[0].document;
    assert_eq!(document.meta.annotation("note"), Some("---\ntext\n"));
    assert!(load_str(&note("---"), "f.yaml").documents.is_empty());
}

#[test]
fn the_first_of_two_documents_of_one_object_serves() {
    let text = format!("{}---\n{}", doc("one"), doc("one").replace("10.0.0.1", "10.0.0.2"));
    let load = load_str(&text, "f.yaml");
    assert_eq!(names(&load), ["one"]);
    assert_eq!(load.problems[0].problem.code, Code::DUPLICATE_OBJECT);
    assert!(load.problems[0].problem.message.contains("declared already at f.yaml:1:1"));
    assert_eq!(&*load.problems[0].object.position.text(), "f.yaml:8:1");
}

#[test]
fn documents_over_the_limit_are_reported() {
    let text = "a: 1\n---\n".repeat(MAX_DOCUMENTS + 1);
    let (chunks, over) = documents(&text);
    assert_eq!(chunks.len(), MAX_DOCUMENTS);
    assert_eq!(over.unwrap().code, Code::SOURCE_LIMIT);
}

#[test]
fn an_anchor_does_not_reach_into_the_next_document() {
    let text = format!(
        "{}---\n{}",
        doc("one").replace("10.0.0.1", "&a 10.0.0.1"),
        doc("two").replace("10.0.0.1", "*a")
    );
    let load = load_str(&text, "f.yaml");
    assert_eq!(names(&load), ["one"]);
    assert_eq!(load.problems[0].problem.code, Code::YAML_SYNTAX);
}

proptest! {
    /// Any text between two documents leaves both readable.
    #[test]
    fn any_text_between_two_documents_spoils_neither(junk in "\\PC*|([a-z:\\-\\[\\]{}&*|>'\" #%\n\r\t]{0,60})") {
        let text = format!("{}---\n{junk}\n---\n{}", doc("one"), doc("two"));
        let load = load_str(&text, "f.yaml");
        let names = names(&load);
        prop_assert!(names.contains(&"one") && names.contains(&"two"), "{:?}", load.problems);
    }

    /// Splitting loses no line and counts every one.
    #[test]
    fn every_line_with_content_lies_in_one_document(lines in prop::collection::vec("[a:# -]{0,4}|---|\\.\\.\\.|--- x|%y", 0..20)) {
        let text = lines.join("\n");
        let chunks = crate::read::yaml::split(&text);
        for (number, line) in lines.iter().enumerate() {
            let marks = matches!(line.trim_end(), "---" | "...") || line.trim_start().is_empty() || line.trim_start().starts_with(['#', '%']);
            let within = |chunk: &&crate::read::yaml::Chunk<'_>| {
                let first = chunk.line as usize - 1;
                (first..first + chunk.text.lines().count()).contains(&number)
            };
            let count = chunks.iter().filter(within).count();
            prop_assert!(count <= 1);
            prop_assert!(marks || count == 1, "line {number} {line:?} of {lines:?}");
        }
    }
}
