//! Hands: keys, paste and mouse become commands, commands become changes and effects.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::console::commands::{Command, Context};
use crate::console::frame;
use crate::console::msg::{Effect, Key, KeyPress, Mouse};
use crate::console::overlay::{Overlay, Verdict};
use crate::console::picture;
use crate::console::view::paper::Sort;
use crate::console::view::{Lens, Picked, Place, Turn, ViewId};

use crate::report::hush::Hush;

use super::App;

/// From so many rows on, a filter is applied only once its letters are on screen.
const LARGE: usize = 20_000;

impl App {
    pub(super) fn key(&mut self, press: KeyPress, effects: &mut Vec<Effect>) {
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

    pub(super) fn judge(&mut self, verdict: Verdict, overlay: Overlay, effects: &mut Vec<Effect>) {
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
            Verdict::Read(command, picked) => self.read_of(command, picked),
            Verdict::Theme(name) => {
                let theme = self.options.themes.iter().find(|theme| theme.name == name);
                if let Some(theme) = theme {
                    self.ink.theme = theme.clone();
                }
            }
        }
    }

    pub(super) fn filter(&mut self, words: &str) -> Option<String> {
        let facts = self.facts.clone();
        self.view_mut().set_filter(words, &facts).err()
    }

    pub(super) fn everywhere(&mut self, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Suspend => effects.push(Effect::Suspend),
            Command::Redraw => effects.push(Effect::Redraw),
            Command::SavePicture => {
                let area = Rect::new(0, 0, self.size.0, self.size.1);
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
            Command::LastView => self.show(self.last),
            Command::Palette => self.overlay = Overlay::palette(),
            Command::Help => self.overlay = Overlay::Help(0),
            Command::Filter => self.overlay = Overlay::filter(self.view().filter()),
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
            Command::Copy => match self.view().picked(&self.facts) {
                Some(picked) => self.copy(picked.name(), effects),
                None => self.notify(String::from("nothing is under the cursor")),
            },
            Command::Waste => self.go(Place::Part(ViewId::Devices, Lens::Idle)),
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

    /// Opens what the cluster says of an object.
    pub(super) fn read_of(&mut self, command: Command, picked: Picked) {
        self.go(match command {
            Command::Yaml => Place::Paper(Sort::Yaml, picked),
            Command::Events => Place::Paper(Sort::Events, picked),
            Command::Logs => Place::Logs(picked),
            _ => Place::Paper(Sort::Describe, picked),
        });
    }

    /// Puts a name on the clipboard. What the cluster wrote is cleaned before it reaches the terminal.
    pub(super) fn copy(&mut self, name: String, effects: &mut Vec<Effect>) {
        let clean = crate::base::name::printable(&name).into_owned();
        self.notify(format!("copied {clean}"));
        effects.push(Effect::Copy(clean));
    }

    pub(super) fn paste(&mut self, words: &str) {
        let mut overlay = std::mem::replace(&mut self.overlay, Overlay::None);
        let verdict = overlay.paste(words);
        self.judge(verdict, overlay, &mut Vec::new());
    }

    pub(super) fn mouse(&mut self, mouse: Mouse, effects: &mut Vec<Effect>) {
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
