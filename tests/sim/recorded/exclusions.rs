//! What the simulated cluster answers differently on purpose, each with its reason.

use super::differences::Difference;

/// One exclusion. `*` stands for any text.
struct Excuse {
    /// `GROUP/NAME` of the recordings.
    recording: &'static str,
    /// Where; `*` alone for the recording as a whole.
    path: &'static str,
    /// Only what the simulated cluster leaves out, not what it answers otherwise.
    absent: bool,
    /// Why the two may differ here.
    why: &'static str,
}

/// The simulated cluster answers otherwise here.
const fn other(recording: &'static str, path: &'static str, why: &'static str) -> Excuse {
    Excuse {
        recording,
        path,
        absent: false,
        why,
    }
}

/// The simulated cluster leaves this out.
const fn absent(recording: &'static str, path: &'static str, why: &'static str) -> Excuse {
    Excuse {
        recording,
        path,
        absent: true,
        why,
    }
}

/// A resource that is not served, in plain and in aggregated discovery.
const fn unserved(recording: &'static str, path: &'static str) -> Excuse {
    absent(
        recording,
        path,
        "neither Stokehold nor the kubectl commands that work on the simulated cluster ask for this resource",
    )
}

const EVENTS: &str = "events are served in the core group, where Stokehold and kubectl read them";
const DEFINITIONS: &str =
    "the custom kinds of the simulated cluster are built in: it serves no definitions of kinds";
const STAND_IN: &str = "another custom kind stands in for the recorded one, with names, columns and subresources of its own";
const SCHEMAS: &str = "the simulated cluster keeps no schemas, so it takes unknown fields and custom kinds as they come";

const CUSTOM: &str = "the recorded cluster has no JobSet, Kueue, training operator, KubeRay, LeaderWorkerSet, Volcano or KAI, nor an autoscaler";
const BOOKMARK: &str =
    "a bookmark is its revision: the empty fields that Go writes beside it are left out";

const EXCUSES: &[Excuse] = &[
    other(
        "discovery/api",
        "/body/serverAddressByClientCIDRs[0]/serverAddress",
        "each server has its own address",
    ),
    absent("discovery/apis", "/body/groups[events.k8s.io]", EVENTS),
    absent(
        "discovery/apis",
        "/body/groups[apiextensions.k8s.io]",
        DEFINITIONS,
    ),
    unserved("discovery/api-v1", "/body/resources[bindings]"),
    unserved("discovery/api-v1", "/body/resources[componentstatuses]"),
    unserved("discovery/api-v1", "/body/resources[endpoints]"),
    unserved("discovery/api-v1", "/body/resources[limitranges]"),
    unserved("discovery/api-v1", "/body/resources[persistentvolumes*]"),
    unserved("discovery/api-v1", "/body/resources[podtemplates]"),
    unserved(
        "discovery/api-v1",
        "/body/resources[replicationcontrollers*]",
    ),
    unserved("discovery/api-v1", "/body/resources[resourcequotas*]"),
    unserved("discovery/api-v1", "/body/resources[secrets]"),
    unserved("discovery/api-v1", "/body/resources[serviceaccounts/token]"),
    unserved(
        "discovery/apis-apps/v1",
        "/body/resources[controllerrevisions]",
    ),
    unserved("discovery/apis-batch/v1", "/body/resources[cronjobs*]"),
    unserved(
        "discovery/apis-authorization.k8s.io/v1",
        "/body/resources[localsubjectaccessreviews]",
    ),
    unserved(
        "discovery/apis-authorization.k8s.io/v1",
        "/body/resources[subjectaccessreviews]",
    ),
    unserved(
        "discovery/apis-authentication.k8s.io/v1",
        "/body/resources[tokenreviews]",
    ),
    other("discovery/apis-events.k8s.io/v1", "*", EVENTS),
    other("discovery/apis-apiextensions.k8s.io/v1", "*", DEFINITIONS),
    absent(
        "discovery/openapi-v3",
        "/body/paths/*",
        "only groups with resources that kubectl explains or checks have a document",
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/jobset.x-k8s.io/v1alpha2",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/kueue.x-k8s.io/v1beta1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/keda.sh/v1alpha1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/karpenter.sh/v1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/kubeflow.org/v1",
        CUSTOM,
    ),
    other("discovery/openapi-v3", "/body/paths/apis/ray.io/v1", CUSTOM),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/batch.volcano.sh/v1alpha1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/bus.volcano.sh/v1alpha1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/scheduling.volcano.sh/v1beta1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/scheduling.run.ai/v2",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/scheduling.run.ai/v2alpha2",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/leaderworkerset.x-k8s.io/v1",
        CUSTOM,
    ),
    other(
        "discovery/openapi-v3",
        "/body/paths/apis/autoscaling.x-k8s.io/v1",
        CUSTOM,
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[bindings]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[componentstatuses]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[endpoints]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[limitranges]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[persistentvolumes]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[podtemplates]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[replicationcontrollers]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[resourcequotas]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[secrets]",
    ),
    unserved(
        "aggregated/api",
        "/body/items[0]/versions[v1]/resources[serviceaccounts]/subresources",
    ),
    absent("aggregated/apis", "/body/items[events.k8s.io]", EVENTS),
    absent(
        "aggregated/apis",
        "/body/items[apiextensions.k8s.io]",
        DEFINITIONS,
    ),
    unserved(
        "aggregated/apis",
        "/body/items[apps]/versions[v1]/resources[controllerrevisions]",
    ),
    unserved(
        "aggregated/apis",
        "/body/items[batch]/versions[v1]/resources[cronjobs]",
    ),
    unserved(
        "aggregated/apis",
        "/body/items[authorization.k8s.io]/versions[v1]/resources[localsubjectaccessreviews]",
    ),
    unserved(
        "aggregated/apis",
        "/body/items[authorization.k8s.io]/versions[v1]/resources[subjectaccessreviews]",
    ),
    unserved(
        "aggregated/apis",
        "/body/items[authentication.k8s.io]/versions[v1]/resources[tokenreviews]",
    ),
    other("objects/event-new-api", "*", EVENTS),
    other("objects/crds", "*", DEFINITIONS),
    other("custom/crd", "*", DEFINITIONS),
    absent(
        "custom/group",
        "/body/resources[jobsets]/shortNames",
        STAND_IN,
    ),
    other(
        "custom/group",
        "/body/resources[jobsets]/storageVersionHash",
        STAND_IN,
    ),
    other("custom/group", "/body/resources[jobsets/status]", STAND_IN),
    other("custom/table", "/body/columnDefinitions[*]", STAND_IN),
    other("custom/table", "/body/rows[0]/cells[*]", STAND_IN),
    other("custom/invalid", "*", SCHEMAS),
    other("writes/unknown-field-strict", "*", SCHEMAS),
    absent(
        "watch/streamed-list*",
        "/body[BOOKMARK]/object/spec",
        BOOKMARK,
    ),
    absent(
        "watch/streamed-list*",
        "/body[BOOKMARK]/object/status",
        BOOKMARK,
    ),
    other(
        "reviews/rules-live-viewer",
        "/body/status/resourceRules*",
        "the simulated viewer's role names the resources that are simulated",
    ),
    absent(
        "reviews/who-am-i",
        "/body/status/userInfo/uid",
        "the users of a token file have uids; the simulated ones have none",
    ),
];

/// The exclusions of one group, and which of them were needed.
pub struct Excuses {
    group: String,
    needed: Vec<(&'static Excuse, bool)>,
}

impl Excuses {
    pub fn of(group: &str) -> Self {
        let prefix = format!("{group}/");
        let own = |excuse: &&'static Excuse| excuse.recording.starts_with(&prefix);
        Self {
            group: group.to_owned(),
            needed: EXCUSES
                .iter()
                .filter(own)
                .map(|excuse| (excuse, false))
                .collect(),
        }
    }

    /// The differences of a recording that no exclusion speaks of.
    pub fn judge(&mut self, name: &str, found: Vec<Difference>) -> Vec<Difference> {
        let recording = format!("{}/{name}", self.group);
        found
            .into_iter()
            .filter(|difference| {
                let excuse = self.needed.iter_mut().find(|(excuse, _)| {
                    like(excuse.recording, &recording)
                        && like(excuse.path, &difference.path)
                        && (!excuse.absent || difference.simulated.is_none())
                });
                match excuse {
                    Some((_, needed)) => {
                        *needed = true;
                        false
                    }
                    None => true,
                }
            })
            .collect()
    }

    /// The exclusions that excused nothing.
    pub fn needless(&self) -> Vec<String> {
        let unneeded = self.needed.iter().filter(|(_, needed)| !needed);
        unneeded
            .map(|(excuse, _)| {
                let Excuse {
                    recording,
                    path,
                    why,
                    ..
                } = excuse;
                format!("the exclusion of {path} of {recording} is needless: take it out ({why})")
            })
            .collect()
    }
}

/// True when a text is what a pattern says, whose `*` stand for any text.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(tail) = text.strip_prefix(head) else {
        return false;
    };
    (0..=tail.len())
        .filter(|at| tail.is_char_boundary(*at))
        .any(|at| like(rest, &tail[at..]))
}

#[test]
fn patterns_stand_for_what_they_say() {
    assert!(like("a/*", "a/b/c") && like("*", "") && like("/a[*]/b", "/a[x]/b"));
    assert!(!like("/a[*]/b", "/a[x]/bc") && !like("a", "ab"));
}
