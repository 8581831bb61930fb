//! The one integration-test binary.

mod simapi;
