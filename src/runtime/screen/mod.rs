//! The terminal and what is drawn on it: frames, escape sequences, the clipboard, the UI loop.

pub mod clipboard;
pub mod effects;
pub mod encode;
pub mod frame_pacer;
pub mod terminal;
pub mod ui;
