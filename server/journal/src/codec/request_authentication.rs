//! RequestAuthentications on disk.
//!
//! The codec of policies calls it. A part of a rule that an older release does not know is a fault there: without it a rule could
//! accept more.

use std::sync::Arc;

use tributary_model::{
    ClaimHeader, KeysUri, Labels, RequestAuthentication, TokenHeader, TokenKeys, TokenRule,
};

use super::Fault;
use super::common::read_duration;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::traffic_policy::put_span;
use super::wire::{Fields, Value};

pub(crate) fn put(enc: &mut Encoder, value: &RequestAuthentication) {
    enc.labels(1, &value.selector);
    value.rules.iter().for_each(|rule| enc.nest(2, |enc| put_rule(enc, rule)));
    enc.texts(3, value.ignored.iter().map(|path| &**path));
}

pub(crate) fn read(d: &mut Decoder, mut fields: Fields<'_>) -> Result<RequestAuthentication, Fault> {
    let (mut selector, mut rules, mut ignored) = (Labels::default(), Vec::new(), Vec::new());
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => selector = d.labels(value)?,
            2 => rules.push(read_rule(d, value)?),
            3 => ignored.push(d.fresh(value)?),
            _ => {}
        }
    }
    Ok(RequestAuthentication { selector, rules: rules.into(), ignored: ignored.into() })
}

fn put_rule(enc: &mut Encoder, rule: &TokenRule) {
    enc.texts(1, [&*rule.issuer]);
    let lists = [(2, &rule.audiences), (5, &rule.params), (6, &rule.cookies), (10, &rule.spaced_claims)];
    for (field, texts) in lists {
        enc.texts(field, texts.iter().map(|text| &**text));
    }
    enc.nest(3, |enc| put_keys(enc, &rule.keys));
    rule.headers.iter().for_each(|of| put_pair(enc, 4, [&of.name, &of.prefix]));
    enc.flag(7, rule.forwards);
    enc.texts(8, rule.payload_header.as_deref());
    rule.claim_headers.iter().for_each(|of| put_pair(enc, 9, [&of.header, &of.claim]));
    put_span(enc, 11, rule.timeout);
}

fn read_rule(d: &mut Decoder, value: Value<'_>) -> Result<TokenRule, Fault> {
    let (mut issuer, mut keys, mut payload_header, mut timeout) = (None, None, None, None);
    let (mut audiences, mut params, mut cookies, mut spaced) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut headers, mut claim_headers, mut forwards) = (Vec::new(), Vec::new(), false);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => issuer = Some(d.fresh(value)?),
            2 => audiences.push(d.fresh(value)?),
            3 => keys = Some(read_keys(d, value)?),
            4 => headers.push(read_pair(d, value).map(|[name, prefix]| TokenHeader { name, prefix })?),
            5 => params.push(d.fresh(value)?),
            6 => cookies.push(d.fresh(value)?),
            7 => forwards = value.flag()?,
            8 => payload_header = Some(d.fresh(value)?),
            9 => {
                claim_headers.push(read_pair(d, value).map(|[header, claim]| ClaimHeader { header, claim })?);
            }
            10 => spaced.push(d.fresh(value)?),
            11 => timeout = Some(read_duration(value)?),
            _ => return Err(Fault::Unknown("part of a rule on tokens")),
        }
    }
    Ok(TokenRule {
        issuer: issuer.ok_or(Fault::Missing("issuer"))?,
        audiences: audiences.into(),
        keys: keys.ok_or(Fault::Missing("keys"))?,
        headers: headers.into(),
        params: params.into(),
        cookies: cookies.into(),
        forwards,
        payload_header,
        claim_headers: claim_headers.into(),
        spaced_claims: spaced.into(),
        timeout,
    })
}

fn put_pair(enc: &mut Encoder, field: u32, pair: [&Arc<str>; 2]) {
    enc.nest(field, |enc| enc.texts(1, pair.map(|text| &**text)));
}

fn read_pair(d: &mut Decoder, value: Value<'_>) -> Result<[Arc<str>; 2], Fault> {
    let mut texts = Vec::new();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => texts.push(d.fresh(value)?),
            _ => return Err(Fault::Unknown("part of a header with tokens")),
        }
    }
    texts.try_into().map_err(|_| Fault::Malformed("a header with tokens has other than two texts"))
}

fn put_keys(enc: &mut Encoder, keys: &TokenKeys) {
    match keys {
        TokenKeys::Undeclared => enc.int(1, 1u64),
        TokenKeys::Inline(keys) => {
            enc.int(1, 2u64);
            enc.texts(2, [&**keys]);
        }
        TokenKeys::Fetched(from) => {
            enc.int(1, 3u64);
            enc.texts(2, [&*from.uri]);
            enc.flag(3, from.is_tls);
            enc.text(4, from.host.as_str());
            enc.int(5, from.port.get());
        }
    }
}

fn read_keys(d: &mut Decoder, value: Value<'_>) -> Result<TokenKeys, Fault> {
    let (mut code, mut text, mut is_tls, mut host, mut port) = (None, None, false, None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => code = Some(value.int()?),
            2 => text = Some(d.fresh(value)?),
            3 => is_tls = value.flag()?,
            4 => host = Some(d.host(value)?),
            5 => port = Some(decode::port(value)?),
            _ => return Err(Fault::Unknown("part of the keys of tokens")),
        }
    }
    let text = text.ok_or(Fault::Missing("keys"));
    Ok(match code.ok_or(Fault::Missing("form of keys"))? {
        1 => TokenKeys::Undeclared,
        2 => TokenKeys::Inline(text?),
        3 => TokenKeys::Fetched(KeysUri {
            uri: text?,
            is_tls,
            host: host.ok_or(Fault::Missing("host"))?,
            port: port.ok_or(Fault::Missing("port"))?,
        }),
        _ => return Err(Fault::Unknown("form of keys")),
    })
}
