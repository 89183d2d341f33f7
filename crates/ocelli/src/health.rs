//! Health: never busy taken for dead, never a wedged device taken for well, always within a second.
//!
//! The language server probes every 10 s with a limit of 2 s and evicts after three misses
//! (wire-protocol.md 3.6). So health never queues behind encodes: while there is work, progress is the
//! proof; an idle device proves itself by a tiny encode that no cache can answer.

use crate::encoder::{Encoder, Pulse, Standing};
use ocelli_core::GridThw;
use ocelli_models::{Card, Patches, Prepared};
use std::fmt;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// An encode that ended well within this time is proof enough.
const RECENT: Duration = Duration::from_secs(5);
/// What a probe may take before the answer is given by progress instead.
const PROBE_LIMIT: Duration = Duration::from_millis(700);

/// Why the server is not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwell {
    /// It is shutting down.
    Draining,
    /// Work waits and no batch has ended for this long.
    Stalled(Duration),
    /// The last batch failed, or a probe did.
    Failing(String),
}

impl fmt::Display for Unwell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draining => f.write_str("draining"),
            Self::Stalled(time) => write!(f, "no batch has ended for {:.1} s while work waits", time.as_secs_f32()),
            Self::Failing(why) => write!(f, "the device fails: {why}"),
        }
    }
}

/// Judges the encoder.
pub struct Health {
    stall_limit: Duration,
    probe: Prepared,
    /// One probe at a time, however many ask.
    probing: Semaphore,
}

impl Health {
    /// `stall_limit`: how long work may wait without any batch ending (`--health-stall-s`).
    pub fn new(card: &Card, stall_limit: Duration) -> Self {
        let side = card.merge_size;
        let patch_bytes = 3 * card.patch_size as usize * card.patch_size as usize;
        let grid = GridThw::new(1, side, side);
        let probe = Prepared { grid, patches: Patches::Still(vec![0; grid.patches() * patch_bytes]) };
        Self { stall_limit, probe, probing: Semaphore::new(1) }
    }

    /// Whether the server is fit to be sent requests.
    ///
    /// # Errors
    /// Why not.
    pub async fn check(&self, encoder: &Encoder, draining: bool) -> Result<(), Unwell> {
        if draining {
            return Err(Unwell::Draining);
        }
        if let Some(verdict) = self.judge(encoder.standing(Instant::now())) {
            return verdict;
        }
        match timeout(PROBE_LIMIT, self.probe(encoder)).await {
            Ok(verdict) => verdict,
            // the device got work meanwhile, or hangs: progress decides, and over time the stall limit
            Err(_) => self.judge(encoder.standing(Instant::now())).unwrap_or(Ok(())),
        }
    }

    /// A verdict from the facts alone; `None` when only a probe can tell.
    fn judge(&self, standing: Standing) -> Option<Result<(), Unwell>> {
        if standing.has_work {
            if standing.without_progress > self.stall_limit {
                return Some(Err(Unwell::Stalled(standing.without_progress)));
            }
            let failing = matches!(standing.pulse, Pulse::Failed(_));
            return Some(if failing { Err(Unwell::Failing("the last batch failed".into())) } else { Ok(()) });
        }
        matches!(standing.pulse, Pulse::Beat(ago) if ago < RECENT).then_some(Ok(()))
    }

    async fn probe(&self, encoder: &Encoder) -> Result<(), Unwell> {
        let Ok(_one) = self.probing.acquire().await else { return Ok(()) };
        // whoever waited for another's probe finds its result
        if let Some(verdict) = self.judge(encoder.standing(Instant::now())) {
            return verdict;
        }
        let failing = |fault: ocelli_core::Fault| Unwell::Failing(fault.to_string());
        let pending = encoder.submit(encoder.next_request(), self.probe.clone()).map_err(failing)?;
        pending.rows().await.map(|_| ()).map_err(failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ocelli_engine::DType;

    fn health() -> Health {
        let card = Card {
            architecture: String::new(),
            model_type: String::new(),
            modalities: vec![],
            dim: 1,
            dtype: DType::F32,
            patch_size: 14,
            merge_size: 2,
            temporal_patch_size: 2,
        };
        Health::new(&card, Duration::from_secs(30))
    }

    #[test]
    fn busy_is_well_and_stalled_is_not() {
        let standing =
            |has_work, seconds, pulse| Standing { has_work, without_progress: Duration::from_secs(seconds), pulse };
        let health = health();
        assert_eq!(health.judge(standing(true, 29, Pulse::None)), Some(Ok(())));
        assert_eq!(
            health.judge(standing(true, 31, Pulse::Beat(Duration::from_secs(31)))),
            Some(Err(Unwell::Stalled(Duration::from_secs(31))))
        );
        let failing = health.judge(standing(true, 0, Pulse::Failed(Duration::ZERO)));
        assert!(matches!(failing, Some(Err(Unwell::Failing(_)))));
        assert_eq!(health.judge(standing(false, 0, Pulse::Beat(Duration::from_secs(1)))), Some(Ok(())));
        // idle for long, never run, or failed last: only a probe can tell
        for pulse in [Pulse::None, Pulse::Beat(Duration::from_secs(6)), Pulse::Failed(Duration::from_millis(1))] {
            assert_eq!(health.judge(standing(false, 0, pulse)), None);
        }
    }
}
