//! Laws of the governor on generated clusters, for any events and any restarts.

use std::time::Duration;

use engine::snapshot::{Preemption, Reclaim, Within};
use model::base::rng::Rng;
use proptest::prelude::*;

use super::tests_world::{World, cohort, queue};
use super::{AdmissionState, Purpose};

const CLASSES: [&str; 2] = ["a100", "h100"];

fn one<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len())]
}

fn world(rng: &mut Rng) -> World {
    let count = rng.below(4) + 2;
    let nodes: Vec<(&str, u32)> = (0..count).map(|_| (one(rng, &CLASSES), 4)).collect();
    let mut queues = vec![cohort("top")];
    for name in ["a", "b", "c"] {
        let parent = one(rng, &[Some("top"), Some("top"), None]);
        let mut quotas = Vec::new();
        for class in CLASSES {
            let borrow = rng.below(3) == 0 && parent.is_some();
            quotas.push((
                class,
                rng.below(9) as i64,
                borrow.then_some(rng.below(5) as i64),
            ));
        }
        let mut own = queue(name, parent, &quotas);
        own.preemption = Preemption {
            within: one(
                rng,
                &[
                    Within::Never,
                    Within::LowerPriority,
                    Within::LowerOrNewerEqual,
                ],
            ),
            reclaim: one(rng, &[Reclaim::Never, Reclaim::LowerPriority, Reclaim::Any]),
            ..Preemption::default()
        };
        queues.push(own);
    }
    World::new(&nodes, queues)
}

fn arrive(world: &mut World, rng: &mut Rng, number: usize, wild: bool) {
    let queue = one(rng, &["a", "a", "b", "c", "nowhere", "top"]);
    let name = format!("j{number:03}");
    let (priority, pods, gpus) = (
        rng.below(4) as i32,
        rng.below(3) as u32 + 1,
        rng.below(4) as u32 + 1,
    );
    let now = world.now;
    let job = world.submit(&name, queue, priority, pods, gpus);
    job.governed.suspended = !wild || rng.below(3) > 0;
    job.lasts(Duration::from_secs(rng.below(300) as u64 + 30));
    job.last_checkpoint = (rng.below(3) == 0).then_some(now);
    match rng.below(12) {
        0 if wild => {
            job.governed.queue = "".into();
            job.queue = String::new();
            job.governed.suspended = false;
        }
        1 if wild => job.refused = Some("another has it".to_owned()),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_over_committed_after_any_write_wherever_it_stops(seed in any::<u64>(), wild in any::<bool>()) {
        let rng = &mut Rng::new(seed);
        let mut world = world(rng);
        let mut made = 0;
        for _ in 0..60 {
            for _ in 0..rng.below(3) {
                if made < 24 {
                    arrive(&mut world, rng, made, wild);
                    made += 1;
                }
            }
            let decision = world.decide();
            for (key, standing) in &decision.standings {
                if matches!(standing, AdmissionState::Admits) {
                    let job = world.jobs.iter().find(|job| job.key() == *key).expect("a job");
                    prop_assert!(["a", "b", "c"].contains(&job.queue.as_str()));
                }
            }
            // The leader may be killed after any write: its successor knows only what is on the objects.
            let done = match rng.below(4) {
                0 => rng.below(decision.writes.len() + 1),
                _ => decision.writes.len(),
            };
            for write in &decision.writes[..done] {
                let job = world.jobs.iter().find(|job| job.key() == write.job).expect("a job");
                prop_assert!(job.refused.is_none() && !job.governed.queue.is_empty(), "{} is another's", job.name);
                world.apply(write);
                world.is_sound(wild);
            }
            if done == decision.writes.len() {
                // A second decision at the same time repeats nothing and reverts nothing.
                let again = world.decide();
                for write in &again.writes {
                    let before = decision.writes.iter().find(|it| it.job == write.job);
                    let before = before.map(|it| &it.purpose);
                    let goes_on = match before {
                        None => true,
                        Some(Purpose::Suspend) => write.purpose == Purpose::Admit,
                        Some(Purpose::Adopt | Purpose::KeepRunning | Purpose::AskCheckpoint) => Some(&write.purpose) != before,
                        Some(_) => false,
                    };
                    prop_assert!(goes_on, "seed {seed}: {before:?}, then {write:?}");
                }
            }
            world.pass(Duration::from_secs(rng.below(30) as u64 + 1));
        }
        for job in &world.jobs {
            prop_assert!(job.ended <= 1, "{} ran twice to its end", job.name);
        }
    }
}
