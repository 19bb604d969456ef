//! The rules of an AuthorizationPolicy, which are those of Istio.

use tributary_model::{Attribute, Code};

use super::{names, targets};
use crate::document::Text;
use crate::document::authorization_policy::values::{Invalid, attribute_of, value_of};
use crate::document::authorization_policy::{Action, AuthorizationPolicy, Clause, Rule};
use crate::read::fault::{Faults, Pos, clip};

pub(super) type Check = fn(&AuthorizationPolicy, &mut Faults);

/// Every rule by its name; the tests have the same names.
pub(super) const RULES: &[(&str, Check)] = &[
    ("authorization_size_is_within_limits", authorization_size_is_within_limits),
    ("authorization_selector_is_valid", authorization_selector_is_valid),
    ("workloads_are_selected_in_one_way", workloads_are_selected_in_one_way),
    ("targets_are_gateways_and_services", targets_are_gateways_and_services),
    ("targets_concern_no_sidecar", targets_concern_no_sidecar),
    ("actions_that_need_rules_have_them", actions_that_need_rules_have_them),
    ("custom_action_alone_has_a_provider", custom_action_alone_has_a_provider),
    ("custom_rules_compare_no_identity", custom_rules_compare_no_identity),
    ("service_accounts_are_compared_alone", service_accounts_are_compared_alone),
    ("conditions_have_known_keys_and_values", conditions_have_known_keys_and_values),
    ("values_fit_their_attributes", values_fit_their_attributes),
];

/// Maximum numbers of rules, and of items of `from`, `to` and `when` of one rule.
const MOST_ITEMS: usize = 512;
/// Maximum number of values of all rules.
const MOST_VALUES: usize = 10_000;
/// Maximum length of a value.
const LONGEST_VALUE: usize = 4_096;
/// Maximum number of service accounts of a field, as in Istio.
const MOST_ACCOUNTS: usize = 16;

/// Values that a rule compares with one attribute.
struct Compared<'p> {
    /// Path of the field or condition.
    path: String,
    at: Pos,
    /// Attribute; `None` if its key names none.
    of: Option<Attribute>,
    /// Names of the lists, and their values.
    lists: [(&'static str, &'p [Text]); 2],
}

impl Compared<'_> {
    fn values(&self) -> impl Iterator<Item = (String, &Text)> {
        self.lists.iter().flat_map(move |(name, values)| {
            values.iter().enumerate().map(move |(i, value)| (format!("{}.{name}[{i}]", self.path), value))
        })
    }
}

/// Returns everything that the rules compare, in document order.
fn compared(policy: &AuthorizationPolicy) -> impl Iterator<Item = Compared<'_>> {
    policy.rules.iter().enumerate().flat_map(|(i, rule)| {
        let path = format!("spec.rules[{i}]");
        let from = of_clauses(&rule.from, format!("{path}.from"), "source");
        let to = of_clauses(&rule.to, format!("{path}.to"), "operation");
        from.chain(to).chain(of_conditions(rule, path))
    })
}

fn of_clauses<'p>(
    clauses: &'p [Clause],
    path: String,
    item: &'static str,
) -> impl Iterator<Item = Compared<'p>> {
    clauses.iter().enumerate().flat_map(move |(i, clause)| {
        let path = format!("{path}[{i}].{item}");
        clause.fields.iter().map(move |one| Compared {
            path: path.clone(),
            at: clause.at.at,
            of: Some(one.field.of.clone()),
            lists: [(one.field.name, &one.values), (one.field.not, &one.not)],
        })
    })
}

fn of_conditions(rule: &Rule, path: String) -> impl Iterator<Item = Compared<'_>> {
    rule.when.iter().enumerate().map(move |(i, condition)| Compared {
        path: format!("{path}.when[{i}]"),
        at: condition.at.at,
        of: attribute_of(&condition.key.value).ok(),
        lists: [("values", &condition.values), ("notValues", &condition.not)],
    })
}

fn authorization_size_is_within_limits(policy: &AuthorizationPolicy, faults: &mut Faults) {
    let too_large = |at: Pos, message: String, faults: &mut Faults| {
        faults.refuse(Code::DOCUMENT_TOO_LARGE, at, message);
    };
    let lists = policy.rules.iter().flat_map(|rule| [rule.from.len(), rule.to.len(), rule.when.len()]);
    if lists.chain([policy.rules.len()]).any(|count| count > MOST_ITEMS) {
        let what = "spec.rules, or from, to or when of a rule,";
        let message = format!("{what} has more than {MOST_ITEMS} items; split the policy");
        too_large(policy.at.at, message, faults);
    }
    if compared(policy).map(|one| one.values().count()).sum::<usize>() > MOST_VALUES {
        let message = format!("spec.rules has more than {MOST_VALUES} values; split the policy");
        too_large(policy.at.at, message, faults);
    }
    for one in compared(policy) {
        for (path, value) in one.values().filter(|(_, value)| value.value.len() > LONGEST_VALUE) {
            let message = format!("{path} is longer than {LONGEST_VALUE} bytes; shorten it");
            too_large(value.at, message, faults);
        }
    }
}

fn authorization_selector_is_valid(policy: &AuthorizationPolicy, faults: &mut Faults) {
    if let Some(selector) = &policy.selector {
        names::labels(selector, "spec.selector.matchLabels", faults);
    }
}

fn workloads_are_selected_in_one_way(policy: &AuthorizationPolicy, faults: &mut Faults) {
    targets::exclude_a_selector(policy.selector.is_some(), &policy.targets, policy.at.at, faults);
}

fn targets_are_gateways_and_services(policy: &AuthorizationPolicy, faults: &mut Faults) {
    targets::are_gateways_and_services(&policy.targets, faults);
}

fn targets_concern_no_sidecar(policy: &AuthorizationPolicy, faults: &mut Faults) {
    targets::concern_no_sidecar(&policy.targets, faults);
}

fn actions_that_need_rules_have_them(policy: &AuthorizationPolicy, faults: &mut Faults) {
    let action = match policy.action() {
        Action::Deny => "DENY",
        Action::Custom => "CUSTOM",
        Action::Allow | Action::Audit => return,
    };
    if policy.rules.is_empty() {
        let message = format!(
            "spec.rules is missing: {action} without rules concerns no request; write [{{}}] for every request, or \
             delete the policy"
        );
        faults.refuse(Code::MISSING_FIELD, policy.at.at, message);
    }
}

fn custom_action_alone_has_a_provider(policy: &AuthorizationPolicy, faults: &mut Faults) {
    match (&policy.provider, policy.action()) {
        (Some(provider), Action::Allow | Action::Deny | Action::Audit) => {
            let message = "spec.provider belongs to the action CUSTOM; write that action, or remove it";
            faults.refuse(Code::VALUE_INVALID, provider.at, message);
        }
        (provider, Action::Custom) if provider.as_ref().is_none_or(|name| name.value.is_empty()) => {
            let at = provider.as_ref().map_or(policy.at.at, |name| name.at);
            let message = "spec.provider.name is missing: the action CUSTOM needs it; add the name of an extension provider";
            faults.refuse(Code::MISSING_FIELD, at, message);
        }
        _ => {}
    }
}

fn custom_rules_compare_no_identity(policy: &AuthorizationPolicy, faults: &mut Faults) {
    if policy.action() != Action::Custom {
        return;
    }
    for one in compared(policy).filter(|one| one.of.as_ref().is_some_and(Attribute::is_of_identity)) {
        let message = format!(
            "{} compares an identity, which CUSTOM does not support; compare addresses or attributes of the request",
            one.path
        );
        faults.refuse(Code::VALUE_INVALID, one.at, message);
    }
}

fn service_accounts_are_compared_alone(policy: &AuthorizationPolicy, faults: &mut Faults) {
    for (i, rule) in policy.rules.iter().enumerate() {
        for (j, source) in rule.from.iter().enumerate() {
            let has = |of: &Attribute| source.fields.iter().any(|one| one.field.of == *of);
            let is_beside = has(&Attribute::Principal) || has(&Attribute::Namespace);
            if is_beside && has(&Attribute::ServiceAccount) {
                let path = format!("spec.rules[{i}].from[{j}].source");
                let message =
                    format!("{path} has service accounts beside principals or namespaces; keep one of them");
                faults.refuse(Code::VALUE_INVALID, source.at.at, message);
            }
        }
    }
    for one in compared(policy).filter(|one| one.of == Some(Attribute::ServiceAccount)) {
        for (name, _) in one.lists.iter().filter(|(_, values)| values.len() > MOST_ACCOUNTS) {
            let message =
                format!("{}.{name} has more than {MOST_ACCOUNTS} values; write several items", one.path);
            faults.refuse(Code::DOCUMENT_TOO_LARGE, one.at, message);
        }
    }
}

fn conditions_have_known_keys_and_values(policy: &AuthorizationPolicy, faults: &mut Faults) {
    for (i, rule) in policy.rules.iter().enumerate() {
        for (j, condition) in rule.when.iter().enumerate() {
            let path = format!("spec.rules[{i}].when[{j}]");
            if let Err(Invalid(code, fix)) = attribute_of(&condition.key.value) {
                let key = clip(&condition.key.value);
                let message = format!("{path}.key {key:?} is not an attribute that is compared; {fix}");
                faults.refuse(code, condition.key.at, message);
            }
            if condition.values.is_empty() && condition.not.is_empty() {
                let message = format!("{path} has neither values nor notValues; add one of them");
                faults.refuse(Code::MISSING_FIELD, condition.at.at, message);
            }
        }
    }
}

fn values_fit_their_attributes(policy: &AuthorizationPolicy, faults: &mut Faults) {
    for one in compared(policy) {
        let Some(of) = &one.of else { continue };
        for (path, value) in one.values() {
            // the namespace of the policy decides what a value means, not whether it is valid
            if let Err(Invalid(code, fix)) = value_of(of, &value.value, "default") {
                let message = format!("{path} {:?} is not valid; {fix}", clip(&value.value));
                faults.refuse(code, value.at, message);
            }
        }
    }
}
