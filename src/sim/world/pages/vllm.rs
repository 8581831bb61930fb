//! The page of a vLLM server (version 1 of its engine), about requests.

use super::super::serving::{Served, Server};
use super::{Family, head, number};

/// vLLM's bounds for the time to the first token, seconds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];

/// Its bounds for the time for a token, seconds.
const TPOT: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];

/// Its bounds for whole requests, seconds.
const E2E: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

/// The page while it is written.
struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn row(&mut self, name: &str, more: &str, value: f64) {
        let labels = &self.labels;
        let line = format!("{name}{{{labels}{more}}} {}\n", number(value));
        self.text.push_str(&line);
    }

    fn one(&mut self, family: Family, value: f64) {
        head(&mut self.text, family);
        self.row(family.0, "", value);
    }

    /// A histogram of values, each with how often it was.
    fn histogram(&mut self, family: Family, bounds: &[f64], values: &[(f64, u64)]) {
        head(&mut self.text, family);
        let name = family.0;
        let mut counts = vec![0; bounds.len() + 1];
        for (value, times) in values {
            counts[bounds.partition_point(|bound| bound < value)] += times;
        }
        let mut count = 0;
        for (bound, more) in bounds.iter().zip(counts) {
            count += more;
            let more = format!(",le=\"{bound:?}\"");
            self.row(&format!("{name}_bucket"), &more, count as f64);
        }
        let count: u64 = values.iter().map(|(_, times)| times).sum();
        self.row(&format!("{name}_bucket"), ",le=\"+Inf\"", count as f64);
        self.row(&format!("{name}_count"), "", count as f64);
        let sum: f64 = values
            .iter()
            .map(|(value, times)| value * *times as f64)
            .sum();
        self.row(&format!("{name}_sum"), "", sum);
    }
}

/// The page of a server.
pub(super) fn page(server: &Server<'_>) -> String {
    let mut page = Page {
        text: String::new(),
        labels: format!("engine=\"0\",model_name=\"{}\"", server.plan.model),
    };
    let (running, waiting, cache) = server.load();
    let gauge = "gauge";
    page.one(
        (
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            gauge,
        ),
        running as f64,
    );
    page.one(
        (
            "vllm:num_requests_waiting",
            "Number of requests waiting to be processed.",
            gauge,
        ),
        waiting as f64,
    );
    page.one(
        (
            "vllm:kv_cache_usage_perc",
            "KV-cache usage. 1 means 100 percent usage.",
            gauge,
        ),
        (cache * 1e4).round() / 1e4,
    );
    let started: Vec<(&Served, u64)> = server.since_ready(|one| one.first).collect();
    let finished: Vec<(&Served, u64)> = server.since_ready(|one| one.finished).collect();
    let sum = |all: &[(&Served, u64)], of: fn(&Served) -> f64| -> f64 {
        all.iter().map(|(one, times)| of(one) * *times as f64).sum()
    };
    let values = |all: &[(&Served, u64)], of: fn(&Served) -> f64| -> Vec<(f64, u64)> {
        all.iter().map(|(one, times)| (of(one), *times)).collect()
    };
    let counters: [(&str, &str, f64); 5] = [
        (
            "vllm:prefix_cache_queries_total",
            "Prefix cache queries, in terms of number of queried tokens.",
            sum(&started, |one| one.prompt),
        ),
        (
            "vllm:prefix_cache_hits_total",
            "Prefix cache hits, in terms of number of cached tokens.",
            sum(&started, |one| one.found),
        ),
        (
            "vllm:num_preemptions_total",
            "Cumulative number of preemption from the engine.",
            sum(&started, |one| f64::from(u8::from(one.preempted))),
        ),
        (
            "vllm:prompt_tokens_total",
            "Number of prefill tokens processed.",
            sum(&started, |one| one.prompt),
        ),
        (
            "vllm:generation_tokens_total",
            "Number of generation tokens processed.",
            sum(&finished, |one| one.answer),
        ),
    ];
    for (name, help, value) in counters {
        page.one((name, help, "counter"), value);
    }
    let success = "vllm:request_success_total";
    head(
        &mut page.text,
        (
            success,
            "Count of successfully processed requests.",
            "counter",
        ),
    );
    let stopped = sum(&finished, |_| 1.0);
    page.row(success, ",finished_reason=\"stop\"", stopped);
    page.row(success, ",finished_reason=\"length\"", 0.0);
    page.histogram(
        (
            "vllm:time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            "histogram",
        ),
        TTFT,
        &values(&started, Served::ttft),
    );
    // A request's tokens come evenly.
    let tokens = finished.iter();
    let tokens = tokens.map(|(one, times)| (one.tpot(), times * (one.answer as u64 - 1)));
    page.histogram(
        (
            "vllm:inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            "histogram",
        ),
        TPOT,
        &tokens.collect::<Vec<_>>(),
    );
    page.histogram(
        (
            "vllm:request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            "histogram",
        ),
        TPOT,
        &values(&finished, Served::tpot),
    );
    page.histogram(
        (
            "vllm:e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds.",
            "histogram",
        ),
        E2E,
        &values(&finished, |one| one.finished - one.arrived),
    );
    page.histogram(
        (
            "vllm:request_queue_time_seconds",
            "Histogram of time spent in WAITING phase for request.",
            "histogram",
        ),
        E2E,
        &values(&started, |one| one.started - one.arrived),
    );
    page.text
}
