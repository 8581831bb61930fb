//! Parses the changes of `what-if`: `nodes POOL +4; quota nlp/h100 +64`.

use model::base::document::{nearest, unknown};

use super::change::{HypotheticalChange, LostPart};

/// Every form of a change, as help and errors print it.
pub const GRAMMAR: [&str; 13] = [
    "nodes POOL|TYPE|NODE +N",
    "nodes POOL|TYPE|NODE -N",
    "pool NAME lost",
    "zone NAME lost",
    "node NAME lost",
    "quota QUEUE/FLAVOR +N|-N|=N",
    "quota FROM->TO/FLAVOR N",
    "price FLAVOR|CLASS USD",
    "spot POOL USD",
    "job NAMESPACE/NAME flavor FLAVOR",
    "job NAMESPACE/NAME priority N",
    "job NAMESPACE/NAME removed",
    "job NAMESPACE/NAME +N",
];

/// The first words of changes.
pub const KEYWORDS: [&str; 8] = [
    "nodes", "pool", "zone", "node", "quota", "price", "spot", "job",
];

/// Parses one change: `quota nlp/h100 +64`.
///
/// # Errors
/// A word is not in the grammar, or a number is invalid; the text suggests the nearest match.
pub fn parse(text: &str) -> Result<HypotheticalChange, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Some(change) = as_explained(&words) {
        return Ok(change);
    }
    let Some((keyword, rest)) = words.split_first() else {
        return Err(format!("an empty change; write `{}`", GRAMMAR[0]));
    };
    let usage_error = || {
        let own = GRAMMAR
            .iter()
            .filter(|form| form.split(' ').next() == Some(keyword));
        let all: Vec<String> = own.map(|form| format!("`{form}`")).collect();
        format!("`{text}` is not understood; write {}", all.join(" or "))
    };
    let nodes = |target: &str, by: i64| HypotheticalChange::Nodes {
        target: target.to_owned(),
        by,
    };
    // The number may come first, and `nodes` may be omitted: `nodes +4 h100`, `+4 nodes h100`, `+4 h100`, `h100 +4`.
    match (*keyword, rest, signed(keyword)) {
        ("nodes", [by, target], _) if signed(by).is_some() => {
            return Ok(nodes(target, signed(by).unwrap_or_default()));
        }
        (_, ["node" | "nodes", target], Some(by)) => return Ok(nodes(target, by)),
        (_, [target], Some(by)) if !KEYWORDS.contains(target) => return Ok(nodes(target, by)),
        (target, [by], _) if !KEYWORDS.contains(&target) => {
            if let Some(by) = signed(by) {
                return Ok(nodes(target, by));
            }
        }
        _ => {}
    }
    match (*keyword, rest) {
        ("nodes", [target, by]) => Ok(nodes(target, signed(by).ok_or_else(usage_error)?)),
        ("pool" | "zone" | "node", [name, word]) => {
            if *word != "lost" {
                return Err(unknown("word", word, &["lost"]));
            }
            Ok(HypotheticalChange::Lost {
                what: match *keyword {
                    "pool" => LostPart::Pool,
                    "zone" => LostPart::Zone,
                    _ => LostPart::Node,
                },
                name: (*name).to_owned(),
            })
        }
        ("quota", [target, amount]) => quota(target, amount).ok_or_else(usage_error),
        ("price", [target, usd]) => Ok(HypotheticalChange::Price {
            target: (*target).to_owned(),
            micro_usd: dollars(usd).ok_or_else(usage_error)?,
        }),
        ("spot", [pool, usd]) => Ok(HypotheticalChange::Spot {
            pool: (*pool).to_owned(),
            micro_usd: dollars(usd).ok_or_else(usage_error)?,
        }),
        ("job", [job, rest @ ..]) => {
            let job = (*job).to_owned();
            match rest {
                ["flavor", flavor] => Ok(HypotheticalChange::JobFlavor {
                    job,
                    flavor: (*flavor).to_owned(),
                }),
                ["priority", priority] => Ok(HypotheticalChange::JobPriority {
                    job,
                    priority: priority.parse().map_err(|_| usage_error())?,
                }),
                ["removed"] => Ok(HypotheticalChange::JobRemoved { job }),
                [count] if count.starts_with('+') => Ok(HypotheticalChange::JobAdded {
                    job,
                    count: signed(count).ok_or_else(usage_error)?,
                }),
                [word, ..] => Err(unknown("word", word, &["flavor", "priority", "removed"])),
                [] => Err(usage_error()),
            }
        }
        (keyword, _) if KEYWORDS.contains(&keyword) => Err(usage_error()),
        (keyword, _) => {
            let message = unknown("change", keyword, &KEYWORDS);
            Err(match nearest(keyword, KEYWORDS) {
                Some(_) => message,
                None => format!("{message}; for example `nodes POOL +4`"),
            })
        }
    }
}

/// A change as explanations word it: `add 2 nodes like mig-4 (metal-dgx-a100)`, `+64 h100 quota for research`.
fn as_explained(words: &[&str]) -> Option<HypotheticalChange> {
    match words {
        ["add", count, "node" | "nodes", "like", like, rest @ ..]
            if rest.first().is_none_or(|word| word.starts_with('(')) =>
        {
            Some(HypotheticalChange::Nodes {
                target: (*like).to_owned(),
                by: count.parse().ok()?,
            })
        }
        [by, flavor, "quota", "for", queue] => Some(HypotheticalChange::QuotaBy {
            queue: (*queue).to_owned(),
            flavor: (*flavor).to_owned(),
            by: signed(by)?,
        }),
        _ => None,
    }
}

/// Splits a text into changes separated by `;`, or by `and` as explanations have it.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(';')
        .flat_map(|part| part.split(" and "))
        .map(str::trim)
}

/// Parses `QUEUE/FLAVOR` or `FROM->TO/FLAVOR` with its amount; `None` when it is not valid.
fn quota(target: &str, amount: &str) -> Option<HypotheticalChange> {
    let (queue, flavor) = target.rsplit_once('/')?;
    if queue.is_empty() || flavor.is_empty() {
        return None;
    }
    let flavor = flavor.to_owned();
    if let Some((from, to)) = queue.split_once("->") {
        let devices: i64 = amount.parse().ok().filter(|count| *count >= 0)?;
        return (!from.is_empty() && !to.is_empty()).then(|| HypotheticalChange::QuotaMove {
            from: from.to_owned(),
            to: to.to_owned(),
            flavor,
            devices,
        });
    }
    let queue = queue.to_owned();
    if let Some(amount) = amount.strip_prefix('=') {
        let to = amount.parse().ok().filter(|count: &i64| *count >= 0)?;
        return Some(HypotheticalChange::QuotaSet { queue, flavor, to });
    }
    let by = signed(amount)?;
    Some(HypotheticalChange::QuotaBy { queue, flavor, by })
}

/// A number with an explicit sign, so that a difference is not mistaken for a total.
fn signed(text: &str) -> Option<i64> {
    let signed = text.starts_with(['+', '-']);
    text.parse().ok().filter(|_| signed)
}

/// Dollars as micro-USD, exact to six decimal places.
fn dollars(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let micro: i64 = format!("{fraction:0<6}").parse().ok()?;
    whole
        .parse::<i64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(micro)
}
