//! Everything that brings observations in: the API server's tables and the exporters' pages.

pub mod client;
pub mod gate;
pub mod kubeconfig;
pub mod login;
mod no_proxy;
pub mod plugin;
pub mod trouble;
pub mod wire;
