//! The queue of exporters on a clock of its own.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const INTERVAL: Duration = Duration::from_secs(30);

fn at(millis: i64) -> Moment {
    Moment::from_millis(millis)
}

/// Runs the machine for `span` ms; each target ends after the result of `life`. Returns (moment, id) of each request.
fn drive(
    schedule: &mut Schedule,
    from: i64,
    span: i64,
    life: impl Fn(u64) -> (i64, ScrapeEnd),
) -> Vec<(i64, u64)> {
    let mut asked = Vec::new();
    let mut ends: BTreeSet<(i64, u64)> = BTreeSet::new();
    let mut now = from;
    while now < from + span {
        while let Some((when, id)) = ends.first().copied().filter(|(when, _)| *when <= now) {
            ends.pop_first();
            schedule.ended(id, life(id).1, at(when));
        }
        let end = ends.first().map_or(from + span, |(when, _)| *when);
        match schedule.next(at(now)) {
            NextScrape::Ask(id) => {
                asked.push((now, id));
                ends.insert((now + life(id).0, id));
            }
            NextScrape::Wait(until) => now = until.millis().min(end).max(now + 1),
            NextScrape::Rest => now = end.max(now + 1),
        }
    }
    // Whatever is under way ends before the next drive.
    for (when, id) in ends {
        schedule.ended(id, life(id).1, at(when));
    }
    asked
}

fn full(targets: u64, per_second: f64, places: usize) -> Schedule {
    let mut schedule = Schedule::new(per_second, places);
    for id in 0..targets {
        schedule.add(
            id,
            Some(Name::from(format!("n{id}"))),
            INTERVAL,
            ScrapeRoute::Proxy,
            at(0),
        );
    }
    schedule
}

fn most_in_a_second(asked: &[(i64, u64)]) -> usize {
    asked
        .iter()
        .map(|(start, _)| {
            asked
                .iter()
                .filter(|(at, _)| (*start..start + 1000).contains(at))
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn the_budget_is_kept_and_used() {
    let mut schedule = full(2000, 20.0, 32);
    let asked = drive(&mut schedule, 0, 60_000, |_| (40, ScrapeEnd::Well));
    assert!(most_in_a_second(&asked) <= 20);
    assert_eq!(asked.len(), 1200, "all of the budget is used");
    let round: BTreeSet<u64> = asked.iter().map(|(_, id)| *id).collect();
    assert_eq!(round.len(), 1200, "nobody is asked twice while others wait");
}

#[test]
fn no_target_is_asked_within_its_interval() {
    let mut schedule = full(50, 20.0, 32);
    let asked = drive(&mut schedule, 0, 300_000, |_| (20, ScrapeEnd::Well));
    let mut last: BTreeMap<u64, i64> = BTreeMap::new();
    for (when, id) in &asked {
        if let Some(before) = last.insert(*id, *when) {
            assert!(when - before >= 30_000, "{id} after {} ms", when - before);
        }
    }
    assert!(asked.len() >= 50 * 9, "{}", asked.len());
    // In the steady state they are spread over the interval, not in one burst.
    let late: Vec<(i64, u64)> = asked
        .iter()
        .copied()
        .filter(|(when, _)| *when > 120_000)
        .collect();
    assert!(most_in_a_second(&late) < 10, "{}", most_in_a_second(&late));
}

#[test]
fn a_failing_target_is_asked_less_and_less() {
    let mut schedule = full(1, 20.0, 4);
    let asked = drive(&mut schedule, 0, 3_600_000, |_| (20, ScrapeEnd::Badly));
    let gaps: Vec<i64> = asked.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert_eq!(gaps[..5], [30_000, 60_000, 120_000, 240_000, 480_000]);
    assert!(gaps[5..].iter().all(|gap| *gap == 600_000), "{gaps:?}");
}

#[test]
fn what_fails_is_asked_again_when_everything_is_to_be_read_again() {
    let mut schedule = full(3, 20.0, 4);
    let life = |id: u64| match id {
        0 => (20, ScrapeEnd::Badly),
        _ => (20, ScrapeEnd::Well),
    };
    let mut all = drive(&mut schedule, 0, 1_000_000, life);
    // However often a refresh is requested, no target is scraped before its exporter has new values.
    for step in 0..20 {
        schedule.hasten();
        all.extend(drive(&mut schedule, 1_000_000 + step * 5_000, 5_000, life));
    }
    for id in 0..3 {
        let times: Vec<i64> = all.iter().filter(|at| at.1 == id).map(|at| at.0).collect();
        assert!(times.iter().any(|at| (1_000_000..1_030_000).contains(at)));
        let mut gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.all(|gap| gap >= 30_000), "{times:?}");
    }
}

#[test]
fn hung_targets_delay_no_other_target() {
    let mut schedule = full(100, 20.0, 8);
    // Three in four never answer; each takes the whole timeout of 10 s.
    let life = |id: u64| {
        if id.is_multiple_of(4) {
            (50, ScrapeEnd::Well)
        } else {
            (10_000, ScrapeEnd::Badly)
        }
    };
    drive(&mut schedule, 0, 600_000, life);
    let asked = drive(&mut schedule, 600_000, 300_000, life);
    for id in (0..100).step_by(4) {
        let times = asked.iter().filter(|(_, asked)| *asked == id).count();
        assert!(times >= 9, "{id} was asked {times} times in ten intervals");
    }
}

#[test]
fn what_is_on_screen_goes_first_but_not_alone() {
    let mut schedule = full(4000, 20.0, 32);
    schedule.look_at((3000..3500).map(|id| Name::from(format!("n{id}"))));
    let asked = drive(&mut schedule, 0, 20_000, |_| (20, ScrapeEnd::Well));
    let near = asked
        .iter()
        .filter(|(_, id)| (3000..3500).contains(id))
        .count();
    assert_eq!((asked.len(), near), (400, 300));
    schedule.look_at([]);
    let after = drive(&mut schedule, 20_000, 5_000, |_| (20, ScrapeEnd::Well));
    assert!(
        after.iter().all(|(_, id)| *id < 3000),
        "the oldest come first again"
    );
}

#[test]
fn throttling_is_obeyed_and_halves_the_rate() {
    let mut schedule = full(4000, 20.0, 32);
    let first = schedule.next(at(0));
    let NextScrape::Ask(id) = first else {
        panic!("{first:?}")
    };
    schedule.ended(
        id,
        ScrapeEnd::Throttled(Some(Duration::from_secs(7))),
        at(10),
    );
    assert_eq!(schedule.next(at(20)), NextScrape::Wait(at(7010)));
    let asked = drive(&mut schedule, 7010, 60_000, |_| (20, ScrapeEnd::Well));
    assert!(
        most_in_a_second(&asked) <= 10,
        "{}",
        most_in_a_second(&asked)
    );
    let later = drive(&mut schedule, 300_000, 10_000, |_| (20, ScrapeEnd::Well));
    assert_eq!(most_in_a_second(&later), 20, "forgiven after a while");
}

#[test]
fn direct_targets_need_no_budget() {
    let mut schedule = full(10, 1.0, 32);
    for id in 100..110 {
        schedule.add(id, None, INTERVAL, ScrapeRoute::Direct, at(0));
    }
    let asked = drive(&mut schedule, 0, 2000, |_| (20, ScrapeEnd::Well));
    assert_eq!(asked.iter().filter(|(_, id)| *id >= 100).count(), 10);
    assert_eq!(asked.iter().filter(|(_, id)| *id < 100).count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_laws_hold_over_random_events(
        targets in 1u64..60,
        per_second in 1u32..40,
        places in 1usize..20,
        lives in prop::collection::vec((1i64..12_000, 0u8..4), 1..8),
    ) {
        let mut schedule = full(targets, f64::from(per_second), places);
        let asked = drive(&mut schedule, 0, 120_000, |id| {
            let (life, how) = lives[usize::try_from(id).unwrap_or(0) % lives.len()];
            let how = match how {
                0 => ScrapeEnd::Badly,
                1 => ScrapeEnd::Throttled(None),
                _ => ScrapeEnd::Well,
            };
            (life, how)
        });
        prop_assert!(most_in_a_second(&asked) <= per_second as usize);
        let mut last: BTreeMap<u64, i64> = BTreeMap::new();
        for (when, id) in &asked {
            if let Some(before) = last.insert(*id, *when) {
                prop_assert!(when - before >= 30_000);
            }
        }
        prop_assert!(!asked.is_empty());
    }
}
