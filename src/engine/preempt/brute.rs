//! Brute force.
