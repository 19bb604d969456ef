//! JSON Web Key Sets (RFC 7517), as far as they verify tokens.
//!
//! Envoy refuses a whole listener for a set of which it cannot read a key, so each key is checked as Envoy reads it. What else a
//! key has is left out: Envoy needs no private part of a key.

use ring::agreement::{self, Algorithm, ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey};
use ring::rand::SystemRandom;
use serde_json::{Map, Value};

use crate::read::decode::base64;

/// Longest set.
pub(crate) const LONGEST: usize = 65_536;

/// Keys of a set that verify tokens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeySet {
    /// The set with them alone.
    pub(crate) text: String,
    /// Indexes of keys that verify no token, such as those for encryption.
    pub(crate) unused: Vec<usize>,
}

/// Why a set is not valid.
type Fix = String;

/// Reads a set, or returns what to correct.
pub(crate) fn read(text: &str) -> Result<KeySet, Fix> {
    if text.len() > LONGEST {
        return Err(format!("it is longer than {LONGEST} bytes; remove keys"));
    }
    let set: Value = serde_json::from_str(text).map_err(|_| "it is not JSON".to_owned())?;
    let keys = set.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or("it is not an object with a list `keys`; PEM is not read")?;
    let (mut used, mut unused) = (Vec::new(), Vec::new());
    for (at, key) in keys.iter().enumerate() {
        match of_key(key).map_err(|fault| format!("keys[{at}]: {fault}"))? {
            Some(key) => used.push(Value::Object(key)),
            None => unused.push(at),
        }
    }
    if used.is_empty() {
        return Err("it has no key that verifies tokens".to_owned());
    }
    let text = serde_json::json!({ "keys": used }).to_string();
    Ok(KeySet { text, unused })
}

/// Returns what verification needs of a key; `None` if it is for something else.
fn of_key(key: &Value) -> Result<Option<Map<String, Value>>, Fix> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let kind = text("kty").ok_or("`kty` is missing")?;
    let (algorithms, fields): (&[&str], &[&str]) = match (kind, text("crv")) {
        ("RSA", _) => (&["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"], &["n", "e"]),
        ("EC", Some("P-256")) => (&["ES256"], &["crv", "x", "y"]),
        ("EC", Some("P-384")) => (&["ES384"], &["crv", "x", "y"]),
        ("EC", Some("P-521")) => (&["ES512"], &["crv", "x", "y"]),
        ("EC", None) => return Err("`crv` is missing".to_owned()),
        ("OKP", Some("Ed25519")) => (&["EdDSA"], &["crv", "x"]),
        ("oct", _) => (&["HS256", "HS384", "HS512"], &["k"]),
        _ => return Ok(None),
    };
    let is_known = text("alg").is_none_or(|name| algorithms.contains(&name));
    if !is_known || text("use").is_some_and(|usage| usage != "sig") {
        return Ok(None);
    }
    for field in fields {
        text(field).ok_or_else(|| format!("`{field}` is missing or no text"))?;
    }
    check(kind, &text)?;
    let kept = ["kty", "kid", "alg"].iter().chain(fields);
    Ok(Some(kept.filter_map(|name| Some(((*name).to_owned(), text(name)?.into()))).collect()))
}

/// Checks the numbers of a key.
fn check<'k>(kind: &str, text: &impl Fn(&str) -> Option<&'k str>) -> Result<(), Fix> {
    let bytes = |name: &str| {
        bytes(text(name).unwrap_or_default()).ok_or_else(|| format!("`{name}` is not base64url"))
    };
    match kind {
        "RSA" => {
            let (modulus, exponent) = (bytes("n")?, bytes("e")?);
            let is_odd = modulus.last().is_some_and(|last| last % 2 == 1);
            if !is_odd || !(512..=8_192).contains(&bits(&modulus)) {
                return Err("`n` is no odd number of 512 to 8192 bits".to_owned());
            }
            let is_usual = [&[3][..], &[1, 0, 1]].contains(&trimmed(&exponent));
            if is_usual { Ok(()) } else { Err("`e` is neither 3 nor 65537".to_owned()) }
        }
        "EC" => point(text("crv").unwrap_or_default(), &bytes("x")?, &bytes("y")?),
        "OKP" if bytes("x")?.len() != 32 => Err("`x` does not have 32 bytes".to_owned()),
        "oct" if bytes("k")?.is_empty() => Err("`k` is empty".to_owned()),
        _ => Ok(()),
    }
}

/// Checks that a point is on its curve; of the largest curve only the size.
fn point(curve: &str, x: &[u8], y: &[u8]) -> Result<(), Fix> {
    let (size, of): (usize, Option<&Algorithm>) = match curve {
        "P-256" => (32, Some(&ECDH_P256)),
        "P-384" => (48, Some(&ECDH_P384)),
        _ => (66, None),
    };
    let (x, y) = (padded(trimmed(x), size), padded(trimmed(y), size));
    let (x, y) = x.zip(y).ok_or_else(|| format!("`x` or `y` has more than {size} bytes"))?;
    let point = [&[4], &*x, &*y].concat();
    if of.is_none_or(|of| is_on(of, &point)) {
        Ok(())
    } else {
        Err("`x` and `y` are no point of `crv`".to_owned())
    }
}

/// Whether a key can be agreed with a point, which only one of the curve allows.
fn is_on(of: &'static Algorithm, point: &[u8]) -> bool {
    let own = EphemeralPrivateKey::generate(of, &SystemRandom::new());
    own.is_ok_and(|own| agreement::agree_ephemeral(own, &UnparsedPublicKey::new(of, point), |_| ()).is_ok())
}

/// Decodes base64url, padded or not.
fn bytes(text: &str) -> Option<Vec<u8>> {
    base64(text.as_bytes()).filter(|_| !text.contains(['+', '/']))
}

/// Returns a number without zeros before it.
fn trimmed(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    number.get(start..).unwrap_or_default()
}

/// Returns how many bits a number has.
fn bits(number: &[u8]) -> usize {
    let number = trimmed(number);
    let zeros = number.first().map_or(0, |first| first.leading_zeros());
    number.len() * 8 - usize::try_from(zeros).unwrap_or_default()
}

/// Returns a number of this size; `None` if it is larger.
fn padded(number: &[u8], size: usize) -> Option<Vec<u8>> {
    let zeros = size.checked_sub(number.len())?;
    Some(std::iter::repeat_n(0, zeros).chain(number.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The point of the key of RFC 7515, appendix A.3.
    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn one(key: &str) -> Result<KeySet, Fix> {
        read(&format!("{{\"keys\": [{key}]}}"))
    }
    fn mk_ec(x: &str, y: &str, more: &str) -> String {
        format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"{x}\",\"y\":\"{y}\"{more}}}")
    }
    fn mk_rsa(n: &str, e: &str) -> String {
        format!("{{\"kty\":\"RSA\",\"n\":\"{n}\",\"e\":\"{e}\"}}")
    }

    #[test]
    fn sets_keep_what_verification_needs() {
        let private =
            mk_ec(X, Y, ",\"d\":\"secret\",\"kid\":\"a\",\"alg\":\"ES256\",\"use\":\"sig\",\"x5c\":[]");
        let kept = format!(
            "{{\"keys\":[{{\"alg\":\"ES256\",\"crv\":\"P-256\",\"kid\":\"a\",\"kty\":\"EC\",\"x\":\"{X}\",\"y\":\"{Y}\"}}]}}"
        );
        assert_eq!(one(&private).unwrap().text, kept);
        let n = "_".repeat(200);
        for key in [
            mk_rsa(&n, "AQAB"),
            mk_rsa(&n, "Aw"),
            "{\"kty\":\"oct\",\"k\":\"c2VjcmV0\",\"kid\":7}".to_owned(),
            format!("{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"{X}\"}}"),
        ] {
            assert!(one(&key).unwrap().unused.is_empty(), "{key}");
        }
    }

    #[test]
    fn keys_for_something_else_are_left_out() {
        let used = mk_ec(X, Y, "");
        for other in [
            mk_ec(X, Y, ",\"use\":\"enc\""),
            mk_ec(X, Y, ",\"alg\":\"ECDH-ES\""),
            "{\"kty\":\"EC\",\"crv\":\"secp256k1\"}".to_owned(),
            "{\"kty\":\"new\"}".to_owned(),
        ] {
            let found = one(&format!("{other},{used}")).unwrap();
            assert_eq!((found.text, found.unused), (one(&used).unwrap().text, vec![0]), "{other}");
            assert_eq!(one(&other).unwrap_err(), "it has no key that verifies tokens");
        }
    }

    #[test]
    fn sets_that_envoy_cannot_read_are_not_valid() {
        let text = |from: &str| read(from).unwrap_err();
        assert_eq!(text("-----BEGIN PUBLIC KEY-----"), "it is not JSON");
        assert_eq!(text(&"[".repeat(1_000)), "it is not JSON");
        assert_eq!(text(&" ".repeat(LONGEST + 1)), "it is longer than 65536 bytes; remove keys");
        for set in ["[]", "{}", "{\"keys\":{}}", &mk_ec(X, Y, "")] {
            assert!(text(set).contains("a list `keys`"), "{set}");
        }
        assert_eq!(text("{\"keys\":[]}"), "it has no key that verifies tokens");
        let n = "_".repeat(200);
        let cases = [
            ("7".to_owned(), "`kty` is missing"),
            ("{}".to_owned(), "`kty` is missing"),
            ("{\"kty\":\"EC\"}".to_owned(), "`crv` is missing"),
            ("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"a\"}".to_owned(), "`y` is missing or no text"),
            (mk_ec(X, X, ""), "`x` and `y` are no point of `crv`"),
            (mk_ec(X, "", ""), "`x` and `y` are no point of `crv`"),
            (mk_ec(X, "+/+/", ""), "`y` is not base64url"),
            (mk_ec(X, "a", ""), "`y` is not base64url"),
            (mk_ec(X, &"_".repeat(80), ""), "`x` or `y` has more than 32 bytes"),
            (mk_rsa("AQAB", "AQAB"), "`n` is no odd number of 512 to 8192 bits"),
            (mk_rsa(&format!("{n}AAAA"), "AQAB"), "`n` is no odd number of 512 to 8192 bits"),
            (mk_rsa(&n, "BQ"), "`e` is neither 3 nor 65537"),
            ("{\"kty\":\"oct\",\"k\":\"\"}".to_owned(), "`k` is empty"),
            ("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AQAB\"}".to_owned(), "`x` does not have 32 bytes"),
        ];
        for (key, want) in cases {
            assert_eq!(one(&key).unwrap_err(), format!("keys[0]: {want}"), "{key}");
        }
    }
}
