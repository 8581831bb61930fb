//! The place of the journal.

use exec::Journal;
use model::base::{Exit, Failure};
use settings::Settings;

/// The journal in `journal_dir`, else in the user's state directory; `None` without a home directory.
pub(crate) fn journal(settings: &Settings) -> Option<Journal> {
    settings
        .journal_dir
        .clone()
        .or_else(|| settings.state_dir.clone())
        .map(Journal::new)
}

/// The journal of the settings, else at the platform's default place.
///
/// # Errors
/// There is no home directory to keep it in.
pub fn journal_of(settings: &Settings) -> Result<Journal, Failure> {
    journal(settings).ok_or_else(no_home)
}

pub(crate) fn no_home() -> Failure {
    let message = "there is no home directory to keep the journal in; set journal_dir";
    Failure::new(Exit::Failed, message)
}
