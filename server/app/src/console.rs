//! The console: a page with its parts, embedded in the binary and served as they are.
//!
//! The assets are the same for every server and reveal nothing about what it serves; the page requests `/debug` for that. The
//! table of routes lists each asset by itself, so that no path of a request selects a file.

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;

/// Policy of the page and its parts: scripts, styles and requests of this origin only, and no text becomes markup.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Embedded file.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Path of the route.
    pub path: &'static str,
    /// Media type.
    pub media_type: &'static str,
    /// Contents.
    pub bytes: &'static [u8],
}

/// Lists files of the folder with their routes.
macro_rules! assets {
    ($($name:literal $media_type:ident),* $(,)?) => {
        [$(Asset {
            path: concat!("/console/", $name),
            media_type: $media_type,
            bytes: include_bytes!(concat!("../console/", $name)),
        }),*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// The page.
pub const PAGE: Asset = Asset {
    path: "/console/",
    media_type: "text/html; charset=utf-8",
    bytes: include_bytes!("../console/index.html"),
};

/// Parts of the page.
pub const PARTS: &[Asset] = &assets![
    "api.js" SCRIPT,
    "app.js" SCRIPT,
    "clients.js" SCRIPT,
    "clusters.js" SCRIPT,
    "dialogs.js" SCRIPT,
    "dom.js" SCRIPT,
    "endpoint.js" SCRIPT,
    "format.js" SCRIPT,
    "grid.js" SCRIPT,
    "held.js" SCRIPT,
    "icon.svg" IMAGE,
    "keys.js" SCRIPT,
    "links.js" SCRIPT,
    "lists.js" SCRIPT,
    "live.js" SCRIPT,
    "map.js" SCRIPT,
    "overview.js" SCRIPT,
    "page.css" STYLE,
    "parts.css" STYLE,
    "parts.js" SCRIPT,
    "policies.js" SCRIPT,
    "questions.js" SCRIPT,
    "registries.js" SCRIPT,
    "service.js" SCRIPT,
    "services.js" SCRIPT,
    "steps.js" SCRIPT,
    "theme.js" SCRIPT,
    "timeline.js" SCRIPT,
    "views.js" SCRIPT,
    "why_not.js" SCRIPT,
];

/// Leads to the page. Not `async`: the table of routes holds this function, so its type must be plain.
pub fn lead() -> std::future::Ready<Redirect> {
    std::future::ready(Redirect::temporary(PAGE.path))
}

/// Leads to the page from its path without the slash; relative, so that a proxy may serve it under a path of its own.
pub fn complete() -> std::future::Ready<Redirect> {
    std::future::ready(Redirect::permanent("console/"))
}

/// Answers with the asset of a path, or with 304 if the browser has it.
pub fn answer(path: &str, headers: &HeaderMap) -> Response {
    let mut all = PARTS.iter().chain(std::iter::once(&PAGE));
    let Some(asset) = all.find(|asset| asset.path == path) else {
        return (StatusCode::NOT_FOUND, "not found\n").into_response();
    };
    let tag = tag_of(asset.bytes);
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, asset.media_type)], Bytes::from_static(asset.bytes)).into_response()
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Returns the ETag of some bytes: the first half of their SHA-256.
fn tag_of(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut tag = String::from("\"");
    for byte in digest.as_ref().iter().take(16) {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

/// Sets the headers of the page and its parts, in place of those of documents.
pub fn secure(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of the folder; the test fails if one is not embedded.
    fn names_in_folder() -> Vec<String> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "index.html")
            .collect();
        names.sort();
        names
    }

    fn text(asset: &Asset) -> &'static str {
        std::str::from_utf8(asset.bytes).unwrap()
    }

    #[test]
    fn every_file_of_the_folder_is_embedded_and_has_a_route() {
        let names: Vec<_> = PARTS.iter().map(|part| part.path.trim_start_matches("/console/")).collect();
        assert_eq!(names, names_in_folder());
        for asset in PARTS.iter().chain([&PAGE]) {
            assert!(crate::admin::routes::find(asset.path).is_some(), "{} has no route", asset.path);
        }
    }

    #[test]
    fn page_with_all_parts_is_under_200_kb() {
        let bytes: usize = PARTS.iter().chain([&PAGE]).map(|asset| asset.bytes.len()).sum();
        assert!(bytes < 200_000, "the console has {bytes} bytes");
    }

    #[test]
    fn page_loads_every_module_at_once() {
        for part in PARTS.iter().filter(|part| part.media_type == SCRIPT) {
            let name = part.path.trim_start_matches("/console/");
            assert!(text(&PAGE).contains(&format!("\"{name}\"")), "the page does not load {name}");
        }
    }

    #[test]
    fn no_part_makes_markup_of_text_or_leads_to_another_origin() {
        let bans = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
            "https://",
            "DOMParser",
            " style=",
            "localStorage.setItem(TOKEN",
        ];
        for asset in PARTS.iter().chain([&PAGE]) {
            for ban in bans {
                assert!(!text(asset).contains(ban), "{} has {ban}", asset.path);
            }
            let other =
                text(asset).replace("http://www.w3.org/2000/svg", "").replace("http://127.0.0.1:15014", "");
            assert!(!other.contains("http://"), "{} names another origin", asset.path);
        }
    }

    #[test]
    fn asset_that_the_browser_has_is_not_sent_again() {
        let first = answer("/console/app.js", &HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers().get(header::ETAG).unwrap().clone();
        let known: HeaderMap = [(header::IF_NONE_MATCH, tag)].into_iter().collect();
        assert_eq!(answer("/console/app.js", &known).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(
            answer("/console/dom.js", &known).status(),
            StatusCode::OK,
            "another file has another tag"
        );
        assert_eq!(answer("/console/../app.js", &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
    }
}
