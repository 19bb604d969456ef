//! Access check: every request passes here before any handler. It checks route, method, peer and Host header.
//! A refusal reveals nothing about the served content.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::connections::Proven;
use super::remote::{self, PeerNames};
use super::routes::{self, Access, Route};
use super::{Shared, Surface};
use crate::console;

/// Remote address, set on every request by the listener.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// Applies the access check and adds the security headers.
pub async fn check_access(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let is_page = routes::find(request.uri().path()).is_some_and(|route| route.access == Access::Page);
    let admitted = match judge(shared.surface, &request) {
        Ok(route) if shared.surface == Surface::Remote => {
            // the body cannot be shared with a future that waits
            let peer = request.extensions().get::<PeerNames>().cloned().unwrap_or_default();
            let headers = request.headers().clone();
            admit(&shared, route, (peer, headers)).await
        }
        Ok(route) => Ok(route),
        Err((status, why)) => Err((status, why.to_owned())),
    };
    if let (Ok(route), Some(proven)) = (&admitted, request.extensions().get::<Proven>())
        && proves(shared.surface, route)
    {
        proven.set();
    }
    let mut response = match admitted {
        Ok(_) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let is_unproven = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if is_unproven {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    if is_page && shared.surface != Surface::Health {
        console::secure(headers);
    }
    response
}

/// Answers paths without a route.
pub async fn nothing_here() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "not found\n")
}

type Refusal = (StatusCode, &'static str);

/// On the remote admin listener, requires an operator with the right for this route; every change is logged with its operator.
async fn admit(
    shared: &Shared,
    route: &'static Route,
    (peer, headers): (PeerNames, HeaderMap),
) -> Result<&'static Route, remote::Refusal> {
    if is_open(route) {
        return Ok(route);
    }
    let Some(access) = &shared.remote else {
        return Err((StatusCode::FORBIDDEN, "no operator may use this listener\n".to_owned()));
    };
    let user = access.admit(&peer, &headers, route.changes).await?;
    if route.changes {
        tracing::info!(user = %user.name, path = route.path, "change requested by a remote operator");
    }
    Ok(route)
}

/// Whether an admitted request for a route shows that its connection is that of an operator.
fn proves(surface: Surface, route: &Route) -> bool {
    route.access == Access::Loopback || surface == Surface::Remote && !is_open(route)
}

/// Whether a route needs no operator on any listener.
fn is_open(route: &Route) -> bool {
    !matches!(route.access, Access::Loopback | Access::Scrape)
}

fn judge(surface: Surface, request: &Request) -> Result<&'static Route, Refusal> {
    let route = routes::find(request.uri().path()).filter(|route| route.access.is_on(surface));
    let Some(route) = route else { return Err((StatusCode::NOT_FOUND, "not found\n")) };
    if route.access == Access::Loopback && surface == Surface::Admin {
        let peer = request.extensions().get::<Peer>();
        if !peer.is_some_and(|Peer(address)| is_local(address.ip())) {
            return Err((StatusCode::FORBIDDEN, "only local processes may request this path\n"));
        }
        if !names_this_machine(request.headers()) {
            return Err((
                StatusCode::FORBIDDEN,
                "the Host header must name localhost or a loopback address\n",
            ));
        }
    }
    if route.access == Access::Loopback && is_cross_site(surface, request.headers()) {
        return Err((StatusCode::FORBIDDEN, "pages of other sites may not request this path\n"));
    }
    match (route.changes, request.method()) {
        (true, &Method::POST) | (false, &Method::GET | &Method::HEAD) => Ok(route),
        (true, _) => Err((StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed\n")),
        (false, _) => Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n")),
    }
}

/// Whether the address is loopback, including IPv6-mapped addresses.
fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Whether the Host header names this machine. A page that rebinds its DNS name to this machine still sends
/// that name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(is_local)
}

/// Whether a page of another site sent the request. Browsers send these headers; other programs send neither. Only pages that this
/// listener served have its own address as their origin, since the Host header names this machine.
fn is_cross_site(surface: Surface, headers: &HeaderMap) -> bool {
    let sites = headers.get_all("sec-fetch-site").iter();
    let is_foreign = sites.into_iter().any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => is_foreign,
        (Some(origin), None) => is_foreign || !is_own(surface, headers, origin.as_bytes()),
        (Some(_), Some(_)) => true,
    }
}

/// Whether an origin is the scheme of the listener and the Host header, byte by byte: browsers write both alike.
fn is_own(surface: Surface, headers: &HeaderMap, origin: &[u8]) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let scheme: &[u8] = if surface == Surface::Remote { b"https://" } else { b"http://" };
    origin.strip_prefix(scheme).is_some_and(|authority| Some(authority) == host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(host: &str) -> HeaderMap {
        [(header::HOST, HeaderValue::from_str(host).unwrap())].into_iter().collect()
    }

    #[test]
    fn host_header_must_name_this_machine() {
        for host in ["localhost", "LOCALHOST:15014", "127.0.0.1:15014", "127.8.8.8", "[::1]:1", "[::1]"] {
            assert!(names_this_machine(&mk_headers(host)), "{host} was refused");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:15014",
            "10.0.0.1:15014",
            "127.0.0.1.evil.example",
            "",
            "[::2]",
        ] {
            assert!(!names_this_machine(&mk_headers(host)), "{host} was accepted");
        }
        let mut twice = mk_headers("localhost");
        twice.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!names_this_machine(&twice) && !names_this_machine(&HeaderMap::new()));
    }

    #[test]
    fn only_the_own_origin_is_not_cross_site() {
        let with = |host: &str, origins: &[&str]| {
            let mut headers = mk_headers(host);
            for origin in origins {
                headers.append(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            headers
        };
        for host in ["localhost:15014", "127.0.0.1:15014", "[::1]:15014", "localhost"] {
            assert!(!is_cross_site(Surface::Admin, &with(host, &[&format!("http://{host}")])), "{host}");
            assert!(!is_cross_site(Surface::Admin, &with(host, &[])), "{host}");
            let of_tls = with(host, &[&format!("https://{host}")]);
            assert!(
                !is_cross_site(Surface::Remote, &of_tls) && is_cross_site(Surface::Admin, &of_tls),
                "{host}"
            );
        }
        let own = "http://localhost:15014";
        for origins in [
            &["null"][..],
            &[""],
            &["http://localhost:15015"],
            &["http://localhost"],
            &["http://localhost:15014/"],
            &["http://localhost:15014.evil.example"],
            &["http://user@localhost:15014"],
            &["http://localhost:15014@evil.example"],
            &["http://LOCALHOST:15014"],
            &["HTTP://localhost:15014"],
            &["https://localhost:15014"],
            &["http://127.0.0.1:15014"],
            &["http://evil.example, http://localhost:15014"],
            &["localhost:15014"],
            &[own, own],
            &[own, "http://evil.example"],
        ] {
            assert!(is_cross_site(Surface::Admin, &with("localhost:15014", origins)), "{origins:?}");
        }
        for (site, is_foreign) in
            [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
        {
            let mut headers = with("localhost:15014", &[own]);
            headers.append("sec-fetch-site", HeaderValue::from_static(site));
            assert_eq!(is_cross_site(Surface::Admin, &headers), is_foreign, "{site}");
            headers.append("sec-fetch-site", HeaderValue::from_static("cross-site"));
            assert!(is_cross_site(Surface::Admin, &headers), "{site} and cross-site");
        }
    }

    #[test]
    fn a_mapped_loopback_address_is_local() {
        assert!(is_local("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_local("::ffff:10.0.0.1".parse().unwrap()));
    }
}
