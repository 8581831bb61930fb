//! Alert rules and dashboard of `config/prometheus` name only metrics, labels and values that the program exports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use model::base::{Moment, Name};
use model::cost::BudgetUnit;
use model::cost::{PriceBook, Prices};
use model::fleet::accelerator::Catalog;
use model::fleet::finding::{Finding, Severity};
use model::fleet::observe::SourceState;
use model::fleet::queue::{Measure, Queue, QueueKey, QueueKind, QueueSystem, Quota};
use model::notify::{NotifyFilter, ReceiverKind};
use source::remote_write::RemoteWriteState;
use table::Facts;
use table::metrics::Labels;
use table::notify::{DeliveryCounts, DeliveryRules};
use table::spend::UsageFacts;
use usage::{
    BudgetHours, BudgetPeriod, BudgetScope, BudgetState, CostPart, HOUR_MS, HourAmount,
    HourAmounts, TimeZone, UsageBudget, UsageClass, UsageCounters, hour_of,
};

use super::export::ServedExport;
use super::govern::GovernStatus;
use super::govern::metrics::ServedGovern;
use super::records::record_metrics::RecordMetrics;
use super::records::record_status::RecordingStatus;
use super::status_server::ServedStatus;
use super::usage::sample;
use super::watch::metrics::{ServedWatch, WatchStatus};

/// Labels that Prometheus gives each series.
const OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// Values of each label of each metric.
type Exported = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A fleet that has sources in each state, and findings of each check and severity.
fn facts() -> Facts {
    let mut facts = table::sample::facts();
    let mut fleet = (*facts.fleet).clone();
    let source = fleet.sources.iter().next().expect("a source").clone();
    let states = [
        SourceState::NotVisible,
        SourceState::Live,
        SourceState::Stale,
        SourceState::Lost,
    ];
    let sources = states.into_iter().flat_map(|state| {
        ["kubernetes", "dcgm"].map(|kind| {
            let mut source = source.clone();
            (source.kind, source.state, source.last_ok) = (kind.into(), state, Some(facts.now));
            source
        })
    });
    fleet.sources = sources.collect();
    let finding = fleet.findings.first().expect("a finding").clone();
    let mut findings = fleet.findings.to_vec();
    let checks = concat!(env!("CARGO_MANIFEST_DIR"), "/config/alerts.toml");
    let checks = fs::read_to_string(checks).expect("is there");
    let checks: toml::Table = checks.parse().expect("is TOML");
    let severities = [Severity::Crit, Severity::Warn, Severity::Info];
    for (code, severity) in checks.keys().zip(severities.into_iter().cycle()) {
        findings.push(Finding {
            severity,
            code: Name::new(code),
            ..finding.clone()
        });
    }
    fleet.findings = findings.into();
    let key = QueueKey {
        system: QueueSystem::Kueue,
        kind: QueueKind::Queue,
        name: Name::new("research"),
    };
    let quota = Quota {
        flavor: Name::new("h100"),
        resource: Name::new("nvidia.com/gpu"),
        measure: Measure::MilliDevices,
        nominal: Some(8_000),
        used: Some(9_000),
        borrowed: Some(1_000),
        ..Quota::default()
    };
    let queue = Queue {
        key,
        quotas: Box::new([quota]),
        ..Queue::default()
    };
    fleet.queues = vec![Arc::new(queue)].into();
    facts.fleet = Arc::new(fleet);
    facts
}

fn budget(now: Moment) -> BudgetState {
    let budget = UsageBudget {
        name: "research".into(),
        scope: BudgetScope::Fleet,
        unit: BudgetUnit::Usd,
        limit: BudgetUnit::Usd.amount(1e6),
        period: BudgetPeriod::Month,
        zone: TimeZone::UTC,
        zone_name: "UTC".to_owned(),
        steps: vec![80, 100],
        warns_of_forecast: true,
    };
    let hour = HourAmount {
        amount: 1_000_000,
        observed_ms: HOUR_MS,
    };
    let hours = BudgetHours {
        amounts: HourAmounts {
            from: hour_of(now) - 60 * 24,
            hours: vec![hour; 60 * 24],
        },
        unpriced_ms: 0,
        is_by_list: false,
        is_known: true,
    };
    BudgetState::of(&budget, &hours, now)
}

/// The pages of every process that has one, each with all that it may have on it.
fn pages() -> String {
    let facts = facts();
    let now = facts.now;
    let book = "provider = \"aws\"\nprices = [{ accelerator = \"H100\", devices = 1, purchase = \"on-demand\", usd_per_hour = 7.0, as_of = \"2026-01-01\" }]\n";
    let book = PriceBook::parse(book, "test").expect("parses");
    let prices = Prices::new(vec![book], &Catalog::default()).with_provider("aws");
    let mut counters = UsageCounters::new(1_000, true);
    for at in [now, now.plus(Duration::from_secs(10))] {
        let facts = Facts {
            now: at,
            ..facts.clone()
        };
        counters.take(&sample(&facts, &prices));
    }
    let receiver = DeliveryRules {
        receiver: "chat".into(),
        kind: ReceiverKind::Slack,
        filter: NotifyFilter {
            min_severity: Severity::Info,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        },
        cluster: "prod".to_owned(),
    };
    let counts = DeliveryCounts {
        last_sent: Some(now),
        ..DeliveryCounts::default()
    };
    let watcher = WatchStatus {
        facts: Some((Arc::new(facts.clone()), Instant::now())),
        receivers: vec![(receiver, counts)],
        keeps_state: true,
        state_fault: None,
        leads: Some(true),
    };
    let usage = UsageFacts {
        budgets: vec![budget(now)],
        ..UsageFacts::default()
    };
    let common = |names: &[&'static str]| -> Labels {
        let label = |name: &&'static str| (*name, "x".to_owned());
        names.iter().map(label).collect()
    };
    let metrics = RecordMetrics {
        facts: watch::channel(Some(Arc::new(facts))).1,
        counters: watch::channel(counters).1,
        usage: watch::channel(Arc::new(usage)).1,
        remote: Some(watch::channel(RemoteWriteState::default()).1),
        notify: Some(watch::channel(watcher.clone()).1),
        common: common(&["cluster", "recorder"]),
    };
    let recorder = RecordingStatus {
        wrote: Some((now, Instant::now())),
        ..RecordingStatus::default()
    };
    let governor = GovernStatus {
        leads: Some(true),
        writes: BTreeMap::from([(("admit", "written"), 1)]),
        jobs: BTreeMap::from([(("research".to_owned(), "waiting"), 1)]),
        ..GovernStatus::default()
    };
    let watcher = ServedWatch {
        status: watch::channel(watcher).1,
        common: common(&["cluster"]),
    };
    let exporter = ServedExport {
        metrics,
        last_snapshot_at: watch::channel(None).1,
    };
    let governor = ServedGovern(watch::channel(governor).1);
    let pages: [&dyn ServedStatus; 4] = [&watcher, &exporter, &recorder, &governor];
    pages.map(ServedStatus::metrics).concat()
}

fn exported() -> Exported {
    let mut all = Exported::new();
    for line in pages().lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').expect("a value").0;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let known = all.entry(name.to_owned()).or_default();
        for label in matchers(labels.trim_end_matches('}')) {
            let values = known.entry(label.name.to_owned()).or_default();
            values.insert(label.value.to_owned());
            if label.name == "part" {
                // (No fleet of a few devices has them all.)
                let all = UsageClass::ALL.iter().zip(CostPart::ALL);
                values.extend(all.map(|(_, part)| part.field().to_owned()));
            }
        }
    }
    all
}

/// A label in braces.
struct Matcher<'a> {
    name: &'a str,
    is_pattern: bool,
    value: &'a str,
}

/// The labels in the text between braces; their values have no quotes in them.
fn matchers(text: &str) -> Vec<Matcher<'_>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('"') {
        let (value, tail) = tail.split_once('"').expect("a closing quote");
        let head = head.trim_start_matches(',').trim();
        let name = head.trim_end_matches(['=', '~', '!']);
        out.push(Matcher {
            name,
            is_pattern: head.contains('~'),
            value,
        });
        rest = tail;
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// What an expression, or a text with the labels of its result, names that is not exported.
fn faults(exported: &Exported, expression: &str, texts: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    let mut labels: BTreeSet<&str> = OF_PROMETHEUS.into();
    if !expression.contains("stokehold_") {
        out.push("no metric".to_owned());
    }
    for (at, _) in expression.match_indices("stokehold_") {
        let rest = &expression[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        let Some(known) = exported.get(name) else {
            out.push(format!("no metric {name}"));
            continue;
        };
        labels.extend(known.keys().map(String::as_str));
        let Some(selector) = rest.strip_prefix('{') else {
            continue;
        };
        let selector = selector.split_once('}').expect("a closing brace").0;
        for matcher in matchers(selector) {
            let Some(values) = known.get(matcher.name) else {
                out.push(format!("{name} has no label {}", matcher.name));
                continue;
            };
            // What is the fleet's own is not among the values of an enumeration.
            if matcher.value.contains('$') {
                continue;
            }
            let alternatives = match matcher.is_pattern {
                true => matcher.value.split('|').collect(),
                false => vec![matcher.value],
            };
            for value in alternatives {
                if !values.contains(value) {
                    out.push(format!("{name} has no {}={value:?}", matcher.name));
                }
            }
        }
    }
    for grouping in ["by (", "without (", "on (", "ignoring ("] {
        for (_, list) in expression
            .split(grouping)
            .skip(1)
            .filter_map(|rest| rest.split_once(')').map(|(list, rest)| (rest, list)))
        {
            let names = list.split(',').map(str::trim);
            let unknown = names.filter(|name| !labels.contains(name));
            out.extend(unknown.map(|name| format!("no label {name} to group by")));
        }
    }
    for text in texts {
        for used in text.split("{{").skip(1) {
            let used = used.split_once("}}").expect("closing braces").0.trim();
            let used = used.trim_start_matches("$labels.");
            if !used.starts_with("$value") && !labels.contains(used) {
                out.push(format!("no label {used} in {text:?}"));
            }
        }
    }
    out
}

fn config(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/prometheus");
    fs::read_to_string(format!("{folder}/{name}")).expect("is there")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn alert_rules_name_what_is_exported_and_each_is_tested() {
    let exported = exported();
    let rules: Value = serde_saphyr::from_str(&config("rules.yaml")).expect("is YAML");
    let tests: Value = serde_saphyr::from_str(&config("rules_test.yaml")).expect("is YAML");
    let tests = list(&tests["tests"]);
    let mut found = Vec::new();
    let mut alerts = BTreeSet::new();
    for rule in list(&rules["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]))
    {
        let alert = word(rule, "alert");
        alerts.insert(alert);
        let texts = ["summary", "repair"].map(|key| word(&rule["annotations"], key));
        assert!(texts.iter().all(|text| !text.is_empty()), "{alert}");
        let faults = faults(&exported, word(rule, "expr"), &texts);
        found.extend(faults.into_iter().map(|fault| format!("{alert}: {fault}")));
        let is_tested = tests
            .iter()
            .flat_map(|test| list(&test["alert_rule_test"]))
            .any(|case| word(case, "alertname") == alert && !list(&case["exp_alerts"]).is_empty());
        assert!(is_tested, "no case of rules_test.yaml lets {alert} fire");
    }
    for case in tests.iter().flat_map(|test| list(&test["alert_rule_test"])) {
        assert!(alerts.contains(word(case, "alertname")), "{case}");
    }
    // (A label of Prometheus on a series of a test is none of ours.)
    for series in tests.iter().flat_map(|test| list(&test["input_series"])) {
        let series = word(series, "series");
        let (name, labels) = series.split_once('{').expect("labels");
        let Some(known) = exported.get(name) else {
            found.push(format!("test: no metric {name}"));
            continue;
        };
        let labels = matchers(labels.trim_end_matches('}'));
        let unknown = labels
            .iter()
            .filter(|label| !known.contains_key(label.name));
        let unknown = unknown.filter(|label| !OF_PROMETHEUS.contains(&label.name));
        found.extend(unknown.map(|label| format!("test: {name} has no label {}", label.name)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(alerts.len() > 15, "{alerts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_names_what_is_exported() {
    let exported = exported();
    let dashboard: Value = serde_json::from_str(&config("dashboard.json")).expect("is JSON");
    let mut found = Vec::new();
    let mut count = 0;
    for panel in list(&dashboard["panels"]) {
        for target in list(&panel["targets"]) {
            count += 1;
            let faults = faults(
                &exported,
                word(target, "expr"),
                &[word(target, "legendFormat")],
            );
            let title = word(panel, "title");
            found.extend(faults.into_iter().map(|fault| format!("{title}: {fault}")));
        }
    }
    for variable in list(&dashboard["templating"]["list"]) {
        let query = word(variable, "definition");
        if let Some(query) = query.strip_prefix("label_values(") {
            let (metric, label) = query.trim_end_matches(')').split_once(", ").expect("two");
            let known = exported
                .get(metric)
                .is_some_and(|labels| labels.contains_key(label));
            assert!(known, "{query}");
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(count > 20, "{count} queries");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_exported_is_found() {
    let exported = exported();
    for (expression, text, fault) in [
        (
            "stokehold_watch_upp == 0",
            "",
            "no metric stokehold_watch_upp",
        ),
        ("up == 0", "", "no metric"),
        (
            "stokehold_findings{level=\"critical\"} > 0",
            "",
            "stokehold_findings has no label level",
        ),
        (
            "stokehold_sources{state=~\"lost|gone\"} > 0",
            "",
            "stokehold_sources has no state=\"gone\"",
        ),
        (
            "sum by (cluster, rack) (stokehold_sources)",
            "",
            "no label rack to group by",
        ),
        (
            "stokehold_record_up == 0",
            "in {{ $labels.cluster }}",
            "no label cluster in \"in {{ $labels.cluster }}\"",
        ),
    ] {
        assert_eq!(faults(&exported, expression, &[text]), [fault]);
    }
}

/// Queries of the docs, and the table of alerts.
#[tokio::test(start_paused = true)]
async fn the_page_on_prometheus_names_what_there_is() {
    let exported = exported();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/prometheus.md");
    let page = fs::read_to_string(page).expect("is there");
    let queries = page.split_once("```promql\n").expect("queries").1;
    let queries = queries.split_once("```").expect("their end").0;
    let mut found = Vec::new();
    for query in queries.lines() {
        let query = query.split('#').next().unwrap_or_default();
        found.extend(faults(&exported, query, &[]));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let rules: Value = serde_saphyr::from_str(&config("rules.yaml")).expect("is YAML");
    for group in list(&rules["groups"]) {
        let name = format!("| `{}` |", word(group, "name"));
        let row = page.lines().find(|line| line.starts_with(&name));
        let row = row.unwrap_or_else(|| panic!("no row {name}"));
        let alerts = list(&group["rules"]).iter().map(|rule| word(rule, "alert"));
        let alerts: Vec<&str> = alerts.collect();
        assert_eq!(row.split(" | ").nth(1), Some(&*alerts.join(", ")));
    }
}

/// Docs and rules speak of the same metrics as the pages.
#[tokio::test(start_paused = true)]
async fn every_metric_is_on_a_page_of_the_docs() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
    let files = ["record.md", "watch.md", "govern.md"];
    let docs = files.map(|file| fs::read_to_string(format!("{folder}/{file}")).expect("is there"));
    let docs = docs.concat();
    for name in exported().keys() {
        let is_named = docs.contains(&format!("`{name}")) || {
            // Several in braces: `stokehold_budget_{spent,forecast}_ratio`, `stokehold_remote_write_*`.
            let in_braces = docs
                .split('`')
                .filter(|word| word.starts_with("stokehold_"));
            in_braces.into_iter().any(|word| spells(word, name))
        };
        assert!(is_named, "{name} is on no page");
    }
}

/// True where a word of the docs, with alternatives in braces or `*` at its end, stands for the name.
fn spells(word: &str, name: &str) -> bool {
    if let Some(start) = word.strip_suffix('*') {
        return name.starts_with(start);
    }
    let Some((head, rest)) = word.split_once('{') else {
        return word == name;
    };
    let Some((all, tail)) = rest.split_once('}') else {
        return false;
    };
    all.split(',')
        .any(|one| format!("{head}{one}{tail}") == name)
}
