//! Our own log: to a file, never to the screen.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::Context;
use tracing_subscriber::EnvFilter;

/// Sends tracing to `file` (made with its folders, appended to, readable by its owner only). Without a file
/// nothing is logged. The level comes from `STOKEHOLD_LOG`, `info` by default.
///
/// # Errors
/// When the file cannot be opened for appending.
pub fn log_to(file: Option<&Path>) -> anyhow::Result<()> {
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
    let filter =
        EnvFilter::try_from_env("STOKEHOLD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second start in one process (tests) keeps the first subscriber; that is no error of the user's.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::sync::Mutex::new(log))
        .try_init();
    Ok(())
}
