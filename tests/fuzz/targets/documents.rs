//! Texts that people write: settings, filters, fleet documents, queues, prices, accelerators, themes, keys and thresholds.

use std::sync::{Arc, LazyLock};

use console::filter::{FilterField, Row, RowFilter, without_open_end};
use console::{Keymap, Theme};
use engine::compiled::CompiledFleet;
use engine::document;
use model::base::Moment;
use model::base::document::DocumentFault;
use model::cost::{PriceBook, Prices};
use model::fleet::accelerator::Catalog;
use model::fleet::queue_document;
use model::fleet::thresholds::Thresholds;
use settings::{Inputs, Layer, SettingsText};
use table::cell::Value;

use super::{Shape, Target, none, pick};

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

fn faults(shape: Shape, all: &[DocumentFault]) -> Shape {
    all.iter()
        .take(3)
        .fold(shape.count(all.len()), |shape, fault| {
            shape.words(&fault.to_string())
        })
}

pub(super) const SETTINGS: Target = Target {
    name: "settings",
    tried: 400,
    body: settings,
    words: &[
        "refresh = ",
        "theme = ",
        "write = true",
        "forbid_write = true",
        "[context.prod]",
        "[prometheus]",
        "url = ",
        "service = ",
        "matcher = ",
        "[scrape]",
        "mode = ",
        "[[notify]]",
        "kind = ",
        "[[budget]]",
        "[[service]]",
        "[[route]]",
        "[engine]",
        "[prices]",
        "files = ",
        "[cost]",
        "pue = ",
        "[record]",
        "keep = ",
        "max_size = ",
        "[tco.owned.h100]",
        "[policy]",
        "[[policy.pool]]",
        "\"\"\"",
        "'''",
        "= [",
        "= {",
        "1e400",
        "inf",
        "nan",
        "2026-11-21",
        "0x7fffffffffffffff",
        "\"30d\"",
        "\"10G\"",
        "\0",
    ],
    most: 2_500,
    made: none,
};

/// The defaults, a machine's and a user's file with a section for the context, then variables and flags.
fn settings(data: &[u8]) -> u64 {
    let text = text(data);
    let mut parts = text.split('\0');
    let mut file = |layer, path: &str| SettingsText {
        layer,
        path: path.to_owned(),
        text: parts.next().unwrap_or_default().to_owned(),
    };
    let files = vec![
        file(Layer::User, "user.toml"),
        file(Layer::Machine, "machine.toml"),
    ];
    let pairs = |text: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    };
    let inputs = Inputs {
        files,
        context: Some("prod".to_owned()),
        variables: pairs(parts.next().unwrap_or_default()),
        flags: pairs(parts.next().unwrap_or_default())
            .into_iter()
            .map(|(key, value)| ("--flag".to_owned(), key, value))
            .collect(),
        home: None,
        state: None,
    };
    let shape = Shape::default();
    match settings::load(&inputs) {
        Ok(settings) => {
            let forbidden = settings.forbid_write && settings.write;
            let policy = settings.policy(Catalog::embedded());
            let priced = settings.prices(Vec::new(), &Catalog::embedded());
            shape
                .words("right")
                .count(usize::from(forbidden))
                .words(&format!("{policy:?}"))
                .words(
                    &priced
                        .err()
                        .map(|fault| fault.to_string())
                        .unwrap_or_default(),
                )
                .end()
        }
        Err(all) => faults(shape, &all).end(),
    }
}

/// A row with one of everything.
struct Sample;

impl Row for Sample {
    fn value(&self, column: usize) -> Value<'_> {
        match column {
            0 => Value::Path("nlp", "LLM-70b"),
            1 => Value::text("H100"),
            2 => Value::Ratio(0.15),
            3 => Value::Since(Moment::from_seconds(0)),
            4 => Value::Unknown,
            _ => Value::Bytes(71.0 * 1024f64.powi(3), None),
        }
    }
    fn label(&self, key: &str) -> Option<String> {
        (key == "tier").then(|| String::from("gold"))
    }
}

const fn field(id: &'static str, numeric: bool) -> FilterField {
    FilterField {
        id,
        title: id,
        numeric,
        plain: true,
    }
}

const FIELDS: [FilterField; 6] = [
    field("job", false),
    field("class", false),
    field("util", true),
    field("held", true),
    field("temp", true),
    field("mem", true),
];

pub(super) const FILTER: Target = Target {
    name: "filter",
    tried: 4000,
    body: filter,
    words: &[
        "and",
        "or",
        "not",
        "!",
        "(",
        ")",
        "util",
        "held",
        "class",
        "job",
        "temp",
        "mem",
        "<",
        "<=",
        ">",
        "!=",
        "=",
        ":",
        "-l",
        "tier=gold",
        "~",
        "1h30m",
        "70GiB",
        "15%",
        "\"a b\"",
        "'",
        "\u{a0}",
    ],
    most: 400,
    made: none,
};

/// What is typed, what stands before an open end, and the same again: a filter means what it meant.
fn filter(data: &[u8]) -> u64 {
    let text = text(data);
    let now = Moment::from_seconds(10_000);
    let open = without_open_end(&text, &FIELDS);
    assert!(text.starts_with(open) || open.len() <= text.len());
    let shape = Shape::default();
    let parsed = match RowFilter::parse(&text, &FIELDS) {
        Ok(parsed) => parsed,
        Err(why) => return shape.words(&why).end(),
    };
    let again = RowFilter::parse(&parsed.text, &FIELDS).expect("its own text");
    let matches = parsed.matches(&Sample, now);
    assert_eq!(again.matches(&Sample, now), matches);
    let _ = parsed.narrows(&again);
    let is_plain = parsed.is_plain();
    let kinds: String = format!("{parsed:?}")
        .chars()
        .filter(|c| c.is_ascii_uppercase())
        .collect();
    shape
        .count(usize::from(matches))
        .count(usize::from(is_plain))
        .words(&kinds)
        .end()
}

pub(super) const DOCUMENT: Target = Target {
    name: "document",
    tried: 3000,
    body: fleet_document,
    words: &[
        "\"version\":1",
        "\"nodes\":",
        "\"queues\":",
        "\"workloads\":",
        "\"pods\":",
        "\"jobs\":",
        "\"prices\":",
        "\"flavors\":",
        "\"devices\":",
        "\"slices\":",
        "\"name\":",
        "\"class\":",
        "\"count\":",
        "\"gang\":",
        "\"sets\":",
        "\"quotas\":",
        "\"parent\":",
        "\"labels\":",
        "\"taints\":",
        "\"index\":",
        "100000",
        "65536",
        "256",
        "[]",
        "{}",
        "null",
    ],
    most: 8_000,
    made: none,
};

/// A document that is read is written, read again, and is the same; what can be compiled is.
fn fleet_document(data: &[u8]) -> u64 {
    let shape = Shape::default();
    match document::read(&text(data), "fleet") {
        Err(fault) => shape.words(&fault.to_string()).end(),
        Ok(snapshot) => {
            let written = document::value(&snapshot);
            let again = document::from_value(&written, "written").expect("what is written is read");
            assert_eq!(document::value(&again), written);
            let shape = shape
                .count(snapshot.nodes.len())
                .count(snapshot.workloads.len())
                .count(snapshot.queues.len());
            let compiled = CompiledFleet::new(Arc::new(snapshot));
            let _ = compiled.node("a");
            shape.end()
        }
    }
}

pub(super) const QUEUES: Target = Target {
    name: "queues",
    tried: 3000,
    body: queues,
    words: &[
        "[[queue]]",
        "[[queue.quota]]",
        "name = ",
        "parent = ",
        "flavor = ",
        "nominal = ",
        "borrow = ",
        "lend = ",
        "namespaces = ",
        "[queue.preemption]",
        "within = ",
        "reclaim = ",
        "priority = ",
        "\"H100\"",
        "9223372036854775807",
        "-1",
        "weight = ",
    ],
    most: 2_000,
    made: none,
};

/// The queues of `govern`.
fn queues(data: &[u8]) -> u64 {
    let shape = Shape::default();
    match queue_document::read(&text(data), "queues.toml") {
        Err(fault) => shape.words(&fault.to_string()).end(),
        Ok(all) => {
            let without = queue_document::flavors_without_devices(&all, &[]);
            let names: std::collections::BTreeSet<&str> =
                all.iter().map(|queue| queue.name().as_str()).collect();
            assert_eq!(names.len(), all.len());
            shape.count(all.len()).count(without.len()).end()
        }
    }
}

pub(super) const PRICES: Target = Target {
    name: "prices",
    tried: 3000,
    body: prices,
    words: &[
        "name = ",
        "currency = ",
        "[[prices]]",
        "class = ",
        "usd_per_hour = ",
        "usd_per_device_hour = ",
        "devices = ",
        "region = ",
        "instance_type = ",
        "billing = ",
        "[sources]",
        "schemes = ",
        "1e308",
        "-0.0",
        "nan",
        "\"p5.48xlarge\"",
        "provider = ",
    ],
    most: 2_000,
    made: books,
};

fn books() -> Vec<Vec<u8>> {
    let folder = crate::corpus().join("../../../config/prices");
    let all = crate::files(&folder);
    all.iter()
        .map(|path| std::fs::read(path).expect("can be read"))
        .collect()
}

/// A price book, and what a node costs by it.
fn prices(data: &[u8]) -> u64 {
    let shape = Shape::default();
    match PriceBook::parse(&text(data), "prices.toml") {
        Err(fault) => shape.words(&fault.to_string()).end(),
        Ok(book) => {
            let count = book.prices.len();
            let rates = book
                .prices
                .iter()
                .filter_map(|row| row.usd_per_device_hour());
            let odd = rates
                .filter(|rate| !rate.is_finite() || *rate < 0.0)
                .count();
            let prices = Prices::new(vec![book], &Catalog::embedded());
            shape
                .count(count)
                .count(odd)
                .count(prices.providers().count())
                .end()
        }
    }
}

pub(super) const ACCELERATORS: Target = Target {
    name: "accelerators",
    tried: 3000,
    body: accelerators,
    words: &[
        "[[accelerator]]",
        "class = ",
        "product = ",
        "vendor = ",
        "kind = ",
        "memory_gib = ",
        "watts = ",
        "slices = ",
        "[\"nvidia\", \"h100\"]",
        "\"\"",
        "[[]]",
        "[]",
        "[accelerator.peak]",
        "bf16 = ",
        "u32",
        "-1",
    ],
    most: 2_000,
    made: none,
};

/// A catalog, and what it takes products for.
fn accelerators(data: &[u8]) -> u64 {
    let shape = Shape::default();
    let text = text(data);
    match Catalog::embedded().with(&text) {
        Err(error) => shape.words(error.message()).end(),
        Ok(catalog) => {
            let found = ["NVIDIA-H100-80GB-HBM3", "tpu-v5p-slice", "", "x", &text]
                .iter()
                .filter(|product| catalog.find(product).is_some())
                .count();
            let classes = ["H100", "", "x"]
                .iter()
                .filter(|class| catalog.of_class(class).is_some());
            shape
                .count(found)
                .count(classes.count())
                .count(text.len() / 64)
                .end()
        }
    }
}

pub(super) const LOOK: Target = Target {
    name: "look",
    tried: 600,
    body: look,
    words: &[
        "name = ",
        "inherits = ",
        "\"ember\"",
        "[roles]",
        "[palette]",
        "accent = ",
        "\"#ff8800\"",
        "\"#\"",
        "dark = true",
        "heat = ",
        "[anywhere]",
        "[alerts]",
        "ctrl-",
        "space",
        "\"quit\"",
        "\"back\"",
        "fires = ",
        "clears = ",
        "for = ",
        "severity = ",
        "enabled = false",
        "[[dialect]]",
        "[dialect]",
        "metric = ",
        "signal = ",
        "scale = ",
        "label = ",
        "regex = ",
        "'(a+)+$'",
    ],
    most: 2_000,
    made: defaults,
};

/// The files that come with the program.
fn defaults() -> Vec<Vec<u8>> {
    let root = crate::corpus().join("../../..");
    let mut all = vec![
        root.join("config/keys.toml"),
        root.join("config/alerts.toml"),
    ];
    all.extend(crate::files(&root.join("themes")));
    all.extend(
        crate::files(&root.join("config/exporters"))
            .into_iter()
            .take(4),
    );
    all.iter()
        .map(|path| std::fs::read(path).expect("can be read"))
        .collect()
}

/// A theme, a key map, thresholds and, in one of eight, a dialect of exporters.
fn look(data: &[u8]) -> u64 {
    static KEYS: LazyLock<Keymap> = LazyLock::new(Keymap::builtin);
    let text = text(data);
    let message = |error: Option<String>| error.unwrap_or_default();
    // It may inherit from itself by another name.
    let theme = Theme::parse("a.toml", &text, &|name| (name == "b").then(|| text.clone()));
    let keys = KEYS.clone().with("keys.toml", &text);
    let thresholds = Thresholds::default().with(&text, "alerts.toml");
    let mut shape = Shape::default()
        .words(&message(theme.err().map(|error| error.to_string())))
        .words(&message(keys.err().map(|error| error.to_string())))
        .words(&message(thresholds.err().map(|bad| bad.message)));
    if pick(data, 8) == 0 {
        let dialects = exporter::Dialects::with(&[("a.toml", &text)]);
        shape = shape.words(&dialects.err().unwrap_or_default().join(" "));
    }
    shape.end()
}
