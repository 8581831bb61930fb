//! The console: the screen's state machine and its views. Facts and keys in, effects and frames out; no clock, no I/O, and
//! no way to change a cluster.

pub mod action_keys;
pub mod ansi;
pub mod app;
pub mod clipboard;
pub mod color;
pub mod commands;
mod does;
pub mod filter;
mod filter_parse;
pub mod frame;
pub mod fuzzy;
mod hints;
pub mod keys;
pub mod load;
pub mod missing;
pub mod msg;
pub mod overlay;
pub mod painter;
pub mod picture;
pub mod pod_access;
pub mod screen;
pub mod summary;
pub mod table_model;
mod tabs;
pub mod text;
pub mod theme;
mod timeline;
pub mod view;
pub mod widget;

pub use app::{App, AppOptions, Drawn, buffer_text, printed_text, render_text};
pub use color::ColorDepth;
pub use keys::Keymap;
pub use load::LoadError;
pub use msg::{Effect, Key, KeyPress, Msg};
pub use theme::Theme;
