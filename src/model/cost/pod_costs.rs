//! What ended pods cost: a job's cost so far does not fall when one of its pods is replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Moment, ObjectKey};
use crate::fleet::Fleet;
use crate::fleet::device::Pod;
use crate::fleet::job::{Job, JobKey};

use super::money::Money;
use super::spend_rates::{EndedPods, SpendRates};

/// Follows the pods of jobs from snapshot to snapshot. A pod that came and went between two is not seen.
#[derive(Default)]
pub struct PodCosts {
    /// Jobs and pods of the last snapshot, and its moment.
    jobs: Arc<[Arc<Job>]>,
    pods: Arc<[(Arc<Pod>, Money)]>,
    at: Moment,
    ended: Arc<BTreeMap<JobKey, EndedPods>>,
}

impl PodCosts {
    /// Adds to the jobs' cost so far what their pods cost that ended since the first snapshot.
    pub fn follow(&mut self, fleet: &Fleet, rates: &mut SpendRates) {
        self.note_ended(fleet);
        for (job, ended) in self.ended.iter() {
            if let Some((_, so_far)) = rates.jobs.get_mut(job) {
                *so_far += ended.cost;
            }
        }
        rates.ended = Arc::clone(&self.ended);
        self.jobs = Arc::clone(&fleet.jobs);
        self.pods = Arc::clone(&rates.pods);
        self.at = fleet.at;
    }

    fn note_ended(&mut self, fleet: &Fleet) {
        let (mut pods, mut over) = (Vec::new(), Vec::new());
        for (at, old) in self.jobs.iter().enumerate() {
            let same_place = fleet.jobs.get(at).filter(|new| new.id == old.id);
            match same_place.or_else(|| fleet.job(&old.id)) {
                Some(new) if Arc::ptr_eq(old, new) => {}
                Some(new) if new.is_live() && new.uid == old.uid => {
                    let has_ended = |pod: &&Arc<Pod>| pod.holds_devices() && !still_holds(new, pod);
                    pods.extend(old.pods.iter().filter(has_ended));
                }
                _ if self.ended.contains_key(&old.id) => over.push(&old.id),
                _ => {}
            }
        }
        if pods.is_empty() && over.is_empty() {
            return;
        }
        let ended = Arc::make_mut(&mut self.ended);
        for job in over {
            ended.remove(job);
        }
        for pod in &pods {
            let since = pod.held_since();
            let of_job = ended.entry(pod.job.clone()).or_insert(EndedPods {
                pods: 0,
                cost: Money::ZERO,
                since,
            });
            of_job.pods += 1;
            of_job.since = of_job.since.min(since);
        }
        let keys: BTreeSet<&ObjectKey> = pods.iter().map(|pod| pod.key()).collect();
        for (pod, rate) in self.pods.iter().filter(|(pod, _)| keys.contains(pod.key())) {
            if let Some(of_job) = ended.get_mut(&pod.job) {
                of_job.cost += rate.over(self.at.since(pod.held_since()));
            }
        }
    }
}

/// True while the same pod has devices allocated: a StatefulSet's next pod has its name.
fn still_holds(job: &Job, old: &Pod) -> bool {
    job.pods.iter().any(|pod| {
        let is_same = pod.seen.key == old.seen.key && pod.seen.uid == old.seen.uid;
        is_same && pod.seen.created == old.seen.created && pod.holds_devices()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::{Name, Rate};
    use crate::cost::prices::Prices;
    use crate::cost::sample::{allocated_to, device, fleet, node, now, pod};
    use crate::cost::{PriceBook, spend_rates};
    use crate::fleet::job::JobState;
    use crate::fleet::rules::accelerator::Catalog;

    /// A book with an H100 at 4 USD an hour.
    const BOOK: &str = r#"
provider = "market"
prices = [{ accelerator = "H100", devices = 1, purchase = "on-demand", usd_per_hour = 4.0, as_of = "2026" }]
"#;

    /// A Deployment of these pods, each with a device since an hour before the sample's moment.
    fn of_pods(names: &[&str]) -> Fleet {
        let pods: Vec<Arc<Pod>> = names
            .iter()
            .map(|name| {
                let mut pod = Pod::clone(&pod("nlp", name, None, "nlp"));
                let seen = Arc::make_mut(&mut pod.seen);
                seen.uid = Name::from(format!("uid of {name}"));
                seen.requests.devices = Box::from([(Name::new("nvidia.com/gpu"), 1)]);
                Arc::new(pod)
            })
            .collect();
        let devices = pods.iter().enumerate();
        let devices = devices.map(|(at, pod)| allocated_to(device("n", at as u32, "H100"), pod));
        let mut fleet = fleet(vec![node("n", "p", None, devices.collect())]);
        let id = pods[0].job.clone();
        fleet.jobs = Arc::from([Arc::new(Job {
            state: JobState::Running,
            pods: pods.into(),
            ..Job::unknown(id)
        })]);
        fleet
    }

    fn usd(costs: &mut PodCosts, fleet: &Fleet) -> f64 {
        let books = vec![PriceBook::parse(BOOK, "test").expect("parses")];
        let mut rates = spend_rates(fleet, &Prices::new(books, &Catalog::default()));
        costs.follow(fleet, &mut rates);
        rates.jobs[&fleet.jobs[0].id].1.usd()
    }

    #[test]
    fn a_replaced_pod_stays_in_the_cost_of_its_job() {
        let mut costs = PodCosts::default();
        assert_eq!(usd(&mut costs, &of_pods(&["chat-a", "chat-b"])), 8.0);
        // An hour later the second pod is another one, allocated at that moment.
        let mut later = of_pods(&["chat-a", "chat-c"]);
        later.at = now().plus(Duration::from_secs(3600));
        let mut job = Job::clone(&later.jobs[0]);
        let mut fresh = Pod::clone(&job.pods[1]);
        Arc::make_mut(&mut fresh.seen).scheduled = Some(later.at);
        let fresh = Arc::new(fresh);
        let mut one = (*later.nodes[0]).clone();
        one.devices[1] = allocated_to(device("n", 1, "H100"), &fresh);
        later.nodes = Arc::from([Arc::new(one)]);
        job.pods[1] = fresh;
        later.jobs = Arc::from([Arc::new(job)]);
        // Two hours of the first, one of the pod that ended, nothing yet of the new one.
        assert_eq!(usd(&mut costs, &later), 12.0);
        assert_eq!(usd(&mut costs, &later), 12.0, "it counts once");
        let ended = costs.ended[&later.jobs[0].id];
        assert_eq!(
            (ended.pods, ended.cost.all, ended.since),
            (
                1,
                Rate::from_usd(4.0).expect("fits"),
                now().minus(Duration::from_secs(3600))
            )
        );
        // A job of the same name that is another one begins anew.
        let mut anew = of_pods(&["chat-d"]);
        let mut job = Job::clone(&anew.jobs[0]);
        job.uid = Name::new("another");
        anew.jobs = Arc::from([Arc::new(job)]);
        assert_eq!(usd(&mut costs, &anew), 4.0);
        assert!(costs.ended.is_empty());
    }
}
