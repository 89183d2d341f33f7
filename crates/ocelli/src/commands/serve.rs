//! `ocelli serve`: until a signal says otherwise.

use crate::config::{Config, ServeFlags};
use crate::logging;
use crate::start::{self, StartError};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Exit code after a second signal: what was in flight is lost.
const CUT_SHORT: u8 = 130;

/// Exit code for a command line that is wrong, as clap has it.
const USAGE: u8 = 2;

/// Reads the settings and serves.
pub fn main(flags: &ServeFlags) -> ExitCode {
    let config = match Config::from_process(flags) {
        Ok(config) => config,
        Err(why) => return usage(&why.to_string()),
    };
    if flags.print_config {
        print!("{}", config.print());
        return ExitCode::SUCCESS;
    }
    if let Err(why) = logging::init(&flags.logging) {
        return usage(&why);
    }
    run(config)
}

fn usage(why: &str) -> ExitCode {
    eprintln!("ocelli: {why}");
    ExitCode::from(USAGE)
}

/// Starts a server and serves. The first SIGTERM or SIGINT drains, the second ends the process at once.
pub fn run(config: Config) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("ocelli-io").build() {
        Ok(runtime) => runtime,
        Err(why) => return failed(&StartError::Thread(why)),
    };
    let code = runtime.block_on(serve(config));
    // what still blocks a thread (a wedged device, a slow decode) must not keep the process
    runtime.shutdown_background();
    code
}

async fn serve(config: Config) -> ExitCode {
    let signals = signal(SignalKind::terminate()).and_then(|term| Ok((term, signal(SignalKind::interrupt())?)));
    let (mut terminate, mut interrupt) = match signals {
        Ok(both) => both,
        Err(why) => return failed(&StartError::Thread(why)),
    };
    for flag in &config.ignored {
        tracing::warn!(flag, "accepted for compatibility, has no effect here");
    }
    let server = tokio::select! {
        started = start::start(config) => match started {
            Ok(server) => server,
            Err(why) => return failed(&why),
        },
        _ = terminate.recv() => return ExitCode::SUCCESS,
        _ = interrupt.recv() => return ExitCode::SUCCESS,
    };
    let drain = server.app().drain.clone();
    let second_signal = async {
        tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () }
        drain.begin();
        tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () }
    };
    tokio::select! {
        () = server.run() => ExitCode::SUCCESS,
        () = second_signal => {
            tracing::warn!("second signal: leaving at once");
            ExitCode::from(CUT_SHORT)
        }
    }
}

/// One sentence, no backtrace.
fn failed(why: &StartError) -> ExitCode {
    eprintln!("ocelli: {why}");
    ExitCode::FAILURE
}
