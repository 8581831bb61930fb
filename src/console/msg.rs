//! Messages into the console and effects out of it: plain data.

use std::fmt;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};

use model::base::{Moment, Name, When};
use table::Facts;
use table::actions::ActionState;
use table::changes::FleetChanges;
use table::silence::{SilenceEntry, Silences};
use table::spend::UsageFacts;
use table::timeline::{Playback, Timeline};
use table::waiting::explanations::JobExplanations;
use table::what_if::Supposed;

use super::action_keys::{ConfirmedPlan, PlanOutcome, PlanRequest};
use super::pod_access::{PortForward, Ports, ShellTarget};
use model::base::ObjectKey;
use model::object::{ObjectNews, ObjectRequest};

/// A key without its modifiers. Shift is part of the character.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A character as typed, the space bar included.
    Char(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// A function key, from 1.
    F(u8),
}

const NAMED: [(&str, Key); 16] = [
    ("space", Key::Char(' ')),
    ("enter", Key::Enter),
    ("esc", Key::Esc),
    ("tab", Key::Tab),
    ("backtab", Key::BackTab),
    ("backspace", Key::Backspace),
    ("delete", Key::Delete),
    ("up", Key::Up),
    ("down", Key::Down),
    ("left", Key::Left),
    ("right", Key::Right),
    ("home", Key::Home),
    ("end", Key::End),
    ("pageup", Key::PageUp),
    ("pagedown", Key::PageDown),
    ("plus", Key::Char('+')),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyPress {
    pub key: Key,
    pub ctrl: bool,
    pub alt: bool,
}

impl KeyPress {
    pub const fn plain(key: Key) -> Self {
        Self {
            key,
            ctrl: false,
            alt: false,
        }
    }

    pub const fn char(c: char) -> Self {
        Self::plain(Key::Char(c))
    }

    /// A character with control.
    pub const fn ctrl(c: char) -> Self {
        Self {
            key: Key::Char(c),
            ctrl: true,
            alt: false,
        }
    }

    /// Converts a crossterm event; `None` for a release, a modifier alone and unsupported keys.
    pub fn from_crossterm(event: &KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let key = match event.code {
            KeyCode::Char(c) => Key::Char(c),
            KeyCode::Enter => Key::Enter,
            KeyCode::Esc => Key::Esc,
            KeyCode::Tab => Key::Tab,
            KeyCode::BackTab => Key::BackTab,
            KeyCode::Backspace => Key::Backspace,
            KeyCode::Delete => Key::Delete,
            KeyCode::Up => Key::Up,
            KeyCode::Down => Key::Down,
            KeyCode::Left => Key::Left,
            KeyCode::Right => Key::Right,
            KeyCode::Home => Key::Home,
            KeyCode::End => Key::End,
            KeyCode::PageUp => Key::PageUp,
            KeyCode::PageDown => Key::PageDown,
            KeyCode::F(number) => Key::F(number),
            _ => return None,
        };
        let ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        // Terminals send ctrl-\ to ctrl-_ as ctrl-4 to ctrl-7; ctrl with a letter ignores case.
        let key = match key {
            Key::Char(c @ '4'..='7') if ctrl => Key::Char(['\\', ']', '^', '_'][c as usize - 0x34]),
            Key::Char(c) if ctrl => Key::Char(c.to_ascii_lowercase()),
            other => other,
        };
        Some(Self {
            key,
            ctrl,
            alt: event.modifiers.contains(KeyModifiers::ALT),
        })
    }

    /// Parses `j`, `ctrl-f`, `alt-x`, `pagedown`, `f5`, `space`.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut rest, mut ctrl, mut alt) = (text, false, false);
        loop {
            if let Some(tail) = rest.strip_prefix("ctrl-").filter(|tail| !tail.is_empty()) {
                (rest, ctrl) = (tail, true);
            } else if let Some(tail) = rest.strip_prefix("alt-").filter(|tail| !tail.is_empty()) {
                (rest, alt) = (tail, true);
            } else {
                break;
            }
        }
        let mut chars = rest.chars();
        let key = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() && !c.is_whitespace() => {
                Key::Char(if ctrl { c.to_ascii_lowercase() } else { c })
            }
            _ => match NAMED.iter().find(|(name, _)| *name == rest) {
                Some((_, key)) => *key,
                None => {
                    let number = rest.strip_prefix('f')?.parse().ok()?;
                    (1..=24).contains(&number).then_some(Key::F(number))?
                }
            },
        };
        Some(Self { key, ctrl, alt })
    }
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if self.ctrl {
            text.push_str("ctrl-");
        }
        if self.alt {
            text.push_str("alt-");
        }
        match (NAMED.iter().find(|(_, key)| *key == self.key), self.key) {
            (Some(("plus", _)), _) => text.push('+'),
            (Some((name, _)), _) => text.push_str(name),
            (None, Key::Char(c)) => text.push(c),
            (None, Key::F(number)) => text.push_str(&format!("f{number}")),
            (None, _) => {}
        }
        f.pad(&text)
    }
}

/// A mouse event, where the mouse is enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mouse {
    /// Pressed at column and line.
    Press(u16, u16),
    /// The wheel turned up.
    WheelUp,
    /// The wheel turned down.
    WheelDown,
}

impl Mouse {
    /// Converts a crossterm event, when it is supported.
    pub fn from_crossterm(event: &MouseEvent) -> Option<Self> {
        match event.kind {
            MouseEventKind::Down(crossterm::event::MouseButton::Left) => {
                Some(Self::Press(event.column, event.row))
            }
            MouseEventKind::ScrollUp => Some(Self::WheelUp),
            MouseEventKind::ScrollDown => Some(Self::WheelDown),
            _ => None,
        }
    }
}

/// A message into the console.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(KeyPress),
    Mouse(Mouse),
    /// The terminal's new width and height.
    Resize(u16, u16),
    /// New facts. Only the latest matter.
    Facts(Facts),
    /// The engine's explanations of waiting work.
    JobExplanations(Arc<JobExplanations>),
    /// Usage and budgets from the usage ledger.
    Usage(Arc<UsageFacts>),
    /// Write access and runs.
    ActionState(Arc<ActionState>),
    /// The outcome of the plan request with this number.
    PlanOutcome(u64, PlanOutcome),
    /// The result of a what-if question.
    Supposed(Name, Supposed),
    /// The start of the run for the plan with this number: the run's name, or the error.
    Began(u64, Result<String, String>),
    /// The operator wants to leave while this run of the console is in progress.
    Leaving(String),
    /// The current time on the server's clock.
    Tick(Moment),
    /// Pasted text: one piece, never interpreted as keys.
    Paste(String),
    /// The program is in the foreground again.
    Resume,
    /// A notice for a few seconds.
    Notice(String),
    PortForwards(Vec<PortForward>),
    /// Findings that were muted or acknowledged earlier.
    Silences(Silences),
    /// The result of a view's read request.
    Read(ObjectRequest, ObjectNews),
    /// A session was opened: the one requested with [`Effect::Switch`], or the first one.
    Session(SessionInfo),
    /// No session could be opened, with the reason; the previous one stays on screen.
    NoSession(String),
    /// The record of the cluster is shown from now on, starting with this snapshot; the session stays open.
    Rewound(Box<Facts>, Timeline),
    /// The session is shown again instead of its record.
    Live,
    /// A record is shown: its replay state.
    Timeline(Timeline),
    /// The result of the comparison with this name: the changes, or the error.
    Changes(Name, Result<FleetChanges, String>),
}

/// What the session is connected to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionInfo {
    pub context: Name,
    pub contexts: Vec<Name>,
    /// The namespaces that it is restricted to; empty for all.
    pub namespaces: Vec<Name>,
    /// A notice about how it was opened.
    pub notice: Option<String>,
}

/// What to connect to instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Another context of the kubeconfig.
    Context(Name),
    /// These namespaces of the same cluster; empty for all.
    Namespaces(Vec<Name>),
    Demo,
    Again,
}

/// Where to enter the record of a live cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewind {
    To(When),
    /// At the last notable change.
    LastChange,
}

/// A request to the runtime.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Quit. While a run of this console is in progress it is asked first: [`Msg::Leaving`].
    Quit,
    /// Quit; a run of this console goes on in a process of its own.
    Leave,
    /// Return to the shell and stop the process, as ctrl-z does.
    Suspend,
    /// Hand the terminal to a shell until it ends.
    Shell(ShellTarget),
    /// Forward a local port to a pod's port.
    PortForward(ObjectKey, Ports),
    StopPortForward(u64),
    /// Redraw every cell: the terminal's contents may differ from the buffer.
    Redraw,
    /// Copy this to the clipboard (OSC 52). Contains no control characters except tabs and line breaks.
    Copy(String),
    /// Close the session and open another; the screen keeps working meanwhile.
    Switch(Switch),
    /// Read every source again now, within its rate limits.
    Refresh,
    /// Read this for the front view, replacing the previous read; `None` ends it.
    Read(Option<ObjectRequest>),
    /// Store the silence of this finding; `None` removes it.
    Hush(Name, Option<SilenceEntry>),
    /// Nodes whose devices are on screen, in order; their readings have priority.
    OnScreen(Vec<Name>),
    /// Compute a what-if result; nothing is changed.
    Suppose(Name),
    /// Make a plan; nothing is changed.
    Plan(PlanRequest),
    CarryOut(Box<ConfirmedPlan>),
    /// Stop this run after its current step.
    Stop(String),
    GoOn(String),
    /// A playback command for the replayed record.
    Replay(Playback),
    /// Show the record of the connected cluster; the session stays open.
    Rewind(Rewind),
    /// Show the session again instead of its record.
    Live,
    /// Write this SVG of the frame to a file and report its path.
    SavePicture(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_are_written() {
        for text in [
            "j", "G", "ctrl-f", "alt-x", "pagedown", "f5", "space", "/", "-", "ctrl-\\", "?", "+",
            "f",
        ] {
            let press = KeyPress::parse(text).expect(text);
            assert_eq!(press.to_string(), text);
        }
        assert_eq!(KeyPress::parse("ctrl-F"), KeyPress::parse("ctrl-f"));
        for bad in ["", "ctrl-", "foo", "f0", "f99", "\u{1b}", "jj", " "] {
            assert_eq!(KeyPress::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_release_is_no_press() {
        let mut event = KeyEvent::new(KeyCode::Char('J'), KeyModifiers::SHIFT);
        assert_eq!(KeyPress::from_crossterm(&event), Some(KeyPress::char('J')));
        event.kind = KeyEventKind::Release;
        assert_eq!(KeyPress::from_crossterm(&event), None);
    }
}
