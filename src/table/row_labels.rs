//! Kubernetes labels of the objects that rows show.

use std::collections::BTreeMap;

use model::base::Name;
use model::fleet::job::Job;
use model::fleet::observe::Labels;

/// The labels of a row's object.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RowLabels<'a> {
    /// The object's own labels.
    Own(&'a Labels),
    /// A job's labels and those of its pods.
    Job(&'a Job),
}

impl RowLabels<'_> {
    /// All labels; `None` when the job's labels are not known and it has no pods.
    pub fn all(&self) -> Option<BTreeMap<Name, Name>> {
        let pairs = |labels: &Labels| -> Vec<(Name, Name)> {
            let all = labels.iter();
            all.map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        match self {
            Self::Own(labels) => Some(pairs(labels).into_iter().collect()),
            Self::Job(job) => {
                let own = job.labels.as_ref();
                if own.is_none() && job.pods.is_empty() {
                    return None;
                }
                // The job's own labels override those of its pods.
                let pods = job.pods.iter().flat_map(|pod| pairs(&pod.seen.labels));
                Some(pods.chain(own.map(pairs).unwrap_or_default()).collect())
            }
        }
    }
}

/// The value of a label of the job, or of the first of its pods that has the label.
pub fn label_of_job<'a>(job: &'a Job, key: &str) -> Option<&'a Name> {
    let own = job.labels.as_ref().and_then(|labels| labels.get(key));
    let pods = || job.pods.iter().find_map(|pod| pod.seen.labels.get(key));
    own.or_else(pods)
}

/// Labels that name the person or group that owns a job (not Kubernetes' ownerReferences), in order of preference.
const OWNER_LABELS: [&str; 2] = ["owner", "user"];

/// A job's owner: the label and its value.
pub fn owner_label_of_job(job: &Job) -> Option<(&'static str, &Name)> {
    OWNER_LABELS
        .into_iter()
        .find_map(|label| Some((label, label_of_job(job, label)?)))
}
