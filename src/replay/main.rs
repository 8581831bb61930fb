//! Parse, run, exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(replay::cli::run_on(
        &arguments,
        io::stderr().is_terminal(),
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}
