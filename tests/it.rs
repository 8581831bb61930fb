//! The one integration-test binary.

mod catalog;
mod checks;
mod history;
mod parts;
