//! Container logs, generated on request: the same request gives the same lines.

use model::base::{Moment, ObjectKey};

use super::World;
use super::noise::{mix, signed, smooth, unit};
use super::pod::{Ending, PodPhase, SimPod};
use super::work::{Profile, Work, WorkState};

/// Lines that a log keeps at most.
const MOST: i64 = 400;

impl World {
    /// A container's log so far.
    pub(super) fn lines(
        &self,
        key: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>> {
        let pod = self.pods.get(&self.pod_id(key)?)?;
        let work = self.works.get(&pod.work)?;
        if container.is_some_and(|name| name != self.container_name(pod, work)) {
            return None;
        }
        if previous {
            let last = pod.last?;
            let mut lines = self.run(pod, work, last.started, last.finished);
            crash(&mut lines, last.ending, last.finished);
            return Some(lines);
        }
        let Some(started) = pod.started else {
            return Some(Vec::new());
        };
        let end = pod.finished.unwrap_or(self.now).min(self.now);
        let mut lines = self.run(pod, work, started, end);
        match pod.ending {
            Some(Ending::Success) => lines.push((end, "done".to_owned())),
            Some(ending) => crash(&mut lines, ending, end),
            None => {}
        }
        Some(lines)
    }

    fn run(&self, pod: &SimPod, work: &Work, from: Moment, to: Moment) -> Vec<(Moment, String)> {
        match work.profile {
            Profile::Train | Profile::InputBound | Profile::Sweep => {
                self.training_log(pod, work, from, to)
            }
            Profile::Eval => ticks(from, to, 9_000, |n, at| {
                let score = 0.4 + 0.3 * unit(mix(work.uid, n as u64));
                (
                    at,
                    format!(
                        "INFO task {} of 57: acc={score:.4} n={}",
                        n % 57 + 1,
                        200 + n % 800
                    ),
                )
            }),
            Profile::Serve => ticks(from, to, 1_700, |n, at| {
                let word = mix(pod.uid, n as u64);
                let (prompt, answer) = (20 + word % 1800, 5 + (word >> 20) % 600);
                let status = if unit(mix(word, 1)) < 0.004 {
                    "503 Service Unavailable"
                } else {
                    "200 OK"
                };
                (
                    at,
                    format!(
                        "INFO:     10.32.{}.{}:{} - \"POST /v1/completions HTTP/1.1\" {status} prompt_tokens={prompt} completion_tokens={answer} {}ms",
                        word % 200,
                        (word >> 8) % 250,
                        30_000 + word % 20_000,
                        40 + answer * 9
                    ),
                )
            }),
            Profile::Notebook => {
                let mut lines = vec![
                    (from, "[I ServerApp] jupyterlab | extension was successfully loaded.".to_owned()),
                    (from, format!("[I ServerApp] Serving notebooks from local directory: /home/{}", work.user)),
                    (from, "[I ServerApp] Jupyter Server 2.17.0 is running at: http://0.0.0.0:8888/lab".to_owned()),
                ];
                lines.extend(ticks(from, to, 1_200_000, |_, at| {
                    (
                        at,
                        format!("[I ServerApp] Saving file at /{}.ipynb", work.name),
                    )
                }));
                lines
            }
            Profile::Infra => ticks(from, to, 600_000, |n, at| {
                (
                    at,
                    format!("level=info msg=\"collected metrics\" cycle={}", n * 20),
                )
            }),
        }
    }

    fn training_log(
        &self,
        pod: &SimPod,
        work: &Work,
        from: Moment,
        to: Moment,
    ) -> Vec<(Moment, String)> {
        let rank = pod.group * work.groups.first().map_or(1, |group| group.completions) + pod.index;
        let world = work.width();
        let mut lines = vec![
            (
                from,
                format!("[rank{rank}] loading config configs/{}.yaml", work.name),
            ),
            (
                from,
                format!(
                    "[rank{rank}] process group ready: backend={} world_size={}",
                    if work.sliced { "ici" } else { "nccl" },
                    world * work.ask.count.max(1)
                ),
            ),
        ];
        let begins = if work.gang {
            match (work.running_since, work.state) {
                (Some(since), _) => since.max(from),
                (None, WorkState::Done(..)) => from,
                (None, _) => {
                    lines.push((
                        from,
                        format!(
                            "[rank{rank}] waiting for {} peers at rendezvous",
                            world.saturating_sub(1)
                        ),
                    ));
                    return lines;
                }
            }
        } else {
            from
        };
        if let (Some(at), PodPhase::Running) = (work.saved.gt(&0).then_some(begins), pod.phase) {
            lines.push((
                at,
                format!(
                    "[rank{rank}] resumed from checkpoint at step {}",
                    work.saved / 2400
                ),
            ));
        }
        let halted = work.stalled.map_or(to, |since| since.min(to));
        let tokens = 11_000.0 * f64::from(work.devices().max(1)) * work.util.max(0.05);
        let (saved, every) = (work.saved, work.checkpoint_every);
        lines.extend(ticks(begins, halted, 24_000, |n, at| {
            let step = saved / 2400 + (n + 1) * 10;
            let fall = 1.6 + 8.5 / (1.0 + step as f64 / 420.0).sqrt();
            let loss = fall + 0.03 * signed(mix(work.uid, step as u64)) + 0.02 * smooth(work.uid, at.millis(), 900_000);
            let rate = tokens * (1.0 + 0.02 * signed(mix(work.uid ^ 5, step as u64)));
            let grad = 0.3 + 0.4 * unit(mix(work.uid ^ 9, step as u64));
            let ran = at.since(begins).millis() as i64;
            if every > 0 && ran >= every && ran % every < 24_000 {
                (at, format!("[rank{rank}] saved checkpoint at step {step} in {:.1}s", 9.0 + 14.0 * unit(mix(work.uid, step as u64))))
            } else {
                (at, format!("[rank{rank}] step {step} | loss {loss:.4} | grad_norm {grad:.3} | lr 2.8e-04 | {rate:.0} tokens/s | mfu {:.1}%", work.util * 46.0))
            }
        }));
        if let Some(since) = work.stalled.filter(|since| *since < to) {
            lines.extend(ticks(since.plus(super::seconds(60)), to, 60_000, |n, at| {
                (at, format!("[rank{rank}] [W] watchdog: collective ALLREDUCE has been running for {}s", (n + 1) * 60))
            }));
        }
        lines
    }
}

/// One line each `period` milliseconds from a start, the last [`MOST`] of them.
fn ticks(
    from: Moment,
    to: Moment,
    period: i64,
    line: impl Fn(i64, Moment) -> (Moment, String),
) -> Vec<(Moment, String)> {
    let count = (to.millis() - from.millis()).max(0) / period;
    ((count - MOST).max(0)..count)
        .map(|n| line(n, Moment::from_millis(from.millis() + (n + 1) * period)))
        .collect()
}

fn crash(lines: &mut Vec<(Moment, String)>, ending: Ending, at: Moment) {
    let texts: &[&str] = match ending {
        Ending::Success => &[],
        Ending::OutOfMemory => &["INFO loading shard 00312", "Killed"],
        Ending::Exit(139) => &[
            "Fatal Python error: Segmentation fault",
            "Current thread 0x00007f2c (most recent call first):",
            "  File \"/app/train/data.py\", line 211 in decode",
        ],
        Ending::Exit(134) => &[
            "[E] collective operation timeout: WorkNCCL(OpType=ALLREDUCE) ran for 1800043 milliseconds before timing out.",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
        ],
        Ending::Exit(_) => &[
            "Traceback (most recent call last):",
            "  File \"/app/train/__main__.py\", line 88, in main",
            "    loss = model(batch)",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.",
        ],
    };
    lines.extend(texts.iter().map(|text| (at, (*text).to_owned())));
}
