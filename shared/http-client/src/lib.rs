//! Restricts the addresses that may be called on behalf of a project, against server-side request forgery.
//!
//! A host is resolved once, every address is vetted, and the caller connects to the vetted address without resolving
//! the name again. `OUTBOUND_ALLOW` exempts ranges, for mail servers and services in the operator's own network.

mod base_url;
mod client;
mod connect;
mod failure;
mod lookup;
#[cfg(test)]
mod rebinding;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use kernel::env::{Env, EnvError};

pub use base_url::BaseUrl;
pub use client::{HttpClient, HttpResponse};
pub use failure::CallError;
use lookup::Lookup;

/// An address range in CIDR notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (base, bits) = text.split_once('/').map_or((text, None), |(b, n)| (b, Some(n)));
        let base: IpAddr = base.parse().map_err(|_| format!("{text:?} is not an address range"))?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| format!("{text:?} is not an address range"))?;
        if bits > most { Err(format!("{text:?} has too many bits")) } else { Ok(Self { base, bits }) }
    }
}

impl Cidr {
    fn contains(self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(b), IpAddr::V4(i)) => {
                prefix(b.to_bits().into(), 32, self.bits) == prefix(i.to_bits().into(), 32, self.bits)
            }
            (IpAddr::V6(b), IpAddr::V6(i)) => {
                prefix(b.to_bits(), 128, self.bits) == prefix(i.to_bits(), 128, self.bits)
            }
            _ => false,
        }
    }
}

fn prefix(address: u128, width: u32, bits: u8) -> u128 {
    address.checked_shr(width - u32::from(bits)).unwrap_or(0)
}

/// The addresses that may be called: public ones, and the exempted ranges.
#[derive(Clone, Debug, Default)]
pub struct OutboundPolicy {
    allow: Vec<Cidr>,
    lookup: Lookup,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OutboundError {
    #[error("{0} cannot be resolved: {1}")]
    Unresolved(String, String),
    #[error("{0} resolves to {1}, an address that may not be called (OUTBOUND_ALLOW exempts ranges)")]
    Refused(String, IpAddr),
}

impl OutboundPolicy {
    /// Reads `OUTBOUND_ALLOW`: ranges in CIDR notation, separated by commas.
    pub fn from_env(env: &Env) -> Result<Self, EnvError> {
        Ok(Self {
            lookup: Lookup::default(),
            allow: env.list("OUTBOUND_ALLOW", "address ranges such as 10.1.0.0/16,127.0.0.0/8")?,
        })
    }

    /// Allows every address. For addresses that only the operator configures.
    pub fn unrestricted() -> Self {
        let all = |base: IpAddr| Cidr { base, bits: 0 };
        Self {
            lookup: Lookup::default(),
            allow: vec![all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())],
        }
    }

    pub fn allows(&self, ip: IpAddr) -> bool {
        self.exempts(ip) || is_public(ip.to_canonical())
    }

    /// Returns whether the operator exempted the address.
    pub fn exempts(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        self.allow.iter().any(|range| range.contains(ip))
    }

    /// Returns whether a host may be called without TLS, because the operator exempts its address. Fails if the host
    /// cannot be resolved.
    pub async fn allows_plain(&self, host: &str, port: u16) -> Result<bool, OutboundError> {
        match self.resolve(host, port).await {
            Ok(ip) => Ok(self.exempts(ip)),
            Err(OutboundError::Refused(..)) => Ok(false),
            Err(unresolved @ OutboundError::Unresolved(..)) => Err(unresolved),
        }
    }

    /// Resolves a host, within 5 s, and vets every address. Returns the one to connect to.
    pub async fn resolve(&self, host: &str, port: u16) -> Result<IpAddr, OutboundError> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<IpAddr> = match bare.parse::<IpAddr>() {
            Ok(ip) => vec![ip],
            Err(_) => {
                self.lookup.of(bare, port).await.map_err(|why| OutboundError::Unresolved(host.to_owned(), why))?
            }
        };
        self.choose(host, &addresses)
    }

    /// Chooses the address to connect to. Refuses all addresses if one is forbidden, so that a name that has public and
    /// private ones cannot be used.
    fn choose(&self, host: &str, addresses: &[IpAddr]) -> Result<IpAddr, OutboundError> {
        if let Some(refused) = addresses.iter().find(|ip| !self.allows(**ip)) {
            return Err(OutboundError::Refused(host.to_owned(), refused.to_canonical()));
        }
        let first = addresses.iter().find(|ip| ip.is_ipv4()).or(addresses.first());
        first.copied().ok_or_else(|| OutboundError::Unresolved(host.to_owned(), "no address".to_owned()))
    }
}

/// Returns whether an address is publicly routable (IANA special-purpose registries, RFC 6890).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || ip.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (18..20).contains(&b));
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    // Only global unicast is public, except addresses that embed a non-public address or serve for documentation.
    let global = s[0] & 0xe000 == 0x2000;
    let documentation = (s[0] == 0x2001 && s[1] == 0xdb8) || (s[0] == 0x3fff && s[1] < 0x1000);
    let embedded = match s {
        [0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = embedded {
        return is_public_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    }
    global && !documentation && !(s[0] == 0x2001 && s[1] < 0x200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        let policy = OutboundPolicy::default();
        for refused in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(!policy.allows(refused.parse().unwrap()), "{refused}");
        }
        for allowed in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"] {
            assert!(policy.allows(allowed.parse().unwrap()), "{allowed}");
        }
    }

    #[test]
    fn ranges_are_exempted() {
        let policy =
            OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8, ::1/128,10.1.2.3")])).unwrap();
        for (ip, allowed) in
            [("127.9.9.9", true), ("::1", true), ("10.1.2.3", true), ("10.1.2.4", false), ("::ffff:127.0.0.1", true)]
        {
            assert_eq!(policy.allows(ip.parse().unwrap()), allowed, "{ip}");
        }
        assert!(OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "10.0.0.0/33")])).is_err());
    }

    #[test]
    fn unrestricted_policy_allows_every_address() {
        for ip in ["127.0.0.1", "10.0.0.1", "::1", "fd12::1", "1.1.1.1"] {
            assert!(OutboundPolicy::unrestricted().allows(ip.parse().unwrap()), "{ip}");
        }
    }

    #[tokio::test]
    async fn name_of_private_address_is_refused() {
        let policy = OutboundPolicy::default();
        assert!(matches!(policy.resolve("localhost", 25).await, Err(OutboundError::Refused(..))));
        assert!(matches!(policy.resolve("[::1]", 25).await, Err(OutboundError::Refused(..))));
        assert_eq!(policy.resolve("8.8.8.8", 25).await, Ok("8.8.8.8".parse().unwrap()));
    }

    #[test]
    fn name_with_public_and_private_addresses_is_refused() {
        let policy = OutboundPolicy::default();
        let [outside, other, inside, mapped] =
            ["8.8.8.8", "2606:4700::1111", "10.0.0.1", "::ffff:127.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert_eq!(policy.choose("a.example", &[other, outside]), Ok(outside));
        for addresses in [&[outside, inside][..], &[inside, outside], &[other, outside, mapped]] {
            let refused = policy.choose("a.example", addresses);
            assert!(matches!(refused, Err(OutboundError::Refused(..))), "{addresses:?}: {refused:?}");
        }
        assert!(matches!(policy.choose("a.example", &[]), Err(OutboundError::Unresolved(..))));
    }

    #[tokio::test]
    async fn only_exempted_addresses_are_called_without_tls() {
        let exempting = OutboundPolicy::from_env(&Env::from_pairs([("OUTBOUND_ALLOW", "127.0.0.0/8")])).unwrap();
        assert_eq!(exempting.allows_plain("127.0.0.1", 80).await, Ok(true));
        assert_eq!(exempting.allows_plain("8.8.8.8", 80).await, Ok(false));
        assert_eq!(exempting.allows_plain("10.0.0.1", 80).await, Ok(false));
    }
}
