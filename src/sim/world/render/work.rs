//! Controllers and their children, with status numbers counted from their pods.

use serde_json::{Map, Value, json};

use super::super::World;
use super::super::noise::uuid;
use super::super::work::{Kind, ReplicaGroup, Work, WorkId};
use super::pod::{group_uid, template_hash};
use super::{metadata, object, owner};

impl World {
    pub(super) fn render_work(&self, id: WorkId, work: &Work) -> Value {
        let mut object = self.render_work_base(id, work);
        work.edit.apply(&mut object);
        object
    }

    /// The controller without clients' changes.
    pub(in super::super) fn render_work_base(&self, _id: WorkId, work: &Work) -> Value {
        let mut object = match &work.foreign {
            Some(written) => (**written).clone(),
            None => match work.kind {
                Kind::JobSet => self.jobset(work),
                Kind::Job => object([
                    ("apiVersion", json!("batch/v1")),
                    ("kind", json!("Job")),
                    ("metadata", self.work_metadata(work)),
                    ("spec", self.job_spec(work, &work.groups[0], work.uid, 0)),
                ]),
                Kind::Deployment => json!({
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": self.work_metadata(work),
                    "spec": {
                        "progressDeadlineSeconds": 600,
                        "revisionHistoryLimit": 3,
                        "selector": {"matchLabels": {"app": &*work.name}},
                        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
                        "template": self.template(work, None),
                    },
                }),
                Kind::StatefulSet => json!({
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "metadata": self.work_metadata(work),
                    "spec": {
                        "podManagementPolicy": "OrderedReady",
                        "revisionHistoryLimit": 3,
                        "serviceName": &*work.name,
                        "selector": {"matchLabels": {"app": &*work.name}},
                        "template": self.template(work, None),
                        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                    },
                }),
                Kind::PyTorchJob | Kind::RayJob | Kind::LeaderWorkerSet => self.training_spec(work),
                Kind::VolcanoJob => self.volcano_job(work),
                Kind::DaemonSet | Kind::Pod => self.daemonset(work),
            },
        };
        self.fill_controller(&mut object, work);
        object
    }

    /// Sets the fields that the world overrides in a client's object: identity, suspension, scale, status.
    fn fill_controller(&self, object: &mut Value, work: &Work) {
        let meta = metadata(&work.namespace, &work.name, work.uid, work.created);
        for field in ["uid", "creationTimestamp", "namespace", "name"] {
            object["metadata"][field] = meta[field].clone();
        }
        object["metadata"]["generation"] = json!(work.edit.generation());
        if let Some(at) = work.last_checkpoint {
            object["metadata"]["annotations"]["stokehold.dev/last-checkpoint"] =
                json!(at.rfc3339());
        }
        let group = &work.groups[0];
        match work.kind {
            Kind::JobSet => {
                object["spec"]["suspend"] = json!(work.suspended);
                object["status"] = self.jobset_status(work);
            }
            Kind::Job => {
                object["spec"]["suspend"] = json!(work.suspended);
                object["spec"]["parallelism"] = json!(group.parallelism);
                if work.foreign.is_some() {
                    self.fill_job(object, work);
                }
                object["status"] = self.job_status(work, 0);
            }
            Kind::Deployment => {
                object["spec"]["replicas"] = json!(group.parallelism);
                object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = json!("1");
                object["status"] = self.deployment_status(work);
            }
            Kind::StatefulSet => {
                object["spec"]["replicas"] = json!(group.parallelism);
                object["status"] = self.statefulset_status(work);
            }
            Kind::DaemonSet => object["status"] = self.daemonset_status(work),
            Kind::PyTorchJob | Kind::RayJob | Kind::LeaderWorkerSet => {
                self.fill_training(object, work);
            }
            Kind::VolcanoJob => object["status"] = self.volcano_job_status(work),
            Kind::Pod => {}
        }
    }

    /// Adds the defaults of a Job to a client's object.
    fn fill_job(&self, object: &mut Value, work: &Work) {
        let uid = uuid(work.uid);
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
            return;
        };
        spec.entry("completions")
            .or_insert(json!(work.groups[0].completions));
        spec.entry("backoffLimit").or_insert(json!(6));
        spec.entry("completionMode").or_insert(json!("NonIndexed"));
        spec.entry("selector")
            .or_insert(json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    }

    pub(super) fn work_metadata(&self, work: &Work) -> Value {
        let mut meta = metadata(&work.namespace, &work.name, work.uid, work.created);
        let mut labels = Map::new();
        labels.insert("app".into(), json!(&*work.name));
        if !work.team.is_empty() {
            labels.insert("team".into(), json!(&*work.team));
        }
        if !work.user.is_empty() {
            labels.insert("owner".into(), json!(&*work.user));
        }
        if let Some(queue) = &work.queue {
            let key = if work.kind.is_batch() {
                "kueue.x-k8s.io/queue-name"
            } else {
                "stokehold.dev/queue"
            };
            labels.insert(key.into(), json!(&**queue));
        }
        for (key, value) in &work.labels {
            labels.insert(key.to_string(), json!(&**value));
        }
        meta["labels"] = Value::Object(labels);
        meta
    }

    pub(super) fn template(&self, work: &Work, extra: Option<(&str, String)>) -> Value {
        let mut labels = self.template_labels(work);
        if let Some((key, value)) = extra {
            labels.insert(key.to_owned(), Value::String(value));
        }
        object([
            (
                "metadata",
                object([
                    ("creationTimestamp", Value::Null),
                    ("labels", Value::Object(labels)),
                ]),
            ),
            ("spec", self.template_spec(work)),
        ])
    }

    fn job_spec(&self, work: &Work, group: &ReplicaGroup, uid: u64, _at: u32) -> Value {
        let uid = uuid(uid);
        let mut template = self.template(
            work,
            Some(("batch.kubernetes.io/controller-uid", uid.clone())),
        );
        for key in ["batch.kubernetes.io/job-name", "job-name"] {
            template["metadata"]["labels"][key] = json!(&*group.name);
        }
        let mut spec = json!({
            "parallelism": group.parallelism,
            "completions": group.completions,
            "completionMode": "Indexed",
            "backoffLimit": if work.gang { 0 } else { 3 + group.completions / 10 },
            "podReplacementPolicy": "TerminatingOrFailed",
            "manualSelector": false,
            "suspend": work.suspended,
            "ttlSecondsAfterFinished": 1800,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        });
        spec["template"] = template;
        spec
    }

    fn jobset(&self, work: &Work) -> Value {
        let group = &work.groups[0];
        let mut annotations = Map::new();
        if work.sliced {
            annotations.insert(
                "alpha.jobset.sigs.k8s.io/exclusive-topology".into(),
                json!("cloud.google.com/gke-nodepool"),
            );
        }
        let mut meta = self.work_metadata(work);
        if !annotations.is_empty() {
            meta["annotations"] = Value::Object(annotations);
        }
        json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": meta,
            "spec": {
                "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true, "subdomain": &*work.name},
                "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
                "failurePolicy": {"maxRestarts": 10, "restartStrategy": "Recreate"},
                "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
                "suspend": work.suspended,
                "ttlSecondsAfterFinished": 1800,
                "replicatedJobs": [{
                    "name": "workers",
                    "groupName": "default",
                    "replicas": work.groups.len(),
                    "template": {
                        "metadata": {},
                        "spec": {
                            "parallelism": group.parallelism,
                            "completions": group.completions,
                            "completionMode": "Indexed",
                            "backoffLimit": 0,
                            "template": self.template(work, None),
                        },
                    },
                }],
            },
        })
    }

    fn daemonset(&self, work: &Work) -> Value {
        let labels = self.template_labels(work);
        let mut meta = metadata(&work.namespace, &work.name, work.uid, work.created);
        meta["labels"] = Value::Object(labels.clone());
        meta["annotations"] = json!({"deprecated.daemonset.template.generation": "1"});
        json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta,
            "spec": {
                "revisionHistoryLimit": 10,
                "selector": {"matchLabels": labels},
                "template": self.template(work, None),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            },
        })
    }

    pub(super) fn render_child(&self, work: &Work, at: u32) -> Option<Value> {
        let mut object = self.render_child_base(work, at)?;
        if matches!(work.kind, Kind::JobSet | Kind::Deployment) {
            work.groups[at as usize].edit.apply(&mut object);
        }
        Some(object)
    }

    /// A child without clients' changes.
    pub(in super::super) fn render_child_base(&self, work: &Work, at: u32) -> Option<Value> {
        match work.kind {
            Kind::JobSet | Kind::Deployment => Some(self.render_group_base(work, at)),
            Kind::RayJob => Some(self.ray_cluster(work)),
            Kind::LeaderWorkerSet => self.group_set(work, at),
            Kind::VolcanoJob => self.volcano_pod_group(work),
            Kind::PyTorchJob => self.kai_pod_group(work),
            _ => None,
        }
    }

    /// A child Job or ReplicaSet without clients' changes.
    fn render_group_base(&self, work: &Work, at: u32) -> Value {
        let group = &work.groups[at as usize];
        let uid = group_uid(work, at);
        let mut meta = metadata(&work.namespace, &group.name, uid, group.created);
        meta["generation"] = json!(group.edit.generation());
        if work.kind == Kind::JobSet {
            let mut labels = self.template_labels(work);
            labels.insert(
                "jobset.sigs.k8s.io/jobset-name".into(),
                Value::String(work.name.to_string()),
            );
            labels.insert(
                "jobset.sigs.k8s.io/replicatedjob-name".into(),
                Value::String("workers".into()),
            );
            labels.insert(
                "jobset.sigs.k8s.io/replicatedjob-replicas".into(),
                Value::String(work.groups.len().to_string()),
            );
            labels.insert(
                "jobset.sigs.k8s.io/job-index".into(),
                Value::String(at.to_string()),
            );
            labels.insert(
                "jobset.sigs.k8s.io/restart-attempt".into(),
                Value::String(work.restarts.to_string()),
            );
            meta["labels"] = Value::Object(labels);
            meta["ownerReferences"] =
                owner("jobset.x-k8s.io/v1alpha2", "JobSet", &work.name, work.uid);
            return object([
                ("apiVersion", json!("batch/v1")),
                ("kind", json!("Job")),
                ("metadata", meta),
                ("spec", self.job_spec(work, group, uid, at)),
                ("status", self.job_status(work, at)),
            ]);
        }
        let mut labels = self.template_labels(work);
        labels.insert(
            "pod-template-hash".into(),
            Value::String(template_hash(work)),
        );
        let selector = match work
            .foreign
            .as_deref()
            .and_then(|object| object.pointer("/spec/selector/matchLabels"))
        {
            Some(Value::Object(written)) => {
                let mut all = written.clone();
                all.insert("pod-template-hash".into(), json!(template_hash(work)));
                Value::Object(all)
            }
            _ => json!({"app": &*work.name, "pod-template-hash": template_hash(work)}),
        };
        meta["labels"] = Value::Object(labels);
        meta["annotations"] = json!({
            "deployment.kubernetes.io/desired-replicas": group.parallelism.to_string(),
            "deployment.kubernetes.io/max-replicas": group.parallelism.to_string(),
            "deployment.kubernetes.io/revision": "1",
        });
        meta["ownerReferences"] = owner("apps/v1", "Deployment", &work.name, work.uid);
        let count = self.count(work, at);
        json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": meta,
            "spec": {
                "replicas": group.parallelism,
                "selector": {"matchLabels": selector},
                "template": self.template(work, Some(("pod-template-hash", template_hash(work)))),
            },
            "status": {
                "observedGeneration": group.edit.generation(),
                "replicas": count.active,
                "fullyLabeledReplicas": count.active,
                "readyReplicas": count.ready,
                "availableReplicas": count.ready,
            },
        })
    }
}
