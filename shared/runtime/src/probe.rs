//! Command-line arguments of the programs: `--help`, and `--health`, which checks the readiness of the process in the
//! same container, for images without a shell.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::config::AdminConfig;
use kernel::env::{EXIT_CONFIG, Env};

const FLAG: &str = "--health";
/// Longer than the timeout of the check in `/readyz`.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of bytes read of the response.
const MOST: u64 = 4_096;

/// Handles an argument, if there is one, and exits. `--health` requests `/readyz` at `ADMIN_ADDR`: status 0 if the
/// response is 200, otherwise 1 and the reason on stderr.
pub fn exit_if_asked(default_port: u16) {
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
    match config.and_then(|config| ask(config.addr)) {
        Ok(()) => std::process::exit(0),
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1)
        }
    }
}

/// Checks whether the process at this address is ready. Returns the reason if it is not.
fn ask(address: SocketAddr) -> Result<(), String> {
    let answer = answer_of(reachable(address)).map_err(|error| format!("{address} does not answer: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
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

fn answer_of(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns the probe's result for a response.
    fn asked(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1_024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let outcome = ask(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()));
        server.join().unwrap();
        outcome
    }

    #[test]
    fn only_a_200_is_ready() {
        assert_eq!(asked("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n"), Ok(()));
        let waiting = asked("HTTP/1.1 503 Service Unavailable\r\n\r\nwaiting for the servers\n");
        assert_eq!(waiting, Err("not ready (503): waiting for the servers".to_owned()));
        assert!(asked("").is_err() && asked("SSH-2.0-x\r\n").is_err());
    }

    #[test]
    fn nobody_there_is_not_ready() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(ask(address).unwrap_err().contains("does not answer"));
    }
}
