//! Random identities.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A random identity for a simulated cluster, so that runs on one are not taken for runs on another with the same seed.
pub fn random_identity() -> u64 {
    RandomState::new().build_hasher().finish()
}
