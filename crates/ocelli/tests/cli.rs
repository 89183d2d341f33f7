//! The program as an operator meets it: help, wrong command lines, start-up failures, signals.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn ocelli(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ocelli")).args(args).output().expect("runs")
}

fn checkpoints() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoints")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_is_a_page_and_names_every_flag_with_its_default() {
    let page = String::from_utf8(ocelli(&["--help"]).stdout).unwrap();
    assert!(page.contains("serve") && page.contains("demo") && page.contains("Example"), "{page}");
    let serve = String::from_utf8(ocelli(&["serve", "--help"]).stdout).unwrap();
    for flag in [
        "--model-path",
        "--host",
        "--port",
        "--device",
        "--dtype",
        "--encoder-transfer-backend",
        "--allowed-destinations",
        "--image-reading",
        "--allowed-media-domains",
        "--allow-private-media-addresses",
        "--allowed-local-media-path",
        "--media-url-max-file-size-mb",
        "--max-image-pixels",
        "--max-request-body-mb",
        "--max-pending-requests",
        "--max-batch-size",
        "--encode-timeout-s",
        "--send-timeout-s",
        "--drain-timeout",
        "--log-format",
        "--mm-process-config",
    ] {
        assert!(serve.contains(flag), "{flag} has no help");
    }
    assert!(serve.matches("[default").count() >= 20, "flags without defaults in their help");
}

#[test]
fn the_page_of_flags_in_the_docs_is_this_help() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    let help = String::from_utf8(ocelli(&["serve", "--help"]).stdout).unwrap();
    let page = format!(
        "# Flags of `ocelli serve`\n\nGenerated: `OCELLI_UPDATE_DOCS=1 cargo test -p ocelli --test cli`.\n\n```\n{}\n```\n",
        help.trim_end()
    );
    if std::env::var_os("OCELLI_UPDATE_DOCS").is_some() {
        std::fs::write(&file, &page).expect("write");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page, "docs/flags.md is out of date");
}

#[test]
fn wrong_command_lines_get_one_sentence_and_exit_2() {
    let model = checkpoints().join("qwen2_5_vl");
    let model = model.to_str().unwrap();
    for (args, sentence) in [
        (vec!["serve"], "--model-path"),
        (vec!["serve", "--model-path", model, "--prot", "1"], "--prot"),
        (vec!["serve", "--model-path", model, "--port", "70000"], "70000"),
        (vec!["serve", "--model-path", model, "--dtype", "int4"], "--dtype int4: expected auto, float32 or bfloat16"),
        (vec!["serve", "--model-path", model, "--device", "cuda"], "no CUDA engine"),
        (vec!["serve", "--model-path", model, "--allowed-destinations", "10.0.0.0/99"], "10.0.0.0/99"),
        (vec!["serve", "--model-path", model, "--log-level", "loud"], "--log-level loud"),
        (vec!["serve", "--model-path", model, "--dp-size", "4"], "--dp-size"),
        (vec!["serve", "--model-path", model, "--enable-mm-global-cache"], "caches are not in this version"),
        (vec!["fly"], "fly"),
    ] {
        let output = ocelli(&args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("backtrace"), "{said}");
    }
}

/// What cannot be served ends with exit code 1 and one line that names the file, the tensor or the port.
#[test]
fn what_cannot_be_served_is_said_in_one_sentence_with_exit_1() {
    let scratch = tempfile::tempdir().unwrap();
    let copy = |name: &str| {
        let dir = scratch.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        for file in std::fs::read_dir(checkpoints().join("qwen2_5_vl")).unwrap() {
            let file = file.unwrap().path();
            std::fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
        }
        dir
    };
    let truncated = copy("truncated");
    let weights = std::fs::read(truncated.join("model.safetensors")).unwrap();
    std::fs::write(truncated.join("model.safetensors"), &weights[..weights.len() / 2]).unwrap();
    let unknown = copy("unknown");
    let config = std::fs::read_to_string(unknown.join("config.json")).unwrap();
    std::fs::write(
        unknown.join("config.json"),
        config.replace("Qwen2_5_VLForConditionalGeneration", "Qwen9VLForConditionalGeneration"),
    )
    .unwrap();
    let other_type = copy("other-type");
    std::fs::write(other_type.join("config.json"), config.replace("\"qwen2_5_vl\"", "\"qwen9_vl\"")).unwrap();
    let wider = copy("wider");
    std::fs::write(
        wider.join("config.json"),
        config.replace("\"intermediate_size\": 204", "\"intermediate_size\": 208"),
    )
    .unwrap();
    let weightless = copy("weightless");
    std::fs::remove_file(weightless.join("model.safetensors")).unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy_port = busy.local_addr().unwrap().port().to_string();
    let good = copy("good");
    let missing = scratch.path().join("missing");
    for (dir, extra, words) in [
        (&missing, vec![], vec!["missing", "config.json"]),
        (&truncated, vec![], vec!["model.safetensors"]),
        (&unknown, vec![], vec!["Qwen9VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"]),
        (&other_type, vec![], vec!["qwen9_vl"]),
        (&wider, vec![], vec!["mlp", "208"]),
        (&weightless, vec![], vec!["safetensors"]),
        (&good, vec!["--port", &busy_port], vec!["cannot listen", &busy_port]),
        (&good, vec!["--host", "203.0.113.7"], vec!["cannot listen", "203.0.113.7"]),
    ] {
        let mut args = vec!["serve", "--model-path", dir.to_str().unwrap(), "--log-level", "error"];
        if !extra.contains(&"--port") {
            args.extend(["--port", "0"]);
        }
        args.extend(&extra);
        let output = ocelli(&args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "one sentence: {said}");
        for word in words {
            assert!(said.contains(word), "{args:?}: no `{word}` in: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn print_config_says_what_is_in_force_and_where_it_came_from() {
    let output = Command::new(env!("CARGO_BIN_EXE_ocelli"))
        .args(["serve", "--model-path", "m", "--port", "7", "--print-config"])
        .env("SGLANG_ENCODER_MAX_BATCH_SIZE", "3")
        .env_remove("SGLANG_ENCODER_REQ_TIMEOUT")
        .output()
        .unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    let line = |flag: &str| {
        page.lines()
            .find(|l| l.split_whitespace().next() == Some(flag))
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(line("port").as_deref(), Some("port 7 (flag)"));
    assert_eq!(line("max-batch-size").as_deref(), Some("max-batch-size 3 (environment SGLANG_ENCODER_MAX_BATCH_SIZE)"));
    assert_eq!(line("encode-timeout-s").as_deref(), Some("encode-timeout-s 180 (default)"));
}

/// A server as a process of its own; killed when dropped.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(extra: &[&str]) -> Self {
        let model = checkpoints().join("qwen2_5_vl");
        let mut child = Command::new(env!("CARGO_BIN_EXE_ocelli"))
            .args(["serve", "--model-path", model.to_str().unwrap(), "--port", "0", "--log-format", "json"])
            .args(extra)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let ready = lines.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.ok()?).ok()?;
            (line["message"] == "ready").then(|| line["address"].as_str().map(str::to_owned))?
        });
        // what it says later must not fill the pipe
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: ready.expect("a line that says ready, with its address") }
    }

    fn signal(&self, name: &str) {
        let done =
            Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().expect("kill");
        assert!(done.success());
    }

    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the process does not end");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connect");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("write");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn sigterm_and_sigint_end_an_idle_server_with_exit_code_0() {
    for name in ["TERM", "INT"] {
        let mut server = Process::start(&["--encoder-only", "--trust-remote-code"]);
        assert!(get(&server.address, "/health").starts_with("HTTP/1.1 200"));
        server.signal(name);
        assert_eq!(server.exit_code(), Some(0), "SIG{name}");
    }
}

#[test]
fn a_second_signal_ends_a_draining_server_at_once() {
    let mut server = Process::start(&["--drain-timeout", "600"]);
    // a request whose destination never registers keeps the drain waiting
    let picture = std::fs::read(checkpoints().join("../media/size_27x29.png")).unwrap();
    use base64::Engine as _;
    let picture = base64::engine::general_purpose::STANDARD.encode(picture);
    let body =
        serde_json::json!({"req_id": "x", "modality": "IMAGE", "mm_items": [picture], "num_parts": 1, "part_idx": 0})
            .to_string();
    let mut open = TcpStream::connect(&server.address).unwrap();
    write!(open, "POST /encode HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    while !get(&server.address, "/model_info").contains("\"active\":1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.signal("TERM");
    while !get(&server.address, "/health").starts_with("HTTP/1.1 503") {
        std::thread::sleep(Duration::from_millis(5));
    }
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(130));
}
