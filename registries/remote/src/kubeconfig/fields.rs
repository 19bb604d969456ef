//! The fields of each part of a kubeconfig, and what becomes of each.
//!
//! `select`, `server` and `login` read parts through [`Fields`], which reports every field that is not in its table.

use serde_saphyr::Spanned;
use tributary_model::Code;

use crate::allowed::{Allowed, Feature};
use crate::refusal::{Faults, OptIn, Refusal, shown_name};
use crate::yaml::{Node, line};

/// What becomes of a field.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Read.
    Read,
    /// Without effect on a server, and skipped.
    Ignored,
    /// Refused: the reason and the next step.
    Refused(&'static str, &'static str),
    /// Read if the operator allows it, else refused: the feature, the reason and the next step.
    OptIn(Feature, &'static str, &'static str),
}

use Rule::{Ignored, OptIn as Ask, Read, Refused as Never};

/// Fields of a part.
pub(super) type Rules = &'static [(&'static str, Rule)];

pub(super) const ROOT: Rules = &[
    ("apiVersion", Read),
    ("kind", Read),
    ("current-context", Read),
    ("clusters", Read),
    ("contexts", Read),
    ("users", Read),
    ("preferences", Ignored),
    ("extensions", Ignored),
];

pub(super) const CONTEXT: Rules =
    &[("cluster", Read), ("user", Read), ("namespace", Ignored), ("extensions", Ignored)];

const CA_PATH: &str = "is a path on the server's machine";

pub(super) const CLUSTER: Rules = &[
    ("server", Read),
    ("certificate-authority-data", Read),
    ("tls-server-name", Read),
    (
        "insecure-skip-tls-verify",
        Ask(
            Feature::InsecureSkipTlsVerify,
            "sends the credential to a server that nothing identifies",
            "give its certificate-authority-data",
        ),
    ),
    (
        "proxy-url",
        Ask(Feature::ProxyUrl, "sends the credential through a proxy", "use an address that needs no proxy"),
    ),
    ("certificate-authority", Never(CA_PATH, "use certificate-authority-data")),
    ("disable-compression", Ignored),
    ("extensions", Ignored),
];

const PROGRAM: &str = "runs a program on the server's machine";
const ACCOUNT: &str = "use the token of a service account or a client certificate";
const AS: Rule = Ask(
    Feature::Impersonation,
    "lets the credential act as another user",
    "use a credential that has the rights itself",
);
const BASIC: Rule = Ask(Feature::Basic, "is a part of a password, which never expires", ACCOUNT);

pub(super) const USER: Rules = &[
    ("token", Read),
    ("client-certificate-data", Read),
    ("client-key-data", Read),
    ("tokenFile", Never(CA_PATH, "use token")),
    ("client-certificate", Never(CA_PATH, "use client-certificate-data")),
    ("client-key", Never(CA_PATH, "use client-key-data")),
    ("exec", Never(PROGRAM, ACCOUNT)),
    ("auth-provider", Never("runs code of a provider, which may run a program", ACCOUNT)),
    ("username", BASIC),
    ("password", BASIC),
    ("as", AS),
    ("as-uid", AS),
    ("as-groups", AS),
    ("as-user-extra", AS),
    ("extensions", Ignored),
];

/// Set fields of a part that may be read.
pub(super) struct Fields<'n> {
    path: String,
    line: u64,
    set: Vec<(&'static str, &'n Node)>,
    refused: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Sorts the fields of a map; a field without a value counts as absent.
    pub(super) fn read(
        path: &str,
        node: &'n Node,
        rules: Rules,
        allowed: &Allowed,
        faults: &mut Faults,
    ) -> Self {
        let mut fields =
            Self { path: path.to_owned(), line: line(node), set: Vec::new(), refused: Vec::new() };
        let Some(entries) = node.value.entries() else {
            if !node.value.is_unset() {
                faults.add(invalid(path, "is not a map", "write its fields below it").at(line(node)));
            }
            return fields;
        };
        for (key, value) in entries {
            match rules.iter().find(|(name, _)| *name == key.value) {
                Some((name, rule)) if !value.value.is_unset() => {
                    fields.sort(name, *rule, (key, value), allowed, faults)
                }
                Some(_) => {}
                None => faults.add(fields.unknown(key)),
            }
        }
        fields
    }
    fn sort(
        &mut self,
        name: &'static str,
        rule: Rule,
        (key, value): (&Spanned<String>, &'n Node),
        allowed: &Allowed,
        faults: &mut Faults,
    ) {
        let (why, next, opt_in) = match rule {
            Rule::Ignored => return,
            Rule::Refused(why, next) => (why, next, None),
            Rule::OptIn(feature, why, next) if !allowed.features.contains(&feature) => {
                (why, next, Some(OptIn::Feature(feature)))
            }
            Rule::Read | Rule::OptIn(..) => return self.set.push((name, value)),
        };
        self.refused.push(name);
        faults.add(Refusal { opt_in, ..self.refusal(name, why, next).at(line(key)) });
    }
    fn unknown(&self, key: &Spanned<String>) -> Refusal {
        self.refusal(shown_name(&key.value), "is an unknown field", "remove it or correct its spelling")
            .at(line(key))
    }
    fn refusal(&self, name: &str, why: &'static str, next: &'static str) -> Refusal {
        Refusal::new(Code::KUBECONFIG_FIELD_REFUSED, self.path_of(name), why, next)
    }
    /// Returns the path of a field.
    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
    /// Returns a set field.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.set.iter().find(|(known, _)| *known == name).map(|(_, node)| *node)
    }
    /// Whether one of these fields is set or was refused, so that its absence is no further fault.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        let mut known = self.set.iter().map(|(name, _)| name).chain(&self.refused);
        known.any(|name| names.contains(name))
    }
    /// Returns a text; another value is a fault.
    pub(super) fn text(&self, name: &str, faults: &mut Faults) -> Option<&'n str> {
        let node = self.get(name)?;
        let text = node.value.text();
        if text.is_none() {
            faults.add(self.invalid(name, "is not text", "write it as text, in quotes if it is a number"));
        }
        text
    }
    /// Returns a fault of a field: not valid, or missing.
    pub(super) fn invalid(&self, name: &str, why: &'static str, next: &'static str) -> Refusal {
        invalid(&self.path_of(name), why, next).at(self.get(name).map_or(self.line, line))
    }
}

/// Returns a fault of a field that is not valid.
pub(super) fn invalid(path: &str, why: &'static str, next: &'static str) -> Refusal {
    Refusal::new(Code::KUBECONFIG_FIELD_INVALID, path, why, next)
}
