//! What is to be true of the repository: its layers and rules, its size, what it is built from, how it is packed, and what does not
//! compile.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod compile_fail;
mod dependencies;
mod imports;
#[cfg(target_os = "linux")]
mod release;
mod rust_tokens;
mod size;
mod workspace;
