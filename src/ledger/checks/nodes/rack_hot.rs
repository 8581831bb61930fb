//! `rack-hot`: many devices of one rack are hot. That is one fact about cooling, so the findings of the single devices are left
//! out as long as it holds.

use crate::checks::context::{CheckContext, FindingDraft, SubjectTally, subject};
use crate::checks::devices::heat;
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "rack-hot",
    walk: CheckWalk::Tally(count, finish),
};

fn count(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let Some(rack) = &input.node.rack else {
        return;
    };
    let rule = context.thresholds.rule("heat");
    let heat = heat::heat(input, rule);
    let verdict = heat::check(heat, rule);
    if verdict == Verdict::Ok {
        return;
    }
    let tally = context
        .tally
        .entry(rack.clone())
        .or_insert_with(|| SubjectTally::new(None, &input.device.class));
    match (verdict, heat) {
        (Verdict::Firing(_), Some(heat)) => {
            tally.count += 1;
            tally.devices.push(input.device.id.clone());
            tally.most = tally.most.max(heat.celsius.unwrap_or(f64::NEG_INFINITY));
        }
        (Verdict::Unknown, _) => tally.unknown += 1,
        _ => {}
    }
}

fn finish(context: &mut CheckContext<'_>) {
    for (rack, tally) in std::mem::take(&mut context.tally) {
        let verdict = check(&tally, context.rule.threshold, context.rule.clear);
        let threshold = context.rule.threshold;
        context.report(&rack, verdict, |count| {
            let hottest = if tally.most.is_finite() {
                format!(", the hottest has {:.0} °C", tally.most)
            } else {
                String::new()
            };
            FindingDraft::new(
                subject("Rack", &rack),
                format!("{count:.0} devices at their temperature limit{hottest}"),
                "check inlet temperature, fans and doors of the rack; move jobs off it if it lasts",
            )
            .value(count)
            .threshold(threshold)
            .members(&tally.devices)
        });
    }
}

/// With devices of which nothing is known, the count has a lower and an upper bound.
fn check(tally: &SubjectTally, threshold: f64, clear: f64) -> Verdict {
    let least = f64::from(tally.count);
    let most = f64::from(tally.count + tally.unknown);
    if least >= threshold {
        Verdict::Firing(least)
    } else if most <= clear {
        Verdict::Ok
    } else if least > clear {
        Verdict::Held(least)
    } else {
        Verdict::Unknown
    }
}
