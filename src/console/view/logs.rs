//! Logs: the lines of a pod, or of all pods of a job, as they arrive; kept in a ring buffer of bounded size.

use std::collections::VecDeque;

use ratatui::layout::Rect;

use crate::commands::{Command, Context};
use crate::painter::Painter;
use crate::text::{self, counted};
use model::base::{Name, ObjectKey};
use model::object::{LogLine, LogWant, NO_EARLIER_LOG, ObjectNews, ObjectPart, ObjectRequest};
use table::Facts;
use table::navigation::{Destination, Selection, ViewId};
use table::role::Role;

use super::object_view::{sort_of, words_pass};
use super::subject;
use super::view_trait::{CommandOutcome, LOGS, View};

/// Maximum number of lines kept.
const LINES: usize = 5_000;
/// Maximum number of bytes kept.
const BYTES: usize = 2 << 20;
/// Pods whose logs are followed at the same time: each is a request that stays open.
const STREAMS: usize = 24;
/// Lines to begin with, over all pods, and of each at least.
const TAIL: (u32, u32) = (1_000, 40);
/// Cells of a pod's mark.
const MARK: usize = 18;

struct BufferedLine {
    line: LogLine,
    role: Role,
    /// True for a notice about the log (why it is empty or has ended), which is never cut.
    is_notice: bool,
    /// True when the line matches the filter.
    shown: bool,
}

/// Logs of an object's pods.
pub struct LogView {
    id: ViewId,
    subject: Selection,
    /// Every pod there is a log of.
    pods: Vec<ObjectKey>,
    /// The selected pod; `None` means all pods.
    only: Option<usize>,
    want: Option<ObjectRequest>,
    containers: Vec<Name>,
    container: Option<Name>,
    lines: VecDeque<BufferedLine>,
    bytes: usize,
    /// Lines dropped because the buffer was full.
    dropped: u64,
    ended: usize,
    /// Pods of several without a log of an earlier run.
    unlogged: usize,
    wrong: Option<String>,
    heard: bool,
    follow: bool,
    wrap: bool,
    times: bool,
    faults: bool,
    filter: String,
    /// The first line that is shown while it does not follow.
    first: usize,
    visible: usize,
    height: usize,
}

impl LogView {
    /// Logs of an object, under the tab that they were opened from.
    pub fn new(id: ViewId, subject: Selection) -> Self {
        Self {
            id,
            subject,
            pods: Vec::new(),
            only: None,
            want: None,
            containers: Vec::new(),
            container: None,
            lines: VecDeque::new(),
            bytes: 0,
            dropped: 0,
            ended: 0,
            unlogged: 0,
            wrong: None,
            heard: false,
            follow: true,
            wrap: false,
            times: false,
            faults: false,
            filter: String::new(),
            first: 0,
            visible: 0,
            height: 20,
        }
    }

    /// Requests the logs of the selection's pods, once there are any.
    fn find(&mut self, facts: &Facts) {
        if self.pods.is_empty() {
            self.pods = subject::pods(facts, &self.subject);
            if !self.pods.is_empty() {
                self.ask(false);
            }
        }
    }

    /// The pods that are read now.
    fn read(&self) -> &[ObjectKey] {
        match self.only {
            Some(at) => &self.pods[at..=at],
            None => &self.pods[..self.pods.len().min(STREAMS)],
        }
    }

    /// Requests the logs from the beginning.
    fn ask(&mut self, previous: bool) {
        let pods = self.read().to_vec();
        let turn = self.want.as_ref().map_or(0, |want| want.turn + 1);
        self.lines.clear();
        (self.bytes, self.dropped, self.ended, self.visible) = (0, 0, 0, 0);
        (self.wrong, self.heard, self.follow, self.unlogged) = (None, false, true, 0);
        if pods.is_empty() {
            self.want = None;
            return;
        }
        let tail = (TAIL.0 / pods.len() as u32).max(TAIL.1);
        self.want = Some(ObjectRequest {
            part: ObjectPart::Logs(LogWant {
                pods,
                container: self.container.clone(),
                previous,
                tail,
            }),
            turn,
        });
    }

    fn previous(&self) -> bool {
        matches!(&self.want, Some(ObjectRequest { part: ObjectPart::Logs(want), .. }) if want.previous)
    }

    fn passes(&self, line: &LogLine, role: Role) -> bool {
        if self.faults && role == Role::Text {
            return false;
        }
        if self.filter.trim().is_empty() {
            return true;
        }
        let low = line.words.to_lowercase();
        let pod = self.read().get(line.pod as usize);
        words_pass(&self.filter, |word| {
            low.contains(word) || pod.is_some_and(|pod| pod.name.contains(word))
        })
    }

    fn push(&mut self, line: LogLine, announced: bool) {
        let role = grade(&line.words);
        let shown = self.passes(&line, role);
        self.bytes += line.words.len();
        self.visible += usize::from(shown);
        self.lines.push_back(BufferedLine {
            line,
            role,
            is_notice: announced,
            shown,
        });
        while self.lines.len() > LINES || self.bytes > BYTES {
            let Some(old) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= old.line.words.len();
            self.dropped += 1;
            if old.shown {
                self.visible -= 1;
                // Keeps the visible lines in place while older lines are dropped.
                self.first = self.first.saturating_sub(1);
            }
        }
    }

    fn sift(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        for held in &mut lines {
            held.shown = self.passes(&held.line, held.role);
        }
        self.visible = lines.iter().filter(|held| held.shown).count();
        self.lines = lines;
        self.follow = true;
    }

    fn top(&self) -> usize {
        let most = self.visible.saturating_sub(self.height);
        if self.follow {
            most
        } else {
            self.first.min(most)
        }
    }

    fn scrolled(&mut self, command: Command) -> bool {
        let (top, page) = (self.top(), self.height.saturating_sub(1).max(1));
        let most = self.visible.saturating_sub(self.height);
        self.first = match command {
            Command::Up => top.saturating_sub(1),
            Command::Down => top + 1,
            Command::PageUp => top.saturating_sub(page),
            Command::PageDown => top + page,
            Command::Top => 0,
            Command::Bottom => most,
            _ => return false,
        }
        .min(most);
        // Reaching the end resumes following, except after a command that scrolls up.
        self.follow = self.first >= most && !matches!(command, Command::Up | Command::PageUp);
        true
    }

    /// The end of the pod's name, after the prefix that all pods share.
    fn mark(&self, pod: u32) -> &str {
        let read = self.read();
        let Some(key) = read.get(pod as usize) else {
            return "";
        };
        let name = key.name.as_str();
        let shared = read
            .iter()
            .map(|other| {
                let same = name.bytes().zip(other.name.bytes());
                same.take_while(|(a, b)| a == b).count()
            })
            .min()
            .unwrap_or(0);
        let cut = name[..shared.min(name.len())]
            .rfind('-')
            .map_or(0, |at| at + 1);
        &name[cut..]
    }

    fn draw_head(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        let (muted, title) = (
            painter.render_style.fg(Role::Muted),
            painter.render_style.fg(Role::Title),
        );
        let name = self.subject.title(facts);
        let pods = match (self.only, self.pods.len()) {
            (_, 0) => String::new(),
            (None, 1) => self.pods[0].name.to_string(),
            (None, all) if all > STREAMS => format!("{STREAMS} of {all} pods"),
            (None, all) => counted(all as u64, "pod"),
            (Some(at), all) => format!("{} ({} of {all})", self.pods[at].name, at + 1),
        };
        let container = self.container.as_ref().map_or(String::new(), |container| {
            format!("   container {container}")
        });
        let of = match self.containers.len() {
            0 | 1 => String::new(),
            all => format!(" of {all}"),
        };
        let which = if self.previous() {
            "   previous run"
        } else {
            ""
        };
        let (state, role) = match (&self.wrong, self.follow) {
            (Some(why), _) => (why.clone(), Role::Crit),
            _ if self.pods.is_empty() => (
                String::from("no logs: none of its pods is scheduled"),
                Role::Muted,
            ),
            _ if !self.heard => (String::from("reading…"), Role::Muted),
            (None, _) if self.ended >= self.read().len() => (String::from("ended"), Role::Muted),
            (None, true) => (String::from("following"), Role::Ok),
            (None, false) => (String::from("stopped: s follows"), Role::Warn),
        };
        let lines = if self.lines.is_empty() {
            String::new()
        } else if self.dropped > 0 {
            format!("last {}", counted(self.lines.len() as u64, "line"))
        } else {
            counted(self.lines.len() as u64, "line")
        };
        let used = painter.text_right(area.right() - 1, area.y, 20, &lines, muted);
        let state_style = painter.render_style.fg(role);
        painter.pieces(
            area.x + 2,
            area.y,
            area.width.saturating_sub(used + 4),
            &[
                ("LOGS  ", muted),
                (&name, title),
                ("   ", muted),
                (&pods, muted),
                (&container, muted),
                (&of, muted),
                (which, painter.render_style.fg(Role::Info)),
                ("   ", muted),
                (&state, state_style),
            ],
        );
    }

    fn draw_lines(&self, painter: &mut Painter<'_>, area: Rect) {
        let many = self.read().len() > 1;
        let mark_width = if many && area.width >= 60 {
            let widest = (0..self.read().len() as u32).map(|pod| text::width(self.mark(pod)));
            widest.max().unwrap_or(0).min(MARK)
        } else {
            0
        };
        let time_width = if self.times { 9 } else { 0 };
        let mark_room = if mark_width > 0 {
            mark_width as u16 + 1
        } else {
            0
        };
        let left = time_width + mark_room;
        let room = area.width.saturating_sub(left).max(1);
        let shown: Vec<&BufferedLine> = self
            .lines
            .iter()
            .filter(|held| held.shown)
            .skip(self.top())
            .take(usize::from(area.height))
            .collect();
        // When lines are wrapped and the end is followed, the first lines are dropped.
        let mut heights: Vec<usize> = shown
            .iter()
            .map(|held| self.wrapped(painter, held, room).len())
            .collect();
        let mut from = 0;
        if self.follow {
            while from + 1 < heights.len()
                && heights[from..].iter().sum::<usize>() > usize::from(area.height)
            {
                from += 1;
            }
        }
        heights.clear();
        let mut y = area.y;
        for held in &shown[from..] {
            for (at, part) in self.wrapped(painter, held, room).iter().enumerate() {
                if y >= area.bottom() {
                    return;
                }
                if at == 0 {
                    if let Some(moment) = held.line.at.filter(|_| self.times) {
                        let clock = moment.rfc3339();
                        let clock = clock.get(11..19).unwrap_or_default();
                        painter.text_in_role(area.x, y, 8, clock, Role::Muted);
                    }
                    if mark_width > 0 {
                        let x = area.x + time_width;
                        let mark = self.mark(held.line.pod);
                        painter.text_in_role(x, y, mark_width as u16, mark, Role::Muted);
                    }
                }
                painter.text_in_role(area.x + left, y, room, part, held.role);
                y += 1;
            }
        }
    }

    /// A line as displayed: cut, or wrapped when whole lines are on.
    fn wrapped(&self, painter: &Painter<'_>, held: &BufferedLine, room: u16) -> Vec<String> {
        let plain = held.line.words.replace('\t', "    ");
        if held.is_notice {
            let clean = text::clean(&plain, painter.render_style.ascii);
            text::wrap(&clean, usize::from(room))
        } else if self.wrap {
            let clean = text::clean(&plain, painter.render_style.ascii);
            text::fold(&clean, usize::from(room))
        } else {
            vec![plain]
        }
    }
}

/// Severity of a line: error, warning or neither.
fn grade(line: &str) -> Role {
    // The level is near the beginning of a line; later words are ordinary text.
    let head: String = line.chars().take(160).collect::<String>().to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| head.contains(word));
    if any(&[
        "error",
        "fatal",
        "panic",
        "traceback",
        "exception",
        "oom",
        "killed",
        "segfault",
        "xid",
        " failed",
        "critical",
    ]) {
        Role::Crit
    } else if any(&["warn", "retry", "timeout", "timed out", "deprecat"]) {
        Role::Warn
    } else {
        Role::Text
    }
}

impl View for LogView {
    fn id(&self) -> ViewId {
        self.id
    }
    fn trail(&self) -> String {
        String::from("logs")
    }
    fn contexts(&self) -> &'static [Context] {
        LOGS
    }
    fn fit(&mut self, facts: &Facts, area: Rect, _paired: bool) {
        self.find(facts);
        self.height = usize::from(area.height.saturating_sub(2)).max(1);
    }
    fn refresh(&mut self, facts: &Facts, _: bool) {
        self.find(facts);
    }
    fn does(&self, command: Command, _: &Facts) -> bool {
        match command {
            Command::Open | Command::Logs => false,
            Command::Filter | Command::Faults | Command::Wrap | Command::Times => {
                !self.lines.is_empty()
            }
            Command::NextPod | Command::AllPods => self.pods.len() > 1,
            Command::Container => self.containers.len() > 1,
            Command::LastRun => !self.pods.is_empty(),
            Command::Follow => self.ended < self.read().len(),
            _ => true,
        }
    }
    fn on(&mut self, command: Command, _: &Facts, _: Rect) -> CommandOutcome {
        if self.scrolled(command) {
            return CommandOutcome::Done;
        }
        match command {
            Command::Follow => {
                self.first = self.top();
                self.follow = !self.follow;
            }
            Command::Wrap => self.wrap = !self.wrap,
            Command::Times => self.times = !self.times,
            Command::Faults => {
                self.faults = !self.faults;
                self.sift();
            }
            Command::Refresh => self.ask(self.previous()),
            Command::LastRun => self.ask(!self.previous()),
            Command::Container => {
                let now = self.container.as_ref();
                let at = self.containers.iter().position(|name| Some(name) == now);
                let next = at.map_or(0, |at| at + 1) % self.containers.len().max(1);
                if self.containers.len() > 1 {
                    self.container = self.containers.get(next).cloned();
                    self.ask(self.previous());
                }
            }
            Command::NextPod | Command::AllPods if self.pods.len() > 1 => {
                self.only = match (command, self.only) {
                    (Command::AllPods, _) => None,
                    (_, None) => Some(0),
                    (_, Some(at)) => Some((at + 1) % self.pods.len()),
                };
                self.ask(self.previous());
            }
            Command::NextPod | Command::AllPods | Command::Logs => {}
            _ => {
                let Some(sort) = sort_of(command) else {
                    return CommandOutcome::NotMine;
                };
                let of = match self.only {
                    Some(at) => Selection::Pod(self.pods[at].clone()),
                    None => self.subject.clone(),
                };
                return CommandOutcome::Navigate(Destination::Paper(self.id, sort, of));
            }
        }
        CommandOutcome::Done
    }
    fn point(&mut self, _: &Facts, _: u16, _: u16, _: Rect) -> bool {
        false
    }
    fn set_filter(&mut self, words: &str, _: &Facts) -> Result<(), String> {
        words.clone_into(&mut self.filter);
        self.sift();
        Ok(())
    }
    fn filter(&self) -> &str {
        &self.filter
    }
    fn selection(&self, _: &Facts) -> Option<Selection> {
        match self.only {
            Some(at) => Some(Selection::Pod(self.pods[at].clone())),
            None => Some(self.subject.clone()),
        }
    }
    fn counts(&self) -> (usize, usize) {
        (self.visible, self.lines.len())
    }
    fn faults_only(&self) -> bool {
        self.faults
    }
    fn object_request(&self) -> Option<&ObjectRequest> {
        self.want.as_ref()
    }
    fn on_object_news(&mut self, news: &ObjectNews, _: &Facts) {
        self.heard = true;
        match news {
            ObjectNews::Lines(lines) => {
                lines.iter().for_each(|line| self.push(line.clone(), false))
            }
            ObjectNews::Containers(all, shown) => {
                self.containers.clone_from(all);
                // The server's choice of container is now shown; the requested container is unchanged.
                self.container = Some(shown.clone());
            }
            ObjectNews::Ended(pod, why) => {
                self.ended += 1;
                let all = self.read().len();
                // What is so for several pods is said once, when the last one has answered.
                let (unlogged, own) = match why {
                    Some(why) if all > 1 && why.ends_with(NO_EARLIER_LOG) => (1, None),
                    why => (0, why.clone()),
                };
                self.unlogged += unlogged;
                let last = (self.ended == all && self.unlogged > 0)
                    .then(|| format!("{} of {all} pods: {NO_EARLIER_LOG}", self.unlogged));
                let current = self.previous().then_some("; p shows the current run");
                let current = current.unwrap_or_default();
                for why in own.into_iter().chain(last) {
                    let (pod, at, words) = (*pod, None, format!("– {why}{current}"));
                    self.push(LogLine { pod, at, words }, true);
                }
            }
            ObjectNews::Failed(why) => self.wrong = Some(why.clone()),
            ObjectNews::Text(_) | ObjectNews::Events(..) => {}
        }
    }

    fn draw(&self, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
        if area.height < 3 || area.width < 8 {
            return;
        }
        self.draw_head(facts, painter, area);
        let below = Rect::new(area.x + 2, area.y + 2, area.width - 3, area.height - 2);
        if self.lines.is_empty() && self.heard && self.wrong.is_none() {
            let words = if self.previous() {
                "no previous run, or it logged nothing"
            } else {
                "no log lines yet"
            };
            painter.text_in_role(below.x, below.y, below.width, words, Role::Muted);
        } else if self.visible == 0 && !self.lines.is_empty() {
            let words = format!(
                "none of {} matches   esc shows everything",
                counted(self.lines.len() as u64, "line")
            );
            painter.text_in_role(below.x, below.y, below.width, &words, Role::Muted);
        } else {
            self.draw_lines(painter, below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_are_recognized_from_the_text() {
        assert_eq!(grade("INFO step 12 loss 2.1"), Role::Text);
        assert_eq!(
            grade("[rank3] RuntimeError: CUDA error: uncorrectable"),
            Role::Crit
        );
        assert_eq!(grade("2026-11-21 WARNING slow dataloader"), Role::Warn);
    }

    #[test]
    fn of_a_log_without_an_end_the_latest_is_kept() {
        let mut view = LogView::new(ViewId::Jobs, Selection::Pod(ObjectKey::new("ml", "p")));
        for (length, lines, kept) in [(1, 20_000, LINES), (8 << 10, 2_000, BYTES / (8 << 10))] {
            for _ in 0..lines {
                let words = "x".repeat(length);
                let (pod, at) = (0, None);
                view.push(LogLine { pod, at, words }, false);
            }
            assert_eq!(view.lines.len(), kept);
            assert_eq!(view.visible, kept);
            assert!(view.bytes <= BYTES);
        }
        assert_eq!(view.dropped as usize + view.lines.len(), 22_000);
    }
}
