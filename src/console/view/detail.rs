//! One pool, node or job: its description above, its nodes or devices below. Keys act on the object itself until the cursor
//! moves down to a row.

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::{Painter, RenderStyle, unseen};
use crate::widget::panel::foot;
use model::base::{Name, ObjectKey};
use model::cost::SpendScope;
use model::fleet::job::{JobKey, JobState};
use model::object::{EventSeen, LogWant, ObjectNews, ObjectPart, ObjectRequest};
use table::Facts;
use table::column::KindSpec;
use table::kinds;
use table::navigation::{RowScope, Selection, ViewId};
use table::role::Role;

use super::describe::page::{self, Events};
use super::describe::{Description, Line, describe, draw_columns, draw_panel};
use super::pictures::{self, Drawing, ObjectPicture};
use super::subject;
use super::table_view::TableView;
use super::view_trait::{CommandOutcome, CopiedRows, TABLE, View};

/// An object's facts over a table of its parts.
pub struct Detail {
    subject: Selection,
    table: TableView,
    width: u16,
    /// Lines that what is known takes at this width.
    lines: u16,
    /// The cursor is on a row of the table; else it is on the object itself.
    on_row: bool,
    /// Of a failed job, the last lines of the log of the pod that failed.
    log: Option<LogTail>,
    /// Of a job that does not run, the events about it.
    events: Option<ReadEvents>,
    /// The pictures of the object, where the area has room for some below the table.
    pictures: Vec<ObjectPicture>,
    height: u16,
}

/// The last lines of a pod's log.
struct LogTail {
    request: ObjectRequest,
    pod: ObjectKey,
    lines: Vec<String>,
    /// Why there is no log.
    wrong: Option<String>,
    /// The read has ended, or failed.
    is_read: bool,
}

/// Lines of a failed pod's log that are read; of them a page without room for pictures shows the last [`FEW_LINES`].
const LOG_LINES: u32 = 60;
const FEW_LINES: usize = 6;

/// From this height on a page has its log, its events and its pictures below its table.
const ROOMY: u16 = 30;

/// The events about an object that has no devices.
struct ReadEvents {
    request: ObjectRequest,
    seen: Vec<EventSeen>,
    /// Why there are none.
    wrong: Option<String>,
    is_read: bool,
}

impl ReadEvents {
    /// The request for the events about a job that does not run.
    fn of(facts: &Facts, job: &JobKey) -> Option<Self> {
        let state = facts.fleet.job(job)?.state;
        let runs = matches!(state, JobState::Running | JobState::Finishing);
        let request = page::object_request(facts, &Selection::Job(job.clone()));
        Some(Self {
            request: request.filter(|_| !runs)?,
            seen: Vec::new(),
            wrong: None,
            is_read: false,
        })
    }

    fn picture(&self, painter: &mut Painter<'_>) -> ObjectPicture {
        let events = match (&self.wrong, self.is_read) {
            (Some(why), _) => Events::Failed(why),
            (None, false) => Events::Asked,
            (None, true) => Events::Told(&self.seen),
        };
        let mut lines = Description::default();
        page::add_events(&mut lines, &events, painter);
        ObjectPicture::new("events", "newest first", Drawing::Lines(lines.lines))
    }
}

impl LogTail {
    /// The request for the log of the pod of a failed job that failed; `None` where it has no such pod.
    fn of(facts: &Facts, job: &JobKey) -> Option<Self> {
        let state = facts.fleet.job(job)?.state;
        let pods = subject::pods(facts, &Selection::Job(job.clone()));
        let pod = pods
            .into_iter()
            .next()
            .filter(|_| state == JobState::Failed)?;
        Some(Self {
            request: ObjectRequest {
                part: ObjectPart::Logs(LogWant {
                    pods: vec![pod.clone()],
                    container: None,
                    previous: false,
                    tail: LOG_LINES,
                }),
                turn: 0,
            },
            pod,
            lines: Vec::new(),
            wrong: None,
            is_read: false,
        })
    }

    fn add_to(&self, table: &mut Description) {
        table.words(
            "log of",
            format!("{}, its last lines (l shows all)", self.pod),
            Role::Muted,
        );
        let few = self.lines.len().saturating_sub(FEW_LINES);
        for line in &self.lines[few..] {
            table.words("", line.as_str(), Role::Text);
        }
        if let Some(words) = self.without_lines() {
            table.words("", words, Role::Muted);
        }
    }

    /// Why no line is shown.
    fn without_lines(&self) -> Option<&str> {
        match (&self.wrong, self.lines.is_empty()) {
            (Some(wrong), _) => Some(wrong.as_str()),
            (None, true) if self.is_read => Some("the log is empty"),
            (None, true) => Some("reading…"),
            (None, false) => None,
        }
    }

    fn picture(&self) -> ObjectPicture {
        let why = self.without_lines().map(str::to_owned);
        let lines = self.lines.iter().cloned().chain(why).collect();
        let title = format!("log of {}, its last lines", self.pod);
        ObjectPicture::new(title, "l shows all", Drawing::Text(lines))
    }
}

impl Detail {
    /// A pool and its nodes.
    pub fn pool(name: Name) -> Self {
        let (subject, rows) = (Selection::Pool(name.clone()), RowScope::Pool(name));
        Self::of(subject, ViewId::Pools, &kinds::nodes::KIND, rows)
    }

    /// A node and its devices.
    pub fn node(name: Name) -> Self {
        let (subject, rows) = (Selection::Node(name.clone()), RowScope::Node(name));
        Self::of(subject, ViewId::Nodes, &kinds::devices::KIND, rows)
    }

    /// A job and its devices.
    pub fn job(id: JobKey) -> Self {
        let (subject, rows) = (Selection::Job(id.clone()), RowScope::Job(id));
        Self::of(subject, ViewId::Jobs, &kinds::devices::KIND, rows)
    }

    /// A job that serves, and its pods: the replicas.
    pub fn service(id: JobKey) -> Self {
        let (subject, rows) = (Selection::Job(id.clone()), RowScope::Replicas(id));
        Self::of(subject, ViewId::Jobs, &kinds::pods::KIND, rows)
    }

    /// A team and the money of its jobs.
    pub fn team(name: Name) -> Self {
        let subject = Selection::Cost(SpendScope::Team, name.clone());
        Self::of(
            subject,
            ViewId::Cost,
            &kinds::cost::KIND,
            RowScope::Team(name),
        )
    }

    fn of(subject: Selection, tab: ViewId, kind: &'static KindSpec, rows: RowScope) -> Self {
        Self {
            subject,
            table: TableView::new(tab, kind, rows),
            width: 120,
            lines: 10,
            on_row: false,
            log: None,
            events: None,
            pictures: Vec::new(),
            height: 0,
        }
    }

    /// All that is known of the object, with the log of a failed job.
    fn described(&self, facts: &Facts, painter: &mut Painter<'_>) -> Option<Description> {
        let mut known = describe(facts, &self.subject, painter)?;
        if self.roomy() {
            // The curves show the past at length.
            known.lines.retain(|line| !matches!(line, Line::Past(..)));
        } else if let Some(log) = &self.log {
            log.add_to(&mut known);
        }
        Some(known)
    }

    /// What is known takes the height that it was seen to need, up to three fifths and what the table does not fill; the
    /// table has the rest. Of a roomy page the third part is what the rows leave: it is for pictures.
    fn split(&self, area: Rect) -> (Rect, Rect, Rect) {
        let air = u16::from(area.height > 20);
        // Head and rows; where there is none, air and a sentence.
        let rows = u16::try_from(self.table.table_model.rows().len()).unwrap_or(u16::MAX);
        let table = rows.saturating_add(1).max(3).saturating_add(air);
        let most = (area.height * 3 / 5).max(area.height.saturating_sub(table));
        let above = self.lines.saturating_add(2).min(most);
        let below = Rect::new(
            area.x,
            area.y + above + air,
            area.width,
            area.height - above - air,
        );
        let used = match self.roomy() {
            // What has no rows has no head either, unless a filter hid them.
            true if rows == 0 && self.table.filter().is_empty() => 0,
            // A line for the note below the rows, and one of air.
            true => table
                .saturating_add(2)
                .min(below.height.saturating_sub(area.height / 4)),
            false => below.height,
        };
        (
            Rect::new(area.x, area.y, area.width, above),
            Rect {
                height: used,
                ..below
            },
            Rect {
                y: below.y + used,
                height: below.height - used,
                ..below
            },
        )
    }

    /// True where there is something to show below the table, and room for it.
    fn roomy(&self) -> bool {
        let reads = self.log.is_some() || self.events.is_some();
        self.height >= ROOMY && (reads || !self.pictures.is_empty())
    }

    fn look_round(&mut self, facts: &Facts) {
        self.pictures = match self.height >= ROOMY {
            true => pictures::of_selection(facts, &self.subject),
            false => Vec::new(),
        };
    }

    fn measure(&mut self, facts: &Facts, width: u16) {
        self.width = width;
        let none = Rect::new(0, 0, width.saturating_sub(4), 0);
        self.lines = unseen(facts.now, |painter| {
            let table = self.described(facts, painter)?;
            Some(draw_columns(painter, none, &table.lines))
        })
        .unwrap_or(1);
    }
}

impl View for Detail {
    fn id(&self) -> ViewId {
        self.table.id()
    }
    fn trail(&self) -> String {
        self.subject.name()
    }
    fn contexts(&self) -> &'static [Context] {
        TABLE
    }
    fn fit(&mut self, facts: &Facts, area: Rect, _paired: bool) {
        self.height = area.height;
        self.look_round(facts);
        self.measure(facts, area.width);
    }
    fn refresh(&mut self, facts: &Facts, settle: bool) {
        if let (None, Selection::Job(job)) = (&self.log, &self.subject) {
            self.log = LogTail::of(facts, job);
        }
        if let (None, Selection::Job(job)) = (&self.events, &self.subject) {
            self.events = ReadEvents::of(facts, job);
        }
        self.look_round(facts);
        self.measure(facts, self.width);
        self.table.refresh(facts, settle);
    }
    fn object_request(&self) -> Option<&ObjectRequest> {
        let log = self.log.as_ref().filter(|log| !log.is_read);
        let events = self
            .events
            .as_ref()
            .filter(|it| !it.is_read && self.roomy());
        let log = log.map(|log| &log.request);
        log.or_else(|| Some(&events?.request))
    }
    fn on_object_news(&mut self, news: &ObjectNews, facts: &Facts) {
        let log = self.log.as_mut().filter(|log| !log.is_read);
        match (news, log, &mut self.events) {
            (ObjectNews::Lines(lines), Some(log), _) => {
                log.lines
                    .extend(lines.iter().map(|line| line.words.clone()));
                let over = log.lines.len().saturating_sub(LOG_LINES as usize);
                log.lines.drain(..over);
            }
            (ObjectNews::Ended(_, why), Some(log), _) => {
                log.is_read = true;
                // The end of a log that has lines is no news.
                log.wrong = why.clone().filter(|_| log.lines.is_empty());
            }
            (ObjectNews::Failed(why), Some(log), _) => {
                (log.is_read, log.wrong) = (true, Some(why.clone()));
            }
            (ObjectNews::Events(seen, _), _, Some(events)) => {
                (events.is_read, events.seen) = (true, seen.clone());
            }
            (ObjectNews::Failed(why), None, Some(events)) => {
                (events.is_read, events.wrong) = (true, Some(why.clone()));
            }
            _ => {}
        }
        self.measure(facts, self.width);
    }
    fn on(&mut self, command: Command, facts: &Facts, area: Rect) -> CommandOutcome {
        let (_, below, _) = self.split(area);
        let table_model = &self.table.table_model;
        let (first, none) = (table_model.cursor() == 0, table_model.rows().is_empty());
        match command {
            // Above the first row is the object itself.
            Command::Top => self.on_row = false,
            Command::Up | Command::PageUp if self.on_row && first => {
                self.on_row = false;
                return CommandOutcome::Done;
            }
            Command::Up | Command::PageUp if !self.on_row => return CommandOutcome::Done,
            Command::Down | Command::Open if !self.on_row => {
                self.on_row = !none;
                return CommandOutcome::Done;
            }
            Command::Bottom
            | Command::PageDown
            | Command::Mark
            | Command::Range
            | Command::Invert => self.on_row = !none,
            _ => {}
        }
        self.table.obey(command, facts, below)
    }
    fn point(&mut self, facts: &Facts, x: u16, y: u16, area: Rect) -> bool {
        let (above, below, _) = self.split(area);
        if y < above.bottom() {
            self.on_row = false;
            return true;
        }
        let hit = self.table.point(facts, x, y, below);
        self.on_row |= hit;
        hit
    }
    fn selection(&self, facts: &Facts) -> Option<Selection> {
        let row = self.table.selection(facts).filter(|_| self.on_row);
        row.or_else(|| Some(self.subject.clone()))
    }
    fn meant(&self, facts: &Facts) -> Vec<Selection> {
        if self.table.table_model.marked().is_empty() {
            return self.selection(facts).into_iter().collect();
        }
        self.table.meant(facts)
    }
    fn copied_rows(&self, facts: &Facts, render_style: &RenderStyle) -> Option<CopiedRows> {
        let rows = self.on_row || !self.table.table_model.marked().is_empty();
        rows.then(|| self.table.copied_rows(facts, render_style))
    }
    fn on_screen(&self, facts: &Facts, area: Rect) -> Vec<Name> {
        let (_, below, _) = self.split(area);
        let (_, rows) = self.table.table_model.window(self.table.rows_in(below));
        let mut names: Vec<Name> = rows
            .iter()
            .filter_map(|row| facts.fleet.nodes.get(row.0 as usize))
            .map(|node| node.name().clone())
            .collect();
        names.dedup();
        names
    }

    fn table(&self) -> Option<&TableView> {
        Some(&self.table)
    }
    fn table_mut(&mut self) -> Option<&mut TableView> {
        Some(&mut self.table)
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (above, below, rest) = self.split(area);
        match self.described(facts, painter) {
            Some(table) => {
                let hidden = draw_panel(painter, above, &table, !self.on_row);
                // The object that keys act on is named where it is not the one in the title.
                let row = self.table.selection(facts).filter(|_| self.on_row);
                if let (Some(row), 0) = (row, hidden) {
                    let words = format!("keys act on {}, the row below", row.title(facts));
                    foot(painter, above, &words, Role::Mark);
                }
            }
            None => {
                let words = format!("{} no longer exists", self.subject.name());
                painter.text_in_role(above.x + 2, above.y, above.width, &words, Role::Warn);
            }
        }
        self.table.paint(facts, painter, below, self.on_row);
        let log = self.log.as_ref().map(LogTail::picture);
        let events = self.events.as_ref().map(|events| events.picture(painter));
        let all: Vec<&ObjectPicture> = log.iter().chain(&self.pictures).chain(&events).collect();
        pictures::draw(facts, painter, rest, &all);
    }
}
