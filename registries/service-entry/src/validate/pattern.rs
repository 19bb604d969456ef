//! Checks that a regular expression is one of RE2, which proxies use, and small.
//!
//! The rules of VirtualServices call it. A proxy rejects a whole route table with an expression that it cannot compile,
//! so what is not certain to be RE2 is refused; RE2 accepts a few rare forms that are refused here, such as `\Q`.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    Ast, ClassSet, ClassUnicodeKind, Flag, FlagsItemKind, RepetitionKind, RepetitionRange,
};
use regex_syntax::ast::{Flags, GroupKind};

/// Most bytes of an expression, as in Istio.
pub(super) const MOST_BYTES: usize = 1_024;
/// Most instructions of a compiled expression, about.
const MOST_SIZE: u64 = 16_384;
/// Most repetitions, also of repetitions in each other.
const MOST_REPEATED: u64 = 1_000;
/// Deepest nesting.
const DEPTH: u32 = 100;
/// Classes of Unicode that proxies know by name and that are certain.
const CLASSES: [&str; 50] = [
    "C",
    "L",
    "M",
    "N",
    "P",
    "S",
    "Z",
    "Cc",
    "Cf",
    "Co",
    "Cs",
    "Ll",
    "Lm",
    "Lo",
    "Lt",
    "Lu",
    "Mc",
    "Me",
    "Mn",
    "Nd",
    "Nl",
    "No",
    "Pc",
    "Pd",
    "Pe",
    "Pf",
    "Pi",
    "Po",
    "Ps",
    "Sc",
    "Sk",
    "Sm",
    "So",
    "Zl",
    "Zp",
    "Zs",
    "Arabic",
    "Armenian",
    "Common",
    "Cyrillic",
    "Devanagari",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Latin",
    "Thai",
];

/// Expression that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checked {
    /// Groups that capture.
    pub(super) groups: u32,
}

/// Checks an expression; the error names what is wrong with it.
pub(super) fn check(text: &str) -> Result<Checked, String> {
    if text.is_empty() {
        return Err("is empty; write an expression of RE2".to_owned());
    }
    if text.len() > MOST_BYTES {
        return Err(format!("has {} bytes; shorten it to at most {MOST_BYTES}", text.len()));
    }
    let parsed = ParserBuilder::new().nest_limit(DEPTH).build().parse(text);
    let ast = parsed.map_err(|error| format!("is not an expression of RE2: {}", error.kind()))?;
    let mut groups = 0;
    let size = size(&ast, 1, &mut groups)?;
    if size > MOST_SIZE {
        return Err(format!("is too large when compiled: about {size} instructions of at most {MOST_SIZE}"));
    }
    Ok(Checked { groups })
}

/// Returns about how many instructions a part compiles to, repeated `times` by the parts around it.
fn size(ast: &Ast, times: u64, groups: &mut u32) -> Result<u64, String> {
    let refused = |what: &str| Err(format!("is not an expression of RE2: {what}"));
    Ok(match ast {
        Ast::Empty(_) | Ast::Dot(_) | Ast::Assertion(_) | Ast::ClassPerl(_) => 2,
        Ast::Literal(literal) if is_other_escape(literal) => {
            return refused("it has \\u or \\U; write \\x{...}");
        }
        Ast::Literal(_) => 1,
        Ast::Flags(set) => flags(&set.flags).map(|()| 1)?,
        Ast::ClassUnicode(class) => match &class.kind {
            ClassUnicodeKind::OneLetter(letter) if CLASSES.contains(&&*letter.to_string()) => 64,
            ClassUnicodeKind::Named(name) if CLASSES.contains(&&**name) => 64,
            _ => return refused("it has a class of Unicode that is not known; write ranges"),
        },
        Ast::ClassBracketed(class) => match class.kind {
            ClassSet::BinaryOp(_) => return refused("a class has &&, -- or ~~; write the characters"),
            ClassSet::Item(_) => 8,
        },
        Ast::Repetition(repetition) => {
            if matches!(&*repetition.ast, Ast::Repetition(_)) {
                return refused(
                    "an operator of repetition follows another one; put the first part in brackets",
                );
            }
            let most = most(&repetition.op.kind);
            let times = times.saturating_mul(most.max(1));
            if times > MOST_REPEATED {
                return refused(&format!("it repeats a part more than {MOST_REPEATED} times"));
            }
            size(&repetition.ast, times, groups)?.saturating_mul(most.max(1)).saturating_add(2)
        }
        Ast::Group(group) => {
            match &group.kind {
                GroupKind::NonCapturing(set) => flags(set)?,
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => *groups += 1,
            }
            size(&group.ast, times, groups)?.saturating_add(2)
        }
        Ast::Alternation(parts) => sum(&parts.asts, times, groups)?,
        Ast::Concat(parts) => sum(&parts.asts, times, groups)?,
    })
}

fn sum(parts: &[Ast], times: u64, groups: &mut u32) -> Result<u64, String> {
    parts
        .iter()
        .try_fold(0_u64, |sum, part| Ok(sum.saturating_add(size(part, times, groups)?).saturating_add(1)))
}

fn is_other_escape(literal: &regex_syntax::ast::Literal) -> bool {
    use regex_syntax::ast::{HexLiteralKind, LiteralKind};
    matches!(
        literal.kind,
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
            | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
    )
}

/// Returns how often a part is repeated in the compiled expression.
fn most(kind: &RepetitionKind) -> u64 {
    match kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
        RepetitionKind::Range(RepetitionRange::Exactly(number) | RepetitionRange::Bounded(_, number)) => {
            (*number).into()
        }
        RepetitionKind::Range(RepetitionRange::AtLeast(number)) => u64::from(*number) + 1,
    }
}

/// RE2 has the flags i, m, s and U.
fn flags(flags: &Flags) -> Result<(), String> {
    let known = |kind: &FlagsItemKind| match kind {
        FlagsItemKind::Negation => true,
        FlagsItemKind::Flag(flag) => matches!(
            flag,
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed
        ),
    };
    if flags.items.iter().all(|item| known(&item.kind)) {
        return Ok(());
    }
    Err("is not an expression of RE2: it has a flag other than i, m, s and U".to_owned())
}

/// Checks a substitution, in which `\0` to `\9` are groups and `\\` is a backslash.
pub(super) fn check_substitution(text: &str, groups: u32) -> Result<(), String> {
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '\\' {
            continue;
        }
        match rest.next() {
            Some('\\') => {}
            Some(digit) if digit.to_digit(10).is_some_and(|group| group <= groups) => {}
            Some(digit) if digit.is_ascii_digit() => {
                return Err(format!("names group \\{digit}; the expression has {groups}"));
            }
            _ => return Err("has a backslash that names no group; write \\\\ for a backslash".to_owned()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_re2_are_accepted() {
        for (text, groups) in [
            (".*", 0),
            ("/r[0-9]+(/.*)?", 1),
            (r"^(.*?;)?(user=jason)(;.*)?$", 3),
            (r"^/s/([^/]+)(/.*)$", 2),
            (r"(?i)a\.b|\d{1,3}", 0),
            (r"(?P<name>x)(?:y)", 1),
            (r"\x{1F600}\pL\p{Greek}[[:alpha:]]\bend\z", 0),
            ("(a*)*", 1),
            ("[^]]", 0),
            ("a{1000}", 0),
        ] {
            assert_eq!(check(text), Ok(Checked { groups }), "{text}");
        }
    }

    #[test]
    fn what_a_proxy_cannot_compile_is_refused() {
        let long = "a".repeat(1_025);
        let deep = format!("{}a{}", "(".repeat(101), ")".repeat(101));
        for (text, part) in [
            ("", "is empty"),
            ("*", "RE2"),
            ("(", "unclosed group"),
            ("a**", "repetition"),
            (r"(a)\1", "RE2"),
            ("(?=a)", "look-around"),
            ("a{1001}", "more than 1000"),
            ("((a{100}){10}){2}", "more than 1000"),
            ("(?x)a", "flag"),
            (r"\u0041", r"\x{...}"),
            (r"\p{Nothing}", "Unicode"),
            (r"\p{sc=Greek}", "Unicode"),
            ("[a&&b]", "&&"),
            (r"(\pL\pL\pL\pL\pL\pL\pL){100}", "too large"),
            (&long, "1025 bytes"),
            (&deep, "RE2"),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn substitution_names_groups_of_its_expression() {
        assert_eq!(check_substitution(r"\2/i/\1\\\0", 2), Ok(()));
        for (text, part) in [(r"\3", "has 2"), (r"\x", "backslash"), ("a\\", "backslash")] {
            assert!(check_substitution(text, 2).is_err_and(|error| error.contains(part)), "{text}");
        }
    }
}
