//! Kubernetes label selectors, and alternatives of them.
//!
//! The mesh configuration uses them to select namespaces.

use std::sync::Arc;

use serde_json::Value;
use tributary_model::Labels;

/// Bounds on the size of selectors.
const MOST_SELECTORS: usize = 256;
const MOST_REQUIREMENTS: usize = 256;
const MOST_VALUES: usize = 1024;
const MOST_TEXT: usize = 512;

/// Kubernetes label selector: all requirements must hold. Without requirements it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector(Arc<[Requirement]>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: Arc<str>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Arc<[Arc<str>]>),
    NotIn(Arc<[Arc<str>]>),
    Exists,
    DoesNotExist,
}

impl LabelSelector {
    /// Parses `matchLabels` and `matchExpressions`; the error names the invalid field.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let Value::Object(map) = value else { return Err("is not a label selector".into()) };
        if let Some(key) = map.keys().find(|key| !matches!(&***key, "matchLabels" | "matchExpressions")) {
            return Err(format!("{key:?} is not a field of a label selector"));
        }
        let mut all = Vec::new();
        for (key, value) in entries(map.get("matchLabels"), "matchLabels")? {
            let value = text(value).ok_or_else(|| format!("matchLabels.{key} is not text"))?;
            all.push(Requirement { key: label_key(key)?, test: Test::In([value].into()) });
        }
        for item in items(map.get("matchExpressions"), "matchExpressions")? {
            all.push(expression(item)?);
        }
        if all.len() > MOST_REQUIREMENTS {
            return Err(format!(
                "has {} requirements, more than {MOST_REQUIREMENTS} are not read",
                all.len()
            ));
        }
        Ok(Self(all.into()))
    }
    /// Whether labels meet all requirements. `NotIn` and `DoesNotExist` hold for a missing key.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels.get(&requirement.key)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |list: &[Arc<str>]| value.is_some_and(|value| list.iter().any(|known| **known == *value));
        match &self.test {
            Test::In(list) => among(list),
            Test::NotIn(list) => !among(list),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

/// Alternatives of label selectors. An empty list selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selectors(Arc<[LabelSelector]>);

impl Selectors {
    /// Parses a list of label selectors; fails if one of them is invalid.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let list = items(Some(value), "")?;
        if list.len() > MOST_SELECTORS {
            return Err(format!("has {} selectors, more than {MOST_SELECTORS} are not read", list.len()));
        }
        let one = |(at, item)| LabelSelector::parse(item).map_err(|why| format!("[{at}] {why}"));
        list.iter().enumerate().map(one).collect::<Result<_, _>>().map(Self)
    }
    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Whether a namespace with these labels is selected.
    #[must_use]
    pub fn admit(&self, labels: &Labels) -> bool {
        self.is_empty() || self.0.iter().any(|selector| selector.matches(labels))
    }
}

fn expression(value: &Value) -> Result<Requirement, String> {
    let Value::Object(map) = value else { return Err("matchExpressions: an item is not a map".into()) };
    let field = |name: &str| map.get(name).and_then(text);
    let key = field("key").ok_or("matchExpressions: an item has no key")?;
    let operator = field("operator").unwrap_or_default();
    let list = items(map.get("values"), "matchExpressions.values")?;
    if list.len() > MOST_VALUES {
        return Err(format!("matchExpressions.{key}: more than {MOST_VALUES} values are not read"));
    }
    let values: Option<Arc<[Arc<str>]>> = list.iter().map(text).collect();
    let values = values.ok_or_else(|| format!("matchExpressions.{key}: a value is not text"))?;
    let test = match (&*operator, values.is_empty()) {
        ("In", false) => Test::In(values),
        ("NotIn", false) => Test::NotIn(values),
        ("Exists", true) => Test::Exists,
        ("DoesNotExist", true) => Test::DoesNotExist,
        ("In" | "NotIn", true) => return Err(format!("matchExpressions.{key}: {operator} needs values")),
        ("Exists" | "DoesNotExist", false) => {
            return Err(format!("matchExpressions.{key}: {operator} takes no values"));
        }
        _ => {
            return Err(format!(
                "matchExpressions.{key}: {operator:?} is not one of In, NotIn, Exists, DoesNotExist"
            ));
        }
    };
    Ok(Requirement { key: label_key(&key)?, test })
}

fn label_key(key: &str) -> Result<Arc<str>, String> {
    if key.is_empty() || key.len() > MOST_TEXT || !key.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(format!("{:?} is not a label key", key.chars().take(80).collect::<String>()));
    }
    Ok(key.into())
}

fn text(value: &Value) -> Option<Arc<str>> {
    value.as_str().filter(|text| text.len() <= MOST_TEXT).map(Arc::from)
}

fn items<'v>(value: Option<&'v Value>, what: &str) -> Result<&'v [Value], String> {
    match value {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("{what} is not a list").trim_start().to_owned()),
    }
}

fn entries<'v>(value: Option<&'v Value>, what: &str) -> Result<Vec<(&'v String, &'v Value)>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Object(map)) => Ok(map.iter().collect()),
        Some(_) => Err(format!("{what} is not a map")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_selectors(json: &str) -> Result<Selectors, String> {
        Selectors::parse(&serde_json::from_str(json).unwrap())
    }
    fn mk_labels(text: &str) -> Labels {
        text.split(',').filter_map(|pair| pair.split_once('=')).collect()
    }

    #[test]
    fn selectors_are_alternatives_and_requirements_are_combined() {
        let table: [(&str, &[(&str, bool)]); 7] = [
            ("[]", &[("", true), ("a=1", true)]),
            ("[{}]", &[("", true)]),
            (r#"[{"matchLabels":{"a":"1","b":"2"}}]"#, &[("a=1,b=2", true), ("a=1", false)]),
            (
                r#"[{"matchLabels":{"a":"1"}},{"matchLabels":{"b":"2"}}]"#,
                &[("a=1", true), ("b=2", true), ("c=3", false)],
            ),
            (
                r#"[{"matchExpressions":[{"key":"a","operator":"In","values":["1","2"]}]}]"#,
                &[("a=2", true), ("a=3", false), ("", false)],
            ),
            (
                r#"[{"matchExpressions":[{"key":"a","operator":"NotIn","values":["1"]}]}]"#,
                &[("a=2", true), ("a=1", false), ("", true)],
            ),
            (
                r#"[{"matchExpressions":[{"key":"a","operator":"Exists"},{"key":"b","operator":"DoesNotExist"}]}]"#,
                &[("a=1", true), ("a=,c=1", true), ("a=1,b=1", false), ("", false)],
            ),
        ];
        for (json, cases) in table {
            let selectors = mk_selectors(json).unwrap();
            for (labels, want) in cases {
                assert_eq!(selectors.admit(&mk_labels(labels)), *want, "{json} on {labels:?}");
            }
        }
    }

    #[test]
    fn invalid_selector_is_named() {
        let table = [
            ("{}", "is not a list"),
            ("[3]", "[0] is not a label selector"),
            (r#"[{"matchLables":{}}]"#, "matchLables"),
            (r#"[{},{"matchLabels":{"a":1}}]"#, "[1] matchLabels.a is not text"),
            (r#"[{"matchExpressions":[{"operator":"Exists"}]}]"#, "no key"),
            (r#"[{"matchExpressions":[{"key":"a","operator":"Equals"}]}]"#, "not one of In"),
            (r#"[{"matchExpressions":[{"key":"a","operator":"In"}]}]"#, "needs values"),
            (r#"[{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]}]"#, "takes no values"),
        ];
        for (json, reason) in table {
            let why = mk_selectors(json).unwrap_err();
            assert!(why.contains(reason), "{json}: {why}");
        }
    }
}
