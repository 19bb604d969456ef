//! Values of flags that an API server would refuse: names of objects and lifetimes of tokens.
//!
//! The flags of the `cluster` commands are read with it, so that nothing is written before a name or a time is known to be valid. An
//! error names what is allowed; the parser of the command line names the flag.

use std::time::Duration;

use tributary_kube_client::ObjectName;
use tributary_model::kubernetes_names::{is_label_name, is_object_name};

use crate::config::Span;

/// Shortest lifetime of a token that an API server issues.
const SHORTEST: Duration = Duration::from_secs(600);
/// Longest lifetime of a token that an API server accepts.
const LONGEST: Duration = Duration::from_secs(1 << 32);

/// Reads the name of a namespace: a DNS label.
pub fn namespace(text: &str) -> Result<String, String> {
    if is_label_name(text) {
        return Ok(text.to_owned());
    }
    Err("use at most 63 lowercase letters, digits and `-`, with a letter or digit at both ends".to_owned())
}

/// Reads the name of an object: a DNS subdomain.
pub fn object(text: &str) -> Result<String, String> {
    if is_object_name(text) {
        return Ok(text.to_owned());
    }
    Err("use at most 253 lowercase letters, digits, `-` and `.`, with a letter or digit at both ends of each part"
        .to_owned())
}

/// Reads `NAMESPACE/NAME`.
pub fn namespaced(text: &str) -> Result<ObjectName, String> {
    let (space, name) = text.split_once('/').ok_or("write NAMESPACE/NAME")?;
    let in_part = |part: &str, why: String| format!("its {part} is not valid: {why}");
    let space = namespace(space).map_err(|why| in_part("namespace", why))?;
    let name = object(name).map_err(|why| in_part("name", why))?;
    Ok(ObjectName::new(&space, &name))
}

/// Reads the lifetime of a token.
pub fn lifetime(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    match span.get() {
        time if time < SHORTEST => Err("is shorter than 10m, the least that API servers accept".to_owned()),
        time if time > LONGEST => Err("is longer than API servers accept; use for example 2160h".to_owned()),
        _ => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_an_api_server_accepts() {
        for text in ["a", "0", "tributary-remote", "a.b-c.d9"] {
            assert_eq!(object(text).as_deref(), Ok(text));
        }
        for text in
            ["", "_", "A", "-a", "a-", "a..b", ".a", "a.", "a.-b", "a b", "a/b", "ä", &"a".repeat(254)]
        {
            assert!(object(text).is_err(), "{text}");
        }
        assert_eq!(namespace("tributary-system").as_deref(), Ok("tributary-system"));
        assert!(object(&"a".repeat(253)).is_ok() && namespace(&"a".repeat(63)).is_ok());
        for text in ["", "a.b", "_", "-", "A", &"a".repeat(64)] {
            assert!(namespace(text).is_err(), "{text}");
        }
    }

    #[test]
    fn namespaced_name_names_the_wrong_part() {
        assert_eq!(namespaced("system/reader.1"), Ok(ObjectName::new("system", "reader.1")));
        for (text, part) in [
            ("reader", "NAMESPACE/NAME"),
            ("/a", "its namespace"),
            ("a/", "its name "),
            ("a/b/c", "its name "),
        ] {
            assert!(namespaced(text).unwrap_err().contains(part), "{text}");
        }
    }

    #[test]
    fn lifetime_is_one_that_an_api_server_accepts() {
        assert_eq!(lifetime("10m").map(Span::get), Ok(SHORTEST));
        assert!(lifetime("2160h").is_ok());
        assert!(lifetime("599s").unwrap_err().contains("10m"));
        assert!(lifetime("9000000h").unwrap_err().contains("longer"));
        assert!(lifetime("soon").is_err());
    }
}
