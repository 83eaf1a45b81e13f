//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};

use rand::RngExt;

/// Below the ranges that systems use for outgoing connections (Linux from 32768, macOS from 49152), so that a stored
/// port is rarely taken by chance.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// Returns a port of 127.0.0.1 that is free now. Another process may take it first: a caller that starts a server on it
/// must be prepared to retry with another.
pub fn free() -> u16 {
    let mut random = rand::rng();
    let tries = std::iter::repeat_with(|| random.random_range(RANGE)).take(200);
    tries.into_iter().find(|port| is_free(*port)).unwrap_or_else(any)
}

/// Returns whether 127.0.0.1:`port` can be bound now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns a port that the system chooses; 0, which no client can reach, only if there is none.
fn any() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr()).map_or(0, |address| address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_in_use_is_not_free() {
        let port = free();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!is_free(port));
        drop(listener);
        assert!(is_free(port));
    }
}
