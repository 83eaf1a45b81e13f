//! Free ports on loopback.

/// A port of 127.0.0.1 that nobody listens on now, below the range the system hands out to outgoing connections.
pub fn free() -> u16 {
    todo!()
}

/// Whether 127.0.0.1:`port` can be listened on now.
pub fn is_free(port: u16) -> bool {
    std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port)).is_ok()
}
