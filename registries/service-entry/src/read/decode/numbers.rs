//! Booleans, numbers and durations of a map's fields, checked against their range.

use std::ops::RangeInclusive;
use std::time::Duration;

use tributary_model::{Code, RequestShare};

use super::fields::{Fields, wrong};
use crate::document::Located;
use crate::read::fault::{Faults, clip};
use crate::read::node::Value;

/// Smallest duration that is not 0.
const STEP: Duration = Duration::from_millis(1);

impl Fields<'_> {
    /// A boolean.
    pub(crate) fn flag(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<bool>> {
        let (path, node) = self.get(name)?;
        if let Value::Bool(value) = node.value {
            return Some(Located::new(node.at, value));
        }
        wrong(faults, node.at, &path, &node.value, "true or false, without quotes");
        None
    }
    /// A whole number in a range.
    pub(crate) fn int_in(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<Located<u64>> {
        let number = self.int(name, faults)?;
        if let Some(value) = u64::try_from(number.value).ok().filter(|value| range.contains(value)) {
            return Some(Located::new(number.at, value));
        }
        let (path, least, most) = (self.path(name), range.start(), range.end());
        let message = format!("{path} is {}; write a number from {least} to {most}", number.value);
        faults.refuse(Code::VALUE_INVALID, number.at, message);
        None
    }
    /// A whole number that is not negative: `int32` in Istio.
    pub(crate) fn count(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<u32>> {
        self.u32_in(name, 0..=i32::MAX.unsigned_abs().into(), faults)
    }
    /// A whole number of 32 bits: `uint32` in Istio.
    pub(crate) fn u32_in(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
        faults: &mut Faults,
    ) -> Option<Located<u32>> {
        let number = self.int_in(name, range, faults)?;
        u32::try_from(number.value).ok().map(|value| Located::new(number.at, value))
    }
    /// A number with decimals in a range, in thousandths.
    pub(crate) fn thousandths(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u32>,
        faults: &mut Faults,
    ) -> Option<u32> {
        let (path, number) = self.decimal(name, faults)?;
        let value = (number.value * 1_000.0).round();
        let (least, most) = (f64::from(*range.start()), f64::from(*range.end()));
        if (least..=most).contains(&value) {
            return Some(value as u32);
        }
        let (least, most) = (least / 1_000.0, most / 1_000.0);
        let message = format!("{path} is {}; write a number from {least} to {most}", number.value);
        faults.refuse(Code::VALUE_INVALID, number.at, message);
        None
    }
    fn decimal(&mut self, name: &'static str, faults: &mut Faults) -> Option<(String, Located<f64>)> {
        let (path, node) = self.get(name)?;
        match &node.value {
            Value::Int(number) => Some((path, Located::new(node.at, *number as f64))),
            Value::Float(number) => Some((path, Located::new(node.at, *number))),
            other => {
                wrong(faults, node.at, &path, other, "a number, without quotes");
                None
            }
        }
    }
    /// A whole number of percent.
    pub(crate) fn percent(&mut self, name: &'static str, faults: &mut Faults) -> Option<RequestShare> {
        let percent = self.u32_in(name, 0..=100, faults)?;
        RequestShare::new(percent.value * 10_000)
    }
    /// A share of requests: a map with a percentage in `value`, which is 0 if absent.
    pub(crate) fn percentage(&mut self, name: &'static str, faults: &mut Faults) -> Option<RequestShare> {
        let (path, node) = self.get(name)?;
        let mut inner = Fields::open(node, path, faults)?;
        let value = inner.decimal("value", faults);
        inner.finish(faults);
        let Some((path, percent)) = value else { return Some(RequestShare::NONE) };
        let millionths = (percent.value * 10_000.0).round();
        let is_fine = percent.value == 0.0 || (1.0..=1_000_000.0).contains(&millionths);
        if !is_fine {
            let message = format!("{path} is {}; write 0, or a number from 0.0001 to 100", percent.value);
            faults.refuse(Code::VALUE_INVALID, percent.at, message);
        }
        RequestShare::new(millionths as u32).filter(|_| is_fine)
    }
    /// A duration of at least a millisecond, in whole milliseconds.
    pub(crate) fn duration(&mut self, name: &'static str, faults: &mut Faults) -> Option<Located<Duration>> {
        self.duration_if(name, |duration| duration >= STEP, "write at least 1ms, such as 10s", faults)
    }
    /// A duration of at least a millisecond, or 0.
    pub(crate) fn duration_or_zero(&mut self, name: &'static str, faults: &mut Faults) -> Option<Duration> {
        let fix = "write 0s, or at least 1ms, such as 10s";
        let found = self.duration_if(name, |duration| duration.is_zero() || duration >= STEP, fix, faults);
        found.map(|duration| duration.value)
    }
    fn duration_if(
        &mut self,
        name: &'static str,
        is_fine: fn(Duration) -> bool,
        fix: &str,
        faults: &mut Faults,
    ) -> Option<Located<Duration>> {
        let (path, node) = self.get(name)?;
        let Value::Text(text) = &node.value else {
            wrong(faults, node.at, &path, &node.value, "a duration such as 10s");
            return None;
        };
        let fault = match parse(text) {
            None => "is not a duration; write for example 10s, 1m30s or 250ms".to_owned(),
            Some(duration) if !is_fine(duration) => format!("is too short; {fix}"),
            Some(duration) if !duration.subsec_nanos().is_multiple_of(1_000_000) => {
                "is more precise than a millisecond; round it".to_owned()
            }
            Some(duration) => return Some(Located::new(node.at, duration)),
        };
        faults.refuse(Code::VALUE_INVALID, node.at, format!("{path} {:?} {fault}", clip(text)));
        None
    }
}

/// Longest duration: that of 64 bits of nanoseconds.
const MOST_NANOS: u128 = i64::MAX as u128;
const UNITS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration as Istio does: numbers with units, such as `1h30m`, `1.5s` or `0`.
fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanos) = (text, 0_u128);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanos = nanos.checked_add(scaled(number, *unit)?).filter(|nanos| *nanos <= MOST_NANOS)?;
        rest = after;
    }
    (!text.is_empty()).then_some(nanos).and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos)
}

/// Returns a decimal number times a unit.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() > 20 || (whole.is_empty() && decimals.is_empty()) || decimals.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    // Digits beyond a nanosecond count as none.
    let decimals = decimals.get(..decimals.len().min(15))?;
    let fraction = digits(decimals)? * unit / 10_u128.pow(u32::try_from(decimals.len()).ok()?);
    digits(whole)?.checked_mul(unit)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_istio() {
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("1s", 1_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("2m0.25s", 120_250_000_000),
            ("250ms", 250_000_000),
            ("7us", 7_000),
            ("7µs", 7_000),
            ("3ns", 3),
            ("0.000000001s", 1),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for bad in
            ["", "1", "s", "-1s", "1 s", "1d", "1.2.3s", ".s", "1s ", "9999999999999999999h", "és", "1e3s"]
        {
            assert_eq!(parse(bad), None, "{bad:?} was accepted");
        }
    }
}
