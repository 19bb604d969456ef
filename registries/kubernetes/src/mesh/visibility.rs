//! `serviceEntryVisibility`: namespaces that may publish ServiceEntries beyond themselves.
//!
//! The first policy whose rules all match a namespace's labels decides, then the default. An unknown rule matches
//! nothing, so that it never opens what an operator wanted closed.

use std::sync::Arc;

use serde_json::{Map, Value};
use tributary_model::{EntryVisibility, Labels, Namespace, Visibility};

use super::tree::{get, list, map};
use crate::label_selector::LabelSelector;

const MOST_POLICIES: usize = 1024;

/// Upper bounds of visibility by the labels of the declaring namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibilityPolicy {
    default: Visibility,
    policies: Arc<[Policy]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Policy {
    cap: Visibility,
    /// Rules that all must match; `None` is an unknown rule.
    rules: Arc<[Option<LabelSelector>]>,
}

impl VisibilityPolicy {
    pub(super) fn parse(tree: &Map<String, Value>) -> Result<Self, String> {
        let policies = list(tree, "policies")?;
        if policies.len() > MOST_POLICIES {
            return Err(format!("more than {MOST_POLICIES} policies are not read"));
        }
        let policies = policies.iter().enumerate().map(|(at, policy)| {
            map(policy).and_then(Policy::parse).map_err(|why| format!("policies[{at}] {why}"))
        });
        Ok(Self {
            default: cap(get(tree, "defaultVisibility"), "defaultVisibility")?,
            policies: policies.collect::<Result<_, _>>()?,
        })
    }
    /// Returns the bound of a namespace with these labels.
    #[must_use]
    pub fn of(&self, labels: &Labels) -> &Visibility {
        let matching = |policy: &&Policy| {
            policy.rules.iter().all(|rule| rule.as_ref().is_some_and(|selector| selector.matches(labels)))
        };
        self.policies.iter().find(matching).map_or(&self.default, |policy| &policy.cap)
    }
    /// Returns the bounds of all namespaces. An unknown namespace counts as one without labels.
    #[must_use]
    pub fn caps<'a>(&self, namespaces: impl Iterator<Item = (Namespace, &'a Labels)>) -> EntryVisibility {
        let default = self.of(&Labels::default()).clone();
        let mut others: Vec<(Namespace, Visibility)> = namespaces
            .map(|(name, labels)| (name, self.of(labels)))
            .filter(|(_, cap)| **cap != default)
            .map(|(name, cap)| (name, cap.clone()))
            .collect();
        others.sort_by(|(a, _), (b, _)| a.cmp(b));
        EntryVisibility { default, namespaces: others.into() }
    }
}

impl Policy {
    fn parse(tree: &Map<String, Value>) -> Result<Self, String> {
        let rule = |rule: &Value| -> Result<Option<LabelSelector>, String> {
            get(map(rule)?, "namespaceSelector").map(LabelSelector::parse).transpose()
        };
        Ok(Self {
            cap: cap(get(tree, "visibility"), "visibility")?,
            rules: list(tree, "matchingRules")?.iter().map(rule).collect::<Result<_, _>>()?,
        })
    }
}

fn cap(value: Option<&Value>, name: &str) -> Result<Visibility, String> {
    match value.map(|value| value.as_str().unwrap_or_default()) {
        None | Some("PUBLIC" | "VISIBILITY_UNSPECIFIED" | "UNSPECIFIED") => Ok(Visibility::Public),
        Some("NAMESPACE") => Ok(Visibility::Own),
        Some("NONE") => Ok(Visibility::Hidden),
        Some(other) => Err(format!("{name} {other:?} is not one of PUBLIC, NAMESPACE, NONE")),
    }
}
