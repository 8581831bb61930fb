//! Tests: every kind against its schema, sums of rows, every output against hostile text, and `--watch`.

mod scheduling;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;

use model::base::name::is_hostile;
use model::base::{Moment, Name};

use super::output::json_style::JsonStyle;
use super::output::{fields, output_table};
use super::sample::facts;
use super::watch::RowEvent;
use super::*;

fn json(facts: &Facts, kind: Kind) -> Json {
    let text = render(facts, &Query::all(kind), Format::Json).expect("no name is asked for");
    serde_json::from_str(&text).expect("is JSON")
}

fn rows(facts: &Facts, kind: Kind) -> Vec<Json> {
    json(facts, kind).as_array().cloned().expect("is an array")
}

fn named<'a>(rows: &'a [Json], name: &str) -> &'a Json {
    rows.iter()
        .find(|row| row["name"] == name || row["id"] == name)
        .unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn a_team_or_namespace_without_a_job_is_reported_as_unknown() {
    let facts = facts();
    let job = &facts.fleet.jobs[0];
    let of = |team: Option<&str>, namespace: Option<&str>| {
        let scope = Scope {
            team: team.map(Name::new),
            namespaces: namespace.map(Name::new).into_iter().collect(),
        };
        scope.unknown(&facts)
    };
    assert!(of(Some(&job.team), Some(job.namespace())).is_empty());
    let near = format!("{}x", job.team);
    let message = format!("no team {near} is known; did you mean `{}`?", job.team);
    assert_eq!(of(Some(&near), None), [message]);
    assert_eq!(
        of(None, Some("zzzzzzzzzzzz")),
        ["no job with devices is in namespace zzzzzzzzzzzz"]
    );
    // Where pods are not listed, their values are unknown.
    let mut blind = facts.clone();
    let mut fleet = (*blind.fleet).clone();
    fleet.known = Arc::default();
    blind.fleet = Arc::new(fleet);
    let scope = Scope {
        team: Some(Name::new("nobody")),
        namespaces: Vec::new(),
    };
    assert!(scope.unknown(&blind).is_empty());
}

#[test]
fn advice_about_pools_is_listed_with_that_about_jobs() {
    let facts = facts();
    let saves = model::cost::Money::known(model::base::Rate::from_micros(i64::MAX / 1_000));
    let about_a_pool = |action: model::advice::Action, saves| {
        let mut advice = facts.advice[0].clone();
        advice.job.kind = Name::new(model::advice::POOL);
        advice.job.key = model::base::ObjectKey::new("", "h100");
        advice.team = Name::default();
        advice.action = action;
        advice.saves = saves;
        advice
    };
    let nodes: Vec<Name> = ["a", "b"].map(Name::new).into();
    let remove = model::advice::Action::RemoveNodes(nodes.into());
    let add = model::advice::Action::AddNodes {
        nodes: 2,
        starts: Box::from([Name::new("ml/gang")]),
        above: Some(5),
    };
    let pools = [about_a_pool(remove, Some(saves)), about_a_pool(add, None)];
    let answers = waiting::explanations::JobExplanations {
        pools: pools.to_vec().into(),
        ..Default::default()
    };
    let whole = Facts {
        answers: Arc::new(answers),
        ..facts.clone()
    };
    let printed = rows(&whole, Kind::Advice);
    assert_eq!(printed.len(), facts.advice.len() + 2);
    assert_eq!(printed[0]["action"], "remove-nodes", "it saves most");
    assert_eq!(
        printed[0]["object"],
        serde_json::json!({"kind": "Pool", "namespace": "", "name": "h100"})
    );
    assert_eq!(printed[0]["window_seconds"], 0);
    assert_eq!(printed[0]["command"], "stokehold plan cordon a b");
    let added = printed
        .iter()
        .find(|row| row["action"] == "add-nodes")
        .expect("a row");
    let words = added["advice"].as_str().expect("words");
    assert!(
        words.contains("ml/gang starts now; the pool's maximum is 5 nodes"),
        "{words}"
    );
    assert_eq!(added["command"], "stokehold what-if 'nodes h100 +2'");
    let schema = Kind::Advice.schema();
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    assert!(validator.is_valid(&json(&whole, Kind::Advice)));
    // Pool advice does not belong to a team.
    let scope = Scope {
        team: Some(facts.fleet.jobs[0].team.clone()),
        namespaces: Vec::new(),
    };
    let part = rows(&whole.scoped(&scope), Kind::Advice);
    assert!(part.iter().all(|row| row["object"]["kind"] != "Pool"));
}

#[test]
fn the_total_of_advice_says_what_is_not_known() {
    let facts = facts();
    let mut all = facts.advice.to_vec();
    all.truncate(2);
    for advice in &mut all {
        advice.saves = Some(model::cost::Money::known(model::base::Rate::from_micros(
            1_000_000,
        )));
    }
    let summed = |all: &[model::advice::Advice]| kinds::advice::total_words(all.iter());
    assert_eq!(summed(&[]), None);
    let month = model::base::Rate::from_micros(1_460_000_000);
    let known = format!("known savings: ${month} a month");
    assert_eq!(summed(&all), Some(known));
    all[1].saves = None;
    let part = "known savings: $730 a month; 1 of 2 cannot be priced";
    assert_eq!(summed(&all).as_deref(), Some(part));
    assert_eq!(
        summed(&all[1..]).as_deref(),
        Some("savings cannot be priced")
    );
}

#[test]
fn every_kind_keeps_to_its_schema() {
    for kind in Kind::ALL {
        let schema = kind.schema();
        let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
        let document = json(&facts(), kind);
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", kind.name());
        if kind != Kind::Fleet {
            assert!(
                document.as_array().is_some_and(|rows| !rows.is_empty()),
                "{}",
                kind.name()
            );
            // A schema that accepts anything checks nothing.
            let mut wrong = document.clone();
            wrong[0]["surprise"] = Json::from(1);
            assert!(!validator.is_valid(&wrong), "{}", kind.name());
            let first = document[0].as_object().expect("is an object");
            for key in first.keys() {
                let mut wrong = document.clone();
                wrong[0].as_object_mut().expect("is an object").remove(key);
                assert!(!validator.is_valid(&wrong), "{} without {key}", kind.name());
            }
        }
    }
}

#[test]
fn a_schema_is_for_readers_of_json() {
    fn each<'a>(value: &'a Json, texts: &mut Vec<&'a str>) {
        match value {
            Json::Object(map) => {
                texts.extend(map.get("description").and_then(Json::as_str));
                map.values().for_each(|value| each(value, texts));
            }
            Json::Array(all) => all.iter().for_each(|value| each(value, texts)),
            _ => {}
        }
    }
    let names: Vec<&str> = schemas::names().collect();
    assert_eq!(names.len(), Kind::ALL.len() + 5);
    for name in names {
        let schema = schemas::schema(name).expect("has a schema");
        jsonschema::draft202012::new(&schema).expect("is a schema");
        let id = format!("https://stokehold.dev/schema/{name}.json");
        assert_eq!(schema["$id"], Json::from(id));
        let mut texts = Vec::new();
        each(&schema, &mut texts);
        // The words of Rust mean nothing there.
        for word in ["`None`", "`Some", "[`", "`Self", "`true`"] {
            assert!(
                texts.iter().all(|text| !text.contains(word)),
                "{name}: {word}: {texts:?}"
            );
        }
    }
    assert_eq!(schemas::schema("nothing"), None);
}

#[test]
fn the_signals_of_the_schema_are_those_that_exist() {
    let schema = Kind::Devices.schema();
    let listed = &schema["items"]["properties"]["signals"]["properties"];
    let listed: Vec<&String> = listed.as_object().expect("is an object").keys().collect();
    let all: Vec<_> = model::fleet::signal::Signal::ALL
        .iter()
        .filter(|signal| !signal.is_of_a_server())
        .collect();
    assert_eq!(listed.len(), all.len());
    for signal in all {
        assert!(
            listed.iter().any(|name| *name == signal.name()),
            "{}",
            signal.name()
        );
    }
}

#[test]
fn unknown_is_null_and_never_zero() {
    let facts = facts();
    let devices = rows(&facts, Kind::Devices);
    let silent = named(&devices, "n2/gpu0");
    assert_eq!(silent["age_seconds"], Json::Null);
    assert_eq!(silent["model"], Json::Null);
    assert_eq!(silent["signals"], serde_json::json!({}));
    assert_eq!(silent["attribution"], "none");
    let nodes = rows(&facts, Kind::Nodes);
    assert_eq!(named(&nodes, "plain")["burn_usd_per_hour"], Json::Null);
    assert_eq!(named(&nodes, "n2")["ready"], Json::Null);
    assert_eq!(named(&nodes, "n1")["cordoned"]["by"], "ada");
    assert_eq!(named(&nodes, "n1")["devices"]["unhealthy"], 1);
    assert_eq!(named(&nodes, "n2")["devices"]["unhealthy"], 2);
    let cost = rows(&facts, Kind::Cost);
    let mystery = cost
        .iter()
        .find(|row| row["name"] == "mystery")
        .expect("has a row");
    assert_eq!(mystery["burn_usd_per_hour"], Json::Null);
    assert_eq!(mystery["devices"], 1);
    let mixed = cost
        .iter()
        .find(|row| row["name"] == "mixed")
        .expect("has a row");
    assert_eq!(mixed["burn_usd_per_hour"], 7.1);
    assert_eq!(
        mixed["price_source"],
        "aws H100 on-demand (list price, billing not known); 1 device without a price"
    );
}

#[test]
fn a_sliced_device_has_a_row_for_itself_and_one_for_each_slice() {
    let devices = rows(&facts(), Kind::Devices);
    let itself = named(&devices, "n2/gpu1");
    assert_eq!(
        (&itself["slice"], &itself["pod"]),
        (&Json::Null, &Json::from("train-0"))
    );
    let slices: Vec<&Json> = devices
        .iter()
        .filter(|row| row["index"] == 1 && row["node"] == "n2" && !row["slice"].is_null())
        .collect();
    assert_eq!(slices.len(), 3);
    assert_eq!(slices[0]["id"], "n2/gpu1/1g.10gb-7");
    assert_eq!(slices[0]["queue"], "research");
    assert_eq!(slices[2]["pod"], Json::Null);
    assert_eq!(
        devices.iter().filter(|row| row["slice"].is_null()).count(),
        5
    );
}

#[test]
fn the_header_is_the_sum_of_the_rows() {
    let facts = facts();
    let head = figures(&facts);
    let sum = |rows: &[Json], field: &str| -> f64 {
        rows.iter()
            .map(|row| row[field].as_f64().unwrap_or(0.0))
            .sum()
    };
    let same = |a: f64, b: Option<f64>| assert!((a - b.unwrap_or(0.0)).abs() < 1e-9, "{a} {b:?}");
    let cost = rows(&facts, Kind::Cost);
    for scope in ["pool", "queue", "team", "job", "class"] {
        let rows: Vec<Json> = cost
            .iter()
            .filter(|row| row["scope"] == scope)
            .cloned()
            .collect();
        assert_eq!(Some(sum(&rows, "devices") as u32), head.devices, "{scope}");
        same(sum(&rows, "burn_usd_per_hour"), head.burn_usd_per_hour);
        same(sum(&rows, "list_usd_per_hour"), head.list_usd_per_hour);
        same(sum(&rows, "free_usd_per_hour"), head.free_usd_per_hour);
        same(
            sum(&rows, "idle_allocated_usd_per_hour"),
            head.idle_allocated_usd_per_hour,
        );
    }
    let pools = rows(&facts, Kind::Pools);
    assert_eq!(
        Some(sum(&pools, "waiting_devices") as u32),
        head.waiting_devices
    );
    assert_eq!(
        pools.last().map(|row| &row["name"]),
        Some(&Json::from("(no pool)"))
    );
    for kind in [Kind::Pools, Kind::Nodes, Kind::Queues] {
        let rows = rows(&facts, kind);
        same(sum(&rows, "burn_usd_per_hour"), head.burn_usd_per_hour);
        same(sum(&rows, "list_usd_per_hour"), head.list_usd_per_hour);
    }
    assert!(head.list_usd_per_hour > Some(0.0));
    assert!(head.burn_usd_per_hour > Some(0.0) && head.idle_allocated_usd_per_hour > Some(0.0));
    let document = json(&facts, Kind::Fleet);
    assert_eq!(
        document["figures"]["devices"],
        serde_json::json!(head.devices)
    );
    assert_eq!(document["prices"].as_array().map(Vec::len), Some(3));
}

#[test]
fn queues_are_those_that_jobs_name() {
    let queues = rows(&facts(), Kind::Queues);
    let research = named(&queues, "research");
    assert_eq!(research["system"], "kueue");
    assert_eq!(
        (&research["running"], &research["waiting"]),
        (&Json::from(1), &Json::from(1))
    );
    assert_eq!(research["oldest_waiting_seconds"], 3000);
    assert_eq!(named(&queues, "unattributed")["running"], 1);
}

#[test]
fn no_output_carries_what_could_rewrite_a_screen() {
    let facts = facts();
    for kind in Kind::ALL {
        for format in [
            Format::Table,
            Format::Wide,
            Format::Json,
            Format::Yaml,
            Format::Csv,
        ] {
            let text = render(&facts, &Query::all(kind), format).expect("no name is asked for");
            let bad: Vec<char> = text
                .chars()
                .filter(|c| is_hostile(*c) && !matches!(c, '\n' | '\t'))
                .collect();
            assert!(bad.is_empty(), "{} {format:?}: {bad:?}", kind.name());
            if matches!(format, Format::Table | Format::Wide) {
                assert!(
                    text.lines().all(|line| !line.ends_with(' ')),
                    "{}",
                    kind.name()
                );
            }
        }
    }
    // JSON still keeps the full text.
    let jobs = rows(&facts, Kind::Jobs);
    assert!(
        jobs.iter()
            .any(|row| row["name"] == super::sample::hostile())
    );
}

#[test]
fn yaml_and_json_say_the_same() {
    let facts = facts();
    for kind in [
        Kind::Pools,
        Kind::Nodes,
        Kind::Cost,
        Kind::Alerts,
        Kind::Fleet,
    ] {
        let text = render(&facts, &Query::all(kind), Format::Yaml).expect("no name is asked for");
        let yaml: model::value::Json = serde_saphyr::from_str(&text).expect("is YAML");
        let back = serde_json::to_value(&yaml).expect("is JSON");
        if kind != Kind::Fleet {
            let text = render(&facts, &Query::all(kind), Format::Json).expect("no name");
            let plain = model::value::Json::of(&text).printable();
            let same = serde_json::to_value(&plain).expect("is JSON");
            assert_eq!(back, same, "{}", kind.name());
        } else {
            assert_eq!(back["nodes"].as_array().map(Vec::len), Some(3));
        }
    }
    let mut none = facts.clone();
    Arc::make_mut(&mut none.fleet).findings = Arc::from([]);
    for format in [Format::Yaml, Format::Json] {
        let text = render(&none, &Query::all(Kind::Alerts), format).expect("no name is asked for");
        assert_eq!(text, "[]\n");
    }
}

#[test]
fn csv_has_the_fields_of_the_schema_and_a_line_a_row() {
    let facts = facts();
    for kind in Kind::ALL {
        let text = render(&facts, &Query::all(kind), Format::Csv).expect("no name is asked for");
        let mut sheet = csv::Reader::from_reader(text.as_bytes());
        let header: Vec<String> = sheet
            .headers()
            .expect("has a header")
            .iter()
            .map(str::to_owned)
            .collect();
        let records: Vec<csv::StringRecord> = sheet
            .records()
            .collect::<Result<_, _>>()
            .expect("every line has every column");
        if kind == Kind::Fleet {
            assert_eq!(records.len(), 1);
            continue;
        }
        let rows = rows(&facts, kind);
        assert_eq!(records.len(), rows.len(), "{}", kind.name());
        // Every field of a row has a column, itself or through its parts.
        for key in rows[0].as_object().expect("is an object").keys() {
            let part = format!("{key}.");
            assert!(
                header
                    .iter()
                    .any(|name| name == key || name.starts_with(&part)),
                "{}: {key}",
                kind.name()
            );
        }
        for name in &header {
            let top = name.split('.').next().unwrap_or_default();
            assert!(rows[0].get(top).is_some(), "{}: {name}", kind.name());
        }
    }
    let devices = render(&facts, &Query::all(Kind::Devices), Format::Csv).expect("no name");
    let mut sheet = csv::Reader::from_reader(devices.as_bytes());
    let at = fields(Kind::Devices)
        .iter()
        .position(|name| name == "signals.temp_celsius");
    let first = sheet.records().next().expect("a row").expect("is whole");
    assert_eq!(first.get(at.expect("is a column")), Some("66"));
}

#[test]
fn tables_are_for_people() {
    let text = render(&facts(), &Query::all(Kind::Pools), Format::Table).expect("no name");
    let expected = "\
NAME        CLASS   MODE      BILLING   FREE/TOTAL   ALLOCATED   UTIL   MEM   T MAX   kW/CAP   WAIT      $/h   READY/NODES   UNALLOC $/h   IDLE ALLOC $/h
h100        H100    dynamic   spot             0/3         67%    63%     -     66C     15.3      0     $21*           1/1        $7.00*           $7.00*
mixed       H100    dynamic   mixed            0/2         14%    63%     -     66C     15.3      0   $7.10*           1/1        $5.07*               $0
(no pool)   -       -         -                  -           -      -     -       -        -     64        -             -             -                -
";
    assert_eq!(text, expected);
    let wide = render(&facts(), &Query::all(Kind::Pools), Format::Wide).expect("no name");
    assert!(
        wide.lines()
            .next()
            .is_some_and(|line| line.contains("UNHEALTHY"))
    );
    // The free device is on a cordoned node.
    assert!(wide.contains(" 1 cordoned "), "{wide}");
}

#[test]
fn names_find_and_the_nearest_is_offered() {
    let facts = facts();
    let find = |kind, name: &str| {
        let query = Query {
            names: vec![name.to_owned()],
            ..Query::all(kind)
        };
        output_table(&facts, &query, Format::Json, JsonStyle::Indented)
            .map(|sheet| sheet.items.len())
    };
    assert_eq!(find(Kind::Pools, "h100"), Ok(1));
    assert_eq!(find(Kind::Jobs, "nlp/train"), Ok(1));
    assert_eq!(find(Kind::Jobs, "train"), Ok(1));
    assert_eq!(find(Kind::Devices, "n2/gpu1"), Ok(4));
    assert_eq!(find(Kind::Devices, "n2/gpu1/1g.10gb-8"), Ok(1));
    assert_eq!(find(Kind::Devices, "GPU-n1-2"), Ok(1));
    assert_eq!(find(Kind::Devices, "n1"), Ok(3));
    assert_eq!(find(Kind::Cost, "team"), Ok(3));
    assert_eq!(find(Kind::Alerts, "xid-79"), Ok(1));
    let several = Query {
        names: vec!["n2/gpu1/1g.10gb-8".to_owned(), "GPU-n1-2".to_owned()],
        ..Query::all(Kind::Devices)
    };
    let rows = output_table(&facts, &several, Format::Json, JsonStyle::Indented)
        .map(|sheet| sheet.items.len());
    assert_eq!(rows, Ok(2), "of several names each finds its own");
    let missing = |kind, name| find(kind, name).expect_err("is not there").to_string();
    assert_eq!(
        missing(Kind::Pools, "h10"),
        "no pools named `h10`; did you mean `h100`?"
    );
    assert_eq!(
        missing(Kind::Jobs, "tarin"),
        "no jobs named `tarin`; did you mean `train`?"
    );
    assert_eq!(
        missing(Kind::Nodes, "zebra\u{1b}"),
        "no nodes named `zebra\u{fffd}`"
    );
}

#[test]
fn namespaces_and_teams_narrow_what_has_them() {
    let facts = facts();
    let count = |kind, namespaces: &[&str], team: Option<&str>| {
        let query = Query {
            scope: Scope {
                namespaces: namespaces.iter().map(|name| Name::new(name)).collect(),
                team: team.map(Name::new),
            },
            ..Query::all(kind)
        };
        let facts = facts.scoped(&query.scope);
        output_table(&facts, &query, Format::Table, JsonStyle::Indented)
            .map(|sheet| sheet.items.len())
    };
    assert_eq!(count(Kind::Jobs, &[], None), Ok(4));
    assert_eq!(count(Kind::Jobs, &["nlp"], None), Ok(2));
    assert_eq!(count(Kind::Jobs, &["nlp", "vision"], Some("vision")), Ok(2));
    // A device of which it has a slice, though another team has the first, and that slice.
    assert_eq!(count(Kind::Devices, &[], Some("vision")), Ok(2));
    // The pools of its jobs, and the row for devices that no pool can serve.
    assert_eq!(count(Kind::Pools, &[], None), Ok(3));
    assert_eq!(count(Kind::Pools, &[], Some("vision")), Ok(1));
    assert_eq!(count(Kind::Pools, &["nlp"], Some("nlp")), Ok(3));
    assert_eq!(count(Kind::Nodes, &[], None), Ok(3));
    assert_eq!(count(Kind::Nodes, &["nlp"], None), Ok(2));
    assert_eq!(count(Kind::Nodes, &["vision"], None), Ok(1));
    // The alert is on a device that no job holds.
    assert_eq!(count(Kind::Alerts, &[], None), Ok(1));
    assert_eq!(count(Kind::Alerts, &[], Some("nlp")), Ok(0));
    assert_eq!(count(Kind::Alerts, &[], Some("vision")), Ok(0));
}

#[test]
fn a_column_that_is_not_the_teams_says_so() {
    let facts = facts();
    let nlp = Scope {
        team: Some(Name::new("nlp")),
        ..Scope::default()
    };
    let titles = |facts: &Facts, kind| -> Vec<&'static str> {
        let sheet =
            output_table(facts, &Query::all(kind), Format::Wide, JsonStyle::Indented).expect("all");
        sheet.titles.iter().map(|(title, _)| *title).collect()
    };
    for (kind, whole, scoped) in [
        (Kind::Pools, "FREE/TOTAL", "POOL FREE/TOTAL"),
        (Kind::Pools, "READY/NODES", "POOL READY/NODES"),
        (Kind::Queues, "QUOTA", "QUEUE QUOTA"),
        (Kind::Queues, "SHARE", "QUEUE SHARE"),
        (Kind::Nodes, "PODS", "NODE PODS"),
    ] {
        let (all, own) = (titles(&facts, kind), titles(&facts.scoped(&nlp), kind));
        assert!(all.contains(&whole) && !all.contains(&scoped), "{all:?}");
        assert!(own.contains(&scoped) && !own.contains(&whole), "{own:?}");
    }
}

#[test]
fn watch_prints_changes_and_not_elapsed_time() {
    let before = facts();
    let look = |facts: &Facts, kind| {
        output_table(facts, &Query::all(kind), Format::Json, JsonStyle::Line)
            .expect("no name is asked for")
    };
    let mut jobs = Watch::default();
    let first = jobs.update(look(&before, Kind::Jobs));
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|change| change.event == RowEvent::Set));
    let mut later = before.clone();
    later.now = later.now.plus(Duration::from_secs(60));
    assert_eq!(jobs.update(look(&later, Kind::Jobs)), []);
    let fleet = Arc::make_mut(&mut later.fleet);
    let mut all: Vec<_> = fleet.jobs.iter().cloned().collect();
    let gone = all.remove(0);
    Arc::make_mut(&mut all[0]).priority = Some(99);
    fleet.jobs = Arc::from(all);
    let changes = jobs.update(look(&later, Kind::Jobs));
    let events: Vec<&str> = changes.iter().map(|change| change.event.name()).collect();
    assert_eq!(events, ["set", "gone"]);
    let at = Moment::parse("2026-11-21T06:41:00Z").expect("valid");
    let line = changes[1].line(at);
    assert_eq!(line.matches('\n').count(), 1);
    let line: Json = serde_json::from_str(&line).expect("is JSON");
    assert_eq!(line["event"], "gone");
    assert_eq!(line["at"], "2026-11-21T06:41:00Z");
    assert_eq!(line["object"]["name"], gone.name().as_str());
    assert_eq!(jobs.update(look(&later, Kind::Jobs)), []);
}

#[test]
fn failed_jobs_stand_with_the_newest_failure_first() {
    use model::fleet::job::{Job, JobKey, JobState};
    let mut facts = facts();
    let job = |name: &str, state: JobState, minutes: u64| {
        let mut job = Job::unknown(JobKey {
            kind: model::base::Name::new("Job"),
            key: model::base::ObjectKey::new("nlp", name),
        });
        job.state = state;
        job.failure = Some(model::fleet::observe::WorkloadFailure::default());
        job.finished = Some(facts.now.minus(Duration::from_secs(60 * minutes)));
        std::sync::Arc::new(job)
    };
    let jobs = [
        job("a", JobState::Failed, 50),
        job("b", JobState::Failed, 5),
        job("c", JobState::Running, 1),
        job("d", JobState::Failed, 20),
    ];
    std::sync::Arc::make_mut(&mut facts.fleet).jobs = jobs.into();
    let query = Query {
        select: Select::parse(Kind::Jobs, "", "state=failed").expect("is a selector"),
        ..Query::all(Kind::Jobs)
    };
    let text = render(&facts, &query, Format::Name).expect("no name");
    let names: Vec<&str> = text.lines().collect();
    assert_eq!(names.len(), 3, "{text}");
    let at = |name: &str| names.iter().position(|line| line.ends_with(name));
    assert!(at("/b") < at("/d") && at("/d") < at("/a"), "{text}");
}

#[test]
fn how_long_a_device_is_idle_is_the_same_in_findings_advice_and_rows() {
    use ledger::checks;
    use model::advice::{Action, Advice, Certainty};
    use model::fleet::device::Device;
    use model::fleet::node::Node;
    use model::fleet::{job::HeldDevice, thresholds::Thresholds};

    let mut facts = facts();
    let now = facts.now;
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut nodes: Vec<Arc<Node>> = fleet.nodes.to_vec();
    let idles = |device: &Device| device.idle_since.is_some();
    let at = nodes.iter().position(|node| node.devices.iter().any(idles));
    let node = Arc::make_mut(&mut nodes[at.expect("one idles")]);
    let name = node.name().clone();
    let device = node.devices.iter_mut().find(|one| idles(one));
    let device = device.expect("it idles");
    device.idle_since = Some(now.minus(Duration::from_secs(41 * 60)));
    device.idle_first_seen = true;
    let (id, index) = (device.id.clone(), device.index);
    let (pod, _) = device.first_holder().expect("a pod");
    let of = pod.job.clone();
    fleet.nodes = nodes.into();
    let mut jobs = fleet.jobs.to_vec();
    let job = jobs.iter_mut().find(|job| job.id == of).expect("its job");
    Arc::make_mut(job).places = Box::from([HeldDevice {
        node: name.clone(),
        device: index,
        slice: None,
    }]);
    fleet.jobs = jobs.into();
    let node = facts.fleet.node(&name).expect("its node");
    let device = node.device(index).expect("the device");
    let row = super::rows::devices::row(&facts, node, device);
    assert_eq!(row.id, id.as_str());
    assert_eq!(row.idle_seconds, Some(41 * 60));
    assert_eq!(row.idle_at_least, Some(true));
    let thresholds = Thresholds::default().at_once();
    let found = checks::run(
        &mut checks::CheckStates::default(),
        &facts.fleet,
        now,
        &thresholds,
    );
    let mut findings = found.iter();
    let finding = findings
        .find(|one| one.code.as_str() == "idle-allocated" && one.subject.key == of.key)
        .expect("a finding");
    let words = "idle for >41m";
    assert!(finding.message.ends_with("idle"), "{}", finding.message);
    assert_eq!(now.since(finding.since).seconds(), 41 * 60);
    assert!(finding.first_seen && finding.at_least);
    let advice = Advice {
        job: of,
        team: Name::default(),
        bound: None,
        action: Action::Release,
        devices: 1,
        class: None,
        evidence: None,
        costs: None,
        saves: None,
        commitment: None,
        certainty: Certainty::High,
    };
    let shown = kinds::advice::words(&facts, &advice);
    assert_eq!(shown, format!("release its device: {words}"));
}
