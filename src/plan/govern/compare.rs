//! Compares what `govern` would do with what kube-scheduler did with the same jobs.

use model::base::quantities::counted;
use model::fleet::Fleet;
use model::fleet::job::JobState;

use super::{AdmissionState, Decision, GovernedJob, Purpose};

/// Number of jobs, and of the devices that they request or have allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JobCount {
    pub jobs: u64,
    pub devices: u64,
}

impl JobCount {
    fn add(&mut self, devices: u32) {
        self.jobs += 1;
        self.devices += u64::from(devices);
    }

    fn words(self) -> String {
        if self.jobs == 0 {
            return "none".to_owned();
        }
        let devices = counted(self.devices, "device");
        format!("{} of {devices}", counted(self.jobs, "job"))
    }
}

/// The jobs with the label, under kube-scheduler and under `govern`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// All of their pods run.
    pub run: JobCount,
    /// None of their pods is scheduled.
    pub pending: JobCount,
    /// Gangs with some pods scheduled and others pending.
    pub partial: JobCount,
    /// Pending, and would be admitted now.
    pub would_admit: JobCount,
    /// Would be preempted now.
    pub would_preempt: JobCount,
    pub would_wait: JobCount,
}

impl Comparison {
    /// The comparison in one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "kube-scheduler: running {}, pending {}, running in incomplete gangs {}; govern: would admit {}, preempt {}, keep waiting {}",
            self.run.words(),
            self.pending.words(),
            self.partial.words(),
            self.would_admit.words(),
            self.would_preempt.words(),
            self.would_wait.words(),
        )
    }
}

/// Compares a decision with what kube-scheduler did.
pub fn compare(fleet: &Fleet, decision: &Decision, jobs: &[GovernedJob]) -> Comparison {
    let mut out = Comparison::default();
    for job in jobs.iter().filter(|job| job.refused.is_none()) {
        let mut all = fleet.jobs.iter();
        let Some(seen) = all.find(|seen| seen.id == job.key) else {
            continue;
        };
        let asked = seen.devices_requested;
        match seen.state {
            JobState::Starting if seen.devices_allocated < asked && seen.is_gang() => {
                out.partial.add(seen.devices_allocated);
            }
            JobState::Running | JobState::Starting | JobState::Finishing => out.run.add(asked),
            JobState::Waiting | JobState::Suspended => out.pending.add(asked),
            JobState::Failed | JobState::Done => {}
        }
        match decision.standings.get(&job.key) {
            Some(AdmissionState::Admits) => out.would_admit.add(asked),
            Some(
                AdmissionState::Waiting(_)
                | AdmissionState::WaitsForPods(_)
                | AdmissionState::Held(_),
            ) => {
                out.would_wait.add(asked);
            }
            _ => {}
        }
        let preempts = |it: &super::PlannedWrite| {
            it.job == job.key && matches!(it.purpose, Purpose::Preempt | Purpose::AskCheckpoint)
        };
        if decision.writes.iter().any(preempts) {
            out.would_preempt.add(asked);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_one_sentence() {
        let count = |jobs, devices| JobCount { jobs, devices };
        let compared = Comparison {
            run: count(2, 12),
            partial: count(1, 1),
            would_wait: count(1, 8),
            ..Comparison::default()
        };
        assert_eq!(
            compared.sentence(),
            "kube-scheduler: running 2 jobs of 12 devices, pending none, running in incomplete gangs 1 job of 1 device; \
             govern: would admit none, preempt none, keep waiting 1 job of 8 devices"
        );
    }
}
