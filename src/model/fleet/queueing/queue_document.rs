//! The document `queues.toml`, in which the queues of `govern` are written.

use serde::Deserialize;
use toml::Spanned;

use crate::base::Name;
use crate::base::document::{DocumentFault, line_of, nearest, parse, unknown};

use super::queue::{
    Borrow, DEVICES, Measure, PreemptionPolicy, Queue, QueueKey, QueueKind, QueueSystem, Quota,
    Reclaim, Strategy, Within,
};

/// The key of the ConfigMap that holds it.
pub const KEY: &str = "queues.toml";

/// Most devices that a quota may speak of.
const MOST: i64 = 1_000_000;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct QueueDocument {
    queue: Vec<RawQueue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQueue {
    name: Spanned<String>,
    parent: Option<Spanned<String>>,
    weight: Option<Spanned<f64>>,
    strategy: Option<Spanned<String>>,
    #[serde(default)]
    preemption: RawPreemption,
    #[serde(default)]
    quota: Vec<RawQuota>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawPreemption {
    within: Option<Spanned<String>>,
    reclaim: Option<Spanned<String>>,
    borrow: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuota {
    flavor: Spanned<String>,
    nominal: Spanned<i64>,
    borrow: Option<Spanned<i64>>,
    lend: Option<Spanned<i64>>,
}

/// Reads the document; `place` is what it is called in errors.
///
/// # Errors
/// The first mistake, with its line, its key and the fix.
pub fn read(text: &str, place: &str) -> Result<Vec<Queue>, DocumentFault> {
    let document: QueueDocument = parse(text, place)?;
    let reader = QueueDocumentReader { text, place };
    let mut queues: Vec<Queue> = Vec::with_capacity(document.queue.len());
    for raw in &document.queue {
        let queue = reader.queue(raw, &document.queue)?;
        if queues.iter().any(|other| other.name() == queue.name()) {
            let words = format!(
                "there are two queues `{}`: give each its own name",
                queue.name()
            );
            return Err(reader.fault(&raw.name, "queue.name", words));
        }
        queues.push(queue);
    }
    for (raw, queue) in document.queue.iter().zip(&queues) {
        reader.no_ring(raw, queue, &queues)?;
    }
    Ok(queues)
}

struct QueueDocumentReader<'a> {
    text: &'a str,
    place: &'a str,
}

impl QueueDocumentReader<'_> {
    fn fault<T>(&self, at: &Spanned<T>, key: &str, words: impl Into<String>) -> DocumentFault {
        let line = line_of(self.text, at.span().start);
        DocumentFault::new(self.place, key, words).at_line(Some(line))
    }

    /// A queue's name is the value of a label.
    fn name(&self, value: &Spanned<String>, key: &str) -> Result<Name, DocumentFault> {
        let name = value.get_ref();
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let ends = |c: char| c.is_ascii_alphanumeric();
        if name.len() > 63
            || !name.chars().all(inner)
            || !name.starts_with(ends)
            || !name.ends_with(ends)
        {
            let words = format!(
                "`{name}` cannot be the value of a label: use 1 to 63 letters, digits, `-`, `_` and `.`"
            );
            return Err(self.fault(value, key, words));
        }
        Ok(Name::new(name))
    }

    fn word<T: Copy>(
        &self,
        stated: Option<&Spanned<String>>,
        key: &str,
        all: &[(&str, T)],
        otherwise: T,
    ) -> Result<T, DocumentFault> {
        let Some(stated) = stated else {
            return Ok(otherwise);
        };
        let found = all.iter().find(|(word, _)| word == stated.get_ref());
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
            self.fault(stated, key, unknown("value", stated.get_ref(), &words))
        })
    }

    fn amount(&self, value: &Spanned<i64>, key: &str) -> Result<i64, DocumentFault> {
        let devices = *value.get_ref();
        if !(0..=MOST).contains(&devices) {
            let words = format!("{devices} is not a number of devices from 0 to {MOST}");
            return Err(self.fault(value, key, words));
        }
        Ok(devices * Measure::MilliDevices.whole())
    }

    fn queue(&self, raw: &RawQueue, all: &[RawQueue]) -> Result<Queue, DocumentFault> {
        let name = self.name(&raw.name, "queue.name")?;
        let parent = raw.parent.as_ref();
        let parent = parent
            .map(|parent| self.name(parent, "queue.parent"))
            .transpose()?;
        let is_parent = |other: &RawQueue| {
            let above = other.parent.as_ref().map(Spanned::get_ref);
            above.is_some_and(|above| above.as_str() == name.as_str())
        };
        if let Some(weight) = &raw.weight
            && !(weight.get_ref().is_finite() && *weight.get_ref() >= 0.0)
        {
            let words = format!("{} is not a weight: use a number from 0", weight.get_ref());
            return Err(self.fault(weight, "queue.weight", words));
        }
        let mut quotas: Vec<Quota> = Vec::with_capacity(raw.quota.len());
        for quota in &raw.quota {
            let read = self.quota(quota, parent.is_some())?;
            if quotas.iter().any(|other| other.flavor == read.flavor) {
                let words = format!("`{name}` has two quotas of `{}`: keep one", read.flavor);
                return Err(self.fault(&quota.flavor, "queue.quota.flavor", words));
            }
            quotas.push(read);
        }
        let rules = &raw.preemption;
        Ok(Queue {
            key: QueueKey {
                system: QueueSystem::Stokehold,
                kind: match all.iter().any(is_parent) {
                    true => QueueKind::Cohort,
                    false => QueueKind::Queue,
                },
                name,
            },
            parent,
            weight: Some(raw.weight.as_ref().map_or(1.0, |weight| *weight.get_ref())),
            strategy: self.word(
                raw.strategy.as_ref(),
                "queue.strategy",
                &[Strategy::Strict, Strategy::BestEffort].map(|it| (it.name(), it)),
                Strategy::BestEffort,
            )?,
            preemption: PreemptionPolicy {
                within: self.word(
                    rules.within.as_ref(),
                    "queue.preemption.within",
                    &[
                        Within::Never,
                        Within::LowerPriority,
                        Within::LowerOrNewerEqual,
                    ]
                    .map(|it| (it.name(), it)),
                    Within::Never,
                )?,
                reclaim: self.word(
                    rules.reclaim.as_ref(),
                    "queue.preemption.reclaim",
                    &[Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any]
                        .map(|it| (it.name(), it)),
                    Reclaim::Never,
                )?,
                borrow: self.word(
                    rules.borrow.as_ref(),
                    "queue.preemption.borrow",
                    &[Borrow::Never, Borrow::LowerPriority].map(|it| (it.name(), it)),
                    Borrow::Never,
                )?,
                ..PreemptionPolicy::default()
            },
            reclaimable: true,
            quotas: quotas.into(),
            ..Queue::default()
        })
    }

    fn quota(&self, raw: &RawQuota, has_parent: bool) -> Result<Quota, DocumentFault> {
        if raw.flavor.get_ref().trim().is_empty() {
            let words = "name the class of devices, as `stokehold get pools` shows it";
            return Err(self.fault(&raw.flavor, "queue.quota.flavor", words));
        }
        if let (Some(borrow), false) = (&raw.borrow, has_parent) {
            let words = "a queue without a parent cannot borrow: give it a parent, or remove this";
            return Err(self.fault(borrow, "queue.quota.borrow", words));
        }
        let nominal = self.amount(&raw.nominal, "queue.quota.nominal")?;
        let optional = |value: &Option<Spanned<i64>>, key: &str| {
            let value = value.as_ref();
            value.map(|value| self.amount(value, key)).transpose()
        };
        let lend_limit = optional(&raw.lend, "queue.quota.lend")?;
        if let Some(lend) = &raw.lend
            && lend_limit > Some(nominal)
        {
            let words = format!(
                "it lends {} and has {}: lend at most its nominal quota",
                lend.get_ref(),
                raw.nominal.get_ref()
            );
            return Err(self.fault(lend, "queue.quota.lend", words));
        }
        Ok(Quota {
            flavor: Name::new(raw.flavor.get_ref()),
            resource: Name::new(DEVICES),
            measure: Measure::MilliDevices,
            nominal: Some(nominal),
            borrow_limit: optional(&raw.borrow, "queue.quota.borrow")?,
            lend_limit,
            ..Quota::default()
        })
    }

    /// Fails if a queue is its own ancestor.
    fn no_ring(&self, raw: &RawQueue, queue: &Queue, all: &[Queue]) -> Result<(), DocumentFault> {
        let above = |name: &Name| {
            let found = all.iter().find(|other| other.name() == name);
            found.and_then(|queue| queue.parent.clone())
        };
        let mut next = queue.parent.clone();
        for _ in 0..=all.len() {
            let Some(name) = next else {
                return Ok(());
            };
            if name == *queue.name() {
                break;
            }
            next = above(&name);
        }
        let words = format!("`{}` is its own ancestor: change its parent", queue.name());
        Err(match &raw.parent {
            Some(parent) => self.fault(parent, "queue.parent", words),
            None => self.fault(&raw.name, "queue.name", words),
        })
    }
}

/// The flavors of the queues that no class of the fleet is called like, each with the nearest class: their quotas admit nothing.
pub fn flavors_without_devices(queues: &[Queue], classes: &[Name]) -> Vec<(Name, Option<Name>)> {
    let mut out: Vec<(Name, Option<Name>)> = Vec::new();
    for quota in queues.iter().flat_map(|queue| queue.quotas.iter()) {
        let flavor = &quota.flavor;
        let same = |class: &Name| class.eq_ignore_ascii_case(flavor);
        if classes.iter().any(same) || out.iter().any(|(known, _)| known == flavor) {
            continue;
        }
        let near = nearest(flavor, classes.iter().map(Name::as_str)).map(Name::new);
        out.push((flavor.clone(), near));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[queue]]
name = "nlp"
parent = "research"
weight = 2
strategy = "strict"
preemption = { within = "lower-priority", reclaim = "any", borrow = "never" }
[[queue.quota]]
flavor = "h100"
nominal = 512
borrow = 128
lend = 256

[[queue]]
name = "vision"
parent = "research"
"#;

    fn fault(text: &str) -> String {
        read(text, KEY).expect_err("is wrong").to_string()
    }

    #[test]
    fn the_schema_of_the_contract_is_read() {
        let queues = read(GOOD, KEY).expect("is right");
        let nlp = &queues[0];
        assert_eq!(nlp.key.system, QueueSystem::Stokehold);
        assert_eq!((nlp.key.kind, nlp.weight), (QueueKind::Queue, Some(2.0)));
        assert_eq!(nlp.strategy, Strategy::Strict);
        assert_eq!(nlp.preemption.reclaim, Reclaim::Any);
        assert_eq!(
            nlp.parent_key().map(|key| key.kind),
            Some(QueueKind::Cohort)
        );
        let quota = &nlp.quotas[0];
        assert_eq!(quota.nominal, Some(512_000));
        assert_eq!(quota.borrow_limit, Some(128_000));
        assert_eq!(quota.lend_limit, Some(256_000));
        let vision = &queues[1];
        assert_eq!((vision.weight, vision.quotas.len()), (Some(1.0), 0));
        assert_eq!(vision.preemption, PreemptionPolicy::default());
        assert_eq!(read("", KEY), Ok(Vec::new()));
    }

    #[test]
    fn a_queue_that_others_name_as_parent_is_a_cohort() {
        let text = "[[queue]]\nname = \"a\"\nparent = \"top\"\n[[queue]]\nname = \"top\"\n";
        let queues = read(text, KEY).expect("is right");
        let kinds: Vec<QueueKind> = queues.iter().map(|queue| queue.key.kind).collect();
        assert_eq!(kinds, [QueueKind::Queue, QueueKind::Cohort]);
    }

    #[test]
    fn a_mistake_names_its_line_and_the_fix() {
        for (text, words) in [
            (
                "[[queue]]\nname = \"a\"\nwieght = 2\n",
                "queues.toml:3: queue.wieght: unknown key `wieght`; did you mean `weight`?",
            ),
            (
                "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"a\"\n",
                "queues.toml:4: queue.name: there are two queues `a`: give each its own name",
            ),
            (
                "[[queue]]\nname = \"a b\"\n",
                "queues.toml:2: queue.name: `a b` cannot be the value of a label: use 1 to 63 letters, digits, `-`, `_` and `.`",
            ),
            (
                "[[queue]]\nname = \"a\"\nstrategy = \"strickt\"\n",
                "queues.toml:3: queue.strategy: unknown value `strickt`; did you mean `strict`?",
            ),
            (
                "[[queue]]\nname = \"a\"\nparent = \"b\"\n[[queue]]\nname = \"b\"\nparent = \"a\"\n",
                "queues.toml:3: queue.parent: `a` is its own ancestor: change its parent",
            ),
            (
                "[[queue]]\nname = \"a\"\nparent = \"a\"\n",
                "queues.toml:3: queue.parent: `a` is its own ancestor: change its parent",
            ),
            (
                "[[queue]]\nname = \"a\"\n[[queue.quota]]\nflavor = \"h100\"\nnominal = -1\n",
                "queues.toml:5: queue.quota.nominal: -1 is not a number of devices from 0 to 1000000",
            ),
            (
                "[[queue]]\nname = \"a\"\n[[queue.quota]]\nflavor = \"h100\"\nnominal = 1\nborrow = 2\n",
                "queues.toml:6: queue.quota.borrow: a queue without a parent cannot borrow: give it a parent, or remove this",
            ),
            (
                "[[queue]]\nname = \"a\"\n[[queue.quota]]\nflavor = \"h100\"\nnominal = 1\nlend = 2\n",
                "queues.toml:6: queue.quota.lend: it lends 2 and has 1: lend at most its nominal quota",
            ),
        ] {
            assert_eq!(fault(text), words);
        }
        assert!(fault("[[queue]]\n").contains("missing field `name`"));
        assert!(fault("[[queue").starts_with("queues.toml:1: "));
    }

    #[test]
    fn flavors_that_no_device_is_of_are_found() {
        let queues = read(
            "[[queue]]\nname = \"a\"\n[[queue.quota]]\nflavor = \"h10\"\nnominal = 1\n[[queue.quota]]\nflavor = \"h100\"\nnominal = 1\n",
            KEY,
        );
        let found = flavors_without_devices(&queues.expect("is right"), &[Name::new("H100")]);
        assert_eq!(found, [(Name::new("h10"), Some(Name::new("H100")))]);
    }
}
