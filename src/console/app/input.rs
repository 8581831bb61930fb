//! Input: keys, paste and mouse become commands, commands become changes and effects.

use ratatui::buffer::Buffer;
use ratatui::layout::Position;

use crate::action_keys::{self, ActionRequest};
use crate::clipboard::{self, As};
use crate::commands::{Command, Context};
use crate::filter;
use crate::frame;
use crate::msg::{Effect, Key, KeyPress, Mouse, Rewind, Switch};
use crate::overlay::{Navigation, Overlay, Verdict, suppose};
use crate::picture;
use crate::table_model::fields;
use crate::tabs::tab_at;
use crate::view::object_view::sort_of;
use crate::view::subject;
use crate::view::tree_of;
use crate::view::view_trait::CommandOutcome;
use model::object::ObjectPart;
use model::plan::Intent;
use plan::actions::{NameResolver, ParseError};
use table::navigation::ObjectText;
use table::navigation::{Destination, RowScope, Selection, ViewId};

use table::actions::RunState;
use table::silence::Silence;

use super::App;

/// From this many rows on, a filter is applied only after its letters are drawn.
const LARGE: usize = 20_000;

impl App {
    pub(super) fn key(&mut self, press: KeyPress, effects: &mut Vec<Effect>) {
        self.notice.take_if(|notice| notice.of_key);
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
            match command {
                Some(command) => self.command(command, effects),
                None => self.hint(format!("{press} does nothing here; ? lists the keys")),
            }
            return;
        }
        // From a page or a finished plan, view keys and the palette work directly.
        let global = self.options.keys.command(press, &[Context::Global]);
        let leads = |it: &Command| it.view().is_some() || *it == Command::Palette;
        if let Some(elsewhere) = global.filter(leads)
            && command.is_none()
            && overlay.gives_way()
        {
            self.command(elsewhere, effects);
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
            Verdict::Stop(run) => self.stop(run, effects),
            Verdict::Leave => effects.push(Effect::Leave),
            Verdict::ActionRequest(request) => self.plan(request),
            Verdict::Read(command, selection) => self.read_of(command, selection),
            Verdict::Navigation(to) => self.obey(to, effects),
        }
    }

    /// Performs a navigation from the palette or a dialog.
    fn obey(&mut self, to: Navigation, effects: &mut Vec<Effect>) {
        match to {
            Navigation::Command(command) => self.command(command, effects),
            Navigation::Theme(name) => {
                let theme = self.options.themes.iter().find(|theme| theme.name == name);
                if let Some(theme) = theme {
                    self.render_style.theme = theme.clone();
                }
            }
            Navigation::Object(selection) => self.go(place_of(selection)),
            Navigation::Action(action, selection) => {
                match action_keys::action_for(action, &[selection], &self.facts) {
                    Ok(request) => self.plan(request),
                    Err(why) => self.hint(why),
                }
            }
            Navigation::TypedAction(line) => match self.typed_intent(&line) {
                Ok(intent) => self.plan(ActionRequest::Intent(intent)),
                Err(why) => self.hint(why),
            },
            Navigation::Destination(Destination::Part(_, RowScope::Kind(kind, None)), filter)
                if filter.is_empty() =>
            {
                self.open_kind(kind, effects);
            }
            Navigation::Destination(place, words) => {
                match place {
                    Destination::Part(id, RowScope::All) => self.show(id),
                    other => self.go(other),
                }
                if !words.is_empty() {
                    match self.filter(&words) {
                        Some(wrong) => self.notify(wrong),
                        None => self.remember_filter(&words),
                    }
                }
            }
            Navigation::Team(team) => {
                self.scope.team = team;
                self.keep_to_part();
                self.summarize();
                self.enter();
            }
            Navigation::Sort(column) => {
                let facts = self.facts.clone();
                if let Some(table) = self.view_mut().table_mut() {
                    table.table_model.sort_by(column, &facts);
                }
            }
            Navigation::Palette(words) => self.overlay = Overlay::palette(self, &words),
            Navigation::Switch(switch) => self.switch(switch, effects),
            Navigation::There(id, switch) => {
                self.show(id);
                self.switch(switch, effects);
            }
            Navigation::PortForward(pod, ports) => effects.push(Effect::PortForward(pod, ports)),
            Navigation::StopPortForward(number) => effects.push(Effect::StopPortForward(number)),
            Navigation::Diff(when) => self.compare(when, effects),
            Navigation::Time(at) => self.go_to(at, effects),
            Navigation::Rewind(when) => effects.push(Effect::Rewind(Rewind::To(when))),
            Navigation::Live => effects.push(Effect::Live),
            Navigation::WhatIf(changes) => {
                self.suppose(&changes, effects);
                self.go(Destination::Part(ViewId::Jobs, RowScope::WhatIf(changes)));
            }
        }
    }

    /// Requests another session. The current one stays on screen until then.
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

    /// Applies the typed filter so far; a trailing column name is ignored until its comparison is typed.
    pub(super) fn filter_so_far(&mut self, words: &str) -> Option<String> {
        let kind = match self.view().table() {
            Some(table) => Some(table.table_model.kind),
            None if self.view().id() == ViewId::Devices => Some(&table::kinds::devices::KIND),
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
                effects.push(Effect::SavePicture(picture::svg(
                    &buf,
                    &self.render_style.theme,
                )));
            }
            // Asked once already.
            _ if matches!(self.overlay, Overlay::Leaving(_)) => effects.push(Effect::Leave),
            _ => effects.push(Effect::Quit),
        }
    }

    /// Runs a command of the front view or a global one.
    pub(super) fn command(&mut self, command: Command, effects: &mut Vec<Effect>) {
        if let Some(id) = command.view() {
            self.show(id);
            return;
        }
        let (facts, body) = (self.facts.clone(), self.body());
        let selection = self.view().selection(&facts);
        if let Some(why) = selection.and_then(|of| subject::unreadable(&facts, command, &of)) {
            self.hint(why);
            return;
        }
        match self.view_mut().on(command, &facts, body) {
            CommandOutcome::Done => {
                if matches!(command, Command::Sort | Command::Order)
                    && let Some(table) = self.view().table()
                {
                    self.hint(table.table_model.order_words(&facts));
                }
                return;
            }
            CommandOutcome::Navigate(to) => {
                self.go(to);
                return;
            }
            CommandOutcome::Suppose(changes) => {
                self.suppose(&changes, effects);
                return;
            }
            CommandOutcome::Hush(..) if self.timeline.is_some() => {
                self.notify(String::from(
                    "a record is read-only: mute or acknowledge in a live console",
                ));
                return;
            }
            CommandOutcome::Hush(id, entry) => {
                self.notify(String::from(match entry.map(|entry| entry.silence) {
                    Some(Silence::Muted) => "muted for a week; press again to unmute",
                    Some(Silence::Acknowledged) => {
                        "acknowledged until it ends; press again to undo"
                    }
                    None => "unmuted",
                }));
                self.silence(id.clone(), entry);
                effects.push(Effect::Hush(id, entry));
                return;
            }
            CommandOutcome::NotMine => {}
        }
        if self.moves_in_record(command, effects) {
            return;
        }
        match command {
            Command::Action(action) => {
                match action_keys::action_for(action, &self.acted_on(), &self.facts) {
                    Ok(request) => self.plan(request),
                    Err(why) => self.hint(why),
                }
            }
            Command::Shell => self.shell(&self.acted_on(), effects),
            Command::PortForward => self.ask_for_ports(&self.acted_on()),
            Command::StopRun => match self.view().selection(&self.facts) {
                Some(Selection::Run(run)) => {
                    let known = self.facts.acts.run(&run).map(|run| run.state);
                    match known.filter(|state| *state != RunState::Running) {
                        Some(state) => {
                            self.hint(format!("nothing to stop: the run is {}", state.name()));
                        }
                        None => self.stop(run.to_string(), effects),
                    }
                }
                _ => self.notify(String::from("no run is under the cursor")),
            },
            Command::LastView => self.last(),
            Command::Earlier => self.along(true),
            Command::Later => self.along(false),
            Command::Palette => self.overlay = Overlay::palette(self, ""),
            Command::Help => self.overlay = Overlay::Help(Box::default()),
            Command::Missing => self.overlay = Overlay::Missing(Default::default()),
            Command::Contexts => self.overlay = Overlay::palette(self, "ctx "),
            Command::Demo => self.switch(Switch::Demo, effects),
            Command::Retry => self.switch(Switch::Again, effects),
            Command::Filter => self.overlay = Overlay::filter(self.view().filter()),
            Command::Columns => match self.view().table() {
                Some(_) => self.overlay = Overlay::Columns(0),
                None => self.notify(String::from("this view has no columns")),
            },
            Command::Facts => match self.view().selection(&self.facts) {
                Some(selection) => self.overlay = Overlay::Facts(selection, Default::default()),
                None => self.hint(self.nothing_meant()),
            },
            Command::Describe | Command::Yaml | Command::Events | Command::Logs | Command::Tree => {
                match self.view().selection(&self.facts) {
                    Some(selection) => self.read_of(command, selection),
                    None => self.hint(self.nothing_meant()),
                }
            }
            Command::Copy => match self.meant().is_empty() {
                false => self.overlay = Overlay::Copy,
                true => self.hint(self.nothing_meant()),
            },
            Command::LongestWait => self.longest_wait(),
            Command::WhatIf => {
                let words = format!("what-if {}", suppose::begun(&self.facts, &self.acted_on()));
                self.overlay = Overlay::palette(self, &words);
            }
            Command::Waste => self.waste(),
            Command::Kind(kind) => self.open_kind(kind, effects),
            Command::Freeze => self.freeze(),
            Command::TimeBack => self.step(true),
            Command::TimeForward => self.step(false),
            Command::Refresh => {
                effects.push(Effect::Refresh);
                // Logs are followed anyway.
                let read = self.wanted.clone();
                if read
                    .as_ref()
                    .is_some_and(|want| !matches!(want.part, ObjectPart::Logs(_)))
                {
                    effects.push(Effect::Read(read));
                }
            }
            Command::Back => self.back(),
            Command::Leave if !self.up() => effects.push(Effect::Quit),
            Command::Suspend | Command::Redraw | Command::SavePicture | Command::Quit => {
                self.everywhere(command, effects);
            }
            _ => {}
        }
    }

    /// The intent of an action that is typed in the palette, in the words of `stokehold plan`.
    ///
    /// # Errors
    /// It does not follow the grammar, or names something that does not exist.
    fn typed_intent(&self, line: &str) -> Result<Intent, String> {
        let snapshot = engine::live::snapshot(&self.facts.fleet, &self.facts.spend_rates);
        let names = NameResolver {
            snapshot: &snapshot,
            namespace: None,
        };
        plan::actions::intent(line, &names).map_err(|error| match error {
            ParseError::Usage(message) => message,
            ParseError::Refused(refusal) => refusal.to_string(),
        })
    }

    /// The objects that an action key applies to: the selected ones, or the subjects of selected findings.
    pub(crate) fn acted_on(&self) -> Vec<Selection> {
        let about = |selection| subject::meant(&self.facts, selection);
        self.meant().into_iter().map(about).collect()
    }

    /// The message for an action without an object.
    fn nothing_meant(&self) -> String {
        String::from(match self.view().counts().0 {
            0 => "nothing is under the cursor",
            _ => "this row has several objects: enter lists them",
        })
    }

    fn plan(&mut self, request: ActionRequest) {
        if self.is_frozen() {
            self.notify(String::from(
                "the view is frozen: press f to resume, then plan",
            ));
            return;
        }
        self.asked += 1;
        self.overlay = Overlay::plan(self.asked, request, self.clock);
    }

    /// Stops a run after its current step.
    fn stop(&mut self, run: String, effects: &mut Vec<Effect>) {
        self.notify(String::from("the run stops after the current step"));
        effects.push(Effect::Stop(run.clone()));
        self.stopping = Some(run);
    }

    /// Handles the start of a plan's run; if the dialog was closed meanwhile, a notice says so.
    pub(super) fn began(&mut self, number: u64, run: Result<String, String>) {
        match (&mut self.overlay, &run) {
            (Overlay::Plan(dialog), _) => dialog.began(number, run),
            (_, Err(why)) => self.notify(why.clone()),
            (_, Ok(run)) => self.notify(format!("{run} continues in 9 plans")),
        }
    }

    /// Opens YAML, events or logs of an object.
    pub(super) fn read_of(&mut self, command: Command, selection: Selection) {
        if let Some(why) = subject::unreadable(&self.facts, command, &selection) {
            self.hint(why);
            return;
        }
        if let Some(table) = self.view_mut().table_mut() {
            table.table_model.place_cursor();
        }
        let id = self.view().id();
        self.go(match (command, tree_of(&self.facts, &selection)) {
            (Command::Tree, Some((tab, of))) => Destination::Part(tab, RowScope::Tree(of)),
            (Command::Logs, _) => Destination::Logs(id, selection),
            _ => {
                let text = sort_of(command).unwrap_or(ObjectText::Describe);
                Destination::Paper(id, text, selection)
            }
        });
    }

    /// The selected objects: the marked ones, or the one under the cursor.
    pub fn meant(&self) -> Vec<Selection> {
        self.view().meant(&self.facts)
    }

    fn copy(&mut self, what: As, effects: &mut Vec<Effect>) {
        let meant = self.meant();
        let table = || match self.view().copied_rows(&self.facts, &self.render_style) {
            Some(clip) => clip,
            None => (
                vec![String::from("NAME")],
                meant
                    .iter()
                    .map(|selection| vec![selection.title(&self.facts)])
                    .collect(),
            ),
        };
        let (name, text) = match what {
            As::Name => ("name", Some(clipboard::names(&self.facts, &meant))),
            As::Row => {
                let (heads, rows) = table();
                ("row", Some(clipboard::rows(&heads, &rows)))
            }
            As::Markdown => {
                let (heads, rows) = table();
                ("row as Markdown", Some(clipboard::markdown(&heads, &rows)))
            }
            As::Kubectl => (
                "kubectl command",
                clipboard::kubectl(&self.facts.context, &meant),
            ),
        };
        match text {
            Some(text) => self.put_on_clipboard(name, text, effects),
            None => self.notify(String::from("kubectl has no such object")),
        }
    }

    /// Copies text to the clipboard. Text from the cluster is sanitized before it reaches the terminal.
    fn put_on_clipboard(&mut self, what: &str, text: String, effects: &mut Vec<Effect>) {
        let lines: Vec<String> = text
            .split('\n')
            .map(|line| {
                let cells: Vec<_> = line.split('\t').map(model::base::name::printable).collect();
                cells.join("\t")
            })
            .collect();
        let clean = lines.join("\n");
        if clean.len() > clipboard::LONGEST {
            self.notify(format!(
                "{} kB is too much for a terminal's clipboard; `stokehold get -o csv` writes all",
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
                let line = frame::tab_line(area).filter(|line| y == line.y);
                if let Some(id) = line.and_then(|line| tab_at(self, line, x)) {
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

/// The view that shows an object best.
fn place_of(selection: Selection) -> Destination {
    match selection {
        Selection::Node(name) => Destination::Part(ViewId::Nodes, RowScope::Node(name)),
        Selection::Job(id) => Destination::Part(ViewId::Jobs, RowScope::Job(id)),
        Selection::Pool(name) => Destination::Part(ViewId::Nodes, RowScope::Pool(name)),
        other => Destination::Facts(other),
    }
}
