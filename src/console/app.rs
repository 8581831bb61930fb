//! The screen's state machine: messages in, effects out, a frame drawn from what it knows. Pure: the time comes in.

use std::sync::Arc;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::base::{Moment, Name};
use crate::fleet::Fleet;
use crate::report::Facts;

use super::brush::{Brush, Ink};
use super::color::ColorDepth;
use super::commands::{Command, Context};
use super::frame;
use super::keys::Keymap;
use super::msg::{Effect, Key, KeyPress, Mouse, Msg};
use super::overlay::{Overlay, Verdict};
use super::summary::Summary;
use super::theme::Theme;
use super::view::{self, Lens, Place, Turn, View, ViewId};

/// After so long without a key, rows may change places.
const QUIET: Duration = Duration::from_secs(10);
/// From so many rows on, a filter is applied only once its letters are on screen.
const LARGE: usize = 20_000;
/// When what is typed is applied, if no other key comes before.
const SOON: Duration = Duration::from_millis(1);
/// How long a notice stays.
const NOTICE: Duration = Duration::from_secs(6);

/// What the console is started with.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The look.
    pub theme: Theme,
    /// Other looks that the palette offers.
    pub themes: Vec<Theme>,
    /// Colours of the terminal.
    pub depth: ColorDepth,
    /// Only ASCII signs.
    pub ascii: bool,
    /// The keys.
    pub keys: Keymap,
    /// The context's name, until facts bring their own.
    pub context: Name,
    /// Why nothing can be changed, in a few words.
    pub readonly_reason: String,
    /// The team that is looked at; `None` is all.
    pub team: Option<Name>,
    /// The view to begin with.
    pub view: ViewId,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            theme: Theme::ember(),
            themes: Theme::names()
                .filter_map(|name| Theme::builtin(name).ok())
                .collect(),
            depth: ColorDepth::True,
            ascii: false,
            keys: Keymap::builtin(),
            context: Name::new("–"),
            readonly_reason: String::from("read-only"),
            team: None,
            view: ViewId::Fleet,
        }
    }
}

/// What drawing learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drawn {
    /// Where the terminal's cursor belongs, while something is typed.
    pub cursor: Option<Position>,
    /// When the picture next changes by itself: send a tick and draw again by then.
    pub wake_after: Option<Duration>,
}

/// The console.
pub struct App {
    pub(super) options: AppOptions,
    pub(super) ink: Ink,
    pub(super) facts: Facts,
    pub(super) summary: Summary,
    /// The newest picture, while the shown one is held still.
    frozen: Option<Option<Box<Facts>>>,
    size: (u16, u16),
    /// The views behind the tabs, made when first opened.
    tabs: Vec<Option<Box<dyn View>>>,
    tab: ViewId,
    last: ViewId,
    /// Views that were drilled into, above the tab.
    stack: Vec<Box<dyn View>>,
    pub(super) overlay: Overlay,
    notice: Option<(String, Moment)>,
    /// A filter of a large view that is typed but not applied: the letters are drawn first.
    typed: Option<String>,
    last_key: Moment,
    on_screen: Vec<Name>,
}

impl App {
    /// A console that knows nothing yet.
    pub fn new(options: AppOptions) -> Self {
        let ink = Ink {
            theme: options.theme.clone(),
            depth: options.depth,
            ascii: options.ascii,
        };
        let facts = Facts {
            context: options.context.clone(),
            fleet: Arc::new(Fleet::unknown(Arc::default())),
            burn: Arc::default(),
            history: Arc::default(),
            now: Moment::default(),
        };
        let tab = options.view;
        let mut app = Self {
            options,
            ink,
            facts,
            summary: Summary::default(),
            frozen: None,
            size: (120, 40),
            tabs: ViewId::ALL.iter().map(|_| None).collect(),
            tab,
            last: tab,
            stack: Vec::new(),
            overlay: Overlay::None,
            notice: None,
            typed: None,
            last_key: Moment::default(),
            on_screen: Vec::new(),
        };
        app.show(tab);
        app
    }

    /// Takes a message and says what is to be done about it.
    pub fn update(&mut self, msg: Msg) -> Vec<Effect> {
        let mut effects = Vec::new();
        match msg {
            Msg::Key(press) => {
                self.last_key = self.facts.now;
                self.key(press, &mut effects);
            }
            Msg::Mouse(mouse) => {
                self.last_key = self.facts.now;
                self.mouse(mouse, &mut effects);
            }
            Msg::Resize(width, height) => {
                self.size = (width, height);
                self.fit();
            }
            Msg::Facts(facts) => self.take(facts),
            Msg::Tick(now) => self.tick(now),
            Msg::Paste(words) => self.paste(&words),
            Msg::Resume => effects.push(Effect::Redraw),
            Msg::Notice(words) => self.notify(words),
        }
        let on_screen = self.view().on_screen(&self.facts, self.body());
        if on_screen != self.on_screen {
            self.on_screen.clone_from(&on_screen);
            effects.push(Effect::OnScreen(on_screen));
        }
        effects
    }

    /// Draws the frame. The same state draws the same cells.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) -> Drawn {
        let mut brush = Brush::new(buf, &self.ink, self.facts.now);
        let cursor = frame::draw(self, &mut brush, area);
        if self.view().is_unsettled() {
            let quiet = self.quiet();
            brush.wake_in(QUIET.as_millis() as u64 - quiet.min(QUIET.as_millis() as u64 - 1));
        }
        if let Some((_, until)) = &self.notice {
            brush.wake_in(until.since(self.facts.now).millis().max(1));
        }
        Drawn {
            cursor,
            wake_after: match (&self.typed, self.is_frozen()) {
                (Some(_), _) => Some(SOON),
                (None, true) => None,
                (None, false) => brush.wake(),
            },
        }
    }

    /// The view in front.
    pub fn view(&self) -> &dyn View {
        match self.stack.last() {
            Some(view) => view.as_ref(),
            None => self.tabs[place(self.tab)]
                .as_deref()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    fn view_mut(&mut self) -> &mut Box<dyn View> {
        match self.stack.last_mut() {
            Some(view) => view,
            None => self.tabs[place(self.tab)]
                .as_mut()
                .expect("the shown tab's view is made before it is shown"),
        }
    }

    /// The facts that are shown.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// True while the picture is held still.
    pub const fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// What the operator is told just now.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(words, _)| words.as_str())
    }

    /// Whose keys are heard.
    pub fn contexts(&self) -> &'static [Context] {
        self.overlay
            .contexts()
            .unwrap_or_else(|| self.view().contexts())
    }

    /// Views on the way back, the tab's own first.
    pub fn trail(&self) -> Vec<String> {
        let tab = self.tabs[place(self.tab)].as_deref();
        tab.into_iter()
            .chain(self.stack.iter().map(|view| view.as_ref()))
            .map(View::trail)
            .filter(|trail| !trail.is_empty())
            .collect()
    }

    /// The room of the view.
    pub fn body(&self) -> Rect {
        frame::body(Rect::new(0, 0, self.size.0, self.size.1))
    }

    fn quiet(&self) -> u64 {
        self.facts.now.since(self.last_key).millis()
    }

    fn is_quiet(&self) -> bool {
        u128::from(self.quiet()) >= QUIET.as_millis()
    }

    fn take(&mut self, facts: Facts) {
        if let Some(held) = &mut self.frozen {
            *held = Some(Box::new(facts));
            return;
        }
        let same = Arc::ptr_eq(&facts.fleet, &self.facts.fleet)
            && Arc::ptr_eq(&facts.burn, &self.facts.burn);
        self.facts = facts;
        if same {
            return;
        }
        self.summary = Summary::of(&self.facts.fleet);
        let settle = self.is_quiet();
        self.refresh(settle);
    }

    fn refresh(&mut self, settle: bool) {
        let facts = self.facts.clone();
        self.view_mut().refresh(&facts, settle);
    }

    fn fit(&mut self) {
        let facts = self.facts.clone();
        let (body, paired) = (self.body(), self.ink.half_blocks());
        self.view_mut().fit(&facts, body, paired);
    }

    fn tick(&mut self, now: Moment) {
        if let Some(words) = self.typed.take() {
            let wrong = self.filter(&words);
            let overlay = std::mem::replace(&mut self.overlay, Overlay::None);
            self.overlay = overlay.with_error(wrong);
        }
        if self.is_frozen() {
            return;
        }
        self.facts.now = now;
        if self.notice.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.notice = None;
        }
        if self.is_quiet() && self.view().is_unsettled() {
            self.refresh(true);
        }
    }

    fn notify(&mut self, words: String) {
        self.notice = Some((words, self.facts.now.plus(NOTICE)));
    }

    /// Shows the view behind a tab.
    fn show(&mut self, id: ViewId) {
        if id != self.tab {
            self.last = self.tab;
        }
        self.tab = id;
        self.stack.clear();
        // A team sees its own jobs and devices; what is shared stays whole.
        let lens = match (&self.options.team, id) {
            (Some(team), ViewId::Jobs | ViewId::Devices) => Lens::Team(team.clone()),
            _ => Lens::All,
        };
        let slot = &mut self.tabs[place(id)];
        if slot.is_none() {
            *slot = Some(view::open(id, lens));
        }
        self.enter();
    }

    /// Brings the view in front up to date: while it was behind, it took nothing.
    fn enter(&mut self) {
        self.fit();
        self.refresh(true);
    }

    fn go(&mut self, to: Place) {
        match to {
            Place::Part(id, lens) => {
                let view = view::open(id, lens);
                self.stack.push(view);
                self.enter();
            }
            Place::Facts(picked) => self.overlay = Overlay::Facts(picked, 0),
        }
    }

    fn key(&mut self, press: KeyPress, effects: &mut Vec<Effect>) {
        let command = self.options.keys.command(press, self.contexts());
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
                self.copy(name, effects);
            }
            Verdict::Filter(words, true) if self.view().counts().1 > LARGE => {
                self.typed = Some(words);
                self.overlay = overlay;
            }
            Verdict::Filter(words, keep_open) => {
                self.typed = None;
                let wrong = self.filter(&words);
                if keep_open || wrong.is_some() {
                    self.overlay = overlay.with_error(wrong);
                }
            }
            Verdict::Run(command) => self.command(command, effects),
            Verdict::Theme(name) => {
                let theme = self.options.themes.iter().find(|theme| theme.name == name);
                if let Some(theme) = theme {
                    self.ink.theme = theme.clone();
                }
            }
        }
    }

    fn filter(&mut self, words: &str) -> Option<String> {
        let facts = self.facts.clone();
        self.view_mut().set_filter(words, &facts).err()
    }

    fn everywhere(&mut self, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Suspend => effects.push(Effect::Suspend),
            Command::Redraw => effects.push(Effect::Redraw),
            Command::SavePicture => {
                let area = Rect::new(0, 0, self.size.0, self.size.1);
                let mut buf = Buffer::empty(area);
                self.draw(area, &mut buf);
                effects.push(Effect::SavePicture(super::picture::svg(
                    &buf,
                    &self.ink.theme,
                )));
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
            Turn::NotMine => {}
        }
        match command {
            Command::LastView => self.show(self.last),
            Command::Palette => self.overlay = Overlay::palette(),
            Command::Help => self.overlay = Overlay::Help(0),
            Command::Filter => self.overlay = Overlay::filter(self.view().filter()),
            Command::Facts => match self.view().picked(&self.facts) {
                Some(picked) => self.overlay = Overlay::Facts(picked, 0),
                None => self.notify(String::from("nothing is under the cursor")),
            },
            Command::Copy => match self.view().picked(&self.facts) {
                Some(picked) => self.copy(picked.name(), effects),
                None => self.notify(String::from("nothing is under the cursor")),
            },
            Command::Freeze => self.freeze(),
            Command::Refresh => {
                effects.push(Effect::Refresh);
                self.notify(String::from("asked the sources again"));
            }
            Command::Back => self.back(),
            Command::Leave => {
                if self.stack.is_empty() {
                    effects.push(Effect::Quit);
                } else {
                    self.stack.pop();
                    self.enter();
                }
            }
            Command::Suspend | Command::Redraw | Command::SavePicture | Command::Quit => {
                self.everywhere(command, effects);
            }
            _ => {}
        }
    }

    /// Drops the filter, then the faults-only look, then goes back up.
    fn back(&mut self) {
        let facts = self.facts.clone();
        let view = self.view_mut();
        if !view.filter().is_empty() {
            // An empty filter is always understood.
            let _ = view.set_filter("", &facts);
        } else if view.faults_only() {
            let body = self.body();
            self.view_mut().on(Command::Faults, &facts, body);
        } else if self.stack.pop().is_some() {
            self.enter();
        }
    }

    fn freeze(&mut self) {
        match self.frozen.take() {
            None => self.frozen = Some(None),
            Some(held) => {
                if let Some(facts) = held {
                    self.take(*facts);
                }
            }
        }
    }

    /// Puts a name on the clipboard. What the cluster wrote is cleaned before it reaches the terminal.
    fn copy(&mut self, name: String, effects: &mut Vec<Effect>) {
        let clean = crate::base::name::printable(&name).into_owned();
        self.notify(format!("copied {clean}"));
        effects.push(Effect::Copy(clean));
    }

    fn paste(&mut self, words: &str) {
        let mut overlay = std::mem::replace(&mut self.overlay, Overlay::None);
        let verdict = overlay.paste(words);
        self.judge(verdict, overlay, &mut Vec::new());
    }

    fn mouse(&mut self, mouse: Mouse, effects: &mut Vec<Effect>) {
        let command = match mouse {
            Mouse::WheelUp => Command::Up,
            Mouse::WheelDown => Command::Down,
            Mouse::Press(x, y) => {
                if !matches!(self.overlay, Overlay::None) {
                    return;
                }
                let area = Rect::new(0, 0, self.size.0, self.size.1);
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

fn place(id: ViewId) -> usize {
    ViewId::ALL
        .iter()
        .position(|known| *known == id)
        .expect("the list holds every view")
}

/// One frame as plain text: for pipes, logs and tests. Lines have no trailing blanks.
pub fn render_text(app: &App, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    app.draw(area, &mut buf);
    buffer_text(&buf)
}

/// The signs of a buffer as text, line by line.
pub fn buffer_text(buf: &Buffer) -> String {
    let mut out = String::with_capacity(buf.content.len() + usize::from(buf.area.height));
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut skip = 0;
        for x in buf.area.left()..buf.area.right() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buf[(x, y)].symbol();
            skip = super::text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
