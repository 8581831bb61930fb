//! Bursts of jobs that are created unsuspended, with a limited number of writes a second: what runs is what the queue admits.

use std::collections::BTreeMap;
use std::time::Duration;

use model::fleet::govern::ADMITTED;

use super::tests::writes_of;
use super::tests_world::{World, queue};
use super::{PlannedWrite, Purpose, batch};

const SECOND: Duration = Duration::from_secs(1);
const DEVICES: usize = 16;
const WRITES: usize = 20;
const JOBS: usize = 1_400;

/// Sixteen devices and one queue that may use all of them.
fn world() -> World {
    let nodes = [("h100", 8), ("h100", 8)];
    World::new(&nodes, vec![queue("a", None, &[("h100", 16, None)])])
}

/// Jobs of one device each, all created unsuspended in this second, by priority.
fn burst(world: &mut World, priority: impl Fn(usize) -> i32) {
    for at in 0..JOBS {
        let created = world.now;
        let job = world.submit(&format!("j{at:04}"), "a", priority(at), 1, 1);
        job.governed.suspended = false;
        job.governed.created = created;
        job.lasts(Duration::from_secs(20));
    }
}

/// What happened in the seconds after a burst.
#[derive(Default)]
struct Course {
    /// Devices that unadmitted jobs had, by second.
    unadmitted: Vec<usize>,
    /// The longest time that one unadmitted job had its devices, seconds.
    longest: usize,
    /// Number of admissions in each second.
    admitted: Vec<usize>,
    /// Jobs that were noted as running before they were governed.
    adopted: usize,
}

fn course(world: &mut World, seconds: usize) -> Course {
    let mut out = Course::default();
    let mut had: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..seconds {
        world.pass(SECOND);
        let decision = world.turn_of(WRITES);
        let sent = batch(&decision.writes, WRITES, |_| true);
        let count = |purpose: Purpose| sent.iter().filter(|it| it.purpose == purpose).count();
        out.admitted.push(count(Purpose::Admit));
        out.adopted += count(Purpose::Adopt);
        world.is_sound(true);
        let mut unadmitted = 0;
        for job in &world.jobs {
            let runs = !job.nodes.is_empty() && !job.governed.suspended;
            if !runs || job.note(ADMITTED).is_some() {
                had.remove(&job.name);
                continue;
            }
            unadmitted += job.gpus as usize;
            let seconds = had.entry(job.name.clone()).or_default();
            *seconds += 1;
            out.longest = out.longest.max(*seconds);
        }
        out.unadmitted.push(unadmitted);
    }
    out
}

/// Suspending what has the devices takes two seconds at half of the writes; no wave of pods takes longer.
const BOUND: usize = DEVICES.div_ceil(WRITES / 2);

#[test]
fn a_burst_of_unsuspended_jobs_does_not_run_past_its_queue() {
    let mut world = world();
    // The first sixteen have the lowest priority, and kube-scheduler binds them first.
    burst(&mut world, |at| if at < DEVICES { 0 } else { 10 });
    let course = course(&mut world, 90);
    assert!(course.longest <= BOUND, "{}", course.longest);
    let later = &course.unadmitted[2 * BOUND..];
    // When all jobs end in one second, half of the writes admit those that start then.
    let most = DEVICES - WRITES / 2;
    assert!(later.iter().all(|devices| *devices <= most), "{later:?}");
    let seconds = later.iter().filter(|devices| **devices > 0).count();
    assert!(seconds <= later.len() / 20, "{later:?}");
    let mut parts = course.admitted.chunks(30);
    assert!(
        parts.all(|part| part.iter().sum::<usize>() >= DEVICES),
        "{:?}",
        course.admitted
    );
    assert_eq!(course.adopted, 0);
    for job in &world.jobs[..DEVICES] {
        assert!(
            job.governed.suspended,
            "{} has the lowest priority",
            job.name
        );
    }
}

/// kube-scheduler knows nothing of the queue's order: what it binds is suspended again and again, until every other job is.
#[test]
fn whom_the_scheduler_picks_against_the_order_of_the_queue_is_suspended_at_once() {
    let mut world = world();
    burst(&mut world, |at| (at * 7 % 101) as i32);
    let course = course(&mut world, JOBS / WRITES + 40);
    assert!(course.longest <= BOUND, "{}", course.longest);
    assert_eq!(course.adopted, 0);
    let last = &course.unadmitted[JOBS / WRITES + 10..];
    assert!(last.iter().all(|devices| *devices == 0), "{last:?}");
    assert!(course.admitted.iter().sum::<usize>() >= DEVICES);
}

/// Its suspension was not sent for a minute: that does not make it a job that ran before `govern` did.
#[test]
fn a_job_whose_suspension_was_not_sent_yet_does_not_count_as_admitted() {
    let mut world = world();
    let late = world.submit("late", "a", 0, 2, 8);
    late.governed.suspended = false;
    // One of its pods is bound.
    late.most_pods = 1;
    world.pass(SECOND);
    let decision = world.decide();
    assert_eq!(writes_of(&decision), ["suspend late"]);
    // Nothing was sent.
    world.new = decision.entering;
    world.pass(Duration::from_secs(90));
    assert_eq!(writes_of(&world.turn()), ["suspend late"]);
}

/// A new job that its queue would admit now is admitted where its pods are: stopping it would only cost it its start.
#[test]
fn a_new_job_that_is_next_in_its_queue_is_admitted_where_it_runs() {
    let mut world = world();
    world.submit("runs", "a", 0, 2, 4).governed.suspended = false;
    world.pass(SECOND);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["admit runs"]);
    assert_eq!(decision.writes[0].write.suspend, None);
    assert_eq!(decision.writes[0].write.nodes, None);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
}

#[test]
fn suspensions_and_other_writes_share_a_batch() {
    let mut world = world();
    burst(&mut world, |_| 0);
    let decision = world.decide();
    let new = decision
        .writes
        .iter()
        .find(|it| it.purpose == Purpose::Suspend)
        .expect("one");
    let of = |purpose: &Purpose| PlannedWrite {
        purpose: purpose.clone(),
        ..new.clone()
    };
    let counts = |suspend: usize, admit: usize, most: usize| {
        let mut all = vec![of(&Purpose::Suspend); suspend];
        all.extend(vec![of(&Purpose::Admit); admit]);
        let picked = batch(&all, most, |_| true);
        let new = picked.iter().filter(|it| it.purpose == Purpose::Suspend);
        (new.clone().count(), picked.len() - new.count())
    };
    assert_eq!(counts(100, 100, 20), (10, 10));
    assert_eq!(counts(100, 3, 20), (17, 3));
    assert_eq!(counts(3, 100, 20), (3, 17));
    assert_eq!(counts(100, 0, 20), (20, 0));
    assert_eq!(counts(5, 5, 1), (1, 1));
}
