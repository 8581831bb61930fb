//! The process is killed at random points, a hundred times: the run is taken up, and nothing is done twice.

use exec::{RunEnd, StepResult};
use rand::{RngExt, SeedableRng};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hundred_killed_consoles_resume_without_doing_anything_twice() {
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(11);
    for case in 0..100 {
        let service = tiny();
        let operator = Operator::new(&service);
        let plan = jobs(&service, &["a", "b", "c"]).await;
        let approved = operator.approve(plan);
        let run = format!("r{case}");
        let mut begun = false;
        // Up to three processes in a row are killed, each while one of its requests is under way.
        for _ in 0..rng.random_range(1..4) {
            let (mut left, carried_out) = (rng.random_range(0..9), rng.random_bool(0.5));
            service.rule(move |_, _| {
                left -= 1;
                if left == -1 {
                    Fate::Hangs { carried_out }
                } else {
                    Fate::Pass
                }
            });
            let mut hung = service.hung.subscribe();
            let (_stop, stopped) = watch::channel(false);
            let work = operator.context(stopped, async |context| {
                if begun {
                    context.resume_run(&operator.grant, &run).await
                } else {
                    context.carry_out(&approved, &run).await
                }
            });
            tokio::select! {
                end = work => { end.expect("runs"); break; }
                _ = hung.wait_for(|hung| *hung) => {}
            }
            begun = operator.runs().iter().any(|known| known.name == run);
        }
        service.rule(|_, _| Fate::Pass);
        let past = operator.runs().pop();
        let end = match past.and_then(|past| past.end) {
            Some(end) => end,
            None if begun => operator.resume_run(&run).await.expect("goes on"),
            None => {
                let (_stop, stopped) = watch::channel(false);
                operator
                    .context(stopped, async |context| {
                        context.carry_out(&approved, &run).await
                    })
                    .await
                    .expect("runs")
            }
        };
        assert_eq!(end, RunEnd::Done, "case {case}");
        let mut writes = service.writes();
        writes.sort();
        assert_eq!(writes.len(), 3, "case {case}: {writes:?}");
        writes.dedup();
        assert_eq!(writes.len(), 3, "case {case}: {writes:?}");
        for name in ["a", "b", "c"] {
            assert!(is_suspended(&service, name).await, "case {case}: {name}");
        }
        let past = operator.runs().pop().expect("a run");
        assert!(
            past.steps
                .iter()
                .all(|step| step.over == Some(StepResult::Done) && step.has_written()),
            "case {case}: {:?}",
            past.steps
        );
    }
}
