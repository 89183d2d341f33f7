//! The rules of the house that a machine can check: arrows, sizes, unsafe, the environment, ignored tests.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate may depend on of ours, tests included.
const ARROWS: &[(&str, &[&str])] = &[
    ("ocelli-core", &[]),
    ("ocelli-engine", &[]),
    ("ocelli-models", &["ocelli-core", "ocelli-engine", "ocelli-media"]), // media: its tests decode the goldens
    ("ocelli-media", &["ocelli-core"]),
    ("ocelli-delivery", &["ocelli-core", "ocelli-client"]), // client: its tests read what was written
    ("ocelli-client", &["ocelli-core"]),
    ("ocelli", &["ocelli-core", "ocelli-engine", "ocelli-models", "ocelli-media", "ocelli-delivery", "ocelli-client"]),
];

/// Longest source file; longer ones are named here with their reason.
const MAX_LINES: usize = 500;
const LONGER: &[(&str, &str)] = &[];

/// Where `unsafe` may be: SIMD and memory maps, libzmq's frames, the C JPEG decoder.
const UNSAFE_ROOMS: &[&str] =
    &["crates/ocelli-engine/src", "crates/ocelli-delivery/src", "crates/ocelli-media/src/image/jpeg"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("workspace")
}

fn sources() -> BTreeMap<String, String> {
    let (root, mut found, mut folders) = (root(), BTreeMap::new(), vec![root().join("crates")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("folder") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let name = path.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
                found.insert(name, std::fs::read_to_string(&path).expect("source"));
            }
        }
    }
    assert!(found.len() > 30, "the sources were not found");
    found
}

#[test]
fn arrows_point_down() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("metadata");
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), ARROWS.len(), "a crate has no entry in ARROWS");
    for package in packages {
        let name = package["name"].as_str().expect("name");
        let (_, allowed) = ARROWS.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} has no entry"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("name");
            let testing = dependency["kind"] == "dev";
            let only_in_tests =
                matches!((name, to), ("ocelli-models", "ocelli-media") | ("ocelli-delivery", "ocelli-client"));
            if to.starts_with("ocelli") {
                assert!(allowed.contains(&to), "{name} must not know {to}");
                assert!(!only_in_tests || testing, "{name} may know {to} in its tests only");
            }
        }
    }
}

#[test]
fn no_file_has_grown_past_its_subject() {
    for (name, text) in sources() {
        let lines = text.lines().count();
        let excused =
            LONGER.iter().any(|(file, _)| *file == name) || name.contains("/tests/") || name.contains("/flags/");
        assert!(lines <= MAX_LINES || excused, "{name} has {lines} lines; the limit is {MAX_LINES}");
    }
}

#[test]
fn unsafe_stays_in_its_rooms_and_says_why() {
    for (name, text) in sources() {
        if name.ends_with("house.rs") {
            continue;
        }
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !code.contains("unsafe {") && !code.contains("unsafe impl") {
                continue;
            }
            let here = format!("{name}:{}", at + 1);
            let room = UNSAFE_ROOMS.iter().any(|room| name.starts_with(room))
                || name.contains("/tests/")
                || name.contains("/benches/");
            assert!(room, "{here}: unsafe outside its rooms");
            let said = lines[at.saturating_sub(12)..=at].iter().any(|l| l.contains("SAFETY"));
            assert!(said || !room || name.contains("/benches/"), "{here}: unsafe without a SAFETY comment");
        }
    }
    for crate_name in ["ocelli-core", "ocelli-models", "ocelli"] {
        let lib = std::fs::read_to_string(root().join(format!("crates/{crate_name}/src/lib.rs"))).expect("lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{crate_name} forbids unsafe code");
    }
}

#[test]
fn only_config_reads_the_environment() {
    for (name, text) in sources() {
        let allowed = name.starts_with("crates/ocelli/src/config/")
            || name.ends_with("/main.rs")
            || ["/tests/", "/benches/", "build.rs"].iter().any(|part| name.contains(part));
        let reads = text.lines().filter(|l| !l.trim_start().starts_with("//")).any(|l| l.contains("env::var"));
        assert!(allowed || !reads, "{name} reads the environment; options are values handed down from config");
    }
}

#[test]
fn a_test_that_is_not_run_says_what_it_needs() {
    for (name, text) in sources() {
        for (at, line) in text.lines().enumerate() {
            let bare = line.trim() == concat!("#[", "ignore]");
            assert!(!bare, "{name}:{}: an ignored test must say `ignore = \"needs …\"`", at + 1);
        }
    }
}

#[test]
fn a_task_has_an_owner() {
    for (name, text) in sources() {
        if !name.starts_with("crates/ocelli/src/") {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let bare = line.contains("tokio::spawn(") && !line.contains("let ");
            let excused = name.ends_with("api/server.rs"); // connections: owned by the graceful-shutdown watcher
            assert!(!bare || excused, "{name}:{}: spawn on a tracker, or keep the handle", at + 1);
        }
    }
}
