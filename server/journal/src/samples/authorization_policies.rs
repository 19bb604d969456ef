//! Random AuthorizationPolicies.

use super::*;

fn attribute() -> BoxedStrategy<Attribute> {
    let plain = select(vec![
        Attribute::Principal,
        Attribute::Namespace,
        Attribute::ServiceAccount,
        Attribute::SourceIp,
        Attribute::RemoteIp,
        Attribute::DestinationIp,
        Attribute::DestinationPort,
        Attribute::ServerName,
        Attribute::Host,
        Attribute::Method,
        Attribute::Path,
        Attribute::RequestPrincipal,
        Attribute::RequestAudience,
        Attribute::RequestPresenter,
    ]);
    let header = text().prop_map(Attribute::Header);
    let claim = vec(text(), 0..3).prop_map(|path| Attribute::RequestClaim(path.into()));
    prop_oneof![4 => plain, 1 => header, 1 => claim].boxed()
}

fn value() -> BoxedStrategy<ValueMatch> {
    let range = (any::<IpAddr>(), 0u8..=128).prop_map(|(ip, length)| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        ValueMatch::Range(ipnet::IpNet::new(ip, length.min(most)).unwrap())
    });
    prop_oneof![
        text().prop_map(ValueMatch::Exact),
        text().prop_map(ValueMatch::Prefix),
        text().prop_map(ValueMatch::Suffix),
        text().prop_map(ValueMatch::Template),
        Just(ValueMatch::Present),
        range,
        port().prop_map(ValueMatch::Port),
    ]
    .boxed()
}

fn attribute_match() -> BoxedStrategy<AttributeMatch> {
    (attribute(), vec(value(), 0..3), vec(value(), 0..3))
        .prop_map(|(of, values, not)| AttributeMatch { of, values: values.into(), not: not.into() })
        .boxed()
}

fn rule() -> BoxedStrategy<AuthorizationRule> {
    let clauses = || {
        let clause = vec(attribute_match(), 0..3).prop_map(Arc::<[AttributeMatch]>::from);
        vec(clause, 0..3).prop_map(Arc::<[Arc<[AttributeMatch]>]>::from)
    };
    (clauses(), clauses(), vec(attribute_match(), 0..3))
        .prop_map(|(from, to, when)| AuthorizationRule { from, to, when: when.into() })
        .boxed()
}

pub(super) fn authorization_policy() -> BoxedStrategy<Policy> {
    let action = prop_oneof![
        Just(AuthorizationAction::Allow),
        Just(AuthorizationAction::Deny),
        Just(AuthorizationAction::Audit),
        text().prop_map(AuthorizationAction::Custom),
    ];
    (labels(), action, any::<bool>(), vec(rule(), 0..3), vec(text(), 0..3))
        .prop_map(|(selector, action, is_dry_run, rules, ignored)| {
            let (rules, ignored) = (rules.into(), ignored.into());
            Policy::AuthorizationPolicy(AuthorizationPolicy { selector, action, is_dry_run, rules, ignored })
        })
        .boxed()
}
