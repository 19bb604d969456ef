//! Plain values: numbers may be text, enums are names or numbers, bytes are base64.

use prost_reflect::{Kind, Value};
use serde_json::Value as Json;

use super::{Reader, ValueError};

impl Reader<'_> {
    /// Reads a value of a kind that is not a message.
    pub(super) fn scalar(&self, kind: &Kind, value: &Json) -> Result<Value, ValueError> {
        Ok(match kind {
            Kind::String => {
                Value::String(value.as_str().ok_or_else(|| self.wrong(value, "text"))?.to_owned())
            }
            Kind::Bytes => Value::Bytes(self.bytes(value)?.into()),
            Kind::Bool => Value::Bool(value.as_bool().ok_or_else(|| self.wrong(value, "true or false"))?),
            Kind::Float => Value::F32(self.float(value)? as f32),
            Kind::Double => Value::F64(self.float(value)?),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(self.whole(value)?),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(self.whole(value)?),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.whole(value)?),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.whole(value)?),
            Kind::Enum(of) => match value {
                Json::String(name) => {
                    let known = of.get_value_by_name(name);
                    let known = known.ok_or_else(|| {
                        self.error(format!("{name:?} is not a value of {}", of.full_name()))
                    })?;
                    Value::EnumNumber(known.number())
                }
                number => Value::EnumNumber(self.whole(number)?),
            },
            Kind::Message(_) => return Err(self.wrong(value, "a map of fields")),
        })
    }
    fn whole<N: TryFrom<i128>>(&self, value: &Json) -> Result<N, ValueError> {
        let number: Option<i128> = match value {
            Json::Number(number) => {
                number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
            }
            Json::String(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.wrong(value, "a whole number in the range of the field"))
    }
    fn float(&self, value: &Json) -> Result<f64, ValueError> {
        let number = match value {
            Json::Number(number) => number.as_f64(),
            Json::String(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| self.wrong(value, "a number"))
    }
    fn bytes(&self, value: &Json) -> Result<Vec<u8>, ValueError> {
        let text = value.as_str().ok_or_else(|| self.wrong(value, "text in base64"))?;
        base64(text).ok_or_else(|| self.error("is not base64"))
    }
}

/// Decodes base64, with the letters of either alphabet, with or without padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    let (mut bits, mut have) = (0_u32, 0_u32);
    for byte in digits.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, have) = ((bits << 6 | u32::from(digit)) & 0xffff, have + 6);
        if have >= 8 {
            have -= 8;
            out.push((bits >> have & 0xff) as u8);
        }
    }
    (have < 6).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zg", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("__8="), Some(vec![0xff, 0xff]));
        assert_eq!((base64("a"), base64("*"), base64("Zg==Zg")), (None, None, None));
    }
}
