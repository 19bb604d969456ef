//! Logins of a test's API server: users with fixed tokens, tokens in files, and service account tokens that are
//! signed with the server's own key, so a test can create one that expires soon.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};

/// Credential of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// This bearer token.
    Token(String),
    /// The current token in this file.
    TokenFile(PathBuf),
    /// No credential.
    Anonymous,
}

impl Login {
    /// Returns the login of one of the server's users.
    pub fn user(name: &str) -> Self {
        Self::Token(format!("{name}-token"))
    }

    /// Returns the current token.
    pub fn token(&self) -> Result<Option<String>> {
        match self {
            Self::Token(token) => Ok(Some(token.clone())),
            Self::TokenFile(path) => {
                let text = std::fs::read_to_string(path);
                Ok(Some(text.with_context(|| format!("read {}", path.display()))?.trim().to_owned()))
            }
            Self::Anonymous => Ok(None),
        }
    }

    /// Returns a kubeconfig with one context of this name.
    pub fn kubeconfig(&self, url: &str, certificate: &str, context: &str) -> String {
        let user = match self {
            Self::Token(token) => json!({"token": token}),
            Self::TokenFile(path) => json!({"tokenFile": path}),
            Self::Anonymous => json!({}),
        };
        let authority = base64(certificate.as_bytes(), STANDARD, true);
        // JSON is valid YAML.
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": context, "context": {"cluster": "test", "user": "test"}}],
            "current-context": context,
        })
        .to_string()
    }
}

/// Issuer of tokens, and their audience at the API server.
const ISSUER: &str = "https://kubernetes.default.svc";

/// The key with which the server verifies service account tokens.
#[derive(Debug)]
pub struct Signer {
    key: KeyPair,
}

impl Signer {
    /// Creates a key, as `sa.key` and `sa.pub` in this folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let key = KeyPair::generate().context("make a key for service accounts")?;
        std::fs::write(folder.join("sa.key"), key.serialize_pem())?;
        std::fs::write(folder.join("sa.pub"), key.public_key_pem())?;
        Ok(Self { key })
    }

    /// Signs a token of this service account (with the uid of its object) that expires after `lasts`; a
    /// negative duration creates an expired token.
    pub fn token(&self, namespace: &str, name: &str, uid: &str, lasts: SignedDuration) -> Result<String> {
        self.token_for(ISSUER, (namespace, name, uid), lasts)
    }

    /// Signs a token for this audience.
    pub fn token_for(
        &self,
        audience: &str,
        (namespace, name, uid): (&str, &str, &str),
        lasts: SignedDuration,
    ) -> Result<String> {
        let now = Timestamp::now();
        let claims = json!({
            "iss": ISSUER,
            "aud": [audience],
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "iat": (now - SignedDuration::from_hours(1)).as_second(),
            "nbf": (now - SignedDuration::from_hours(1)).as_second(),
            "exp": (now + lasts).as_second(),
            "jti": format!("{name}-{}", now.as_nanosecond()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        });
        self.sign(&claims)
    }

    fn sign(&self, claims: &Value) -> Result<String> {
        let part = |value: &Value| base64(value.to_string().as_bytes(), URL_SAFE, false);
        let text = format!("{}.{}", part(&json!({"alg": "ES256", "typ": "JWT"})), part(claims));
        let signature = self.key.sign(text.as_bytes()).context("sign a token")?;
        Ok(format!("{text}.{}", base64(&fixed(&signature)?, URL_SAFE, false)))
    }
}

/// Converts an ECDSA signature in DER to two numbers of 32 bytes each, as JWTs require.
fn fixed(der: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    let mut rest = der.get(2..).context("a signature is a sequence")?;
    for _ in 0..2 {
        ensure!(rest.first() == Some(&2), "a signature has two numbers");
        let length = usize::from(*rest.get(1).context("a number has a length")?);
        let number = rest.get(2..2 + length).context("a number is whole")?;
        let digits = &number[number.iter().take_while(|byte| **byte == 0).count()..];
        ensure!(digits.len() <= 32, "a number has at most 32 bytes");
        out.extend(std::iter::repeat_n(0, 32 - digits.len()));
        out.extend_from_slice(digits);
        rest = &rest[2 + length..];
    }
    Ok(out)
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes base 64 with this alphabet, with or without padding.
pub(crate) fn base64(bytes: &[u8], alphabet: &[u8; 64], fill: bool) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0_u8; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let group = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for at in 0..=chunk.len() {
            out.push(char::from(alphabet[(group >> (18 - 6 * at)) as usize & 63]));
        }
        if fill {
            out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_the_standard_encoding() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(plain.as_bytes(), STANDARD, true), coded);
            assert_eq!(base64(plain.as_bytes(), URL_SAFE, false), coded.trim_end_matches('='));
        }
        assert_eq!(base64(&[0xfb, 0xff], URL_SAFE, false), "-_8");
    }

    #[test]
    fn a_signature_has_two_numbers_of_32_bytes() {
        let mut der = vec![0x30, 0x46];
        der.extend([2, 33, 0]);
        der.extend([0x80; 32]);
        der.extend([2, 31]);
        der.extend([0x7f; 31]);
        let found = fixed(&der).unwrap();
        assert_eq!(found.len(), 64);
        assert_eq!((found[0], found[31], found[32], found[33]), (0x80, 0x80, 0, 0x7f));
        assert!(fixed(&der[..40]).is_err());
    }
}
