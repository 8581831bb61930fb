//! Lines of figures, and how far a long computation is.

use std::io::Write;

/// Names and values, a pair a line.
pub(super) fn pairs(pairs: &[(&str, String)]) -> String {
    let wide = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs
        .iter()
        .map(|(name, value)| format!("{name:wide$}  {value}\n"))
        .collect()
}

/// A progress line that overwrites itself, on a terminal only.
pub(super) struct Progress<'e> {
    err: Option<&'e mut dyn Write>,
    shown: usize,
}

impl<'e> Progress<'e> {
    pub(super) fn new(is_terminal: bool, err: &'e mut dyn Write) -> Self {
        Self {
            err: is_terminal.then_some(err),
            shown: usize::MAX,
        }
    }

    pub(super) fn report(&mut self, what: &str, done: usize, all: usize) {
        let percent = done * 100 / all.max(1);
        if let Some(err) = &mut self.err
            && percent != self.shown
        {
            self.shown = percent;
            let _ = write!(err, "\r{what}: {percent} % of {all}");
            let _ = err.flush();
        }
    }
}

/// Clears the line at the end in any case.
impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(err) = &mut self.err {
            let _ = write!(err, "\r\u{1b}[K");
            let _ = err.flush();
        }
    }
}
