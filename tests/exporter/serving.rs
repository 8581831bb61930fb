//! The exporter room: servers of models, whose pages are about requests.

use exporter::{Dialects, PageSource, ParsedPage, Rates, read};
use model::base::{Moment, Names, ObjectKey};
use model::fleet::reading::{Reading, ReadingScope};
use model::fleet::signal::Signal as S;

fn page_of(text: &str, target: &PageSource<'_>) -> ParsedPage {
    read(
        &Dialects::builtin(),
        text.as_bytes(),
        target,
        &mut Names::default(),
    )
}

fn page(text: &str) -> ParsedPage {
    page_of(text, &PageSource::default())
}

fn served(read: &ParsedPage) -> Vec<&Reading> {
    let all = read.readings.iter();
    all.filter(|one| one.scope == ReadingScope::Serving)
        .collect()
}

fn values(reading: &Reading) -> Vec<(&'static str, f64)> {
    let all = reading.signals.iter();
    all.map(|(signal, value)| (signal.name(), value)).collect()
}

#[test]
fn vllm_adds_its_engines_up() {
    let target = PageSource {
        pod: Some(ObjectKey::new("chat", "llama-0")),
        ..PageSource::default()
    };
    let read = page_of(include_str!("pages/vllm.prom"), &target);
    assert_eq!(read.report.dialect.as_deref(), Some("vllm"));
    assert_eq!(read.report.messages, Vec::<String>::new());
    let [server] = &*read.readings else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(server.scope, ReadingScope::Serving);
    assert_eq!(server.pod, Some(ObjectKey::new("chat", "llama-0")));
    assert_eq!(server.model.as_deref(), Some("meta-llama/Llama-3.1-8B"));
    assert_eq!(
        values(server),
        [
            ("requests_running", 12.0),
            ("requests_waiting", 3.0),
            ("kv_cache_ratio", 0.375),
            // 40 seconds over 400 requests; no token but the first has come yet.
            ("ttft_seconds", 0.1),
            ("e2e_seconds", 2.5),
            ("requests_total", 100.0),
            ("requests_failed_total", 1.0),
            ("prompt_tokens_total", 5000.0),
            ("generation_tokens_total", 9000.0),
            ("preemptions_total", 4.0),
        ]
    );
}

#[test]
fn vllm_of_the_first_engine_and_without_labels() {
    let read = page(
        "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.42\n\
         vllm:time_per_output_token_seconds_sum{model_name=\"m\"} 3\nvllm:time_per_output_token_seconds_count{model_name=\"m\"} 60\n\
         vllm:gpu_prefix_cache_hit_rate{model_name=\"m\"} -1\nvllm:num_requests_waiting{model_name=\"m\"} NaN\n",
    );
    assert_eq!(
        values(&read.readings[0]),
        [
            ("requests_running", 1.0),
            ("kv_cache_ratio", 0.42),
            ("itl_seconds", 0.05)
        ]
    );
    let bare = page("vllm:num_requests_running 2\nvllm:kv_cache_usage_perc NaN\n");
    assert_eq!(bare.readings[0].model, None);
    assert_eq!(values(&bare.readings[0]), [("requests_running", 2.0)]);
}

/// Buckets of a metric, with these labels beside `le`.
fn buckets(metric: &str, labels: &str, all: &[(&str, f64)]) -> String {
    all.iter()
        .map(|(le, count)| format!("{metric}_bucket{{{labels},le=\"{le}\"}} {count}\n"))
        .collect()
}

#[test]
fn buckets_of_latencies_are_read_and_engines_added_up() {
    let metric = "vllm:time_to_first_token_seconds";
    let of = |engine: &str, counts: [f64; 3]| {
        let all = [("0.1", counts[0]), ("0.5", counts[1]), ("+Inf", counts[2])];
        buckets(
            metric,
            &format!("model_name=\"m\",engine=\"{engine}\""),
            &all,
        )
    };
    let text = of("0", [10.0, 90.0, 100.0]) + &of("1", [1.0, 2.0, 3.0]);
    let read = page(&text);
    assert_eq!(read.report.messages, Vec::<String>::new());
    let [ttft] = &*read.readings[0].histograms else {
        panic!("{:?}", read.readings)
    };
    assert_eq!((ttft.signal, &*ttft.bounds), (S::Ttft, &[0.1, 0.5][..]));
    assert_eq!(&*ttft.counts, [11, 92, 103]);
    // The last of two lines counts.
    let twice = page(&(of("0", [9.0, 9.0, 9.0]) + &of("0", [1.0, 2.0, 3.0])));
    assert_eq!(&*twice.readings[0].histograms[0].counts, [1, 2, 3]);
}

#[test]
fn time_per_token_is_read_per_request_and_per_token() {
    let labels = "model_name=\"m\"";
    let all = [("0.05", 1.0), ("+Inf", 2.0)];
    let read = page(
        &[
            buckets("vllm:request_time_per_output_token_seconds", labels, &all),
            buckets("vllm:inter_token_latency_seconds", labels, &all),
            buckets(
                "vllm:time_per_output_token_seconds",
                labels,
                &[("+Inf", 9.0)],
            ),
            "vllm:prefix_cache_hits_total{model_name=\"m\"} 30\n".to_owned(),
            "vllm:prefix_cache_queries_total{model_name=\"m\"} 40\n".to_owned(),
        ]
        .concat(),
    );
    let histograms = read.readings[0].histograms.iter();
    let signals: Vec<_> = histograms
        .map(|one| (one.signal, one.counts.len()))
        .collect();
    assert_eq!(signals, [(S::Itl, 2), (S::Tpot, 2)]);
    assert_eq!(values(&read.readings[0]), [("prefix_hit_ratio", 0.75)]);
}

#[test]
fn a_malformed_histogram_is_unknown_and_counted() {
    let good = [("0.1", 1.0), ("0.5", 2.0), ("+Inf", 3.0)];
    for wrong in [
        &[("0.1", 1.0), ("0.5", 2.0)][..],
        &[("0.1", 2.0), ("0.5", 1.0), ("+Inf", 3.0)],
        &[("0.1", f64::NAN), ("0.5", 2.0), ("+Inf", 3.0)],
        &[("0.1", 0.5), ("0.5", 2.0), ("+Inf", 3.0)],
        &[("fast", 1.0), ("0.5", 2.0), ("+Inf", 3.0)],
    ] {
        let metric = "vllm:time_to_first_token_seconds";
        let labels = "model_name=\"m\",engine=\"0\"";
        let other = "model_name=\"m\",engine=\"1\"";
        let rest = "vllm:num_requests_running{model_name=\"m\",engine=\"0\"} 2\n";
        for more in ["", &buckets(metric, other, &good)] {
            let read = page(&(buckets(metric, labels, wrong) + more + rest));
            assert_eq!(read.report.malformed_histograms, 1, "{wrong:?}");
            assert!(read.report.messages[0].contains("1 malformed histogram"));
            assert_eq!(read.readings[0].histograms, []);
            assert_eq!(values(&read.readings[0]), [("requests_running", 2.0)]);
        }
    }
}

#[test]
fn bounds_in_milliseconds_become_seconds() {
    let metric = "nv_inference_first_response_histogram_ms";
    let all = [("100", 1.0), ("500", 2.0), ("+Inf", 2.0)];
    let read = page(&buckets(metric, "model=\"m\"", &all));
    assert_eq!(read.report.dialect.as_deref(), Some("triton"));
    let ttft = &served(&read)[0].histograms[0];
    assert_eq!(
        (&*ttft.bounds, &*ttft.counts),
        (&[0.1, 0.5][..], &[1, 2, 2][..])
    );
}

#[test]
fn pods_of_one_prometheus_page_are_distinct() {
    let read = page(
        "vllm:num_requests_running{model_name=\"m\",namespace=\"a\",pod=\"p-0\",engine=\"0\"} 1\n\
         vllm:num_requests_running{model_name=\"m\",namespace=\"a\",pod=\"p-1\",engine=\"0\"} 2\n\
         vllm:num_requests_running{model_name=\"m\",namespace=\"a\",pod=\"p-1\",engine=\"1\"} 4\n",
    );
    let all: Vec<_> = served(&read)
        .iter()
        .map(|one| (one.pod.clone(), values(one)[0].1))
        .collect();
    assert_eq!(
        all,
        [
            (Some(ObjectKey::new("a", "p-0")), 1.0),
            (Some(ObjectKey::new("a", "p-1")), 6.0)
        ]
    );
}

#[test]
fn means_are_of_what_came_since_the_page_before() {
    let text = |sum: f64, count: f64| {
        format!(
            "vllm:time_to_first_token_seconds_sum{{model_name=\"m\"}} {sum}\nvllm:time_to_first_token_seconds_count{{model_name=\"m\"}} {count}\n"
        )
    };
    let mut rates = Rates::default();
    let mut at = 0;
    let mut ttft = |sum, count| {
        let mut read = page(&text(sum, count));
        at += 15_000;
        rates.fill(Moment::from_millis(at), &mut read);
        read.readings[0].signals.get(S::Ttft)
    };
    assert_eq!(ttft(10.0, 100.0), Some(0.1), "all there was");
    assert_eq!(ttft(20.0, 105.0), Some(2.0), "five slow ones");
    assert_eq!(ttft(20.0, 105.0), None, "nobody came");
    assert_eq!(ttft(21.0, 106.0), Some(1.0));
    assert_eq!(ttft(4.0, 8.0), Some(0.5), "it was started again");
    assert_eq!(ttft(6.0, 12.0), Some(0.5));
}

/// A value by its signal's name.
type Named = (&'static str, f64);

/// What the only server on a page says, with its latencies by signal and how many requests or tokens each counts.
fn only(page: &ParsedPage) -> (Vec<Named>, Vec<(S, u64)>) {
    assert_eq!(page.report.messages, Vec::<String>::new());
    let [server] = &*served(page) else {
        panic!("{:?}", page.readings)
    };
    let latencies = server.histograms.iter();
    let latencies = latencies.map(|one| (one.signal, one.counts[one.counts.len() - 1]));
    (values(server), latencies.collect())
}

#[test]
fn sglang_gives_tokens_and_no_preemptions() {
    let read = page(include_str!("pages/sglang.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("sglang"));
    assert_eq!(served(&read)[0].model.as_deref(), Some("org/model-8b"));
    let (values, latencies) = only(&read);
    assert_eq!(
        values,
        [
            ("requests_running", 9.0),
            ("requests_waiting", 2.0),
            ("kv_cache_ratio", 0.28),
            ("prefix_hit_ratio", 0.125),
            ("ttft_seconds", 0.25),
            ("itl_seconds", 0.02),
            ("e2e_seconds", 4.0),
            ("requests_total", 50.0),
            ("requests_failed_total", 1.0),
            ("prompt_tokens_total", 8000.0),
            ("generation_tokens_total", 7000.0),
        ]
    );
    assert_eq!(latencies, [(S::Ttft, 50), (S::Itl, 6950)]);
}

#[test]
fn ranks_of_one_engine_of_sglang_say_the_same_and_engines_add_up() {
    let row = |metric: &str, labels: &str, value: u32| {
        format!("sglang:{metric}{{model_name=\"m\",{labels}}} {value}\n")
    };
    let ranks = [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")];
    let rank = |(pp, tp): &(&str, &str)| format!("pp_rank=\"{pp}\",tp_rank=\"{tp}\"");
    let one: String = ranks
        .iter()
        .map(|at| row("num_running_reqs", &rank(at), 12) + &row("num_queue_reqs", &rank(at), 3))
        .collect();
    let counts = |text: &str| values(served(&page(text))[0]);
    assert_eq!(
        counts(&one),
        [("requests_running", 12.0), ("requests_waiting", 3.0)]
    );
    let engines = [("0", 12), ("1", 5)];
    let two: String = engines
        .iter()
        .flat_map(|(dp, value)| {
            let labels = move |at| format!("dp_rank=\"{dp}\",{}", rank(at));
            let rows = ranks
                .iter()
                .map(move |at| row("num_running_reqs", &labels(at), *value));
            rows.collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(counts(&two), [("requests_running", 17.0)]);
}

#[test]
fn tgi_counts_tokens_by_its_histograms_and_names_no_model() {
    let read = page(include_str!("pages/tgi.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("tgi"));
    assert_eq!(served(&read)[0].model, None);
    let (values, latencies) = only(&read);
    assert_eq!(
        values,
        [
            ("requests_running", 6.0),
            ("requests_waiting", 4.0),
            ("tpot_seconds", 0.025),
            ("queue_seconds", 0.1),
            ("e2e_seconds", 2.5),
            ("requests_total", 38.0),
            ("requests_failed_total", 2.0),
            ("prompt_tokens_total", 12000.0),
            ("generation_tokens_total", 5700.0),
        ]
    );
    assert_eq!(latencies, [(S::Tpot, 32)]);
}

#[test]
fn trtllm_serve_gives_latencies_under_both_of_its_prefixes() {
    let text = include_str!("pages/trtllm.prom");
    for text in [text.to_owned(), text.replace("trtllm_", "trtllm:")] {
        let read = page(&text);
        assert_eq!(read.report.dialect.as_deref(), Some("trtllm"));
        assert_eq!(served(&read)[0].model.as_deref(), Some("org/model-70b"));
        let (values, latencies) = only(&read);
        assert_eq!(
            values,
            [
                ("requests_running", 3.0),
                ("requests_waiting", 1.0),
                ("kv_cache_ratio", 0.5),
                ("prefix_hit_ratio", 0.25),
                ("ttft_seconds", 0.25),
                ("tpot_seconds", 0.025),
                ("queue_seconds", 0.02),
                ("e2e_seconds", 3.0),
                ("requests_total", 24.0),
            ]
        );
        assert_eq!(latencies, [(S::Ttft, 32), (S::Tpot, 32)]);
    }
}

#[test]
fn nim_is_known_by_names_without_a_prefix() {
    let read = page(include_str!("pages/nim.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("nim"));
    let (values, latencies) = only(&read);
    assert_eq!(
        values,
        [
            ("requests_running", 5.0),
            ("requests_waiting", 0.0),
            ("kv_cache_ratio", 0.75),
            ("ttft_seconds", 0.2),
            ("itl_seconds", 0.02),
            ("e2e_seconds", 3.0),
            ("requests_total", 10.0),
            ("requests_failed_total", 2.0),
            ("prompt_tokens_total", 1000.0),
            ("generation_tokens_total", 2000.0),
        ]
    );
    assert_eq!(latencies, [(S::Ttft, 10), (S::Itl, 2048)]);
    // One that is built on vLLM has its names.
    let vllm = page(include_str!("pages/vllm.prom"));
    assert_eq!(vllm.report.dialect.as_deref(), Some("vllm"));
}

#[test]
fn triton_divides_microseconds_by_requests() {
    let read = page(include_str!("pages/triton.prom"));
    assert_eq!(read.report.dialect.as_deref(), Some("triton"));
    let device = &read.readings[0];
    assert_eq!(device.scope, ReadingScope::Device);
    assert_eq!(
        device.uuid.as_deref(),
        Some("GPU-cccccccc-0000-4000-8000-000000000001")
    );
    assert_eq!(
        values(device),
        [
            ("util_ratio", 0.31),
            ("mem_used_bytes", 4_025_352_192.0),
            ("mem_total_bytes", 16_101_408_768.0),
            ("mem_used_ratio", 0.25),
            ("power_watts", 35.5),
            ("power_limit_watts", 70.0),
            ("energy_joules_total", 1234.5),
        ]
    );
    let [bert, llm, resnet] = &*served(&read) else {
        panic!("{:?}", read.readings)
    };
    assert_eq!(bert.model.as_deref(), Some("bert"));
    // No request, no time: not a time of zero.
    assert_eq!(
        values(bert),
        [("requests_waiting", 0.0), ("requests_total", 0.0)]
    );
    assert_eq!(
        values(llm),
        [
            ("requests_running", 12.0),
            ("requests_waiting", 5.0),
            ("kv_cache_ratio", 0.75)
        ]
    );
    assert_eq!(
        values(resnet),
        [
            ("requests_waiting", 3.0),
            ("ttft_seconds", 0.02),
            ("queue_seconds", 0.005),
            ("e2e_seconds", 0.02),
            ("requests_total", 105.0),
            ("requests_failed_total", 5.0),
        ]
    );
}

#[test]
fn servers_are_found_by_label_or_image() {
    let dialects = Dialects::builtin();
    let vllm = &dialects.get("vllm").expect("built in").discovery;
    for image in [
        "vllm/vllm-openai:v0.11.0",
        "docker.io/vllm/vllm-openai@sha256:abc",
        "registry.local/mirror/vllm-openai:latest",
    ] {
        assert!(vllm.runs(image), "{image}");
    }
    assert!(!vllm.runs("nginx:1.27") && !vllm.runs(""));
    assert!(vllm.matches(|key| (key == "app").then_some("vllm-llama")));
    let triton = &dialects.get("triton").expect("built in").discovery;
    for (dialect, image) in [
        ("sglang", "lmsysorg/sglang:v0.5.3"),
        ("tgi", "ghcr.io/huggingface/text-generation-inference:3.3"),
        ("trtllm", "nvcr.io/nvidia/tensorrt-llm/release:1.1.0"),
        ("nim", "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8"),
    ] {
        let runs = dialects.iter().filter(|known| known.discovery.runs(image));
        let names: Vec<&str> = runs.map(|known| &*known.name).collect();
        assert_eq!(names, [dialect], "{image}");
    }
    assert!(triton.runs("nvcr.io/nvidia/tritonserver:25.09-py3"));
    assert!(!triton.runs("vllm/vllm-openai:v0.11.0"));
}
