//! Tests of small schedules computed by hand, and laws over generated ones.

use proptest::prelude::*;

use super::{
    Discipline, Fate, NODE, QueueingReplayFigures, QueueingResult, RESUME, TraceJob, TraceQueue,
    jobs, pool, queues, replay, sized,
};

/// Submission and duration in seconds.
fn job(submit: i64, devices: u32, duration: i64) -> TraceJob {
    TraceJob {
        submit: submit * 1_000,
        queue: String::new(),
        devices,
        duration: duration * 1_000,
    }
}

fn run(jobs: &[TraceJob], devices: u64, discipline: Discipline) -> QueueingResult {
    replay(jobs, &[pool(devices)], discipline, &mut |_, _| {})
}

/// First start of each job, in seconds.
fn starts(past: &QueueingResult) -> Vec<i64> {
    let first = |job: usize| {
        let spans = past.spans.iter().filter(|span| span.job == job);
        spans.map(|span| span.from / 1_000).min().expect("has run")
    };
    (0..past.fates.len()).map(first).collect()
}

fn fates(past: &QueueingResult) -> Vec<Fate> {
    past.fates
        .iter()
        .map(|fate| fate.expect("has run"))
        .collect()
}

/// Six of eight devices for 100 s, then a job that needs all, one that would delay it, one that would not.
fn crowd() -> [TraceJob; 4] {
    [job(0, 6, 100), job(1, 8, 10), job(2, 2, 200), job(3, 2, 50)]
}

#[test]
fn fifo_waits_behind_its_head() {
    assert_eq!(
        starts(&run(&crowd(), 8, Discipline::Fifo)),
        [0, 100, 110, 110]
    );
}

#[test]
fn best_effort_starts_any_job_that_fits() {
    assert_eq!(
        starts(&run(&crowd(), 8, Discipline::BestEffort)),
        [0, 202, 2, 100]
    );
}

#[test]
fn easy_lets_pass_who_does_not_delay_the_head() {
    let past = run(&crowd(), 8, Discipline::Easy);
    assert_eq!(starts(&past), [0, 100, 110, 3]);
    assert_eq!(fates(&past)[1].reserved_start, Some(100_000));
    // With a second node, the long one fits beside the reservation.
    let jobs = [
        job(0, 8, 100),
        job(0, 4, 100),
        job(1, 8, 10),
        job(2, 2, 500),
        job(3, 4, 500),
    ];
    let past = run(&jobs, 16, Discipline::Easy);
    // The fifth would fit beside the reservation too, but finds two devices only while the second runs.
    assert_eq!(starts(&past), [0, 0, 100, 2, 100]);
}

#[test]
fn gangs_take_whole_nodes_and_the_tightest_remainder() {
    let jobs = [job(0, 3, 100), job(1, 12, 100), job(2, 8, 100)];
    let past = run(&jobs, 24, Discipline::Fifo);
    let holds: Vec<Vec<(usize, u32)>> = past
        .spans
        .iter()
        .map(|span| {
            span.holds
                .iter()
                .map(|hold| (hold.node, hold.devices))
                .collect()
        })
        .collect();
    assert_eq!(holds, [vec![(0, 3)], vec![(1, 8), (0, 4)], vec![(2, 8)]]);
    // Enough free devices in total is not enough: a job of up to a node's devices runs on one node.
    let jobs = [job(0, 5, 100), job(0, 5, 100), job(1, 6, 10)];
    assert_eq!(starts(&run(&jobs, 16, Discipline::BestEffort)), [0, 0, 100]);
}

#[test]
fn ours_stops_a_long_job_for_a_short_one_where_that_pays() {
    let past = run(
        &[job(0, 8, 1_000), job(10, 8, 10)],
        8,
        Discipline::Stokehold,
    );
    let [long, short] = fates(&past)[..] else {
        panic!("two jobs");
    };
    assert_eq!(
        (short.finish, short.waited, short.preempted),
        (20_000, 0, 0)
    );
    // It has waited 10 s, and resumes for 62 s before its last 990.
    assert_eq!(
        (long.waited, long.preempted, long.lost),
        (10_000, 1, RESUME)
    );
    assert_eq!(long.finish, 20_000 + RESUME + 990_000);
    // 62 s of cost to gain 40: no preemption.
    let past = run(
        &[job(0, 8, 1_000), job(10, 8, 950)],
        8,
        Discipline::Stokehold,
    );
    assert_eq!(starts(&past), [0, 1_000]);
    let jobs = [job(0, 8, 1_000), job(10, 8, 10)];
    let figures = QueueingReplayFigures::of(&jobs, &run(&jobs, 8, Discipline::Stokehold));
    assert_eq!((figures.preemptions, figures.lost), (1, 8 * RESUME));
    assert_eq!(figures.jct_mean, Some((1_072_000 + 10_000) / 2));
}

#[test]
fn least_is_disturbed() {
    // Nodes used by a gang of 16, one of 8 and eight singles: preempting one single suffices.
    let jobs = [
        job(0, 16, 10_040),
        job(0, 8, 9_000),
        job(0, 1, 8_000),
        job(10, 1, 10),
    ];
    let mut jobs = jobs.to_vec();
    jobs.extend((0..7).map(|_| job(0, 1, 10_000)));
    let past = run(&jobs, 32, Discipline::Stokehold);
    let stopped: Vec<usize> = (0..jobs.len())
        .filter(|&at| fates(&past)[at].preempted > 0)
        .collect();
    assert_eq!(stopped.len(), 1);
    assert!(
        stopped[0] >= 4,
        "one of the singles with most to go, not {stopped:?}"
    );
    assert_eq!(fates(&past)[3].waited, 0);
}

const DAY: i64 = 86_400_000;

/// Short jobs, so many for each node and each ready when the last on its node is done, and then long gangs of a node.
fn crowded(nodes: usize, each: usize, gangs: usize) -> Vec<TraceJob> {
    let short = |at: usize| job(500 * (at / nodes) as i64, 8, 500);
    let mut jobs: Vec<TraceJob> = (0..each * nodes).map(short).collect();
    jobs.extend((0..gangs).map(|_| job(1, 8, 200_000)));
    jobs
}

/// Short jobs for eleven days.
const ELEVEN_DAYS: usize = 1_900;

#[test]
fn a_gang_is_not_passed_for_longer_than_its_bound() {
    for (discipline, days) in [
        (Discipline::Stokehold, 9),
        (Discipline::StokeholdUnknown, 7),
    ] {
        let past = run(&crowded(1, ELEVEN_DAYS, 1), 8, discipline);
        let gang = fates(&past)[ELEVEN_DAYS];
        assert_eq!(gang.waited, days * DAY, "{discipline}");
        // After such a wait it is not preempted again.
        let last = past
            .spans
            .iter()
            .filter(|span| span.job == ELEVEN_DAYS)
            .map(|span| span.until)
            .max();
        assert_eq!(last, Some(gang.finish));
    }
}

#[test]
fn after_a_day_gangs_have_an_eighth_and_then_all_but_a_node() {
    let waited = |nodes: usize, each: usize| -> Vec<i64> {
        let devices = 8 * nodes as u64;
        let past = run(&crowded(nodes, each, 2), devices, Discipline::Stokehold);
        let gangs = &fates(&past)[nodes * each..];
        gangs.iter().map(|gang| gang.waited).collect()
    };
    // One of eight nodes is an eighth: the second gang waits until the first ends.
    assert_eq!(waited(8, 600), [DAY, DAY + 200_000_000]);
    // One of two nodes is more than an eighth, and the other stays with the short jobs.
    assert_eq!(waited(2, 2_000), [9 * DAY, 9 * DAY + 200_000_000]);
}

#[test]
fn least_attained_service_counts_devices_and_protects_none() {
    // The first level is half an hour of one device, and 225 s of eight; within a level nothing is stopped.
    let passed = |devices: u32| {
        let jobs = [job(0, devices, 4_000), job(10, 8, 10)];
        starts(&run(&jobs, 8, Discipline::Las))[1]
    };
    assert_eq!([passed(1), passed(8)], [1_800, 225]);
    // Every short job passes the gang that has had more.
    let past = run(&crowded(1, ELEVEN_DAYS, 1), 8, Discipline::Las);
    assert!(fates(&past)[ELEVEN_DAYS].waited > 9 * DAY);
}

#[test]
fn without_durations_the_young_pass_the_old() {
    let jobs = [job(0, 8, 5_000), job(2_000, 8, 10)];
    let past = run(&jobs, 8, Discipline::StokeholdUnknown);
    let fates = fates(&past);
    assert_eq!((fates[0].preempted, fates[1].waited), (1, 0));
}

#[test]
fn files_say_where_they_are_wrong() {
    let text = "timestamp,duration,num_gpus,gpu_time,cluster\n\
                2017-10-09 07:01:55,66.5,1,66.0,b\n\
                2017-10-09T07:01:54Z,0.0,16,0,a\n\n";
    let read = jobs(text.as_bytes(), "j.csv").expect("is right");
    let short: Vec<_> = read
        .iter()
        .map(|job| (job.devices, job.duration, job.submit % 60_000))
        .collect();
    assert_eq!(short, [(16, 1_000, 54_000), (1, 66_500, 55_000)]);
    let fault = |text: &str| jobs(text.as_bytes(), "j.csv").expect_err(text).to_string();
    assert_eq!(
        fault("timestamp,duration,num_gpus,cluster\nyesterday,1,1,a\n"),
        "j.csv:2: timestamp: `yesterday` is not a time; write 2017-10-09 07:01:55, RFC 3339, or seconds"
    );
    assert_eq!(
        fault("timestamp,duration,num_gpu,cluster\n0,1,1,a\n"),
        "j.csv:1: num_gpus: the header has no such column; is it `num_gpu`?"
    );
    assert!(
        fault("timestamp,duration,num_gpus,cluster\n0,1,0,a\n").contains("a job needs a device")
    );
    let queue = |text: &str| queues(text.as_bytes(), "q.csv");
    let two = queue("cluster,nodes\nb,2\na,1\n").expect("is right");
    let nodes: Vec<_> = two
        .iter()
        .map(|queue| (queue.name.as_str(), queue.nodes.clone()))
        .collect();
    assert_eq!(nodes, [("a", vec![8]), ("b", vec![8, 8])]);
    assert_eq!(
        queue("cluster,devices\na,11\n").expect("is right")[0].nodes,
        [8, 3]
    );
    assert!(queue("cluster,nodes\na,0\n").is_err());
    assert!(queue("cluster,nodes\na,1\na,2\n").is_err());
}

#[test]
fn queues_are_apart_and_what_can_never_run_is_left_out() {
    let mut jobs = [job(0, 8, 100), job(1, 8, 100), job(2, 9, 100), job(3, 1, 1)];
    for (job, queue) in jobs.iter_mut().zip(["a", "b", "a", "c"]) {
        job.queue = queue.into();
    }
    let both = queues(b"cluster,nodes\na,1\nb,1\n", "q.csv").expect("is right");
    for discipline in Discipline::ALL {
        let past = replay(&jobs, &both, discipline, &mut |_, _| {});
        let ends: Vec<_> = past
            .fates
            .iter()
            .map(|fate| fate.map(|fate| fate.finish))
            .collect();
        assert_eq!(
            ends,
            [Some(100_000), Some(101_000), None, None],
            "{discipline}"
        );
        assert_eq!(QueueingReplayFigures::of(&jobs, &past).never, 2);
    }
    let pool: TraceQueue = sized(&[job(0, 20, 10), job(100, 1, 10)]);
    assert_eq!(pool.nodes, [NODE; 3]);
}

#[test]
fn figures_are_nearest_ranks() {
    let jobs: Vec<TraceJob> = (0..100).map(|_| job(0, 1, 1)).collect();
    let figures = QueueingReplayFigures::of(&jobs, &run(&jobs, 1, Discipline::Fifo));
    assert_eq!(figures.jct_p50, Some(50_000));
    assert_eq!(figures.jct_p95, Some(95_000));
    assert_eq!(figures.wait_p95, Some(94_000));
    assert_eq!(
        (figures.jct_mean, figures.wait_p99_gangs),
        (Some(50_500), None)
    );
}

fn crowds() -> impl Strategy<Value = Vec<TraceJob>> {
    let devices = prop::sample::select(vec![1, 1, 1, 2, 3, 4, 8, 9, 16, 20]);
    let one = (0_i64..2_000, devices, 1_i64..3_000);
    prop::collection::vec(one, 1..40).prop_map(|jobs| {
        let mut jobs: Vec<TraceJob> = jobs
            .into_iter()
            .map(|(at, devices, time)| job(at, devices, time))
            .collect();
        jobs.sort();
        jobs
    })
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop::sample::select(Discipline::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn gangs_run_whole_for_their_time_and_no_device_twice(jobs in crowds(), discipline in discipline()) {
        let past = run(&jobs, 24, discipline);
        for (at, (job, fate)) in jobs.iter().zip(fates(&past)).enumerate() {
            let spans = || past.spans.iter().filter(|span| span.job == at);
            let held: i64 = spans().map(|span| span.until - span.from).sum();
            prop_assert_eq!(held, job.duration + fate.lost);
            prop_assert_eq!(spans().count(), 1 + fate.preempted as usize);
            prop_assert_eq!(fate.finish - job.submit, fate.waited + held);
            for span in spans() {
                prop_assert_eq!(span.holds.iter().map(|hold| hold.devices).sum::<u32>(), job.devices);
                prop_assert!(span.from >= job.submit);
                prop_assert!(span.holds.len() == job.devices.div_ceil(NODE) as usize);
            }
        }
        // At every start, allocations do not exceed the capacity.
        for span in &past.spans {
            let mut free = [i64::from(NODE); 3];
            for other in past.spans.iter().filter(|other| other.from <= span.from && span.from < other.until) {
                for hold in &other.holds {
                    free[hold.node] -= i64::from(hold.devices);
                }
            }
            prop_assert!(free.iter().all(|free| *free >= 0), "{free:?}");
        }
        prop_assert_eq!(&past, &run(&jobs, 24, discipline));
    }

    #[test]
    fn fifo_starts_in_the_order_of_submission(jobs in crowds()) {
        prop_assert!(starts(&run(&jobs, 24, Discipline::Fifo)).is_sorted());
    }

    #[test]
    fn easy_keeps_its_promises(jobs in crowds()) {
        let past = run(&jobs, 24, Discipline::Easy);
        for (job, fate) in jobs.iter().zip(fates(&past)) {
            if let Some(promised) = fate.reserved_start {
                prop_assert!(job.submit + fate.waited <= promised);
            }
        }
    }

    #[test]
    fn what_is_unknown_decides_nothing(jobs in crowds(), which: prop::sample::Index, more in 1_i64..9_000) {
        let before = run(&jobs, 24, Discipline::StokeholdUnknown);
        let which = which.index(jobs.len());
        let mut longer = jobs.clone();
        longer[which].duration += more * 1_000;
        // Before the job has finished, its longer duration is unknown.
        let known = fates(&before)[which].finish;
        let after = run(&longer, 24, Discipline::StokeholdUnknown);
        let seen = |past: &QueueingResult| {
            let mut spans: Vec<_> = past
                .spans
                .iter()
                .filter(|span| span.from < known)
                .map(|span| (span.from, span.job, span.holds.iter().map(|hold| hold.node).collect::<Vec<_>>()))
                .collect();
            spans.sort();
            spans
        };
        prop_assert_eq!(seen(&before), seen(&after));
    }
}
