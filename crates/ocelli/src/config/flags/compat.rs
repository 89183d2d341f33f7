//! Flags of the original that change nothing here, or that this version cannot honour. They are parsed so
//! that the answer is ours: the first are named in the log, the second refused in one sentence.

use clap::Args;

/// The original's flags that need no value of ours.
#[derive(Debug, Args)]
#[command(next_help_heading = "Compatibility")]
pub struct CompatFlags {
    /// Accepted: this server is never anything else
    #[arg(long)]
    pub encoder_only: bool,

    // ---- accepted without effect: Python's loading, or not read by the original's encoder either ----
    #[arg(long, hide = true)]
    trust_remote_code: bool,
    #[arg(long, hide = true)]
    tokenizer_path: Option<String>,
    #[arg(long, hide = true)]
    tokenizer_mode: Option<String>,
    #[arg(long, hide = true)]
    load_format: Option<String>,
    #[arg(long, hide = true)]
    revision: Option<String>,
    #[arg(long, hide = true)]
    context_length: Option<String>,
    #[arg(long, hide = true)]
    mem_fraction_static: Option<String>,
    #[arg(long, hide = true)]
    mm_attention_backend: Option<String>,
    #[arg(long, hide = true)]
    attention_backend: Option<String>,
    #[arg(long, hide = true)]
    mm_feature_transport: Option<String>,
    #[arg(long, hide = true)]
    limit_mm_data_per_request: Option<String>,
    #[arg(long, hide = true)]
    mm_io_worker_num: Option<String>,
    #[arg(long, hide = true)]
    mm_processor_worker_num: Option<String>,
    #[arg(long, hide = true)]
    mm_preprocess_cache_size_mb: Option<String>,
    #[arg(long, hide = true)]
    base_gpu_id: Option<String>,
    #[arg(long, hide = true)]
    disable_radix_cache: bool,
    #[arg(long, hide = true)]
    disable_cuda_graph: bool,
    #[arg(long, hide = true)]
    skip_server_warmup: bool,
    #[arg(long, hide = true)]
    random_seed: Option<String>,
    #[arg(long, hide = true)]
    chunked_prefill_size: Option<String>,
    #[arg(long, hide = true)]
    watchdog_timeout: Option<String>,

    // ---- refused: features that are not in this version ----
    #[arg(long, hide = true)]
    tp_size: Option<u32>,
    #[arg(long, hide = true)]
    dp_size: Option<u32>,
    #[arg(long, hide = true)]
    language_only: bool,
    #[arg(long, hide = true)]
    enable_metrics: bool,
    #[arg(long, hide = true)]
    enable_trace: bool,
    #[arg(long, hide = true, num_args = 1..)]
    encoder_register_urls: Vec<String>,
    #[arg(long, hide = true)]
    enable_prefix_mm_cache: bool,
    #[arg(long, hide = true)]
    enable_mm_global_cache: bool,
    #[arg(long, hide = true)]
    mm_enable_dp_encoder: bool,
    #[arg(long, hide = true)]
    grpc_mode: bool,
    #[arg(long, hide = true)]
    smg_grpc_mode: bool,
    #[arg(long, hide = true)]
    disaggregation_ib_device: Option<String>,
    #[arg(long, hide = true)]
    ssl_certfile: Option<String>,
    #[arg(long, hide = true)]
    ssl_keyfile: Option<String>,
    #[arg(long, hide = true)]
    api_key: Option<String>,
    #[arg(long, hide = true)]
    quantization: Option<String>,
}

impl CompatFlags {
    /// Flags that were given and have no effect.
    pub fn ignored(&self) -> Vec<&'static str> {
        let given = |value: &Option<String>| value.is_some();
        [
            ("--trust-remote-code", self.trust_remote_code),
            ("--tokenizer-path", given(&self.tokenizer_path)),
            ("--tokenizer-mode", given(&self.tokenizer_mode)),
            ("--load-format", given(&self.load_format)),
            ("--revision", given(&self.revision)),
            ("--context-length", given(&self.context_length)),
            ("--mem-fraction-static", given(&self.mem_fraction_static)),
            ("--mm-attention-backend", given(&self.mm_attention_backend)),
            ("--attention-backend", given(&self.attention_backend)),
            ("--mm-feature-transport", given(&self.mm_feature_transport)),
            ("--limit-mm-data-per-request", given(&self.limit_mm_data_per_request)),
            ("--mm-io-worker-num", given(&self.mm_io_worker_num)),
            ("--mm-processor-worker-num", given(&self.mm_processor_worker_num)),
            ("--mm-preprocess-cache-size-mb", given(&self.mm_preprocess_cache_size_mb)),
            ("--base-gpu-id", given(&self.base_gpu_id)),
            ("--disable-radix-cache", self.disable_radix_cache),
            ("--disable-cuda-graph", self.disable_cuda_graph),
            ("--skip-server-warmup", self.skip_server_warmup),
            ("--random-seed", given(&self.random_seed)),
            ("--chunked-prefill-size", given(&self.chunked_prefill_size)),
            ("--watchdog-timeout", given(&self.watchdog_timeout)),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }

    /// The first flag that cannot be honoured, and why.
    pub fn refused(&self) -> Option<String> {
        let parallel = |size: Option<u32>| size.is_some_and(|n| n != 1);
        [
            ("--language-only", self.language_only, "this is an encode server"),
            ("--tp-size", parallel(self.tp_size), "several devices are not in this version; start one server each"),
            ("--dp-size", parallel(self.dp_size), "several devices are not in this version; start one server each"),
            ("--mm-enable-dp-encoder", self.mm_enable_dp_encoder, "several devices are not in this version"),
            ("--enable-metrics", self.enable_metrics, "/metrics is not in this version; the log has a line a request"),
            ("--enable-trace", self.enable_trace, "traces are not in this version; the log has a line a request"),
            (
                "--encoder-register-urls",
                !self.encoder_register_urls.is_empty(),
                "registration is not in this version; give the language server --encoder-urls",
            ),
            ("--enable-prefix-mm-cache", self.enable_prefix_mm_cache, "caches are not in this version"),
            ("--enable-mm-global-cache", self.enable_mm_global_cache, "caches are not in this version"),
            ("--grpc-mode", self.grpc_mode, "gRPC is not in this version"),
            ("--smg-grpc-mode", self.smg_grpc_mode, "gRPC is not in this version"),
            ("--disaggregation-ib-device", self.disaggregation_ib_device.is_some(), "RDMA is not in this version"),
            ("--ssl-certfile", self.ssl_certfile.is_some(), "TLS is not in this version; put a proxy in front"),
            ("--ssl-keyfile", self.ssl_keyfile.is_some(), "TLS is not in this version; put a proxy in front"),
            ("--api-key", self.api_key.is_some(), "keys are not checked by an encode server; put a proxy in front"),
            ("--quantization", self.quantization.is_some(), "quantization is not in this version"),
        ]
        .into_iter()
        .find_map(|(flag, given, why)| given.then(|| format!("{flag}: {why}")))
    }
}
