//! The panels of the fleet: what waits, what burns, what needs you.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text::{clean, counted, dollars, dollars_of, per_hour, wrap};
use crate::widget::bar::bar;
use crate::widget::panel::panel;
use crate::widget::spark::{ChartRange, chart_of_range};
use model::cost::SpendScope as By;
use model::fleet::finding::Finding;
use model::fleet::history::{FleetSignal, Track};
use model::fleet::job::Job;
use model::fleet::observe::Table;
use table::Facts;
use table::kinds::alerts;
use table::role::Role;
use table::rows::job_failure::why_failed;
use table::rows::jobs::{failed_at, failed_latest_first, waits_anew};
use table::spend::{cost_of, listed_dollars};
use table::waiting;
use usage::Period;

use super::fleet::{FleetView, Panel};
use super::sparkline_strip::TrackHistory;
use super::{cost, cost_history};

/// From this height on, a panel wraps a sentence to two lines instead of cutting it.
const TALL: u16 = 10;

impl FleetView {
    pub(super) fn draw_waiting(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        if area.height < 3 {
            return;
        }
        let note = if self.waiting.is_empty() {
            String::new()
        } else {
            counted(self.waiting.len() as u64, "job")
        };
        let note = match self.waiting.is_empty() {
            true => note,
            false => format!("{note}{}", super::queues::answered(facts)),
        };
        let inside = panel(painter, area, "waiting, longest first", &note);
        if self.waiting.is_empty() {
            let words = empty_words(facts, &[Table::Pods, Table::Jobs], "nothing waits");
            painter.text_in_role(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let compact = inside.height < 6;
        let heights = self.waiting.iter().map(|index| {
            let job = facts.fleet.jobs.get(*index as usize).filter(|_| !compact);
            let outlook = job.and_then(|job| outlook_of(facts, job));
            let words = job.map(|job| waiting::why(facts, job)).into_iter();
            lines_under(painter, inside, words.chain(outlook))
        });
        let heights: Vec<u16> = match self.panel {
            Panel::Waiting => heights.take(self.row + 1).collect(),
            _ => Vec::new(),
        };
        let from = self.first(Panel::Waiting, &heights, inside.height);
        let mut y = inside.y;
        for (at, index) in self.waiting.iter().enumerate().skip(from) {
            let left = inside.bottom().saturating_sub(y);
            if is_full(painter, inside, y, self.waiting.len() - at, false) {
                return;
            }
            let Some(job) = facts.fleet.jobs.get(*index as usize) else {
                continue;
            };
            if let Some(lines) = self.under_cursor(Panel::Waiting, at, &heights) {
                select(painter, inside, y, lines);
            }
            // What the list goes by; where there is room the current wait, too.
            let wait = painter.age(job.waiting_since.unwrap_or(job.created));
            let age = match waits_anew(job) {
                false => wait,
                true if inside.width < 56 => format!("{} old", painter.age(job.created)),
                true => format!("{} old · {wait}", painter.age(job.created)),
            };
            let age_width = painter.width(&age).max(7);
            let class = table::rows::jobs::class_words(job).unwrap_or_default();
            let wants = format!("{} {class}", job.devices_requested);
            let facts_width = age_width + painter.width(&wants).max(9) + 2;
            let name_room = inside.width.saturating_sub(facts_width);
            let name = job.id.to_string();
            if compact {
                let (bold, muted) = (
                    painter.render_style.fg(Role::Title),
                    painter.render_style.fg(Role::Muted),
                );
                let reason = waiting::why(facts, job);
                let words = [(&*name, bold), ("  ", muted), (&*reason, muted)];
                painter.pieces(inside.x, y, name_room, &words);
            } else {
                painter.text_in_role(inside.x, y, name_room, &name, Role::Title);
            }
            let text = painter.render_style.fg(Role::Text);
            painter.text_right(inside.right(), y, age_width, &age, text);
            painter.text_right(
                inside.right().saturating_sub(age_width + 1),
                y,
                facts_width,
                &wants,
                text,
            );
            y += 1;
            if !compact && y < inside.bottom() && left > 2 {
                let reason = waiting::why(facts, job);
                y = under(painter, inside, y, &reason, Role::Muted);
                if let Some(words) = outlook_of(facts, job) {
                    y = under(painter, inside, y, &words, Role::Text);
                }
            }
        }
    }

    pub(super) fn draw_burn(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let known = facts.spend_rates.known();
        let total = per_hour(known.map(|spend| spend.rate));
        // A past of a moment is no past yet.
        let since = facts
            .history
            .since()
            .filter(|since| facts.now.since(*since) >= std::time::Duration::from_secs(120).into())
            // What is remembered is the whole fleet's.
            .filter(|_| facts.part.is_none());
        let month = this_month(facts).filter(|_| area.width > 50);
        let month = month.map_or_else(String::new, |sum| format!(" · this month {sum}"));
        let inside = panel(painter, area, "rate by team", &format!("{total}{month}"));
        let mut y = inside.y;
        // The rate hardly changes within an hour; the idle part of it does.
        if inside.height >= 8
            && let Some(since) = since
            && let Some(past) =
                TrackHistory::of(facts, &Track::Fleet(FleetSignal::Idle), inside.width)
        {
            let words = format!("idle $/h, last {}", painter.age(since));
            painter.text_in_role(inside.x, y, inside.width, &words, Role::Muted);
            let height = (inside.height / 3).clamp(2, 4);
            let body = Rect::new(inside.x, y + 1, inside.width, height);
            let dollars = |value: f32| dollars_of(f64::from(value));
            let range = ChartRange {
                role: Role::IdleMoney,
                words: &dollars,
                limit: None,
            };
            chart_of_range(painter, body, &past.values, &range);
            y += height + 2;
        }
        let Some(rows) = facts.spend_rates.rows.get(&By::Team) else {
            painter.text_in_role(inside.x, y, inside.width, "no price yet", Role::Muted);
            return;
        };
        let largest = self.teams.first().and_then(|at| rows.get(*at as usize));
        let whole = largest.map_or(0.0, |row| row.spend.rate.usd());
        let name_width = (inside.width / 3).min(16);
        let foot = u16::from(inside.height > 3);
        let last = inside.bottom().saturating_sub(foot);
        let heights = vec![1; self.teams.len()];
        let from = self.first(Panel::Teams, &heights, last.saturating_sub(y));
        for (at, index) in self.teams.iter().enumerate().skip(from) {
            if y >= last {
                break;
            }
            if let Some(lines) = self.under_cursor(Panel::Teams, at, &heights) {
                select(painter, inside, y, lines);
            }
            let Some(row) = rows.get(*index as usize) else {
                continue;
            };
            let money = dollars(row.known().map(|spend| spend.rate));
            let money_width = painter.width(&money).max(7);
            let graphic = inside.width.saturating_sub(name_width + money_width + 2);
            painter.text_in_role(inside.x, y, name_width, &row.name, Role::Muted);
            if whole > 0.0 && graphic >= 3 {
                let x = inside.x + name_width + 1;
                bar(
                    painter,
                    x,
                    y,
                    graphic,
                    row.spend.rate.usd() / whole,
                    Role::Muted,
                );
            }
            let text = painter.render_style.fg(Role::Text);
            painter.text_right(inside.right(), y, money_width, &money, text);
            y += 1;
        }
        if foot > 0 {
            let (muted, blue) = (
                painter.render_style.fg(Role::Muted),
                painter.render_style.bold(Role::IdleMoney),
            );
            let (label, both, parts) = cost::idle_sum(facts);
            let mut pieces = vec![(label, muted), (&*both, blue), (&*parts, muted)];
            if painter.width_of(&pieces) > inside.width && !parts.is_empty() {
                // The header has the sum, too.
                pieces[1].0 = parts.trim_start_matches(": ");
                pieces.pop();
            }
            painter.pieces(inside.x, inside.bottom() - 1, inside.width, &pieces);
        }
    }

    pub(super) fn draw_needs(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        if area.height < 3 {
            return;
        }
        let failed = match self.needs.len() {
            0 => own_failed(facts),
            _ => Vec::new(),
        };
        let note = match self.needs.len() + failed.len() {
            0 => String::new(),
            some => some.to_string(),
        };
        let inside = panel(painter, area, "needs you", &note);
        if !failed.is_empty() {
            draw_failed(facts, painter, inside, &failed);
            return;
        }
        if self.needs.is_empty() {
            // A finding shows once it has lasted: with unhealthy devices, it may still be pending.
            let broken = facts
                .pools()
                .iter()
                .any(|pool| pool.counts().unhealthy.is_some_and(|count| count > 0));
            let words = match broken {
                true => String::from("reading…: no lasting finding yet"),
                false => empty_words(facts, &[Table::Nodes, Table::Pods], "nothing"),
            };
            painter.text_in_role(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let mut y = inside.y;
        let findings: Vec<&Finding> = (self.needs.iter())
            .filter_map(|at| facts.fleet.findings.get(*at as usize))
            .collect();
        let compact = inside.height < 6;
        let heights: Vec<u16> = match self.panel {
            Panel::Needs => (findings.iter().take(self.row + 1))
                .map(|finding| {
                    let words = [finding.message.to_string(), finding.repair.to_string()];
                    lines_under(painter, inside, words.into_iter().filter(|_| !compact))
                })
                .collect(),
            _ => Vec::new(),
        };
        let from = self.first(Panel::Needs, &heights, inside.height);
        for (at, finding) in findings.into_iter().enumerate().skip(from) {
            // The first is always shown: the title has their number.
            if is_full(painter, inside, y, self.needs.len() - at, at == 0) {
                return;
            }
            if let Some(lines) = self.under_cursor(Panel::Needs, at, &heights) {
                select(painter, inside, y, lines);
            }
            let (sign, role) = alerts::sign(finding.severity);
            painter.text_in_role(inside.x, y, 1, sign, role);
            let age = format!(
                "{}{}",
                alerts::age_mark(finding),
                painter.age(finding.since)
            );
            let room = inside.width.saturating_sub(2 + 8);
            let object = finding.subject.key.to_string();
            painter.text_right(
                inside.right(),
                y,
                7,
                &age,
                painter.render_style.fg(Role::Muted),
            );
            if compact {
                let (bold, text) = (
                    painter.render_style.fg(Role::Title),
                    painter.render_style.fg(Role::Text),
                );
                let words = [(&*object, bold), ("  ", text), (&*finding.message, text)];
                painter.pieces(inside.x + 2, y, room, &words);
                y += 1;
                continue;
            }
            painter.text_in_role(inside.x + 2, y, room, &object, Role::Title);
            y += 1;
            for (words, role) in [
                (&finding.message, Role::Text),
                (&finding.repair, Role::Muted),
            ] {
                y = under(painter, inside, y, words, role);
            }
        }
    }
}

impl FleetView {
    /// The first row of a panel that is drawn, so that the one under the cursor is in sight; of the heights of the rows up to it.
    fn first(&self, panel: Panel, heights: &[u16], room: u16) -> usize {
        if self.panel != panel {
            return 0;
        }
        let mut used = 0;
        let upward = heights.iter().take(self.row + 1).rev();
        // A line stays free for how many more there are.
        let fit = upward.take_while(|height| {
            used += **height;
            used < room || used == **height
        });
        (self.row + 1).saturating_sub(fit.count().max(1))
    }

    /// How many lines the row has, where the cursor is on it.
    fn under_cursor(&self, panel: Panel, at: usize, heights: &[u16]) -> Option<u16> {
        let here = self.panel == panel && self.row == at;
        here.then(|| heights.get(at).copied().unwrap_or(1))
    }
}

/// True where a panel has no line left at `y` for the next of `more` entries. Its last line says how many, unless that one is `kept`
/// or the panel is low: its title has their number.
fn is_full(painter: &mut Painter<'_>, inside: Rect, y: u16, more: usize, kept: bool) -> bool {
    let left = inside.bottom().saturating_sub(y);
    let is_counted = left == 1 && more > 1 && !kept && inside.height > 3;
    if is_counted {
        let words = format!("+{more} more");
        painter.text_in_role(inside.x, y, inside.width, &words, Role::Muted);
    }
    left == 0 || is_counted
}

/// What the scope has cost in the month so far, by the usage ledger; `None` where that is not known.
fn this_month(facts: &Facts) -> Option<String> {
    let [month, _] = cost_history::totals(facts, Period::Month);
    cost_of(&month?).map(listed_dollars)
}

/// When a waiting job starts; `None` where only what is not visible could tell: that is said once, above.
fn outlook_of(facts: &Facts, job: &Job) -> Option<String> {
    let outlook = waiting::outlook(facts, job);
    outlook.filter(|_| !waiting::is_blind(facts, job))
}

/// The failed jobs in a scope, or of a user who sees some namespaces, the latest first. In a whole fleet they need their owners.
fn own_failed(facts: &Facts) -> Vec<&Job> {
    if facts.part.is_none() && facts.fleet.confined_to().is_empty() {
        return Vec::new();
    }
    failed_latest_first(facts)
}

/// Failed jobs, each with when and why.
fn draw_failed(facts: &Facts, painter: &mut Painter<'_>, inside: Rect, failed: &[&Job]) {
    let mut y = inside.y;
    for (at, job) in failed.iter().enumerate() {
        if is_full(painter, inside, y, failed.len() - at, at == 0) {
            return;
        }
        let room = inside.width.saturating_sub(2 + 8);
        painter.text_in_role(inside.x, y, 1, "×", Role::Crit);
        painter.text_in_role(inside.x + 2, y, room, &job.id.key.to_string(), Role::Title);
        if let Some(at) = failed_at(job) {
            let (age, muted) = (painter.age(at), painter.render_style.fg(Role::Muted));
            painter.text_right(inside.right(), y, 7, &age, muted);
        }
        y += 1;
        let failure = job.failure.as_ref();
        let why = failure.map(|failure| why_failed(facts, failure));
        if let Some(why) = why.filter(|_| y < inside.bottom()) {
            y = under(painter, inside, y, &format!("failed: {why}"), Role::Text);
        }
    }
}

/// Marks the lines of the row under the cursor.
fn select(painter: &mut Painter<'_>, inside: Rect, y: u16, lines: u16) {
    let lines = lines.min(inside.bottom().saturating_sub(y));
    painter.background(Rect::new(inside.x, y, inside.width, lines), Role::Selection);
    for line in 0..lines {
        let edge = inside.x.saturating_sub(1);
        painter.sign(edge, y + line, "▌", painter.render_style.fg(Role::Accent));
    }
}

/// Lines of a name with these sentences under it.
fn lines_under(painter: &Painter<'_>, inside: Rect, words: impl Iterator<Item = String>) -> u16 {
    let lines = words.map(|words| wrapped(painter, inside, &words).len() as u16);
    1 + lines.sum::<u16>()
}

/// A sentence in lines of a panel: two in a tall one, else one, cut where it is longer.
fn wrapped(painter: &Painter<'_>, inside: Rect, words: &str) -> Vec<String> {
    let room = inside.width.saturating_sub(2);
    let most = if inside.height < TALL { 1 } else { 2 };
    let words = clean(words, painter.render_style.ascii);
    let mut lines = wrap(&words, usize::from(room));
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    lines
}

/// Writes words under a name, on two lines where a tall panel needs them, and reserves the last line for the number of further
/// rows; returns the next line.
fn under(painter: &mut Painter<'_>, inside: Rect, mut y: u16, words: &str, role: Role) -> u16 {
    let room = inside.width.saturating_sub(2);
    for line in wrapped(painter, inside, words) {
        if inside.bottom().saturating_sub(y) <= 1 {
            break;
        }
        painter.text_in_role(inside.x + 2, y, room, &line, role);
        y += 1;
    }
    y
}

/// "None" is shown only where the tables are known.
fn empty_words(facts: &Facts, tables: &[Table], words: &str) -> String {
    let fleet = &facts.fleet;
    if !fleet.is_complete() {
        return String::from("not known yet");
    }
    if let Some(hidden) = fleet.hidden_of(tables) {
        return hidden;
    }
    fleet.within(words)
}
