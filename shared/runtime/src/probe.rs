//! Command-line arguments of the programs: `--help`, and `--health`, which checks the readiness of the process in the
//! same container, for images without a shell.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::config::AdminConfig;
use kernel::env::{EXIT_CONFIG, Env};

const FLAG: &str = "--health";
/// Longer than the timeout of the check in `/readyz`.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of bytes read of the response.
const MAX_RESPONSE_BYTES: u64 = 4_096;

/// Handles an argument, if there is one, and exits. `--health` requests `/readyz` at `ADMIN_ADDR`: status 0 if the
/// response is 200, otherwise 1 and the reason on stderr.
pub fn handle_arguments(default_port: u16) {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    match arguments.next().as_deref() {
        None => {}
        Some(FLAG) => check_health(default_port),
        Some("--help" | "-h") => {
            print!("{}", usage(program, default_port));
            std::process::exit(0)
        }
        Some(other) => {
            eprint!("{program}: unknown argument {other:?}\n\n{}", usage(program, default_port));
            std::process::exit(EXIT_CONFIG)
        }
    }
}

fn usage(program: &str, default_port: u16) -> String {
    format!(
        "Usage: {program} [--health | --help]\n\n\
         A Rekindle service. It is configured by environment variables; `rekindle doctor` checks them.\n\n  \
         --health  Exits with status 0 if the running service is ready (ADMIN_ADDR, by default port {default_port})\n  \
         --help    Prints this help\n"
    )
}

fn check_health(default_port: u16) -> ! {
    let config = AdminConfig::from_env(&Env::from_process(), default_port).map_err(|error| error.to_string());
    match config.and_then(|config| check_readiness(config.addr)) {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1)
        }
    }
}

/// Checks whether the process at this address is ready. Returns the reason if it is not.
fn check_readiness(address: SocketAddr) -> Result<(), String> {
    let response = fetch_readyz(reachable(address)).map_err(|error| format!("{address} does not answer: {error}"))?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let status = head.lines().next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    if status == "200" { Ok(()) } else { Err(format!("not ready ({status}): {}", body.trim())) }
}

/// Replaces an unspecified address by loopback: a process that listens on all addresses also listens there.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        return SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port());
    }
    address
}

fn fetch_readyz(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
    stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
    stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns the probe's result for a response.
    fn probe_result(response: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1_024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(response.as_bytes()).unwrap();
        });
        let outcome = check_readiness(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()));
        server.join().unwrap();
        outcome
    }

    #[test]
    fn only_status_200_is_ready() {
        assert_eq!(probe_result("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n"), Ok(()));
        let waiting = probe_result("HTTP/1.1 503 Service Unavailable\r\n\r\nwaiting for the servers\n");
        assert_eq!(waiting, Err("not ready (503): waiting for the servers".to_owned()));
        assert!(probe_result("").is_err() && probe_result("SSH-2.0-x\r\n").is_err());
    }

    #[test]
    fn unreachable_process_is_not_ready() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(check_readiness(address).unwrap_err().contains("does not answer"));
    }
}
