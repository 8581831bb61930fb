//! `objective-missed`: a model is served more slowly than its service promises.

use model::base::Name;
use model::base::quantities::bounded_latency;
use model::fleet::finding::OBJECTIVE_MISSED;
use model::fleet::job::Job;
use model::fleet::served_model::{Saturation, ServedModel};

use crate::checks::context::{CheckContext, FindingDraft, job_name, job_subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: OBJECTIVE_MISSED,
    walk: CheckWalk::Fleet(check_fleet),
};

fn check_fleet(context: &mut CheckContext<'_>) {
    for job in context.fleet.jobs.iter() {
        match &job.serving {
            Some(serving) => {
                let promised = serving.served.iter();
                let promised = promised.filter(|one| one.promised().next().is_some());
                promised.for_each(|one| judge(context, job, one));
            }
            // Its servers do not answer: that is no return to the objective.
            None if job.is_live() => context.report_unknown_of(&job.id),
            None => {}
        }
    }
}

fn judge(context: &mut CheckContext<'_>, job: &Job, one: &ServedModel) {
    let rule = context.rule;
    let which = one.of_kind(&job.id.kind);
    let shares = || one.promised().map(|latency| latency.share());
    let worst = shares().flatten().reduce(f64::max);
    let verdict = match Verdict::of(worst, rule) {
        // What is not known may be over its objective.
        Verdict::Ok if shares().any(|share| share.is_none()) => Verdict::Unknown,
        verdict => verdict,
    };
    let key = Name::from(format!("{} {which}", job_name(&job.id)));
    context.report(&key, verdict, |worst| {
        let level = worst.min(rule.threshold);
        let over = one
            .promised()
            .filter(|latency| latency.share().is_some_and(|share| share >= level));
        let over = over.filter_map(|latency| {
            let p95 = latency.p95?;
            let is = bounded_latency(p95.seconds, p95.at_least);
            let limit = bounded_latency(latency.limit, false);
            Some(format!("p95 {} {is}, objective {limit}", latency.name))
        });
        let over: Vec<String> = over.collect();
        let how = match worst > 1.0 {
            true => "misses its objective",
            false => "barely meets its objective",
        };
        FindingDraft::new(
            job_subject(&job.id),
            format!("{how}: {}", over.join("; ")),
            repair(one),
        )
        .detail(&which)
        .value(worst)
        .threshold(rule.threshold)
    });
}

fn repair(one: &ServedModel) -> String {
    let why: Vec<&str> = one.saturation().map(Saturation::name).collect();
    match why.is_empty() {
        false => format!(
            "saturated ({}): add replicas; if it has an autoscaler, `f4` says why that does not",
            why.join(", ")
        ),
        true => String::from(
            "look at its requests and its devices; add replicas where requests wait in its servers",
        ),
    }
}
