//! Everything that brings observations in: the API server's tables and the exporters' pages.

mod carried;
pub mod client;
pub mod gate;
pub mod kubeconfig;
pub mod kubernetes;
pub mod login;
mod no_proxy;
mod pace;
pub mod plugin;
pub mod server;
pub mod serving;
pub mod trouble;
pub mod wire;
