//! The flags that every command takes, as kubectl and k9s spell them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::runtime::host::Host;
use model::base::time::parse_span;
use settings::ColorChoice;
use source::kubeconfig::ContextChoice;

/// Flags before or behind any command.
#[derive(Args, Clone, Debug, Default)]
pub struct GlobalFlags {
    /// The kubeconfig file to use
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig context
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// Only these namespaces, separated by commas
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMES",
        value_delimiter = ',',
        help_heading = "Cluster"
    )]
    pub namespace: Vec<String>,
    /// All namespaces, whatever the settings say
    #[arg(
        short = 'A',
        long,
        global = true,
        conflicts_with = "namespace",
        help_heading = "Cluster"
    )]
    pub all_namespaces: bool,
    /// The user to impersonate
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        help_heading = "Cluster"
    )]
    pub impersonate: Option<String>,
    /// A group to impersonate; may be repeated
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate",
        help_heading = "Cluster"
    )]
    pub impersonate_groups: Vec<String>,
    /// Never write to the cluster; wins over --write
    #[arg(long, global = true, help_heading = "Safety")]
    pub readonly: bool,
    /// Allow writing to the cluster, through confirmed plans only
    #[arg(long, global = true, help_heading = "Safety")]
    pub write: bool,
    /// Only this team
    #[arg(long, global = true, value_name = "NAME", help_heading = "Display")]
    pub team: Option<String>,
    /// No progress on standard error; what could not be read is named all the same
    #[arg(long, global = true, help_heading = "Display")]
    pub quiet: bool,
    /// How often to redraw what has changed, for example 2s
    #[arg(long, global = true, value_name = "SPAN", help_heading = "Display")]
    pub refresh: Option<String>,
    /// The theme
    #[arg(long, global = true, value_name = "NAME", help_heading = "Display")]
    pub theme: Option<String>,
    /// Draw with ASCII only
    #[arg(long, global = true, help_heading = "Display")]
    pub ascii: bool,
    /// Which colors to use
    #[arg(long, global = true, value_name = "WHEN", help_heading = "Display")]
    pub color: Option<ColorChoice>,
    /// Where to log; nothing is logged without it
    #[arg(long, global = true, value_name = "FILE", help_heading = "Display")]
    pub log_file: Option<PathBuf>,
}

impl GlobalFlags {
    /// What the flags say as settings: flag, key, value.
    pub fn settings(&self) -> Vec<(String, String, String)> {
        let mut all = Vec::new();
        let mut say = |flag: &str, key: &str, value: String| {
            all.push((flag.to_owned(), key.to_owned(), value));
        };
        if self.all_namespaces {
            say("--all-namespaces", "scope.namespaces", String::new());
        } else if !self.namespace.is_empty() {
            say("--namespace", "scope.namespaces", self.namespace.join(","));
        }
        if self.readonly {
            say("--readonly", "write", "false".to_owned());
        } else if self.write {
            say("--write", "write", "true".to_owned());
        }
        if let Some(team) = &self.team {
            say("--team", "scope.team", team.clone());
        }
        if let Some(refresh) = &self.refresh {
            say("--refresh", "refresh", refresh.clone());
        }
        if let Some(theme) = &self.theme {
            say("--theme", "theme", theme.clone());
        }
        if self.ascii {
            say("--ascii", "ascii", "true".to_owned());
        }
        if let Some(value) = self.color.and_then(|color| color.to_possible_value()) {
            say("--color", "color", value.get_name().to_owned());
        }
        if let Some(file) = &self.log_file {
            say("--log-file", "log_file", file.display().to_string());
        }
        all
    }
}

/// The flags of a command, and the host that it runs on.
#[derive(Clone, Debug)]
pub struct Global {
    /// Flags before or behind any command.
    pub flags: GlobalFlags,
    pub host: Host,
}

impl Global {
    /// The chosen cluster and user.
    pub fn choice(&self) -> ContextChoice {
        ContextChoice {
            kubeconfig: self.flags.kubeconfig.clone(),
            context: self.flags.context.clone(),
            impersonate: self.flags.impersonate.clone(),
            impersonate_groups: self.flags.impersonate_groups.clone(),
            environment: self.host.environment(),
            transport: self.host.transport.clone(),
        }
    }
}

/// Heading of the flags that only a console takes: the program without a command, `demo` and `replay`.
const CONSOLE: &str = "Console (no command, demo, replay)";

/// How a console runs.
#[derive(Args, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConsoleFlags {
    /// Size of the one frame that is printed where the output is not a terminal
    #[arg(long, value_name = "WxH", value_parser = size, help_heading = CONSOLE)]
    pub size: Option<(u16, u16)>,
    /// End after this time, for example 30s
    #[arg(long = "for", value_name = "SPAN", value_parser = span, help_heading = CONSOLE)]
    pub end_after: Option<Duration>,
}

/// Parses columns and lines, `120x40`: 1 to 1,000 each.
pub(crate) fn size(text: &str) -> Result<(u16, u16), String> {
    text.split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .filter(|(width, height)| (1..=1000).contains(width) && (1..=1000).contains(height))
        .ok_or_else(|| "a size is WxH, each from 1 to 1000, such as 120x40".to_owned())
}

/// Parses a duration above zero, `1h30m`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    parse_span(text)
        .filter(|span| !span.is_zero())
        .ok_or_else(|| "a duration is written as 90s, 15m or 1h30m".to_owned())
}
