//! The limits of the engine, handed down by whoever configures.

use std::time::Duration;

/// Limits and socket settings.
#[derive(Debug, Clone)]
pub struct ZmqOptions {
    /// How long a message may take from the call to leaving: connecting included.
    /// 180 s is `SGLANG_ENCODER_SEND_TIMEOUT`'s default.
    pub send_timeout: Duration,
    /// How long a socket without messages is kept. Zero closes it when its last message has left.
    pub idle_timeout: Duration,
    /// Destinations served at once. At the limit the longest idle socket makes room; when none is idle the
    /// message is refused. At most [`ZmqOptions::MOST_ENDPOINTS`].
    pub max_endpoints: usize,
    /// Messages that have not ended, over all destinations. More are refused.
    pub queue_capacity: usize,
    /// Messages that have not ended, for one destination. More are refused, so that a dead destination
    /// cannot use up the room of all.
    pub endpoint_capacity: usize,
    /// Kernel send buffer in bytes; -1 leaves it to the kernel; `None` applies sglang's rule where the
    /// kernel grants more that way.
    pub sndbuf_bytes: Option<i32>,
    /// First pause before a refused connection is tried again; it doubles up to
    /// [`ZmqOptions::reconnect_max`].
    pub reconnect: Duration,
    /// Longest pause between two tries to connect.
    pub reconnect_max: Duration,
}

impl ZmqOptions {
    /// libzmq allows 1,023 sockets a context; some are left for its own use.
    pub const MOST_ENDPOINTS: usize = 1000;
}

impl Default for ZmqOptions {
    fn default() -> Self {
        Self {
            send_timeout: Duration::from_secs(180),
            idle_timeout: Duration::from_secs(60),
            max_endpoints: 256,
            queue_capacity: 16_384,
            endpoint_capacity: 4096,
            sndbuf_bytes: None,
            reconnect: Duration::from_millis(10),
            reconnect_max: Duration::from_millis(500),
        }
    }
}
