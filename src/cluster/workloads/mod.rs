//! Kinds that own pods: Jobs, JobSets, training jobs, RayJobs, LeaderWorkerSets, and the workloads of `apps`.

pub mod job;
pub mod leader;
pub mod pod_sets;
pub mod ray;
pub mod training;
pub mod workload;
