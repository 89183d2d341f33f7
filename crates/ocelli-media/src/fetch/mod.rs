//! Getting an item's bytes by policy: who may be asked, for how much, for how long.

pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod inline;
pub(crate) mod policy;
pub(crate) mod resolver;

pub use policy::FetchPolicy;

use crate::{MediaError, Source};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Fetches at a time, of all requests together: sockets and buffers are bounded by it.
const AT_A_TIME: usize = 256;

/// Fetches items. One for the whole server: it holds the connections.
#[derive(Debug)]
pub struct Fetcher {
    policy: FetchPolicy,
    http: http::Http,
    files: Option<file::Folder>,
    slots: Semaphore,
}

impl Fetcher {
    /// Judges the policy itself; nothing is connected to, and no certificates are read yet.
    ///
    /// # Errors
    /// [`MediaError::Client`]: an allowed domain is no host, or the folder for files cannot be opened.
    pub fn new(policy: FetchPolicy) -> Result<Self, MediaError> {
        Ok(Self {
            http: http::Http::new(&policy)?,
            files: policy.allowed_local_path.as_deref().map(file::Folder::new).transpose()?,
            slots: Semaphore::new(AT_A_TIME),
            policy,
        })
    }

    /// The bytes of an item.
    ///
    /// # Errors
    /// What the policy refuses, what cannot be reached in time, and what is too large.
    pub async fn fetch(&self, source: &Source) -> Result<Bytes, MediaError> {
        if let Source::Inline(bytes) = source {
            return Ok(bytes.clone());
        }
        let late = |_| {
            let seconds = self.policy.timeout.as_secs_f64();
            MediaError::Unreachable(format!("not fetched within {seconds} s (--media-timeout-s)"))
        };
        timeout(self.policy.timeout, self.remote(source)).await.map_err(late)?
    }

    async fn remote(&self, source: &Source) -> Result<Bytes, MediaError> {
        let closed = |_| MediaError::Client("it is closed".into());
        let _slot = self.slots.acquire().await.map_err(closed)?;
        match source {
            Source::Http(url) => self.http.get(url, &self.policy).await,
            Source::File(path) => file::read(self.files.as_ref(), path, &self.policy).await,
            Source::Inline(bytes) => Ok(bytes.clone()),
        }
    }
}
