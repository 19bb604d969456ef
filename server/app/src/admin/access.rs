//! Every request passes here before any handler: route, method, peer and host are checked, and
//! what is not allowed is refused. A refusal says nothing about what is served.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::routes::{self, Access};
use super::{Shared, Surface};

/// Who is at the other end; put on every request by the listener.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The gate.
pub async fn check_access(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = match judge(shared.surface, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

/// For paths that no route has.
pub async fn nothing_here() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "not found\n")
}

type Refusal = (StatusCode, &'static str);

fn judge(surface: Surface, request: &Request) -> Result<(), Refusal> {
    let route = routes::find(request.uri().path()).filter(|route| route.access.is_on(surface));
    let Some(route) = route else { return Err((StatusCode::NOT_FOUND, "not found\n")) };
    if route.access == Access::Loopback {
        let peer = request.extensions().get::<Peer>();
        if !peer.is_some_and(|Peer(address)| is_local(address.ip())) {
            return Err((StatusCode::FORBIDDEN, "only processes on this machine may ask this\n"));
        }
        if !names_this_machine(request.headers()) {
            return Err((
                StatusCode::FORBIDDEN,
                "the Host header must name localhost or a loopback address\n",
            ));
        }
        if is_cross_site(request.headers()) {
            return Err((StatusCode::FORBIDDEN, "pages of other sites may not ask this\n"));
        }
    }
    match (route.changes, request.method()) {
        (true, &Method::POST) | (false, &Method::GET | &Method::HEAD) => Ok(()),
        (true, _) => Err((StatusCode::METHOD_NOT_ALLOWED, "only POST is taken\n")),
        (false, _) => Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are taken\n")),
    }
}

/// Loopback, also where it came in as an IPv6-mapped address.
fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// A page whose name was made to resolve to this machine still sends its own name (DNS rebinding).
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

/// A browser says so itself; other programs send neither header.
fn is_cross_site(headers: &HeaderMap) -> bool {
    let says = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
    let site = says("sec-fetch-site").is_some_and(|v| !matches!(v, b"same-origin" | b"none"));
    site || says("origin").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_headers(host: &str) -> HeaderMap {
        [(header::HOST, HeaderValue::from_str(host).unwrap())].into_iter().collect()
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
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
            assert!(!names_this_machine(&mk_headers(host)), "{host} was taken");
        }
        let mut twice = mk_headers("localhost");
        twice.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!names_this_machine(&twice) && !names_this_machine(&HeaderMap::new()));
    }

    #[test]
    fn a_mapped_loopback_address_is_local() {
        assert!(is_local("::ffff:127.0.0.1".parse().unwrap()));
        assert!(!is_local("::ffff:10.0.0.1".parse().unwrap()));
    }
}
