//! Pictures of a plan: who loses work, by team, and the devices of drained nodes before and after. They are drawn where the plan
//! itself leaves room.

mod drained;

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text::counted;
use crate::view::describe::LABEL;
use crate::widget::bar::bar;
use model::base::quantities::first_named;
use model::plan::{Plan, PlanEffect};
use table::Facts;
use table::role::Role;
use table::rows::lost_work::{TeamLoss, by_team};

use drained::DrainedNodes;

/// The width of pictures beside a plan, with the gap between, cells.
pub(super) const SIDE: u16 = 38;
/// From this width on, a label is left of a picture; below, above it.
const LABELED_FROM: usize = 60;
/// Most teams that have a bar of their own.
const TEAMS: usize = 6;
/// Cells of a bar at most.
const BAR: usize = 24;

/// A part of a line.
pub(super) enum PicturePart {
    Words(String, Role),
    /// A bar of this width, filled by this share of one.
    Bar(u16, f64, Role),
}

impl PicturePart {
    fn muted(words: impl Into<String>) -> Self {
        Self::Words(words.into(), Role::Muted)
    }
}

/// A line of a picture.
pub(super) type PictureLine = Vec<PicturePart>;

/// The pictures of a plan.
pub(super) struct PlanPictures {
    losses: Vec<TeamLoss>,
    drained: Option<DrainedNodes>,
}

impl PlanPictures {
    pub(super) fn of(plan: &Plan, facts: &Facts) -> Self {
        let losses = match &plan.effect {
            PlanEffect::Forecast(forecast) => by_team(&forecast.displaced),
            PlanEffect::Unknown { .. } => Vec::new(),
        };
        Self {
            losses,
            drained: DrainedNodes::of(plan, facts),
        }
    }

    /// All pictures in so many cells.
    pub(super) fn lines(&self, width: usize) -> Vec<PictureLine> {
        let mut lines = loss_lines(&self.losses, width);
        if let Some(drained) = &self.drained {
            if !lines.is_empty() {
                lines.push(Vec::new());
            }
            lines.extend(labeled("devices", width, |room| drained.lines(room)));
        }
        lines
    }

    /// All pictures beside the plan, in so many lines: what has no room is counted.
    pub(super) fn beside(&self, most: usize) -> Vec<PictureLine> {
        let mut lines = self.lines(usize::from(SIDE - 4));
        if lines.len() > most {
            let hidden = lines.len() + 1 - most.max(1);
            lines.truncate(most.saturating_sub(1));
            let more = counted(hidden as u64, "more line");
            lines.push(vec![PicturePart::muted(format!("and {more}"))]);
        }
        lines
    }

    /// As much of the pictures as has room in `most` lines: all, who loses, or who loses in one line.
    pub(super) fn fitting(&self, width: usize, most: usize) -> Vec<PictureLine> {
        let whole = self.lines(width);
        if whole.len() <= most {
            return whole;
        }
        let losses = loss_lines(&self.losses, width);
        if losses.len() <= most {
            return losses;
        }
        match (most, self.losses.as_slice()) {
            (0, _) | (_, []) => Vec::new(),
            (_, losses) => vec![in_one_line(losses)],
        }
    }
}

/// Lines with a label: at the left where there is room, else above.
fn labeled(
    label: &'static str,
    width: usize,
    make: impl FnOnce(usize) -> Vec<PictureLine>,
) -> Vec<PictureLine> {
    if width < LABELED_FROM {
        let head = vec![PicturePart::Words(label.to_owned(), Role::Title)];
        return std::iter::once(head).chain(make(width)).collect();
    }
    let indent = usize::from(LABEL);
    let lines = make(width - indent).into_iter().enumerate();
    let lines = lines.map(|(at, line)| {
        let label = if at == 0 { label } else { "" };
        let label = PicturePart::muted(format!("{label:indent$}"));
        std::iter::once(label).chain(line).collect()
    });
    lines.collect()
}

/// One bar a team, as long as its part of the largest loss.
fn loss_lines(losses: &[TeamLoss], width: usize) -> Vec<PictureLine> {
    if losses.is_empty() {
        return Vec::new();
    }
    // One more bar is no longer than the words that there is one more.
    let shown = match losses.len() {
        count if count <= TEAMS + 1 => count,
        _ => TEAMS,
    };
    let widest = |of: fn(&TeamLoss) -> usize| losses[..shown].iter().map(of).max().unwrap_or(0);
    let (name, hours) = (
        widest(|one| one.team.chars().count()).min(20),
        widest(|one| one.hours().len()),
    );
    let widest_besides = widest(|one| one.besides().chars().count());
    labeled("who loses", width, |room| {
        // All bars have one scale, and words come before them.
        let is_wide = room >= LABELED_FROM - usize::from(LABEL);
        let words = match is_wide {
            true => name + 2 + 2 + hours + 3 + widest_besides,
            false => widest_besides + 1,
        };
        let bar = room.saturating_sub(words).min(BAR) as u16;
        let mut lines: Vec<PictureLine> = Vec::new();
        for one in &losses[..shown] {
            let team: String = one.team.chars().take(name).collect();
            let (lost, besides) = (one.hours(), one.besides());
            let title = |words| PicturePart::Words(words, Role::Title);
            match is_wide {
                true => lines.push(vec![
                    title(format!("{team:name$}  ")),
                    PicturePart::Bar(bar, one.share(losses), Role::Muted),
                    PicturePart::Words(format!("  {lost:>hours$} · {besides}"), Role::Text),
                ]),
                false => {
                    let gap = room.saturating_sub(team.chars().count());
                    lines.push(vec![
                        title(team),
                        PicturePart::Words(format!("{lost:>gap$}"), Role::Text),
                    ]);
                    lines.push(vec![
                        PicturePart::Bar(bar, one.share(losses), Role::Muted),
                        PicturePart::muted(format!(" {besides:>widest_besides$}")),
                    ]);
                }
            }
        }
        if shown < losses.len() {
            let more = counted((losses.len() - shown) as u64, "more team");
            lines.push(vec![PicturePart::muted(format!("and {more}"))]);
        }
        lines
    })
}

/// Who loses in one line: `device-hours: perception 21.4, ranking 3.0`.
fn in_one_line(losses: &[TeamLoss]) -> PictureLine {
    let own = |one: &TeamLoss| {
        let hours = one.hours();
        format!("{} {}", one.team, hours.trim_end_matches(" device-h"))
    };
    let teams = first_named(&losses.iter().map(own).collect::<Vec<_>>(), TEAMS);
    let label = format!("{:1$}", "who loses", usize::from(LABEL));
    vec![
        PicturePart::muted(label),
        PicturePart::Words(format!("device-hours: {teams}"), Role::Text),
    ]
}

/// Draws lines from `skip` on; what has no room is not drawn.
pub(super) fn draw(painter: &mut Painter<'_>, area: Rect, lines: &[PictureLine], skip: usize) {
    let shown = lines.iter().skip(skip).take(usize::from(area.height));
    for (line, y) in shown.zip(area.y..) {
        let mut x = area.x;
        for piece in line {
            let room = area.right().saturating_sub(x);
            x += match piece {
                PicturePart::Words(words, role) => painter.text_in_role(x, y, room, words, *role),
                PicturePart::Bar(width, ratio, role) => {
                    let width = (*width).min(room);
                    bar(painter, x, y, width, *ratio, *role);
                    width
                }
            };
        }
    }
}
