//! Durations as Go writes them: decimal numbers, each with a unit, such as `1.5s` or `1h30m`.

/// Units, longer names first.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SECOND: i128 = 1_000_000_000;
/// Most digits of a number, before and behind its point.
const DIGITS: usize = 18;

/// Returns seconds and nanoseconds, both of one sign; `None` if it is no duration, or longer than 292 years.
pub(super) fn parse(text: &str) -> Option<(i64, i32)> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut nanos = 0;
    if rest == "0" {
        return Some((0, 0));
    }
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        nanos += part;
        rest = after;
    }
    let nanos = if negative { -nanos } else { nanos };
    let nanos = i128::from(i64::try_from(nanos).ok()?);
    Some((i64::try_from(nanos / SECOND).ok()?, i32::try_from(nanos % SECOND).ok()?))
}

/// Reads one number with its unit; returns the nanoseconds and the rest.
fn part(text: &str) -> Option<(i128, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() || whole.len() > DIGITS || fraction.len() > DIGITS {
        return None;
    }
    let (_, unit, rest) =
        UNITS.iter().find_map(|(name, unit)| Some((name, unit, rest.strip_prefix(name)?)))?;
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some((number(whole)? * unit + number(fraction)? * unit / scale, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read() {
        for (text, seconds, nanos) in [
            ("1s", 1, 0),
            ("1.5s", 1, 500_000_000),
            (".5s", 0, 500_000_000),
            ("10ms", 0, 10_000_000),
            ("1h2m3s", 3723, 0),
            ("-1s", -1, 0),
            ("-1.5s", -1, -500_000_000),
            ("0", 0, 0),
            ("0s", 0, 0),
            ("7us", 0, 7_000),
            ("7µs", 0, 7_000),
        ] {
            assert_eq!(parse(text), Some((seconds, nanos)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "1", "s", "-", "1x", "1s ", " 1s", "1 s", "1.s.", "1d", "9999999999999999999s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("300000000h"), None);
    }
}
