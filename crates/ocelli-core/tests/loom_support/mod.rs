//! A table and names.
#![allow(dead_code)] // each race uses its own part

use ocelli_core::lifecycle::{Limits, Table};
use ocelli_core::{Destination, ReqId};
use std::time::Duration;

pub const TTL: Duration = Duration::from_secs(10);

pub fn table() -> Table<u32> {
    Table::new(Limits { max_requests: 2, metadata_ttl: TTL, max_early_waiters: 4, max_destinations: 4 })
}

pub fn id() -> ReqId {
    ReqId::new("r").expect("id")
}

pub fn destination(n: u16) -> Destination {
    Destination::new("10.0.0.1", 1000 + n).expect("destination")
}
