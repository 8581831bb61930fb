//! The same load on plain kube-scheduler: pods are scheduled by priority and creation time, and an incomplete gang keeps its
//! devices.

use std::cmp::Reverse;
use std::time::Duration;

use super::tests_load::{Account, Figures, Load, Submission};

struct Racer<'a> {
    job: &'a Submission,
    /// Node of each scheduled pod.
    nodes: Vec<usize>,
    left: Duration,
    /// When its pods were created.
    made: Duration,
    /// When the first of its pods was scheduled.
    since: Option<Duration>,
}

impl Racer<'_> {
    fn is_whole(&self) -> bool {
        self.nodes.len() == self.job.pods as usize
    }
}

/// Runs the load. An incomplete gang fails after `patience`, as with a rendezvous timeout, and its pods are recreated; without
/// `patience` it waits forever. There is no preemption: kube-scheduler would evict single pods of gangs.
pub(super) fn race(load: &Load, spreads: bool, patience: Option<Duration>) -> Figures {
    let mut free: Vec<u32> = vec![load.devices() / load.nodes as u32; load.nodes];
    let mut account = Account::default();
    let mut coming = load.jobs.iter().peekable();
    let mut racers: Vec<Racer<'_>> = Vec::new();
    let mut now = Duration::ZERO;
    loop {
        let ends = racers
            .iter()
            .filter(|it| it.is_whole())
            .map(|it| now + it.left);
        let fails = racers.iter().filter(|it| !it.is_whole());
        let fails = fails.filter_map(|it| Some(it.since? + patience?));
        let Some(next) = ends
            .chain(fails)
            .chain(coming.peek().map(|job| job.at))
            .min()
        else {
            return account.figures(load);
        };
        let by = next.saturating_sub(now);
        account.pass(
            load,
            (now, by),
            racers.iter().map(|it| (it.job, it.is_whole())),
        );
        now += by;
        for racer in &mut racers {
            let is_whole = racer.is_whole();
            if is_whole {
                racer.left = racer.left.saturating_sub(by);
            }
            let fails = !is_whole
                && patience
                    .is_some_and(|patience| racer.since.is_some_and(|it| it + patience <= now));
            if racer.left.is_zero() || fails {
                for node in racer.nodes.drain(..) {
                    free[node] += racer.job.gpus;
                }
                (racer.made, racer.since) = (now, None);
            }
        }
        for ended in racers.extract_if(.., |it| it.left.is_zero()) {
            account.ended(ended.job, now);
        }
        while let Some(job) = coming.next_if(|job| job.at <= now) {
            racers.push(Racer {
                job,
                nodes: Vec::new(),
                left: job.runs,
                made: now,
                since: None,
            });
        }
        racers.sort_by_key(|it| (Reverse(it.job.priority), it.made));
        for racer in &mut racers {
            while !racer.is_whole() {
                let mut fit = (0..free.len()).filter(|node| free[*node] >= racer.job.gpus);
                let found = match spreads {
                    true => fit.max_by_key(|node| (free[*node], Reverse(*node))),
                    false => fit.next(),
                };
                let Some(node) = found else { break };
                free[node] -= racer.job.gpus;
                racer.nodes.push(node);
                racer.since.get_or_insert(now);
            }
        }
    }
}
