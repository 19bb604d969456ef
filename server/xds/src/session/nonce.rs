//! Nonces of responses.

/// Identifier of a response, which the client's answer repeats: a count, written in base 36
/// (docs/reference/xds.md#versions-and-nonces).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub u64);

impl Nonce {
    /// Parses what [`std::fmt::Display`] writes; rejects everything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > 13 || text.starts_with('+') {
            return None;
        }
        u64::from_str_radix(text, 36).ok().map(Self)
    }
}

impl std::fmt::Display for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mut digits, mut rest, mut at) = ([0u8; 13], self.0, 13);
        loop {
            at -= 1;
            let digit = (rest % 36) as u8;
            digits[at] = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            rest /= 36;
            if rest == 0 {
                break;
            }
        }
        f.write_str(std::str::from_utf8(&digits[at..]).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_round_trip_in_base_36() {
        for n in [0, 1, 35, 36, 1295, u64::MAX] {
            assert_eq!(Nonce::parse(&Nonce(n).to_string()), Some(Nonce(n)));
        }
        assert_eq!(Nonce(1295).to_string(), "zz");
        for bad in ["", "+1", "a b", "zzzzzzzzzzzzz", "00000000000000"] {
            assert_eq!(Nonce::parse(bad), None, "{bad}");
        }
    }
}
