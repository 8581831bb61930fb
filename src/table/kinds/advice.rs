//! Advice: recommendations for jobs and pools, largest savings first. Keys on a row act on its job or pool.

use std::cmp::Reverse;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use model::advice::{Action, Advice, Certainty, WINDOW, a_month};
use model::base::quantities::bytes;
use model::base::{Name, SmallSort};
use model::cost::Money;
use model::fleet::job::{Job, JobState};
use model::fleet::node::Billing;
use model::fleet::profile::{Bottleneck, Evidence, NotJudged};
use model::schema::of_rows;
use model::schema::one_of;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::devices::job_idle_since;
use crate::rows::list_price::list_usd;
use crate::silence::Silence;
use crate::text::percent;
use crate::{Facts, no_readings, non_empty};

/// Measurements of the job over the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct EvidenceCell {
    /// Mean utilization, 0 to 1.
    pub util_ratio: Option<f64>,
    /// Mean SM activity, 0 to 1.
    pub sm_active_ratio: Option<f64>,
    /// Mean tensor activity, 0 to 1.
    pub tensor_active_ratio: Option<f64>,
    /// Mean memory activity, 0 to 1.
    pub dram_active_ratio: Option<f64>,
    /// Mean PCIe traffic per device, both directions, bytes/s.
    pub pcie_bytes_per_s: Option<f64>,
    /// Mean NVLink traffic per device, both directions, bytes/s.
    pub nvlink_bytes_per_s: Option<f64>,
    /// 95th percentile of memory use on the device with the most, 0 to 1.
    pub mem_used_p95_ratio: Option<f64>,
    /// 95th percentile of SM activity on the device with the most, 0 to 1.
    pub sm_active_p95_ratio: Option<f64>,
    /// Share of its devices whose utilization is a square wave, 0 to 1.
    pub util_square_wave_ratio: Option<f64>,
    /// NVLink traffic as a share of the model's peak bandwidth, 0 to 1.
    pub nvlink_of_peak_ratio: Option<f64>,
    /// Standard deviation over time of the SM activity that the job's devices on a node have in common, 0 to 1.
    pub sm_deviation_ratio: Option<f64>,
    /// Share of the devices' variance that is common to those on a node, 0 to 1.
    pub sm_together_ratio: Option<f64>,
    /// Idle devices; null without readings.
    pub idle_devices: Option<u32>,
}

impl From<Option<Evidence>> for EvidenceCell {
    fn from(read: Option<Evidence>) -> Self {
        let evidence = read.unwrap_or_default();
        Self {
            util_ratio: evidence.util,
            sm_active_ratio: evidence.sm,
            tensor_active_ratio: evidence.tensor,
            dram_active_ratio: evidence.dram,
            pcie_bytes_per_s: evidence.pcie,
            nvlink_bytes_per_s: evidence.link,
            mem_used_p95_ratio: evidence.memory_p95,
            sm_active_p95_ratio: evidence.sm_p95,
            util_square_wave_ratio: evidence.swinging,
            nvlink_of_peak_ratio: evidence.link_share,
            sm_deviation_ratio: evidence.dip,
            sm_together_ratio: evidence.together,
            idle_devices: read.map(|evidence| evidence.idle_devices),
        }
    }
}

/// The job or pool that the advice is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct AdviceSubject<'a> {
    /// Kind of the object; `Pool` for a pool.
    pub kind: &'a str,
    /// Its namespace; empty for a pool.
    pub namespace: &'a str,
    /// Name of the job or pool.
    pub name: &'a str,
}

/// Ways of paying for devices whether they are used or not.
struct Commitment;

model::written_as!(
    Commitment,
    one_of([Billing::Reserved, Billing::Owned].map(Billing::name))
);

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AdviceRow<'a> {
    /// Id, stable while the advice applies.
    pub id: String,
    /// The job or pool that it is about.
    pub object: AdviceSubject<'a>,
    /// The team of the job; empty for a pool.
    pub team: &'a str,
    /// The bottleneck of the job; null where it is not classified.
    #[schemars(with = "Option<Bottleneck>")]
    pub bound: Option<&'static str>,
    /// What was measured in the window.
    pub evidence: EvidenceCell,
    /// Length of the window, seconds; 0 for a pool, which is judged by its current state and the forecast.
    pub window_seconds: u64,
    /// What to do, as a code.
    #[schemars(with = "Action")]
    pub action: &'static str,
    /// What to do, as a sentence.
    pub advice: String,
    /// Number of devices concerned.
    pub devices: u32,
    /// Class of these devices.
    pub class: Option<&'a str>,
    /// Cost of the job's devices, or of the nodes to add or remove, USD per 730 hours.
    pub costs_usd_per_month: Option<f64>,
    /// The part of that cost that is list prices in place of what is paid, which is not known, USD.
    pub costs_list_usd_per_month: Option<f64>,
    /// Savings, USD per 730 hours; null where they are unknown before it is tried, 0 with a `commitment`.
    pub saves_usd_per_month: Option<f64>,
    /// The part of those savings that is by list prices in place of what is paid, USD.
    pub saves_list_usd_per_month: Option<f64>,
    /// Where all its devices are reserved or owned: these are paid for whether used or not, so freeing them saves no money.
    #[schemars(with = "Option<Commitment>")]
    pub commitment: Option<&'static str>,
    /// How sure it is.
    #[schemars(with = "model::advice::Certainty")]
    pub certainty: &'static str,
    /// The observation that would disprove it.
    pub refuted_by: &'static str,
    /// The command that applies it; null where the job's own code or manifest must change.
    pub command: Option<String>,
    /// True when a user muted it.
    pub muted: bool,
}

/// Advice. A row is its place among the advice about jobs (0) or about pools (1).
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::number("saves", "SAVES $/MONTH", 0, 9, |facts, row| {
            of(facts, row, |advice| {
                Value::known(advice.saves_a_month(), Value::Sum)
            })
        })
        .sign(|facts, row| match silence_at(facts, row) {
            Some(Silence::Muted) => ("–", Role::Muted),
            Some(Silence::Acknowledged) => ("✓", Role::Muted),
            None => ("○", Role::Info),
        })
        .by("saves_usd_per_month"),
        Column::words("job", "JOB OR POOL", 0, (20, 40), |facts, row| {
            of(facts, row, |advice| match advice.pool() {
                Some(_) => Value::text(advice.object()),
                None => Value::path(&advice.job.key),
            })
            .role(Role::Title)
        })
        .by("object.name"),
        Column::words("team", "TEAM", 5, (8, 16), |facts, row| {
            of(facts, row, |advice| Value::text(advice.team.as_str()))
        })
        .by("team"),
        Column::words("bound", "LIMITED BY (30 min)", 3, (6, 13), |facts, row| {
            of(facts, row, |advice| {
                Value::known(advice.bound, |bound| Value::text(bound.name()))
            })
        })
        .by("bound"),
        Column::words("advice", "ADVICE", 1, (30, 200), |facts, row| {
            of(facts, row, |advice| Value::text(words(facts, advice)))
        })
        .by("advice"),
        Column::words("certainty", "CONFIDENCE", 4, (10, 10), |facts, row| {
            // A mute or acknowledgment is shown in its place, as in alerts.
            if let Some(silence) = silence_at(facts, row) {
                return Cell::text(silence.name()).role(Role::Muted);
            }
            let role = match at(facts, row).map(|advice| advice.certainty) {
                Some(Certainty::High) => Role::Text,
                _ => Role::Muted,
            };
            of(facts, row, |advice| Value::text(advice.certainty.name())).role(role)
        })
        .by("certainty")
        .wide_output(),
        Column::number("costs", "DEVICES $/MONTH", 6, 9, |facts, row| {
            of(facts, row, |advice| {
                Value::known(advice.costs.map(a_month), Value::Sum)
            })
        })
        .by("costs_usd_per_month")
        .wide_output(),
        Column::number("util", "UTIL 30m", 7, 4, |facts, row| {
            measured(facts, row, |evidence| evidence.util)
        })
        .by("evidence.util_ratio")
        .wide(),
        Column::number("sm", "SM 30m", 7, 4, |facts, row| {
            measured(facts, row, |evidence| evidence.sm)
        })
        .by("evidence.sm_active_ratio")
        .wide(),
        Column::number("tensor", "TENSOR 30m", 7, 4, |facts, row| {
            measured(facts, row, |evidence| evidence.tensor)
        })
        .by("evidence.tensor_active_ratio")
        .wide(),
        Column::number("dram", "DRAM 30m", 7, 4, |facts, row| {
            measured(facts, row, |evidence| evidence.dram)
        })
        .by("evidence.dram_active_ratio")
        .wide(),
        Column::words("refuted-by", "WRONG IF", 8, (20, 80), |facts, row| {
            of(facts, row, |advice| Value::text(advice.refuted_by()))
        })
        .by("refuted_by")
        .wide(),
        Column::words("command", "COMMAND", 8, (20, 80), |facts, row| {
            of(facts, row, |advice| {
                advice.command().map_or(Value::Empty, Value::text)
            })
        })
        .by("command")
        .wide_on_screen(),
    ],
    collect,
    id: |facts, row| at(facts, row).map_or(0, |advice| id_of(advice.id())),
    label: |_, _, _| None,
    selection: |facts, row| {
        let own = at(facts, row)?;
        Some(match own.pool() {
            Some(pool) => Selection::Pool(pool.clone()),
            None => Selection::Job(own.job.clone()),
        })
    },
    open: |facts, row| {
        let own = at(facts, row)?;
        Some(match own.pool() {
            Some(pool) => Destination::Part(ViewId::Pools, RowScope::Pool(pool.clone())),
            None => Destination::Part(ViewId::Jobs, RowScope::Job(own.job.clone())),
        })
    },
    faulty: |_, _| false,
    worst: None,
    last: |facts, row| silence_at(facts, row).is_some(),
    searched: None,
    sort: None,
    none: "nothing to improve is known",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "advice",
        singular: "advice",
        aliases: &[],
        help: "What to do about jobs' devices, what saves most first: from the last half hour, by Prometheus or a record",
        title: "What to do about jobs' devices and about pools, what saves most first",
        description: "Unknown is null, never 0; units are in the names. A month is 730 hours.",
        schema: of_rows::<AdviceRow<'_>>,
    },
    view: KindView::under(
        ViewId::Alerts,
        "what to do about jobs' devices and about pools, and what it saves a month",
    )
    .key("f2")
    .words(&["advise"])
    .with_facts(),
    reads: is_needed_for_jobs,
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| at(facts, row).map_or_else(String::new, Advice::id),
    also: |facts, row| {
        let names = at(facts, row).map(|own| {
            let key = &own.job.key;
            [
                format!("{}/{}", key.namespace, key.name),
                key.name.to_string(),
            ]
        });
        names.into_iter().flatten().collect()
    },
    name: None,
    place: Some(|facts, row| match at(facts, row) {
        Some(own) => (Some(&own.job.key.namespace), Some(&own.team)),
        None => (None, None),
    }),
    labels: None,
    json: |facts, rows, style| {
        let rows = rows.iter().map(|at| self::at(facts, *at));
        rows.map(|own| style.write(&own.map(|own| row(facts, own))))
            .collect()
    },
};

fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    // (A scope keeps the rows of its jobs.) Jobs and pools together, what saves most first.
    let of = |count: usize, list: u32| (0..count as u32).map(move |at| (at, list));
    let pools = of_pools(facts).len();
    let mut rows: Vec<Row> = of(facts.advice.len(), 0).chain(of(pools, 1)).collect();
    let rank = |row: &Row| at(facts, *row).map(|own| (own.saves, own.costs));
    rows.sort_by_key(|row| Reverse(rank(row)));
    rows
}

fn at(facts: &Facts, row: Row) -> Option<&Advice> {
    let list = match row.1 {
        0 => &*facts.advice,
        _ => of_pools(facts),
    };
    list.get(row.0 as usize)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Advice) -> Value<'a>) -> Cell<'a> {
    Cell::new(at(facts, row).map_or(Value::Unknown, make))
}

/// A ratio that was measured of the job's devices.
fn measured(facts: &Facts, row: Row, ratio: fn(&Evidence) -> Option<f64>) -> Cell<'_> {
    let evidence = at(facts, row).and_then(|advice| advice.evidence.as_ref());
    Cell::new(Value::known(evidence.and_then(ratio), Value::Ratio))
}

fn silence_at(facts: &Facts, row: Row) -> Option<Silence> {
    silence(facts, at(facts, row)?)
}

/// The id of a row's advice, and how it was silenced.
pub fn id_and_silence(facts: &Facts, row: Row) -> Option<(Name, Option<Silence>)> {
    let own = at(facts, row)?;
    Some((Name::from(own.id()), silence(facts, own)))
}

/// What these rows save together, and how many save an unknown sum; what is muted is not counted.
pub fn total(facts: &Facts, rows: impl Iterator<Item = Row>) -> Option<String> {
    let of_row = |row| at(facts, row).map(|own| (own, silence(facts, own)));
    let counted = rows
        .filter_map(of_row)
        .filter(|(_, silence)| *silence != Some(Silence::Muted));
    // The money by team in view 7 is of this moment: a job may work again, or have just begun to idle.
    let words = total_words(counted.map(|(own, _)| own));
    let words = words.map(|words| format!("{words}; based on the last 30 min (view 7: now)"));
    let later = no_readings(facts).map(str::to_owned);
    match (words, later.or_else(|| collecting(facts))) {
        (Some(words), Some(later)) => Some(format!("{words} · {later}")),
        (words, later) => words.or(later),
    }
}

/// When advice about jobs can be given, until the readings reach back far enough; and what is known before that.
pub fn collecting(facts: &Facts) -> Option<String> {
    let begun = facts.history.readings_since()?;
    let ready = begun.plus(Duration::from_millis(WINDOW.millis()));
    (ready > facts.now).then(|| {
        let ready = ready.clock();
        format!("collecting: advice about jobs from {ready} UTC; $ shows idle devices now")
    })
}

/// Whether the advice was muted or acknowledged.
fn silence(facts: &Facts, advice: &Advice) -> Option<Silence> {
    facts.silences.of_advice(&advice.id(), facts.now)
}

/// Advice about pools; empty in a scope, because pools belong to the whole fleet.
pub fn of_pools(facts: &Facts) -> &[Advice] {
    match facts.part {
        Some(_) => &[],
        None => &facts.answers.pools,
    }
}

/// All advice about jobs and pools, largest savings first.
pub fn all(facts: &Facts) -> Vec<&Advice> {
    let mut all: Vec<&Advice> = facts.advice.iter().chain(of_pools(facts)).collect();
    all.sort_by_key(|own| Reverse((own.saves, own.costs)));
    all
}

/// The row of one advice.
fn row<'a>(facts: &Facts, advice: &'a Advice) -> AdviceRow<'a> {
    AdviceRow {
        id: advice.id(),
        object: AdviceSubject {
            kind: &advice.job.kind,
            namespace: &advice.job.key.namespace,
            name: &advice.job.key.name,
        },
        team: &advice.team,
        bound: advice.bound.map(Bottleneck::name),
        evidence: EvidenceCell::from(advice.evidence),
        window_seconds: match advice.pool() {
            Some(_) => 0,
            None => WINDOW.seconds(),
        },
        action: advice.action.code(),
        advice: words(facts, advice),
        devices: advice.devices,
        class: advice.class.as_deref().and_then(non_empty),
        costs_usd_per_month: advice.costs.map(a_month).map(Money::usd),
        costs_list_usd_per_month: list_usd(advice.costs.map(a_month)),
        saves_usd_per_month: advice.saves_a_month().map(Money::usd),
        saves_list_usd_per_month: list_usd(advice.saves_a_month()),
        commitment: advice.commitment.map(|billing| billing.name()),
        certainty: advice.certainty.name(),
        refuted_by: advice.refuted_by(),
        command: advice.command(),
        muted: silence(facts, advice) == Some(Silence::Muted),
    }
}

/// Measurements in one line: `SM 22% · tensor 8% · DRAM 12% · PCIe 2.1 GiB/s`; unknown ones are left out.
pub fn evidence_words(evidence: &Evidence) -> String {
    let ratio =
        |name: &str, value: Option<f64>| value.map(|_| format!("{name} {}", percent(value)));
    let flow =
        |name: &str, value: Option<f64>| value.map(|value| format!("{name} {}/s", bytes(value)));
    let swings = evidence.swinging.filter(|share| *share > 0.0);
    let swings = swings.map(|share| {
        let share = percent(Some(share));
        format!("utilization is a square wave on {share} of its devices")
    });
    let link = flow("NVLink", evidence.link.filter(|link| *link > 0.0)).map(|words| match evidence
        .link_share
    {
        Some(share) => format!("{words} ({} of its peak)", percent(Some(share))),
        None => words,
    });
    let all = [
        ratio("util", evidence.util),
        ratio("SM", evidence.sm),
        ratio("tensor", evidence.tensor),
        ratio("DRAM", evidence.dram),
        flow("PCIe", evidence.pcie),
        link,
        ratio("memory p95", evidence.memory_p95),
        swings,
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join(" · ")
}

/// The advice as a sentence, and for how long the devices are idle that it is about.
pub fn words(facts: &Facts, advice: &Advice) -> String {
    let idle = match advice.action {
        Action::Release => facts.fleet.job(&advice.job),
        _ => None,
    };
    let idle = idle.and_then(|job| job_idle_since(facts, job));
    let idle = idle.map(|idle| idle.words(facts.now));
    advice.words_idle(idle.as_deref())
}

/// The advice as shown on a job's page: what to do and what it saves.
pub fn page_text(facts: &Facts, advice: &Advice) -> String {
    let words = words(facts, advice);
    match advice.saves_a_month() {
        // The words already state that it saves no money.
        Some(_) if advice.commitment.is_some() => words,
        Some(saves) => format!("{words}; saves {} a month", saves.dollars()),
        None => words,
    }
}

/// Total savings: `known savings: $12 345 a month; 3 of 9 cannot be priced; 2 only free reserved or owned devices`.
/// `None` where there is no advice.
pub fn total_words<'a>(all: impl Iterator<Item = &'a Advice>) -> Option<String> {
    let (mut sum, mut count, mut unknown, mut committed) = (Money::ZERO, 0_usize, 0_usize, 0_usize);
    // Adding nodes costs money and saves none.
    for advice in all.filter(|advice| !matches!(advice.action, Action::AddNodes { .. })) {
        if advice.commitment.is_some() && advice.saves.is_some() {
            committed += 1;
            continue;
        }
        count += 1;
        match advice.saves_a_month() {
            Some(saves) => sum += saves,
            None => unknown += 1,
        }
    }
    let freed = match committed {
        0 => None,
        1 => Some(String::from("1 only frees reserved or owned devices")),
        count => Some(format!("{count} only free reserved or owned devices")),
    };
    let saved = match (count, unknown) {
        (0, _) => return freed,
        (_, 0) => format!("known savings: {} a month", sum.dollars()),
        _ if unknown == count => String::from("savings cannot be priced"),
        _ => format!(
            "known savings: {} a month; {unknown} of {count} cannot be priced",
            sum.dollars()
        ),
    };
    Some(match freed {
        Some(freed) => format!("{saved}; {freed}"),
        None => saved,
    })
}

/// How many of the running jobs with devices are classified.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Judged {
    /// Running jobs with devices.
    pub jobs: usize,
    /// Jobs without a verdict.
    pub silent: usize,
    /// Reasons with their counts, most frequent first.
    pub why: String,
}

/// Running jobs with devices in scope, each with its verdict.
fn verdicts(facts: &Facts) -> impl Iterator<Item = (&Job, Result<Bottleneck, NotJudged>)> {
    let part = facts.part.as_ref();
    let jobs = facts.fleet.jobs.iter().map(|job| &**job);
    jobs.filter(move |job| {
        job.state == JobState::Running
            && job.devices_allocated > 0
            && part.is_none_or(|part| part.scope.has_job(job))
    })
    .map(|job| {
        let profile = facts.history.profiles().get(&job.id);
        let verdict = profile.map_or(Err(NotJudged::Short), |profile| profile.verdict);
        (job, verdict)
    })
}

/// Counts of classified and unclassified running jobs.
pub fn judged(facts: &Facts) -> Judged {
    let mut judged = Judged::default();
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for (_, verdict) in verdicts(facts) {
        judged.jobs += 1;
        let Err(why) = verdict else { continue };
        judged.silent += 1;
        let words = why_not_judged(facts, why);
        match reasons.iter_mut().find(|(known, _)| *known == words) {
            Some((_, count)) => *count += 1,
            None => reasons.push((words, 1)),
        }
    }
    reasons.small_sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let parts = reasons
        .iter()
        .map(|(words, count)| format!("{count}: {words}"));
    judged.why = parts.collect::<Vec<_>>().join("; ");
    judged
}

/// Why a job is not classified, in a few words.
pub fn why_not_judged(facts: &Facts, why: NotJudged) -> String {
    let none = no_readings(facts).filter(|_| why == NotJudged::Short);
    none.map_or_else(|| why.words(), str::to_owned)
}

/// True when waiting longer adds no verdict: every job that has run for the whole window is classified or cannot be.
pub fn is_settled(facts: &Facts) -> bool {
    verdicts(facts).all(|(job, verdict)| {
        let is_old = job
            .started
            .is_some_and(|started| facts.now.since(started) > WINDOW);
        verdict != Err(NotJudged::Short) || !is_old
    })
}

/// A sentence: the job's bottleneck or why it is not classified, and the measurements.
pub fn verdict_words(facts: &Facts, job: &Job) -> String {
    let profile = facts.history.profiles().get(&job.id);
    let name = &job.id.key;
    match profile.map(|profile| (profile.verdict, evidence_words(&profile.evidence))) {
        Some((Ok(bound), evidence)) => {
            format!(
                "{name}: limited by {}: {} ({evidence})",
                bound.name(),
                bound.meaning()
            )
        }
        Some((Err(why), _)) => format!("{name}: no verdict: {}", why_not_judged(facts, why)),
        None => format!("{name}: no verdict: it has no device, or no readings"),
    }
}
