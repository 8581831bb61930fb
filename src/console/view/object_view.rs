//! An object's YAML, its events, or its description with labels and events.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::{Painter, unseen};
use crate::text::counted;
use crate::widget::table::{TableLook, table};
use model::object::{EventSeen, ObjectNews, ObjectPart, ObjectRequest};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::navigation::{Destination, ObjectText, Selection, ViewId};
use table::role::Role;

use super::describe::page::{Events, object_request, page, role_of};
use super::describe::{Line, draw_lines};
use super::scroll::Scroll;
use super::subject;
use super::view_trait::{CommandOutcome, TEXT, View};

/// State of the read.
enum ReadState {
    /// Nothing to read: the cluster has no such object.
    Nothing,
    Asked,
    Failed(String),
    Text(Vec<String>),
    Events(Vec<EventSeen>, bool),
}

/// A text about an object.
pub struct ObjectView {
    id: ViewId,
    subject: Selection,
    /// The subject's name, as the facts have it.
    name: String,
    sort: ObjectText,
    want: Option<ObjectRequest>,
    state: ReadState,
    scroll: Scroll,
    filter: String,
    /// Lines or rows shown, as last counted, and their total.
    shown: usize,
    total: usize,
    size: (u16, u16),
}

impl ObjectView {
    /// A text of this sort about an object, under the tab that it was opened from.
    pub fn new(id: ViewId, subject: Selection, sort: ObjectText) -> Self {
        Self {
            id,
            name: subject.name(),
            subject,
            sort,
            want: None,
            state: ReadState::Nothing,
            scroll: Scroll::default(),
            filter: String::new(),
            shown: 0,
            total: 0,
            size: (80, 20),
        }
    }

    /// Requests the object, once the facts identify it.
    fn ask(&mut self, facts: &Facts) {
        self.name = self.subject.heading(facts);
        if self.want.is_some() {
            return;
        }
        let part = match self.sort {
            ObjectText::Yaml => subject::thing(facts, &self.subject).map(ObjectPart::Yaml),
            ObjectText::Events | ObjectText::Describe => {
                object_request(facts, &self.subject).map(|want| want.part)
            }
        };
        if let Some(part) = part {
            self.want = Some(ObjectRequest { part, turn: 0 });
            self.state = ReadState::Asked;
        }
    }

    /// Lines or rows that fit under the title; events have a header in addition.
    fn height(&self, area: Rect) -> usize {
        let above = if self.sort == ObjectText::Events {
            3
        } else {
            2
        };
        usize::from(area.height.saturating_sub(above))
    }

    fn count(&mut self, facts: &Facts) {
        (self.shown, self.total) = match (&self.state, self.sort) {
            (_, ObjectText::Describe) => {
                let none = Rect::new(0, 0, self.size.0.saturating_sub(4), 0);
                let height = unseen(facts.now, |painter| {
                    let lines = self.described(facts, painter);
                    draw_lines(painter, none, &lines, 0)
                });
                (height, height)
            }
            (ReadState::Text(lines), _) => (kept(lines, &self.filter).count(), lines.len()),
            (ReadState::Events(events, _), _) => (
                events.iter().filter(|e| passes(e, &self.filter)).count(),
                events.len(),
            ),
            _ => (0, 0),
        };
    }

    /// Everything known from the facts, then the cluster's own description and events.
    fn described(&self, facts: &Facts, painter: &mut Painter<'_>) -> Vec<Line> {
        let events = match &self.state {
            ReadState::Nothing | ReadState::Text(_) => Events::None,
            ReadState::Asked => Events::Asked,
            ReadState::Failed(why) => Events::Failed(why),
            ReadState::Events(events, _) => Events::Told(events),
        };
        self.sifted(page(facts, &self.subject, &events, painter).lines)
    }

    /// The lines that pass the filter, and every heading. Bars and charts match by label; blank lines are dropped.
    fn sifted(&self, mut lines: Vec<Line>) -> Vec<Line> {
        if !self.filter.trim().is_empty() {
            lines.retain(|line| match line {
                Line::Words(label, words, _) => {
                    let low = format!("{label} {words}").to_lowercase();
                    words_pass(&self.filter, |word| low.contains(word))
                }
                Line::Bar(label, ..) | Line::Past(label, ..) => {
                    words_pass(&self.filter, |word| label.contains(word))
                }
                Line::Picture(label, _) => words_pass(&self.filter, |word| label.contains(word)),
                Line::Table(label, parts) => words_pass(&self.filter, |word| {
                    label.contains(word) || parts.iter().any(|part| part.contains(word))
                }),
                Line::Head(_) => true,
                Line::Gap => false,
            });
        }
        lines
    }

    fn title(&self) -> &'static str {
        match self.sort {
            ObjectText::Describe => "describe",
            ObjectText::Yaml => "yaml",
            ObjectText::Events => "events",
        }
    }

    fn note(&self) -> (String, Role) {
        match &self.state {
            ReadState::Nothing if self.sort == ObjectText::Describe => (String::new(), Role::Muted),
            ReadState::Nothing => (
                String::from("not a Kubernetes object: nothing to read"),
                Role::Muted,
            ),
            ReadState::Asked => (String::from("reading…"), Role::Muted),
            ReadState::Failed(why) => (why.clone(), Role::Crit),
            ReadState::Text(lines) => (counted(lines.len() as u64, "line"), Role::Muted),
            ReadState::Events(events, false) if events.is_empty() => {
                (String::from("no events"), Role::Muted)
            }
            ReadState::Events(events, more) => {
                let beyond = if *more { ", and more are kept" } else { "" };
                let words = format!("{}{beyond}", counted(events.len() as u64, "event"));
                (words, Role::Muted)
            }
        }
    }

    fn draw_yaml(&self, lines: &[String], painter: &mut Painter<'_>, area: Rect) {
        let first = self.scroll.first(self.shown, usize::from(area.height));
        let window = kept(lines, &self.filter)
            .skip(first)
            .take(usize::from(area.height));
        for (y, line) in (area.y..).zip(window) {
            draw_yaml_line(painter, area, y, line);
        }
    }

    fn draw_events(&self, events: &[EventSeen], painter: &mut Painter<'_>, area: Rect) {
        let height = usize::from(area.height.saturating_sub(1));
        let first = self.scroll.first(self.shown, height);
        let rows: Vec<Vec<Cell<'_>>> = events
            .iter()
            .filter(|event| passes(event, &self.filter))
            .skip(first)
            .take(height)
            .map(cells)
            .collect();
        table(painter, area, HEADS, &[], &rows, &TableLook::default());
        if events.is_empty() {
            let words = "no events; the API server deletes them after an hour";
            painter.text_in_role(area.x + 2, area.y + 2, area.width, words, Role::Muted);
        }
    }
}

const HEADS: &[ColumnHead] = &[
    ColumnHead::new("LAST", Align::Right, Width::Fit(5), 0),
    ColumnHead::new("TIMES", Align::Right, Width::Fit(4), 5),
    ColumnHead::new("REASON", Align::Left, Width::Cut(12, 24), 1),
    ColumnHead::new("ABOUT", Align::Left, Width::Cut(16, 44), 3),
    ColumnHead::new("MESSAGE", Align::Left, Width::Cut(24, 160), 0),
    ColumnHead::new("BY", Align::Left, Width::Cut(10, 24), 6),
    ColumnHead::new("FIRST", Align::Right, Width::Fit(5), 7),
];

fn cells(event: &EventSeen) -> Vec<Cell<'_>> {
    let (sign, role) = if event.warning {
        ("●", Role::Warn)
    } else {
        ("○", Role::Muted)
    };
    vec![
        Cell::new(Value::known(event.last, Value::Since)),
        Cell::new(Value::Count(i64::from(event.count))).role(Role::Muted),
        Cell::text(event.reason.as_str())
            .role(role_of(event))
            .sign(sign, role),
        Cell::text(event.about.as_str()).role(Role::Title),
        Cell::text(event.message.as_str()),
        Cell::text(event.by.as_str()).role(Role::Muted),
        Cell::new(Value::known(event.first, Value::Since)).role(Role::Muted),
    ]
}

fn passes(event: &EventSeen, filter: &str) -> bool {
    let texts = [&event.reason, &event.about, &event.message, &event.by];
    words_pass(filter, |word| {
        texts.iter().any(|text| text.to_lowercase().contains(word))
    })
}

/// True when `contains` accepts every word and rejects every word after `!`. Case is ignored.
pub(super) fn words_pass(filter: &str, contains: impl Fn(&str) -> bool) -> bool {
    let filter = filter.to_lowercase();
    filter
        .split_whitespace()
        .all(|word| match word.strip_prefix('!') {
            Some("") => true,
            Some(unwanted) => !contains(unwanted),
            None => contains(word),
        })
}

/// The lines that pass the filter, with their parent lines.
fn kept<'a>(lines: &'a [String], filter: &str) -> impl Iterator<Item = &'a String> {
    let mut keep = vec![filter.trim().is_empty(); lines.len()];
    if !filter.trim().is_empty() {
        let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
        let mut above: Vec<(usize, usize)> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let depth = indent(line);
            while above.last().is_some_and(|(known, _)| *known >= depth) {
                above.pop();
            }
            let low = line.to_lowercase();
            if words_pass(filter, |word| low.contains(word)) {
                keep[at] = true;
                above.iter().for_each(|(_, parent)| keep[*parent] = true);
            }
            above.push((depth, at));
        }
    }
    lines
        .iter()
        .zip(keep)
        .filter_map(|(line, keep)| keep.then_some(line))
}

fn draw_yaml_line(painter: &mut Painter<'_>, area: Rect, y: u16, line: &str) {
    let body = line.trim_start_matches([' ', '-']);
    let (lead, rest) = line.split_at(line.len() - body.len());
    let key = match rest.split_once(':') {
        Some((key, value))
            if !key.contains([' ', '"']) && (value.is_empty() || value.starts_with(' ')) =>
        {
            key.len() + 1
        }
        _ => 0,
    };
    let (name, value) = rest.split_at(key);
    let role = match value.trim() {
        "true" | "\"True\"" => Role::Ok,
        "false" | "\"False\"" | "null" => Role::Muted,
        _ => Role::Text,
    };
    let (faint, blue) = (
        painter.render_style.fg(Role::Muted),
        painter.render_style.fg(Role::Info),
    );
    let text = painter.render_style.fg(role);
    painter.pieces(
        area.x,
        y,
        area.width,
        &[(lead, faint), (name, blue), (value, text)],
    );
}

/// The text that a command shows.
pub const fn sort_of(command: Command) -> Option<ObjectText> {
    match command {
        Command::Describe => Some(ObjectText::Describe),
        Command::Yaml => Some(ObjectText::Yaml),
        Command::Events => Some(ObjectText::Events),
        _ => None,
    }
}

impl View for ObjectView {
    fn id(&self) -> ViewId {
        self.id
    }
    fn trail(&self) -> String {
        format!("{} {}", self.title(), self.name)
    }
    fn contexts(&self) -> &'static [Context] {
        TEXT
    }
    fn fit(&mut self, facts: &Facts, area: Rect, _paired: bool) {
        self.size = (area.width, area.height);
        self.ask(facts);
        self.count(facts);
    }
    fn refresh(&mut self, facts: &Facts, _settle: bool) {
        self.ask(facts);
        if self.sort == ObjectText::Describe {
            self.count(facts);
        }
    }
    fn does(&self, command: Command, _: &Facts) -> bool {
        match command {
            Command::Open | Command::Faults => false,
            Command::Filter => self.total > 0,
            _ => sort_of(command) != Some(self.sort),
        }
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        if self.scroll.on(command, self.shown, self.height(area)) {
            return CommandOutcome::Done;
        }
        match command {
            // Reads it again; the old text stays until the answer arrives.
            Command::Refresh => {
                if let Some(want) = &mut self.want {
                    want.turn += 1;
                }
                CommandOutcome::Done
            }
            Command::Logs => {
                CommandOutcome::Navigate(Destination::Logs(self.id, self.subject.clone()))
            }
            _ => match sort_of(command) {
                Some(sort) => {
                    if sort != self.sort {
                        let size = self.size;
                        *self = Self::new(self.id, self.subject.clone(), sort);
                        self.size = size;
                        self.ask(facts);
                        self.count(facts);
                    }
                    CommandOutcome::Done
                }
                None => CommandOutcome::NotMine,
            },
        }
    }
    fn point(&mut self, _: &Facts, _: u16, _: u16, _: Rect) -> bool {
        false
    }
    fn set_filter(&mut self, words: &str, facts: &Facts) -> Result<(), String> {
        words.clone_into(&mut self.filter);
        self.count(facts);
        Ok(())
    }
    fn filter(&self) -> &str {
        &self.filter
    }
    fn selection(&self, _: &Facts) -> Option<Selection> {
        Some(self.subject.clone())
    }
    fn counts(&self) -> (usize, usize) {
        (self.shown, self.total)
    }
    fn object_request(&self) -> Option<&ObjectRequest> {
        self.want.as_ref()
    }
    fn on_object_news(&mut self, news: &ObjectNews, facts: &Facts) {
        match news {
            ObjectNews::Text(lines) => self.state = ReadState::Text(lines.clone()),
            ObjectNews::Events(events, more) => {
                self.state = ReadState::Events(events.clone(), *more)
            }
            ObjectNews::Failed(why) => self.state = ReadState::Failed(why.clone()),
            ObjectNews::Containers(..) | ObjectNews::Lines(_) | ObjectNews::Ended(..) => {}
        }
        self.count(facts);
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        if area.height < 3 || area.width < 8 {
            return;
        }
        let (note, role) = self.note();
        let (muted, title) = (
            painter.render_style.fg(Role::Muted),
            painter.render_style.fg(Role::Title),
        );
        let what = self.title().to_uppercase();
        let name = self.subject.heading(facts);
        let note_style = painter.render_style.fg(role);
        painter.pieces(
            area.x + 2,
            area.y,
            area.width - 3,
            &[
                (&what, muted),
                ("  ", muted),
                (&name, title),
                ("   ", muted),
                (&note, note_style),
            ],
        );
        let below = Rect::new(area.x, area.y + 2, area.width, area.height - 2);
        let inset = Rect::new(below.x + 2, below.y, below.width - 4, below.height);
        match &self.state {
            _ if self.sort == ObjectText::Describe => {
                let lines = self.described(facts, painter);
                let first = self.scroll.first(self.shown, usize::from(inset.height));
                draw_lines(painter, inset, &lines, first);
            }
            ReadState::Text(lines) => self.draw_yaml(lines, painter, inset),
            ReadState::Events(events, _) => self.draw_events(events, painter, below),
            ReadState::Nothing | ReadState::Asked | ReadState::Failed(_) => {}
        }
        let rows = self.height(area);
        let first = self.scroll.first(self.shown, rows);
        if self.shown > rows {
            let words = format!(
                "{} to {} of {}",
                first + 1,
                (first + rows).min(self.shown),
                self.shown
            );
            painter.text_right(area.right() - 1, area.y, 24, &words, muted);
        }
    }
}
