//! Files of this machine, inside one folder. What is outside is refused before it is known to exist.

use super::FetchPolicy;
use crate::MediaError;
use bytes::Bytes;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder, with symbolic links resolved.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: &Path) -> Result<Self, MediaError> {
        let opened = path.canonicalize().map(Self);
        opened.map_err(|why| {
            MediaError::Client(format!("the folder {} (--allowed-local-media-path): {why}", path.display()))
        })
    }

    /// Where the file really is, if that is inside.
    fn locate(&self, path: &Path) -> Result<PathBuf, MediaError> {
        match path.canonicalize() {
            Ok(real) if self.holds(&real) => Ok(real),
            Ok(_) => Err(outside()),
            // whether something outside exists must not be told: the nearest folder that does exist decides
            Err(why) => {
                let nearest = path.ancestors().skip(1).find_map(|folder| folder.canonicalize().ok());
                if nearest.is_some_and(|folder| self.holds(&folder)) { Err(unreadable(&why)) } else { Err(outside()) }
            }
        }
    }

    fn holds(&self, real: &Path) -> bool {
        real.starts_with(&self.0)
    }

    /// Opens a regular file that is still where it was found. Never waits: a FIFO or a device does not get here.
    fn open(&self, path: &Path) -> Result<File, MediaError> {
        let real = self.locate(path)?;
        if !real.metadata().map_err(|why| unreadable(&why))?.is_file() {
            return Err(not_a_file());
        }
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&real).map_err(|why| unreadable(&why))?;
        if !file.metadata().map_err(|why| unreadable(&why))?.is_file() {
            return Err(not_a_file());
        }
        // a folder on the way may have become a link meanwhile: what was opened decides
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
            if opened.is_ok_and(|opened| !self.holds(&opened)) {
                return Err(outside());
            }
        }
        Ok(file)
    }
}

/// Reads a file inside the folder.
pub(crate) async fn read(folder: Option<&Folder>, path: &Path, policy: &FetchPolicy) -> Result<Bytes, MediaError> {
    let Some(folder) = folder.cloned() else {
        return Err(MediaError::Refused("is a file; none may be read without --allowed-local-media-path".into()));
    };
    let (path, limit, too_many) = (path.to_owned(), policy.limit(), policy.too_many());
    let job = tokio::task::spawn_blocking(move || {
        let file = folder.open(&path)?;
        let length = file.metadata().map_err(|why| unreadable(&why))?.len();
        if length > limit {
            return Err(too_many);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|why| unreadable(&why))?;
        if bytes.len() as u64 > limit { Err(too_many) } else { Ok(bytes.into()) }
    });
    job.await.unwrap_or_else(|_| Err(MediaError::Client("reading a file failed unexpectedly".into())))
}

fn outside() -> MediaError {
    MediaError::Refused("is not inside the folder of --allowed-local-media-path".into())
}

fn not_a_file() -> MediaError {
    MediaError::Refused("is no regular file; --allowed-local-media-path allows no others".into())
}

fn unreadable(why: &std::io::Error) -> MediaError {
    MediaError::Unreachable(format!("the file cannot be read: {}", why.kind()))
}
