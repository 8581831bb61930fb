//! Writes of `govern` on a job, in one call: suspension, our annotations, and, before its first start, the nodes that its pods
//! may run on. They are not plan steps: the job itself records its state, so there is nothing to journal or to undo.

use serde_json::{Value, json};

use model::base::Name;
use model::fleet::govern::{ADMITTED, Governed, HOLD, KUEUE_QUEUE, QUEUE};
use model::plan::{Object, Refusal, RefusalCode};

use super::call::{Call, Method, Subresource};
use super::compose::{PatchDraft, escaped};
use super::support::{controller, foreign_manager, has_ended, suspend_path, unsuspendable_ray};
use super::{entry, text};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GovernWrite {
    pub object: Object,
    /// The job as it was decided on.
    pub seen: GovernSeen,
    /// Suspend (`true`) or resume (`false`); `None` leaves it unchanged.
    pub suspend: Option<bool>,
    /// Annotations: key, and value or nothing to remove it.
    pub notes: Vec<(&'static str, Option<String>)>,
    /// The nodes that its pods may run on; only while it is suspended and has never run.
    pub nodes: Option<NodeRule>,
}

/// The state that a decision relied on; a job in another state is not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GovernSeen {
    queue: Name,
    suspended: bool,
    admitted: Option<Name>,
    hold: Option<Name>,
    /// 0 where the cluster does not count changes of a spec.
    generation: i64,
}

impl GovernSeen {
    /// Of a job in the picture that was decided on.
    pub fn of(governed: &Governed) -> Self {
        Self {
            queue: governed.queue.clone(),
            suspended: governed.suspended,
            admitted: governed.notes.get(ADMITTED).cloned(),
            hold: governed.notes.get(HOLD).cloned(),
            generation: governed.generation,
        }
    }

    /// What of the job has changed since; nothing where all is as it was.
    fn changed(&self, now: &Value, suspended: bool) -> Option<&'static str> {
        let note = |key| entry(now, "annotations", key);
        let generation = now.pointer("/metadata/generation");
        let generation = generation.and_then(Value::as_i64).unwrap_or(0);
        if entry(now, "labels", QUEUE) != Some(self.queue.as_str()) {
            return Some("was moved to another queue meanwhile");
        }
        if suspended != self.suspended {
            return Some(match suspended {
                true => "is no longer running: it was suspended meanwhile",
                false => "is no longer suspended: it was resumed meanwhile",
            });
        }
        if note(ADMITTED) != self.admitted.as_deref() {
            return Some("was admitted or suspended by another user meanwhile");
        }
        if note(HOLD) != self.hold.as_deref() {
            return Some("was held or released meanwhile");
        }
        if self.generation > 0 && generation > 0 && generation != self.generation {
            return Some("has changed its spec since the decision");
        }
        None
    }
}

/// A node label and its accepted values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeRule {
    pub label: String,
    /// The values; never empty.
    pub values: Vec<String>,
}

/// Names of schedulers that do their own admission.
const OTHER_SCHEDULERS: [&str; 3] = ["volcano", "kai-scheduler", "runai-scheduler"];

/// True for a scheduler that does its own admission.
pub fn is_other_scheduler(name: &str) -> bool {
    OTHER_SCHEDULERS.contains(&name)
}

fn pods(job: &Value) -> Option<&Value> {
    job.pointer("/spec/template/spec")
}

/// Checks that `govern` may write to the job in its current state.
///
/// # Errors
/// Why not: it has no label of `govern`, another system or controller manages it, or it has ended.
pub fn may_govern(object: &Object, now: &Value) -> Result<(), Refusal> {
    let refuse = |code, words: String| Err(Refusal::new(code, format!("{object} {words}")));
    let foreign = RefusalCode::OwnedByAnother;
    let label = |key| entry(now, "labels", key).is_some_and(|value| !value.is_empty());
    if suspend_path(object).is_none() {
        return refuse(RefusalCode::Unsupported, "cannot be suspended".to_owned());
    }
    if !label(QUEUE) {
        return refuse(foreign, format!("does not carry the label {QUEUE}"));
    }
    if label(KUEUE_QUEUE) {
        return refuse(foreign, "is in a queue of Kueue".to_owned());
    }
    if let Some((kind, name)) = controller(now) {
        return refuse(foreign, format!("belongs to {kind} {name}"));
    }
    if let Some(by) = foreign_manager(object, now) {
        return refuse(foreign, format!("is managed by {by}"));
    }
    let scheduler = pods(now).map_or("", |pods| text(pods, "/schedulerName"));
    if is_other_scheduler(scheduler) {
        return refuse(foreign, format!("is scheduled by {scheduler}"));
    }
    let deleted = now.pointer("/metadata/deletionTimestamp").is_some();
    if deleted || has_ended(now) {
        return refuse(RefusalCode::IllegalState, "has ended".to_owned());
    }
    Ok(())
}

/// True where the job is as the write makes it.
pub fn is_governed_so(write: &GovernWrite, now: &Value) -> bool {
    let path = suspend_path(&write.object).unwrap_or_default();
    let suspended = super::is_value(now, path, &true.into());
    let notes =
        |(key, value): &(&str, Option<String>)| entry(now, "annotations", key) == value.as_deref();
    write.suspend.is_none_or(|wanted| wanted == suspended) && write.notes.iter().all(notes)
}

/// The call of a write on its job as it was just read. It tests everything that the decision relied on: the job's uid, its queue,
/// whether it is suspended, admitted or on hold, and that its spec is unchanged.
///
/// # Errors
/// We may not write the job ([`may_govern`]), it cannot be suspended, or its state has changed since the decision
/// ([`RefusalCode::IllegalState`]).
pub fn govern_call(write: &GovernWrite, now: &Value) -> Result<Call, Refusal> {
    let object = &write.object;
    may_govern(object, now)?;
    let path = suspend_path(object).unwrap_or_default();
    let suspended = super::is_value(now, path, &true.into());
    let illegal = |words: &str| {
        let words = format!("{object} {words}");
        Refusal::new(RefusalCode::IllegalState, words)
    };
    if let Some(words) = write.seen.changed(now, suspended) {
        return Err(illegal(words));
    }
    if write.suspend == Some(true)
        && let Some(refusal) = unsuspendable_ray(object, now)
    {
        // The next decision would find it no different.
        let code = RefusalCode::Unsupported;
        return Err(Refusal { code, ..refusal });
    }
    let mut draft = PatchDraft::new(now);
    draft.test("/metadata/uid");
    draft.test(&format!("/metadata/labels/{}", escaped(QUEUE)));
    draft.test(path);
    if now.pointer("/metadata/annotations").is_some() {
        for key in [ADMITTED, HOLD] {
            draft.test(&format!("/metadata/annotations/{}", escaped(key)));
        }
    }
    if now.pointer("/metadata/generation").is_some() {
        draft.test("/metadata/generation");
    }
    for (key, value) in &write.notes {
        draft.entry("annotations", key, value.as_deref());
    }
    if let Some(rule) = &write.nodes {
        if !suspended || !text(now, "/status/startTime").is_empty() {
            return Err(illegal("has run: its pod template cannot be changed"));
        }
        restrict(&mut draft, now, rule);
    }
    // Last, so that the server validates the rest of the patch against a suspended job.
    if let Some(value) = write.suspend {
        draft.set(path, value.into());
    }
    Ok(Call {
        method: Method::Patch,
        object: object.clone(),
        subresource: Subresource::None,
        body: draft.finish(),
    })
}

/// Restricts the pods of a Job to nodes: one value by the node selector, several by a term of the required node affinity.
fn restrict(draft: &mut PatchDraft<'_>, now: &Value, rule: &NodeRule) {
    const POD: &str = "/spec/template/spec";
    if let [only] = rule.values.as_slice() {
        let path = format!("{POD}/nodeSelector/{}", escaped(&rule.label));
        draft.set(&path, only.as_str().into());
        return;
    }
    let expression = json!({"key": rule.label, "operator": "In", "values": rule.values});
    let required = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = format!("{required}/nodeSelectorTerms");
    let known = pods(now).and_then(|pods| pods.pointer(&terms)?.as_array());
    if let Some(known) = known.filter(|known| !known.is_empty()) {
        // Terms are ORed, so each one needs the requirement.
        let all: Vec<Value> = known
            .iter()
            .map(|term| {
                let mut term = term.clone();
                let list = term.get("matchExpressions").and_then(Value::as_array);
                let mut list = list.cloned().unwrap_or_default();
                list.push(expression.clone());
                term["matchExpressions"] = list.into();
                term
            })
            .collect();
        draft.test(&format!("{POD}{terms}"));
        draft.set(&format!("{POD}{terms}"), all.into());
        return;
    }
    let term = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
    for parent in ["/affinity", "/affinity/nodeAffinity"] {
        draft.ensure_path(&format!("{POD}{parent}"));
    }
    draft.set(&format!("{POD}{required}"), term);
}

#[cfg(test)]
mod tests {
    use model::plan::Object;

    use super::super::tests::applied;
    use super::*;

    fn object() -> Object {
        Object::new("batch", "v1", "jobs", "Job", "train").within("nlp")
    }

    fn job() -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "train", "namespace": "nlp", "uid": "u1", "generation": 3, "labels": {QUEUE: "nlp"}},
            "spec": {"suspend": true, "template": {"spec": {"containers": [], "schedulerName": "default-scheduler"}}},
        })
    }

    fn admits() -> GovernWrite {
        GovernWrite {
            object: object(),
            seen: GovernSeen {
                queue: Name::new("nlp"),
                suspended: true,
                admitted: None,
                hold: None,
                generation: 3,
            },
            suspend: Some(false),
            notes: vec![(ADMITTED, Some("2026-11-21T06:00:00Z".to_owned()))],
            nodes: Some(NodeRule {
                label: "nvidia.com/gpu.product".to_owned(),
                values: vec!["NVIDIA-H100".to_owned()],
            }),
        }
    }

    fn patched(write: &GovernWrite, now: &Value) -> Value {
        let call = govern_call(write, now).expect("a call");
        applied(now, &call.body).expect("it applies")
    }

    #[test]
    fn one_call_admits_a_job_and_says_where_its_pods_go() {
        let after = patched(&admits(), &job());
        assert_eq!(after["spec"]["suspend"], false);
        assert_eq!(
            after["metadata"]["annotations"][ADMITTED],
            "2026-11-21T06:00:00Z"
        );
        let pods = &after["spec"]["template"]["spec"];
        assert_eq!(
            pods["nodeSelector"]["nvidia.com/gpu.product"],
            "NVIDIA-H100"
        );
        assert!(is_governed_so(&admits(), &after));
        // A running job is not admitted a second time.
        assert!(govern_call(&admits(), &after).is_err());
    }

    #[test]
    fn several_values_stand_in_every_term_of_the_affinity() {
        let mut write = admits();
        write.nodes = Some(NodeRule {
            label: "pool".to_owned(),
            values: vec!["a".to_owned(), "b".to_owned()],
        });
        let rule = json!({"key": "pool", "operator": "In", "values": ["a", "b"]});
        let path = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let plain = patched(&write, &job());
        assert_eq!(
            plain.pointer(path),
            Some(&json!([{"matchExpressions": [rule]}]))
        );
        let mut own = job();
        let zone = json!({"key": "zone", "operator": "Exists"});
        own["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [zone]}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
            ]},
        }});
        let terms = patched(&write, &own);
        let terms = terms.pointer(path).expect("terms");
        assert_eq!(terms[0]["matchExpressions"], json!([zone, rule]));
        assert_eq!(terms[1]["matchExpressions"], json!([rule]));
    }

    #[test]
    fn jobs_that_others_have_are_never_written_on() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 8] = [
            ("does not carry the label", |job| {
                job["metadata"]["labels"] = json!({});
            }),
            ("is in a queue of Kueue", |job| {
                job["metadata"]["labels"][KUEUE_QUEUE] = json!("team");
            }),
            ("belongs to JobSet big", |job| {
                job["metadata"]["ownerReferences"] =
                    json!([{"kind": "JobSet", "name": "big", "controller": true}]);
            }),
            ("is managed by kueue.x-k8s.io/multikueue", |job| {
                job["spec"]["managedBy"] = json!("kueue.x-k8s.io/multikueue");
            }),
            ("is scheduled by volcano", |job| {
                job["spec"]["template"]["spec"]["schedulerName"] = json!("volcano");
            }),
            ("has ended", |job| {
                job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
            }),
            ("has ended", |job| {
                job["metadata"]["deletionTimestamp"] = json!("2026-11-21T06:00:00Z");
            }),
            ("is no longer suspended", |job| {
                job["spec"]["suspend"] = json!(false);
            }),
        ];
        for (words, change) in cases {
            let mut job = job();
            change(&mut job);
            let refusal = govern_call(&admits(), &job).expect_err(words);
            assert!(refusal.sentence.contains(words), "{}", refusal.sentence);
        }
        let mut pods = object();
        pods.place.plural = "cronjobs".into();
        assert!(may_govern(&pods, &job()).is_err());
    }

    /// After a change between the snapshot and the write, the decision is made again.
    #[test]
    fn a_job_that_is_not_as_it_was_decided_on_is_not_written_on() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 4] = [
            ("was moved to another queue", |job| {
                job["metadata"]["labels"][QUEUE] = json!("other");
            }),
            ("was admitted or suspended by another user", |job| {
                job["metadata"]["annotations"] = json!({ADMITTED: "2026-11-21T05:00:00Z"});
            }),
            ("was held or released", |job| {
                job["metadata"]["annotations"] = json!({HOLD: "true"});
            }),
            ("has changed its spec", |job| {
                job["metadata"]["generation"] = json!(4);
            }),
        ];
        for (words, change) in cases {
            let mut job = job();
            change(&mut job);
            let refusal = govern_call(&admits(), &job).expect_err(words);
            assert_eq!(refusal.code, RefusalCode::IllegalState);
            assert!(refusal.sentence.contains(words), "{}", refusal.sentence);
        }
        // A cluster that does not count changes has no generation to compare.
        let mut uncounted = job();
        uncounted["metadata"]["generation"] = Value::Null;
        assert!(govern_call(&admits(), &uncounted).is_ok());
    }

    #[test]
    fn a_ray_job_that_keeps_its_cluster_is_refused() {
        let mut write = admits();
        write.object = Object::new("ray.io", "v1", "rayjobs", "RayJob", "train").within("nlp");
        write.suspend = Some(true);
        write.seen.suspended = false;
        let mut ray = job();
        ray["spec"] = json!({"shutdownAfterJobFinishes": false});
        let refusal = govern_call(&write, &ray).expect_err("it cannot be suspended");
        assert_eq!(refusal.code, RefusalCode::Unsupported);
    }

    #[test]
    fn a_template_that_has_run_is_left_alone() {
        let mut ran = job();
        ran["status"] = json!({"startTime": "2026-11-21T05:00:00Z"});
        assert!(govern_call(&admits(), &ran).is_err());
        let mut write = admits();
        write.nodes = None;
        assert_eq!(patched(&write, &ran)["spec"]["suspend"], false);
    }

    #[test]
    fn a_write_in_between_fails_the_call() {
        let call = govern_call(&admits(), &job()).expect("a call");
        let changes: [fn(&mut Value); 4] = [
            |job| job["metadata"]["generation"] = json!(4),
            |job| job["spec"]["suspend"] = json!(false),
            |job| job["metadata"]["labels"][QUEUE] = json!("other"),
            |job| job["metadata"]["uid"] = json!("u2"),
        ];
        for change in changes {
            let mut job = job();
            change(&mut job);
            assert!(applied(&job, &call.body).is_err());
        }
    }
}
