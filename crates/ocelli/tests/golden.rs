//! One data-driven runner over the goldens: media, preprocessing, towers, hashes.
//!
//! Reads `tests/golden`, or the folder in `OCELLI_GOLDEN_DIR` (same layout). What this version does not
//! support (other families, video, audio) is counted as skipped and named. Run with `--nocapture` for the
//! table and the closing line.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod golden_support;

use golden_support::{Folder, Report, embeddings, hashes, media, preprocess};

#[test]
fn every_golden_of_the_supported_families_holds() {
    let folder = Folder::open();
    let mut report = Report::default();
    media::run(&folder, &mut report);
    preprocess::run(&folder, &mut report);
    embeddings::run(&folder, &mut report);
    hashes::run(&folder, &mut report);
    report.print();
    assert!(report.passed > 0, "no golden was found in {}", folder.root().display());
    assert_eq!(report.failed, 0, "some goldens do not hold, see above");
}
