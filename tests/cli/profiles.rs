//! What bounds each job, judged from the exporters' pages alone, against what truly bounds it in the simulated world.

use std::collections::BTreeMap;
use std::time::Duration;

use model::advice::Action;
use model::fleet::profile::{Bound, NotJudged};
use sim::world::{Options, TrueBound};
use table::Facts;

use super::accounts::{Lived, begin, memory};

/// A job has run for so long, milliseconds, before its profile counts: the window and what it takes to start.
const LEAST_RUN: i64 = 35 * 60_000;

const fn named(bound: TrueBound) -> Bound {
    match bound {
        TrueBound::Idle => Bound::Idle,
        TrueBound::Input => Bound::Input,
        TrueBound::Memory => Bound::Memory,
        TrueBound::Tensor => Bound::Tensor,
        TrueBound::Fp32 => Bound::Compute,
        TrueBound::AllReduce => Bound::Communication,
    }
}

#[test]
fn what_bounds_a_job_is_read_off_its_pages() {
    let options = Options {
        nodes: Some(260),
        ..Options::new(begin())
    };
    let mut lived = Lived::begin_with(options, false, memory(), true);
    lived.take();
    let mut judged: BTreeMap<(TrueBound, &str), u32> = BTreeMap::new();
    let (mut right, mut all, mut silent, mut healthy) = (0, 0, 0, 0);
    for minutes in [37] {
        let to = begin().plus(Duration::from_secs(minutes * 60));
        lived.live(to, Duration::from_secs(30), Some(2));
        let facts: Facts = lived.store.publish(to);
        let profiles = facts.history.profiles();
        // (A device that truly holds up its gang is told of.)
        let slow: Vec<_> = facts
            .advice
            .iter()
            .filter(|own| matches!(own.action, Action::LeaveDevice { .. }))
            .map(|own| own.job.clone())
            .collect();
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
            if work.bound == TrueBound::Tensor {
                let told = facts.advice.iter().filter(|own| own.job == job.id);
                let told: Vec<String> = told.map(|own| own.words()).collect();
                healthy += 1;
                assert!(
                    told.is_empty() || slow.contains(&job.id),
                    "{}: {told:?}",
                    job.id
                );
            }
            let word = match profile.map(|profile| profile.verdict) {
                Some(Ok(bound)) => bound.name(),
                // (Pods of a job without a gang come and go.)
                Some(Err(NotJudged::Slices | NotJudged::Short)) => continue,
                Some(Err(_)) if !is_dcgm => {
                    // Exporters of TPUs and AMD tell less: a verdict is not guessed from it.
                    silent += 1;
                    continue;
                }
                other => panic!("{}: {other:?} {job:?}", job.id),
            };
            all += 1;
            right += u32::from(word == named(work.bound).name());
            if word != named(work.bound).name() {
                println!("{} is {:?}, said {word}: {profile:?}", job.id, work.bound);
            }
            *judged.entry((work.bound, word)).or_default() += 1;
        }
    }
    println!("{judged:#?} {right} of {all}, {silent} silent");
    assert!(healthy > 15, "{healthy} healthy");
    assert!(all > 35, "{all} judged");
    let kinds = [
        TrueBound::Idle,
        TrueBound::Input,
        TrueBound::Memory,
        TrueBound::Tensor,
        TrueBound::Fp32,
        TrueBound::AllReduce,
    ];
    for kind in kinds {
        assert!(
            judged.keys().any(|(bound, _)| *bound == kind),
            "no job is {kind:?}"
        );
    }
    assert!(
        f64::from(right) >= 0.95 * f64::from(all),
        "{right} of {all}"
    );
}
