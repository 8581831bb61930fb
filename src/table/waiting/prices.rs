//! What a change that starts a waiting job costs: nodes and devices an hour, and the work that evicted jobs lose.

use engine::explain::UnblockChange;
use model::base::quantities::grouped;
use model::cost::{Money, SpendScope};
use model::fleet::job::Job;
use model::plan::Evicted;

use super::explanations::money_of;
use crate::Facts;

/// ` ($5 720/h)`, ` (64 H100 cost $440/h*)`, ` ($12* of work lost)`, and the sum for its mark; empty where no price is known.
/// Quota is priced as the devices that it is for, which are paid for already where they stand idle.
pub fn price_words(
    facts: &Facts,
    job: &Job,
    changes: &[UnblockChange],
    victims: &[Evicted],
) -> (String, Money) {
    let (mut words, mut sum) = (Vec::new(), Money::ZERO);
    let nodes = changes.iter().filter_map(|change| match change {
        UnblockChange::Nodes { like, count, .. } => {
            let one = facts.spend_rates.nodes.get(like)?;
            Some(one.times(u64::from(*count)))
        }
        _ => None,
    });
    match nodes.reduce(|sum, one| sum + one) {
        Some(rate) => {
            words.push(rate.per_hour());
            sum += rate;
        }
        None => {
            let quotas = changes.iter();
            for (devices, rate) in quotas.filter_map(|change| of_quota(facts, job, change)) {
                words.push(format!("{devices} cost {}", rate.per_hour()));
                sum += rate;
            }
        }
    }
    if let Some(lost) = lost(facts, victims) {
        words.push(format!("{} of work lost", lost.dollars()));
        sum += lost;
    }
    match words.is_empty() {
        true => (String::new(), sum),
        false => (format!(" ({})", words.join("; ")), sum),
    }
}

/// Devices that a quota is raised by, and their rate at the mean price of their class in the fleet.
fn of_quota(facts: &Facts, job: &Job, change: &UnblockChange) -> Option<(String, Money)> {
    let UnblockChange::Quota { resource, add, .. } = change else {
        return None;
    };
    let class = job.class.as_ref()?;
    let is_whole = resource.contains('/') && !resource.contains("/mig-") && add % 1_000 == 0;
    let row = facts.whole_burn().row(SpendScope::Class, class)?;
    if !is_whole || row.unpriced > 0 || row.unknown_slices > 0 || row.devices.is_zero() {
        return None;
    }
    let millionths = u64::try_from(*add).ok()?.checked_mul(1_000)?;
    let rate = row.spend.rate.share(millionths, row.devices.millionths());
    Some((format!("{} {class}", grouped(add / 1_000)), rate))
}

/// What the work costs that these jobs lose; `None` where none holds a device, and where a price is not known.
fn lost(facts: &Facts, victims: &[Evicted]) -> Option<Money> {
    let holding = victims.iter().filter(|it| !it.only_releases_quota());
    let lost = holding.map(|victim| {
        let job = facts.fleet.job_named(&victim.job.to_string())?;
        let lost_ms = victim.lost_device_seconds.checked_mul(1_000)?;
        money_of(&facts.fleet, facts.whole_burn(), &job.id, lost_ms)
    });
    lost.reduce(|sum, one| Some(sum? + one?))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::base::Name;
    use model::plan::JobName;

    #[test]
    fn quota_costs_what_its_devices_do_and_an_eviction_what_work_it_loses() {
        let facts = sample::facts();
        let jobs = facts.fleet.jobs.iter();
        let holds = |job: &&std::sync::Arc<Job>| {
            let rate = facts.spend_rates.jobs.get(&job.id);
            rate.is_some_and(|(spend, _)| spend.rate != Money::ZERO) && !job.is_sliced()
        };
        let job = jobs.into_iter().find(holds).expect("a job holds devices");
        let mut waits = Job::clone(job);
        waits.class = Some(Name::new("H100"));
        let row = facts.spend_rates.row(SpendScope::Class, "H100");
        let row = row.expect("H100s have a price");
        let quota = |resource: &str| UnblockChange::Quota {
            queue: Name::new("q"),
            flavor: Name::new("h100"),
            resource: Name::new(resource),
            add: 2_000,
            nominal: 4_000,
        };
        let (words, sum) = price_words(&facts, &waits, &[quota("nvidia.com/gpu")], &[]);
        match row.unpriced {
            0 => {
                let each = row.spend.rate.usd() / row.devices.devices();
                assert!((sum.usd() - 2.0 * each).abs() < 1e-4, "{words}");
                assert!(words.starts_with(" (2 H100 cost $"), "{words}");
            }
            _ => assert_eq!(words, ""),
        }
        for other in ["nvidia.com/mig-1g.10gb", "cpu"] {
            let (words, _) = price_words(&facts, &waits, &[quota(other)], &[]);
            assert_eq!(words, "", "{other}");
        }
        // An hour of all its devices.
        let evicted = Evicted {
            job: JobName(job.id.key.clone()),
            devices: u64::from(job.devices_allocated),
            quota_devices: 0,
            reason: String::from("in-queue"),
            lost_device_seconds: 3_600 * i64::from(job.devices_allocated),
        };
        let (spend, _) = facts.spend_rates.jobs[&job.id];
        let (words, sum) = price_words(&facts, &waits, &[], &[evicted]);
        assert_eq!(sum.all, spend.rate.all);
        assert_eq!(words, format!(" ({} of work lost)", sum.dollars()));
    }
}
