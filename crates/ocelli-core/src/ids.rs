//! Names: of a part at the encoder, of an item within it, of a socket that wants its embedding.

use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// Identity of one part at the encoder: `<rid>_local_part_<part_idx>` when a language server made it.
/// Cheap to clone. Never empty, never long: ids are kept after their request, and repeated in messages.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReqId(Arc<str>);

impl ReqId {
    /// Longest id in bytes; a language server's own have about 50, its users may choose longer ones.
    pub const MAX_BYTES: usize = 1024;

    /// `None` for an empty string, which the protocol refuses, and for one longer than
    /// [`ReqId::MAX_BYTES`].
    pub fn new(id: &str) -> Option<Self> {
        (1..=Self::MAX_BYTES).contains(&id.len()).then(|| Self(Arc::from(id)))
    }

    /// The id as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Position of an item in its request, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemIdx(pub usize);

impl fmt::Display for ItemIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One socket that wants a part's embedding. The host is without brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    host: Arc<str>,
    port: u16,
}

/// Why a string is not a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// Neither `host:port` nor `[v6]:port`.
    #[error("`{0}` is not host:port")]
    Shape(String),
    /// A bare IPv6 address, whose last group would be read as the port.
    #[error("`{0}` is an IPv6 address without brackets; write [address]:port")]
    BareIpv6(String),
    /// The part behind the last colon is no port from 1 to 65535.
    #[error("`{0}` has no valid port (1 to 65535)")]
    Port(String),
}

impl Destination {
    /// A host (name, IPv4, or IPv6 with or without brackets) and a port.
    ///
    /// # Errors
    /// An empty host, one that holds characters no host has, or port 0.
    pub fn new(host: &str, port: u16) -> Result<Self, DestinationError> {
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let fits = !bare.is_empty()
            && bare.len() <= 255
            && bare.chars().all(|c| c.is_ascii_alphanumeric() || "-._:%".contains(c))
            && (!bare.contains(':') || bare.parse::<Ipv6Addr>().is_ok());
        if !fits {
            return Err(DestinationError::Shape(clip(host)));
        }
        if port == 0 {
            return Err(DestinationError::Port(clip(host)));
        }
        Ok(Self { host: Arc::from(bare), port })
    }

    /// Reads `host:port` by the protocol's rule: what starts with `[` must be `[v6]:port`, everything
    /// else is cut at its last colon, a bare IPv6 address is an error, a scheme is not accepted.
    ///
    /// # Errors
    /// See [`DestinationError`].
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let shape = || DestinationError::Shape(clip(text));
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once("]:").ok_or_else(shape)?;
            host.parse::<Ipv6Addr>().map_err(|_| shape())?;
            (host, port)
        } else {
            let (host, port) = text.rsplit_once(':').ok_or_else(shape)?;
            if host.contains(':') && !host.contains("//") {
                return Err(DestinationError::BareIpv6(clip(text)));
            }
            (host, port)
        };
        let numeric = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = if numeric { port.parse().ok() } else { None };
        let port = port.filter(|p| *p != 0).ok_or_else(|| DestinationError::Port(clip(text)))?;
        Self::new(host, port).map_err(|_| shape())
    }

    /// Name or address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// From 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// What came from outside is shown, but never at length.
fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_follow_the_protocols_parsing_rule() {
        let shown = |t: &str| Destination::parse(t).map(|d| d.to_string());
        assert_eq!(shown("10.0.0.1:80"), Ok("10.0.0.1:80".into()));
        assert_eq!(shown("node-7.example:31000"), Ok("node-7.example:31000".into()));
        assert_eq!(shown("[::1]:80"), Ok("[::1]:80".into()));
        for bad in [
            "",
            "host",
            ":80",
            "[::1]",
            "[::1]80",
            "[nope]:80",
            "::1:80",
            "host:",
            "host:http",
            "host:0",
            "host:65536",
            "host:-1",
            "host:+80",
            "tcp://host:80",
            "a b:80",
            "h/ost:80",
            "host:80 ",
        ] {
            assert!(Destination::parse(bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn a_bracketed_host_and_a_bare_one_are_the_same_destination() {
        assert_eq!(Destination::new("[::1]", 9), Destination::new("::1", 9));
    }

    #[test]
    fn an_empty_or_endless_request_id_does_not_exist() {
        assert!(ReqId::new("").is_none());
        assert!(ReqId::new(&"a".repeat(ReqId::MAX_BYTES)).is_some());
        assert!(ReqId::new(&"a".repeat(ReqId::MAX_BYTES + 1)).is_none());
        assert_eq!(ReqId::new("a").map(|i| i.to_string()), Some("a".into()));
    }
}
