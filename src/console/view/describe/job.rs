//! A job: state and why, gang, owners, pods, failure, money.

use crate::painter::Painter;
use crate::text::{UNKNOWN, counted, dollars, per_hour};
use crate::widget::roofline::{Roofline, roofline};
use model::advice::{Advice, waits_for_requests};
use model::base::{Age, Moment};
use model::cost::Money;
use model::fleet::history::{ServedSignal, Track};
use model::fleet::job::{Job, JobState};
use model::fleet::profile::{Bottleneck, JobProfile, NotJudged};
use model::plan::evicted_words;
use table::Facts;
use table::kinds::advice::{evidence_words, page_text, why_not_judged};
use table::kinds::services::slow_replica;
use table::role::Role;
use table::row_labels::owner_label_of_job;
use table::rows::gangs::{slowest, stragglers};
use table::rows::job_failure::why_failed;
use table::rows::jobs::{
    Waited, findings, no_cost, so_far, waited, waited_words, waits as is_waiting,
};
use table::text::{bounded_latency, whole_percent};
use table::waiting::explanations::{JobExplanation, named_victims, victims_words};
use table::waiting::prices::price_words;

use super::{Description, Line, pod, scaling};

/// `14:02 UTC`; of another day `11-21 14:02 UTC`.
fn when(at: Moment, now: Moment) -> String {
    let (short, today) = (at.short(), now.short());
    let from = if short.get(..5) == today.get(..5) {
        6
    } else {
        0
    };
    format!("{} UTC", short.get(from..11).unwrap_or(&short))
}

/// What the cost so far of a job covers: ` since 12:03 UTC, its current pods only`; empty while it has no devices.
fn so_far_words(facts: &Facts, job: &Job) -> String {
    let Some(since) = job.held_since() else {
        return String::new();
    };
    // Whether they replaced others is not known.
    let pods = match job.may_have_replaced_pods() {
        true => ", its current pods only",
        false => "",
    };
    format!(" since {}{pods}", when(since, facts.now))
}

/// What is known of a job.
pub(super) fn lines(table: &mut Description, facts: &Facts, job: &Job, painter: &mut Painter<'_>) {
    let (_, role) = table::kinds::jobs::sign(job.state);
    table.note = job.id.kind.to_string();
    table.words("state", job.state.name(), role);
    let reason = match table::waiting::blind(facts, job) {
        Some(_) => table::waiting::says(facts, job),
        None => table::rows::job_place::where_or_why(facts, job),
    };
    let title = match job.devices_allocated {
        0 => "reason",
        _ => "place",
    };
    table.words_if_any(title, Some(reason).filter(|words| words != UNKNOWN));
    waits(table, facts, job, painter);
    scaling::job(table, facts, job, painter);
    if let Some(failure) = &job.failure {
        let role = if job.state == JobState::Failed {
            Role::Crit
        } else {
            Role::Warn
        };
        table.words("failure", why_failed(facts, failure), role);
        if let Some(at) = failure.last_eviction {
            let words = format!("{} ago", painter.age(at));
            table.words("evicted", words, Role::Warn);
        }
    }
    // Whether it lasts is not known yet.
    if let Some(one) = slowest(facts, job).filter(|_| stragglers(facts, job).is_empty()) {
        let words = format!(
            "pod {} on {}, device {}: {} now, the median of its gang {}",
            one.pod.key().name,
            one.node.name(),
            one.device.index,
            whole_percent(one.util),
            whole_percent(one.median)
        );
        table.words("slowest", words, Role::Warn);
    }
    table.findings(&job.id.key.name, findings(facts, job), painter);
    let class = table::rows::jobs::class_words(job);
    let class = class.as_deref().unwrap_or(UNKNOWN);
    let of = match job.state {
        JobState::Done | JobState::Failed => String::new(),
        _ => format!("{} of ", job.devices_allocated),
    };
    let words = format!("{of}{} {class}", job.devices_requested);
    table.words("devices", words, Role::Text);
    gang(table, job);
    let held = |job: &Job| match job.util {
        Some(util) if job.idle_devices == 0 => whole_percent(util),
        Some(util) => format!(
            "{}, {} of {} idle",
            whole_percent(util),
            counted(u64::from(job.idle_devices), "device"),
            job.devices_allocated
        ),
        None => UNKNOWN.to_owned(),
    };
    if job.devices_allocated > 0 {
        let role = if job.idle_devices > 0 {
            Role::IdleMoney
        } else {
            Role::Text
        };
        table.words("efficiency", held(job), role);
    }
    bound_by(table, facts, job);
    if let Some(serving) = &job.serving {
        table.words("serves", table::text::serving(serving), Role::Text);
        for one in &serving.served {
            let name = one.model.as_deref().unwrap_or("model not named");
            let role = match one.is_saturated() {
                Some(true) => Role::Warn,
                _ => Role::Text,
            };
            let words = table::kinds::services::words(facts, job, one);
            table.words("", format!("{name}: {words}"), role);
        }
        // A small screen has no room for its picture.
        let ttft = Track::Served(job.id.clone(), ServedSignal::Ttft);
        let words = |seconds: f32| bounded_latency(f64::from(seconds), false);
        table.past(facts, "TTFT p95, 1 h", &ttft, None, &words);
    }
    if let Some(words) = slow_replica(job) {
        table.words("slow", words, Role::Warn);
    }
    table.known("queue", job.queue.as_ref());
    table.words(
        "team",
        format!("{} · by {}", job.team, job.team_source.name()),
        Role::Text,
    );
    if let Some((label, who)) = owner_label_of_job(job) {
        table.words("owner", format!("{who} · by label {label}"), Role::Text);
    }
    table.known("priority", job.priority);
    let chain: Vec<String> = job
        .chain
        .iter()
        .map(|owner| format!("{} {}", owner.kind, owner.name))
        .collect();
    if !chain.is_empty() {
        table.words("controller", chain.join(" ▸ "), Role::Muted);
    }
    let made = format!("{} ago", painter.age(job.created));
    match waited(job) {
        Some(Waited::SinceMade) | None => table.words("created", made, Role::Text),
        Some(_) => table.words_if_any("waiting", waited_words(job, |at| painter.age(at))),
    }
    // A Job has a start time as soon as its controller has processed it: a waiting job has not started.
    if let Some(started) = job.started.filter(|_| !is_waiting(job)) {
        table.words(
            "started",
            format!("{} ago", painter.age(started)),
            Role::Text,
        );
    }
    if let Some(finished) = job.finished {
        let ran = job.started.map(|started| finished.since(started));
        let ran = ran.map_or_else(String::new, |ran| format!(", after {ran}"));
        let words = format!("{} ago{ran}", painter.age(finished));
        table.words("ended", words, Role::Text);
    }
    if let Some((spend, _)) = facts.spend_rates.jobs.get(&job.id) {
        let so_far = match so_far(facts, job) {
            Some(so_far) => format!("{}{}", dollars(Some(so_far)), so_far_words(facts, job)),
            None => format!("so far unknown: {}", no_cost(true)),
        };
        table.words(
            "cost",
            format!("{} · {so_far}", per_hour(Some(spend.rate))),
            Role::Text,
        );
        table.list_note(spend.rate);
    } else if job.devices_allocated > 0 {
        let words = format!("unknown: {}", no_cost(false));
        table.words("cost", words, Role::Muted);
    }
    shares(table, facts, job);
    pod::of_job(table, facts, job, painter);
}

/// Cells of a roofline.
const PLOT: (usize, usize) = (40, 6);

/// The position of its devices in the roofline of their model, by tensor and memory activity. The number format is not known:
/// tensor core work counts as dense BF16.
fn roof(table: &mut Description, facts: &Facts, job: &Job, profile: &JobProfile) {
    let of_class = || {
        let class = job.class.as_deref()?;
        let model = facts.fleet.policy.catalog.of_class(class)?;
        let (peak, bandwidth) = (model.bf16_tflops? * 1e12, model.memory_tb_s? * 1e12);
        Some(Roofline {
            peak,
            bandwidth,
            rate: profile.evidence.tensor? * peak,
            traffic: profile.evidence.dram? * bandwidth,
        })
    };
    let Some(figures) = of_class() else { return };
    let plot = roofline(&figures, PLOT.0, PLOT.1);
    if plot.is_empty() {
        return;
    }
    table.lines.push(Line::Picture("roofline", plot));
    let share = |part: f64, whole: f64| whole_percent(part / whole);
    let is_by_memory = figures.is_memory_bound();
    let roof = match is_by_memory {
        true => {
            let used = share(figures.traffic, figures.bandwidth);
            format!("roof: memory bandwidth, {used} used")
        }
        false => {
            let used = share(figures.rate, figures.peak);
            format!("roof: dense BF16 peak, {used} used")
        }
    };
    // The verdict goes by thresholds of activity, the roof by the ratio of two activities.
    let other = match profile.verdict {
        Ok(Bottleneck::Tensor) if is_by_memory => Some("tensor cores"),
        Ok(Bottleneck::Compute) if is_by_memory => Some("SMs"),
        Ok(Bottleneck::Memory) if !is_by_memory => Some("memory"),
        _ => None,
    };
    let other = other.map_or_else(String::new, |busier| {
        format!("; the verdict is by what is busy: {busier}")
    });
    let words = format!(
        "ridge at {:.0} FLOP/byte; this job: {:.0} TFLOP/s at {:.0} FLOP/byte: {roof}{other}",
        figures.ridge(),
        figures.rate / 1e12,
        figures.intensity(),
    );
    table.words("", words, Role::Muted);
}

/// The bottleneck in the last half hour, the evidence for it, and what to do.
fn bound_by(table: &mut Description, facts: &Facts, job: &Job) {
    let Some(profile) = facts.history.profiles().get(&job.id) else {
        return;
    };
    match profile.verdict {
        // A model server's devices wait for requests, not for data: its own lines say whether it is saturated.
        Ok(bound) if waits_for_requests(job, bound) => {}
        Ok(bound) => {
            let words = format!("{}: {} (last 30 min)", bound.name(), bound.meaning());
            table.words("limited by", words, Role::Text);
            table.words("", evidence_words(&profile.evidence), Role::Muted);
            // A server's work is by its requests, not by its devices' peak.
            if job.serving.is_none() {
                roof(table, facts, job, profile);
            }
        }
        Err(why) => {
            let none = match why {
                NotJudged::Stopped => "",
                _ => "no verdict: ",
            };
            let words = format!("{none}{}", why_not_judged(facts, why));
            table.words("limited by", words, Role::Muted);
            let mut devices = facts.fleet.devices().map(|(_, device)| device);
            let own = |device: &&model::fleet::device::Device| {
                device.holders().any(|(pod, _)| pod.job == job.id)
            };
            let mend = devices.find(own).and_then(|device| why.mend(device.vendor));
            if let Some(mend) = mend {
                table.words("", mend, Role::Muted);
            }
        }
    }
    let own = facts.advice.iter().filter(|advice| advice.job == job.id);
    advised(table, facts, own);
}

/// Advice, the command that applies it, how sure it is and what would disprove it.
pub(super) fn advised<'a>(
    table: &mut Description,
    facts: &Facts,
    all: impl Iterator<Item = &'a Advice>,
) {
    for advice in all {
        table.words("advice", page_text(facts, advice), Role::Info);
        if let Some(command) = advice.command() {
            table.words("", command, Role::Text);
        }
        let words = format!(
            "confidence {} · wrong if: {}",
            advice.certainty.name(),
            advice.refuted_by()
        );
        table.words("", words, Role::Muted);
    }
}

/// The job's parts of shared devices: the rows of these are of the whole device.
fn shares(table: &mut Description, facts: &Facts, job: &Job) {
    let slices = job.places.iter().filter(|place| place.slice.is_some());
    let slices: Vec<_> = slices.collect();
    let Some(first) = slices.first() else { return };
    let node = facts.fleet.node(&first.node);
    let device = node.and_then(|node| node.device(first.device));
    let of = device.map_or_else(|| first.node.to_string(), |device| device.id.to_string());
    let held = match slices.as_slice() {
        [one] => format!("slice {} of {of}", one.slice.as_deref().unwrap_or_default()),
        many => format!("{} of {of} and others", counted(many.len() as u64, "slice")),
    };
    table.words(
        "share",
        format!("{held}: cost and times here are the job's; device rows show the whole device"),
        Role::Text,
    );
}

/// The whole chain of reasons, who is before it, what would start it, and when.
fn waits(table: &mut Description, facts: &Facts, job: &Job, painter: &mut Painter<'_>) {
    let Some(explained) = table::waiting::explanation_of(facts, job) else {
        if job.state == JobState::Waiting && facts.answers.at.is_none() {
            table.words("change", table::waiting::mend(facts, job), Role::Info);
        }
        return;
    };
    let explanation = &explained.answer.explanation;
    if let Some(words) = table::waiting::blind(facts, job) {
        for reason in explanation.reasons.iter().filter(|it| !it.is_blind()) {
            table.words("why", reason.sentence(), Role::Text);
        }
        table.words("change", words, Role::Muted);
        return;
    }
    let mut label = "why";
    for reason in &explanation.reasons {
        table.words(label, reason.sentence(), Role::Text);
        label = "";
    }
    if explanation.reasons.is_empty() {
        table.words("why", table::waiting::why(facts, job), Role::Text);
    }
    if let Some(position) = explanation.position {
        let of = match &explanation.queue {
            Some(_) => "in its queue",
            None => "of the pods without a queue",
        };
        let mut words = format!("{position} {of}");
        if !explanation.ahead_first.is_empty() {
            let named: Vec<String> = explanation
                .ahead_first
                .iter()
                .map(ToString::to_string)
                .collect();
            let ahead = explanation.ahead.unwrap_or(named.len());
            let more = ahead.saturating_sub(named.len());
            words.push_str(&format!(", behind {}", named.join(", ")));
            if more > 0 {
                words.push_str(&format!(" and {more} more"));
            }
        }
        table.words("position", words, Role::Text);
    }
    if let Some(words) = table::waiting::outlook(facts, job) {
        let words = words.strip_prefix("starts ").unwrap_or(&words);
        table.words(
            "starts",
            without_change(facts, job, explained, words),
            Role::Text,
        );
    }
    if let Some(words) = explained
        .answer
        .start
        .as_ref()
        .and_then(table::waiting::confidence)
    {
        table.words("", words, Role::Muted);
    }
    if !explanation.victims.is_empty() {
        let words = evicted_words(&explanation.victims);
        let (price, _) = price_words(facts, job, &[], &explanation.victims);
        table.words("preempts", format!("{words}{price}"), Role::Warn);
    }
    let mut label = "change";
    let mut line = |table: &mut Description, words: String| {
        table.words(std::mem::replace(&mut label, "or"), words, Role::Info);
    };
    let changes = || explanation.unblock.iter().chain(&explanation.alternatives);
    let at_once = |is_single: bool| {
        let all = changes().filter(move |change| (change.changes.len() == 1) == is_single);
        all.filter(|change| !table::waiting::only_waits(change))
            .map(|change| {
                let words = table::waiting::change_words(change, job, facts.now);
                let (price, sum) = price_words(facts, job, &change.changes, &change.victims);
                (format!("{words}{price}"), sum)
            })
    };
    // What of all that has the mark of list prices.
    let mut sum = Money::ZERO;
    for (words, money) in at_once(true) {
        line(table, format!("{words}: starts now"));
        sum += money;
    }
    if let Some(now) = &explained.now {
        let proven = if now.proven {
            " (the cheapest set)"
        } else {
            ""
        };
        let words = format!("preempt {}{proven}: starts now", named_victims(now));
        line(table, words);
        sum += now.lost.unwrap_or_default();
    }
    for (later, condition) in explained.answer.later_conditions() {
        let words = table::waiting::later_words(later, facts.now);
        let change = std::slice::from_ref(&later.change);
        let (price, money) = price_words(facts, job, change, &[]);
        line(table, format!("{words}{condition}{price}"));
        sum += money;
    }
    // What takes several changes at once is the hardest to do.
    for (words, money) in at_once(false) {
        line(table, format!("{words}: starts now"));
        sum += money;
    }
    table.list_note(sum);
    if let Some(words) = table::waiting::supposed(facts, job) {
        table.words("", format!("u: what-if {words}"), Role::Muted);
    }
    for change in changes().filter(|change| table::waiting::only_waits(change)) {
        let words = table::waiting::change_words(change, job, facts.now);
        table.words("by itself", words, Role::Text);
    }
    if let Some(at) = facts.answers.at {
        let (words, role) = worked_out(facts, job, at, painter);
        table.words("", words, role);
    }
}

/// An answer older than this is marked as old.
const OLD: Age = Age::from_seconds(60);

/// Of when the engine's answer is, free devices in it too, and whether the job has changed since.
fn worked_out(facts: &Facts, job: &Job, at: Moment, painter: &mut Painter<'_>) -> (String, Role) {
    let words = format!("as of {} UTC, {} ago", at.clock(), painter.age(at));
    if job.waiting_since.is_some_and(|since| since > at) {
        let words = format!("{words}, from before this job was waiting; recomputing");
        return (words, Role::Warn);
    }
    match facts.now.since(at) > OLD {
        true => (
            format!("{words}; the fleet may have changed since"),
            Role::Warn,
        ),
        false => (words, Role::Muted),
    }
}

/// The outlook without the changes that would start the job: they are on lines of their own below.
fn without_change<'a>(
    facts: &Facts,
    job: &Job,
    explained: &JobExplanation,
    words: &'a str,
) -> &'a str {
    let change = explained.answer.explanation.unblock.as_ref();
    let change = change.map(|change| table::waiting::change_words(change, job, facts.now));
    let victims = explained.now.as_ref().map(victims_words);
    let later = explained.answer.later.first();
    let later = later.map(|later| table::waiting::later_words(later, facts.now));
    let mut ends = change.iter().chain(&victims).chain(&later);
    let Some(head) = ends.find_map(|end| words.strip_suffix(end.as_str())) else {
        return words;
    };
    head.rfind([';', ',']).map_or(words, |at| &head[..at])
}

/// How many of the pods that belong together are there.
fn gang(table: &mut Description, job: &Job) {
    let Some(gang) = job.gang else { return };
    let bound = job.pods.iter().filter(|pod| pod.seen.node.is_some());
    let bound = bound.count() as u32;
    let ready = job.pods.iter().filter(|pod| pod.seen.ready).count();
    let whole = if bound >= gang.size {
        (String::from("complete"), Role::Ok)
    } else if bound >= gang.min {
        (
            format!("{} short, minimum met", gang.size - bound),
            Role::Warn,
        )
    } else if bound == 0 {
        (String::from("none scheduled"), Role::Muted)
    } else {
        let short = gang.min - bound;
        (format!("broken: {short} short of its minimum"), Role::Crit)
    };
    table.words(
        "gang",
        format!(
            "{bound} of {} scheduled, {ready} ready, minimum {}: {}",
            counted(u64::from(gang.size), "pod"),
            gang.min,
            whole.0
        ),
        whole.1,
    );
}
