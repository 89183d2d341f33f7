//! Names to addresses that the policy admits. The connection is made to what was judged here, so a name
//! that resolves differently the next time gains nothing.

use super::policy::Gate;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

/// Every address of a name is one that the policy forbids.
#[derive(Debug, Error)]
#[error("{0} resolves to private addresses only")]
pub(crate) struct OnlyPrivate(pub(crate) String);

/// The system's resolver behind the policy.
#[derive(Debug)]
pub(crate) struct GuardedResolver(pub(crate) Arc<Gate>);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = self.0.clone();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let addresses: Addrs = Box::new(admitted(&gate, name.as_str(), found)?.into_iter());
            Ok(addresses)
        })
    }
}

/// Drops what the policy forbids; an error if that leaves nothing of something.
fn admitted(gate: &Gate, name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, OnlyPrivate> {
    let some = !found.is_empty();
    let kept: Vec<_> = found.into_iter().filter(|address| gate.admits(address.ip())).collect();
    if some && kept.is_empty() { Err(OnlyPrivate(name.into())) } else { Ok(kept) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FetchPolicy;

    fn gate(allow_private_addresses: bool) -> Arc<Gate> {
        Arc::new(Gate::new(&FetchPolicy { allow_private_addresses, ..FetchPolicy::default() }).unwrap())
    }

    fn addresses(list: &[&str]) -> Vec<SocketAddr> {
        list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn a_name_keeps_only_its_public_addresses() {
        let found = addresses(&["10.0.0.1", "8.8.8.8", "::ffff:127.0.0.1", "2606:4700::1111"]);
        assert_eq!(admitted(&gate(false), "a.example", found).unwrap(), addresses(&["8.8.8.8", "2606:4700::1111"]));
    }

    #[test]
    fn a_name_with_private_addresses_only_is_refused() {
        let found = addresses(&["127.0.0.1", "169.254.169.254", "fd00::1"]);
        assert!(admitted(&gate(false), "rebound.example", found.clone()).is_err());
        assert_eq!(admitted(&gate(true), "rebound.example", found.clone()).unwrap(), found);
    }

    #[tokio::test]
    async fn localhost_resolves_to_nothing_unless_allowed() {
        let resolved = GuardedResolver(gate(false)).resolve("localhost".parse().unwrap()).await;
        assert!(resolved.err().is_some_and(|why| why.is::<OnlyPrivate>()));
        assert!(GuardedResolver(gate(true)).resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
