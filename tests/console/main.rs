//! The screen: frames, keys, words.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod any_fleet;
mod cells;
mod frames;
mod frames_checks;
mod frames_console;
mod frames_fleet;
mod frames_words;
mod input;
mod keys;
mod leaving;
mod list_prices;
mod offered;
mod panels;
mod pictures;
mod plan_dialog;
mod plan_pictures;
mod pod_access;
mod replay;
mod same;
mod scoped;
mod second_look;
mod served;
mod spent;
mod sums;
mod suppose;
mod tables;
mod tree;
mod trial_facts;
mod trial_stops;
