//! Reads the files and variables of the settings. The `settings` crate merges and checks them.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::base::document::DocumentFault;
use model::base::{Exit, Failure, SmallSort};
use settings::{self, Inputs, Layer, Rulebook, Settings, SettingsText, Texts};
use source::{kubeconfig, local};

use super::flags::Global;
use crate::runtime::host::Host;
use crate::runtime::telemetry;

/// The file for everybody on this machine.
const MACHINE: &str = "/etc/stokehold/stokehold.toml";

/// The places of settings files, weakest first.
pub(crate) fn places(host: &Host) -> Vec<(Layer, PathBuf)> {
    let mut all = vec![(Layer::Machine, PathBuf::from(MACHINE))];
    if let Some(own) = &host.folders.config {
        all.push((Layer::User, own.join("stokehold.toml")));
    }
    all
}

/// All inputs of the settings on this machine.
pub(crate) fn inputs(global: &Global) -> Result<Inputs, Failure> {
    let mut files = Vec::new();
    for (layer, path) in places(&global.host) {
        if let Some(text) = read(&path)? {
            files.push(SettingsText {
                layer,
                path: path.display().to_string(),
                text,
            });
        }
    }
    // An unreadable kubeconfig is reported when a command connects to the cluster; settings do not need it.
    let context = global.flags.context.clone().or_else(|| {
        kubeconfig::contexts(&global.choice())
            .ok()
            .and_then(|(_, current)| current)
    });
    Ok(Inputs {
        files,
        context,
        variables: variables(&global.host),
        flags: global.flags.settings(),
        home: global.host.folders.home.clone(),
        state: global.host.folders.state.clone(),
    })
}

/// Our environment variables, in name order. Invalid UTF-8 in one is replaced, so that it is refused and not skipped.
fn variables(host: &Host) -> Vec<(String, String)> {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut all: Vec<(String, String)> = host
        .variables
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| name.starts_with("STOKEHOLD_"))
        .collect();
    all.small_sort();
    all
}

/// The settings of this machine, user, context, environment and these flags.
pub(crate) fn settings(global: &Global) -> Result<Settings, Failure> {
    settings::load(&inputs(global)?).map_err(faults)
}

/// Starts the log in the settings' log file.
///
/// # Errors
/// It cannot be written.
pub(crate) fn open_log(host: &Host, settings: &Settings) -> Result<(), Failure> {
    telemetry::log_to(host, settings.log_file.as_deref())
        .map_err(|error| Failure::new(Exit::Usage, format!("{error:#}")))
}

/// The rules, thresholds, prices and dialects that the settings name.
pub(crate) fn rulebook(settings: &Settings) -> Result<Rulebook, Failure> {
    let named = |path: &Option<PathBuf>, key| match path {
        Some(path) => needed(settings, key, path).map(Some),
        None => Ok(None),
    };
    let mut texts = Texts {
        accelerators: named(&settings.accelerators_file, "accelerators_file")?,
        alerts: named(&settings.alerts_file, "alerts_file")?,
        ..Texts::default()
    };
    for path in &settings.prices.files {
        texts.books.push(needed(settings, "prices.files", path)?);
    }
    if let Some(folder) = &settings.exporters_dir {
        for path in tomls(settings, folder)? {
            texts
                .dialects
                .push(needed(settings, "exporters_dir", &path)?);
        }
    }
    Rulebook::new(settings, &texts).map_err(faults)
}

/// The `*.toml` files of a folder by name.
fn tomls(settings: &Settings, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| {
        let message = format!("cannot read the folder {}: {error}", folder.display());
        faults(vec![settings.fault("exporters_dir", message)])
    })?;
    let mut all: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    all.small_sort();
    Ok(all)
}

/// A file that a setting names: it must be there.
fn needed(settings: &Settings, key: &str, path: &Path) -> Result<(String, String), Failure> {
    let text = read(path)?.ok_or_else(|| {
        let message = format!("there is no file {}", path.display());
        faults(vec![settings.fault(key, message)])
    })?;
    Ok((path.display().to_string(), text))
}

/// The text of a file; `None` when there is none.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    match local::read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(
            Exit::Usage,
            format!("{}: cannot be read: {error}", path.display()),
        )),
    }
}

/// Faults as the end of a command: one a line.
pub(crate) fn faults(faults: Vec<DocumentFault>) -> Failure {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Failure::new(Exit::Usage, lines.join("\n"))
}
