//! The forms that inline data may have, against what the reference does with them.

use ocelli_core::Modality;
use ocelli_media::{FetchPolicy, Fetcher, MediaError, Source};
use std::path::Path;

async fn fetch(policy: FetchPolicy, text: &str) -> Result<bytes::Bytes, MediaError> {
    Fetcher::new(policy)?.fetch(&Source::parse(text, Modality::Image)?).await
}

#[tokio::test]
async fn inline_data_is_read_as_the_reference_reads_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/media/data_uris.json");
    let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let (name, right) = (case["name"].as_str().unwrap(), &case["sglang"]);
        let got = fetch(FetchPolicy { max_bytes: 1, ..FetchPolicy::default() }, case["uri"].as_str().unwrap()).await;
        if right["ok"] == true {
            let hash = format!("sha256:{}", right["payload_sha256"].as_str().unwrap());
            let bytes = got.unwrap_or_else(|why| panic!("{name}: {why}"));
            ocelli_media::verify_content_hash(&bytes, &hash).unwrap_or_else(|why| panic!("{name}: {why}"));
        } else if name == "not_an_image" {
            assert_eq!(got.unwrap(), "hello", "the decoder's to refuse");
        } else {
            assert!(matches!(got, Err(MediaError::Source(_))), "{name}: {got:?}");
        }
    }
}
