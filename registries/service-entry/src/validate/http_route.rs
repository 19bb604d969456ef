//! The rules of HTTP routes: one action for each, and valid settings of it.

use tributary_model::{Code, HttpRetries, TextMatch};

use super::destination_rule::MOST_ITEMS;
use super::load_balancer::{is_token, refuse};
use crate::document::http_route::{Headers, HttpRoute};
use crate::document::{Text, VirtualService};
use crate::read::fault::{Faults, clip};
use tributary_model::kubernetes_names::{is_label_name, is_object_name};

/// Most bytes of the body of an answer.
const MOST_BODY: usize = 1 << 20;
/// Methods that may be allowed to other origins.
const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*"];

/// The lists of HTTP routes: path, length, most items.
pub(super) fn lists(service: &VirtualService) -> impl Iterator<Item = (String, usize, usize)> {
    service.routes().flat_map(|(path, route)| {
        let mut all = vec![("mirrors", route.mirrors.as_ref().map_or(0, |mirrors| mirrors.value.len()))];
        if let Some(cors) = &route.cors {
            all.extend([
                ("corsPolicy.allowOrigins", cors.origins.len()),
                ("corsPolicy.allowMethods", cors.methods.len()),
                ("corsPolicy.allowHeaders", cors.headers.len()),
                ("corsPolicy.exposeHeaders", cors.exposed.len()),
            ]);
        }
        let headers = changed(route).map(|(_, headers)| {
            let sides = [&headers.request, &headers.response];
            sides.into_iter().map(|of| of.set.len() + of.add.len() + of.remove.len()).sum()
        });
        all.push(("headers", headers.max().unwrap_or_default()));
        all.into_iter()
            .map(move |(name, have)| (format!("{path}.{name}"), have, MOST_ITEMS))
            .collect::<Vec<_>>()
    })
}

/// The changes of headers of a route and of its destinations, with their paths in it.
fn changed(route: &HttpRoute) -> impl Iterator<Item = (String, &Headers)> {
    let own = route.headers.iter().map(|headers| ("headers".to_owned(), headers));
    let inner = route
        .route
        .iter()
        .enumerate()
        .filter_map(|(i, weighted)| Some((format!("route[{i}].headers"), weighted.headers.as_ref()?)));
    own.chain(inner)
}

pub(super) fn routes_have_one_action(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let has = [
            ("route", !route.route.is_empty()),
            ("redirect", route.redirect.is_some()),
            ("directResponse", route.response.is_some()),
            ("delegate", route.delegate.is_some()),
        ];
        let own: Vec<&str> = has.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
        if own.is_empty() {
            let message = format!("{path} has no action; add route, redirect, directResponse or delegate");
            faults.refuse(Code::MISSING_FIELD, route.at.at, message);
        }
        // a delegate's routes may take the answer of the route that names it
        if own.len() > 1 && own != ["directResponse", "delegate"] {
            refuse(faults, route.at.at, &format!("{path} has {}; keep one of them", own.join(" and ")));
        }
        let answers = route.delegate.is_none() && (route.redirect.is_some() || route.response.is_some());
        let beside = [("fault", route.fault.is_some()), ("rewrite", route.rewrite.is_some())];
        for (name, _) in beside.into_iter().filter(|(_, has)| answers && *has) {
            refuse(faults, route.at.at, &format!("{path} has {name} without a destination; remove it"));
        }
    }
}

pub(super) fn delegates_are_named(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(delegate) = &route.delegate else { continue };
        let path = format!("{path}.delegate");
        match &delegate.name {
            None => {
                faults.refuse(Code::MISSING_FIELD, delegate.at.at, format!("{path}.name is missing; add it"));
            }
            Some(name) if !is_object_name(&name.value) => {
                let message = format!("{path}.name {:?} is not the name of an object", clip(&name.value));
                faults.refuse(Code::INVALID_NAME, name.at, message);
            }
            Some(_) => {}
        }
        let namespace = delegate.namespace.as_ref().filter(|namespace| !is_label_name(&namespace.value));
        if let Some(namespace) = namespace {
            let message = format!("{path}.namespace {:?} is not a namespace", clip(&namespace.value));
            faults.refuse(Code::INVALID_NAME, namespace.at, message);
        }
    }
}

pub(super) fn redirects_lead_elsewhere(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(redirect) = &route.redirect else { continue };
        let (path, at) = (format!("{path}.redirect"), redirect.at.at);
        if redirect.uri.is_some() && redirect.prefix.is_some() {
            refuse(faults, at, &format!("{path} has both uri and prefixRewrite; keep one of them"));
        }
        let is_prefix = |uri: &TextMatch| matches!(uri, TextMatch::Prefix(_));
        let mut uris = route.matches.iter().filter_map(|found| found.uri.as_ref());
        if redirect.prefix.is_some() && uris.any(|uri| !is_prefix(&uri.value)) {
            refuse(faults, at, &format!("{path}.prefixRewrite needs matches of uri by prefix; use uri"));
        }
        let changes = redirect.uri.is_some()
            || redirect.prefix.is_some()
            || redirect.authority.is_some()
            || redirect.scheme.is_some()
            || redirect.port != tributary_model::RedirectPort::Undeclared;
        if !changes {
            let message = format!("{path} changes nothing; add uri, authority, scheme or port");
            faults.refuse(Code::MISSING_FIELD, at, message);
        }
        let scheme = redirect.scheme.as_ref().filter(|of| !matches!(&*of.value, "http" | "https"));
        if let Some(scheme) = scheme {
            let what = clip(&scheme.value);
            refuse(faults, scheme.at, &format!("{path}.scheme {what:?} is not known; write http or https"));
        }
        let code = redirect.status.filter(|of| !matches!(of.value, 301 | 302 | 303 | 307 | 308));
        if let Some(code) = code {
            let fix = "write 301, 302, 303, 307 or 308";
            refuse(faults, code.at, &format!("{path}.redirectCode is {}; {fix}", code.value));
        }
    }
}

pub(super) fn responses_have_a_status(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(response) = &route.response else { continue };
        let (path, at) = (format!("{path}.directResponse"), response.at.at);
        match response.status {
            None => faults.refuse(Code::MISSING_FIELD, at, format!("{path}.status is missing; add it")),
            Some(status) if !(200..=599).contains(&status.value) => {
                let fix = "write a number from 200 to 599";
                refuse(faults, status.at, &format!("{path}.status is {}; {fix}", status.value));
            }
            Some(_) => {}
        }
        if response.text.is_some() && response.bytes.is_some() {
            refuse(faults, at, &format!("{path}.body has both string and bytes; keep one of them"));
        }
        let text = response.text.as_ref().map_or(0, |text| text.value.len());
        let size = response.bytes.as_ref().map_or(text, |bytes| bytes.value.len());
        if size > MOST_BODY {
            let message =
                format!("{path}.body has {size} bytes, more than {MOST_BODY}; serve it by a service");
            faults.refuse(Code::DOCUMENT_TOO_LARGE, at, message);
        }
    }
}

pub(super) fn rewrites_change_something(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(rewrite) = &route.rewrite else { continue };
        let (path, at) = (format!("{path}.rewrite"), rewrite.at.at);
        if rewrite.uri.is_some() && rewrite.regex.is_some() {
            refuse(faults, at, &format!("{path} has both uri and uriRegexRewrite; keep one of them"));
        }
        if rewrite.uri.is_none() && rewrite.regex.is_none() && rewrite.authority.is_none() {
            let message = format!("{path} changes nothing; add uri, uriRegexRewrite or authority");
            faults.refuse(Code::MISSING_FIELD, at, message);
        }
        let parts = rewrite.regex.as_ref();
        if let Some(regex) = parts.filter(|of| of.value.0.is_none() || of.value.1.is_none()) {
            let message = format!("{path}.uriRegexRewrite has no match or no rewrite; add both");
            faults.refuse(Code::MISSING_FIELD, regex.at, message);
        }
    }
}

/// Whether a name of a header is that of the host.
pub(crate) fn is_authority(name: &str) -> bool {
    name.eq_ignore_ascii_case("host") || name.eq_ignore_ascii_case(":authority")
}

pub(super) fn authority_is_set_once(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let rewritten = route.rewrite.as_ref().and_then(|rewrite| rewrite.authority.as_ref());
        let headers =
            route.headers.iter().flat_map(|headers| headers.request.set.iter().chain(&headers.request.add));
        let set = headers.filter(|(name, _)| is_authority(&name.value)).map(|(name, _)| name);
        if let Some(second) = rewritten.into_iter().chain(set).nth(1) {
            refuse(faults, second.at, &format!("{path} sets the host more than once; keep one"));
        }
    }
}

pub(super) fn changed_headers_are_valid(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        for (inner, headers) in changed(route) {
            for (side, of) in [("request", &headers.request), ("response", &headers.response)] {
                let path = format!("{path}.{inner}.{side}");
                let written = of.set.iter().chain(&of.add);
                for (name, value) in written {
                    header_name(&path, name, side == "request", faults);
                    header_value(&path, name, value, faults);
                }
                of.remove.iter().for_each(|name| header_name(&path, name, false, faults));
            }
        }
    }
}

fn header_name(path: &str, name: &Text, may_be_host: bool, faults: &mut Faults) {
    let is_host = is_authority(&name.value);
    if (is_host && may_be_host) || (is_token(&name.value) && !is_host) {
        return;
    }
    let fault = if is_host {
        "may be set in requests only"
    } else {
        "is not the name of a header; use letters, digits and `-`"
    };
    faults.refuse(Code::INVALID_NAME, name.at, format!("{path}: {:?} {fault}", clip(&name.value)));
}

fn header_value(path: &str, name: &Text, value: &Text, faults: &mut Faults) {
    let is_visible = |c: char| c == '\t' || (c >= ' ' && c != '\u{7f}');
    let fault = if !value.value.chars().all(is_visible) {
        "has a control character; remove it"
    } else if !is_closed(&value.value) {
        "has a `%` that neither begins nor ends a variable; write %% for one"
    } else {
        return;
    };
    refuse(faults, value.at, &format!("{path}[{:?}] {:?} {fault}", clip(&name.value), clip(&value.value)));
}

/// Whether each `%` of a value is doubled, or begins or ends a variable such as `%REQ(x)%`.
fn is_closed(value: &str) -> bool {
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('%') {
        rest = match after.strip_prefix('%') {
            Some(after) => after,
            None => {
                let Some(length) = variable(after) else { return false };
                after.get(length..).unwrap_or_default()
            }
        };
    }
    true
}

/// Returns the length of a variable with its closing `%`; `%` within brackets belongs to the arguments.
fn variable(text: &str) -> Option<usize> {
    let end = text.find(['%', '('])?;
    if text[end..].starts_with('%') {
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        return (end > 0 && text.bytes().take(end).all(is_name)).then_some(end + 1);
    }
    let close = end + text[end..].find(')')?;
    let after = text.get(close + 1..)?;
    let end = close + 1 + after.find('%')?;
    let between = text.get(close + 1..end)?;
    between.bytes().all(|byte| byte == b' ' || byte == b':' || byte.is_ascii_digit()).then_some(end + 1)
}

pub(super) fn retries_are_conditional(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(retries) = &route.retries else { continue };
        let path = format!("{path}.retries");
        let has_more =
            retries.per_try_timeout.is_some() || retries.on.is_some() || retries.remote_localities.is_some();
        if retries.attempts == 0 && has_more {
            refuse(faults, retries.at.at, &format!("{path} has settings with 0 attempts; add attempts"));
        }
        if let Some(on) = &retries.on
            && let Err(error) = HttpRetries::default().on(&on.value)
        {
            refuse(faults, on.at, &format!("{path}.retryOn: {error}"));
        }
    }
}

pub(super) fn faults_delay_or_abort(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let fault = route.fault.as_ref().filter(|fault| !fault.declares_delay && !fault.declares_abort);
        if let Some(fault) = fault {
            let message = format!("{path}.fault is empty; add delay or abort");
            faults.refuse(Code::MISSING_FIELD, fault.at.at, message);
        }
    }
}

pub(super) fn mirrors_are_declared_once(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        if let (Some(_), Some(mirrors)) = (&route.mirror, &route.mirrors) {
            refuse(faults, mirrors.at, &format!("{path} has both mirror and mirrors; keep one of them"));
        }
    }
}

pub(super) fn cors_names_origins_and_methods(service: &VirtualService, faults: &mut Faults) {
    for (path, route) in service.routes() {
        let Some(cors) = &route.cors else { continue };
        let path = format!("{path}.corsPolicy");
        for origin in &cors.origins {
            let text = match &origin.value {
                TextMatch::Present => "",
                TextMatch::Exact(text) | TextMatch::Prefix(text) | TextMatch::Regex(text) => text,
            };
            if text.is_empty() {
                refuse(faults, origin.at, &format!("{path}.allowOrigins has an empty origin; write one"));
            }
        }
        for method in cors.methods.iter().filter(|method| !METHODS.contains(&&*method.value)) {
            let what = clip(&method.value);
            let known = METHODS.join(", ");
            refuse(
                faults,
                method.at,
                &format!("{path}.allowMethods {what:?} is not known; write one of {known}"),
            );
        }
        for name in cors.headers.iter().chain(&cors.exposed) {
            if &*name.value != "*" && !is_token(&name.value) {
                let message = format!("{path}: {:?} is not the name of a header", clip(&name.value));
                faults.refuse(Code::INVALID_NAME, name.at, message);
            }
        }
        if let Some(age) = cors.max_age.filter(|age| age.value.subsec_nanos() > 0) {
            refuse(faults, age.at, &format!("{path}.maxAge has a fraction; write whole seconds"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_of_header_values_are_closed() {
        for fine in
            ["", "a", "100%%", "%REQ(x)%", "a %HOSTNAME% b", "%START_TIME(%s.%3f)%", "%REQ(x):3%", "%%%A%%%"]
        {
            assert!(is_closed(fine), "{fine:?}");
        }
        for bad in ["%", "abc%123", "%START_TIME%%", "%REQ(x%", "%REQ(x)", "% %", "%REQ(x)y%"] {
            assert!(!is_closed(bad), "{bad:?}");
        }
    }
}
