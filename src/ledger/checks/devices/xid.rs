//! `xid-N`: the driver reported an XID. The gauge is sticky, so only a change counts. An application fault is dropped after a
//! while; a device fault stays until the driver is reloaded and the gauge is 0 again.

use model::base::{Age, Name};
use model::fleet::accelerator::Vendor;
use model::fleet::finding::Severity;
use model::fleet::signal::Signal;
use model::fleet::xid::{XidSeverity, code};

use crate::checks::context::{CheckContext, FindingDraft, LastValue, counted, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "xid",
    walk: CheckWalk::Devices(check_device),
};

/// Work was removed after an error: it follows another code, which must not be hidden by it.
const CLEANUP: u32 = 45;

fn check_device(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let device = input.device;
    if !matches!(device.vendor, Vendor::Nvidia | Vendor::Other) {
        return;
    }
    let last = input.get(Signal::XidLast);
    let before = context.check_state.memory.get(&device.id).copied();
    let Some(last) = last else {
        if let Some(before) = before {
            context.report_unknown(&key(&device.id, before.value as u32));
        }
        if input.get(Signal::XidWindow).is_some() || before.is_none() {
            count_only(context, input);
        }
        return;
    };
    let Some(mut now_code) = code(last) else {
        // 0: the driver was reloaded.
        context.check_state.memory.remove(&device.id);
        return;
    };
    if now_code == CLEANUP
        && let Some(before) = before
    {
        now_code = before.value as u32;
    }
    let memory = context
        .check_state
        .memory
        .entry(device.id.clone())
        .and_modify(|memory| {
            memory.read = input.now;
            if memory.value != f64::from(now_code) {
                memory.value = f64::from(now_code);
                memory.changed = input.now;
            }
        })
        .or_insert(LastValue {
            value: f64::from(now_code),
            base: 0.0,
            changed: input.now,
            read: input.now,
        });
    let age = input.now.since(memory.changed);
    let recent = age <= Age::from(context.rule.window)
        || input
            .get(Signal::XidWindow)
            .is_some_and(|count| count >= 1.0);
    let xid = context.thresholds.xid.get(now_code);
    let is_severe = matches!(xid.severity, XidSeverity::Crit | XidSeverity::Warn);
    let verdict = Verdict::when(Some(is_severe || recent));
    context.report(&key(&device.id, now_code), verdict, |_| {
        let blame = match (xid.severity, device.first_holder()) {
            (XidSeverity::App, Some((pod, _))) => {
                format!("most likely caused by the program in {}", pod.key())
            }
            _ => on_it(device),
        };
        FindingDraft::new(
            subject("Device", &device.id),
            format!("XID {now_code}: {}; {blame}", xid.meaning),
            xid.repair.clone(),
        )
        .code(format!("xid-{now_code}"))
        .severity(xid.severity.finding())
        .value(f64::from(now_code))
    });
}

/// Where only a count of a window is exported, something happened that has no name.
fn count_only(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let key = Name::from(format!("{} window", input.device.id));
    let verdict = Verdict::when(input.get(Signal::XidWindow).map(|count| count >= 1.0));
    let count = input.get(Signal::XidWindow).unwrap_or_default();
    context.report(&key, verdict, |_| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "{} within its exporter's window; {}",
                counted(count as usize, "XID error"),
                on_it(input.device)
            ),
            "find the codes in the node's kernel log",
        )
        .severity(Severity::Warn)
        .value(count)
    });
}

fn key(device: &Name, code: u32) -> Name {
    Name::from(format!("{device} {code}"))
}
