//! `heat`: a device at its temperature limit: by its own margin, then its own slowdown temperature, then its model's, then a
//! default limit.

use model::fleet::signal::Signal;
use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "heat",
    walk: CheckWalk::Devices(check_device),
};

fn check_device(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let heat = heat(input, context.rule);
    let verdict = check(heat, context.rule);
    let Some(heat) = heat else {
        context.report_unknown(&input.device.id);
        return;
    };
    context.report(&input.device.id, verdict, |_| {
        let message = match heat.celsius {
            Some(celsius) => format!(
                "{celsius:.0} °C, its limit is {:.0} °C ({}); {}",
                celsius - heat.beyond,
                heat.source,
                on_it(input.device)
            ),
            None => format!(
                "{:.0} °C above its limit ({}); {}",
                heat.beyond,
                heat.source,
                on_it(input.device)
            ),
        };
        let draft = FindingDraft::new(
            subject("Device", &input.device.id),
            message,
            "check fans, inlet and neighbors; it throttles before it is damaged",
        )
        .value(heat.celsius.unwrap_or(heat.beyond));
        match heat.celsius {
            Some(celsius) => draft.threshold(celsius - heat.beyond),
            None => draft,
        }
    });
}

/// How hot a device is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceTemperature {
    /// Degrees beyond its limit; negative below.
    pub(crate) beyond: f64,
    /// Its temperature, where known.
    pub(crate) celsius: Option<f64>,
    /// Whose limit it is.
    pub(crate) source: &'static str,
}

/// How hot a device is; `None` when no fresh reading says.
pub(crate) fn heat(input: &CheckInput<'_>, rule: &Rule) -> Option<DeviceTemperature> {
    let celsius = input.get(Signal::Temp).filter(|celsius| *celsius > 0.0);
    // Some devices report 0 for a margin that they do not have: a cool one with no margin left is such.
    let margin = input
        .get(Signal::TempMargin)
        .filter(|margin| *margin != 0.0 || celsius.is_none_or(|celsius| celsius > 60.0));
    if let Some(margin) = margin {
        return Some(DeviceTemperature {
            beyond: -margin,
            celsius,
            source: "its own margin",
        });
    }
    let celsius = celsius?;
    let own = input
        .get(Signal::TempSlowdown)
        .filter(|limit| *limit > 40.0)
        .map(|limit| (limit - rule.approach, "its own slowdown temperature"));
    let model = || {
        let limit = input.model?.slowdown_celsius?;
        Some((limit - rule.approach, "its model's slowdown temperature"))
    };
    let (limit, source) = own
        .or_else(model)
        .unwrap_or((rule.fallback, "a general limit: its own is unknown"));
    Some(DeviceTemperature {
        beyond: celsius - limit,
        celsius: Some(celsius),
        source,
    })
}

pub(crate) fn check(heat: Option<DeviceTemperature>, rule: &Rule) -> Verdict {
    Verdict::of(heat.map(|heat| heat.beyond), rule)
}
