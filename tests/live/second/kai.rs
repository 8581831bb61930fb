//! What is told of jobs that KAI schedules, and what becomes of what a plan writes.

use serde_json::{Value, json};

use super::acting::Stage;
use super::controllers::figures;
use super::plane::{Undo, acts_for_long, kubectl, undo};
use super::truth::text;

const POD_GROUP: &str = "podgroups.scheduling.run.ai";
const JOB_OF_POD: &str = "job-name";

/// Makes a queue of KAI for so many devices, at most twice as many, below another for as many; both go with the value.
fn queues(stage: &Stage, devices: u32) -> Undo<impl FnMut()> {
    let name = stage.name;
    let forget = move || {
        let queues = [name.to_owned(), format!("{name}-all")];
        let kind = "queues.scheduling.run.ai";
        undo(&["delete", kind, &queues[0], &queues[1], "--ignore-not-found"]);
    };
    forget();
    let queue = |queue: &str, parent: Value, quota: u32, limit: u32| {
        let any = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
        json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": queue}, "spec": {
            "parentQueue": parent, "resources": {"cpu": any, "memory": any, "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}}}})
    };
    let all = format!("{name}-all");
    stage.create(&[
        queue(&all, Value::Null, 2 * devices, 2 * devices),
        queue(name, json!(all), devices, 2 * devices),
    ]);
    Undo(forget)
}

impl Stage {
    /// Makes a Job of two pods with a device each, in this test's queue.
    fn kai_job(&self, name: &str) {
        let labels = json!({"kai.scheduler/queue": self.name});
        let mut template = self.pods(&labels, 1);
        template["spec"]["restartPolicy"] = "Never".into();
        template["spec"]["schedulerName"] = "kai-scheduler".into();
        self.create(&[json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": self.name, "labels": labels},
            "spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template},
        })]);
    }

    /// The classes of the PodGroups of a job's pods that there are now.
    fn classes(&self, job: &str) -> Vec<String> {
        let pods = self.running(JOB_OF_POD, job);
        let groups = self.all(POD_GROUP).into_iter();
        groups
            .filter(|group| {
                let name = text(group, "/metadata/name");
                pods.iter()
                    .any(|pod| name.starts_with(&format!("pg-{pod}-")))
            })
            .map(|group| text(&group, "/spec/priorityClassName").to_owned())
            .collect()
    }
}

/// Jobs in a queue of KAI: within its quota, beyond it, beyond its limit; held, requeued, failed in part.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn jobs_that_kai_schedules() {
    let stage = &Stage::on(acts_for_long(), "act-kai");
    let _queues = queues(stage, 2);
    let runs = |job: &str| {
        let row = stage.wait_for_row(job, "it runs", |row| {
            row["state"] == "running" && row["devices_allocated"] == 2
        });
        // It starts each pod of a Job by itself.
        assert!(row["gang"].is_null(), "{row:#}");
        assert_eq!(row["queue"], stage.name, "{row:#}");
        // KAI gives a Job the class `train`, where its pods have none.
        assert_eq!(row["priority"], 50, "{row:#}");
    };
    let waits = |job: &str| {
        let row = stage.wait_for_row(job, "it waits for KAI's limit", |row| {
            row["state"] == "waiting" && text(row, "/reason").contains("Limit is 4 GPUs")
        });
        let figures = figures(&row);
        assert_eq!([&figures[2], &figures[3]], [2, 0], "{row:#}");
    };
    for job in ["one", "two"] {
        stage.kai_job(job);
        runs(job);
    }
    stage.kai_job("three");
    waits("three");
    // It has lent two.
    stage.row("queues", stage.name, |row| {
        let devices = &row["quota"][0];
        [&devices["used"], &devices["nominal"], &devices["borrowed"]]
            == [&json!(4), &json!(2), &json!(2)]
    });
    stage.refused(
        &["hold", &format!("queue/{}", stage.name)],
        "cannot be held",
    );

    // Held it leaves its devices to who waits, and stays so.
    let one = format!("job/{}/one", stage.name);
    stage.act(&["hold", &one]);
    runs("three");
    stage.stays("it stays on hold", || {
        stage.object("job", "one")["spec"]["suspend"] == true
            && stage.running(JOB_OF_POD, "one").is_empty()
    });
    stage.wait_for_row("one", "it is on hold", |row| {
        row["state"] == "suspended" && row["devices_allocated"] == 0
    });
    stage.act(&["resume", &one]);
    waits("one");
    // Taken off, another has its devices.
    stage.act(&["requeue", &format!("{}/two", stage.name)]);
    stage.wait_for_row("one", "it runs in its place", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
    waits("two");
    // One of its pods fails: KAI gives the device to the first pod that waits, and half of either job runs.
    stage.end_of(JOB_OF_POD, "three", "three-0", "fail-after");
    stage.wait_for_row("two", "half of it runs", |row| {
        row["state"] == "running" && row["devices_allocated"] == 1
    });
    stage.wait_for_row("three", "half of it runs on", |row| {
        row["state"] == "running" && row["devices_allocated"] == 1
    });
    // The pod is made again by its Job, and KAI starts it when there is room.
    kubectl(&["-n", stage.name, "delete", "jobs", "one", "two"]);
    stage.wait_for_row("three", "all of it runs", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
    // Done in part, and done.
    stage.end_of(JOB_OF_POD, "three", "three-1", "complete-after");
    stage.wait_for_row("three", "half of it goes on", |row| {
        row["state"] == "running" && row["devices_allocated"] == 1
    });
    stage.end_of(JOB_OF_POD, "three", "three-0", "complete-after");
    stage.wait_for_row("three", "it is done", |row| row["state"] == "done");
}

/// A class of another order: it is done when KAI's own PodGroups have it.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn kai_takes_a_new_priority_over() {
    let stage = &Stage::new("act-kai-order");
    let _queues = queues(stage, 2);
    stage.kai_job("train");
    stage.wait_for_row("train", "it runs", |row| {
        row["devices_allocated"] == 2 && row["priority"] == 50
    });
    assert_eq!(stage.classes("train"), ["train", "train"]);
    let job = format!("job/{}/train", stage.name);
    let run = stage.act(&["reprioritise", &job, "inference"]);
    assert_eq!(stage.classes("train"), ["inference", "inference"]);
    stage.wait_for_row("train", "it has the new priority", |row| {
        row["priority"] == 125
    });
    stage.act(&["undo", &run]);
    assert_eq!(stage.classes("train"), ["train", "train"]);
    stage.wait_for_row("train", "it has its own again", |row| row["priority"] == 50);
}
