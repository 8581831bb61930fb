//! Our own log: to a file, never to the screen.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use super::host::Host;

/// Sends tracing to `file` (created with its directories, appended to, readable by its owner only). Without a file
/// nothing is logged. The level comes from `STOKEHOLD_LOG`, `info` by default; `info,source=debug` sets it for a target.
///
/// # Errors
/// The file cannot be opened for appending.
pub fn log_to(host: &Host, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = file else { return Ok(()) };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the log folder {}", folder.display()))?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let log = options.open(path).with_context(|| {
        format!(
            "cannot write the log {}; name another with --log-file",
            path.display()
        )
    })?;
    let levels = host.text_variable("STOKEHOLD_LOG").unwrap_or_default();
    let lines = fmt::layer()
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(log));
    // A second start in one process (tests) keeps the first subscriber; that is not an error of the user.
    let _ = registry().with(lines).with(filter(&levels)).try_init();
    Ok(())
}

/// The filter of `STOKEHOLD_LOG`; `info` where that is empty or invalid.
fn filter(levels: &str) -> Targets {
    let read = levels.parse().ok().filter(|_| !levels.trim().is_empty());
    read.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO))
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_level_is_for_all_or_for_a_target_and_info_without_one() {
        let shown = |levels: &str| {
            let filter = filter(levels);
            [
                ("source", Level::DEBUG),
                ("exec", Level::INFO),
                ("exec", Level::DEBUG),
            ]
            .map(|(target, level)| filter.would_enable(target, &level))
        };
        assert_eq!(shown(""), [false, true, false]);
        assert_eq!(shown("warn"), [false, false, false]);
        assert_eq!(shown("debug"), [true, true, true]);
        assert_eq!(shown("info,source=debug"), [true, true, false]);
        assert_eq!(shown("source=loud"), [false, true, false]);
    }
}
