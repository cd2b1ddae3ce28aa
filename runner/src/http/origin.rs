//! Where a request says that it comes from, and for which host it is.
//!
//! A browser states the origin of the page that sends a request, and no page can forge it.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};

use super::problem::{BAD_REQUEST, FOREIGN, Problem};

/// Refuses a request that a browser sends for another site that is not listed. Without tokens it
/// also refuses a request under a host name that is not local, which stops DNS rebinding. A request for two hosts is
/// refused, since a proxy may have checked the other one (RFC 9112, 3.2).
pub(super) fn check_origin(
    request: &Request,
    is_listed: bool,
    is_local_only: bool,
) -> Result<(), Problem> {
    let headers = request.headers();
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 {
        let detail = format!("the request has {hosts} Host headers");
        return Err(Problem::new(BAD_REQUEST, detail, "send one Host header").of("Host"));
    }
    let host = host_of(headers, request.uri());
    let origin = headers.get(header::ORIGIN).filter(|_| !is_listed);
    if let Some(origin) = origin.map(|origin| origin.to_str().unwrap_or("null")) {
        let site = origin.split_once("://").map(|(_, site)| site);
        if site.is_none() || site != host {
            let detail = format!("the request comes from a page of {origin}");
            let remedy = "call the API from a server, or list the page's origin in server.cors";
            return Err(Problem::new(FOREIGN, detail, remedy).of("Origin"));
        }
    }
    match host.filter(|host| is_local_only && !is_own_name(host)) {
        None => Ok(()),
        Some(host) => Err(Problem::new(
            FOREIGN,
            format!("the request is for {host}, which is not a local name"),
            "use 127.0.0.1 or localhost; for other names configure server.tokens",
        )
        .of("Host")),
    }
}

/// The host that a request is for, with its port if it has one.
pub(super) fn host_of<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Option<&'r str> {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str))
}

/// True for `localhost` and IP addresses, which no other site can point elsewhere.
fn is_own_name(host: &str) -> bool {
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_names_are_own_names() {
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7280", "[::1]:1", "[::1]", "10.1.2.3"] {
            assert!(is_own_name(host), "{host}");
        }
        for host in ["evil.example", "evil.example:7280", "localhost.evil.example", ""] {
            assert!(!is_own_name(host), "{host}");
        }
    }
}
