//! The fields of HTTP routes of a VirtualService: matches and what happens to a request. How it is sent is decoded by
//! `http_settings`.

use std::sync::Arc;

use tributary_model::{Code, RedirectPort, RequestShare, TextMatch};

use super::fields::{Fields, wrong};
use super::http_settings;
use super::virtual_service::{clients, destination, port, weighted};
use crate::document::http_route::{
    Delegate, Headers, HttpMatch, HttpRoute, Mirror, Operations, Redirect, Response, Rewrite,
};
use crate::document::virtual_service::MESH;
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::{Node, Value};

const DERIVED_PORTS: [(&str, RedirectPort); 2] =
    [("FROM_PROTOCOL_DEFAULT", RedirectPort::OfScheme), ("FROM_REQUEST_PORT", RedirectPort::OfListener)];

pub(super) fn decode(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> HttpRoute {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return HttpRoute { at, ..HttpRoute::default() };
    };
    let matches = fields.list("match", faults).into_iter();
    let matches = matches.map(|(path, node)| http_match(node, path, ignored, faults)).collect();
    let route = fields.list("route", faults).into_iter();
    let route = route.map(|(path, node)| weighted(node, path, true, faults)).collect();
    let delegate = fields.get("delegate").map(|(path, node)| delegate(node, path, faults));
    let mirror = fields.get("mirror").map(|(path, node)| destination(node, path, faults));
    let route = HttpRoute {
        at,
        name: fields.filled("name", faults),
        matches,
        route,
        redirect: fields.get("redirect").map(|(path, node)| redirect(node, path, faults)),
        response: fields.get("directResponse").map(|(path, node)| response(node, path, faults)),
        rewrite: fields.get("rewrite").map(|(path, node)| rewrite(node, path, faults)),
        headers: headers(&mut fields, faults),
        timeout: fields.duration("timeout", faults).map(|timeout| timeout.value),
        retries: http_settings::retries(&mut fields, faults),
        fault: http_settings::fault(&mut fields, ignored, faults),
        mirror_share: mirror_share(&mut fields, ignored, faults),
        mirrors: mirrors(&mut fields, faults),
        cors: http_settings::cors(&mut fields, ignored, faults),
        mirror,
        delegate,
    };
    fields.finish(faults);
    route
}

fn http_match(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> HttpMatch {
    let Some(mut fields) = Fields::open(node, path, faults) else { return HttpMatch::default() };
    let clients = clients(&mut fields, ignored, faults);
    // a list of gateways makes other conditions on the client void, as in Istio
    if clients.gateways.iter().any(|gateway| &*gateway.value == MESH) {
        ["sourceLabels", "sourceNamespace"].into_iter().for_each(|name| fields.ignored(name, ignored));
    }
    let uri = text_match(&mut fields, "uri", faults).filter(|uri| uri.value != TextMatch::Present);
    let found = HttpMatch {
        name: fields.filled("name", faults),
        uri,
        ignores_uri_case: fields.flag("ignoreUriCase", faults).is_some_and(|flag| flag.value),
        scheme: text_match(&mut fields, "scheme", faults),
        method: text_match(&mut fields, "method", faults),
        authority: text_match(&mut fields, "authority", faults),
        headers: text_matches(&mut fields, "headers", faults),
        without_headers: text_matches(&mut fields, "withoutHeaders", faults),
        query: text_matches(&mut fields, "queryParams", faults),
        port: port(&mut fields, faults),
        clients,
        stat_prefix: fields.filled("statPrefix", faults),
    };
    fields.finish(faults);
    found
}

fn text_match(
    fields: &mut Fields<'_>,
    name: &'static str,
    faults: &mut Faults,
) -> Option<Located<TextMatch>> {
    let (path, node) = fields.get(name)?;
    text_match_of(node, path, faults)
}

/// Decodes a condition on a text. One without a kind asks only that there is a text.
pub(super) fn text_match_of(node: &Node, path: String, faults: &mut Faults) -> Option<Located<TextMatch>> {
    let mut fields = Fields::open(node, path.clone(), faults)?;
    let (exact, prefix) = (fields.text("exact", faults), fields.text("prefix", faults));
    let regex = fields.text("regex", faults);
    let kinds = [exact.is_some(), prefix.is_some(), regex.is_some()].into_iter().filter(|is| *is).count();
    if kinds > 1 {
        let message = format!("{path} has {kinds} conditions; keep one of exact, prefix, regex");
        faults.refuse(Code::VALUE_INVALID, node.at, message);
    }
    fields.finish(faults);
    let found = match (exact, prefix, regex) {
        (Some(exact), _, _) => TextMatch::Exact(exact.value),
        (None, Some(prefix), _) => TextMatch::Prefix(prefix.value),
        (None, None, Some(regex)) => TextMatch::Regex(regex.value),
        (None, None, None) => TextMatch::Present,
    };
    Some(Located::new(node.at, found))
}

fn text_matches(
    fields: &mut Fields<'_>,
    name: &'static str,
    faults: &mut Faults,
) -> Vec<(Text, Located<TextMatch>)> {
    let pairs = fields.pairs(name, faults).into_iter();
    pairs.filter_map(|(key, path, node)| Some((key, text_match_of(node, path, faults)?))).collect()
}

fn delegate(node: &Node, path: String, faults: &mut Faults) -> Delegate {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Delegate { at, ..Delegate::default() };
    };
    let (name, namespace) = (fields.filled("name", faults), fields.filled("namespace", faults));
    fields.finish(faults);
    Delegate { at, name, namespace }
}

fn redirect(node: &Node, path: String, faults: &mut Faults) -> Redirect {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Redirect { at, ..Redirect::default() };
    };
    let redirect = Redirect {
        at,
        uri: fields.filled("uri", faults),
        prefix: fields.filled("prefixRewrite", faults),
        authority: fields.filled("authority", faults),
        scheme: fields.filled("scheme", faults),
        port: redirect_port(&mut fields, faults),
        status: fields.u32_in("redirectCode", 0..=u32::MAX.into(), faults).filter(|code| code.value != 0),
    };
    fields.finish(faults);
    redirect
}

fn redirect_port(fields: &mut Fields<'_>, faults: &mut Faults) -> RedirectPort {
    let number = fields.u32_in("port", 0..=u16::MAX.into(), faults).filter(|port| port.value != 0);
    let derived = fields.choice("derivePort", &DERIVED_PORTS, faults);
    if let (Some(_), Some(derived)) = (number, derived) {
        let path = fields.path("derivePort");
        faults.refuse(Code::VALUE_INVALID, derived.at, format!("{path} is beside port; keep one of them"));
    }
    let number = number.and_then(|number| tributary_model::PortNumber::new(number.value).ok());
    number.map_or_else(|| derived.map(|port| port.value).unwrap_or_default(), RedirectPort::Number)
}

fn response(node: &Node, path: String, faults: &mut Faults) -> Response {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Response { at, ..Response::default() };
    };
    let status = fields.u32_in("status", 0..=u32::MAX.into(), faults);
    let body = fields.get("body").and_then(|(path, node)| {
        let mut body = Fields::open(node, path, faults)?;
        let text = body.text("string", faults);
        let bytes = body.text("bytes", faults);
        let path = body.path("bytes");
        body.finish(faults);
        Some((text, bytes.and_then(|bytes| decoded(&bytes, &path, faults))))
    });
    fields.finish(faults);
    let (text, bytes) = body.unwrap_or_default();
    Response { at, status, text, bytes }
}

fn decoded(text: &Text, path: &str, faults: &mut Faults) -> Option<Located<Arc<[u8]>>> {
    let bytes = base64(text.value.as_bytes());
    if bytes.is_none() {
        faults.refuse(
            Code::VALUE_INVALID,
            text.at,
            format!("{path} is not base64; encode the bytes of the body"),
        );
    }
    bytes.map(|bytes| Located::new(text.at, bytes.into()))
}

/// Decodes base64 of either alphabet, padded or not.
pub(crate) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let unpadded = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(unpadded.len() / 4 * 3 + 2);
    for chunk in unpadded.chunks(4) {
        let mut bits = 0_u32;
        for byte in chunk {
            bits = bits << 6 | sextet(*byte)?;
        }
        match chunk.len() {
            4 => out.extend_from_slice(&bits.to_be_bytes()[1..]),
            3 => out.extend_from_slice(&(bits << 6).to_be_bytes()[1..3]),
            2 => out.push((bits >> 4) as u8),
            _ => return None,
        }
    }
    Some(out)
}

fn sextet(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn rewrite(node: &Node, path: String, faults: &mut Faults) -> Rewrite {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Rewrite { at, ..Rewrite::default() };
    };
    let regex = fields.get("uriRegexRewrite").and_then(|(path, node)| {
        let mut inner = Fields::open(node, path, faults)?;
        let parts = (inner.filled("match", faults), inner.filled("rewrite", faults));
        inner.finish(faults);
        Some(Located::new(node.at, parts))
    });
    let rewrite = Rewrite {
        at,
        uri: fields.filled("uri", faults),
        authority: fields.filled("authority", faults),
        regex,
    };
    fields.finish(faults);
    rewrite
}

/// Decodes `headers` of a route or a destination.
pub(super) fn headers(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Headers> {
    let (path, node) = fields.get("headers")?;
    let mut inner = Fields::open(node, path, faults)?;
    let mut operations = |name| {
        let (path, node) = inner.get(name)?;
        let mut fields = Fields::open(node, path, faults)?;
        let (set, add) = (fields.named_texts("set", faults), fields.named_texts("add", faults));
        let remove = fields.texts("remove", faults);
        fields.finish(faults);
        Some(Operations { set, add, remove })
    };
    let request = operations("request").unwrap_or_default();
    let response = operations("response").unwrap_or_default();
    inner.finish(faults);
    Some(Headers { request, response })
}

/// The share of `mirror`. The older field, which has two spellings, is without effect beside the newer one.
fn mirror_share(
    fields: &mut Fields<'_>,
    ignored: &mut Vec<Text>,
    faults: &mut Faults,
) -> Option<RequestShare> {
    let share = fields.percentage("mirrorPercentage", faults);
    if share.is_some() {
        ["mirrorPercent", "mirror_percent"].into_iter().for_each(|name| fields.ignored(name, ignored));
    }
    let older = fields.percent("mirrorPercent", faults);
    let spelled = fields.percent("mirror_percent", faults);
    share.or(older).or(spelled)
}

fn mirrors(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<Vec<Mirror>>> {
    let (path, node) = fields.get("mirrors")?;
    if !matches!(node.value, Value::List(_)) {
        wrong(faults, node.at, &path, &node.value, "a list; begin each item with `- `");
        return None;
    }
    let all = fields.list("mirrors", faults).into_iter();
    let all: Vec<Mirror> = all.map(|(path, node)| mirror(node, path, faults)).collect();
    (!all.is_empty()).then(|| Located::new(node.at, all))
}

fn mirror(node: &Node, path: String, faults: &mut Faults) -> Mirror {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return Mirror { at, ..Mirror::default() };
    };
    let mirror = Mirror {
        at,
        destination: fields.get("destination").map(|(path, node)| destination(node, path, faults)),
        share: fields.percentage("percentage", faults),
    };
    fields.finish(faults);
    mirror
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_two_alphabets_and_optional_padding() {
        for (text, want) in [
            ("aGVsbG8=", Some(&b"hello"[..])),
            ("aGVsbG8", Some(b"hello")),
            ("_-8=", Some(&[0xff, 0xef])),
            ("/+8", Some(&[0xff, 0xef])),
            ("", Some(b"")),
            ("AA==", Some(&[0])),
            ("A", None),
            ("aGV!", None),
            ("AA==AA==", None),
        ] {
            assert_eq!(base64(text.as_bytes()).as_deref(), want, "{text:?}");
        }
    }
}
