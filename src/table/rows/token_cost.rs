//! Cost of a million generated tokens.

use model::base::Rate;
use model::cost::Money;
use model::fleet::job::Job;

use super::jobs::money;
use crate::Facts;

/// USD per million generated tokens: the workload's rate over the tokens that all its models generate. `None` without a
/// price, without tokens, and while a replica has not been read twice.
pub(crate) fn usd_per_million_tokens(facts: &Facts, job: &Job) -> Option<f64> {
    let usd = money(facts, job)?.rate.usd();
    let served = &job.serving.as_ref()?.served;
    let all = served.iter().map(|one| {
        let whole = one.measured == one.replicas;
        one.tokens_per_second.filter(|_| whole)
    });
    let tokens: f64 = all.sum::<Option<f64>>()? * 3600.0;
    (tokens > 0.0).then(|| usd / tokens * 1e6)
}

/// [`usd_per_million_tokens`] as money, marked as list price when the workload's rate is.
pub(crate) fn per_million_tokens(facts: &Facts, job: &Job) -> Option<Money> {
    let cost = Rate::from_usd(usd_per_million_tokens(facts, job)?)?;
    Some(Money::with_source(
        cost,
        money(facts, job)?.rate.is_by_list(),
    ))
}

#[cfg(test)]
mod tests {
    use model::fleet::served_model::ServedModel;

    use super::*;
    use crate::sample::facts;

    #[test]
    fn what_tokens_cost_is_unknown_without_tokens_or_while_a_replica_is_not_measured() {
        let facts = facts();
        let cost = |change: fn(&mut ServedModel)| {
            let mut jobs = facts.fleet.jobs.iter();
            let job = jobs.find(|job| job.serving.is_some()).expect("one serves");
            let mut job = (**job).clone();
            let served = job.serving.as_mut().map(|serving| &mut serving.served[1]);
            change(served.expect("it serves two"));
            usd_per_million_tokens(&facts, &job)
        };
        assert!(cost(|_| ()).is_some());
        assert_eq!(cost(|one| one.tokens_per_second = Some(0.0)), None);
        assert_eq!(cost(|one| one.tokens_per_second = None), None);
        assert_eq!(cost(|one| one.replicas = 2), None);
    }
}
