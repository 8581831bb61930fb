//! Standard output, whose reader may go at any time.

use std::io::{self, Write};

use crate::base::name::printable;
use crate::base::{Exit, Failure};

/// Writes all of a text. A reader that has gone ends the command quietly, as it ended `head`'s.
pub(super) fn write(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Done),
            _ => Failure::new(Exit::Failed, format!("cannot write the output: {error}")),
        })
}

/// Says something to the operator, a line each, without anything that could rewrite the screen. Whether
/// standard error is still there is nobody's concern.
pub(super) fn say(err: &mut dyn Write, text: &str) {
    for line in text.lines() {
        let _ = writeln!(err, "stokehold: {}", printable(line));
    }
}
