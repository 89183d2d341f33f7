//! Room in the system. "Full" is an answer, not an accident.

use crate::sync::{Arc, Mutex, MutexGuard};
use crate::{Fault, Reason};

/// What may be in the system at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Requests (`--max-pending-requests`).
    pub max_requests: usize,
    /// Bytes of media that requests carry (`--max-pending-mb`).
    pub max_bytes: usize,
}

/// What is in the system now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InUse {
    /// Requests.
    pub requests: usize,
    /// Their items.
    pub items: usize,
    /// Bytes of media that they carry.
    pub bytes: usize,
}

/// The door. Clones are one door.
#[derive(Clone)]
pub struct Admission {
    limits: AdmissionLimits,
    in_use: Arc<Mutex<InUse>>,
}

/// Room for one request; dropping it gives the room back.
pub struct Permit {
    door: Admission,
    items: usize,
    bytes: usize,
}

impl Admission {
    /// A door to an empty system.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self { limits, in_use: Arc::new(Mutex::new(InUse::default())) }
    }

    /// Lets a request in that carries `bytes` of media. One that alone is larger than the limit is let in
    /// when nothing else is there: the body's own limit has judged it already.
    ///
    /// # Errors
    /// `Overloaded`, naming the limit.
    pub fn admit(&self, items: usize, bytes: usize) -> Result<Permit, Fault> {
        let full = |message: String| Err(Fault::new(Reason::Overloaded, message));
        let AdmissionLimits { max_requests, max_bytes } = self.limits;
        let mut in_use = self.lock();
        if in_use.requests >= max_requests {
            return full(format!("{max_requests} requests are in the system (--max-pending-requests)"));
        }
        if in_use.bytes > 0 && in_use.bytes.saturating_add(bytes) > max_bytes {
            let mib = max_bytes / (1024 * 1024);
            return full(format!("requests in the system carry {mib} MiB of media (--max-pending-mb)"));
        }
        in_use.requests += 1;
        in_use.items += items;
        in_use.bytes = in_use.bytes.saturating_add(bytes);
        Ok(Permit { door: self.clone(), items, bytes })
    }

    /// What is in the system now.
    pub fn in_use(&self) -> InUse {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut in_use = self.door.lock();
        in_use.requests = in_use.requests.saturating_sub(1);
        in_use.items = in_use.items.saturating_sub(self.items);
        in_use.bytes = in_use.bytes.saturating_sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_by_requests_and_bytes_and_comes_back_by_dropping() {
        let door = Admission::new(AdmissionLimits { max_requests: 2, max_bytes: 100 });
        let first = door.admit(3, 60).unwrap();
        let why = door.admit(1, 41).err().unwrap();
        assert!(why.message.contains("--max-pending-mb"), "{why}");
        let second = door.admit(1, 40).unwrap();
        let why = door.admit(1, 0).err().unwrap();
        assert!(why.message.contains("--max-pending-requests"), "{why}");
        assert_eq!(door.in_use(), InUse { requests: 2, items: 4, bytes: 100 });
        drop((first, second));
        assert_eq!(door.in_use(), InUse::default());
        let _alone = door.admit(1, 1000).unwrap();
    }
}
