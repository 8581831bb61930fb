//! The page of a vLLM server (version 1 of its engine), about requests.

use super::super::serving::{ServedRequest, SimServer};
use super::{LabelRow, PageText, families};

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

impl PageText<()> {
    /// A histogram of values, each with how often it was.
    fn histogram(&mut self, name: &str, help: &str, bounds: &[f64], values: &[(f64, u64)]) {
        self.head(name, "histogram", help);
        let labels = self.rows[0].labels.clone();
        let mut counts = vec![0; bounds.len() + 1];
        for (value, times) in values {
            counts[bounds.partition_point(|bound| bound < value)] += times;
        }
        let bucket = format!("{name}_bucket");
        let mut count = 0;
        for (at, more) in counts.into_iter().enumerate() {
            count += more;
            let bound = bounds.get(at).map(|bound| format!("{bound:?}"));
            let le = format!(",le=\"{}\"", bound.as_deref().unwrap_or("+Inf"));
            self.line(&bucket, &[&labels, &le], count as f64);
        }
        self.line(&format!("{name}_count"), &[&labels], count as f64);
        let products = values.iter().map(|(value, times)| value * *times as f64);
        self.line(&format!("{name}_sum"), &[&labels], products.sum());
    }
}

macro_rules! histograms {
    ($page:ident: $($name:literal $help:literal $bounds:ident = $values:expr;)+) => {
        $($page.histogram($name, $help, $bounds, &$values);)+
    };
}

pub(super) fn page(server: &SimServer<'_>) -> String {
    let mut page = PageText::of(vec![LabelRow {
        labels: format!("engine=\"0\",model_name=\"{}\"", server.plan.model),
        tail: String::new(),
        of: (),
    }]);
    let (running, waiting, cache) = server.load();
    let started: Vec<(&ServedRequest, u64)> = server.since_ready(|one| one.first).collect();
    let finished: Vec<(&ServedRequest, u64)> = server.since_ready(|one| one.finished).collect();
    let sum = |all: &[(&ServedRequest, u64)], of: fn(&ServedRequest) -> f64| -> f64 {
        all.iter().map(|(one, times)| of(one) * *times as f64).sum()
    };
    let values =
        |all: &[(&ServedRequest, u64)], of: fn(&ServedRequest) -> f64| -> Vec<(f64, u64)> {
            all.iter().map(|(one, times)| (of(one), *times)).collect()
        };
    // A request's tokens come evenly.
    let tokens = finished.iter();
    let tokens = tokens.map(|(one, times)| (one.tpot(), times * (one.answer as u64 - 1)));
    let tokens: Vec<(f64, u64)> = tokens.collect();
    families! { page:
        "vllm:num_requests_running" gauge "Number of requests in model execution batches." = |_| running as f64;
        "vllm:num_requests_waiting" gauge "Number of requests waiting to be processed." = |_| waiting as f64;
        "vllm:kv_cache_usage_perc" gauge "KV-cache usage. 1 means 100 percent usage." = |_| (cache * 1e4).round() / 1e4;
        "vllm:prefix_cache_queries_total" counter "Prefix cache queries, in terms of number of queried tokens." = |_| sum(&started, |one| one.prompt);
        "vllm:prefix_cache_hits_total" counter "Prefix cache hits, in terms of number of cached tokens." = |_| sum(&started, |one| one.found);
        "vllm:num_preemptions_total" counter "Cumulative number of preemption from the engine." = |_| sum(&started, |one| f64::from(u8::from(one.preempted)));
        "vllm:prompt_tokens_total" counter "Number of prefill tokens processed." = |_| sum(&started, |one| one.prompt);
        "vllm:generation_tokens_total" counter "Number of generation tokens processed." = |_| sum(&finished, |one| one.answer);
        "vllm:request_success_total" counter "Count of successfully processed requests." {|_| ",finished_reason=\"stop\""} = |_| sum(&finished, |_| 1.0);
        "vllm:request_success_total" {|_| ",finished_reason=\"length\""} = |_| 0.0;
    }
    histograms! { page:
        "vllm:time_to_first_token_seconds" "Histogram of time to first token in seconds." TTFT = values(&started, ServedRequest::ttft);
        "vllm:inter_token_latency_seconds" "Histogram of inter-token latency in seconds." TPOT = tokens;
        "vllm:request_time_per_output_token_seconds" "Histogram of time_per_output_token_seconds per request." TPOT = values(&finished, ServedRequest::tpot);
        "vllm:e2e_request_latency_seconds" "Histogram of e2e request latency in seconds." E2E = values(&finished, |one| one.finished - one.arrived);
        "vllm:request_queue_time_seconds" "Histogram of time spent in WAITING phase for request." E2E = values(&started, |one| one.started - one.arrived);
    }
    page.text
}
