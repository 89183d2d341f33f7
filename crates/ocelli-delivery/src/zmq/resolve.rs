//! Names to addresses, before libzmq sees them: it would ask the name server on its one I/O thread, and
//! a slow answer for one destination would stop all others.

use crate::DeliveryError;
use ocelli_core::Destination;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An address as it is; for a name its first IPv4 address, since the original resolves names to nothing
/// else, or its first IPv6 address when it has no other.
pub(super) async fn address(to: &Destination, limit: Duration) -> Result<SocketAddr, DeliveryError> {
    if let Ok(ip) = to.host().parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, to.port()));
    }
    let failed = |why: String| DeliveryError::Resolve { host: to.host().to_owned(), why };
    let lookup = tokio::net::lookup_host((to.host(), to.port()));
    let found = match tokio::time::timeout(limit, lookup).await {
        Ok(found) => found.map_err(|why| failed(why.to_string()))?,
        Err(_) => return Err(DeliveryError::TimedOut(limit)),
    };
    let (v4, v6): (Vec<_>, Vec<_>) = found.partition(SocketAddr::is_ipv4);
    v4.into_iter().chain(v6).next().ok_or_else(|| failed("it has no address".to_owned()))
}
