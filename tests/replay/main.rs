//! `stokehold-replay` as a shell calls it: fields of the contract, exit codes, mistakes in files.

use std::ffi::OsString;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

const NODES: &str = "\
sn,cpu_milli,memory_mib,gpu,model
n1,8000,32768,2,T4
n2,8000,32768,1,T4
n3,64000,262144,8,G2
";

const PODS: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
a,1000,1024,1,460,
b,4000,4096,1,1000,T4
c,2000,1024,0,0,
d,16000,8192,8,1000,
e,1000,1024,1,300,G2|T4
";

const JOBS: &str = "\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:00,100.0,8,800.0,x
2017-10-09 07:01:01,10.0,8,80.0,x
2017-10-09 07:01:02,5.0,1,5.0,y
2017-10-10 07:01:02,5.0,1,5.0,z
";

/// How a command ended, and what it printed.
struct Ended {
    code: u8,
    out: String,
    err: String,
}

/// Runs the program in this process.
fn run(words: impl IntoIterator<Item = String>) -> Ended {
    let words: Vec<OsString> = ["stokehold-replay".to_owned()]
        .into_iter()
        .chain(words)
        .map(OsString::from)
        .collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = replay::cli::run_on(&words, false, &mut out, &mut err);
    let text = |bytes| String::from_utf8(bytes).expect("is text");
    Ended {
        code,
        out: text(out),
        err: text(err),
    }
}

/// A folder with traces.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(TempDir::new().expect("a temporary folder"));
        for (name, text) in [
            ("nodes.csv", NODES),
            ("pods.csv", PODS),
            ("jobs.csv", JOBS),
            ("queues.csv", "cluster,nodes\nx,1\ny,1\n"),
        ] {
            bench.write(name, text);
        }
        bench
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("can be written");
    }

    /// Runs `trace` with these flags, in which a file is named as it was written.
    fn replay(&self, flags: &str) -> Ended {
        let placed = flags.split_whitespace().map(|word| {
            let path = self.0.path().join(word);
            match path.is_file() {
                true => path.display().to_string(),
                false => word.to_owned(),
            }
        });
        run(["trace".to_owned()].into_iter().chain(placed))
    }

    fn json(&self, flags: &str) -> Value {
        let ended = self.replay(&format!("{flags} -o json"));
        assert_eq!(ended.code, 0, "{flags}: {}", ended.err);
        serde_json::from_str(&ended.out).expect("is JSON")
    }

    fn fails(&self, flags: &str) -> (u8, String) {
        let ended = self.replay(flags);
        assert!(ended.out.is_empty(), "{flags}");
        (ended.code, ended.err)
    }
}

fn fields(object: &Value) -> Vec<&str> {
    let mut fields: Vec<&str> = object
        .as_object()
        .expect("is an object")
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    fields
}

const PACKING: &str = "--nodes nodes.csv --pods pods.csv";

#[test]
fn packing_has_the_fields_of_the_contract() {
    let bench = Bench::new();
    for policy in [
        "best-fit",
        "gpu-packing",
        "gpu-clustering",
        "dot-product",
        "random",
        "fgd",
        "stokehold",
    ] {
        let figures = bench.json(&format!("{PACKING} --policy {policy} --inflate 0 --seed 7"));
        let mut named = [
            "policy",
            "seed",
            "nodes",
            "devices",
            "pods",
            "arrived_ratio",
            "allocation_ratio",
            "fragmentation_ratio",
            "curve",
            "placements",
            "failed",
            "failed_by_size",
            "wall_seconds",
            "placements_per_second",
        ];
        named.sort_unstable();
        assert_eq!(fields(&figures), named);
        assert_eq!(
            fields(&figures["curve"][0]),
            ["allocation", "arrived", "fragmentation"]
        );
        assert_eq!(figures["policy"], policy);
        assert_eq!(figures["seed"], 7);
        assert_eq!(
            (&figures["nodes"], &figures["devices"], &figures["pods"]),
            (&3.into(), &11.into(), &5.into())
        );
        // 460 + 1,000 + 8,000 + 300 of 11,000.
        assert_eq!(figures["arrived_ratio"], 9_760.0 / 11_000.0);
        assert_eq!(
            fields(&figures["failed_by_size"]),
            ["1", "8", "cpu", "shared"]
        );
        let count = |field: &str| figures[field].as_u64().expect("is a count");
        assert_eq!(count("placements") + count("failed"), 5);
    }
}

#[test]
fn the_same_command_gives_the_same_figures() {
    let bench = Bench::new();
    let run = |flags: &str| {
        let mut figures = bench.json(&format!("{PACKING} {flags}"));
        for timing in ["wall_seconds", "placements_per_second"] {
            figures[timing] = Value::Null;
        }
        figures.to_string()
    };
    assert_eq!(
        run("--inflate 20 --seed 3"),
        run("--inflate 2000% --typical 95% --seed 3")
    );
    assert_ne!(run("--inflate 20 --seed 3"), run("--inflate 20 --seed 4"));
}

#[test]
fn queueing_has_the_fields_of_the_contract() {
    let bench = Bench::new();
    for policy in [
        "fifo",
        "best-effort",
        "easy",
        "las",
        "stokehold",
        "stokehold-unknown",
    ] {
        let figures = bench.json(&format!(
            "--jobs jobs.csv --queues queues.csv --policy {policy}"
        ));
        let mut named = [
            "policy",
            "jobs",
            "jct_mean",
            "jct_p50",
            "jct_p95",
            "wait_mean",
            "wait_p95",
            "wait_p99_gangs",
            "preemptions",
            "lost_device_hours",
            "wall_seconds",
        ];
        named.sort_unstable();
        assert_eq!(fields(&figures), named);
        assert_eq!(figures["jobs"], 3, "z is in no queue");
    }
    let fifo = bench.json("--jobs jobs.csv --queues queues.csv --policy fifo");
    // 100 s, 99 s waited and 10 s run, 5 s.
    assert_eq!(fifo["jct_mean"], 71.333);
    assert_eq!(
        (&fifo["wait_mean"], &fifo["wait_p99_gangs"]),
        (&33.0.into(), &99.0.into())
    );
    let ours = bench.json("--jobs jobs.csv --queues queues.csv");
    assert_eq!(ours["preemptions"], 1);
    assert_eq!(ours["lost_device_hours"], 8.0 * 62.0 / 3_600.0);
    let pool = bench.json("--jobs jobs.csv --devices 8 --policy fifo --from 2017-10-10");
    assert_eq!((&pool["jobs"], &pool["jct_mean"]), (&1.into(), &5.0.into()));
    let two = bench.json("--jobs jobs.csv --devices 8 --until 2017-10-09T07:01:01Z");
    assert_eq!(two["jobs"], 2);
}

#[test]
fn forecasts_of_a_replay_are_compared_with_the_outcome() {
    let bench = Bench::new();
    let mut jobs = String::from("timestamp,duration,num_gpus,gpu_time,cluster\n");
    // Forty jobs that fill the pool for 100 s each, one every 50 s: the last waits for half an hour.
    for at in 0..40 {
        let seconds = at * 50;
        let time = format!("07:{:02}:{:02}", seconds / 60, seconds % 60);
        jobs += &format!("2017-10-09 {time},100,8,800,a\n");
    }
    bench.write("even.csv", &jobs);
    let asked = "--jobs even.csv --devices 8 --policy fifo --forecasts 1000";
    let figures = bench.json(asked);
    let forecast = &figures["forecast"];
    let count = |field: &str| forecast[field].as_u64().expect("is a count");
    assert_eq!(count("asked"), 39, "all but the first wait");
    assert_eq!(count("unknown") + count("judged"), 39);
    assert!(count("judged") >= 30, "{forecast}");
    let seconds = |field: &str| forecast[field].as_f64().expect("is known");
    assert!(seconds("abs_error_p50_seconds") < seconds("wait_p50_seconds") / 4.0);
    assert!(seconds("abs_error_p90_seconds") >= seconds("abs_error_p50_seconds"));
    assert!(seconds("coverage_ratio") + seconds("early_ratio") <= 1.0);
    let sampled = bench.json("--jobs even.csv --devices 8 --policy fifo --forecasts 5");
    assert_eq!(sampled["forecast"]["asked"], 5);
    assert!(bench.replay(asked).out.contains("\nERROR P90 "));
}

#[test]
fn a_table_says_the_same_in_words() {
    let bench = Bench::new();
    let text = |flags: &str| bench.replay(flags).out;
    let packing = text(PACKING);
    assert!(
        packing.starts_with("POLICY          stokehold\n"),
        "{packing}"
    );
    assert!(packing.contains("FAILED BY SIZE"), "{packing}");
    let queueing = text("--jobs jobs.csv --policy easy");
    assert!(
        queueing.contains("\nJOBS                   4\n"),
        "{queueing}"
    );
}

#[test]
fn wrong_use_ends_with_two_and_names_the_mend() {
    let bench = Bench::new();
    for (flags, said) in [
        ("", "--nodes"),
        ("--nodes nodes.csv", "--pods"),
        (
            "--nodes nodes.csv --pods pods.csv --jobs jobs.csv",
            "cannot be used with",
        ),
        (
            "--nodes nodes.csv --pods pods.csv --policy fdg",
            "did you mean `fgd`?",
        ),
        (
            "--nodes nodes.csv --pods pods.csv --policy fifo",
            "unknown packing policy `fifo`",
        ),
        (
            "--jobs jobs.csv --policy fgd",
            "unknown queueing policy `fgd`",
        ),
        ("--jobs jobs.csv --inflate 1.3", "cannot be used with"),
        (
            "--nodes nodes.csv --pods pods.csv --devices 8",
            "cannot be used with",
        ),
        ("--jobs jobs.csv --devices 0", "0 is not in 1..=1000000"),
        (
            "--jobs jobs.csv --devices 8 --queues queues.csv",
            "cannot be used with",
        ),
        (
            "--nodes nodes.csv --pods pods.csv --inflate lots",
            "write 0.95 or 95%",
        ),
        (
            "--nodes nodes.csv --pods pods.csv --typical 1.1",
            "at most 1",
        ),
        ("--jobs jobs.csv --from yesterday", "write 2017-10-01"),
    ] {
        let (code, stderr) = bench.fails(flags);
        assert_eq!(code, 2, "{flags}: {stderr}");
        assert!(stderr.contains(said), "{flags}: {stderr}");
    }
}

#[test]
fn wrong_files_end_with_one_and_name_line_and_column() {
    let bench = Bench::new();
    bench.write(
        "bad.csv",
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,one,1000\n",
    );
    bench.write("bare.csv", "sn,cpu_milli,memory_mib,model\nn,1,1,T4\n");
    bench.write("none.csv", "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,0,\n");
    for (flags, said) in [
        (
            "--nodes nodes.csv --pods lost.csv",
            "lost.csv: cannot be read",
        ),
        (
            "--nodes nodes.csv --pods bad.csv",
            "bad.csv:2: num_gpu: `one` must be a number, 0 or more",
        ),
        (
            "--nodes bare.csv --pods pods.csv",
            "bare.csv:1: gpu: the header has no such column",
        ),
        (
            "--nodes none.csv --pods pods.csv",
            "none.csv: no node has a GPU",
        ),
        (
            "--jobs pods.csv",
            "pods.csv:1: timestamp: the header has no such column",
        ),
        ("--jobs jobs.csv --from 2018-01-01", "no job is left"),
    ] {
        let (code, stderr) = bench.fails(flags);
        assert_eq!(code, 1, "{flags}: {stderr}");
        assert!(stderr.contains(said), "{flags}: {stderr}");
    }
}

#[test]
fn a_rehearsal_judges_the_forecasts_that_it_asked_for() {
    let rehearse = |flags: &str| {
        let flags = format!("rehearse --devices 100 --for 3h --warm-up 1h {flags}");
        run(flags.split_whitespace().map(str::to_owned))
    };
    let ended = rehearse("-o json");
    assert_eq!(ended.code, 0, "{}", ended.err);
    let figures: Value = serde_json::from_str(&ended.out).expect("is JSON");
    let count = |field: &str| figures[field].as_u64().expect("is a count");
    assert!(count("devices") > 0 && count("asked") > 0, "{figures}");
    let ends = ["open", "gone", "judged"];
    assert_eq!(ends.map(count).iter().sum::<u64>(), count("asked"));
    let wrong = rehearse("--at yesterday");
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("2026-11-02T00:00:00Z"), "{}", wrong.err);
}
