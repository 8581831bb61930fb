//! What comes into the console and what goes out of it: plain data on both sides.

use std::fmt;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent, MouseEventKind};

use model::base::{Moment, Name, When};
use table::Facts;
use table::actions::ActionState;
use table::changes::Changes;
use table::explanations::JobExplanations;
use table::silence::{Entry, Silences};
use table::spend::UsageFacts;
use table::timeline::{Playback, Timeline};
use table::what_if::Supposed;

use super::action_keys::{ConfirmedPlan, PlanOutcome, PlanRequest};
use super::pod_access::{PortForward, Ports, ShellTarget};
use model::base::ObjectKey;
use model::object::{ObjectNews, ObjectRequest};

/// A key without its modifiers. Shift is in the letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// A character as typed, the space bar included.
    Char(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Shift and tab.
    BackTab,
    /// Backspace.
    Backspace,
    /// Delete.
    Delete,
    /// Up.
    Up,
    /// Down.
    Down,
    /// Left.
    Left,
    /// Right.
    Right,
    /// Home.
    Home,
    /// End.
    End,
    /// Page up.
    PageUp,
    /// Page down.
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

/// One key press.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyPress {
    /// The key.
    pub key: Key,
    /// With control.
    pub ctrl: bool,
    /// With alt.
    pub alt: bool,
}

impl KeyPress {
    /// A key alone.
    pub const fn plain(key: Key) -> Self {
        Self {
            key,
            ctrl: false,
            alt: false,
        }
    }

    /// A character alone.
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

    /// The press that crossterm saw; `None` for a release, a lone modifier and keys that have no name here.
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
        // A terminal sends ctrl-\ and its neighbors as ctrl-4 to ctrl-7; ctrl with a letter has no case.
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

/// What a mouse did, for those who allow one.
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
    /// What crossterm saw, when it means something here.
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

/// What comes in.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(KeyPress),
    /// The mouse did something.
    Mouse(Mouse),
    /// The terminal is now this wide and high.
    Resize(u16, u16),
    /// A new picture of the fleet. Only the latest matters.
    Facts(Facts),
    /// What the engine says of the work that waits.
    JobExplanations(Arc<JobExplanations>),
    /// What the usage ledger of the cluster's record tells.
    Usage(Arc<UsageFacts>),
    /// What may be done to the cluster, and what was done.
    ActionState(Arc<ActionState>),
    /// What came of the question of this number.
    PlanOutcome(u64, PlanOutcome),
    /// What came of these changes, which were supposed.
    Supposed(Name, Supposed),
    /// How the carrying out of the plan of this number began: the run's name, or why not.
    Began(u64, Result<String, String>),
    /// The time is now this, on the server's clock.
    Tick(Moment),
    /// Text was pasted: one piece, never taken for keys.
    Paste(String),
    /// The program is back in the foreground.
    Resume,
    /// Something to tell the operator, for a few seconds.
    Notice(String),
    /// The port-forwards that run now.
    PortForwards(Vec<PortForward>),
    /// Which findings were muted or acknowledged before.
    Silences(Silences),
    /// What came of what a view wanted read.
    Read(ObjectRequest, ObjectNews),
    /// A session has been opened: what was asked for with [`Effect::Switch`], or the first one.
    Session(Session),
    /// No session could be opened, for this reason; what was shown before stays.
    NoSession(String),
    /// From now on the record of the cluster is shown, beginning with this picture; the session goes on beside it.
    Rewound(Box<Facts>, Timeline),
    /// The session is shown again, not its record.
    Live,
    /// What is shown is a record: how its replay stands.
    Timeline(Timeline),
    /// What came of the comparison of this name: the changes, or why there are none.
    Changes(Name, Result<Changes, String>),
}

/// What a running session looks at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Session {
    /// Name of its context.
    pub context: Name,
    /// Every context that could be chosen.
    pub contexts: Vec<Name>,
    /// The namespaces that it is restricted to; empty is all.
    pub namespaces: Vec<Name>,
    /// A notice about how it was opened.
    pub notice: Option<String>,
}

/// What to look at instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Another context of the kubeconfig.
    Context(Name),
    /// These namespaces of the same cluster; none is all of them.
    Namespaces(Vec<Name>),
    /// The simulated fleet.
    Demo,
    /// The same again.
    Again,
}

/// Where a live console goes into the record of its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewind {
    /// To a moment.
    To(When),
    /// To the last change that matters.
    LastChange,
}

/// What the runtime is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Give the terminal back and stop, as ctrl-z does.
    Suspend,
    /// Lend the terminal to a shell until it ends.
    Shell(ShellTarget),
    /// Forward a port of this machine to one of a pod.
    PortForward(ObjectKey, Ports),
    /// End the port-forward of this number.
    StopPortForward(u64),
    /// Paint every cell anew: the terminal may show something else than we think.
    Redraw,
    /// Put this on the clipboard (OSC 52). Has no control characters but tabs and line ends.
    Copy(String),
    /// Close the session and open another; the screen goes on meanwhile.
    Switch(Switch),
    /// Read every source again now, within its limits.
    Refresh,
    /// Read this for the view in front, instead of what was read before; `None` ends that.
    Read(Option<ObjectRequest>),
    /// Keep what was done with this finding; `None` forgets it.
    Hush(Name, Option<Entry>),
    /// Nodes whose devices are on screen, in order; their readings come first.
    OnScreen(Vec<Name>),
    /// Compute what becomes of the fleet under these changes; nothing is changed.
    Suppose(Name),
    /// Make a plan; nothing is changed.
    Plan(PlanRequest),
    /// Carry out a confirmed plan.
    CarryOut(Box<ConfirmedPlan>),
    /// Stop this run after its current step.
    Stop(String),
    /// Go on with this run.
    GoOn(String),
    /// Move in the record that is replayed.
    Replay(Playback),
    /// Show the record of the cluster that is looked at; the session goes on beside it.
    Rewind(Rewind),
    /// Show the session again, not its record.
    Live,
    /// Write this SVG picture of the frame to a file and say where.
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
