//! AuthorizationPolicies on disk.
//!
//! The codec of policies calls it. An action, attribute or form of a value that an older release does not know is a fault
//! there: without a condition a rule would match more.

use std::sync::Arc;

use ipnet::IpNet;
use tributary_model::{
    Attribute, AttributeMatch, AuthorizationAction, AuthorizationPolicy, AuthorizationRule, Labels,
    ValueMatch,
};

use super::Fault;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::wire::{Fields, Value};

pub(crate) fn put(enc: &mut Encoder, value: &AuthorizationPolicy) {
    enc.labels(1, &value.selector);
    put_action(enc, &value.action);
    enc.flag(4, value.is_dry_run);
    value.rules.iter().for_each(|rule| enc.nest(5, |enc| put_rule(enc, rule)));
    enc.texts(6, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<AuthorizationPolicy, Fault> {
    let (mut selector, mut action, mut provider) = (Labels::default(), None, None);
    let (mut is_dry_run, mut rules, mut ignored) = (false, Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => action = Some(value.int()?),
            3 => provider = Some(d.fresh(value)?),
            4 => is_dry_run = value.flag()?,
            5 => rules.push(read_rule(d, value)?),
            6 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    let action = read_action(action.ok_or(Fault::Missing("action"))?, provider)?;
    Ok(AuthorizationPolicy { selector, action, is_dry_run, rules: rules.into(), ignored: ignored.into() })
}

fn put_action(enc: &mut Encoder, action: &AuthorizationAction) {
    let code: u64 = match action {
        AuthorizationAction::Allow => 1,
        AuthorizationAction::Deny => 2,
        AuthorizationAction::Audit => 3,
        AuthorizationAction::Custom(_) => 4,
    };
    enc.int(2, code);
    if let AuthorizationAction::Custom(provider) = action {
        enc.texts(3, [&**provider]);
    }
}

fn read_action(code: u64, provider: Option<Arc<str>>) -> Result<AuthorizationAction, Fault> {
    match code {
        1 => Ok(AuthorizationAction::Allow),
        2 => Ok(AuthorizationAction::Deny),
        3 => Ok(AuthorizationAction::Audit),
        4 => Ok(AuthorizationAction::Custom(provider.ok_or(Fault::Missing("provider"))?)),
        _ => Err(Fault::Unknown("action of an AuthorizationPolicy")),
    }
}

fn put_rule(enc: &mut Encoder, rule: &AuthorizationRule) {
    for (field, clauses) in [(1, &rule.from), (2, &rule.to)] {
        for clause in clauses.iter() {
            enc.nest(field, |enc| clause.iter().for_each(|one| put_match(enc, 1, one)));
        }
    }
    rule.when.iter().for_each(|one| put_match(enc, 3, one));
}

fn read_rule(d: &mut Decoder, value: Value<'_>) -> Result<AuthorizationRule, Fault> {
    let (mut from, mut to, mut when) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => from.push(read_clause(d, value)?),
            2 => to.push(read_clause(d, value)?),
            3 => when.push(read_match(d, value)?),
            _ => return Err(Fault::Unknown("part of a rule")),
        }
    }
    Ok(AuthorizationRule { from: from.into(), to: to.into(), when: when.into() })
}

fn read_clause(d: &mut Decoder, value: Value<'_>) -> Result<Arc<[AttributeMatch]>, Fault> {
    let mut all = Vec::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => all.push(read_match(d, value)?),
            _ => return Err(Fault::Unknown("part of a rule")),
        }
    }
    Ok(all.into())
}

fn put_match(enc: &mut Encoder, field: u32, one: &AttributeMatch) {
    enc.nest(field, |enc| {
        put_attribute(enc, &one.of);
        one.values.iter().for_each(|value| enc.nest(3, |enc| put_value(enc, value)));
        one.not.iter().for_each(|value| enc.nest(4, |enc| put_value(enc, value)));
    });
}

fn read_match(d: &mut Decoder, value: Value<'_>) -> Result<AttributeMatch, Fault> {
    let (mut of, mut names, mut values, mut not) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => of = Some(value.int()?),
            2 => names.push(d.fresh(value)?),
            3 => values.push(read_value(d, value)?),
            4 => not.push(read_value(d, value)?),
            _ => return Err(Fault::Unknown("part of a condition")),
        }
    }
    let of = read_attribute(of.ok_or(Fault::Missing("attribute"))?, names)?;
    Ok(AttributeMatch { of, values: values.into(), not: not.into() })
}

fn put_attribute(enc: &mut Encoder, of: &Attribute) {
    let code: u64 = match of {
        Attribute::Principal => 1,
        Attribute::Namespace => 2,
        Attribute::ServiceAccount => 3,
        Attribute::SourceIp => 4,
        Attribute::RemoteIp => 5,
        Attribute::DestinationIp => 6,
        Attribute::DestinationPort => 7,
        Attribute::ServerName => 8,
        Attribute::Host => 9,
        Attribute::Method => 10,
        Attribute::Path => 11,
        Attribute::Header(_) => 12,
        Attribute::RequestPrincipal => 13,
        Attribute::RequestAudience => 14,
        Attribute::RequestPresenter => 15,
        Attribute::RequestClaim(_) => 16,
    };
    enc.int(1, code);
    if let Attribute::Header(name) = of {
        enc.texts(2, [&**name]);
    }
    if let Attribute::RequestClaim(path) = of {
        enc.texts(2, path.iter().map(|name| &**name));
    }
}

fn read_attribute(code: u64, names: Vec<Arc<str>>) -> Result<Attribute, Fault> {
    Ok(match code {
        1 => Attribute::Principal,
        2 => Attribute::Namespace,
        3 => Attribute::ServiceAccount,
        4 => Attribute::SourceIp,
        5 => Attribute::RemoteIp,
        6 => Attribute::DestinationIp,
        7 => Attribute::DestinationPort,
        8 => Attribute::ServerName,
        9 => Attribute::Host,
        10 => Attribute::Method,
        11 => Attribute::Path,
        12 => Attribute::Header(names.into_iter().next().ok_or(Fault::Missing("name of a header"))?),
        13 => Attribute::RequestPrincipal,
        14 => Attribute::RequestAudience,
        15 => Attribute::RequestPresenter,
        16 => Attribute::RequestClaim(names.into()),
        _ => return Err(Fault::Unknown("attribute")),
    })
}

fn put_value(enc: &mut Encoder, value: &ValueMatch) {
    let mut text = |code: u64, text: &str| {
        enc.int(1, code);
        enc.texts(2, [text]);
    };
    match value {
        ValueMatch::Exact(value) => text(1, value),
        ValueMatch::Prefix(value) => text(2, value),
        ValueMatch::Suffix(value) => text(3, value),
        ValueMatch::Template(value) => text(4, value),
        ValueMatch::Present => enc.int(1, 5u64),
        ValueMatch::Range(range) => {
            enc.int(1, 6u64);
            enc.ip(3, range.addr());
            enc.int(4, range.prefix_len());
        }
        ValueMatch::Port(port) => {
            enc.int(1, 7u64);
            enc.int(5, port.get());
        }
    }
}

fn read_value(d: &mut Decoder, value: Value<'_>) -> Result<ValueMatch, Fault> {
    let (mut code, mut text, mut ip, mut length, mut port) = (None, None, None, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => code = Some(value.int()?),
            2 => text = Some(d.fresh(value)?),
            3 => ip = Some(decode::ip(value)?),
            4 => length = Some(value.narrow()?),
            5 => port = Some(decode::port(value)?),
            _ => return Err(Fault::Unknown("part of a value")),
        }
    }
    let text = text.ok_or(Fault::Missing("value"));
    Ok(match code.ok_or(Fault::Missing("form of a value"))? {
        1 => ValueMatch::Exact(text?),
        2 => ValueMatch::Prefix(text?),
        3 => ValueMatch::Suffix(text?),
        4 => ValueMatch::Template(text?),
        5 => ValueMatch::Present,
        6 => {
            let (ip, length) = (ip.ok_or(Fault::Missing("range"))?, length.ok_or(Fault::Missing("length"))?);
            let range = IpNet::new(ip, length);
            ValueMatch::Range(range.map_err(|_| Fault::Malformed("a range is longer than its address"))?)
        }
        7 => ValueMatch::Port(port.ok_or(Fault::Missing("port"))?),
        _ => return Err(Fault::Unknown("form of a value")),
    })
}
