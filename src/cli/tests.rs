//! Parsing, partial answers and their exit codes, watching in every format, readers that go away.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::fleet::TableState;
use model::fleet::observe::{Lost, LostKind, Table};
use settings::Settings;
use table::output::json_style::JsonStyle;
use table::sample::facts;
use table::{Facts, Format, Kind, Query, losses};

use super::get::{RowFollower, print};
use super::*;

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    parse(&words)
}

/// A host without an environment, at the epoch.
pub(super) fn host() -> Host {
    Host::bare(Arc::new(|| model::base::Moment::from_millis(0)))
}

pub(super) fn defaults() -> Settings {
    settings::load(&settings::Inputs::default()).expect("is right")
}

fn refused(line: &str) -> String {
    let error = parsed(line).expect_err("is wrong use");
    assert!(error.use_stderr(), "{line}");
    error.to_string()
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn global_flags_stand_before_or_behind_a_command() {
    for line in [
        "stokehold -n nlp,vision --team a --refresh 5s --theme ash --ascii --color 256 --log-file l --readonly get pools",
        "stokehold get pools -n nlp -n vision --team a --refresh 5s --theme ash --ascii --color 256 --log-file l --readonly",
    ] {
        let given = parsed(line).expect("is right").global.settings();
        let given: Vec<String> = given
            .iter()
            .map(|(flag, key, value)| format!("{flag} {key}={value}"))
            .collect();
        assert_eq!(
            given,
            [
                "--namespace scope.namespaces=nlp,vision",
                "--readonly write=false",
                "--team scope.team=a",
                "--refresh refresh=5s",
                "--theme theme=ash",
                "--ascii ascii=true",
                "--color color=256",
                "--log-file log_file=l",
            ]
        );
    }
    let cli = parsed("stokehold --as ada --as-group a --as-group b --context c --kubeconfig k")
        .expect("is right");
    let global = Global {
        flags: cli.global,
        host: host(),
    };
    let choice = global.choice();
    assert_eq!(choice.impersonate.as_deref(), Some("ada"));
    assert_eq!(choice.impersonate_groups, ["a", "b"]);
    assert_eq!(choice.context.as_deref(), Some("c"));
    assert_eq!(choice.kubeconfig.as_deref(), Some(Path::new("k")));
    let all = parsed("stokehold get jobs -A")
        .expect("is right")
        .global
        .settings();
    assert_eq!(
        all,
        [(
            "--all-namespaces".into(),
            "scope.namespaces".into(),
            String::new()
        )]
    );
}

#[test]
fn every_flag_is_a_setting_that_exists() {
    let line =
        "stokehold -A --write --team a --refresh 5s --theme ash --ascii --color true --log-file l";
    let flags = parsed(line).expect("is right").global.settings();
    let keys = settings::keys();
    for (_, key, _) in &flags {
        assert!(keys.contains(key), "{key}");
    }
    let inputs = settings::Inputs {
        flags,
        ..settings::Inputs::default()
    };
    let settings = settings::load(&inputs).expect("is right");
    assert!(settings.write && settings.ascii);
}

#[test]
fn commands_take_what_the_contract_says() {
    for line in [
        "stokehold",
        "stokehold --size 80x24 --for 30s",
        "stokehold demo --nodes 20 --seed 7 --speed 0 --for 2s --size 170x44",
        "stokehold sim --listen 127.0.0.1:0 --devices 100000 --seed 1 --speed 60 --at 2026-11-21T06:40:00Z --kubeconfig f",
        "stokehold sim --exporters 127.0.0.1:0 --prometheus 127.0.0.1:0 --nodes 3",
        "stokehold sim --listen :0 --exporters localhost:9400 --prometheus 9090",
        "stokehold export --listen :9845",
        "stokehold export --listen localhost:9845",
        "stokehold record --listen :9843",
        "stokehold record --metrics 9843",
        "stokehold watch --listen localhost:9844",
        "stokehold govern --listen 9846",
        "stokehold get fleet -o json",
        "stokehold get jobs nlp/train -o wide --watch",
        "stokehold get device n1 -ocsv -w",
        "stokehold get nodes -o name -l pool=a,rack!=r1 --sort-by -util",
        "stokehold get pods -o jsonpath={.items[*].name} --field-selector spec.nodeName=n1",
        "stokehold describe node n1",
        "stokehold describe jobset/nlp/train",
        "stokehold top nodes -o csv",
        "stokehold top team",
        "stokehold exporter list",
        "stokehold exporter read - -o json",
        "stokehold exporter read page.txt --dialect dcgm",
        "stokehold config path",
        "stokehold config print",
        "stokehold config validate stokehold.toml",
        "stokehold schema",
        "stokehold schema nodes",
        "stokehold completions zsh",
        "kubectl-stokehold get nodes --context prod",
        "/usr/local/bin/kubectl-stokehold --help",
    ] {
        match parsed(line) {
            Ok(_) => {}
            Err(help) => assert!(line.ends_with("--help") && !help.use_stderr(), "{help}"),
        }
    }
    let help = parsed("/usr/local/bin/kubectl-stokehold --help").expect_err("is help");
    assert!(help.to_string().contains("kubectl stokehold"), "{help}");
}

#[test]
fn wrong_use_is_refused_with_the_mend() {
    for (line, expected) in [
        ("stokehold get", "<KIND>"),
        ("stokehold get jbos", "'jobs'"),
        ("stokehold get jobs -o jsn", "'json'"),
        (
            "stokehold get jobs -o go-template={{.x}}",
            "use -o jsonpath",
        ),
        ("stokehold get jobs -o jsonpath", "a template is missing"),
        ("stokehold top pods", "possible values"),
        ("stokehold describe", "<OBJECT>"),
        ("stokehold demo --speed -1", "a speed is a number from 0"),
        ("stokehold demo --speed=nan", "a speed is a number from 0"),
        ("stokehold demo --nodes 0", "1..=100000"),
        (
            "stokehold demo --nodes 3 --devices 3",
            "cannot be used with",
        ),
        ("stokehold sim --at yesterday", "2026-11-21T06:40:00Z"),
        ("stokehold sim --listen here", "no port: write ADDRESS:PORT"),
        (
            "stokehold sim --prometheus 9090.0",
            "no port: write ADDRESS:PORT",
        ),
        ("stokehold --size 80", "WxH"),
        ("stokehold --size 0x5", "WxH"),
        ("stokehold --for soon", "90s, 15m"),
        ("stokehold --color blue", "possible values"),
        ("stokehold get jobs -A -n a", "cannot be used with"),
        ("stokehold --as-group a", "--as <USER>"),
        ("stokehold dmeo", "'demo'"),
        ("stokehold govern chekc", "'check'"),
        (
            "stokehold govern --listen ::1:9846",
            "[::1]:9845 or localhost:9845",
        ),
        ("stokehold completions tcl", "possible values"),
    ] {
        let error = refused(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

fn lose(facts: &mut Facts, tables: &[(Table, LostKind)]) {
    let fleet = Arc::make_mut(&mut facts.fleet);
    let known = Arc::make_mut(&mut fleet.known);
    for table in Table::ALL {
        known.insert(*table, TableState::Live);
    }
    for (table, kind) in tables {
        let lost = Lost {
            kind: *kind,
            since: facts.now,
            message: format!("cannot list {}\u{1b}[2J", table.name()),
        };
        known.insert(*table, TableState::Lost(lost));
    }
}

fn printed(facts: &Facts, query: &Query) -> (Result<Exit, Failure>, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = print(facts, query, Format::Json, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("is text");
    (exit, text(out), text(err))
}

#[test]
fn a_partial_answer_names_each_lost_kind_and_ends_with_its_code() {
    let mut facts = facts();
    let jobs = Query::all(Kind::Jobs);
    lose(&mut facts, &[]);
    let (exit, _, err) = printed(&facts, &jobs);
    assert_eq!((exit, err.as_str()), (Ok(Exit::Done), ""));
    lose(&mut facts, &[(Table::Namespaces, LostKind::Rights)]);
    let (exit, out, err) = printed(&facts, &jobs);
    assert_eq!(exit, Ok(Exit::Refused));
    assert_eq!(
        err,
        "stokehold: namespaces: cannot list namespaces\u{fffd}[2J\n"
    );
    assert!(out.starts_with("[\n"));
    // Jobs are whole without the rules of their queues; queues are not.
    lose(&mut facts, &[(Table::ClusterQueues, LostKind::Rights)]);
    assert_eq!(printed(&facts, &jobs).0, Ok(Exit::Done));
    let queues = printed(&facts, &Query::all(Kind::Queues));
    assert_eq!(queues.0, Ok(Exit::Refused));
    assert!(
        queues.2.contains("clusterqueues: cannot list"),
        "{}",
        queues.2
    );
    lose(&mut facts, &[(Table::Namespaces, LostKind::Rights)]);
    // Nodes are whole without namespaces.
    assert_eq!(printed(&facts, &Query::all(Kind::Nodes)).0, Ok(Exit::Done));
    lose(
        &mut facts,
        &[
            (Table::Nodes, LostKind::Rights),
            (Table::Pods, LostKind::Unreachable),
        ],
    );
    let (exit, _, err) = printed(&facts, &jobs);
    assert_eq!((exit, err.lines().count()), (Ok(Exit::Unreachable), 2));
    assert_eq!(
        printed(&facts, &Query::all(Kind::Sources)).0,
        Ok(Exit::Done)
    );
    let fleet = Arc::make_mut(&mut facts.fleet);
    Arc::make_mut(&mut fleet.known).insert(Table::Nodes, TableState::Waiting);
    assert!(
        losses(&facts, Kind::Nodes)[0]
            .1
            .contains("not listed in time")
    );
}

#[test]
fn an_unknown_name_fails_and_offers_the_nearest() {
    let mut facts = facts();
    lose(&mut facts, &[]);
    let query = Query {
        names: vec!["h10".into()],
        ..Query::all(Kind::Pools)
    };
    let (exit, out, _) = printed(&facts, &query);
    let failure = exit.expect_err("is not there");
    assert_eq!(failure.exit, Exit::Failed);
    assert_eq!(
        failure.message,
        "no pools named `h10`; did you mean `h100`?"
    );
    assert!(out.is_empty());
    // What could not be listed may be there all the same: then it is the listing that failed.
    lose(&mut facts, &[(Table::Nodes, LostKind::Rights)]);
    let (exit, _, err) = printed(&facts, &query);
    assert_eq!(exit.expect_err("is not there").exit, Exit::Refused);
    assert!(err.contains("nodes: cannot list nodes"), "{err}");
}

fn got(line: &str) -> Result<Query, Failure> {
    let cli = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    match &cli.command {
        Some(super::CliCommand::Get(get)) => super::get::query(get, &defaults()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn selectors_orders_and_templates_are_understood_or_refused_before_the_cluster_is_asked() {
    for (line, expected) in [
        ("stokehold get queues -l a=b", "queues have no labels"),
        ("stokehold get nodes n1 -l a=b", "give a name, or -l"),
        (
            "stokehold get nodes --field-selector nope=1",
            "no field `nope`",
        ),
        ("stokehold get nodes --sort-by nope", "or a column: NAME"),
        (
            "stokehold get nodes -o jsonpath={.items[*].nope}",
            "no field `nope`",
        ),
        (
            "stokehold get nodes -o jsonpath={.name}",
            "or give one NAME",
        ),
    ] {
        let failure = got(line).expect_err(line);
        assert_eq!(failure.exit, Exit::Usage, "{line}");
        assert!(failure.message.contains(expected), "{line}: {failure}");
    }
    let facts = facts();
    let text = |line: &str, format: Format| {
        let query = got(line).unwrap_or_else(|failure| panic!("{line}: {failure}"));
        table::render(&facts, &query, format).unwrap_or_else(|why| panic!("{line}: {why}"))
    };
    let names = text("stokehold get nodes -o name", Format::Name);
    assert!(
        names.lines().all(|line| line.starts_with("node/")),
        "{names}"
    );
    let first = names
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("node/"))
        .expect("a node");
    let line = format!("stokehold get nodes -o name --field-selector metadata.name={first}");
    assert_eq!(text(&line, Format::Name), format!("node/{first}\n"));
    let line = format!("stokehold get node {first} -o jsonpath={{.metadata.name}}");
    assert_eq!(text(&line, Format::Template), first);
    let bare = text("stokehold get nodes --no-headers", Format::Table);
    assert_eq!(bare.lines().count(), names.lines().count(), "{bare}");
    let all = text(
        "stokehold get nodes -o jsonpath={.items[*].name}",
        Format::Template,
    );
    assert_eq!(all.split(' ').count(), names.lines().count());
    let falling = text("stokehold get nodes --sort-by=-name -o name", Format::Name);
    assert_eq!(falling.lines().last(), names.lines().next());
}

#[test]
fn an_unknown_label_and_an_unused_label_are_reported() {
    let mut facts = facts();
    let nodes = got("stokehold get nodes -l nobody/has=it").expect("understood");
    let (exit, out, err) = printed(&facts, &nodes);
    assert_eq!(
        (exit.expect("an answer"), out.as_str()),
        (Exit::Done, "[]\n")
    );
    assert!(err.contains("no node has a label `nobody/has`"), "{err}");
    // The labels of a job whose object is not listed and that has no pods are unknown.
    let fleet = Arc::make_mut(&mut facts.fleet);
    let mut jobs = fleet.jobs.to_vec();
    let job = Arc::make_mut(&mut jobs[0]);
    (job.labels, job.pods) = (None, Box::default());
    fleet.jobs = jobs.into();
    let jobs = got("stokehold get jobs -l team=nlp").expect("understood");
    let (exit, _, err) = printed(&facts, &jobs);
    assert_eq!(exit.expect("an answer"), Exit::Refused);
    assert!(
        err.contains("the labels of") && err.contains("are not known"),
        "{err}"
    );
}

#[test]
fn watching_prints_headers_once_and_then_changes() {
    let before = facts();
    let mut after = before.clone();
    after.now = after.now.plus(Duration::from_secs(5));
    let fleet = Arc::make_mut(&mut after.fleet);
    fleet.findings = Arc::from([]);
    for (format, first, second) in [
        (
            Format::Table,
            "EVENT   LEVEL   KIND",
            "gone    crit    Device   n1/gpu2",
        ),
        (
            Format::Csv,
            "event,at,id,severity,code",
            "gone,2026-11-21T06:40:05Z,xid-79/n1/gpu2,crit",
        ),
        (
            Format::Json,
            "{\"event\":\"set\",\"at\":\"2026-11-21T06:40:00Z\",\"object\":{\"id\":",
            "{\"event\":\"gone\"",
        ),
        (Format::Yaml, "---\nevent: set\n", "---\nevent: gone\n"),
        (Format::Name, "set alert/", "gone alert/xid-79/n1/gpu2\n"),
    ] {
        let mut follower = RowFollower::new(Query::all(Kind::Alerts), format);
        let text = follower.take(&before).expect("is there");
        assert!(text.starts_with(first), "{format:?}: {text}");
        assert_eq!(follower.take(&before).expect("is there"), "", "{format:?}");
        let text = follower.take(&after).expect("is there");
        assert!(text.starts_with(second), "{format:?}: {text}");
        let text = follower.take(&before).expect("is there");
        assert!(
            !text.contains("EVENT") && !text.is_empty(),
            "{format:?}: {text}"
        );
    }
    let mut follower = RowFollower::new(
        Query {
            names: vec!["nobody".into()],
            ..Query::all(Kind::Alerts)
        },
        Format::Json,
    );
    assert_eq!(
        follower.take(&before).expect_err("is not there").exit,
        Exit::Failed
    );
}

struct Gone(io::ErrorKind);

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let facts = facts();
    let query = Query::all(Kind::Pools);
    let end = |kind| {
        print(
            &facts,
            &query,
            Format::Csv,
            &mut Gone(kind),
            &mut Vec::new(),
        )
    };
    assert_eq!(
        end(io::ErrorKind::BrokenPipe),
        Err(Failure::quiet(Exit::Done))
    );
    let full = end(io::ErrorKind::StorageFull).expect_err("was not written");
    assert_eq!(full.exit, Exit::Failed);
    assert!(full.message.contains("cannot write the output"));
}

fn parts(line: &str) -> Result<Vec<(table::Kind, Vec<String>)>, Failure> {
    let cli = parsed(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(super::CliCommand::Get(get)) = &cli.command else {
        panic!("{line}");
    };
    let parts = get.parts()?.into_iter();
    let kind = |get: &super::get::Get| get.kind().snapshot_kind().expect("of facts");
    Ok(parts.map(|part| (kind(&part), part.names)).collect())
}

#[test]
fn get_takes_objects_as_it_names_them_and_several_kinds() {
    use table::Kind::{Cost, Jobs, Nodes, Pods, Teams};
    for (line, wanted) in [
        ("nodes,pods", &[(Nodes, &[][..]), (Pods, &[])][..]),
        ("no,po,nodes", &[(Nodes, &[]), (Pods, &[])]),
        ("nodes a b", &[(Nodes, &["a", "b"])]),
        ("node/a", &[(Nodes, &["a"])]),
        (
            "node/a pod/x/y nodes/b",
            &[(Nodes, &["a", "b"]), (Pods, &["x/y"])],
        ),
        ("jobset/nlp/t", &[(Jobs, &["nlp/t (JobSet)"])]),
        ("team/nlp", &[(Teams, &["nlp"])]),
        ("class/h100", &[(Cost, &["class/h100"])]),
        // A NAMESPACE/NAME behind a kind is a name.
        ("jobs nlp/t", &[(Jobs, &["nlp/t"])]),
        ("node/a node/b -o json", &[(Nodes, &["a", "b"])]),
        ("node/a node/b -w", &[(Nodes, &["a", "b"])]),
    ] {
        let read = parts(&format!("stokehold get {line}")).expect(line);
        let read: Vec<(_, Vec<&str>)> = read
            .iter()
            .map(|(kind, names)| (*kind, names.iter().map(String::as_str).collect()))
            .collect();
        let wanted: Vec<(_, Vec<&str>)> = wanted
            .iter()
            .map(|(kind, names)| (*kind, names.to_vec()))
            .collect();
        assert_eq!(read, wanted, "{line}");
    }
    for (line, expected) in [
        ("nodes,pods a", "get KIND/NAME KIND/NAME"),
        ("node/a b", "`b` is not KIND/NAME"),
        ("node/", "a name is missing behind KIND/"),
        ("nodes,pods -o json", "only with -o table, wide or name"),
        ("node/a pod/x/y -o csv", "only with -o table, wide or name"),
        ("nodes,pods -w", "get one kind at a time"),
    ] {
        let failure = parts(&format!("stokehold get {line}")).expect_err(line);
        assert_eq!(failure.exit, Exit::Usage, "{line}");
        assert!(failure.message.contains(expected), "{line}: {failure}");
    }
    for (line, expected) in [
        ("nodes,pdos", "'pods'"),
        ("nod/a", "'nodes'"),
        ("nodes,", "possible values"),
    ] {
        let error = refused(&format!("stokehold get {line}"));
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn get_finds_every_object_by_the_name_that_it_prints() {
    let facts = facts();
    let names = |query: &Query| {
        let found = table::output::output_table(&facts, query, Format::Name, JsonStyle::Line);
        let items = found.unwrap_or_else(|missing| panic!("{missing}")).items;
        items.into_iter().map(|item| item.name).collect::<Vec<_>>()
    };
    for kind in Kind::ALL {
        // Money is of objects of other kinds.
        if matches!(kind, Kind::Fleet | Kind::Cost) {
            continue;
        }
        for name in names(&Query::all(kind)) {
            // A pod that is its own job is found among the pods.
            if kind == Kind::Jobs && name.starts_with("pod/") {
                continue;
            }
            let words = ["stokehold", "get", &name].map(std::ffi::OsString::from);
            let cli = parse(&words).unwrap_or_else(|error| panic!("{name}: {error}"));
            let Some(super::CliCommand::Get(get)) = &cli.command else {
                panic!("{name}");
            };
            let parts = get.parts().unwrap_or_else(|why| panic!("{name}: {why}"));
            let [part] = parts.as_slice() else {
                panic!("{name}");
            };
            let own = super::get::query(part, &defaults()).expect("is right");
            assert!(names(&own).contains(&name), "{name}: {:?}", names(&own));
        }
    }
}

#[test]
fn several_kinds_are_one_table_after_another() {
    let cli = parsed("stokehold get nodes,pods").expect("is right");
    let Some(super::CliCommand::Get(get)) = &cli.command else {
        panic!("get");
    };
    let mut facts = facts();
    lose(&mut facts, &[]);
    let parts = get.parts().expect("is right");
    let printed = |fails: Option<Exit>| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let exit = super::get::objects::each(&parts, &mut out, &mut err, |part, out, err| {
            if let Some(exit) = fails.filter(|_| {
                part.kind() == super::get::get_kind::GetKind::Snapshot(table::Kind::Nodes)
            }) {
                return Err(Failure::new(exit, "no nodes"));
            }
            let query = super::get::query(part, &defaults())?;
            print(&facts, &query, Format::Table, out, err)
        });
        let text = |bytes| String::from_utf8(bytes).expect("is text");
        (exit, text(out), text(err))
    };
    let (exit, out, _) = printed(None);
    assert_eq!(exit, Ok(Exit::Done));
    let tables: Vec<&str> = out.split("\n\n").collect();
    assert_eq!(tables.len(), 2, "{out}");
    assert!(tables.iter().all(|table| table.contains("NAME")), "{out}");
    // A kind that fails is reported, and the other is printed.
    let (exit, out, err) = printed(Some(Exit::Refused));
    assert_eq!(exit, Ok(Exit::Refused));
    assert!(out.lines().count() > 1 && !out.contains("\n\n"), "{out}");
    assert!(err.contains("no nodes"), "{err}");
    let (exit, out, _) = printed(Some(Exit::Usage));
    assert!(exit.is_err() && out.is_empty());
}
