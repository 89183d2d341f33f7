//! From what was typed to what it means: flags over the original's variables over defaults.

use super::flags::{ImageReading, ServeFlags};
use super::{Backend, Config, ConfigError, Origin, Source};
use ocelli_engine::DType;
use ocelli_media::ReadingMode;
use serde_json::Value;
use std::cell::RefCell;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;
/// Time-outs beyond a week are mistakes in the unit.
const MAX_SECONDS: f64 = 7.0 * 24.0 * 3600.0;

/// Looks values up, in order, and remembers where each came from.
struct Merge<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    origins: RefCell<Vec<Origin>>,
}

impl Merge<'_> {
    fn note(&self, flag: &'static str, value: impl Display, source: Source) {
        self.origins.borrow_mut().push(Origin { flag, value: value.to_string(), source });
    }

    /// A flag without a variable.
    fn plain<T: Display>(&self, flag: &'static str, typed: Option<T>, default: T) -> T {
        let source = if typed.is_some() { Source::Flag } else { Source::Default };
        let value = typed.unwrap_or(default);
        self.note(flag, &value, source);
        value
    }

    /// A flag, or a variable of the original.
    fn pick<T: Display + FromStr>(
        &self,
        flag: &'static str,
        variable: &'static str,
        typed: Option<T>,
        default: T,
    ) -> Result<T, ConfigError> {
        let set = (self.environment)(variable).filter(|text| !text.trim().is_empty());
        let (value, source) = match (typed, set) {
            (Some(value), _) => (value, Source::Flag),
            (None, Some(text)) => {
                let wrong = || ConfigError::Invalid(format!("{variable}: `{text}` is no valid value for --{flag}"));
                (text.trim().parse().map_err(|_| wrong())?, Source::Environment(variable))
            }
            (None, None) => (default, Source::Default),
        };
        self.note(flag, &value, source);
        Ok(value)
    }
}

pub(super) fn merge(flags: &ServeFlags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Config, ConfigError> {
    if let Some(why) = flags.compat.refused() {
        return Err(ConfigError::Invalid(why));
    }
    let m = Merge { environment, origins: RefCell::default() };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (model, media, limits) = (&flags.model, &flags.media, &flags.limits);
    let (batching, timeouts) = (&flags.batching, &flags.timeouts);

    let path = model.model_path.display().to_string();
    m.note("model-path", &path, Source::Flag);
    check_device(&m.plain("device", model.device.clone(), "auto".into()))?;
    check_processor(&m.plain("image-processor-backend", model.image_processor_backend.clone(), "auto".into()))?;
    let reading = match media.image_reading {
        Some(ImageReading::AsSglang) => "as-sglang",
        Some(ImageReading::AsViewed) | None => "as-viewed",
    };
    m.note("image-reading", reading, if media.image_reading.is_some() { Source::Flag } else { Source::Default });
    list(&m, "allowed-destinations", &flags.delivery.allowed_destinations);
    list(&m, "allowed-media-domains", &media.allowed_media_domains);
    let local = media.allowed_local_media_path.as_ref().map(|p| p.display().to_string());
    m.plain("allowed-local-media-path", local, "none".into());
    m.plain("allow-private-media-addresses", media.allow_private_media_addresses.then_some(true), false);

    let config = Config {
        model_path: model.model_path.clone(),
        served_model_name: m.plain("served-model-name", model.served_model_name.clone(), path),
        dtype: dtype(&m.plain("dtype", model.dtype.clone(), "auto".into()))?,
        image_config: image_config(model.mm_process_config.as_deref(), &m)?,
        image_reading: if reading == "as-sglang" { ReadingMode::AsSglang } else { ReadingMode::AsViewed },
        host: m.plain("host", flags.network.host.clone(), "127.0.0.1".into()),
        port: m.plain("port", flags.network.port, 30000),
        backend: backend(&m.plain(
            "encoder-transfer-backend",
            flags.delivery.encoder_transfer_backend.clone(),
            "auto".into(),
        ))?,
        allowed_destinations: flags.delivery.allowed_destinations.clone(),
        allowed_media_domains: media.allowed_media_domains.clone(),
        allowed_local_media_path: media.allowed_local_media_path.clone(),
        allow_private_media_addresses: media.allow_private_media_addresses,
        max_media_bytes: mib(m.plain("media-url-max-file-size-mb", media.media_url_max_file_size_mb, 64)),
        media_timeout: seconds(
            "media-timeout-s",
            m.pick("media-timeout-s", "REQUEST_TIMEOUT", media.media_timeout_s, 3.0)?,
        )?,
        max_image_pixels: positive(
            "max-image-pixels",
            m.plain("max-image-pixels", media.max_image_pixels, 178_956_970),
        )?,
        max_request_body_bytes: mib(positive(
            "max-request-body-mb",
            m.plain("max-request-body-mb", limits.max_request_body_mb, 512),
        )?),
        max_items_per_request: positive(
            "max-items-per-request",
            m.plain("max-items-per-request", limits.max_items_per_request, 512),
        )?,
        max_pending_requests: positive(
            "max-pending-requests",
            m.pick("max-pending-requests", "SGLANG_ENCODER_MAX_PENDING_REQUESTS", limits.max_pending_requests, 2048)?,
        )?,
        max_pending_bytes: positive("max-pending-mb", m.plain("max-pending-mb", limits.max_pending_mb, 4096))?
            .saturating_mul(MIB as usize),
        max_batch_requests: positive(
            "max-batch-size",
            m.pick("max-batch-size", "SGLANG_ENCODER_MAX_BATCH_SIZE", batching.max_batch_size, 8)?,
        )?,
        max_batch_patches: positive(
            "max-batch-patches",
            m.plain("max-batch-patches", batching.max_batch_patches, 32768),
        )?,
        cpu_threads: positive("cpu-threads", m.plain("cpu-threads", model.cpu_threads, cores))?,
        prepare_workers: positive(
            "prepare-workers",
            m.pick("prepare-workers", "SGLANG_ENCODER_PREPROC_WORKERS", limits.prepare_workers, cores)?,
        )?,
        // the original takes no less than a second
        encode_timeout: seconds(
            "encode-timeout-s",
            m.pick("encode-timeout-s", "SGLANG_ENCODER_REQ_TIMEOUT", timeouts.encode_timeout_s, 180.0)?.max(1.0),
        )?,
        send_timeout: seconds(
            "send-timeout-s",
            m.pick("send-timeout-s", "SGLANG_ENCODER_SEND_TIMEOUT", timeouts.send_timeout_s, 180.0)?,
        )?,
        health_stall: seconds("health-stall-s", m.plain("health-stall-s", timeouts.health_stall_s, 30.0))?,
        drain_timeout: seconds("drain-timeout", m.plain("drain-timeout", timeouts.drain_timeout, 30.0))?,
        ignored: flags.compat.ignored(),
        origins: Vec::new(),
    };
    Ok(Config { origins: m.origins.into_inner(), ..config })
}

fn list<T: Display>(m: &Merge<'_>, flag: &'static str, values: &[T]) {
    let text = values.iter().map(T::to_string).collect::<Vec<_>>().join(" ");
    m.plain(flag, (!values.is_empty()).then_some(text), "any".into());
}

fn check_device(device: &str) -> Result<(), ConfigError> {
    match device {
        "auto" | "cpu" => Ok(()),
        cuda if cuda == "cuda" || cuda.starts_with("cuda:") => {
            Err(ConfigError::Invalid(format!("--device {cuda}: this version has no CUDA engine; use cpu or auto")))
        }
        other => Err(ConfigError::Invalid(format!("--device {other}: expected auto or cpu"))),
    }
}

fn check_processor(name: &str) -> Result<(), ConfigError> {
    match name {
        "auto" | "torchvision" => Ok(()),
        "pil" => Err(ConfigError::Invalid(
            "--image-processor-backend pil: only the torchvision way of resizing is in this version".into(),
        )),
        other => Err(ConfigError::Invalid(format!("--image-processor-backend {other}: expected auto or torchvision"))),
    }
}

fn dtype(name: &str) -> Result<Option<DType>, ConfigError> {
    match (name, DType::from_name(name)) {
        ("auto", _) => Ok(None),
        (_, Some(dtype @ (DType::F32 | DType::BF16))) => Ok(Some(dtype)),
        (_, Some(DType::F16)) => {
            Err(ConfigError::Invalid(format!("--dtype {name}: not on the CPU; use float32 or bfloat16")))
        }
        (_, None) => Err(ConfigError::Invalid(format!("--dtype {name}: expected auto, float32 or bfloat16"))),
    }
}

fn backend(name: &str) -> Result<Backend, ConfigError> {
    match name {
        "auto" | "zmq_to_scheduler" => Ok(Backend::ZmqToScheduler),
        "zmq_to_tokenizer" => Ok(Backend::ZmqToTokenizer),
        "mooncake" => Err(ConfigError::Invalid(
            "--encoder-transfer-backend mooncake: not in this version; use zmq_to_scheduler or zmq_to_tokenizer".into(),
        )),
        other => Err(ConfigError::Invalid(format!(
            "--encoder-transfer-backend {other}: expected auto, zmq_to_scheduler or zmq_to_tokenizer"
        ))),
    }
}

/// The `image` object of `{"vision_config":{"image":{…}}}`: the place where the original's encoder reads it.
fn image_config(text: Option<&str>, m: &Merge<'_>) -> Result<Option<Value>, ConfigError> {
    m.plain("mm-process-config", text.map(str::to_owned), "none".into());
    let Some(text) = text else { return Ok(None) };
    let wrong = |why: &str| ConfigError::Invalid(format!("--mm-process-config: {why}"));
    let value: Value = serde_json::from_str(text).map_err(|e| wrong(&format!("not JSON: {e}")))?;
    let object = value.as_object().ok_or_else(|| wrong("not a JSON object"))?;
    if let Some(key) = ["image", "video", "audio"].into_iter().find(|key| object.contains_key(*key)) {
        let example = r#"{"vision_config":{"image":{…}}}"#;
        return Err(wrong(&format!("`{key}` must be inside vision_config, as in {example}")));
    }
    match object.get("vision_config").map(|vision| vision.get("image")) {
        None | Some(None) => Ok(None),
        Some(Some(image)) if image.is_object() => Ok(Some(image.clone())),
        Some(Some(_)) => Err(wrong("vision_config.image is not an object")),
    }
}

fn mib(count: u64) -> u64 {
    count.saturating_mul(MIB)
}

fn positive<T: Default + PartialEq>(flag: &str, value: T) -> Result<T, ConfigError> {
    if value == T::default() {
        return Err(ConfigError::Invalid(format!("--{flag} must be at least 1")));
    }
    Ok(value)
}

fn seconds(flag: &str, value: f64) -> Result<Duration, ConfigError> {
    if value > 0.0 && value <= MAX_SECONDS {
        return Ok(Duration::from_secs_f64(value));
    }
    Err(ConfigError::Invalid(format!("--{flag}: {value} is not between 0 and {MAX_SECONDS} seconds")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &[&str], environment: &[(&str, &str)]) -> Result<Config, String> {
        let line = ["ocelli", "serve", "--model-path", "m"].iter().chain(flags);
        let lookup = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::from_command_line(line, &lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn flags_win_over_variables_and_those_over_defaults() {
        let variable =
            [("SGLANG_ENCODER_MAX_BATCH_SIZE", "3"), ("SGLANG_ENCODER_SEND_TIMEOUT", "7.5"), ("REQUEST_TIMEOUT", "4")];
        let config = read(&[], &[]).unwrap();
        assert_eq!((config.max_batch_requests, config.send_timeout), (8, Duration::from_secs(180)));
        let config = read(&[], &variable).unwrap();
        assert_eq!((config.max_batch_requests, config.send_timeout), (3, Duration::from_millis(7500)));
        assert_eq!(config.media_timeout, Duration::from_secs(4));
        let config = read(&["--max-batch-size", "5"], &variable).unwrap();
        assert_eq!(config.max_batch_requests, 5);
        let source = |flag: &str| config.origins.iter().find(|o| o.flag == flag).map(|o| o.source);
        assert_eq!(source("max-batch-size"), Some(Source::Flag));
        assert_eq!(source("send-timeout-s"), Some(Source::Environment("SGLANG_ENCODER_SEND_TIMEOUT")));
        assert_eq!(source("port"), Some(Source::Default));
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
        let cases: &[Case<'_>] = &[
            (&[], &[("SGLANG_ENCODER_REQ_TIMEOUT", "soon")], "SGLANG_ENCODER_REQ_TIMEOUT: `soon`"),
            (&["--send-timeout-s", "0"], &[], "--send-timeout-s: 0 is not between"),
            (&["--send-timeout-s", "NaN"], &[], "--send-timeout-s"),
            (&["--max-batch-size", "0"], &[], "--max-batch-size must be at least 1"),
            (&["--device", "cuda:1"], &[], "no CUDA engine"),
            (&["--dtype", "half"], &[], "--dtype half"),
            (&["--dtype", "int8"], &[], "expected auto, float32 or bfloat16"),
            (&["--encoder-transfer-backend", "mooncake"], &[], "mooncake: not in this version"),
            (&["--mm-process-config", "{"], &[], "not JSON"),
            (&["--mm-process-config", r#"{"image":{}}"#], &[], "must be inside vision_config"),
            (&["--tp-size", "2"], &[], "--tp-size: several devices"),
            (&["--enable-metrics"], &[], "--enable-metrics: /metrics is not in this version"),
        ];
        for (flags, environment, sentence) in cases {
            let why = read(flags, environment).err().unwrap_or_else(|| panic!("accepted: {flags:?}"));
            assert!(why.contains(sentence), "{why}");
        }
    }

    #[test]
    fn the_originals_flags_without_effect_are_accepted_and_named() {
        let config =
            read(&["--encoder-only", "--trust-remote-code", "--tp-size", "1", "--mem-fraction-static", "0.8"], &[])
                .unwrap();
        assert_eq!(config.ignored, ["--trust-remote-code", "--mem-fraction-static"]);
    }

    #[test]
    fn the_image_overrides_are_taken_from_where_the_original_reads_them() {
        let config = read(&["--mm-process-config", r#"{"vision_config":{"image":{"max_pixels":9}}}"#], &[]).unwrap();
        assert_eq!(config.image_config, Some(serde_json::json!({"max_pixels": 9})));
    }
}
