//! The fleet: the answer in five seconds. Pools, every device, what waits, what burns, what needs you.

use ratatui::layout::Rect;

use crate::base::Name;
use crate::console::brush::Brush;
use crate::console::commands::{Command, Context};
use crate::console::listing::Scope;
use crate::console::text::counted;
use crate::console::theme::Role;
use crate::console::widget::bar::bar;
use crate::console::widget::panel::panel;
use crate::console::widget::spark::chart;
use crate::cost::Scope as By;
use crate::fleet::finding::{Finding, Severity};
use crate::fleet::history::{FleetSignal, Track};
use crate::fleet::job::JobState;
use crate::report::Facts;

use super::fleet_sources::{draw_sources, speaks};
use super::glow::{Glows, Metric, Scale};
use super::sheet::Sheet;
use super::strip::{Past, Strip};
use super::{Lens, Picked, Place, TABLE, Turn, View, ViewId, alerts, pools, waiting};

/// The fleet at a glance.
pub struct FleetView {
    sheet: Sheet,
    scope: Scope,
    strip: Strip,
    glows: Glows,
    /// Waiting jobs, longest first.
    waiting: Vec<u32>,
    /// Teams by burn, most first.
    teams: Vec<u32>,
    /// Findings that need somebody.
    needs: usize,
    /// Sources that have something to say.
    troubled: u16,
    size: (u16, u16),
    paired: bool,
}

/// Below this height there is no room for a panel that says anything.
const SMALL: u16 = 10;
/// Side panels fold below this width.
const PANELS_FROM: u16 = 100;

struct Split {
    table: Rect,
    strip: Rect,
    panels: Rect,
    sources: Rect,
}

impl FleetView {
    /// The view behind the first tab.
    pub fn new() -> Self {
        Self {
            sheet: Sheet::new(ViewId::Fleet, &pools::KIND, Lens::All),
            scope: Scope::default(),
            strip: Strip::default(),
            glows: Glows::default(),
            waiting: Vec::new(),
            teams: Vec::new(),
            needs: 0,
            troubled: 0,
            size: (80, 20),
            paired: true,
        }
    }

    fn table_height(&self, height: u16) -> u16 {
        let rows = u16::try_from(self.sheet.listing.rows().len()).unwrap_or(u16::MAX);
        if height < SMALL {
            // Where next to nothing fits, the pools come first.
            return rows.saturating_add(1).min(height);
        }
        rows.clamp(2, (height * 2 / 5).max(3))
            .min(height.saturating_sub(1))
            + 1
    }

    /// Lines that the strip may take: what table, panels and sources leave.
    fn strip_room(&self, height: u16) -> u16 {
        let rest = height.saturating_sub(self.table_height(height));
        if rest < 12 {
            return 0;
        }
        let others = match rest {
            28.. => 11 + 3 + self.troubled.min(3),
            18..28 => 10,
            _ => 9,
        };
        rest.saturating_sub(others + 2).min(14)
    }

    fn split(&self, area: Rect) -> Split {
        let table = self.table_height(area.height).min(area.height);
        let strip = self.strip.height().min(self.strip_room(area.height) + 1);
        let mut y = area.y + table;
        let mut rest = area.height - table;
        let mut take = |height: u16| {
            let height = height.min(rest);
            let rect = Rect::new(area.x, y, area.width, height);
            y += height;
            rest -= height;
            rect
        };
        if strip > 0 {
            take(1);
        }
        let strip = take(strip);
        if area.height >= 16 {
            take(1);
        }
        let left = area.bottom() - strip.bottom();
        let sources = if left >= 16 {
            3 + self.troubled.min(3)
        } else {
            0
        };
        let room = area
            .bottom()
            .saturating_sub(strip.bottom() + u16::from(area.height >= 16));
        let panels = take(room.saturating_sub(sources).min(16));
        let sources = take(sources);
        Split {
            table: Rect::new(area.x, area.y, area.width, table),
            strip,
            panels: inset(panels),
            sources: inset(sources),
        }
    }

    fn restrip(&mut self, facts: &Facts) {
        let (width, height) = self.size;
        let room = self.strip_room(height);
        if room > 0 {
            self.glows.update(facts, Metric::Util, Scale::Absolute);
        }
        self.strip = Strip::of(facts, &self.glows, width, room, self.paired);
    }
}

/// A cell of air at both sides.
fn inset(area: Rect) -> Rect {
    let air = u16::from(area.width > 60);
    Rect::new(area.x + air, area.y, area.width - 2 * air, area.height)
}

impl Default for FleetView {
    fn default() -> Self {
        Self::new()
    }
}

impl View for FleetView {
    fn id(&self) -> ViewId {
        ViewId::Fleet
    }
    fn trail(&self) -> String {
        String::new()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }

    fn fit(&mut self, facts: &Facts, area: Rect, paired: bool) {
        if (area.width, area.height) != self.size || paired != self.paired {
            self.size = (area.width, area.height);
            self.paired = paired;
            self.restrip(facts);
        }
    }

    fn refresh(&mut self, facts: &Facts, settle: bool) {
        self.sheet.refresh(facts, settle);
        let all = &facts.fleet.jobs;
        self.waiting = (0..all.len() as u32)
            .filter(|at| {
                let job = &all[*at as usize];
                job.state == JobState::Waiting && self.scope.has_job(job)
            })
            .collect();
        self.waiting.sort_by_key(|at| {
            let job = &all[*at as usize];
            job.waiting_since.unwrap_or(job.created)
        });
        let rows = facts.burn.rows.get(&By::Team).map_or(0, Vec::len);
        self.teams = (0..rows as u32).collect();
        if let Some(rows) = facts.burn.rows.get(&By::Team) {
            self.teams
                .sort_by_key(|at| std::cmp::Reverse(rows[*at as usize].spend.burn));
        }
        self.needs = facts
            .fleet
            .findings
            .iter()
            .filter(|finding| needs_somebody(facts, finding))
            .count();
        let troubled = facts.fleet.sources.iter().filter(|source| speaks(source));
        self.troubled = u16::try_from(troubled.count()).unwrap_or(u16::MAX);
        self.restrip(facts);
    }

    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> Turn {
        let table = self.split(area).table;
        // From the fleet one wants to see a pool's devices; what is known of it is behind the pools' own tab.
        match self.sheet.obey(command, facts, table) {
            Turn::Go(Place::Part(ViewId::Pools, lens @ Lens::Pool(_))) => {
                Turn::Go(Place::Part(ViewId::Devices, lens))
            }
            other => other,
        }
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let table = self.split(area).table;
        y < table.bottom() && self.sheet.point(facts, x, y, table)
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        self.sheet.set_filter(words, facts)
    }
    fn filter(&self) -> &str {
        self.sheet.filter()
    }
    fn picked(&self, facts: &Facts) -> Option<Picked> {
        self.sheet.picked(facts)
    }
    fn counts(&self) -> (usize, usize) {
        self.sheet.counts()
    }
    fn is_unsettled(&self) -> bool {
        self.sheet.is_unsettled()
    }
    fn faults_only(&self) -> bool {
        self.sheet.faults_only()
    }
    fn on_screen(&self, _: &Facts, _: Rect) -> Vec<Name> {
        Vec::new()
    }

    fn sheet(&self) -> Option<&Sheet> {
        Some(&self.sheet)
    }
    fn sheet_mut(&mut self) -> Option<&mut Sheet> {
        Some(&mut self.sheet)
    }
    fn set_scope(&mut self, scope: &Scope, facts: &Facts) {
        self.scope.clone_from(scope);
        self.sheet.listing.set_scope(scope, facts);
    }

    fn draw(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let split = self.split(area);
        self.sheet.paint(facts, brush, split.table, true);
        self.strip.draw(brush, split.strip);
        self.draw_panels(facts, brush, split.panels);
        if split.sources.height > 2 {
            draw_sources(facts, brush, split.sources);
        }
    }
}

impl FleetView {
    fn draw_panels(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        if area.height < 3 {
            return;
        }
        if area.width >= PANELS_FROM {
            let third = area.width / 3;
            let waiting = area.width - 2 * third;
            self.draw_waiting(
                facts,
                brush,
                Rect {
                    width: waiting,
                    ..area
                },
            );
            let burn = Rect {
                x: area.x + waiting,
                width: third,
                ..area
            };
            self.draw_burn(facts, brush, burn);
            let needs = Rect {
                x: area.x + waiting + third,
                width: third,
                ..area
            };
            self.draw_needs(facts, brush, needs);
            return;
        }
        // On a narrow screen one above the other, the urgent one first; money stands in the header.
        let (first, second) = if area.height >= 8 {
            let half = area.height / 2;
            (
                Rect {
                    height: half,
                    ..area
                },
                Rect {
                    y: area.y + half,
                    height: area.height - half,
                    ..area
                },
            )
        } else {
            (area, Rect { height: 0, ..area })
        };
        if self.needs > 0 || second.height > 0 {
            self.draw_needs(facts, brush, first);
            self.draw_waiting(facts, brush, second);
        } else {
            self.draw_waiting(facts, brush, first);
        }
    }

    fn draw_waiting(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
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
            false => format!("{note}{}", waiting::answered(facts, brush)),
        };
        let inside = panel(brush, area, "waiting, longest first", &note);
        if self.waiting.is_empty() {
            let words = empty_words(facts, "nothing waits");
            brush.say(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let mut y = inside.y;
        for (at, index) in self.waiting.iter().enumerate() {
            let left = inside.bottom().saturating_sub(y);
            let more = self.waiting.len() - at;
            if left == 0 || (left == 1 && more > 1) {
                if left == 1 {
                    let words = format!("+{more} more");
                    brush.say(inside.x, y, inside.width, &words, Role::Muted);
                }
                return;
            }
            let Some(job) = facts.fleet.jobs.get(*index as usize) else {
                continue;
            };
            let compact = inside.height < 6;
            let age = brush.age(job.waiting_since.unwrap_or(job.created));
            let class = job.class.as_ref().map_or("", |class| class.as_str());
            let wants = format!("{} {class}", job.devices_requested);
            let facts_width = 7 + brush.width(&wants).max(9) + 2;
            let name_room = inside.width.saturating_sub(facts_width);
            let name = job.id.to_string();
            if compact {
                let (bold, muted) = (brush.ink.fg(Role::Title), brush.ink.fg(Role::Muted));
                let reason = waiting::why(facts, job);
                let words = [(&*name, bold), ("  ", muted), (&*reason, muted)];
                brush.pieces(inside.x, y, name_room, &words);
            } else {
                brush.say(inside.x, y, name_room, &name, Role::Title);
            }
            let accent = brush.ink.fg(Role::Warn);
            brush.right(inside.right(), y, 7, &age, accent);
            let text = brush.ink.fg(Role::Text);
            brush.right(
                inside.right().saturating_sub(8),
                y,
                facts_width,
                &wants,
                text,
            );
            y += 1;
            if !compact && y < inside.bottom() && left > 2 {
                let room = inside.width.saturating_sub(2);
                let reason = waiting::why(facts, job);
                brush.say(inside.x + 2, y, room, &reason, Role::Muted);
                y += 1;
                if inside.bottom().saturating_sub(y) > 1
                    && let Some(words) = waiting::outlook(facts, job)
                {
                    brush.say(inside.x + 2, y, room, &words, Role::Text);
                    y += 1;
                }
            }
        }
    }

    fn draw_burn(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        let total = format!("${}/h", facts.burn.total.burn);
        // A past of a moment is no past yet.
        let since = facts
            .history
            .since()
            .filter(|since| facts.now.since(*since) >= std::time::Duration::from_secs(120).into())
            // What is remembered is the whole fleet's.
            .filter(|_| self.scope.is_all());
        let title = match since {
            Some(since) => format!("burn, last {}", brush.age(since)),
            None => String::from("burn by team"),
        };
        let inside = panel(brush, area, &title, &total);
        let mut y = inside.y;
        if inside.height >= 7
            && since.is_some()
            && let Some(past) = Past::of(facts, &Track::Fleet(FleetSignal::Burn), inside.width)
        {
            let height = (inside.height / 3).clamp(2, 4);
            let top = past.top().max(f32::MIN_POSITIVE);
            chart(brush, Rect { height, ..inside }, &past.values, top, 0.75);
            y += height + 1;
        }
        let Some(rows) = facts.burn.rows.get(&By::Team) else {
            brush.say(inside.x, y, inside.width, "no price yet", Role::Muted);
            return;
        };
        let largest = self.teams.first().and_then(|at| rows.get(*at as usize));
        let whole = largest.map_or(0.0, |row| row.spend.burn.usd());
        let name_width = (inside.width / 3).min(16);
        let foot = u16::from(inside.height > 3);
        let last = inside.bottom().saturating_sub(foot);
        for index in &self.teams {
            if y >= last {
                break;
            }
            let Some(row) = rows.get(*index as usize) else {
                continue;
            };
            let money = format!("${}", row.spend.burn);
            let money_width = brush.width(&money).max(7);
            let graphic = inside.width.saturating_sub(name_width + money_width + 2);
            brush.say(inside.x, y, name_width, &row.name, Role::Muted);
            if whole > 0.0 && graphic >= 3 {
                let x = inside.x + name_width + 1;
                bar(
                    brush,
                    x,
                    y,
                    graphic,
                    row.spend.burn.usd() / whole,
                    Role::Accent,
                );
            }
            let text = brush.ink.fg(Role::Text);
            brush.right(inside.right(), y, money_width, &money, text);
            y += 1;
        }
        if foot > 0 {
            let spend = facts.burn.total;
            let (muted, blue) = (brush.ink.fg(Role::Muted), brush.ink.bold(Role::IdleMoney));
            let (free, idle) = (
                format!("${}", spend.free),
                format!("${}", spend.idle_allocated),
            );
            brush.pieces(
                inside.x,
                inside.bottom() - 1,
                inside.width,
                &[
                    ("free ", muted),
                    (&free, blue),
                    ("  held idle ", muted),
                    (&idle, blue),
                    ("  an hour", muted),
                ],
            );
        }
    }

    fn draw_needs(&self, facts: &Facts, brush: &mut Brush<'_>, area: Rect) {
        if area.height < 3 {
            return;
        }
        let note = if self.needs == 0 {
            String::new()
        } else {
            self.needs.to_string()
        };
        let inside = panel(brush, area, "needs you", &note);
        if self.needs == 0 {
            // A finding shows once it has lasted: what is broken already is being looked at.
            let broken = facts
                .fleet
                .pools
                .iter()
                .any(|pool| pool.devices.unhealthy > 0);
            let words = match broken {
                true => String::from("reading…: a finding shows once it has lasted"),
                false => empty_words(facts, "nothing"),
            };
            brush.say(inside.x, inside.y, inside.width, &words, Role::Muted);
            return;
        }
        let mut y = inside.y;
        let findings = facts
            .fleet
            .findings
            .iter()
            .filter(|finding| needs_somebody(facts, finding));
        for (at, finding) in findings.enumerate() {
            let left = inside.bottom().saturating_sub(y);
            let more = self.needs - at;
            // The first is always told: how many there are stands in the title.
            if left == 0 || (left == 1 && more > 1 && at > 0) {
                if left == 1 {
                    let words = format!("+{more} more");
                    brush.say(inside.x, y, inside.width, &words, Role::Muted);
                }
                return;
            }
            let (sign, role) = alerts::sign(finding.severity);
            brush.say(inside.x, y, 1, sign, role);
            let age = brush.age(finding.since);
            let room = inside.width.saturating_sub(2 + 8);
            let object = finding.subject.key.to_string();
            brush.right(inside.right(), y, 7, &age, brush.ink.fg(Role::Muted));
            if inside.height < 6 {
                let (bold, text) = (brush.ink.fg(Role::Title), brush.ink.fg(Role::Text));
                let words = [(&*object, bold), ("  ", text), (&*finding.message, text)];
                brush.pieces(inside.x + 2, y, room, &words);
                y += 1;
                continue;
            }
            brush.say(inside.x + 2, y, room, &object, Role::Title);
            y += 1;
            for (words, role) in [
                (&finding.message, Role::Text),
                (&finding.repair, Role::Muted),
            ] {
                if !words.is_empty() && inside.bottom().saturating_sub(y) > 1 {
                    let room = inside.width.saturating_sub(2);
                    brush.say(inside.x + 2, y, room, words, role);
                    y += 1;
                }
            }
        }
    }
}

/// True for a finding that is more than a note and that nobody muted or took on.
fn needs_somebody(facts: &Facts, finding: &Finding) -> bool {
    finding.severity != Severity::Info && facts.hushed.of(finding, facts.now).is_none()
}

/// Nothing is only said where it is known.
fn empty_words(facts: &Facts, words: &str) -> String {
    if facts.fleet.is_complete() {
        words.to_owned()
    } else {
        String::from("not known yet")
    }
}
