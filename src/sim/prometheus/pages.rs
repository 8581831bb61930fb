//! Scrape targets and their pages: the result of a scrape of every exporter now.

use std::collections::BTreeMap;

use crate::change::Resource;
use crate::cluster::SimCluster;
use crate::json::{list, text};
use model::base::{Moment, ObjectKey};

/// The labels of a series or of a target, in order.
pub(super) type Labels = BTreeMap<String, String>;

/// One series with its current value.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SimSeries {
    /// Its labels, `__name__` included.
    pub labels: Labels,
    pub value: f64,
}

/// An exporter as a scrape target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ExporterPage {
    pod: ObjectKey,
    port: u16,
    pub path: &'static str,
    /// Labels that the monitor adds.
    pub labels: Labels,
}

/// Every exporter, in a stable order.
pub(super) fn targets(cluster: &SimCluster) -> Vec<ExporterPage> {
    let core = cluster.core();
    let label = |(pod, port, path): (ObjectKey, u16, &'static str)| {
        let object = core.store.get(Resource::Pods, &pod.namespace, &pod.name)?;
        let container = list(&object, "/spec/containers")
            .iter()
            .find(|c| {
                list(c, "/ports").iter().any(|p| {
                    p.get("containerPort").and_then(serde_json::Value::as_u64) == Some(port.into())
                })
            })
            .or_else(|| list(&object, "/spec/containers").first())
            .map_or("", |c| text(c, "/name"))
            .to_owned();
        let job = ["app.kubernetes.io~1name", "app", "k8s-app"]
            .iter()
            .map(|key| text(&object, &format!("/metadata/labels/{key}")))
            .find(|name| !name.is_empty())
            .unwrap_or(&container)
            .to_owned();
        let labels = [
            ("job", job),
            (
                "instance",
                format!("{}:{port}", text(&object, "/status/podIP")),
            ),
            ("namespace", pod.namespace.to_string()),
            ("pod", pod.name.to_string()),
            ("container", container),
        ];
        let labels = labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        Some(ExporterPage {
            pod,
            port,
            path,
            labels,
        })
    };
    core.world
        .exporters()
        .into_iter()
        .filter_map(label)
        .collect()
}

fn page(cluster: &SimCluster, target: &ExporterPage, at: Option<Moment>) -> Option<String> {
    // The lock is taken for one page at a time, so that scraping a large fleet blocks no other request.
    let core = cluster.core();
    let page = match at {
        None => core.world.page(&target.pod, target.port, target.path),
        Some(at) => core
            .world
            .page_at(&target.pod, target.port, target.path, at),
    };
    page.map(|page| page.body)
}

/// Samples of these exporters now or at a past time, and `up` for each; only metrics whose name passes `wanted`.
/// An exporter that did not run then has none.
pub(super) fn scrape(
    cluster: &SimCluster,
    targets: &[ExporterPage],
    at: Option<Moment>,
    honor_labels: bool,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<SimSeries> {
    let mut all = Vec::new();
    for target in targets {
        let body = page(cluster, target, at);
        if body.is_none() && at.is_some() {
            continue;
        }
        if wanted("up") {
            let mut up = target.labels.clone();
            up.insert("__name__".into(), "up".into());
            let value = f64::from(u8::from(body.is_some()));
            all.push(SimSeries { labels: up, value });
        }
        for line in body.as_deref().unwrap_or("").lines() {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            if line.starts_with('#') || !wanted(&line[..end]) {
                continue;
            }
            if let Some((name, own, value)) = sample(line) {
                let labels = joined(name, own, &target.labels, honor_labels);
                all.push(SimSeries { labels, value });
            }
        }
    }
    all
}

/// An exporter's labels with its target's. An empty label is no label.
fn joined(name: &str, own: Vec<(String, String)>, target: &Labels, honor_labels: bool) -> Labels {
    let mut labels = target.clone();
    for (key, value) in own.into_iter().filter(|(_, value)| !value.is_empty()) {
        let collides = target.get(&key).is_some_and(|value| !value.is_empty());
        if collides && !honor_labels {
            labels.insert(format!("exported_{key}"), value);
        } else {
            labels.insert(key, value);
        }
    }
    labels.retain(|_, value| !value.is_empty());
    labels.insert("__name__".into(), name.to_owned());
    labels
}

/// A sample's name, labels and value.
type Sample<'a> = (&'a str, Vec<(String, String)>, f64);

/// One line of an exposition: name, labels, value; `None` for comments and invalid lines.
fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut chars = after.char_indices();
            let closed = loop {
                let (at, c) = chars.next()?;
                match c {
                    '"' => break at,
                    '\\' => match chars.next()?.1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    c => value.push(c),
                }
            };
            labels.push((key.trim().to_owned(), value));
            rest = &after[closed + 1..];
        }
    }
    let value = rest.split_whitespace().next()?;
    let value = match value {
        "+Inf" | "Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        "NaN" => f64::NAN,
        number => number.parse().ok()?,
    };
    Some((name, labels, value))
}

/// Name, type and help of every metric of every page.
pub(super) fn metadata(cluster: &SimCluster) -> Vec<(String, String, String)> {
    let mut all: BTreeMap<String, (String, String)> = BTreeMap::new();
    for target in targets(cluster) {
        for line in page(cluster, &target, None)
            .as_deref()
            .unwrap_or("")
            .lines()
        {
            let mut words = line.splitn(4, ' ');
            let (Some("#"), Some(what), Some(name)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let text = words.next().unwrap_or("").to_owned();
            match what {
                "TYPE" => all.entry(name.to_owned()).or_default().0 = text,
                "HELP" => all.entry(name.to_owned()).or_default().1 = text,
                _ => {}
            }
        }
    }
    all.into_iter()
        .map(|(name, (kind, help))| (name, kind, help))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_read_with_their_labels() {
        let (name, labels, value) =
            sample(r#"a_b{x="1",y="q\"\\\n}",} 4.5 1700000000000"#).expect("a sample");
        assert_eq!((name, value), ("a_b", 4.5));
        assert_eq!(labels[1], ("y".to_owned(), "q\"\\\n}".to_owned()));
        assert_eq!(sample("a 1").map(|s| s.2), Some(1.0));
        for none in ["", "# HELP a b", "a", "a{x=\"1\" 3", "a{x=1} 3", "a one"] {
            assert!(sample(none).is_none(), "{none}");
        }
    }

    #[test]
    fn colliding_labels_are_exported_or_honored() {
        let target = Labels::from([
            ("pod".into(), "exporter".into()),
            ("job".into(), "dcgm".into()),
        ]);
        let own = vec![
            ("pod".to_owned(), "train".to_owned()),
            ("job".to_owned(), String::new()),
        ];
        let kept = joined("m", own.clone(), &target, false);
        assert_eq!(
            (kept["pod"].as_str(), kept["exported_pod"].as_str()),
            ("exporter", "train")
        );
        assert_eq!(kept["job"], "dcgm");
        let honored = joined("m", own, &target, true);
        assert_eq!(
            (honored["pod"].as_str(), honored.get("exported_pod")),
            ("train", None)
        );
    }
}
