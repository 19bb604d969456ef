//! Rules of one field, as Envoy's API declares them.

use prost_reflect::{DynamicMessage, EnumDescriptor, ReflectMessage as _, Value};

/// Why a value breaks a rule, behind the name of its field.
pub(super) struct Broken(pub(super) String);

type Checked = Result<(), Broken>;

/// Rules of a field, or of the items of a list.
#[derive(Debug)]
pub(super) struct FieldRules {
    pub(super) rules: DynamicMessage,
    /// Enum of the values, or of the items of the list.
    pub(super) of: Option<EnumDescriptor>,
}

/// Rules of one kind of value.
struct Kind<'r> {
    name: &'r str,
    of: &'r DynamicMessage,
    values: Option<&'r EnumDescriptor>,
}

impl FieldRules {
    /// Returns the rules of the parts of a list or a map.
    pub(super) fn of(&self, kind: &str, part: &str) -> Option<Self> {
        let kind = set(&self.rules, kind)?;
        let rules = set(kind.as_message()?, part)?.as_message()?.clone();
        Some(Self { rules, of: self.of.clone() })
    }
    /// Whether the fields of the message are not checked.
    pub(super) fn skips(&self) -> bool {
        set(&self.rules, "message").and_then(Value::as_message).is_some_and(|rules| flag(rules, "skip"))
    }
    /// Checks that the field may be absent.
    pub(super) fn absent(&self) -> Checked {
        let mut kinds = self.rules.fields().filter_map(|(_, rules)| rules.as_message());
        broken(kinds.any(|rules| flag(rules, "required")), || "is missing; add it".to_owned())
    }
    /// Checks a value, without what is in its messages, lists and maps.
    pub(super) fn check(&self, value: &Value) -> Checked {
        self.rules.fields().try_for_each(|(field, rules)| match rules.as_message() {
            Some(of) => Kind { name: field.name(), of, values: self.of.as_ref() }.check(value),
            None => Ok(()),
        })
    }
}

impl Kind<'_> {
    fn check(&self, value: &Value) -> Checked {
        if let Value::Message(message) = value {
            return match message.descriptor().full_name() {
                "google.protobuf.Duration" => self.duration(message),
                name if name.starts_with("google.protobuf.") && name.ends_with("Value") => {
                    message.get_field_by_name("value").map_or(Ok(()), |inner| self.plain(&inner))
                }
                _ => Ok(()),
            };
        }
        self.plain(value)
    }
    fn plain(&self, value: &Value) -> Checked {
        match (self.name, value) {
            ("string", Value::String(text)) => self.text(text),
            ("bytes", Value::Bytes(bytes)) => {
                self.length("bytes", bytes.len(), ["min_len", "max_len", "len"])
            }
            ("enum", Value::EnumNumber(number)) => {
                let is_known = self.values.is_none_or(|values| values.get_value(*number).is_some());
                broken(flag(self.of, "defined_only") && !is_known, || {
                    format!("is {number}, which Envoy's API does not define")
                })?;
                self.number(f64::from(*number))
            }
            ("repeated", Value::List(items)) => {
                self.length("items", items.len(), ["min_items", "max_items", ""])
            }
            ("map", Value::Map(entries)) => {
                self.length("entries", entries.len(), ["min_pairs", "max_pairs", ""])
            }
            ("bool", Value::Bool(is)) => {
                let wanted = set(self.of, "const").and_then(Value::as_bool);
                broken(wanted.is_some_and(|wanted| wanted != *is), || format!("is {is}; it must be {}", !is))
            }
            (_, value) => number(value).map_or(Ok(()), |number| self.number(number)),
        }
    }
    /// Whether an empty value is not checked.
    fn ignores_empty(&self) -> bool {
        flag(self.of, "ignore_empty")
    }
    fn bound(&self, name: &str) -> Option<f64> {
        set(self.of, name).and_then(number)
    }
    fn number(&self, value: f64) -> Checked {
        if value == 0.0 && self.ignores_empty() {
            return Ok(());
        }
        let bounds = ["gt", "gte", "lt", "lte"].map(|name| self.bound(name));
        let list = |name: &str| -> Vec<f64> {
            let items = set(self.of, name).and_then(Value::as_list).unwrap_or_default();
            items.iter().filter_map(number).collect()
        };
        within(value, bounds, &|number| number.to_string())?;
        let (some, none) = (list("in"), list("not_in"));
        let is_out = !some.is_empty() && !some.contains(&value) || none.contains(&value);
        let is_other = self.bound("const").is_some_and(|wanted| wanted != value);
        broken(is_out || is_other, || format!("is {value}, which Envoy does not accept"))
    }
    fn duration(&self, message: &DynamicMessage) -> Checked {
        if self.name != "duration" {
            return Ok(());
        }
        let of = |name: &str| set(self.of, name).and_then(Value::as_message).and_then(nanos);
        let bounds = ["gt", "gte", "lt", "lte"].map(|name| of(name).map(seconds));
        nanos(message).map_or(Ok(()), |nanos| within(seconds(nanos), bounds, &|bound| format!("{bound}s")))
    }
    fn text(&self, text: &str) -> Checked {
        if text.is_empty() && self.ignores_empty() {
            return Ok(());
        }
        self.length("characters", text.chars().count(), ["min_len", "max_len", "len"])?;
        self.length("bytes", text.len(), ["min_bytes", "max_bytes", "len_bytes"])?;
        let part = |name: &str| set(self.of, name).and_then(Value::as_str);
        let is_wrong = part("prefix").is_some_and(|part| !text.starts_with(part))
            || part("suffix").is_some_and(|part| !text.ends_with(part))
            || part("contains").is_some_and(|part| !text.contains(part))
            || part("not_contains").is_some_and(|part| text.contains(part))
            || part("const").is_some_and(|wanted| text != wanted);
        let list = |name: &str| set(self.of, name).and_then(Value::as_list).unwrap_or_default();
        let is_in = |name: &str| list(name).iter().filter_map(Value::as_str).any(|one| one == text);
        let is_out = !list("in").is_empty() && !is_in("in") || is_in("not_in");
        broken(is_wrong || is_out || !self.is_header(text), || {
            format!("is {text:?}, which Envoy does not accept")
        })
    }
    /// Checks the characters of the name or the value of a header, if the rules are about one.
    fn is_header(&self, text: &str) -> bool {
        let is_strict = set(self.of, "strict").and_then(Value::as_bool) != Some(false);
        let is_break = |byte: u8| matches!(byte, 0 | b'\n' | b'\r');
        match set(self.of, "well_known_regex").and_then(Value::as_enum_number) {
            Some(1) if is_strict => {
                let name = text.strip_prefix(':').unwrap_or(text);
                let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+,-.^_|~`".contains(&byte);
                name.bytes().all(is_token)
            }
            Some(2) if is_strict => !text.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f),
            Some(1 | 2) => !text.bytes().any(is_break),
            _ => true,
        }
    }
    /// Checks a length against the rules of these names: least, most, exact.
    fn length(&self, of: &str, length: usize, [least, most, exact]: [&str; 3]) -> Checked {
        if length == 0 && self.ignores_empty() {
            return Ok(());
        }
        let bound = |name: &str| set(self.of, name).and_then(Value::as_u64);
        let length = length as u64;
        let rule = |limit: Option<u64>, is_broken: fn(u64, u64) -> bool, must: &str| match limit {
            Some(limit) if is_broken(length, limit) => {
                Err(Broken(format!("has {length} {of}; it must have {must} {limit}")))
            }
            _ => Ok(()),
        };
        rule(bound(least), |length, limit| length < limit, "at least")?;
        rule(bound(most), |length, limit| length > limit, "at most")?;
        rule(bound(exact), |length, limit| length != limit, "exactly")
    }
}

/// Checks a number against its bounds: above, from, below, up to. Bounds of which the upper is the lower exclude a range, and
/// are not checked.
fn within(value: f64, [gt, gte, lt, lte]: [Option<f64>; 4], show: &dyn Fn(f64) -> String) -> Checked {
    if let (Some(lower), Some(upper)) = (gt.or(gte), lt.or(lte))
        && upper < lower
    {
        return Ok(());
    }
    let rule = |is_broken: bool, must: &str, bound: Option<f64>| {
        let bound = bound.map(show).unwrap_or_default();
        broken(is_broken, || format!("is {}; it must be {must} {bound}", show(value)))
    };
    rule(gt.is_some_and(|bound| value <= bound), "more than", gt)?;
    rule(gte.is_some_and(|bound| value < bound), "at least", gte)?;
    rule(lt.is_some_and(|bound| value >= bound), "less than", lt)?;
    rule(lte.is_some_and(|bound| value > bound), "at most", lte)
}

fn broken(is_broken: bool, why: impl FnOnce() -> String) -> Checked {
    if is_broken { Err(Broken(why())) } else { Ok(()) }
}

/// Returns the nanoseconds of a duration; `None` for another message.
pub(super) fn nanos(message: &DynamicMessage) -> Option<i128> {
    if message.descriptor().full_name() != "google.protobuf.Duration" {
        return None;
    }
    let part = |name: &str| match set(message, name) {
        Some(Value::I64(number)) => i128::from(*number),
        Some(Value::I32(number)) => i128::from(*number),
        _ => 0,
    };
    Some(part("seconds") * 1_000_000_000 + part("nanos"))
}

#[expect(clippy::cast_precision_loss, reason = "bounds are whole milliseconds")]
fn seconds(nanos: i128) -> f64 {
    nanos as f64 / 1e9
}

fn set<'m>(message: &'m DynamicMessage, name: &str) -> Option<&'m Value> {
    message.fields().find_map(|(field, value)| (field.name() == name).then_some(value))
}

fn flag(rules: &DynamicMessage, name: &str) -> bool {
    set(rules, name).and_then(Value::as_bool) == Some(true)
}

#[expect(clippy::cast_precision_loss, reason = "bounds are small")]
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::I32(number) | Value::EnumNumber(number) => Some(f64::from(*number)),
        Value::U32(number) => Some(f64::from(*number)),
        Value::I64(number) => Some(*number as f64),
        Value::U64(number) => Some(*number as f64),
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        _ => None,
    }
}
