//! The program: parse, dispatch, exit code.
#![forbid(unsafe_code)]

use clap::Parser;
use ocelli::commands;
use ocelli::config::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    // clap prints help, version and its own refusals, and exits with 0 or 2
    match Cli::parse().command {
        Command::Serve(flags) => commands::serve::main(&flags),
        Command::Demo(flags) => commands::demo::main(&flags),
    }
}
