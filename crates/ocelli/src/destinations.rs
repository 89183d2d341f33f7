//! Which hosts may be sent embeddings, and which addresses those are.
//!
//! A request names its receivers, so anybody who reaches the port could make this server connect
//! anywhere (wire-protocol.md 9.2, point 28). Names are resolved here, once, and the address that was
//! checked is the one that is connected to. That also keeps name look-ups off the sender's thread.

use crate::request::Recipients;
use ipnet::IpNet;
use ocelli_core::{Destination, Fault, Reason};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// A name server that is slower than this is down.
const RESOLVE_LIMIT: Duration = Duration::from_secs(5);

/// The policy of `--allowed-destinations`.
pub struct Destinations {
    /// Empty: any address but the unspecified ones.
    allowed: Vec<IpNet>,
}

impl Destinations {
    /// Only addresses inside one of these networks; any address if there is none.
    pub fn new(allowed: Vec<IpNet>) -> Self {
        Self { allowed }
    }

    /// Checks everybody that a request names.
    ///
    /// # Errors
    /// `DestinationRefused` for the first that is not allowed or does not resolve.
    pub async fn resolve(&self, recipients: &Recipients) -> Result<Recipients, Fault> {
        let Recipients::Named(named) = recipients else { return Ok(Recipients::Registered) };
        let mut checked = Vec::with_capacity(named.len());
        for destination in named {
            checked.push(self.admit(destination).await?);
        }
        Ok(Recipients::Named(checked))
    }

    /// Checks one destination and turns a name into the address to connect to.
    ///
    /// # Errors
    /// `DestinationRefused`: not allowed, or a name that does not resolve.
    pub async fn admit(&self, destination: &Destination) -> Result<Destination, Fault> {
        let host = destination.host();
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.judge(destination, address).map(|()| destination.clone());
        }
        let found = tokio::time::timeout(RESOLVE_LIMIT, tokio::net::lookup_host((host, destination.port()))).await;
        let first = match found {
            Ok(Ok(mut addresses)) => addresses.next(),
            Ok(Err(_)) | Err(_) => None,
        };
        let Some(address) = first.map(|a| a.ip()) else {
            return Err(refused(format!("destination {destination}: the name does not resolve")));
        };
        self.judge(destination, address)?;
        let port = destination.port();
        Destination::new(&address.to_string(), port).map_err(|e| refused(format!("destination {destination}: {e}")))
    }

    fn judge(&self, destination: &Destination, address: IpAddr) -> Result<(), Fault> {
        let address = match address {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
            IpAddr::V4(_) => address,
        };
        if address.is_unspecified() || address == IpAddr::V4(Ipv4Addr::BROADCAST) || address.is_multicast() {
            let message = format!(
                "destination {destination} is no address that can be connected to; \
                 the receiver must name its own (on sglang: SGLANG_HOST_IP or --host)"
            );
            return Err(refused(message));
        }
        if !self.allowed.is_empty() && !self.allowed.iter().any(|net| net.contains(&address)) {
            return Err(refused(format!("destination {destination} is outside --allowed-destinations")));
        }
        Ok(())
    }
}

fn refused(message: String) -> Fault {
    Fault::new(Reason::DestinationRefused, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn verdict(allowed: &[&str], to: &str) -> Result<String, String> {
        let policy = Destinations::new(allowed.iter().map(|net| net.parse().unwrap()).collect());
        let admitted = policy.admit(&Destination::parse(to).unwrap()).await;
        admitted.map(|d| d.to_string()).map_err(|f| f.message)
    }

    #[tokio::test]
    async fn unspecified_and_multicast_addresses_are_never_connected_to() {
        for bad in ["0.0.0.0:9", "[::]:9", "[::ffff:0.0.0.0]:9", "224.0.0.1:9", "255.255.255.255:9", "[ff02::1]:9"] {
            assert!(verdict(&[], bad).await.is_err(), "{bad}");
            assert!(verdict(&["0.0.0.0/0", "::/0"], bad).await.is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn only_allowed_networks_are_connected_to() {
        assert_eq!(verdict(&[], "10.1.2.3:9").await, Ok("10.1.2.3:9".into()));
        assert_eq!(verdict(&["10.0.0.0/8"], "10.1.2.3:9").await, Ok("10.1.2.3:9".into()));
        assert_eq!(verdict(&["10.0.0.0/8"], "[::ffff:10.1.2.3]:9").await, Ok("[::ffff:10.1.2.3]:9".into()));
        let outside = verdict(&["10.0.0.0/8"], "11.1.2.3:9").await;
        assert_eq!(outside, Err("destination 11.1.2.3:9 is outside --allowed-destinations".into()));
    }

    #[tokio::test]
    async fn a_name_becomes_the_address_that_was_checked() {
        let local = verdict(&["127.0.0.0/8", "::1/128"], "localhost:9").await.unwrap();
        assert!(local == "127.0.0.1:9" || local == "[::1]:9", "{local}");
        assert!(verdict(&["10.0.0.0/8"], "localhost:9").await.is_err());
    }
}
