//! `duebox health`: asks the daemon of this machine how it is. For images that have no shell and no curl.

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

/// The longest answer that is read, in bytes.
const ANSWER_MAX: u64 = 64 << 10;

/// Ask the running daemon whether it is ready, alive or started
///
/// Asks at `server.probes`, or where that is not set at `server.listen`, over plain HTTP. A manifest that was
/// made bad meanwhile does not matter, as long as its addresses can be read.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox health
  duebox health --probe live --timeout 1s
  duebox health --exclude manifest --address 127.0.0.1:7281

Exit codes:
  0  it is
  1  it is not, or does not answer
  2  bad input")]
pub(super) struct HealthArgs {
    /// What is asked
    #[arg(long, value_enum, default_value = "ready")]
    probe: Probe,
    /// A check that does not count, of those that `ready` names; may be given more than once
    #[arg(long, value_name = "CHECK")]
    exclude: Vec<String>,
    /// Where the daemon answers, instead of what the manifest says
    #[arg(long, value_name = "IP:PORT")]
    address: Option<SocketAddr>,
    /// How long it may take to answer
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = timeout)]
    timeout: Duration,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Probe {
    /// It serves, reaches Redis, and has its manifest and its modules.
    Ready,
    /// Its threads turn.
    Live,
    /// It has begun to serve.
    Startup,
}

/// What came back.
struct Answer {
    status: u16,
    text: String,
}

pub(super) fn health(common: &Common, args: &HealthArgs) -> Result<ExitCode, Failure> {
    let address = match args.address {
        Some(address) => address,
        None => probed_address(common.manifest(), &common.environment()).ok_or_else(|| {
            Failure::failed(
                format!("{} does not say where the daemon answers", common.manifest().display()),
                "set server.probes, or say it here: --address 127.0.0.1:7281",
            )
        })?,
    };
    let address = SocketAddr::new(near(address.ip()), address.port());
    let answer = ask(address, &path(args), args).map_err(|why| {
        let message = format!("the daemon does not answer at {address}: {why}");
        Failure::failed(
            message,
            "see whether it runs, and what server.probes and server.listen say",
        )
    })?;
    output::print(answer.text.trim_end())?;
    Ok(match answer.status {
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
        Err("a timeout is from 1ms to 60s".to_owned())
    }
}

/// Where this machine reaches a daemon that listens on all its addresses.
fn near(ip: IpAddr) -> IpAddr {
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

fn ask(address: SocketAddr, path: &str, args: &HealthArgs) -> Result<Answer, String> {
    let accept = if args.json { "application/json" } else { "text/plain" };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    let said = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it takes too long".to_owned(),
        _ => error.to_string(),
    };
    let timeout = args.timeout;
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(said)?;
    stream.set_read_timeout(Some(timeout)).map_err(said)?;
    stream.set_write_timeout(Some(timeout)).map_err(said)?;
    stream.write_all(request.as_bytes()).map_err(said)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer).map_err(said)?;
    read(&String::from_utf8_lossy(&answer))
}

/// The status and the body of an answer that has one length and no chunks.
fn read(answer: &str) -> Result<Answer, String> {
    let no_http = || "what answers there is no plain HTTP; set server.probes".to_owned();
    let (head, text) = answer.split_once("\r\n\r\n").ok_or_else(no_http)?;
    let status =
        head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or_else(no_http)?;
    Ok(Answer { status: status.parse().map_err(|_| no_http())?, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_other_protocols_are_told_as_such() {
        let answer = read("HTTP/1.1 503 Service Unavailable\r\nx: y\r\n\r\n[-] redis\n").unwrap();
        assert_eq!((answer.status, answer.text.as_str()), (503, "[-] redis\n"));
        for other in
            ["", "HTTP/1.1 200 OK", "\x15\x03\x01\0\x02\x02\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"]
        {
            assert!(read(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn all_addresses_of_a_machine_are_asked_for_on_loopback() {
        for (ip, asked) in [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.7", "10.0.0.7")] {
            assert_eq!(near(ip.parse().unwrap()), asked.parse::<IpAddr>().unwrap());
        }
    }
}
