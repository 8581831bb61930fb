//! The whole program: as a shell calls it, on a terminal, acting, and against a real control plane.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::zombie_processes,
    reason = "tests wait for real processes and look at the clock while they do; a failed unwrap fails the test"
)]

mod cli;
mod exec;
mod live;
