//! The rules of the matches of HTTP routes: names of headers, texts and patterns.

use tributary_model::{Code, TextMatch};

use super::load_balancer::{is_token, refuse};
use super::pattern;
use crate::document::VirtualService;
use crate::document::{Located, Text};
use crate::read::fault::{Faults, clip};

/// Maximum number of patterns of one VirtualService.
pub(super) const MOST_PATTERNS: usize = 2_000;
/// Parts of a request that are matched like headers.
const PSEUDO: [&str; 5] = [":method", ":scheme", ":authority", ":path", ":status"];
/// Start of a name that means a claim of a token.
const CLAIMS: &str = "@request.auth.claims";

pub(super) fn matched_headers_are_named(service: &VirtualService, faults: &mut Faults) {
    for (path, found) in service.matches() {
        let maps = [("headers", &found.headers), ("withoutHeaders", &found.without_headers)];
        for (field, (name, _)) in
            maps.into_iter().flat_map(|(field, map)| map.iter().map(move |of| (field, of)))
        {
            let what = clip(&name.value);
            if name.value.starts_with(CLAIMS) {
                let message = format!(
                    "{path}.{field}[{what:?}] is not served: claims are known to gateways only; remove it"
                );
                faults.refuse(Code::FIELD_NOT_SERVED, name.at, message);
            } else if !is_token(&name.value) && !PSEUDO.contains(&&*name.value) {
                let message = format!(
                    "{path}.{field}: {what:?} is not the name of a header; use letters, digits and `-`"
                );
                faults.refuse(Code::INVALID_NAME, name.at, message);
            }
        }
        if let Some((name, _)) = found.query.iter().find(|(name, _)| name.value.is_empty()) {
            let message = format!("{path}.queryParams has an empty name; name the parameter");
            faults.refuse(Code::INVALID_NAME, name.at, message);
        }
    }
}

/// Every text starts with an empty prefix. Only a path may have one, as in Istio.
pub(super) fn matched_texts_are_not_empty(service: &VirtualService, faults: &mut Faults) {
    for (path, found) in service.matches() {
        let empty =
            |of: &Located<TextMatch>| matches!(&of.value, TextMatch::Prefix(prefix) if prefix.is_empty());
        for (field, of) in found.texts().filter(|(field, of)| field != "uri" && empty(of)) {
            refuse(faults, of.at, &format!("{path}.{field}.prefix is empty; write {{}} for any text"));
        }
    }
}

pub(super) fn patterns_are_those_of_proxies(service: &VirtualService, faults: &mut Faults) {
    let mut count = 0_usize;
    let mut check = |path: &str, of: &Located<TextMatch>, faults: &mut Faults| {
        let TextMatch::Regex(text) = &of.value else { return };
        count += 1;
        // more patterns are refused as a whole; checking them would take long
        let error = if count > MOST_PATTERNS { None } else { pattern::check(text).err() };
        if let Some(error) = error {
            refuse(faults, of.at, &format!("{path}.regex {:?} {error}", clip(text)));
        }
    };
    for (path, found) in service.matches() {
        for (field, of) in found.texts() {
            // without a header, `*` is no pattern: the header is absent
            let is_any = field.starts_with("withoutHeaders") && of.value == TextMatch::Regex("*".into());
            if !is_any {
                check(&format!("{path}.{field}"), of, faults);
            }
        }
    }
    for (path, route) in service.routes() {
        for (i, origin) in route.cors.iter().flat_map(|cors| cors.origins.iter().enumerate()) {
            check(&format!("{path}.corsPolicy.allowOrigins[{i}]"), origin, faults);
        }
        let regex = route.rewrite.as_ref().and_then(|rewrite| rewrite.regex.as_ref());
        if let Some((Some(of), Some(to))) = regex.map(|regex| &regex.value) {
            rewrite(&path, of, to, faults);
        }
    }
    if count > MOST_PATTERNS {
        let message = format!(
            "spec has {count} patterns, more than {MOST_PATTERNS}; use exact and prefix, or split it"
        );
        faults.refuse(Code::DOCUMENT_TOO_LARGE, service.at.at, message);
    }
}

fn rewrite(path: &str, of: &Text, to: &Text, faults: &mut Faults) {
    let path = format!("{path}.rewrite.uriRegexRewrite");
    match pattern::check(&of.value) {
        Err(error) => refuse(faults, of.at, &format!("{path}.match {:?} {error}", clip(&of.value))),
        Ok(checked) => {
            if let Err(error) = pattern::check_substitution(&to.value, checked.groups) {
                refuse(faults, to.at, &format!("{path}.rewrite {:?} {error}", clip(&to.value)));
            }
        }
    }
}
