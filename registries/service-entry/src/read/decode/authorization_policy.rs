//! The fields of an AuthorizationPolicy.
//!
//! Unknown fields are faults also in objects of a cluster: without one of its conditions a rule would match more.

use tributary_model::Code;

use super::fields::Fields;
use super::peer_authentication::selector;
use crate::document::authorization_policy::values::TRUST_DOMAIN_FIX;
use crate::document::authorization_policy::{
    Action, AuthorizationPolicy, Clause, Condition, Field, FieldMatch, OPERATION, Rule, SOURCE, Target,
};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::{Node, Value};

const ACTIONS: [(&str, Action); 4] =
    [("ALLOW", Action::Allow), ("DENY", Action::Deny), ("AUDIT", Action::Audit), ("CUSTOM", Action::Custom)];

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> AuthorizationPolicy {
    faults.strictly(|faults| policy(spec, path, faults))
}

fn policy(spec: &Node, path: String, faults: &mut Faults) -> AuthorizationPolicy {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return AuthorizationPolicy { at, ..AuthorizationPolicy::default() };
    };
    let mut ignored = Vec::new();
    let policy = AuthorizationPolicy {
        at,
        selector: selector(&mut fields, &mut ignored, faults),
        targets: targets(&mut fields, faults),
        action: fields.choice("action", &ACTIONS, faults),
        provider: provider(&mut fields, faults),
        rules: rules(&mut fields, faults),
        ignored,
        is_stand_in: false,
    };
    fields.finish(faults);
    policy
}

pub(super) fn targets(fields: &mut Fields<'_>, faults: &mut Faults) -> Vec<Target> {
    let one = fields.get("targetRef").into_iter();
    let all = one.chain(fields.list("targetRefs", faults));
    all.filter_map(|(path, node)| target(node, path, faults)).collect()
}

fn target(node: &Node, path: String, faults: &mut Faults) -> Option<Target> {
    let mut fields = Fields::open(node, path.clone(), faults)?;
    let at = Located::new(node.at, ());
    let mut text = |name| fields.text(name, faults).unwrap_or_else(|| Located::new(node.at, "".into()));
    let (group, kind, name, namespace) = (text("group"), text("kind"), text("name"), text("namespace"));
    fields.finish(faults);
    Some(Target { at, path, group, kind, name, namespace })
}

fn provider(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Text> {
    let (path, node) = fields.get("provider")?;
    let mut inner = Fields::open(node, path, faults)?;
    let name = inner.text("name", faults).unwrap_or_else(|| Located::new(node.at, "".into()));
    inner.finish(faults);
    Some(name)
}

fn rules(fields: &mut Fields<'_>, faults: &mut Faults) -> Vec<Rule> {
    let all = fields.list("rules", faults).into_iter();
    let fix = "write {} for a rule that matches everything";
    all.filter_map(|(path, node)| rule(declared(&path, node, fix, faults)?, path, faults)).collect()
}

fn rule(node: &Node, path: String, faults: &mut Faults) -> Option<Rule> {
    let mut fields = Fields::open(node, path, faults)?;
    let rule = Rule {
        at: Located::new(node.at, ()),
        from: clauses(&mut fields, ("from", "source"), &SOURCE, faults),
        to: clauses(&mut fields, ("to", "operation"), &OPERATION, faults),
        when: conditions(&mut fields, faults),
    };
    fields.finish(faults);
    Some(rule)
}

/// The items of a list that Istio refuses if it is empty.
fn clauses(
    fields: &mut Fields<'_>,
    (list, item): (&'static str, &'static str),
    known: &'static [Field],
    faults: &mut Faults,
) -> Vec<Clause> {
    if let Some((path, node)) = fields.get(list).filter(|(_, node)| node.value == Value::List(Vec::new())) {
        faults.refuse(Code::MISSING_FIELD, node.at, format!("{path} is empty; add an item, or remove it"));
    }
    let items = fields.list(list, faults).into_iter();
    items.filter_map(|(path, node)| clause(node, path, item, known, faults)).collect()
}

fn clause(
    node: &Node,
    path: String,
    item: &'static str,
    known: &'static [Field],
    faults: &mut Faults,
) -> Option<Clause> {
    let mut outer = Fields::open(node, path, faults)?;
    let path = outer.path(item);
    let inner = outer.get(item).map(|(_, node)| node);
    outer.finish(faults);
    let Some(inner) = inner else {
        faults.refuse(Code::MISSING_FIELD, node.at, format!("{path} is missing; add it"));
        return None;
    };
    let mut fields = Fields::open(inner, path.clone(), faults)?;
    let all = known.iter().filter_map(|field| compared(&mut fields, field, faults)).collect();
    let is_unserved = item == "source" && trust_domains(&mut fields, faults);
    let is_empty = !is_unserved && !known.iter().any(|field| is_written(&mut fields, field));
    fields.finish(faults);
    if is_empty {
        faults.refuse(
            Code::MISSING_FIELD,
            inner.at,
            format!("{path} has no values; add a field with values"),
        );
    }
    Some(Clause { at: Located::new(inner.at, ()), fields: all })
}

fn compared(fields: &mut Fields<'_>, field: &'static Field, faults: &mut Faults) -> Option<FieldMatch> {
    let (values, not) = (fields.texts(field.name, faults), fields.texts(field.not, faults));
    (!values.is_empty() || !not.is_empty()).then_some(FieldMatch { field, values, not })
}

/// Refuses trust domains, which are not compared; returns whether there are any.
fn trust_domains(fields: &mut Fields<'_>, faults: &mut Faults) -> bool {
    let all = ["trustDomains", "notTrustDomains"].map(|name| fields.get(name));
    let written = all.into_iter().flatten().filter(|(_, node)| node.value != Value::List(Vec::new()));
    let count = written.map(|(path, node)| {
        let message = format!("{path} is not served; {TRUST_DOMAIN_FIX}");
        faults.refuse(Code::FIELD_NOT_SERVED, node.at, message);
    });
    count.count() > 0
}

/// Whether a field or its negation is there and no empty list. One that is not a list of texts is a fault already.
fn is_written(fields: &mut Fields<'_>, field: &'static Field) -> bool {
    let all = [field.name, field.not].map(|name| fields.get(name));
    all.into_iter().flatten().any(|(_, node)| node.value != Value::List(Vec::new()))
}

fn conditions(fields: &mut Fields<'_>, faults: &mut Faults) -> Vec<Condition> {
    let all = fields.list("when", faults).into_iter();
    all.filter_map(|(path, node)| condition(declared(&path, node, "remove it", faults)?, path, faults))
        .collect()
}

fn condition(node: &Node, path: String, faults: &mut Faults) -> Option<Condition> {
    let mut fields = Fields::open(node, path, faults)?;
    let key = fields.required_text("key", faults);
    let (values, not) = (fields.texts("values", faults), fields.texts("notValues", faults));
    fields.finish(faults);
    Some(Condition { at: Located::new(node.at, ()), key: key?, values, not })
}

/// Refuses an item of a list that is nothing: it must not count as one without conditions.
pub(super) fn declared<'n>(path: &str, node: &'n Node, fix: &str, faults: &mut Faults) -> Option<&'n Node> {
    if node.value == Value::Null {
        faults.refuse(Code::MISSING_FIELD, node.at, format!("{path} is nothing; {fix}"));
        return None;
    }
    Some(node)
}
