//! HTTP: redirects by hand, each judged; the body by pieces, each counted.

use super::FetchPolicy;
use super::policy::{Gate, private_address};
use super::resolver::{GuardedResolver, OnlyPrivate};
use crate::MediaError;
use bytes::Bytes;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, LOCATION};
use reqwest::{Client, ClientBuilder, Response};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use url::Url;

/// What is reserved on the other side's word alone.
const BELIEVED: u64 = 1 << 20;
/// How much of a cause a message holds.
const SHOWN: usize = 120;

/// The clients. The one for `https` is made when it is first needed: it reads the system's certificates,
/// which takes a while and fails where there are none.
#[derive(Debug)]
pub(crate) struct Http {
    gate: Arc<Gate>,
    plain: Client,
    secure: OnceCell<Client>,
}

impl Http {
    pub(crate) fn new(policy: &FetchPolicy) -> Result<Self, MediaError> {
        // another provider that is installed already serves as well
        let _ = rustls::crypto::ring::default_provider().install_default();
        let gate = Arc::new(Gate::new(policy)?);
        let plain = builder(&gate).tls_certs_only([]).build().map_err(|why| client(&why))?;
        Ok(Self { gate, plain, secure: OnceCell::new() })
    }

    /// Fetches an address and what it redirects to.
    pub(crate) async fn get(&self, url: &Url, policy: &FetchPolicy) -> Result<Bytes, MediaError> {
        let mut url = url.clone();
        for _ in 0..=policy.max_redirects {
            self.gate.check(&url)?;
            let response = self.ask(&url).await?;
            match response.status().as_u16() {
                200..=299 => return body(response, policy).await,
                301 | 302 | 303 | 307 | 308 => url = target(&url, &response)?,
                status => return Err(MediaError::Unreachable(format!("the server answered {status}"))),
            }
        }
        Err(MediaError::Unreachable(format!("more than {} redirects", policy.max_redirects)))
    }

    async fn ask(&self, url: &Url) -> Result<Response, MediaError> {
        let client = if url.scheme() == "https" { self.secure().await? } else { &self.plain };
        // identity: what the server compresses nevertheless is not decompressed
        let request = client.get(url.clone()).header(ACCEPT, "*/*").header(ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|why| unreachable(&why))
    }

    async fn secure(&self) -> Result<&Client, MediaError> {
        let make = || async {
            let builder = builder(&self.gate);
            let made = tokio::task::spawn_blocking(move || builder.build().map_err(|why| client(&why)));
            made.await.unwrap_or_else(|_| Err(MediaError::Client("making it failed unexpectedly".into())))
        };
        self.secure.get_or_try_init(make).await
    }
}

fn builder(gate: &Arc<Gate>) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("ocelli/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .pool_max_idle_per_host(8)
        .pool_idle_timeout(Duration::from_secs(30))
        .dns_resolver(Arc::new(GuardedResolver(gate.clone())))
}

/// Where a redirect leads; relative ones start from where they were met.
fn target(from: &Url, response: &Response) -> Result<Url, MediaError> {
    let nowhere = || MediaError::Unreachable("the server redirects to no address".into());
    let location = response.headers().get(LOCATION).ok_or_else(nowhere)?;
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| nowhere())?;
    from.join(location).map_err(|_| nowhere())
}

async fn body(mut response: Response, policy: &FetchPolicy) -> Result<Bytes, MediaError> {
    let declared = response.content_length().unwrap_or(0);
    if declared > policy.limit() {
        return Err(policy.too_many());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(declared.min(BELIEVED)).unwrap_or(0));
    while let Some(piece) = response.chunk().await.map_err(|why| unreachable(&why))? {
        if (bytes.len() + piece.len()) as u64 > policy.limit() {
            return Err(policy.too_many());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.into())
}

/// The causes of an error, the outermost first.
fn causes<'a>(why: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(why.source(), |&cause| cause.source())
}

/// The refusal inside a failed connection, or the innermost cause: the outer ones hold the whole address.
fn unreachable(why: &reqwest::Error) -> MediaError {
    if let Some(OnlyPrivate(name)) = causes(why).find_map(|cause| cause.downcast_ref()) {
        return private_address(name);
    }
    let what = if why.is_connect() { "cannot be connected to" } else { "the connection broke" };
    MediaError::Unreachable(format!("{what}: {}", innermost(why)))
}

fn client(why: &reqwest::Error) -> MediaError {
    MediaError::Client(innermost(why))
}

fn innermost(why: &reqwest::Error) -> String {
    let cause = causes(why).last().map_or_else(|| "no cause is known".into(), ToString::to_string);
    cause.chars().take(SHOWN).collect()
}
