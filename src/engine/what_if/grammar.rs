//! Grammar of hypothetical changes.

use model::base::document::{nearest, unknown};

use super::change::{LostPart, Suppose};

/// Every form, for usage texts.
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
pub const VERBS: [&str; 8] = [
    "nodes", "pool", "zone", "node", "quota", "price", "spot", "job",
];

/// Parses one change: `quota nlp/h100 +64`.
///
/// # Errors
/// A word is not in the grammar, or a number is invalid; the text suggests the nearest match.
pub fn parse(text: &str) -> Result<Suppose, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((verb, rest)) = words.split_first() else {
        return Err(format!("an empty change; write `{}`", GRAMMAR[0]));
    };
    let form = || {
        let own = GRAMMAR
            .iter()
            .filter(|form| form.split(' ').next() == Some(verb));
        let all: Vec<String> = own.map(|form| format!("`{form}`")).collect();
        format!("`{text}` is not understood; write {}", all.join(" or "))
    };
    let nodes = |like: &str, by: i64| Suppose::Nodes {
        like: like.to_owned(),
        by,
    };
    // The number may come first, and `nodes` may be omitted.
    match (*verb, rest, signed(verb)) {
        ("nodes", [by, like], _) if signed(by).is_some() => {
            return Ok(nodes(like, signed(by).unwrap_or_default()));
        }
        (_, ["node" | "nodes", like], Some(by)) => return Ok(nodes(like, by)),
        (_, [like], Some(by)) if !VERBS.contains(like) => return Ok(nodes(like, by)),
        (like, [by], _) if !VERBS.contains(&like) => {
            if let Some(by) = signed(by) {
                return Ok(nodes(like, by));
            }
        }
        _ => {}
    }
    match (*verb, rest) {
        ("nodes", [like, by]) => Ok(nodes(like, signed(by).ok_or_else(form)?)),
        ("pool" | "zone" | "node", [name, word]) => {
            if *word != "lost" {
                return Err(unknown("word", word, &["lost"]));
            }
            Ok(Suppose::Lost {
                what: match *verb {
                    "pool" => LostPart::Pool,
                    "zone" => LostPart::Zone,
                    _ => LostPart::Node,
                },
                name: (*name).to_owned(),
            })
        }
        ("quota", [target, amount]) => quota(target, amount).ok_or_else(form),
        ("price", [of, usd]) => Ok(Suppose::Price {
            of: (*of).to_owned(),
            micro_usd: dollars(usd).ok_or_else(form)?,
        }),
        ("spot", [pool, usd]) => Ok(Suppose::Spot {
            pool: (*pool).to_owned(),
            micro_usd: dollars(usd).ok_or_else(form)?,
        }),
        ("job", [job, rest @ ..]) => {
            let job = (*job).to_owned();
            match rest {
                ["flavor", flavor] => Ok(Suppose::JobFlavor {
                    job,
                    flavor: (*flavor).to_owned(),
                }),
                ["priority", priority] => Ok(Suppose::JobPriority {
                    job,
                    priority: priority.parse().map_err(|_| form())?,
                }),
                ["removed"] => Ok(Suppose::JobRemoved { job }),
                [count] if count.starts_with('+') => Ok(Suppose::JobAdded {
                    job,
                    count: signed(count).ok_or_else(form)?,
                }),
                [word, ..] => Err(unknown("word", word, &["flavor", "priority", "removed"])),
                [] => Err(form()),
            }
        }
        (verb, _) if VERBS.contains(&verb) => Err(form()),
        (verb, _) => {
            let message = unknown("change", verb, &VERBS);
            Err(match nearest(verb, VERBS) {
                Some(_) => message,
                None => format!("{message}; for example `nodes POOL +4`"),
            })
        }
    }
}

/// Splits a text into changes separated by `;`.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim)
}

fn quota(target: &str, amount: &str) -> Option<Suppose> {
    let (queue, flavor) = target.rsplit_once('/')?;
    if queue.is_empty() || flavor.is_empty() {
        return None;
    }
    let flavor = flavor.to_owned();
    if let Some((from, to)) = queue.split_once("->") {
        let devices: i64 = amount.parse().ok().filter(|count| *count >= 0)?;
        return (!from.is_empty() && !to.is_empty()).then(|| Suppose::QuotaMove {
            from: from.to_owned(),
            to: to.to_owned(),
            flavor,
            devices,
        });
    }
    let queue = queue.to_owned();
    if let Some(to) = amount.strip_prefix('=') {
        let to = to.parse().ok().filter(|count: &i64| *count >= 0)?;
        return Some(Suppose::QuotaSet { queue, flavor, to });
    }
    let by = signed(amount)?;
    Some(Suppose::QuotaBy { queue, flavor, by })
}

/// A number with an explicit sign, so that a difference is not mistaken for a total.
fn signed(text: &str) -> Option<i64> {
    let signed = text.starts_with(['+', '-']);
    text.parse().ok().filter(|_| signed)
}

/// Dollars as micro-USD, exact to six decimal places.
fn dollars(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let micro: i64 = format!("{part:0<6}").parse().ok()?;
    whole
        .parse::<i64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(micro)
}
