//! Parse, run, exit code.

use std::process::ExitCode;

/// musl's own allocator is slow where many threads allocate.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(stokehold::cli::main(std::env::args_os()))
}
