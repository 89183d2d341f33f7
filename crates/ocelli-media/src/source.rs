//! What an item may be: an address, a `data:` URL, a path, or plain base64.

use crate::MediaError;
use crate::fetch::inline;
use bytes::Bytes;
use ocelli_core::Modality;
use std::path::{Path, PathBuf};
use url::Url;

/// `PATH_MAX`: what is longer is no path.
const LONGEST_PATH: usize = 4096;
/// How much of a path a log shows.
const SHOWN: usize = 80;

/// Where an item's bytes are.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// At an `http` or `https` address.
    Http(Url),
    /// In a file of this machine, by its absolute path.
    File(PathBuf),
    /// In the request itself, decoded.
    Inline(Bytes),
}

impl Source {
    /// Reads the string of an item. Nothing is fetched and no policy is asked.
    ///
    /// A leading `/` is a path, but base64 of a JPEG begins with `/9j/` and that of MPEG audio with `//`:
    /// those are base64 for the modality that can hold them.
    ///
    /// # Errors
    /// [`MediaError::Refused`] for another scheme, [`MediaError::Source`] for what is none of the forms.
    pub fn parse(text: &str, modality: Modality) -> Result<Self, MediaError> {
        if let Some(scheme) = scheme(text) {
            let rest = &text[scheme.len() + 1..];
            return match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" if rest.starts_with("//") => address(text),
                "file" if rest.starts_with("//") => file_url(text),
                "data" if scheme == "data" => inline::data_url(rest).map(Self::Inline),
                "data" => Err(wrong("is no data: URL: its scheme is in upper case")),
                "http" | "https" | "file" => Err(wrong(&format!("is no address: // is missing after {scheme}:"))),
                other => Err(MediaError::Refused(format!(
                    "has the scheme {other}; only http, https, data and file are possible"
                ))),
            };
        }
        let encoded = match modality {
            Modality::Image => text.starts_with("/9j/"),
            Modality::Audio => text.starts_with("//"),
            Modality::Video => false,
        };
        if text.starts_with('/') && !encoded {
            return path(PathBuf::from(text));
        }
        inline::base64(text).map(Self::Inline)
    }

    /// The source for a log: scheme, host and the start of the path; no query, no content.
    pub fn describe(&self) -> String {
        match self {
            Self::Http(url) => {
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), cut(url.path()))
            }
            Self::File(path) => format!("file://{}", cut(&path.to_string_lossy())),
            Self::Inline(bytes) => format!("inline, {} bytes", bytes.len()),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({})", self.describe())
    }
}

/// The letters before the first `:`, if they can be a scheme. Base64 and absolute paths have none.
fn scheme(text: &str) -> Option<&str> {
    let colon = text.bytes().take(32).position(|byte| byte == b':')?;
    let scheme = text.get(..colon)?;
    let letters = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (letters && scheme.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(scheme)
}

fn address(text: &str) -> Result<Source, MediaError> {
    Url::parse(text).map(Source::Http).map_err(|why| wrong(&format!("is no address: {why}")))
}

fn file_url(text: &str) -> Result<Source, MediaError> {
    let url = Url::parse(text).map_err(|why| wrong(&format!("is no address: {why}")))?;
    url.to_file_path().map_err(|()| wrong("is no file of this machine: its address has a host")).and_then(path)
}

fn path(path: PathBuf) -> Result<Source, MediaError> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = Path::new(&path).as_os_str().as_bytes();
    if bytes.len() > LONGEST_PATH || bytes.contains(&0) {
        return Err(wrong("begins with / but is no path"));
    }
    Ok(Source::File(path))
}

fn cut(path: &str) -> String {
    // a control character in a path must not forge a line of the log
    let mut shown: String = path.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect();
    if path.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

fn wrong(why: &str) -> MediaError {
    MediaError::Source(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> Result<Source, MediaError> {
        Source::parse(text, Modality::Image)
    }

    #[test]
    fn schemes_of_addresses_may_be_in_upper_case() {
        assert!(
            matches!(image("HTTPS://Example.COM/a.png"), Ok(Source::Http(url)) if url.host_str() == Some("example.com"))
        );
        assert_eq!(image("FILE:///tmp/a%20b.png"), Ok(Source::File("/tmp/a b.png".into())));
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        for text in ["ftp://a/b", "GOPHER://a/", "javascript:alert(1)", "blob:http://a/", "ws://a"] {
            let scheme = text.split(':').next().unwrap().to_lowercase();
            assert!(matches!(image(text), Err(MediaError::Refused(why)) if why.contains(&scheme)), "{text}");
        }
    }

    #[test]
    fn base64_of_a_jpeg_is_not_a_path() {
        assert_eq!(image("/9j/4AAQ"), Ok(Source::Inline(Bytes::from_static(&[0xff, 0xd8, 0xff, 0xe0, 0, 0x10]))));
        assert_eq!(image("/tmp/abc"), Ok(Source::File("/tmp/abc".into())));
        assert!(matches!(Source::parse("//uQxAAA", Modality::Audio), Ok(Source::Inline(_))));
        assert!(matches!(Source::parse("/9j/4AAQ", Modality::Video), Ok(Source::File(_))));
    }

    #[test]
    fn what_is_none_of_the_forms_is_the_clients_mistake() {
        let long = format!("/{}", "a".repeat(5000));
        for text in ["", "http:example.com", "http://", "a b", "file://host/a.png", "/a\0b", "ä", &long, "data:"] {
            assert!(matches!(image(text), Err(MediaError::Source(_))), "{text}");
        }
    }

    #[test]
    fn descriptions_hold_no_query_no_password_and_no_content() {
        let url = format!("http://me:secret@example.com:81/{}?token=1#x", "p".repeat(200));
        let shown = image(&url).unwrap().describe();
        assert!(shown.starts_with("http://example.com:81/ppp"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("token") && shown.len() < 130, "{shown}");
        assert_eq!(image("aGVsbG8=").unwrap().describe(), "inline, 5 bytes");
        assert_eq!(image("/a\nb").unwrap().describe(), "file:///a?b");
    }
}
