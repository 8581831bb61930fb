//! The checks of `doctor`: each passes or names its fix.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use model::base::Exit;
use model::fleet::observe::{SourceHealth, SourceState, Table};
use model::fleet::visibility::HELP;
use model::schema::{SchemaHead, of_rows};

use super::Facts;
use super::kinds::sources::message;
use super::table::cell;

pub fn schema() -> serde_json::Value {
    of_rows::<Point>(SchemaHead {
        name: "doctor",
        title: "What doctor found",
        description: "One object a finding; mend is null where all is well.",
    })
}

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// Degraded: something is missing, the rest works.
    Warn,
    /// Failed: nothing works without it.
    Fail,
}

model::words! {
    impl Level {
        pub fn name(self) {
            Ok => "ok",
            Warn => "warn",
            Fail => "fail",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckupItem {
    Settings,
    /// The kubeconfig and its context.
    Kubeconfig,
    /// Whether the API server answers.
    Api,
    /// The user that the API server sees.
    Identity,
    /// This machine's clock against the API server's.
    Clock,
    /// Which kinds the cluster serves.
    Kinds,
    /// What the user may read and write.
    Rights,
    /// Whether the fleet could be read.
    Fleet,
    /// Exporters that are scraped.
    Exporters,
    /// The Prometheus that is queried.
    Prometheus,
    /// Nodes with devices that have readings.
    Coverage,
    /// Exporters that report a device twice.
    Duplicates,
    /// Devices that have a price.
    Prices,
}

model::words! {
    impl CheckupItem {
        pub fn name(self) {
            Settings => "settings",
            Kubeconfig => "kubeconfig",
            Api => "api",
            Identity => "identity",
            Clock => "clock",
            Kinds => "kinds",
            Rights => "rights",
            Fleet => "fleet",
            Exporters => "exporters",
            Prometheus => "prometheus",
            Coverage => "coverage",
            Duplicates => "duplicates",
            Prices => "prices",
        }
    }
}

impl Serialize for CheckupItem {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Point {
    /// What was checked, as a word.
    pub check: CheckupItem,
    /// Result of the check.
    pub level: Level,
    /// What was found, as a sentence.
    pub message: String,
    /// The fix; null where it passed.
    pub mend: Option<String>,
    /// The exit code that it causes.
    #[serde(skip)]
    pub exit: Exit,
}

impl Point {
    /// A check that passed.
    pub fn ok(check: CheckupItem, message: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            message: message.into(),
            mend: None,
            exit: Exit::Done,
        }
    }

    pub fn warn(check: CheckupItem, message: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            level: Level::Warn,
            mend: Some(mend.into()),
            ..Self::ok(check, message)
        }
    }

    pub fn fail(
        check: CheckupItem,
        exit: Exit,
        message: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Fail,
            exit,
            ..Self::warn(check, message, mend)
        }
    }
}

/// The exit code of the command: the worst of its checks.
pub fn exit(points: &[Point]) -> Exit {
    points
        .iter()
        .map(|point| point.exit)
        .max()
        .unwrap_or(Exit::Done)
}

/// The results as a JSON array of objects.
pub fn json(points: &[Point]) -> String {
    let mut text = serde_json::to_string_pretty(points).expect("points are plain texts");
    text.push('\n');
    text
}

/// The results as text: one line each, with the fix below.
pub fn text(points: &[Point]) -> String {
    let width = points
        .iter()
        .map(|point| point.check.name().len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for point in points {
        let level = point.level.name();
        out.push_str(&format!(
            "{level:4}   {:width$}   {}\n",
            point.check.name(),
            cell(&point.message)
        ));
        if let Some(mend) = &point.mend {
            out.push_str(&format!("{:4}   {:width$}   -> {}\n", "", "", cell(mend)));
        }
    }
    let count = |level| points.iter().filter(|point| point.level == level).count();
    out.push_str(&format!(
        "\n{} ok, {} warn, {} fail\n",
        count(Level::Ok),
        count(Level::Warn),
        count(Level::Fail)
    ));
    out
}

/// Checks of one snapshot: exporters, their coverage, Prometheus, prices.
pub fn of_facts(facts: &Facts) -> Vec<Point> {
    let mut points = exporters(facts);
    points.push(prometheus(facts));
    points.extend(coverage(facts));
    points.extend(duplicates(facts));
    points.push(prices(facts));
    points
}

fn is_exporter(source: &SourceHealth) -> bool {
    !matches!(source.kind.as_str(), "kubernetes" | "prometheus")
}

fn exporters(facts: &Facts) -> Vec<Point> {
    let mut kinds: BTreeMap<&str, Vec<&SourceHealth>> = BTreeMap::new();
    for source in facts
        .fleet
        .sources
        .iter()
        .filter(|source| is_exporter(source))
    {
        kinds.entry(source.kind.as_str()).or_default().push(source);
    }
    if kinds.is_empty() {
        let read = facts
            .fleet
            .devices()
            .any(|(_, device)| device.read_at.is_some());
        if read {
            return vec![Point::ok(
                CheckupItem::Exporters,
                "none is scraped: Prometheus has their readings",
            )];
        }
        if !facts.fleet.sees_all_work() {
            return vec![Point::warn(
                CheckupItem::Exporters,
                "none runs in the namespaces that are read, and devices have no readings",
                "name a Prometheus that you may query: prometheus.url",
            )];
        }
        return vec![Point::warn(
            CheckupItem::Exporters,
            "none was found: devices have no readings",
            "install the vendor's exporter (dcgm-exporter, device-metrics-exporter, …), or name it under [[scrape.target]]; `stokehold exporter list` says which are known",
        )];
    }
    let mut points = Vec::new();
    for (kind, sources) in kinds {
        let lost: Vec<&&SourceHealth> = sources
            .iter()
            .filter(|source| source.state == SourceState::Lost)
            .collect();
        let live = sources.len() - lost.len();
        match lost.first() {
            None => points.push(Point::ok(
                CheckupItem::Exporters,
                format!("{kind}: {live} live"),
            )),
            Some(first) => points.push(Point::warn(
                CheckupItem::Exporters,
                format!("{kind}: {live} live, {} unreachable", lost.len()),
                format!("{}: {}", first.name, message(facts, first)),
            )),
        }
    }
    points
}

fn prometheus(facts: &Facts) -> Point {
    let found = facts
        .fleet
        .sources
        .iter()
        .find(|source| source.kind.as_str() == "prometheus");
    match found {
        None if !facts.fleet.sees_all_work() => {
            Point::ok(CheckupItem::Prometheus, "none is queried")
        }
        None => Point::ok(
            CheckupItem::Prometheus,
            "none: exporters are scraped (prometheus.url or prometheus.service names one)",
        ),
        Some(source) if source.state == SourceState::Live => Point::ok(
            CheckupItem::Prometheus,
            format!("{}: {}", source.name, source.message),
        ),
        Some(source) => Point::warn(
            CheckupItem::Prometheus,
            format!("{} is unreachable", source.name),
            if source.message.is_empty() {
                "ask again later".to_owned()
            } else {
                source.message.clone()
            },
        ),
    }
}

fn coverage(facts: &Facts) -> Vec<Point> {
    if let Some(hidden) = facts.fleet.hidden_of(&[Table::Nodes]) {
        // A role for namespaces has no nodes: nothing is wrong.
        let within = facts.fleet.extent.namespaces().is_some();
        return vec![match within && !facts.fleet.is_hidden(Table::Pods) {
            true => Point::ok(
                CheckupItem::Coverage,
                format!("{hidden}: devices without readings are not counted"),
            ),
            false => Point::warn(CheckupItem::Coverage, hidden, HELP),
        }];
    }
    let with: Vec<_> = facts
        .fleet
        .nodes
        .iter()
        .filter(|node| !node.devices.is_empty())
        .collect();
    if with.is_empty() {
        return vec![Point::warn(
            CheckupItem::Coverage,
            "no node with devices is known",
            "does the device plugin run, and may nodes be listed?",
        )];
    }
    let unread: Vec<&str> = with
        .iter()
        .filter(|node| node.devices.iter().all(|device| device.read_at.is_none()))
        .map(|node| node.name().as_str())
        .collect();
    let stale = facts
        .fleet
        .devices()
        .filter(|(_, device)| device.read_at.is_some() && device.is_stale(facts.now))
        .count();
    let mut points = Vec::new();
    if unread.is_empty() {
        let message = format!("all {} nodes with devices have readings", with.len());
        points.push(Point::ok(CheckupItem::Coverage, message));
    } else {
        let some: Vec<&str> = unread.iter().copied().take(5).collect();
        let more = if unread.len() > some.len() {
            ", …"
        } else {
            ""
        };
        points.push(Point::warn(
            CheckupItem::Coverage,
            format!(
                "{} of {} nodes with devices have no readings: {}{more}",
                unread.len(),
                with.len(),
                some.join(", ")
            ),
            "does an exporter run there, and do its pods have the labels of its dialect (`stokehold exporter list`)?",
        ));
    }
    if stale > 0 {
        points.push(Point::warn(
            CheckupItem::Coverage,
            format!("{stale} devices have readings older than three scrape intervals"),
            "look under `stokehold get sources` for exporters that are stale or unreachable",
        ));
    }
    points
}

/// Exporters that report a device twice, or run twice.
fn duplicates(facts: &Facts) -> Vec<Point> {
    let exporters: Vec<&SourceHealth> = facts
        .fleet
        .sources
        .iter()
        .filter(|source| is_exporter(source) && source.message.contains("duplicate series"))
        .collect();
    match exporters.first() {
        None => Vec::new(),
        Some(first) => vec![Point::warn(
            CheckupItem::Duplicates,
            format!("{} exporters print series twice", exporters.len()),
            format!("{}: {}", first.name, first.message),
        )],
    }
}

fn prices(facts: &Facts) -> Point {
    let burn = &facts.spend_rates;
    if burn.unpriced == 0 {
        return Point::ok(
            CheckupItem::Prices,
            format!("all {} devices have a price", burn.devices),
        );
    }
    let mut classes: BTreeMap<&str, u32> = BTreeMap::new();
    for (node, device) in facts.fleet.devices() {
        if !burn.nodes.contains_key(node.name()) {
            *classes.entry(device.class.as_str()).or_default() += 1;
        }
    }
    let named: Vec<String> = classes
        .iter()
        .take(5)
        .map(|(class, count)| format!("{class} ({count})"))
        .collect();
    let named = if named.is_empty() {
        String::new()
    } else {
        format!(": {}", named.join(", "))
    };
    Point::warn(
        CheckupItem::Prices,
        format!(
            "{} of {} devices have no price{named}",
            burn.unpriced, burn.devices
        ),
        "name the provider with prices.provider, or a price under [[prices.override]] or [[pool]]",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_point_decides_and_every_mend_is_shown() {
        let points = [
            Point::ok(CheckupItem::Api, "v1.34.1"),
            Point::warn(CheckupItem::Rights, "no nodes", "ask for\na role\u{1b}[2J"),
            Point::fail(CheckupItem::Fleet, Exit::Refused, "nothing", "ask"),
        ];
        assert_eq!(exit(&points), Exit::Refused);
        assert_eq!(exit(&points[..2]), Exit::Done);
        let text = text(&points);
        assert!(text.contains("ok     api      v1.34.1\n"), "{text}");
        assert!(text.contains("-> ask for a role\u{fffd}[2J\n"), "{text}");
        assert!(text.ends_with("1 ok, 1 warn, 1 fail\n"));
        let value: serde_json::Value = serde_json::from_str(&json(&points)).expect("is JSON");
        assert_eq!(value[0]["mend"], serde_json::Value::Null);
        assert_eq!(value[2]["level"], "fail");
    }
}
