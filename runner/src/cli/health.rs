//! `duebox health`: queries the probes of the daemon on this machine, for images without a shell
//! and curl.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use duebox_job::parse_duration;

use super::Common;
use super::support::failure::Failure;
use super::support::output;
use crate::manifest::probed_address;

/// The longest response that is read, in bytes.
const RESPONSE_MAX: u64 = 64 << 10;

/// Check whether the running daemon is ready, alive or started
///
/// Sends a plain HTTP request to `server.probes`, or to `server.listen` if that is not set. Works
/// with an invalid manifest as long as the addresses in it can be read.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox health
  duebox health --probe live --timeout 1s
  duebox health --exclude manifest --address 127.0.0.1:7281

Exit codes:
  0  the check passed
  1  the check failed, or there was no response
  2  bad input")]
pub(super) struct HealthArgs {
    /// The probe to query
    #[arg(long, value_enum, default_value = "ready")]
    probe: Probe,
    /// Ignore this check of `ready`; may be repeated
    #[arg(long, value_name = "CHECK")]
    exclude: Vec<String>,
    /// The daemon's address, instead of the one in the manifest
    #[arg(long, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// Time limit for the response
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = timeout)]
    timeout: Duration,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Probe {
    /// It serves, reaches Redis, and its manifest and modules are valid
    Ready,
    /// Its threads make progress
    Live,
    /// It has started to serve
    Startup,
}

/// The response to a probe.
struct ProbeResponse {
    status: u16,
    text: String,
}

pub(super) fn health(common: &Common, args: &HealthArgs) -> Result<ExitCode, Failure> {
    let address = match args.address {
        Some(address) => address,
        None => probed_address(common.manifest(), &common.environment()).ok_or_else(|| {
            Failure::failed(
                format!("{} does not set the daemon's address", common.manifest().display()),
                "set server.probes, or pass --address 127.0.0.1:7281",
            )
        })?,
    };
    let address = SocketAddr::new(reachable(address.ip()), address.port());
    let response = query(address, &path(args), args).map_err(|why| {
        let message = format!("no response from the daemon at {address}: {why}");
        Failure::failed(message, "check that it runs, and check server.probes and server.listen")
    })?;
    output::print(response.text.trim_end())?;
    Ok(match response.status {
        200 => ExitCode::SUCCESS,
        400 => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    if range.contains(&timeout) {
        Ok(timeout)
    } else {
        Err("a timeout must be from 1ms to 60s".to_owned())
    }
}

/// The address at which this machine reaches a daemon that listens on all its addresses.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

fn path(args: &HealthArgs) -> String {
    let path = match args.probe {
        Probe::Ready => "/readyz",
        Probe::Live => "/livez",
        Probe::Startup => "/startupz",
    };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for check in &args.exclude {
        query.append_pair("exclude", check);
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

fn query(address: SocketAddr, path: &str, args: &HealthArgs) -> Result<ProbeResponse, String> {
    let accept = if args.json { "application/json" } else { "text/plain" };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    let describe = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "timed out".to_owned(),
        _ => error.to_string(),
    };
    let timeout = args.timeout;
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(describe)?;
    stream.set_read_timeout(Some(timeout)).map_err(describe)?;
    stream.set_write_timeout(Some(timeout)).map_err(describe)?;
    stream.write_all(request.as_bytes()).map_err(describe)?;
    let mut response = Vec::new();
    stream.take(RESPONSE_MAX).read_to_end(&mut response).map_err(describe)?;
    read(&String::from_utf8_lossy(&response))
}

/// Reads the status and the body of a response that is not chunked.
fn read(response: &str) -> Result<ProbeResponse, String> {
    let not_http = || "the response is not plain HTTP; set server.probes".to_owned();
    let (head, text) = response.split_once("\r\n\r\n").ok_or_else(not_http)?;
    let status =
        head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or_else(not_http)?;
    Ok(ProbeResponse { status: status.parse().map_err(|_| not_http())?, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_read_and_other_protocols_are_errors() {
        let response = read("HTTP/1.1 503 Service Unavailable\r\nx: y\r\n\r\n[-] redis\n").unwrap();
        assert_eq!((response.status, response.text.as_str()), (503, "[-] redis\n"));
        for other in
            ["", "HTTP/1.1 200 OK", "\x15\x03\x01\0\x02\x02\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"]
        {
            assert!(read(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn an_unspecified_address_is_queried_on_loopback() {
        for (ip, asked) in [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7")] {
            assert_eq!(reachable(ip.parse().unwrap()), asked.parse::<IpAddr>().unwrap());
        }
    }
}
