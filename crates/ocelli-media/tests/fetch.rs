//! Fetching from a real server on this machine and from real files.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use ocelli_core::Modality;
use ocelli_media::{FetchPolicy, Fetcher, MediaError, Source};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MIB: usize = 1 << 20;

/// Serves one answer for each path; returns `http://127.0.0.1:port`.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    base
}

async fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            // a TLS hand-shake begins with 0x16
            Err(_) | Ok(0x16) => return,
            Ok(byte) => head.push(byte),
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    let Some(answer) = answer(path, &head) else { return std::future::pending().await };
    // a client that has seen enough closes: not this side's concern
    let _ = stream.write_all(&answer).await;
}

/// `None` is a server that says nothing.
fn answer(path: &str, head: &str) -> Option<Vec<u8>> {
    let with = |status: &str, headers: &str, body: &[u8]| {
        Some([format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").as_bytes(), body].concat())
    };
    let to = |status: &str, location: &str| with(status, &format!("Location: {location}\r\n"), b"moved");
    match path.split('?').next().unwrap() {
        "/ok" => with("200 OK", "Content-Length: 5\r\n", b"hello"),
        "/head" => with("200 OK", "", head.as_bytes()),
        "/gzip" => with("200 OK", "Content-Encoding: gzip\r\nContent-Length: 3\r\n", &[0x1f, 0x8b, 8]),
        "/forbidden" => with("403 Forbidden", "", b""),
        "/short" => with("200 OK", "Content-Length: 50\r\n", b"hello"),
        "/exact" => with("200 OK", "", &vec![7; MIB]),
        "/declared" => with("200 OK", &format!("Content-Length: {}\r\n", MIB + 1), b""),
        "/undeclared" => with("200 OK", "", &vec![7; MIB + 1]),
        "/silent" => None,
        "/a/relative" => to("302 Found", "../ok?x=1"),
        "/permanent" => to("308 Permanent Redirect", "/ok"),
        "/loop" => to("301 Moved", "/loop"),
        "/ftp" => to("302 Found", "ftp://127.0.0.1/ok"),
        "/file" => to("302 Found", "file:///etc/passwd"),
        "/password" => to("302 Found", "http://me:pw@127.0.0.1/ok"),
        "/elsewhere" => to("302 Found", "http://localhost:1/ok"),
        "/nowhere" => with("302 Found", "", b""),
        _ => with("404 Not Found", "Content-Length: 0\r\n", b""),
    }
}

fn open() -> FetchPolicy {
    FetchPolicy { allow_private_addresses: true, max_bytes: MIB as u64, ..FetchPolicy::default() }
}

async fn fetch(policy: FetchPolicy, text: &str) -> Result<Bytes, MediaError> {
    Fetcher::new(policy)?.fetch(&Source::parse(text, Modality::Image)?).await
}

#[track_caller]
fn refused(result: Result<Bytes, MediaError>, part: &str) {
    assert!(matches!(&result, Err(MediaError::Refused(why)) if why.contains(part)), "{result:?}");
}

#[track_caller]
fn unreachable(result: Result<Bytes, MediaError>, part: &str) {
    assert!(matches!(&result, Err(MediaError::Unreachable(why)) if why.contains(part)), "{result:?}");
}

#[tokio::test]
async fn a_body_is_fetched_as_it_is() {
    let base = server().await;
    assert_eq!(fetch(open(), &format!("{base}/ok?token=1")).await.unwrap(), "hello");
    assert_eq!(fetch(open(), &format!("{base}/gzip")).await.unwrap(), &[0x1f, 0x8b, 8][..]);
}

#[tokio::test]
async fn requests_tell_who_asks_and_nothing_else() {
    let head = fetch(open(), &format!("{}/head", server().await)).await.unwrap();
    let head = String::from_utf8(head.to_vec()).unwrap().to_lowercase();
    assert!(head.contains("user-agent: ocelli/"), "{head}");
    assert!(!head.contains("cookie") && !head.contains("referer") && !head.contains("gzip"), "{head}");
}

#[tokio::test]
async fn loopback_is_refused_by_default() {
    let base = server().await;
    let flag = "--allow-private-media-addresses";
    refused(fetch(FetchPolicy::default(), &format!("{base}/ok")).await, flag);
    refused(fetch(FetchPolicy::default(), &format!("{}/ok", base.replace("127.0.0.1", "localhost"))).await, flag);
}

#[tokio::test]
async fn other_statuses_are_the_other_sides_fault() {
    let base = server().await;
    unreachable(fetch(open(), &format!("{base}/forbidden")).await, "the server answered 403");
    unreachable(fetch(open(), &format!("{base}/none")).await, "the server answered 404");
}

#[tokio::test]
async fn the_limit_holds_with_and_without_a_declared_length() {
    let base = server().await;
    for path in ["declared", "undeclared"] {
        let result = fetch(open(), &format!("{base}/{path}")).await;
        assert_eq!(result, Err(MediaError::TooManyBytes { limit_mib: 1 }), "{path}");
    }
    assert_eq!(fetch(open(), &format!("{base}/exact")).await.unwrap().len(), MIB);
    let unlimited = FetchPolicy { max_bytes: 0, ..open() };
    assert_eq!(fetch(unlimited, &format!("{base}/undeclared")).await.unwrap().len(), MIB + 1);
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_error() {
    unreachable(fetch(open(), &format!("{}/short", server().await)).await, "the connection broke");
}

#[tokio::test]
async fn a_silent_server_costs_the_time_out_and_no_more() {
    let policy = FetchPolicy { timeout: Duration::from_millis(200), ..open() };
    let base = server().await;
    let began = Instant::now();
    unreachable(fetch(policy, &format!("{base}/silent")).await, "within 0.2 s (--media-timeout-s)");
    assert!(began.elapsed() >= Duration::from_millis(200) && began.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn redirects_are_followed() {
    let base = server().await;
    assert_eq!(fetch(open(), &format!("{base}/a/relative")).await.unwrap(), "hello");
    assert_eq!(fetch(open(), &format!("{base}/permanent")).await.unwrap(), "hello");
}

#[tokio::test]
async fn redirects_end() {
    let base = server().await;
    unreachable(fetch(open(), &format!("{base}/loop")).await, "more than 5 redirects");
    unreachable(fetch(open(), &format!("{base}/nowhere")).await, "redirects to no address");
    let none = FetchPolicy { max_redirects: 0, ..open() };
    unreachable(fetch(none, &format!("{base}/permanent")).await, "more than 0 redirects");
}

#[tokio::test]
async fn redirects_are_judged_like_addresses() {
    let base = server().await;
    refused(fetch(open(), &format!("{base}/ftp")).await, "ftp");
    refused(fetch(open(), &format!("{base}/file")).await, "file");
    refused(fetch(open(), &format!("{base}/password")).await, "password");
    let only = FetchPolicy { allowed_domains: Some(vec!["127.0.0.1".into()]), ..open() };
    refused(fetch(only.clone(), &format!("{base}/elsewhere")).await, "--allowed-media-domains");
    assert_eq!(fetch(only, &format!("{base}/permanent")).await.unwrap(), "hello");
}

#[tokio::test]
async fn messages_hold_no_query() {
    let base = server().await;
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for address in [format!("{base}/none"), format!("{base}/short"), format!("{base}/loop"), closed] {
        let why = fetch(open(), &format!("{address}?token=secret")).await.unwrap_err().to_string();
        assert!(!why.contains("secret") && !why.contains("127.0.0.1"), "{why}");
    }
}

#[tokio::test]
async fn https_to_a_server_without_tls_fails() {
    // a machine without certificates does not get as far
    let result = fetch(open(), &format!("{}/ok", server().await.replace("http:", "https:"))).await;
    assert!(matches!(result, Err(MediaError::Unreachable(_) | MediaError::Client(_))), "{result:?}");
}

#[test]
fn making_a_fetcher_reads_no_certificates() {
    let began = Instant::now();
    let _ = Fetcher::new(FetchPolicy::default()).unwrap();
    println!("Fetcher::new took {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_millis(200));
}

fn folder(path: &Path) -> FetchPolicy {
    FetchPolicy { allowed_local_path: Some(path.to_owned()), ..open() }
}

fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn files_need_an_allowed_folder() {
    refused(fetch(open(), "/etc/hostname").await, "--allowed-local-media-path");
    refused(fetch(open(), "file:///does/not/exist").await, "--allowed-local-media-path");
}

#[tokio::test]
async fn files_in_the_folder_are_read_by_path_and_by_url() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/a b.png"), "hello").unwrap();
    std::os::unix::fs::symlink("in/a b.png", dir.path().join("link.png")).unwrap();
    let policy = folder(dir.path());
    let base = shown(dir.path());
    for text in ["/in/a b.png", "/in/../in/a b.png", "/link.png"] {
        assert_eq!(fetch(policy.clone(), &format!("{base}{text}")).await.unwrap(), "hello", "{text}");
    }
    assert_eq!(fetch(policy, &format!("file://{base}/in/a%20b.png")).await.unwrap(), "hello");
}

#[tokio::test]
async fn nothing_leads_out_of_the_folder_nor_tells_what_is_outside() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("in");
    std::fs::create_dir_all(inside.join("deep")).unwrap();
    std::fs::create_dir(dir.path().join("in-too")).unwrap();
    for secret in ["secret", "in-too/secret"] {
        std::fs::write(dir.path().join(secret), "secret").unwrap();
    }
    std::os::unix::fs::symlink(dir.path().join("secret"), inside.join("link")).unwrap();
    std::os::unix::fs::symlink(dir.path(), inside.join("up")).unwrap();
    let base = shown(dir.path());
    for text in [
        "/secret",
        "/in/../secret",
        "/in/deep/../../secret",
        "/in/link",
        "/in/up/secret",
        "/in-too/secret",
        "/none",
        "/in/../none",
        "/in/up/none",
        "/in-too/none/none",
    ] {
        refused(fetch(folder(&inside), &format!("{base}{text}")).await, "not inside the folder");
    }
}

#[tokio::test]
async fn missing_files_are_the_clients_fault() {
    let dir = tempfile::tempdir().unwrap();
    unreachable(fetch(folder(dir.path()), shown(&dir.path().join("a/b.png"))).await, "cannot be read");
}

#[tokio::test]
async fn only_regular_files_are_read_and_none_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let name = std::ffi::CString::new(shown(&fifo)).unwrap();
    // SAFETY: the name is a string with its zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    refused(fetch(folder(dir.path()), shown(&fifo)).await, "no regular file");
    refused(fetch(folder(dir.path()), shown(dir.path())).await, "no regular file");
    refused(fetch(folder(Path::new("/dev")), "/dev/zero").await, "no regular file");
}

#[tokio::test]
async fn the_limit_holds_for_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, vec![0; MIB + 1]).unwrap();
    let result = fetch(folder(dir.path()), shown(&path)).await;
    assert_eq!(result, Err(MediaError::TooManyBytes { limit_mib: 1 }));
}

#[test]
fn a_folder_that_is_missing_is_the_operators_mistake() {
    assert!(matches!(Fetcher::new(folder(Path::new("/does/not/exist"))), Err(MediaError::Client(_))));
}
