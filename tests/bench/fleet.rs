//! Benchmarks of the fleet.

fn main() {}
