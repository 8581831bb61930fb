//! Hands: keys, paste and mouse become commands, commands become changes and effects.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use crate::clip::{self, As};
use crate::commands::{Command, Context};
use crate::deeds::{self, Wish};
use crate::filter;
use crate::frame;
use crate::listing::fields;
use crate::msg::{Effect, Key, KeyPress, Mouse, Switch};
use crate::overlay::{Go, Overlay, Verdict};
use crate::picture;
use crate::view::devices;
use crate::view::paper::Sort;
use crate::view::subject;
use crate::view::{Lens, Picked, Place, Turn, ViewId};

use table::hush::Hush;

use super::App;

/// From so many rows on, a filter is applied only once its letters are on screen.
const LARGE: usize = 20_000;

impl App {
    pub(super) fn key(&mut self, press: KeyPress, effects: &mut Vec<Effect>) {
        let command = self.options.keys.command(press, self.contexts());
        if command == Some(Command::Quit)
            && let Overlay::Plan(dialog) = &self.overlay
            && let Some(run) = dialog.running(self)
            && self.stopping.as_ref() != Some(&run)
        {
            self.stop(run, effects);
            return;
        }
        if let Some(command) = command
            && command.spec().contexts == [Context::Anywhere]
        {
            self.everywhere(command, effects);
            return;
        }
        let mut overlay = std::mem::replace(&mut self.overlay, Overlay::None);
        if matches!(overlay, Overlay::None) {
            if let Some(command) = command {
                self.command(command, effects);
            }
            return;
        }
        let verdict = overlay.key(press, command, self);
        self.judge(verdict, overlay, effects);
    }

    fn judge(&mut self, verdict: Verdict, overlay: Overlay, effects: &mut Vec<Effect>) {
        match verdict {
            Verdict::Stay => self.overlay = overlay,
            Verdict::Close => {}
            Verdict::Copy(name) => {
                self.overlay = overlay;
                self.put_on_clipboard("name", name, effects);
            }
            Verdict::CopyAs(what) => self.copy(what, effects),
            Verdict::Filter(words, true) if self.view().counts().1 > LARGE => {
                self.typed = Some(words);
                self.overlay = overlay;
            }
            Verdict::Filter(words, keep_open) => {
                self.typed = None;
                let wrong = match keep_open {
                    true => self.filter_so_far(&words),
                    false => self.filter(&words),
                };
                if keep_open || wrong.is_some() {
                    self.overlay = overlay.with_error(wrong);
                } else {
                    self.remember_filter(&words);
                }
            }
            Verdict::Column(at) => {
                self.toggle_column(at);
                self.overlay = overlay;
            }
            Verdict::Carry(order) => {
                self.overlay = overlay;
                effects.push(Effect::CarryOut(order));
            }
            Verdict::GoOn(run) => {
                self.overlay = overlay;
                effects.push(Effect::GoOn(run));
            }
            Verdict::Wish(wish) => self.plan(wish),
            Verdict::Read(command, picked) => self.read_of(command, picked),
            Verdict::Go(to) => self.obey(to, effects),
        }
    }

    /// Does what the palette or a dialog came to.
    fn obey(&mut self, to: Go, effects: &mut Vec<Effect>) {
        match to {
            Go::Command(command) => self.command(command, effects),
            Go::Theme(name) => {
                let theme = self.options.themes.iter().find(|theme| theme.name == name);
                if let Some(theme) = theme {
                    self.ink.theme = theme.clone();
                }
            }
            Go::Object(picked) => self.go(place_of(picked)),
            Go::Place(place, words) => {
                match place {
                    Place::Part(id, Lens::All) => self.show(id),
                    other => self.go(other),
                }
                if !words.is_empty() {
                    match self.filter(&words) {
                        Some(wrong) => self.notify(wrong),
                        None => self.remember_filter(&words),
                    }
                }
            }
            Go::Team(team) => {
                self.scope.team = team;
                self.keep_to_part();
                self.summarise();
                self.enter();
            }
            Go::Sort(column) => {
                let facts = self.facts.clone();
                if let Some(sheet) = self.view_mut().sheet_mut() {
                    sheet.listing.sort_by(column, &facts);
                }
            }
            Go::Palette(words) => self.overlay = Overlay::palette(self, &words),
            Go::Switch(switch) => self.switch(switch, effects),
        }
    }

    /// Asks for another session. What is shown stays until it is there.
    fn switch(&mut self, switch: Switch, effects: &mut Vec<Effect>) {
        self.notify(match &switch {
            Switch::Context(name) => format!("opening context {name}…"),
            Switch::Namespaces(names) if names.is_empty() => {
                String::from("opening all namespaces…")
            }
            Switch::Namespaces(names) => format!("opening namespace {}…", names.join(", ")),
            Switch::Demo => String::from("opening the simulated fleet…"),
            Switch::Again => String::from("connecting again…"),
        });
        effects.push(Effect::Switch(switch));
    }

    /// Filters by what is typed so far: a column that is named last waits for what it is compared with.
    pub(super) fn filter_so_far(&mut self, words: &str) -> Option<String> {
        let kind = match self.view().sheet() {
            Some(sheet) => Some(sheet.listing.kind),
            None if self.view().id() == ViewId::Devices => Some(&devices::KIND),
            None => None,
        };
        match kind {
            Some(kind) => self.filter(filter::without_open_end(words, &fields(kind))),
            None => self.filter(words),
        }
    }

    pub(super) fn filter(&mut self, words: &str) -> Option<String> {
        let facts = self.facts.clone();
        self.view_mut().set_filter(words, &facts).err()
    }

    fn everywhere(&mut self, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Suspend => effects.push(Effect::Suspend),
            Command::Redraw => effects.push(Effect::Redraw),
            Command::SavePicture => {
                let area = self.area();
                let mut buf = Buffer::empty(area);
                self.draw(area, &mut buf);
                effects.push(Effect::SavePicture(picture::svg(&buf, &self.ink.theme)));
            }
            _ => effects.push(Effect::Quit),
        }
    }

    /// Obeys a command of the view in front or of every view.
    pub(super) fn command(&mut self, command: Command, effects: &mut Vec<Effect>) {
        if let Some(id) = command.view() {
            self.show(id);
            return;
        }
        let (facts, body) = (self.facts.clone(), self.body());
        match self.view_mut().on(command, &facts, body) {
            Turn::Done => return,
            Turn::Go(to) => {
                self.go(to);
                return;
            }
            Turn::Hush(id, entry) => {
                self.notify(String::from(match entry.map(|entry| entry.hush) {
                    Some(Hush::Muted) => "muted for a week; the same key takes it back",
                    Some(Hush::Acknowledged) => {
                        "taken on for as long as it lasts; the same key takes it back"
                    }
                    None => "heard again",
                }));
                self.hush(id.clone(), entry);
                effects.push(Effect::Hush(id, entry));
                return;
            }
            Turn::NotMine => {}
        }
        match command {
            deed if deed.is_deed() => match self.wish(deed) {
                Ok(wish) => self.plan(wish),
                Err(why) => self.notify(why),
            },
            Command::StopRun => match self.view().picked(&self.facts) {
                Some(Picked::Run(run)) => self.stop(run.to_string(), effects),
                _ => self.notify(String::from("no run is under the cursor")),
            },
            Command::LastView => self.last(),
            Command::Earlier => self.along(true),
            Command::Later => self.along(false),
            Command::Palette => self.overlay = Overlay::palette(self, ""),
            Command::Help => self.overlay = Overlay::Help(0),
            Command::Missing => self.overlay = Overlay::Missing(0),
            Command::Contexts => self.overlay = Overlay::palette(self, "ctx "),
            Command::Demo => self.switch(Switch::Demo, effects),
            Command::Retry => self.switch(Switch::Again, effects),
            Command::Filter => self.overlay = Overlay::filter(self.view().filter()),
            Command::Columns => match self.view().sheet() {
                Some(_) => self.overlay = Overlay::Columns(0),
                None => self.notify(String::from("this view has no columns")),
            },
            Command::Facts => match self.view().picked(&self.facts) {
                Some(picked) => self.overlay = Overlay::Facts(picked, 0),
                None => self.notify(String::from("nothing is under the cursor")),
            },
            Command::Describe | Command::Yaml | Command::Events | Command::Logs => {
                match self.view().picked(&self.facts) {
                    Some(picked) => self.read_of(command, picked),
                    None => self.notify(String::from("nothing is under the cursor")),
                }
            }
            Command::Copy => match self.meant().is_empty() {
                false => self.overlay = Overlay::Copy,
                true => self.notify(String::from("nothing is under the cursor")),
            },
            Command::LongestWait => self.longest_wait(),
            Command::Waste => self.go(Place::Part(ViewId::Devices, Lens::Idle)),
            Command::Freeze => self.freeze(),
            Command::TimeBack => self.step(true),
            Command::TimeForward => self.step(false),
            Command::Refresh => {
                effects.push(Effect::Refresh);
                self.notify(String::from("asked the sources again"));
            }
            Command::Back => self.back(),
            Command::Leave if !self.up() => effects.push(Effect::Quit),
            Command::Suspend | Command::Redraw | Command::SavePicture | Command::Quit => {
                self.everywhere(command, effects);
            }
            _ => {}
        }
    }

    /// What a capital key asks for; what a finding is about is meant by the finding.
    fn wish(&self, deed: Command) -> Result<Wish, String> {
        let meant: Vec<Picked> = self
            .meant()
            .into_iter()
            .map(|picked| subject::meant(&self.facts, picked))
            .collect();
        deeds::wish(deed, &meant, &self.facts)
    }

    /// Opens a plan.
    fn plan(&mut self, wish: Wish) {
        if self.is_frozen() {
            self.notify(String::from(
                "the picture is held still: f goes on, then plan",
            ));
            return;
        }
        self.asked += 1;
        self.overlay = Overlay::plan(self.asked, wish, self.clock);
    }

    /// Stops a run after its current step.
    fn stop(&mut self, run: String, effects: &mut Vec<Effect>) {
        self.notify(String::from("it stops after the current step"));
        effects.push(Effect::Stop(run.clone()));
        self.stopping = Some(run);
    }

    /// Takes how a plan's run began; a dialog that was closed meanwhile is told of in words.
    pub(super) fn began(&mut self, number: u64, run: Result<String, String>) {
        match (&mut self.overlay, &run) {
            (Overlay::Plan(dialog), _) => dialog.began(number, run),
            (_, Err(why)) => self.notify(why.clone()),
            (_, Ok(run)) => self.notify(format!("{run} goes on in 9 plans")),
        }
    }

    /// Opens what the cluster says of an object.
    pub(super) fn read_of(&mut self, command: Command, picked: Picked) {
        let id = self.view().id();
        self.go(match command {
            Command::Yaml => Place::Paper(id, Sort::Yaml, picked),
            Command::Events => Place::Paper(id, Sort::Events, picked),
            Command::Logs => Place::Logs(id, picked),
            _ => Place::Paper(id, Sort::Describe, picked),
        });
    }

    /// The objects that are meant: the marked ones, or the one under the cursor.
    pub fn meant(&self) -> Vec<Picked> {
        self.view().meant(&self.facts)
    }

    fn copy(&mut self, what: As, effects: &mut Vec<Effect>) {
        let meant = self.meant();
        let table = || match self.view().clip(&self.facts, &self.ink) {
            Some(clip) => clip,
            None => (
                vec!["NAME"],
                meant
                    .iter()
                    .map(|picked| vec![picked.title(&self.facts)])
                    .collect(),
            ),
        };
        let (name, text) = match what {
            As::Name => ("name", Some(clip::names(&self.facts, &meant))),
            As::Row => {
                let (heads, rows) = table();
                ("row", Some(clip::rows(&heads, &rows)))
            }
            As::Markdown => {
                let (heads, rows) = table();
                ("row as Markdown", Some(clip::markdown(&heads, &rows)))
            }
            As::Kubectl => (
                "kubectl command",
                clip::kubectl(&self.facts.context, &meant),
            ),
        };
        match text {
            Some(text) => self.put_on_clipboard(name, text, effects),
            None => self.notify(String::from("kubectl knows no such object")),
        }
    }

    /// Puts text on the clipboard. What the cluster wrote is cleaned before it reaches the terminal.
    fn put_on_clipboard(&mut self, what: &str, text: String, effects: &mut Vec<Effect>) {
        let lines: Vec<String> = text
            .split('\n')
            .map(|line| {
                let cells: Vec<_> = line.split('\t').map(model::base::name::printable).collect();
                cells.join("\t")
            })
            .collect();
        let clean = lines.join("\n");
        if clean.len() > clip::LONGEST {
            self.notify(format!(
                "{} kB are too much for a terminal's clipboard; `stokehold get -o csv` writes all",
                clean.len() / 1000
            ));
            return;
        }
        self.notify(match lines.len() {
            1 => format!("copied {}", clean.replace('\t', " ")),
            count => format!("copied {count} lines: {what}"),
        });
        effects.push(Effect::Copy(clean));
    }

    pub(super) fn paste(&mut self, words: &str, effects: &mut Vec<Effect>) {
        let mut overlay = std::mem::replace(&mut self.overlay, Overlay::None);
        let verdict = overlay.paste(words, self);
        self.judge(verdict, overlay, effects);
    }

    pub(super) fn mouse(&mut self, mouse: Mouse, effects: &mut Vec<Effect>) {
        let command = match mouse {
            Mouse::WheelUp => Command::Up,
            Mouse::WheelDown => Command::Down,
            Mouse::Press(x, y) => {
                if !matches!(self.overlay, Overlay::None) {
                    return;
                }
                let area = self.area();
                if let Some(id) = frame::tab_at(self, area, x, y) {
                    self.show(id);
                } else {
                    let body = self.body();
                    if body.contains(Position::new(x, y)) {
                        let facts = self.facts.clone();
                        self.view_mut().point(&facts, x, y, body);
                    }
                }
                return;
            }
        };
        let key = match command {
            Command::Up => Key::Up,
            _ => Key::Down,
        };
        if matches!(self.overlay, Overlay::None) {
            for _ in 0..3 {
                self.command(command, effects);
            }
        } else {
            let mut overlay = std::mem::replace(&mut self.overlay, Overlay::None);
            let verdict = overlay.key(KeyPress::plain(key), Some(command), self);
            self.judge(verdict, overlay, effects);
        }
    }
}

/// Where an object is seen best.
fn place_of(picked: Picked) -> Place {
    match picked {
        Picked::Node(name) => Place::Part(ViewId::Nodes, Lens::Node(name)),
        Picked::Job(id) => Place::Part(ViewId::Jobs, Lens::Job(id)),
        Picked::Pool(name) => Place::Part(ViewId::Nodes, Lens::Pool(name)),
        other => Place::Facts(other),
    }
}
