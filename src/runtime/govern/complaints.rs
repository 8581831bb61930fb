//! What `govern` says of what its operator should change. Of an invalid document of its queues: a line of the log and the status,
//! from every process; an Event on the ConfigMap, from the one that decides. Of Jobs that are created unsuspended: a line.

use model::base::Moment;
use model::fleet::Fleet;
use model::plan::Object;
use plan::govern::{Decision, GovernedJob};

use super::Governor;
use super::log::line;

impl Governor {
    /// Logs that the document has become invalid or valid, and keeps it in the status.
    pub(super) fn say_fault(&self, fleet: &Fleet, say: &mut dyn FnMut(&str)) {
        let state = fleet.govern.as_deref();
        let fault = state.and_then(|state| state.fault_words());
        let before = self.status.borrow().fault.clone();
        if before.as_ref().map(|(why, _)| why) == fault.as_ref() {
            return;
        }
        match &fault {
            Some(why) => {
                let fields = [("level", "warn"), ("queues", "invalid"), ("reason", why)];
                say(&line(fleet.at, &fields));
            }
            None => say(&line(fleet.at, &[("level", "info"), ("queues", "valid")])),
        }
        let since = before.map_or(fleet.at, |(_, since)| since);
        self.status
            .send_modify(|status| status.fault = fault.map(|why| (why, since)));
    }

    /// Logs once that Jobs are created unsuspended: the policy of `--suspend-policy` is not in force.
    pub(super) fn say_unsuspended(
        &mut self,
        at: Moment,
        decision: &Decision,
        jobs: &[GovernedJob],
        say: &mut dyn FnMut(&str),
    ) {
        // One with our annotations was resumed.
        let is_new = |job: &&GovernedJob| {
            let is_job = &*job.key.kind == "Job" && !job.governed.was_governed();
            is_job && decision.entering.contains(&job.key)
        };
        if self.unsuspended_logged || decision.entering.is_empty() {
            return;
        }
        let Some(job) = jobs.iter().find(is_new) else {
            return;
        };
        self.unsuspended_logged = true;
        let why = format!(
            "Job {} was created unsuspended: `stokehold govern manifests --suspend-policy` has Jobs created suspended, on Kubernetes 1.36 and later",
            job.key.key
        );
        let fields = [
            ("level", "info"),
            ("suspend-policy", "not-in-force"),
            ("reason", why.as_str()),
        ];
        say(&line(at, &fields));
    }

    /// Writes an Event for a fault that none was written for.
    pub(super) async fn report_fault(&mut self, fleet: &Fleet) {
        let fault = self.status.borrow().fault.clone().map(|(why, _)| why);
        if fault == self.event_fault {
            return;
        }
        self.event_fault = fault;
        let Some(writer) = &self.writer else {
            return;
        };
        if let (Some(why), Some(state)) = (&self.event_fault, fleet.govern.as_deref()) {
            let name = &state.key.name;
            let map = Object::new("", "v1", "configmaps", "ConfigMap", name);
            let map = map.within(&state.key.namespace).with_uid(&state.uid);
            writer
                .create_event(&map, "Warning", ("QueuesInvalid", "read"), why)
                .await;
        }
    }
}
