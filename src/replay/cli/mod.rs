//! The command line: which figures, and how they are printed.

mod figures;
mod rehearse;
mod trace;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::{Parser, Subcommand, ValueEnum};

use model::base::name::printable;
use model::base::{Exit, Failure};
use table::output::safe_json;

use figures::Progress;

/// The scheduling engine on published traces and on simulated weeks; needs no cluster.
#[derive(Parser)]
#[command(name = "stokehold-replay", version, max_term_width = 100)]
struct ReplayLine {
    #[command(subcommand)]
    figures: AskedFigures,
}

#[derive(Subcommand)]
enum AskedFigures {
    /// Replay a published trace and report its figures
    ///
    /// Packing (--nodes, --pods): every pod arrives once, in random order, and none ends; the trace is topped
    /// up to a load. Queueing (--jobs): jobs arrive at their times and have whole devices allocated until they end.
    Trace(Box<trace::TraceFlags>),
    /// Run a simulated week and compare the forecast of each start with the actual start
    ///
    /// The world has its own scheduler, draws hidden durations, and keeps submitting jobs.
    Rehearse(rehearse::RehearsalFlags),
}

/// How figures are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ReplayFormat {
    /// Names and values, a pair a line
    Table,
    /// One JSON object of all figures
    Json,
}

impl ReplayFormat {
    /// Figures, of which `lines` makes the table.
    fn print<T: serde::Serialize>(self, figures: &T, lines: impl FnOnce(&T) -> String) -> String {
        match self {
            Self::Table => lines(figures),
            Self::Json => safe_json(figures),
        }
    }
}

/// Standard error of a command: messages, and progress where it is a terminal.
struct Messages<'e> {
    err: &'e mut dyn Write,
    is_terminal: bool,
}

impl Messages<'_> {
    /// Prints a message line by line, without control characters. A closed standard error is ignored.
    fn print(&mut self, text: &str) {
        for line in text.lines() {
            let _ = writeln!(self.err, "stokehold-replay: {}", printable(line));
        }
    }

    /// A progress line of its own.
    fn progress(&mut self) -> Progress<'_> {
        Progress::new(self.is_terminal, self.err)
    }
}

/// Runs the program with these arguments, its own name first; `is_terminal` says whether `err` is one. Returns its exit code.
pub fn run_on(
    arguments: &[OsString],
    is_terminal: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let line = match ReplayLine::try_parse_from(arguments) {
        Ok(line) => line,
        Err(error) => {
            // Help and version go to standard output and are no mistake.
            let (stream, exit): (&mut dyn Write, Exit) = match error.use_stderr() {
                true => (err, Exit::Usage),
                false => (out, Exit::Done),
            };
            let _ = write!(stream, "{}", error.render());
            return exit.code();
        }
    };
    let mut messages = Messages { err, is_terminal };
    let text = match &line.figures {
        AskedFigures::Trace(flags) => trace::run(flags, &mut messages),
        AskedFigures::Rehearse(flags) => Ok(rehearse::run(flags, &mut messages)),
    };
    match text.and_then(|text| write_all(out, &text)) {
        Ok(()) => Exit::Done.code(),
        Err(failure) => {
            messages.print(&failure.message);
            failure.exit.code()
        }
    }
}

/// Writes a whole text. A closed pipe ends the command without an error.
fn write_all(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::quiet(Exit::Done),
            _ => Failure::new(Exit::Failed, format!("cannot write the output: {error}")),
        })
}
