//! HTTP routes of VirtualServices on disk: matches and actions. Their settings have a codec of their own.
//!
//! The codec of VirtualServices calls it. Lists keep their order; an absent field has its default.

use std::sync::Arc;

use tributary_model::{
    DirectResponse, HttpAction, HttpMatch, HttpRoute, Redirect, RedirectPath, RedirectPort, ResponseBody,
    RoutePosition, RouteSettings, TextMatch, WeightedDestination,
};

use super::Fault;
use super::decode::{self, Decoder};
use super::encode::Encoder;
use super::http_settings::{put_headers, put_settings, read_headers, read_settings};
use super::virtual_service::{
    put_clients, put_delegate, put_destination, read_clients, read_delegate, read_destination,
};
use super::wire::Value;

type Texts = Arc<[(Arc<str>, TextMatch)]>;

pub(crate) fn put(enc: &mut Encoder, route: &HttpRoute) {
    enc.text(1, &route.name);
    route.matches.iter().for_each(|found| enc.nest(2, |enc| put_match(enc, found)));
    match &route.action {
        HttpAction::Route(all) => all.iter().for_each(|of| enc.nest(3, |enc| put_weighted(enc, of))),
        HttpAction::Redirect(of) => enc.nest(4, |enc| put_redirect(enc, of)),
        HttpAction::Respond(of) => enc.nest(5, |enc| put_response(enc, of)),
        HttpAction::Delegate(of, answer) => {
            enc.nest(6, |enc| put_delegate(enc, of));
            if let Some(answer) = answer {
                enc.nest(5, |enc| put_response(enc, answer));
            }
        }
    }
    if route.settings != RouteSettings::default() {
        enc.nest(7, |enc| put_settings(enc, &route.settings));
    }
}

/// Reads the route at a position.
pub(crate) fn read(d: &mut Decoder, value: Value<'_>, at: usize) -> Result<HttpRoute, Fault> {
    let (mut name, mut matches, mut all) = (Arc::from(""), Vec::new(), Vec::new());
    let (mut redirect, mut response, mut delegate) = (None, None, None);
    let mut settings = RouteSettings::default();
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = d.fresh(value)?,
            2 => matches.push(read_match(d, value)?),
            3 => all.push(read_weighted(d, value)?),
            4 => redirect = Some(Arc::new(read_redirect(d, value)?)),
            5 => response = Some(Arc::new(read_response(value)?)),
            6 => delegate = Some(read_delegate(d, value)?),
            7 => settings = read_settings(d, value)?,
            _ => {}
        }
    }
    let action = match (delegate, redirect, response) {
        (Some(delegate), _, response) => HttpAction::Delegate(delegate, response),
        (None, Some(redirect), _) => HttpAction::Redirect(redirect),
        (None, None, Some(response)) => HttpAction::Respond(response),
        (None, None, None) => HttpAction::Route(all.into()),
    };
    let position = RoutePosition::of(at);
    Ok(HttpRoute { name, matches: matches.into(), action, settings, delegate: None, position })
}

fn put_match(enc: &mut Encoder, found: &HttpMatch) {
    enc.text(1, &found.name);
    let single = [(2, &found.uri), (3, &found.scheme), (4, &found.method), (5, &found.authority)];
    for (field, of) in single {
        if let Some(of) = of {
            enc.nest(field, |enc| put_text_match(enc, of));
        }
    }
    enc.flag(6, found.ignores_uri_case);
    for (field, map) in [(7, &found.headers), (8, &found.without_headers), (9, &found.query)] {
        for (name, of) in &**map {
            enc.nest(field, |enc| {
                enc.texts(1, [&**name]);
                enc.nest(2, |enc| put_text_match(enc, of));
            });
        }
    }
    enc.opt_int(10, found.port.map(|port| port.get()));
    put_clients(enc, 11, &found.clients);
    enc.text(12, &found.stat_prefix);
}

fn read_match(d: &mut Decoder, value: Value<'_>) -> Result<HttpMatch, Fault> {
    let mut out = HttpMatch::default();
    let (mut headers, mut without, mut query) = (Vec::new(), Vec::new(), Vec::new());
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => out.name = d.fresh(value)?,
            2 => out.uri = Some(read_text_match(d, value)?),
            3 => out.scheme = Some(read_text_match(d, value)?),
            4 => out.method = Some(read_text_match(d, value)?),
            5 => out.authority = Some(read_text_match(d, value)?),
            6 => out.ignores_uri_case = value.flag()?,
            7 => headers.push(read_named(d, value)?),
            8 => without.push(read_named(d, value)?),
            9 => query.push(read_named(d, value)?),
            10 => out.port = Some(decode::port(value)?),
            11 => out.clients = read_clients(d, value)?,
            12 => out.stat_prefix = d.fresh(value)?,
            _ => {}
        }
    }
    let [headers, without_headers, query]: [Texts; 3] = [headers.into(), without.into(), query.into()];
    Ok(HttpMatch { headers, without_headers, query, ..out })
}

/// The number of a kind never changes. One that an older release does not know is a fault there.
pub(crate) fn put_text_match(enc: &mut Encoder, of: &TextMatch) {
    match of {
        TextMatch::Present => {}
        TextMatch::Exact(text) => enc.texts(1, [&**text]),
        TextMatch::Prefix(text) => enc.texts(2, [&**text]),
        TextMatch::Regex(text) => enc.texts(3, [&**text]),
    }
}

pub(crate) fn read_text_match(d: &mut Decoder, value: Value<'_>) -> Result<TextMatch, Fault> {
    let mut out = TextMatch::Present;
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        out = match field {
            1 => TextMatch::Exact(d.fresh(value)?),
            2 => TextMatch::Prefix(d.fresh(value)?),
            3 => TextMatch::Regex(d.fresh(value)?),
            _ => return Err(Fault::Unknown("condition on a text")),
        };
    }
    Ok(out)
}

fn read_named(d: &mut Decoder, value: Value<'_>) -> Result<(Arc<str>, TextMatch), Fault> {
    let (mut name, mut of) = (None, TextMatch::Present);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => name = Some(d.fresh(value)?),
            2 => of = read_text_match(d, value)?,
            _ => {}
        }
    }
    Ok((name.ok_or(Fault::Missing("name of a condition"))?, of))
}

fn put_weighted(enc: &mut Encoder, of: &WeightedDestination) {
    enc.nest(1, |enc| put_destination(enc, &of.destination));
    enc.int_but(2, of.weight, 0);
    if let Some(headers) = &of.headers {
        enc.nest(3, |enc| put_headers(enc, headers));
    }
}

fn read_weighted(d: &mut Decoder, value: Value<'_>) -> Result<WeightedDestination, Fault> {
    let (mut destination, mut weight, mut headers) = (None, 0, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => destination = Some(read_destination(d, value)?),
            2 => weight = value.narrow()?,
            3 => headers = Some(Arc::new(read_headers(d, value)?)),
            _ => {}
        }
    }
    Ok(WeightedDestination {
        destination: destination.ok_or(Fault::Missing("destination"))?,
        weight,
        headers,
    })
}

fn put_redirect(enc: &mut Encoder, of: &Redirect) {
    match &of.path {
        RedirectPath::Keep => {}
        RedirectPath::Whole(path) => enc.texts(1, [&**path]),
        RedirectPath::Prefix(path) => enc.texts(2, [&**path]),
    }
    enc.texts(3, of.authority.as_deref());
    enc.texts(4, of.scheme.as_deref());
    match of.port {
        RedirectPort::Undeclared => {}
        RedirectPort::OfScheme => enc.int(5, 1_u8),
        RedirectPort::OfListener => enc.int(5, 2_u8),
        RedirectPort::Number(port) => enc.int(6, port.get()),
    }
    enc.int(7, of.status);
}

fn read_redirect(d: &mut Decoder, value: Value<'_>) -> Result<Redirect, Fault> {
    let (mut path, mut authority, mut scheme) = (RedirectPath::Keep, None, None);
    let (mut port, mut status) = (RedirectPort::Undeclared, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => path = RedirectPath::Whole(d.fresh(value)?),
            2 => path = RedirectPath::Prefix(d.fresh(value)?),
            3 => authority = Some(d.fresh(value)?),
            4 => scheme = Some(d.fresh(value)?),
            5 => {
                port = match value.int()? {
                    1 => RedirectPort::OfScheme,
                    2 => RedirectPort::OfListener,
                    _ => return Err(Fault::Unknown("port of a redirect")),
                };
            }
            6 => port = RedirectPort::Number(decode::port(value)?),
            7 => status = Some(value.narrow()?),
            _ => {}
        }
    }
    let status = status.ok_or(Fault::Missing("status of a redirect"))?;
    Ok(Redirect { path, authority, scheme, port, status })
}

fn put_response(enc: &mut Encoder, of: &DirectResponse) {
    enc.int(1, of.status);
    match &of.body {
        None => {}
        Some(ResponseBody::Text(text)) => enc.bytes(2, text.as_bytes()),
        Some(ResponseBody::Bytes(bytes)) => enc.bytes(3, bytes),
    }
}

fn read_response(value: Value<'_>) -> Result<DirectResponse, Fault> {
    let (mut status, mut body) = (None, None);
    let mut fields = value.fields()?;
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => status = Some(value.narrow()?),
            2 => {
                let text = std::str::from_utf8(value.bytes()?);
                body =
                    Some(ResponseBody::Text(text.map_err(|_| Fault::Malformed("a body is no text"))?.into()));
            }
            3 => body = Some(ResponseBody::Bytes(value.bytes()?.into())),
            _ => {}
        }
    }
    Ok(DirectResponse { status: status.ok_or(Fault::Missing("status of an answer"))?, body })
}
