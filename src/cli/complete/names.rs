//! The values that come from settings, the journal or the cluster: names of objects, teams, columns, runs.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::ValueEnum;

use console::Theme;
use model::base::Name;
use model::fleet::job::{Job, JobState};
use plan::actions::{ACTIONS, Values, has_replicas};
use source::kubeconfig;
use table::output::json_style::JsonStyle;
use table::output::{fields, output_table, titles};
use table::{Facts, Format, Kind, Needs, Query};

use crate::cli::common::flags::Global;
use crate::cli::common::setup::{self, FactsSource, Situation};
use crate::cli::common::{console_options, load};
use crate::cli::get::get_kind::GetKind;
use crate::cli::get::objects::first_kind;
use crate::cli::top::TopName;
use crate::runtime::actions::journal_place::journal_of;

/// Longest wait for the cluster's answer.
const MOST: Duration = Duration::from_secs(2);

/// The cluster to query, once one of its names is needed.
pub(super) enum CompletionCluster {
    Named(Box<Global>),
    #[cfg(test)]
    Known(Box<Facts>),
}

impl CompletionCluster {
    pub(super) fn of(global: &Global) -> Self {
        Self::Named(Box::new(global.clone()))
    }

    /// The flags that name it.
    fn global(&self) -> Option<&Global> {
        match self {
            Self::Named(global) => Some(global),
            #[cfg(test)]
            Self::Known(_) => None,
        }
    }

    /// The facts that the names of a kind are read from; nothing where the cluster does not answer in time.
    fn facts(&self, kind: Kind) -> Option<(Facts, Query)> {
        match self {
            Self::Named(global) => {
                let settings = load::settings(global).ok()?;
                let query = Query {
                    scope: console_options::scope(&settings),
                    ..Query::all(kind)
                };
                let at = Situation {
                    rulebook: load::rulebook(&settings).ok()?,
                    settings,
                    target: FactsSource::Cluster(global.choice()),
                    every_namespace: false,
                    quiet: true,
                    host: global.host.clone(),
                };
                let facts = setup::read_within(&at, &Needs::of(&query, Format::Name), MOST)?;
                Some((facts.scoped(&query.scope), query))
            }
            #[cfg(test)]
            Self::Known(facts) => Some(((**facts).clone(), Query::all(kind))),
        }
    }

    /// The names of a kind, jobs and pods as `NAMESPACE/NAME`.
    fn names(&self, kind: Kind) -> Vec<String> {
        let Some((facts, query)) = self.facts(kind) else {
            return Vec::new();
        };
        let Ok(found) = output_table(&facts, &query, Format::Name, JsonStyle::Line) else {
            return Vec::new();
        };
        let keys = found.items.into_iter().map(|item| item.key);
        // A key has the kind of a job or the system of a queue after the name.
        let names = keys.map(|key| key.split(" (").next().unwrap_or_default().to_owned());
        names.filter(|name| !table::is_remainder(name)).collect()
    }

    /// The names of jobs.
    fn jobs(&self, wanted: impl Fn(&Job) -> bool) -> Vec<String> {
        let Some((facts, _)) = self.facts(Kind::Jobs) else {
            return Vec::new();
        };
        let jobs = facts.fleet.jobs.iter().filter(|job| facts.has_job(job));
        let jobs = jobs.filter(|job| wanted(job));
        jobs.map(|job| job.id.key.to_string()).collect()
    }

    /// What the jobs say of themselves: teams, namespaces.
    fn of_jobs(&self, what: impl Fn(&Job) -> Option<Name>) -> Vec<String> {
        let Some((facts, _)) = self.facts(Kind::Jobs) else {
            return Vec::new();
        };
        let all: BTreeSet<Name> = facts
            .fleet
            .jobs
            .iter()
            .filter_map(|job| what(job))
            .collect();
        all.iter().map(ToString::to_string).collect()
    }

    /// Nodes by name, and by pool, rack and zone.
    fn nodes(&self) -> Vec<String> {
        let Some((facts, _)) = self.facts(Kind::Nodes) else {
            return Vec::new();
        };
        let mut all = BTreeSet::new();
        for node in facts.fleet.nodes.iter() {
            all.insert(node.name().to_string());
            all.insert(format!("pool/{}", node.pool));
            all.extend(node.rack.iter().map(|rack| format!("rack/{rack}")));
            all.extend(node.zone.iter().map(|zone| format!("zone/{zone}")));
        }
        all.into_iter().collect()
    }

    fn priority_classes(&self) -> Vec<String> {
        let facts = self.facts(Kind::Jobs);
        let classes = facts
            .iter()
            .flat_map(|(facts, _)| facts.fleet.priority_classes.iter());
        classes.map(|class| class.name.to_string()).collect()
    }
}

/// The values of an argument of a command, besides those listed by the command line itself.
pub(super) fn of(
    path: &str,
    argument: &str,
    positional: &[String],
    value: &str,
    cluster: &CompletionCluster,
) -> Vec<String> {
    let kind = || {
        let word = positional.first()?;
        match path {
            "top" => TopName::from_str(word, true).ok().map(TopName::kind),
            "get" => first_kind(positional)?.snapshot_kind(),
            _ => GetKind::from_str(word, true).ok()?.snapshot_kind(),
        }
    };
    let of_kind = |kind: Option<Kind>| kind.map_or_else(Vec::new, |kind| cluster.names(kind));
    let names = match (path, argument) {
        (_, "theme") => Theme::names().map(str::to_owned).collect(),
        ("get" | "top", "sort_by") => kind().map_or_else(Vec::new, columns),
        ("get", "field_selector") => {
            let fields = kind().map_or_else(Vec::new, fields);
            fields.iter().map(|field| format!("{field}=")).collect()
        }
        // A template has signs that no name may have.
        ("get", "output") if value.starts_with("jsonpath=") => {
            let fields = kind().map_or_else(Vec::new, fields);
            let paths = fields.iter();
            return paths
                .map(|field| format!("jsonpath={{.items[*].{field}}}"))
                .collect();
        }
        (_, "context") => {
            let choice = cluster.global().map(Global::choice);
            let known = choice.and_then(|choice| kubeconfig::contexts(&choice).ok());
            known.map_or_else(Vec::new, |(all, _)| all)
        }
        (_, "team") => cluster.of_jobs(|job| Some(job.team.clone())),
        (_, "namespace") => {
            // Several values are possible, separated by commas.
            let before = value.rfind(',').map_or("", |at| &value[..=at]);
            let all = cluster.of_jobs(|job| Some(Name::new(job.namespace())));
            all.iter().map(|name| format!("{before}{name}")).collect()
        }
        ("top", "name") if kind() == Some(Kind::Cost) => {
            cluster.of_jobs(|job| Some(job.team.clone()))
        }
        ("get", "kind") => match value.rsplit_once(',') {
            Some((before, _)) => {
                let kinds = Kind::ALL.iter().map(|kind| kind.name());
                kinds.map(|kind| format!("{before},{kind}")).collect()
            }
            None if value.contains('/') => objects(value, cluster),
            None => Vec::new(),
        },
        ("get", "name") if is_object(positional) => objects(value, cluster),
        ("get", "name") if is_budgets(positional) => budgets(cluster),
        ("get" | "top", "name") => of_kind(kind()),
        ("describe", "object") if positional.is_empty() => objects(value, cluster),
        ("describe", "object") if positional.len() == 1 => of_kind(kind()),
        ("explain" | "explain job", "name") => {
            of_action(Values::WaitingJobs, value, positional, cluster)
        }
        ("plan continue", "run") => runs(cluster),
        (path, argument) => {
            let verb = path.strip_prefix("plan ");
            let spec = verb.and_then(|verb| ACTIONS.iter().find(|spec| spec.verb == verb));
            let values = spec.and_then(|spec| {
                let mut all = spec.completes.iter();
                all.find(|(name, _)| *name == argument)
            });
            values.map_or_else(Vec::new, |(_, values)| {
                of_action(*values, value, positional, cluster)
            })
        }
    };
    names.into_iter().filter(|name| is_plain(name)).collect()
}

/// What completes an argument of an action.
fn of_action(
    values: Values,
    value: &str,
    positional: &[String],
    cluster: &CompletionCluster,
) -> Vec<String> {
    match values {
        Values::Jobs => cluster.jobs(|_| true),
        Values::WaitingJobs => {
            cluster.jobs(|job| matches!(job.state, JobState::Waiting | JobState::Suspended))
        }
        Values::RunningJobs => cluster.jobs(|job| job.devices_allocated > 0),
        Values::Scalable if positional.is_empty() => cluster.jobs(|job| has_replicas(&job.id)),
        Values::Scalable => Vec::new(),
        Values::JobsAndQueues if value.starts_with("queue/") => {
            let queues = cluster.names(Kind::Queues);
            let queues = queues.iter().map(|queue| format!("queue/{queue}"));
            queues.collect()
        }
        Values::JobsAndQueues => {
            let mut all = cluster.jobs(|_| true);
            all.push("queue/".to_owned());
            all
        }
        Values::PriorityClasses => cluster.priority_classes(),
        Values::Nodes => cluster.nodes(),
        Values::Pods => cluster.names(Kind::Pods),
        Values::Pools => cluster.names(Kind::Pools),
        Values::Runs => runs(cluster),
    }
}

/// True after `get KIND/NAME`.
fn is_object(positional: &[String]) -> bool {
    positional.first().is_some_and(|word| word.contains('/'))
}

/// True after `get budgets`.
fn is_budgets(positional: &[String]) -> bool {
    let word = positional.first();
    word.is_some_and(|word| GetKind::from_str(word, true) == Ok(GetKind::Budgets))
}

/// The budgets of the settings that may be seen in the scope.
fn budgets(cluster: &CompletionCluster) -> Vec<String> {
    let settings = cluster.global().map(load::settings);
    let Some(Ok(settings)) = settings else {
        return Vec::new();
    };
    let scope = console_options::scope(&settings);
    let all = settings.budget.iter();
    let own = all.filter(|budget| table::budgets::is_of(&scope, &budget.scope));
    own.map(|budget| budget.name.clone()).collect()
}

/// `KIND/NAME`, once the kind is written; until then the kinds.
fn objects(value: &str, cluster: &CompletionCluster) -> Vec<String> {
    let Some((kind, _)) = value.split_once('/') else {
        let kinds = Kind::ALL.iter().map(|kind| kind.singular().to_owned());
        return kinds
            .filter(|kind| kind != "fleet" && kind != "cost")
            .collect();
    };
    let known = GetKind::from_str(kind, true)
        .ok()
        .and_then(GetKind::snapshot_kind);
    let names = known.map_or_else(Vec::new, |known| cluster.names(known));
    names.iter().map(|name| format!("{kind}/{name}")).collect()
}

/// The columns of a kind and the fields of its rows, as `--sort-by` takes them.
fn columns(kind: Kind) -> Vec<String> {
    let titles = titles(kind)
        .into_iter()
        .map(|(title, _)| title.to_lowercase());
    let all: BTreeSet<String> = titles
        .chain(fields(kind).into_iter().map(|field| field.into_owned()))
        .collect();
    all.into_iter().collect()
}

/// The runs of the journal.
fn runs(cluster: &CompletionCluster) -> Vec<String> {
    let read = || {
        let global = cluster.global()?;
        let settings = load::settings(global).ok()?;
        let pages = journal_of(&settings).ok()?.read().ok()?;
        Some(exec::runs(&pages))
    };
    let runs = read().unwrap_or_default();
    runs.iter().map(|run| run.name.to_string()).collect()
}

/// True for a name without a character that means something to a shell: an object's name must never become a command.
fn is_plain(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@+=,".contains(letter);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(plain)
}
