//! Scroll position in a long text.

use std::cell::Cell;

use crate::commands::Command;

/// Beyond every text: the end is found when it is drawn.
const FAR: usize = usize::MAX / 2;
/// Page size in lines before the first draw.
const UNSEEN: usize = 20;

/// The first line that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scroll {
    first: usize,
}

impl Scroll {
    /// The first line of a window of `height` in a text of `lines`.
    pub fn first(self, lines: usize, height: usize) -> usize {
        self.first.min(lines.saturating_sub(height))
    }

    /// Handles a scroll command; true when it was one. `lines` and `height` are those of the last draw.
    pub fn on(&mut self, command: Command, lines: usize, height: usize) -> bool {
        let first = self.first(lines, height);
        let page = height.saturating_sub(1).max(1);
        self.first = match command {
            Command::Up => first.saturating_sub(1),
            Command::Down => first + 1,
            Command::PageUp => first.saturating_sub(page),
            Command::PageDown => first + page,
            Command::Top => 0,
            Command::Bottom => FAR,
            _ => return false,
        };
        self.first = self.first(lines, height);
        true
    }
}

/// Scroll position of a popup, whose text length and visible lines are known only when it is drawn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PopupScroll {
    scroll: Scroll,
    /// Lines, and those that had room, when it was last drawn; nothing before.
    drawn: Cell<Option<(usize, usize)>>,
}

impl PopupScroll {
    /// The first visible line; also records `lines` and `height`, on which page and end commands are based.
    pub fn first(&self, lines: usize, height: usize) -> usize {
        self.drawn.set(Some((lines, height)));
        self.scroll.first(lines, height)
    }

    /// Handles a scroll command; true when it was one.
    pub fn on(&mut self, command: Command) -> bool {
        let (lines, height) = self.drawn.get().unwrap_or((usize::MAX, UNSEEN));
        self.scroll.on(command, lines, height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_within_the_text() {
        let mut scroll = Scroll::default();
        assert!(scroll.on(Command::PageDown, 100, 20));
        assert_eq!(scroll.first(100, 20), 19);
        scroll.on(Command::Bottom, 100, 20);
        assert_eq!(scroll.first(100, 20), 80);
        scroll.on(Command::Down, 100, 20);
        assert_eq!(scroll.first(100, 20), 80);
        assert_eq!(scroll.first(10, 20), 0);
        scroll.on(Command::Top, 100, 20);
        assert!(scroll.on(Command::Up, 100, 20) && scroll.first(100, 20) == 0);
        assert!(!scroll.on(Command::Open, 100, 20));
    }

    #[test]
    fn a_popup_pages_by_what_it_shows() {
        let mut popup = PopupScroll::default();
        assert_eq!(popup.first(100, 20), 0);
        assert!(popup.on(Command::PageDown));
        assert_eq!(popup.first(100, 20), 19);
        // Scrolling beyond the end does not accumulate.
        for _ in 0..9 {
            popup.on(Command::PageDown);
        }
        popup.on(Command::PageUp);
        assert_eq!(popup.first(100, 20), 61);
    }
}
