//! What bounds each job, judged from the exporters' pages alone, against what truly bounds it in the simulated world.

use std::collections::BTreeMap;
use std::time::Duration;

use model::fleet::profile::{Bottleneck, NotJudged};
use sim::change::SimBackend;
use sim::world::{Options, TrueBound};
use table::Facts;

use super::accounts::{Lived, begin, memory};

/// A job has run for so long, milliseconds, before its profile counts: the window and what it takes to start.
const LEAST_RUN: i64 = 35 * 60_000;

const fn named(bound: TrueBound) -> Bottleneck {
    match bound {
        TrueBound::Idle => Bottleneck::Idle,
        TrueBound::Input => Bottleneck::Input,
        TrueBound::Memory => Bottleneck::Memory,
        TrueBound::Tensor => Bottleneck::Tensor,
        TrueBound::Fp32 => Bottleneck::Compute,
        TrueBound::AllReduce => Bottleneck::Communication,
    }
}

/// What was said of jobs, against the truth.
#[derive(Default)]
struct Verdicts {
    /// Verdicts by truth and word.
    judged: BTreeMap<(TrueBound, &'static str), u32>,
    right: u32,
    all: u32,
    /// Jobs whose exporters tell too little.
    silent: u32,
    /// Jobs of which too little is known so far, or that hold slices.
    short: u32,
    healthy: u32,
    /// Healthy jobs that something is advised about.
    advised: Vec<String>,
}

impl Verdicts {
    /// Judges every job that has run for long enough, as of now.
    fn look(&mut self, lived: &mut Lived) {
        let now = lived.world.now();
        let facts: Facts = lived.store.publish(now);
        let profiles = facts.history.profiles();
        for work in lived.world.true_bounds(LEAST_RUN) {
            let job = facts
                .fleet
                .jobs
                .iter()
                .find(|job| {
                    job.namespace().as_str() == work.namespace && job.name().as_str() == work.name
                })
                .unwrap_or_else(|| panic!("{}/{} is not there", work.namespace, work.name));
            let profile = profiles.get(&job.id);
            let is_dcgm = job
                .class
                .as_deref()
                .is_some_and(|class| !class.starts_with('v') && !class.starts_with("MI"));
            // What is as it should be is left alone.
            if work.bound == TrueBound::Tensor && !work.straggler {
                let advised = facts.advice.iter().filter(|own| own.job == job.id);
                self.healthy += 1;
                self.advised
                    .extend(advised.map(|own| format!("{now:?} {}: {}", job.id, own.words())));
            }
            let word = match profile.map(|profile| profile.verdict) {
                Some(Ok(bound)) => bound.name(),
                // (Pods of a job without a gang come and go.)
                Some(Err(NotJudged::Slices | NotJudged::Short)) => {
                    self.short += 1;
                    continue;
                }
                Some(Err(_)) if !is_dcgm => {
                    // Exporters of TPUs and AMD tell less: a verdict is not guessed from it.
                    self.silent += 1;
                    continue;
                }
                Some(Err(_)) | None => "not judged",
            };
            let right = word == named(work.bound).name();
            self.all += 1;
            self.right += u32::from(right);
            if !right {
                println!(
                    "{now:?} {} is {:?}, said {word}: {profile:?}",
                    job.id, work.bound
                );
            }
            *self.judged.entry((work.bound, word)).or_default() += 1;
        }
    }

    fn hold(&self) {
        println!(
            "{:#?} {} of {} named right, {} healthy, {} silent, {} short",
            self.judged, self.right, self.all, self.healthy, self.silent, self.short
        );
        assert!(self.advised.is_empty(), "{:#?}", self.advised);
        let (right, all) = (f64::from(self.right), f64::from(self.all));
        assert!(right >= 0.95 * all, "{right} of {all}");
    }
}

const KINDS: [TrueBound; 6] = [
    TrueBound::Idle,
    TrueBound::Input,
    TrueBound::Memory,
    TrueBound::Tensor,
    TrueBound::Fp32,
    TrueBound::AllReduce,
];

/// A fleet of so many nodes.
fn begun(nodes: u32) -> Lived {
    let options = Options {
        nodes: Some(nodes),
        ..Options::new(begin())
    };
    let mut lived = Lived::begin_with(options, false, memory(), true);
    lived.take();
    lived
}

/// Lives on for so many minutes; exporters are read each minute.
fn live_on(lived: &mut Lived, minutes: u64) {
    let to = lived.world.now().plus(Duration::from_secs(minutes * 60));
    lived.live(to, Duration::from_secs(30), Some(2));
}

#[test]
fn what_bounds_a_job_is_read_off_its_pages() {
    let mut lived = begun(260);
    live_on(&mut lived, 37);
    let mut verdicts = Verdicts::default();
    verdicts.look(&mut lived);
    assert!(verdicts.healthy > 15, "{} healthy", verdicts.healthy);
    assert!(verdicts.all > 35, "{} judged", verdicts.all);
    for kind in KINDS {
        let mut named = verdicts.judged.keys();
        assert!(named.any(|(bound, _)| *bound == kind), "no job is {kind:?}");
    }
    verdicts.hold();
}

/// Four half hours of a day, six hours apart; the whole of it is the test below.
#[test]
#[ignore = "long: tests/long"]
fn what_bounds_a_job_is_read_off_its_pages_by_day_and_by_night() {
    let mut lived = begun(100);
    let mut verdicts = Verdicts::default();
    for hour in [0, 6, 12, 18] {
        let from = begin().plus(Duration::from_secs(hour * 3_600));
        lived.live(from, Duration::from_secs(600), None);
        live_on(&mut lived, 37);
        verdicts.look(&mut lived);
    }
    assert!(verdicts.healthy > 40, "{} healthy", verdicts.healthy);
    assert!(verdicts.all > 40, "{} judged", verdicts.all);
    verdicts.hold();
}

/// The figures of a whole day.
#[test]
#[ignore = "long: tests/long"]
fn what_bounds_a_job_is_read_off_its_pages_for_a_whole_day() {
    let mut lived = begun(100);
    live_on(&mut lived, 37);
    let mut verdicts = Verdicts::default();
    loop {
        verdicts.look(&mut lived);
        let now = lived.world.now();
        println!("{now:?} {} of {}", verdicts.right, verdicts.all);
        if now.since(begin()).seconds() >= 86_400 {
            break;
        }
        live_on(&mut lived, 30);
    }
    verdicts.hold();
}
