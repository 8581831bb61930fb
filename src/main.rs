//! Parse, run, exit code.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use stokehold::cli;
use stokehold::runtime::host::Host;

/// musl's own allocator is slow where many threads allocate.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    ExitCode::from(cli::run_on(
        Host::of_process(),
        &arguments,
        &mut io::stdout(),
        &mut io::stderr(),
    ))
}
