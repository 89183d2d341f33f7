//! What may be fetched: hosts, addresses, schemes.

use crate::MediaError;
use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;
use url::{Host, Url};

/// What the operator allows.
#[derive(Debug, Clone)]
pub struct FetchPolicy {
    /// Hosts that may be asked, exactly; `None` is every host.
    pub allowed_domains: Option<Vec<String>>,
    /// Whether addresses that are not public may be asked.
    pub allow_private_addresses: bool,
    /// The folder whose files may be read; `None` is no file.
    pub allowed_local_path: Option<PathBuf>,
    /// The most bytes of an item that is fetched; 0 leaves only the hard cap of 4 GiB.
    pub max_bytes: u64,
    /// For all of an item: waiting, names, redirects, body.
    pub timeout: Duration,
    /// The most redirects that are followed.
    pub max_redirects: u8,
}

impl Default for FetchPolicy {
    fn default() -> Self {
        Self {
            allowed_domains: None,
            allow_private_addresses: false,
            allowed_local_path: None,
            max_bytes: 64 << 20,
            timeout: Duration::from_secs(3),
            max_redirects: 5,
        }
    }
}

impl FetchPolicy {
    /// The limit in force.
    pub(crate) fn limit(&self) -> u64 {
        const HARD: u64 = 4 << 30;
        if self.max_bytes == 0 { HARD } else { self.max_bytes.min(HARD) }
    }

    /// The complaint about an item beyond the limit.
    pub(crate) fn too_many(&self) -> MediaError {
        MediaError::TooManyBytes { limit_mib: self.limit().div_ceil(1 << 20) }
    }
}

/// The policy's view of addresses, made once: hosts as the `url` crate writes them.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: Option<Vec<Host>>,
    private: bool,
}

impl Gate {
    pub(crate) fn new(policy: &FetchPolicy) -> Result<Self, MediaError> {
        let host = |name: &String| {
            Host::parse(name.trim())
                .map_err(|why| MediaError::Client(format!("the allowed media domain {name:?} is no host: {why}")))
        };
        let hosts = policy.allowed_domains.as_ref().map(|names| names.iter().map(host).collect()).transpose()?;
        Ok(Self { hosts, private: policy.allow_private_addresses })
    }

    /// Judges an address before anything is connected to: the first one and each redirect's.
    pub(crate) fn check(&self, url: &Url) -> Result<(), MediaError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused(format!("leads to the scheme {}; only http and https are fetched", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("has a user name or password in its address".into()));
        }
        let Some(host) = url.host() else {
            return Err(MediaError::Source("is no address: it has no host".into()));
        };
        if let Some(hosts) = &self.hosts
            && !hosts.contains(&host.to_owned())
        {
            return Err(refused(format!("{host} is not one of the hosts allowed by --allowed-media-domains")));
        }
        match host {
            Host::Ipv4(ip) => self.check_ip(ip.into()),
            Host::Ipv6(ip) => self.check_ip(ip.into()),
            Host::Domain(_) => Ok(()),
        }
    }

    /// Whether an address may be connected to.
    pub(crate) fn admits(&self, ip: IpAddr) -> bool {
        self.private || !is_private(ip)
    }

    fn check_ip(&self, ip: IpAddr) -> Result<(), MediaError> {
        if self.admits(ip) { Ok(()) } else { Err(private_address(&ip.to_string())) }
    }
}

/// The refusal of a host that is, or resolves to, an address that is not public.
pub(crate) fn private_address(host: &str) -> MediaError {
    refused(format!("{host} is a private address; --allow-private-media-addresses would allow it"))
}

fn refused(why: String) -> MediaError {
    MediaError::Refused(why)
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// Not public, by the registry of special-purpose addresses.
const PRIVATE_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(127, 0, 0, 0, 8),
    // a cloud's own service, public by its number only
    v4(168, 63, 129, 16, 32),
    v4(169, 254, 0, 0, 16),
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

const PRIVATE_V6: [Ipv6Net; 8] = [
    v6(0x64, 0xff9b, 1, 48),
    v6(0x100, 0, 0, 64),
    v6(0x2001, 0xdb8, 0, 32),
    v6(0x3fff, 0, 0, 20),
    v6(0xfc00, 0, 0, 7),
    v6(0xfe80, 0, 0, 10),
    v6(0xfec0, 0, 0, 10),
    v6(0xff00, 0, 0, 8),
];

/// Whether an address is not a public one, itself or the IPv4 address inside it.
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => PRIVATE_V4.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => {
            PRIVATE_V6.iter().any(|net| net.contains(&ip))
                || embedded(ip).into_iter().flatten().any(|v4| is_private(v4.into()))
        }
    }
}

/// The IPv4 addresses inside an IPv6 one; `::` and `::1` are seen as 0.0.0.0 and 0.0.0.1.
fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let join = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match ip.segments() {
        // compatible, mapped, translated, NAT64
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [join(high, low), None],
        // 6to4
        [0x2002, high, low, ..] => [join(high, low), None],
        // Teredo: the server, and the client inverted
        [0x2001, 0, s1, s2, _, _, c1, c2] => [join(s1, s2), join(!c1, !c2)],
        _ => [None, None],
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
