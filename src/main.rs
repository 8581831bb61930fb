//! Parse, run, exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(stokehold::cli::main(std::env::args_os()))
}
