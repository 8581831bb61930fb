//! Grammar of `stokehold plan`, for documents and scripts: parses a text into an intent or a question to the engine.

use engine::snapshot::Snapshot;
use model::base::document::unknown;
use model::base::{Moment, Name, ObjectKey, SmallSort};
use model::plan::{Intent, JobName, Refusal};

pub use super::places::nodes;

/// Every form, for usage texts.
pub const GRAMMAR: [&str; 17] = [
    "drain NODE|pool/NAME|rack/NAME... [--deadline TIME|SPAN]",
    "cordon NODE|pool/NAME|rack/NAME...",
    "uncordon NODE|pool/NAME|rack/NAME...",
    "preempt NAMESPACE/NAME",
    "requeue NAMESPACE/NAME",
    "admit NAMESPACE/NAME [--preempt]",
    "reprioritise NAMESPACE/NAME PRIORITY",
    "hold QUEUE|NAMESPACE/NAME",
    "resume QUEUE|NAMESPACE/NAME",
    "scale [KIND] NAMESPACE/NAME REPLICAS",
    "rebalance [POOL]",
    "explain NAMESPACE/NAME",
    "explain",
    "forecast [NAMESPACE/NAME]",
    "route NAMESPACE/NAME",
    "what-if CHANGE",
    "cycle",
];

const VERBS: [&str; 16] = [
    "drain",
    "cordon",
    "uncordon",
    "preempt",
    "requeue",
    "admit",
    "reprioritise",
    "hold",
    "resume",
    "scale",
    "rebalance",
    "explain",
    "forecast",
    "route",
    "what-if",
    "cycle",
];

#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    Plan(Intent),
    /// Why a job waits; all waiting jobs without a name.
    Explain(Option<String>),
    /// When a job starts; all waiting jobs without a name.
    Forecast(Option<String>),
    /// Which flavor a job should request.
    Route(String),
    /// The effect of a change on the fleet.
    WhatIf(Vec<String>),
    /// Which jobs start now, and which are preempted for them.
    Cycle,
}

/// Why a text cannot be parsed.
#[derive(Clone, PartialEq, Debug)]
pub enum ParseError {
    Usage(String),
    /// It names something that does not exist.
    Refused(Refusal),
}

impl From<Refusal> for ParseError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Parses `NAMESPACE/NAME`.
///
/// # Errors
/// It has another form.
pub fn job(text: &str) -> Result<JobName, String> {
    match text.split('/').collect::<Vec<_>>().as_slice() {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
            Ok(JobName(ObjectKey::new(*namespace, *name)))
        }
        _ => Err(format!("`{text}` is not NAMESPACE/NAME of a job")),
    }
}

/// Parses `[KIND] NAMESPACE/NAME REPLICAS`; the kind may also precede the name with a slash.
///
/// # Errors
/// It has another form.
pub fn scale(words: &[&str]) -> Result<(String, u32), String> {
    let (target, replicas) = match words {
        [target, replicas] => ((*target).to_owned(), replicas),
        [kind, name, replicas] if !kind.contains('/') => (format!("{kind}/{name}"), replicas),
        _ => {
            let written = words.join(" ");
            return Err(format!(
                "`{written}` is not understood; write [KIND] NAMESPACE/NAME REPLICAS, such as deployment prod/chat 5"
            ));
        }
    };
    let replicas = replicas
        .parse()
        .ok()
        .filter(|count| *count <= i32::MAX as u32);
    let replicas = replicas.ok_or_else(|| {
        let last = words.last().copied().unwrap_or_default();
        format!("`{last}` is not a number of replicas: write 0 or more")
    })?;
    Ok((target, replicas))
}

/// Parses a time (`2026-11-21T12:00:00Z`), or a duration from now (`30m`, `2h`, `1h30m`, `90s`).
///
/// # Errors
/// It has another form.
pub fn deadline(text: &str, now: Moment) -> Result<Moment, String> {
    if let Some(at) = Moment::parse(text) {
        return Ok(at);
    }
    let wrong = || format!("`{text}` is not a deadline: write 30m, 2h or 2026-11-21T12:00:00Z");
    let (mut seconds, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        digits.clear();
        seconds = number
            .checked_mul(unit)
            .and_then(|part| seconds.checked_add(part))
            .filter(|sum| *sum <= 366 * 86_400)
            .ok_or_else(wrong)?;
    }
    if !digits.is_empty() || seconds == 0 {
        return Err(wrong());
    }
    Ok(now.plus(std::time::Duration::from_secs(seconds)))
}

/// Parses a text such as `drain pool/h100 --deadline 30m`.
///
/// # Errors
/// It cannot be parsed, or names something that does not exist.
pub fn parse(snapshot: &Snapshot, text: &str) -> Result<Question, ParseError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = match words.as_slice() {
        ["plan", rest @ ..] => rest,
        all => all,
    };
    let Some((verb, rest)) = words.split_first() else {
        let message = format!("an empty intent; write `{}`", GRAMMAR[0]);
        return Err(ParseError::Usage(message));
    };
    let form = || {
        let own: Vec<String> = GRAMMAR
            .iter()
            .filter(|form| form.split(' ').next() == Some(verb))
            .map(|form| format!("`{form}`"))
            .collect();
        ParseError::Usage(format!(
            "`{text}` is not understood; write {}",
            own.join(" or ")
        ))
    };
    let job = |text: &str| job(text).map_err(ParseError::Usage);
    let places = |places: &[&str]| -> Result<Vec<Name>, ParseError> {
        let mut all = Vec::new();
        for place in places {
            all.extend(nodes(snapshot, place)?);
        }
        all.small_sort();
        all.dedup();
        if all.is_empty() { Err(form()) } else { Ok(all) }
    };
    let intent = match (*verb, rest) {
        ("drain", rest) => {
            let (mut named, mut until) = (Vec::new(), None);
            let mut words = rest.iter();
            while let Some(word) = words.next() {
                match *word {
                    "--deadline" => {
                        let text = words.next().ok_or_else(form)?;
                        until = Some(deadline(text, snapshot.at).map_err(ParseError::Usage)?);
                    }
                    word => match word.strip_prefix("--deadline=") {
                        Some(text) => {
                            until = Some(deadline(text, snapshot.at).map_err(ParseError::Usage)?);
                        }
                        None if word.starts_with('-') => return Err(form()),
                        None => named.push(word),
                    },
                }
            }
            Intent::Drain {
                nodes: places(&named)?,
                deadline: until,
            }
        }
        ("cordon", named) => Intent::Cordon {
            nodes: places(named)?,
            reason: String::new(),
        },
        ("uncordon", named) => Intent::Uncordon {
            nodes: places(named)?,
        },
        ("preempt", [name]) => Intent::Preempt { job: job(name)? },
        ("requeue", [name]) => Intent::Requeue { job: job(name)? },
        ("admit", [name]) => Intent::Admit {
            job: job(name)?,
            preempt: false,
        },
        ("admit", [name, "--preempt"] | ["--preempt", name]) => Intent::Admit {
            job: job(name)?,
            preempt: true,
        },
        ("reprioritise" | "reprioritize", [name, priority]) => Intent::Reprioritise {
            job: job(name)?,
            priority: (*priority).to_owned(),
        },
        ("hold", [target]) => Intent::Hold {
            target: (*target).to_owned(),
        },
        ("resume", [target]) => Intent::Resume {
            target: (*target).to_owned(),
        },
        ("scale", rest) => {
            let (target, replicas) = scale(rest).map_err(ParseError::Usage)?;
            Intent::Scale { target, replicas }
        }
        ("rebalance", []) => Intent::Rebalance { pool: None },
        ("rebalance", [pool]) => Intent::Rebalance {
            pool: Some(Name::new(pool.strip_prefix("pool/").unwrap_or(pool))),
        },
        ("explain", ["job", name] | [name]) => {
            return Ok(Question::Explain(Some((*name).to_owned())));
        }
        ("explain", []) => return Ok(Question::Explain(None)),
        ("forecast", ["job", name] | [name]) => {
            return Ok(Question::Forecast(Some((*name).to_owned())));
        }
        ("forecast", []) => return Ok(Question::Forecast(None)),
        ("route", ["job", name] | [name]) => return Ok(Question::Route((*name).to_owned())),
        ("what-if", rest) if !rest.is_empty() => {
            let all = rest.join(" ");
            let changes = engine::what_if::split(&all).map(str::to_owned);
            return Ok(Question::WhatIf(changes.collect()));
        }
        ("cycle", []) => return Ok(Question::Cycle),
        (verb, _) if VERBS.contains(&verb) => return Err(form()),
        (verb, _) => return Err(ParseError::Usage(unknown("intent", verb, &VERBS))),
    };
    Ok(Question::Plan(intent))
}
