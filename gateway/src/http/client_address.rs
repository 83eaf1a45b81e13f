//! Client addresses, as far as they can be determined. Used to limit unauthenticated callers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderMap;

const FORWARDED: &str = "x-forwarded-for";

/// The [`network`] of a public address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

/// Returns the address of a connection's peer or, behind a trusted proxy, the last entry of `X-Forwarded-For`, which the proxy
/// added.
///
/// Returns `None` for addresses that are not public: they may belong to a proxy, so that many clients would share one limit.
pub fn of(peer: Option<IpAddr>, headers: &HeaderMap, trusts_forwarded: bool) -> Option<ClientAddress> {
    let address = match last_entry(headers).filter(|_| trusts_forwarded) {
        Some(entry) => parse(entry)?,
        None => peer?,
    };
    is_public(address.to_canonical()).then(|| ClientAddress(network(address)))
}

/// Returns the address in the last entry of `X-Forwarded-For`.
///
/// A client may send the header itself; the last entry is the proxy's own.
pub fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    last_entry(headers).and_then(parse)
}

fn last_entry(headers: &HeaderMap) -> Option<&str> {
    let last = headers.get_all(FORWARDED).into_iter().next_back()?;
    // The client may have sent earlier entries that are not UTF-8.
    let entry = last.as_bytes().rsplit(|byte| *byte == b',').next()?;
    Some(std::str::from_utf8(entry).unwrap_or_default().trim())
}

/// Parses an address with or without a port: `192.0.2.1:5`, `[2001:db8::1]:5`.
fn parse(entry: &str) -> Option<IpAddr> {
    let bracketed = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(address, _)| address);
    let without_port = || entry.rsplit_once(':').and_then(|(address, _)| address.parse::<Ipv4Addr>().ok());
    match bracketed {
        Some(address) => address.parse().ok(),
        None => entry.parse().ok().or_else(|| without_port().map(IpAddr::V4)),
    }
}

/// Returns the network within which one client can choose its address.
///
/// This is the IPv4 address itself, or the first 64 bits of an IPv6 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let is_shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            !(is_shared || v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified())
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn shown(peer: &str, forwarded: &[&str], trusts: bool) -> Option<String> {
        let values = forwarded
            .iter()
            .map(|value| (FORWARDED.parse().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap()));
        let mut headers = HeaderMap::new();
        headers.extend(values.map(|(name, value): (http::HeaderName, _)| (Some(name), value)));
        of(peer.parse().ok(), &headers, trusts).map(|address| address.0.to_string())
    }

    #[test]
    fn forwarded_address_is_read_only_from_a_trusted_proxy() {
        let of = |forwarded: &[&str], trusts| shown("203.0.113.9", forwarded, trusts);
        assert_eq!(of(&["198.51.100.1"], false).as_deref(), Some("203.0.113.9"));
        assert_eq!(of(&["198.51.100.1"], true).as_deref(), Some("198.51.100.1"));
        assert_eq!(of(&["9.9.9.9, 198.51.100.1"], true).as_deref(), Some("198.51.100.1"));
        assert_eq!(of(&["9.9.9.9", "198.51.100.2:44"], true).as_deref(), Some("198.51.100.2"));
        assert_eq!(of(&["[2001:db8:1:2:3::4]:44"], true).as_deref(), Some("2001:db8:1:2::"));
        assert_eq!(of(&["2001:db8:1:2:3::4"], true).as_deref(), Some("2001:db8:1:2::"));
        assert_eq!(of(&["unknown"], true), None);
        assert_eq!(of(&["é, 198.51.100.1"], true).as_deref(), Some("198.51.100.1"));
        assert_eq!(of(&["é"], true), None);
        assert_eq!(of(&[], true).as_deref(), Some("203.0.113.9"));
    }

    #[test]
    fn non_public_address_is_unknown() {
        for local in
            ["127.0.0.1", "10.1.2.3", "192.168.0.7", "172.16.0.1", "169.254.1.1", "100.64.0.1", "::1", "fd00::1"]
        {
            assert_eq!(shown(local, &[], false), None, "{local}");
            assert_eq!(shown("203.0.113.9", &[local], true), None, "{local}");
        }
        assert_eq!(shown("::ffff:10.0.0.1", &[], false), None);
        assert_eq!(shown("::ffff:203.0.113.9", &[], false).as_deref(), Some("203.0.113.9"));
    }
}
