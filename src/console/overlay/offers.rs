//! The palette's offers for a text: views, commands, objects, contexts, namespaces, teams, themes, columns.

use std::collections::BTreeSet;

use crate::action_keys::fitting;
use crate::commands::{COMMANDS, Command};
use crate::does::does;
use crate::fuzzy::{FuzzyQuery, mask};
use crate::msg::Switch;
use crate::screen::Screen;
use crate::view::tree_of;
use model::base::{Name, SmallSort, When};
use model::fleet::Fleet;
use model::fleet::queue::QueueKind;
use plan::actions::ActionName;
use table::Kind;
use table::navigation::{Destination, RowScope, Selection, ViewId};

use super::unknown::{not_here, unknown, which};
use super::verdict::{Navigation, Offer};
use super::view_offers::{view_of, views};
use super::{port_forward, suppose};

/// Maximum number of offers listed.
const MOST: usize = 60;

/// The words before the name of each kind of choice; the first is the displayed one.
const VERBS: [(&str, &[&str]); 5] = [
    ("ctx", &["ctx", "context", "contexts"]),
    ("ns", &["ns", "namespace", "namespaces"]),
    ("team", &["team"]),
    ("theme", &["theme", "themes", "skin"]),
    ("sort", &["sort"]),
];

/// The words before the earlier moment of a comparison.
const DIFF: [&str; 2] = ["diff", "changes"];

/// The offer to compare this moment with the one on screen, or the accepted time formats.
fn diff(typed: &str) -> Offer {
    let label = format!("diff {typed}");
    match When::parse(typed) {
        Ok(when) => Offer {
            label,
            doc: String::from(
                "changes from that time to the time on screen; -10m: 10 minutes before it",
            ),
            go: Navigation::Diff(when),
        },
        // Enter keeps the text.
        Err(forms) => Offer {
            go: Navigation::Palette(label.clone()),
            label,
            doc: forms,
        },
    }
}

/// The words that restrict a search to one kind of object.
const KINDS: [(&str, &[&str]); 9] = [
    ("pool", &["pool", "pools"]),
    ("queue", &["queue", "queues", "q", "cq"]),
    ("cohort", &["cohort", "cohorts"]),
    ("job", &["job", "jobs"]),
    ("node", &["node", "nodes", "no"]),
    ("pod", &["pod", "pods", "po"]),
    ("device", &["device", "devices", "dev", "gpu"]),
    ("alert", &["alert", "alerts"]),
    ("source", &["source", "sources"]),
];

/// The names of all objects, each with its letter mask.
pub(super) struct NameIndex {
    entries: Vec<(u64, OfferedName)>,
    /// The last search and its results: a longer text searches only these.
    last: Option<(String, Vec<u32>)>,
}

struct OfferedName {
    kind: &'static str,
    name: Box<str>,
    what: Selection,
}

impl NameIndex {
    /// Every pool, queue, node, job, pod, device, alert and source.
    pub(super) fn of(fleet: &Fleet) -> Self {
        let mut entries = Vec::new();
        let mut add = |kind: &'static str, name: &str, what: Selection| {
            let name: Box<str> = name.into();
            entries.push((mask(&name), OfferedName { kind, name, what }));
        };
        for pool in fleet.pools.iter() {
            add("pool", &pool.name, Selection::Pool(pool.name.clone()));
        }
        for queue in fleet.queues.iter() {
            let name = queue.name().clone();
            match queue.key.kind {
                QueueKind::Queue => add("queue", queue.name(), Selection::Queue(name)),
                QueueKind::Cohort => add("cohort", queue.name(), Selection::Cohort(name)),
            }
        }
        for job in fleet.jobs.iter() {
            add("job", &job.id.to_string(), Selection::Job(job.id.clone()));
        }
        for node in fleet.nodes.iter() {
            add("node", node.name(), Selection::Node(node.name().clone()));
        }
        for pod in fleet.jobs.iter().flat_map(|job| job.pods.iter()) {
            let key = pod.key();
            add("pod", &key.to_string(), Selection::Pod(key.clone()));
        }
        for (node, device) in fleet.devices() {
            let what = Selection::Device(node.name().clone(), device.index);
            add("device", &device.id, what);
        }
        for finding in fleet.findings.iter() {
            let what = Selection::Finding(finding.id.clone());
            add("alert", &finding.id, what);
        }
        for source in fleet.sources.iter() {
            let what = Selection::Source(source.name.clone());
            add("source", &source.name, what);
        }
        Self {
            entries,
            last: None,
        }
    }

    /// The nearest objects, of one kind or of any, and the total count.
    fn find(&mut self, kind: &str, text: &str, query: &FuzzyQuery) -> (Vec<(u32, u32)>, usize) {
        let words = format!("{kind} {text}");
        let narrows = |last: &(String, Vec<u32>)| words.starts_with(last.0.as_str());
        let known = self.last.take().filter(narrows);
        let all = || 0..self.entries.len() as u32;
        let candidates: Box<dyn Iterator<Item = u32> + '_> = match &known {
            Some((_, left)) => Box::new(left.iter().copied()),
            None => Box::new(all()),
        };
        let mut found: Vec<(u32, u32)> = Vec::new();
        for at in candidates {
            let (mask, entry) = &self.entries[at as usize];
            if (kind.is_empty() || entry.kind == kind)
                && query.may_match(*mask)
                && let Some(cost) = query.cost(&entry.name)
            {
                found.push((cost, at));
            }
        }
        let mut left: Vec<u32> = found.iter().map(|(_, at)| *at).collect();
        left.small_sort();
        self.last = Some((words, left));
        let count = found.len();
        if count > MOST {
            found.select_nth_unstable(MOST);
            found.truncate(MOST);
        }
        (found, count)
    }

    /// The same as offers.
    fn offers(&mut self, kind: &str, text: &str) -> (Vec<(u32, usize, Offer)>, usize) {
        let (found, count) = self.find(kind, text, &FuzzyQuery::new(text));
        let of = |(cost, at): (u32, u32)| {
            let entry = &self.entries[at as usize].1;
            let offer = Offer {
                label: entry.name.to_string(),
                doc: entry.kind.to_owned(),
                go: Navigation::Object(entry.what.clone()),
            };
            (cost, at as usize, offer)
        };
        (found.into_iter().map(of).collect(), count)
    }
}

/// The offers, best first, and the total count.
pub(super) fn offers(
    screen: &dyn Screen,
    typed: &str,
    mut index: Option<&mut NameIndex>,
) -> (Vec<Offer>, usize) {
    let text = typed.trim_start().to_ascii_lowercase();
    // `:q` quits, as in vi.
    if matches!(text.trim(), "q" | "q!" | "exit") {
        let quit = COMMANDS.iter().find(|spec| spec.command == Command::Quit);
        let offers: Vec<Offer> = quit.into_iter().map(of_command).collect();
        return (offers, 1);
    }
    if let Some((verb, rest)) = text.split_once(char::is_whitespace)
        && let Some((verb, _)) = VERBS.iter().find(|(_, words)| words.contains(&verb))
    {
        // Names keep their case.
        let rest = typed.trim_start()[typed.trim_start().len() - rest.len()..].trim();
        return chosen(screen, verb, rest);
    }
    if let Some((verb, rest)) = text.split_once(char::is_whitespace)
        && suppose::WORDS.contains(&verb)
    {
        let typed = typed.trim_start();
        let rest = &typed[typed.len() - rest.len()..];
        let mut all = suppose::offers(screen.facts(), &screen.meant(), rest);
        let count = all.len();
        all.truncate(MOST);
        return (all, count);
    }
    if let Some((verb, rest)) = text.split_once(char::is_whitespace)
        && DIFF.contains(&verb)
        // Behind the name of the view, any other word is a filter.
        && (verb == DIFF[0] || When::parse(rest).is_ok())
    {
        return (vec![diff(rest.trim())], 1);
    }
    if let Some((verb, _)) = text.split_once(char::is_whitespace)
        && port_forward::WORDS.contains(&verb)
    {
        let all = port_forward::offers(screen, &text[verb.len()..]);
        let count = all.len();
        return (all, count);
    }
    // `tree NAME` or `tree KIND NAME`; k9s calls it `xray`. `describe`, `explain` and `why` open the object's page.
    if let Some((verb, rest)) = text.split_once(char::is_whitespace)
        && let of_page = matches!(verb, "describe" | "explain" | "why")
        && (of_page || matches!(verb, "tree" | "xray"))
        && let Some(index) = index.as_deref_mut()
    {
        let rest = rest.trim();
        let of_kind = rest
            .split_once(char::is_whitespace)
            .and_then(|(word, rest)| {
                let kind = KINDS.iter().find(|(_, words)| words.contains(&word))?;
                Some((kind.0, rest.trim()))
            });
        let (kind, name) = of_kind.unwrap_or(("", rest));
        let (found, count) = index.offers(kind, name);
        let found = nearest_first(found);
        return match of_page {
            true => (found, count),
            false => (trees(screen, found), count),
        };
    }
    // `drain NODE`, `hold JOB`: plans for the named object, and for what is typed where that is whole.
    if let Some((verb, rest)) = text.split_once(char::is_whitespace)
        && let Some(action) = action_named(verb)
        && let Some(index) = index.as_deref_mut()
    {
        let (found, _) = index.offers("", rest.trim());
        let mut all = plans_of(action, nearest_first(found));
        let typed = typed.trim();
        let is_named = |offer: &Offer| offer.label.eq_ignore_ascii_case(typed);
        if plan::actions::action(typed).is_ok() && !all.iter().any(is_named) {
            all.push(Offer {
                label: typed.to_owned(),
                doc: String::from("plan, as typed"),
                go: Navigation::TypedAction(typed.to_owned()),
            });
        }
        let count = all.len();
        return (all, count);
    }
    // The verb alone: list the choices first, take none by default.
    if let Some((verb, _)) = VERBS.iter().find(|(_, words)| words.contains(&text.trim())) {
        let (mut all, count) = chosen(screen, verb, "");
        all.insert(0, which(verb, count));
        return (all, count + 1);
    }
    if let Some(offer) = not_here(text.trim()) {
        return (vec![offer], 1);
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
    let behind = typed.trim_start();
    let behind = behind
        .get(behind.len() - rest.len()..)
        .unwrap_or(rest)
        .trim();
    // k9s lists its aliases with this word; here help lists every word.
    if matches!(text.trim(), "alias" | "aliases") {
        let help = COMMANDS.iter().find(|spec| spec.command == Command::Help);
        return (help.map(of_command).into_iter().collect(), 1);
    }
    let view = view_of(screen, word, behind);
    if let Some(view) = view
        .as_ref()
        .filter(|_| behind.starts_with(['-', '/', '!', '@']) || behind.contains('='))
    {
        return (vec![view.clone()], 1);
    }
    if let Some((kind, rest)) = text.split_once(char::is_whitespace)
        && let Some((kind, _)) = KINDS.iter().find(|(_, words)| words.contains(&kind))
        && let Some(index) = index.as_deref_mut()
    {
        let (found, count) = index.offers(kind, rest.trim());
        if count > 0 {
            let found = nearest_first(found);
            let count = count + usize::from(view.is_some());
            return (view.into_iter().chain(found).collect(), count);
        }
    }
    let text = text.trim_end();
    let query = FuzzyQuery::new(text);
    let mut scored: Vec<(u32, usize, Offer)> = Vec::new();
    // Among equal matches, the most used comes first.
    let plain = views()
        .chain(commands(screen))
        .map(|offer| (0, offer))
        .chain(VERBS.iter().flat_map(|(verb, _)| {
            let choices = if query.is_empty() {
                Vec::new()
            } else {
                choices(screen, verb)
            };
            choices.into_iter().map(|offer| (1, offer))
        }));
    for (order, (rank, offer)) in plain.enumerate() {
        if let Some(cost) = query.cost(&offer.label) {
            scored.push((cost + rank * 100, order, offer));
        }
    }
    let mut count = scored.len();
    if let (false, Some(index)) = (query.is_empty(), index) {
        let (found, objects) = index.offers("", text);
        count += objects;
        let order = scored.len();
        let behind = |(cost, at, offer)| (cost + 200, order + at, offer);
        scored.extend(found.into_iter().map(behind));
    }
    if !query.is_empty() {
        scored.small_sort_by_key(|(cost, order, _)| (*cost, *order));
    }
    scored.truncate(MOST);
    let mut all: Vec<Offer> = scored.into_iter().map(|(.., offer)| offer).collect();
    // So do views whose name starts with the text.
    if text.len() >= 2 && behind.is_empty() {
        let begun = Kind::ALL.into_iter().map(Kind::name);
        let begun = begun.filter(|name| name.starts_with(text));
        let begun: Vec<Offer> = begun.filter_map(|name| view_of(screen, name, "")).collect();
        let before = all.len();
        all.retain(|offer| begun.iter().all(|view| view.label != offer.label));
        count += begun.len() + all.len() - before;
        all.splice(0..0, begun);
    }
    // Letters scattered in a name are no command: enter must not run something else.
    let holds = |offer: &Offer| {
        let label = offer.label.to_ascii_lowercase();
        text.split_whitespace().all(|word| label.contains(word))
    };
    let shortens = |name: &str| name.starts_with(&text[..1]) && query.cost(name).is_some();
    let is_view = || ViewId::ALL.iter().any(|id| shortens(id.name()));
    if !text.is_empty()
        && text.is_char_boundary(1)
        && view.is_none()
        && !all.iter().any(holds)
        && !is_view()
    {
        let commands = COMMANDS.iter().map(|spec| spec.name);
        let words = Kind::ALL.into_iter().flat_map(Kind::words);
        let verbs = VERBS.iter().flat_map(|(_, words)| words.iter().copied());
        let known = commands.chain(words).chain(verbs);
        all.insert(0, unknown(text, known));
        count += 1;
    }
    // An exact name comes first, and once.
    if let Some(view) = view {
        let before = all.len();
        all.retain(|offer| offer.label != view.label);
        count += 1 + all.len() - before;
        all.insert(0, view);
    }
    (all, count)
}

/// Offers sorted by cost, then by position.
fn nearest_first(mut found: Vec<(u32, usize, Offer)>) -> Vec<Offer> {
    found.small_sort_by_key(|(cost, order, _)| (*cost, *order));
    found.into_iter().map(|(.., offer)| offer).collect()
}

/// The trees of the found objects; objects without a tree are left out.
fn trees(screen: &dyn Screen, found: Vec<Offer>) -> Vec<Offer> {
    let tree = |offer: Offer| {
        let Navigation::Object(of) = &offer.go else {
            return None;
        };
        let (tab, of) = tree_of(screen.facts(), of)?;
        let place = Destination::Part(tab, RowScope::Tree(of));
        Some(Offer {
            label: format!("tree {}", offer.label),
            go: Navigation::Destination(place, String::new()),
            ..offer
        })
    };
    found.into_iter().filter_map(tree).collect()
}

/// The action of this name, as the palette or the command line calls it.
fn action_named(word: &str) -> Option<ActionName> {
    let mut all = ActionName::ALL.iter().copied();
    let by_verb = all.find(|name| name.spec().verb == word);
    match Command::from_name(word) {
        Some(Command::Action(name)) => Some(name),
        _ => by_verb,
    }
}

/// A plan offer for each found object that the action fits.
fn plans_of(action: ActionName, found: Vec<Offer>) -> Vec<Offer> {
    let plan = |offer: Offer| {
        let Navigation::Object(of) = offer.go else {
            return None;
        };
        let fits = fitting(&of).any(|command| command == Command::Action(action));
        fits.then(|| Offer {
            label: format!("{} {}", action.spec().command, offer.label),
            doc: offer.doc,
            go: Navigation::Action(action, of),
        })
    };
    found.into_iter().filter_map(plan).collect()
}

fn of_command(spec: &crate::commands::CommandSpec) -> Offer {
    Offer {
        label: spec.name.to_owned(),
        doc: spec.doc.to_owned(),
        // Typed in the palette, it does not refer to the object under the cursor.
        go: match spec.command {
            Command::WhatIf => Navigation::Palette(String::from("what-if ")),
            command => Navigation::Command(command),
        },
    }
}

fn commands(screen: &dyn Screen) -> impl Iterator<Item = Offer> {
    let here = screen.view().contexts();
    let demo = Offer {
        label: String::from("demo"),
        doc: String::from("open the simulated fleet: no cluster is needed"),
        go: Navigation::Switch(Switch::Demo),
    };
    let again = Offer {
        label: String::from("reconnect"),
        doc: String::from("close the session and open it again"),
        go: Navigation::Switch(Switch::Again),
    };
    let port_forwards = Offer {
        label: String::from("port-forwards"),
        doc: String::from("running port-forwards, to stop one"),
        go: Navigation::Palette(String::from("port-forwards ")),
    };
    COMMANDS
        .iter()
        .filter(|spec| spec.command.view().is_none())
        .filter(|spec| spec.contexts.iter().any(|context| here.contains(context)))
        .filter(|spec| !matches!(spec.command, Command::Palette | Command::Leave))
        .map(|spec| match does(screen, spec.command) {
            true => of_command(spec),
            false => Offer {
                doc: format!("not here · {}", spec.doc),
                ..of_command(spec)
            },
        })
        .chain([demo, again, port_forwards])
}

/// Every choice of a verb, as `verb NAME`.
fn choices(screen: &dyn Screen, verb: &str) -> Vec<Offer> {
    let offer = |name: &str, doc: &str, go: Navigation| Offer {
        label: format!("{verb} {name}"),
        doc: doc.to_owned(),
        go,
    };
    match verb {
        "ctx" => {
            let here = &screen.facts().context;
            let contexts = screen.kube_contexts().iter().map(|name| {
                let doc = if name == here {
                    "context · this one"
                } else {
                    "context"
                };
                offer(name, doc, Navigation::Switch(Switch::Context(name.clone())))
            });
            contexts.collect()
        }
        "ns" => {
            let all = offer(
                "all",
                "every namespace",
                Navigation::Switch(Switch::Namespaces(Vec::new())),
            );
            let jobs = screen.facts().fleet.jobs.iter();
            let known: BTreeSet<&Name> = jobs.map(|job| &job.id.key.namespace).collect();
            let named = known.into_iter().map(|name| {
                let go = Navigation::Switch(Switch::Namespaces(vec![name.clone()]));
                offer(name, "namespace", go)
            });
            std::iter::once(all).chain(named).collect()
        }
        "team" => {
            let all = offer("all", "every team", Navigation::Team(None));
            let jobs = screen.facts().fleet.jobs.iter();
            let known: BTreeSet<&Name> = jobs.map(|job| &job.team).collect();
            let named = known
                .into_iter()
                .filter(|name| !name.is_empty())
                .map(|name| {
                    offer(
                        name,
                        "filter to this team",
                        Navigation::Team(Some(name.clone())),
                    )
                });
            std::iter::once(all).chain(named).collect()
        }
        "theme" => {
            let themes = screen.themes().iter();
            themes
                .map(|theme| offer(&theme.name, "look", Navigation::Theme(theme.name.clone())))
                .collect()
        }
        _ => {
            let columns = screen
                .view()
                .table()
                .map(|table| table.table_model.kind.columns);
            let columns = columns.unwrap_or_default().iter().enumerate();
            columns
                .map(|(at, column)| offer(column.id, column.head.title, Navigation::Sort(at)))
                .collect()
        }
    }
}

/// The choices of one verb that match the rest of the text. An unknown context, namespace or team can still be requested.
fn chosen(screen: &dyn Screen, verb: &str, rest: &str) -> (Vec<Offer>, usize) {
    let query = FuzzyQuery::new(rest);
    let all = choices(screen, verb);
    let prefix = verb.len() + 1;
    let exact = all.iter().any(|offer| offer.label[prefix..] == *rest);
    let scored: Vec<(u32, usize, Offer)> = all
        .into_iter()
        .enumerate()
        .filter_map(|(order, offer)| {
            // A column matches by its title as well.
            let title = (verb == "sort").then(|| query.cost(&offer.doc)).flatten();
            let cost = query.cost(&offer.label[prefix..]).or(title)?;
            Some((if query.is_empty() { 0 } else { cost }, order, offer))
        })
        .collect();
    let mut offers = nearest_first(scored);
    let go = match verb {
        "ctx" => Some(Navigation::Switch(Switch::Context(Name::new(rest)))),
        "ns" => {
            let names = rest.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty()).map(Name::new);
            Some(Navigation::Switch(Switch::Namespaces(names.collect())))
        }
        "team" => Some(Navigation::Team(Some(Name::new(rest)))),
        _ => None,
    };
    if let (false, false, Some(go)) = (exact, rest.is_empty(), go) {
        offers.push(Offer {
            label: format!("{verb} {rest}"),
            doc: String::from("as typed"),
            go,
        });
    }
    let count = offers.len();
    offers.truncate(MOST);
    (offers, count)
}
