//! Whether a command has something to do where the console stands.

use model::fleet::job::JobState;
use table::actions::RunState;
use table::navigation::{RowScope, Selection};

use super::action_keys;
use super::commands::Command;
use super::screen::Screen;
use super::view::subject;

/// True where a command has something to do now, on the row under the cursor: the footer and help offer these, the palette says
/// of others that they do nothing here.
pub fn does(screen: &dyn Screen, command: Command) -> bool {
    let (view, facts) = (screen.view(), screen.facts());
    let (fleet, selection) = (&facts.fleet, || view.selection(facts));
    view.does(command, facts)
        && match command {
            Command::StopRun => selection().is_some_and(|of| match of {
                Selection::Run(run) => {
                    let run = facts.acts.run(&run);
                    run.is_some_and(|run| run.state == RunState::Running)
                }
                _ => false,
            }),
            Command::Facts | Command::Describe | Command::Copy => selection().is_some(),
            Command::Mute | Command::Acknowledge => {
                selection().is_some() && screen.timeline().is_none()
            }
            Command::Logs => selection().is_some_and(|of| !subject::pods(facts, &of).is_empty()),
            Command::Yaml | Command::Events | Command::Tree => {
                selection().is_some_and(|of| subject::unreadable(facts, command, &of).is_none())
            }
            Command::NextPanel | Command::PreviousPanel => {
                !fleet.jobs.is_empty() || !fleet.findings.is_empty()
            }
            Command::WhatIf => {
                !(fleet.nodes.is_empty() && fleet.jobs.is_empty() && fleet.queues.is_empty())
            }
            Command::Waste => fleet.devices().next().is_some(),
            Command::LongestWait => {
                let here = view.table().map(|table| &table.table_model.row_scope);
                let mut jobs = fleet.jobs.iter();
                jobs.any(|job| {
                    let is_here = here.is_some_and(|of| *of == RowScope::Job(job.id.clone()));
                    job.state == JobState::Waiting && facts.has_job(job) && !is_here
                })
            }
            Command::Action(_) => action_keys::unplannable(command, facts).is_none(),
            Command::Back => screen.leads_back(),
            _ => true,
        }
}
