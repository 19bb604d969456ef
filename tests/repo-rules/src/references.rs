//! References: every cited page exists, with its heading, no text cites a page by section number, and documents name
//! code that exists.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Text;

/// Kinds of files whose comments cite pages.
const KINDS: [&str; 7] = [".rs", ".md", ".py", ".sh", ".toml", ".yaml", ".js"];

/// Pages with numbered sections that only the ledger cites.
const NUMBERED: [&str; 7] =
    ["xds.md", "registries.md", "core.md", "operators.md", "consul.md", "rust.md", "clusters.md"];

/// A reference to a file of the repository, from its root, and the heading's anchor.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    path: String,
    anchor: Option<String>,
}

/// Returns references to pages or headings that do not exist.
pub fn dangling(texts: &[Text]) -> Vec<String> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        texts.iter().map(|text| (text.path.as_str(), headings(text))).collect();
    let mut faults = Vec::new();
    for text in checked(texts) {
        for (number, line) in lines(text) {
            for reference in references(text, line) {
                if let Some(fault) = fault(&reference, &anchors) {
                    faults.push(format!("{}:{number}: {fault}", text.path));
                }
            }
        }
    }
    faults
}

/// Returns citations of a page by section number.
pub fn numbered(texts: &[Text]) -> Vec<String> {
    let mut faults = Vec::new();
    for text in checked(texts) {
        for (number, line) in text.text.lines().enumerate() {
            if let Some(page) = NUMBERED.iter().find(|page| cites_section(line, page)) {
                let at = format!("{}:{}", text.path, number + 1);
                faults.push(format!("{at}: {page} by section number; link to a page in docs by its heading"));
            }
        }
    }
    faults
}

/// Returns files and paths of items that documents name, such as `server/xds/src/lib.rs` or `Type::function`, and that
/// do not exist.
pub fn without_code(texts: &[Text]) -> Vec<String> {
    let code = texts.iter().filter(|text| text.is_rust());
    let names: BTreeSet<&str> = code.flat_map(|text| text.text.split(|c| !is_of_name(c))).collect();
    let mut faults = Vec::new();
    for text in texts.iter().filter(|text| text.path.ends_with(".md")) {
        for (number, line) in lines(text) {
            let quotes = line.split('`').skip(1).step_by(2);
            let missing = quotes.filter(|quote| is_missing(quote, texts, &names));
            faults.extend(missing.map(|quote| format!("{}:{number}: {quote} does not exist", text.path)));
        }
    }
    faults
}

fn is_missing(quote: &str, texts: &[Text], names: &BTreeSet<&str>) -> bool {
    let folders = ["aggregate/", "registries/", "server/", "tests/"];
    if folders.iter().any(|folder| quote.starts_with(folder)) && quote.chars().all(is_of_path) {
        let folder = format!("{}/", quote.trim_end_matches('/'));
        return !texts.iter().any(|text| text.path == quote || text.path.starts_with(&folder));
    }
    let is_item = quote.contains("::")
        && quote.split("::").all(|part| !part.is_empty() && part.chars().all(is_of_name));
    is_item && quote.split("::").any(|part| !names.contains(part))
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_of_path(c: char) -> bool {
    is_of_name(c) || matches!(c, '/' | '.' | '-')
}

fn checked(texts: &[Text]) -> impl Iterator<Item = &Text> {
    let own = |text: &&Text| text.path.starts_with("tests/repo-rules/src/");
    let is_checked = move |text: &&Text| !own(text) && KINDS.iter().any(|kind| text.path.ends_with(kind));
    texts.iter().filter(is_checked)
}

fn cites_section(line: &str, page: &str) -> bool {
    line.match_indices(page).any(|(at, _)| {
        let is_whole = line[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || c == '-'));
        let rest = line[at + page.len()..].trim_start_matches(['`', ')', ' ', '§']);
        is_whole && rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Returns the numbered lines of a file; of a document those outside code blocks.
fn lines(text: &Text) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let lines = text.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let is_document = text.path.ends_with(".md");
    lines
        .filter(|(_, line)| {
            let is_fence = is_document && line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
        .collect()
}

fn references(text: &Text, line: &str) -> Vec<Reference> {
    let mut found = if text.path.ends_with(".md") { links(&text.path, line) } else { Vec::new() };
    for (at, _) in line.match_indices("docs/") {
        let is_start =
            line[..at].chars().next_back().is_none_or(|c| !(c.is_alphanumeric() || "/.-_".contains(c)));
        if is_start {
            found.extend(page(&line[at..]));
        }
    }
    found
}

/// Returns the page at the start of a text, such as `docs/a/b.md#heading`.
fn page(text: &str) -> Option<Reference> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '#');
    let cited = text.split(|c: char| !is_part(c)).next()?.trim_end_matches('.');
    let (path, anchor) = split_anchor(cited);
    path.ends_with(".md").then(|| Reference { path: path.to_owned(), anchor })
}

/// Returns the targets of Markdown links inside the repository.
fn links(from: &str, line: &str) -> Vec<Reference> {
    let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split_once(')'));
    let targets = targets.map(|(target, _)| target.split(' ').next().unwrap_or(target));
    let inside = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    inside
        .map(|target| {
            let (path, anchor) = split_anchor(target);
            Reference { path: if path.is_empty() { from.to_owned() } else { resolve(from, path) }, anchor }
        })
        .collect()
}

fn split_anchor(target: &str) -> (&str, Option<String>) {
    target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor.to_owned())))
}

/// Returns the path of a relative link from the root of the repository.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn fault(reference: &Reference, anchors: &BTreeMap<&str, BTreeSet<String>>) -> Option<String> {
    let Reference { path, anchor } = reference;
    let Some(headings) = anchors.get(path.as_str()) else {
        let is_folder = anchors.keys().any(|file| file.starts_with(&format!("{path}/")));
        return (!is_folder).then(|| format!("{path} does not exist"));
    };
    let anchor = anchor.as_ref()?;
    (!headings.contains(anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

/// Returns the anchors of a document's headings, as GitHub and docs.rs build them.
fn headings(text: &Text) -> BTreeSet<String> {
    if !text.path.ends_with(".md") {
        return BTreeSet::new();
    }
    let titles = lines(text).into_iter().filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then_some(title)
    });
    titles.map(slug).collect()
}

fn slug(title: &str) -> String {
    let kept = title.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(cited: &str) -> Vec<Text> {
        let page = "# Title\n\n## Order of a `push`, twice\n\n```sh\n# no heading\n```\n";
        vec![Text::new("docs/reference/a.md", page), Text::new("docs/b.md", cited), Text::new("x.rs", cited)]
    }

    #[test]
    fn cited_page_and_heading_must_exist() {
        let found = |cited: &str| dangling(&tree(cited)).len();
        assert_eq!(found("see docs/reference/a.md and docs/reference/a.md#order-of-a-push-twice."), 0);
        assert_eq!(found("see docs/reference/c.md"), 2, "in the code and in the document");
        assert_eq!(found("see docs/reference/a.md#no-heading"), 2);
        assert_eq!(found("https://example.test/docs/reference/c.md"), 0);
    }

    #[test]
    fn links_are_relative_to_their_document() {
        let found = |cited: &str| dangling(&tree(cited));
        assert_eq!(
            found("[a](reference/a.md#title) [b](b.md) [folder](reference/) [web](https://x.test)"),
            [""; 0]
        );
        assert_eq!(found("[a](a.md)"), ["docs/b.md:1: docs/a.md does not exist"]);
        assert_eq!(found("[a](../docs/reference/a.md#b)").len(), 1);
    }

    #[test]
    fn named_code_must_exist() {
        let code = Text::new("server/xds/src/a.rs", "impl Kind { fn of() {} }");
        let found = |page: &str| without_code(&[code.clone(), Text::new("docs/a.md", page)]);
        assert_eq!(
            found("in `server/xds/src/a.rs`, `server/xds`, `Kind::of`, `tests/*`, `tests/<NAME>.rs`"),
            [""; 0]
        );
        assert_eq!(found("x\n`server/xds/src/b.rs`"), ["docs/a.md:2: server/xds/src/b.rs does not exist"]);
        assert_eq!(found("`Kind::of` and `Kind::at`, `Sort::of`").len(), 2);
        assert_eq!(found("```\n`server/b.rs`\n```"), [""; 0], "code blocks are not read");
    }

    #[test]
    fn citation_by_section_number_is_found() {
        let cited = ["// xds.md 4.5", "// see registries.md §3", "// `core.md` 7"];
        assert_eq!(cited.map(|line| numbered(&[Text::new("x.rs", line)]).len()), [1; 3]);
        let fine = ["// docs/reference/xds.md, limits", "// my-xds.md 4", "registries.md 3.2\ttext\ttest"];
        let texts = ["x.rs", "x.rs", "tests/ledger/x.tsv"].iter().zip(fine);
        assert_eq!(numbered(&texts.map(|(path, line)| Text::new(path, line)).collect::<Vec<_>>()), [""; 0]);
    }
}
