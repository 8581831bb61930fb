//! Plans and explanations made beside the console, and the runs that carry plans out.

pub mod action_service;
pub mod action_task;
pub mod explanation_task;
pub mod journal_place;
pub(super) mod open_runs;
pub mod own_runs;
pub mod past_plans;
pub(super) mod picture_plans;
pub mod run_outcome;
pub mod shown_plan;
