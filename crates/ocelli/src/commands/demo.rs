//! `ocelli demo`: the whole path once, on a small checkpoint and a real photograph, told as it happens.
//!
//! The server is this program again, as a process of its own; the receiver is Ocelli's.

use crate::config::DemoFlags;
use ocelli_client::{Backend, Content, EncodeClient, EncodeRequest, Grids, Received, Receivers, encode_and_receive};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, ChildStderr, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Nothing of the demo takes longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// float32 against float32: what two right implementations differ by (tests/golden: 2e-4 and 2e-5).
const MAX_ABS: f64 = 2e-4;
const REL_L2: f64 = 2e-5;

/// What can go wrong with a demo.
#[derive(Debug, Error)]
enum DemoError {
    #[error("{0}: {1}")]
    File(String, String),
    #[error("the server did not start: {0}")]
    Start(String),
    #[error("the request failed: {0}")]
    Request(#[from] ocelli_client::ClientError),
    #[error("{0}")]
    Wrong(String),
}

/// Runs it; 0 when the rows are right and the server left in order.
pub fn main(flags: &DemoFlags) -> ExitCode {
    let told = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match told {
        Ok(runtime) => runtime.block_on(tell(flags)),
        Err(why) => Err(DemoError::Start(why.to_string())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("ocelli demo: {why}");
            ExitCode::FAILURE
        }
    }
}

async fn tell(flags: &DemoFlags) -> Result<(), DemoError> {
    let photo = read(&flags.photo)?;
    let right = Right::read(&flags.expect)?;
    println!("Ocelli runs the vision tower of a model and sends what it sees to the servers that asked.\n");

    println!("1. start a server on a small checkpoint (Qwen2.5-VL's layout, random weights)");
    println!("   ocelli serve --model-path {} --dtype float32", flags.model_path.display());
    let mut server = Served::start(flags)?;
    println!("   healthy after {:.2} s at http://{}\n", server.ready_after.as_secs_f64(), server.address);

    println!("2. post a photograph: {} ({} kB)", flags.photo.display(), photo.len() / 1000);
    let client = EncodeClient::new(&format!("http://{}", server.address), PATIENCE)?;
    let mut receiver = Receivers::new().bind(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    println!("   POST /encode, and POST /scheduler_receive_url for the socket {}", receiver.destination());
    let request = EncodeRequest::images("demo_local_part_0", vec![json!(data_url(&photo))]);
    let began = Instant::now();
    let received = encode_and_receive(&client, &mut receiver, Backend::ZmqToScheduler, &request, PATIENCE).await?;
    let took = received.at.duration_since(began);

    println!("\n3. received over ZMQ after {:.1} ms", took.as_secs_f64() * 1e3);
    let line = server.request_line()?;
    print_stages(&line);
    let rows = check_shape(&received, &right)?;

    println!("\n4. compare with the rows that transformers computes: {}", flags.expect.display());
    let (max, rel) = right.distance(&rows);
    println!("   largest difference {max:.1e} (allowed {MAX_ABS:.0e}), relative {rel:.1e} (allowed {REL_L2:.0e})");
    if max > MAX_ABS || rel > REL_L2 {
        return Err(DemoError::Wrong("the rows are not the right ones".into()));
    }
    println!("   they are the same\n");

    println!("5. stop: SIGTERM");
    let stopping = Instant::now();
    let code = server.stop()?;
    println!(
        "   the server finished what it had and left with exit code {code} after {:.2} s",
        stopping.elapsed().as_secs_f64()
    );
    if code != 0 {
        return Err(DemoError::Wrong("the server did not leave in order".into()));
    }
    println!("\nNext: ocelli serve --help, or README.md");
    Ok(())
}

/// The stages of the path, as the server's own log line has them.
fn print_stages(line: &Value) {
    let ms = |key: &str| line[key].as_f64().unwrap_or_default();
    for (stage, key, what) in [
        ("fetch", "fetch_ms", "base64 to bytes"),
        ("decode", "decode_ms", "JPEG to pixels"),
        ("preprocess", "process_ms", "resize, cut into patches"),
        ("queue", "queue_ms", "wait for the device"),
        ("forward", "forward_ms", "patches to rows"),
        ("deliver", "deliver_ms", "rows to the socket"),
    ] {
        println!("   {stage:<11}{:>8.2} ms   {what}", ms(key));
    }
    println!("   {} patches became {} rows (tokens of the language model)", line["patches"], line["rows"]);
}

fn check_shape(received: &Received, right: &Right) -> Result<Vec<f32>, DemoError> {
    let Content::Rows { grids: Grids::Thw(grids), rows, columns, .. } = &received.header.content else {
        return Err(DemoError::Wrong("no picture's rows arrived".into()));
    };
    let grid: Vec<String> = grids.iter().map(|g| format!("{} x {} x {}", g.t, g.h, g.w)).collect();
    println!(
        "   grid (t x h x w) {}, embedding [{rows}, {columns}] float32, {} kB",
        grid.join(", "),
        received.payload().len() / 1000
    );
    if [*rows, *columns] != right.shape[..] {
        return Err(DemoError::Wrong(format!("the shape should be {:?}", right.shape)));
    }
    Ok(received.payload().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

/// The right rows.
struct Right {
    rows: Vec<f32>,
    shape: Vec<usize>,
}

impl Right {
    fn read(file: &std::path::Path) -> Result<Self, DemoError> {
        let bytes = read(file)?;
        let wrong = |why: safetensors::SafeTensorError| DemoError::File(file.display().to_string(), why.to_string());
        let tensors = SafeTensors::deserialize(&bytes).map_err(wrong)?;
        let rows = tensors.tensor("embeddings").map_err(wrong)?;
        let values = rows.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        Ok(Self { rows: values, shape: rows.shape().to_vec() })
    }

    /// Largest difference, and the difference relative to the right rows in the L2 norm.
    fn distance(&self, got: &[f32]) -> (f64, f64) {
        let (mut max, mut square, mut norm) = (0.0f64, 0.0, 0.0);
        for (got, right) in got.iter().zip(&self.rows) {
            let d = f64::from(*got) - f64::from(*right);
            max = if d.is_nan() { f64::INFINITY } else { max.max(d.abs()) };
            square += d * d;
            norm += f64::from(*right).powi(2);
        }
        (max, (square / norm.max(f64::MIN_POSITIVE)).sqrt())
    }
}

/// The server as a process; killed when dropped.
struct Served {
    child: Child,
    lines: Channel<Value>,
    address: String,
    ready_after: Duration,
}

impl Served {
    fn start(flags: &DemoFlags) -> Result<Self, DemoError> {
        let failed = |why: std::io::Error| DemoError::Start(why.to_string());
        let began = Instant::now();
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .args(["serve", "--port", "0", "--dtype", "float32", "--log-format", "json", "--model-path"])
            .arg(&flags.model_path)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stderr = child.stderr.take().ok_or_else(|| DemoError::Start("it has no standard error".into()))?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let lines: Lines<BufReader<ChildStderr>> = BufReader::new(stderr).lines();
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "message": line }));
                if send.send(value).is_err() {
                    return;
                }
            }
        });
        let mut served = Self { child, lines, address: String::new(), ready_after: Duration::ZERO };
        let ready = served.line("ready")?;
        served.ready_after = began.elapsed();
        served.address = ready["address"].as_str().unwrap_or_default().to_owned();
        Ok(served)
    }

    /// The next log line with this message.
    fn line(&self, message: &str) -> Result<Value, DemoError> {
        let mut last = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE).map_err(|_| DemoError::Start(last.clone()))?;
            if line["message"] == message {
                return Ok(line);
            }
            last = line["message"].as_str().unwrap_or_default().to_owned();
        }
    }

    fn request_line(&self) -> Result<Value, DemoError> {
        self.line("request")
    }

    fn stop(&mut self) -> Result<i32, DemoError> {
        let wrong = |why: std::io::Error| DemoError::Wrong(format!("stopping the server: {why}"));
        // the standard library can only kill; `kill` is on every Unix
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().map_err(wrong)?;
        let status = self.child.wait().map_err(wrong)?;
        status.code().ok_or_else(|| DemoError::Wrong("the server was killed".into()))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(file: &std::path::Path) -> Result<Vec<u8>, DemoError> {
    std::fs::read(file).map_err(|why| DemoError::File(file.display().to_string(), why.to_string()))
}

fn data_url(jpeg: &[u8]) -> String {
    use base64::Engine as _;
    format!("data:image/jpeg;base64,{}", base64::engine::general_purpose::STANDARD.encode(jpeg))
}
