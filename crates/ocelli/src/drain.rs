//! Shutdown as a value: first nothing new is taken, then, at the end of patience, what is left is failed.

use tokio_util::sync::CancellationToken;

/// Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub struct Drain {
    draining: CancellationToken,
    hard: CancellationToken,
}

impl Drain {
    /// Nobody is leaving.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on nothing new is taken; what is here goes on.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// Patience has ended: what is still here fails, and says so to its destinations.
    pub fn stop_hard(&self) {
        self.begin();
        self.hard.cancel();
    }

    /// Whether new requests are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Resolves when patience has ended.
    pub async fn hard_stop(&self) {
        self.hard.cancelled().await;
    }
}

impl Drain {
    /// Resolves when the server begins to leave.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }
}
