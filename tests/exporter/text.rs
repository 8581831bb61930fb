//! The exposition parser: what it takes, what it counts as bad, and that nothing makes it panic.

use exporter::exposition::{BAD_LINES_KEPT, Limits, LineFault, Nature, Scan, scan};
use proptest::prelude::*;

type Row = (String, Vec<(String, String)>, f64, Option<i64>);

fn rows(page: &[u8], limits: Limits) -> (Vec<Row>, Scan) {
    let mut rows = Vec::new();
    let scan = scan(page, limits, |series| {
        let labels = series
            .labels
            .iter()
            .map(|label| (label.name.to_string(), label.value.to_string()))
            .collect();
        rows.push((
            series.name.to_string(),
            labels,
            series.value,
            series.timestamp,
        ));
    });
    (rows, scan)
}

fn one(line: &str) -> Row {
    let (mut rows, scan) = rows(line.as_bytes(), Limits::default());
    assert_eq!((rows.len(), scan.bad), (1, 0), "{line}: {scan:?}");
    rows.remove(0)
}

fn row(name: &str, labels: &[(&str, &str)], value: f64, timestamp: Option<i64>) -> Row {
    let labels = labels
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    (name.into(), labels, value, timestamp)
}

#[test]
fn lines_that_are_series() {
    for (line, want) in [
        ("a 1", row("a", &[], 1.0, None)),
        ("a{} 1\n", row("a", &[], 1.0, None)),
        ("\t a  1 \t\n", row("a", &[], 1.0, None)),
        ("a{b=\"c\"}1\n", row("a", &[("b", "c")], 1.0, None)),
        (
            "a{b=\"c\", d = \"e\" , } 2\r\n",
            row("a", &[("b", "c"), ("d", "e")], 2.0, None),
        ),
        (
            "vllm:x_total{b=\"}{,=# \"} 3 1700000000000",
            row(
                "vllm:x_total",
                &[("b", "}{,=# ")],
                3.0,
                Some(1_700_000_000_000),
            ),
        ),
        (
            r#"a{b="\\ \" \n \t \é"} 1"#,
            row("a", &[("b", "\\ \" \n \\t \\é")], 1.0, None),
        ),
        (
            "a 5.32523487232e+011",
            row("a", &[], 532_523_487_232.0, None),
        ),
        ("a -1.5E-3", row("a", &[], -0.0015, None)),
        ("a +Inf", row("a", &[], f64::INFINITY, None)),
        ("a -Inf", row("a", &[], f64::NEG_INFINITY, None)),
        // OpenMetrics: seconds with a fraction, exemplars, names in quotes.
        (
            "a 1 1700000000.5",
            row("a", &[], 1.0, Some(1_700_000_000_500)),
        ),
        (
            "a 1 1700000000",
            row("a", &[], 1.0, Some(1_700_000_000_000)),
        ),
        (
            "a_bucket{le=\"0.1\"} 8 # {trace_id=\"x} y\"} 0.05 1.2",
            row("a_bucket", &[("le", "0.1")], 8.0, None),
        ),
        (
            "a{b=\"c\"} 8 12.25 # {t=\"x\"} 0.05",
            row("a", &[("b", "c")], 8.0, Some(12_250)),
        ),
        (
            "{\"gpu.power/watts\",\"dotted.label\"=\"v\",b=\"c\"} 7",
            row(
                "gpu.power/watts",
                &[("dotted.label", "v"), ("b", "c")],
                7.0,
                None,
            ),
        ),
    ] {
        assert_eq!(one(line), want, "{line}");
    }
    assert!(one("a NaN").2.is_nan());
    assert!(one("a nan").2.is_nan());
}

#[test]
fn lines_that_are_not() {
    for (line, fault) in [
        ("{a=\"b\"} 1", LineFault::NoName),
        ("9a 1", LineFault::NoName),
        ("é 1", LineFault::NoName),
        ("a", LineFault::NoValue),
        ("a{b=\"c\"}", LineFault::NoValue),
        ("a{b=\"c\"} # 1", LineFault::NoValue),
        ("a{b=\"c\"} ERROR - FAILED", LineFault::NotANumber),
        ("a 1,5", LineFault::NotANumber),
        ("a 0x10", LineFault::NotANumber),
        ("a 1 now", LineFault::BadTimestamp),
        ("a 1 2 3", LineFault::Trailing),
        ("a{b=\"c\" 1", LineFault::BadLabel),
        ("a{b=c} 1", LineFault::BadLabel),
        ("a{b} 1", LineFault::BadLabel),
        ("a{=\"c\"} 1", LineFault::BadLabel),
        ("a{b=\"c\"d=\"e\"} 1", LineFault::BadLabel),
        ("a{\"x\",\"y\"} 1", LineFault::BadLabel),
        ("a{b=\"c} 1", LineFault::OpenQuote),
        ("a{b=\"c\\", LineFault::OpenQuote),
        ("a{b=\"c\",", LineFault::OpenBrace),
        ("a{", LineFault::OpenBrace),
        ("a{b", LineFault::OpenBrace),
        ("a{b=", LineFault::OpenBrace),
    ] {
        let (rows, scan) = rows(line.as_bytes(), Limits::default());
        assert_eq!((rows.len(), scan.bad), (0, 1), "{line}");
        assert_eq!(scan.first_bad[0].fault, fault, "{line}");
        assert_eq!(scan.first_bad[0].line, 1);
    }
}

#[test]
fn bad_lines_are_counted_and_the_rest_read() {
    let mut page = String::from("# HELP a b\n# TYPE a gauge\n# UNIT a x\n\na 1\n");
    for _ in 0..20 {
        page.push_str("a{ broken\na{b=\"c\"} 2\n");
    }
    page.push_str("# EOF\n");
    let (rows, scan) = rows(page.as_bytes(), Limits::default());
    assert_eq!(rows.len(), 21);
    assert_eq!((scan.bad, scan.first_bad.len()), (20, BAD_LINES_KEPT));
    assert_eq!(scan.first_bad[1].line, 8);
    assert!(!scan.open_end);
}

#[test]
fn a_known_label_block_does_not_hide_a_bad_tail() {
    let page = "a{b=\"c\"} 1\nx{b=\"c\"} y\nx{b=\"c\"} 2 3 4\nx{b=\"c\"}\nx{b=\"c\"} 5 # {b=\"c\"} 1\n{\"q\",b=\"c\"} 6\nw{\"q\",b=\"c\"} 7\n";
    let (rows, scan) = rows(page.as_bytes(), Limits::default());
    assert_eq!(
        rows.iter().map(|row| (&*row.0, row.2)).collect::<Vec<_>>(),
        [("a", 1.0), ("x", 5.0), ("q", 6.0)]
    );
    assert_eq!(
        scan.first_bad
            .iter()
            .map(|bad| bad.line)
            .collect::<Vec<_>>(),
        [2, 3, 4, 7]
    );
}

#[test]
fn strange_bytes_are_replaced_and_counted() {
    let (rows, scan) = rows(
        b"a{b=\"\xff\xfe\",c=\"ok\"} 1\na{b=\"x\xffy\\n\"} 2\n",
        Limits::default(),
    );
    assert_eq!(scan.not_utf8, 2);
    assert_eq!(rows[0].1[0].1, "\u{fffd}\u{fffd}");
    assert_eq!(rows[0].1[1].1, "ok");
    assert_eq!(rows[1].1[0].1, "x\u{fffd}y\n");
}

#[test]
fn limits_hold() {
    let limits = Limits {
        bytes: 30,
        line: 12,
        labels: 1,
    };
    // The third line would be cut within its number: it is left out whole.
    let (read, scan) = rows(b"a 1\nlong_name_here 2\nb 123456789\n", limits);
    assert_eq!(read.len(), 1);
    assert_eq!(scan.first_bad[0].fault, LineFault::TooLong);
    assert_eq!(scan.left_out, 12);
    let (_, scan) = rows(
        b"a{b=\"\",c=\"\"} 1",
        Limits {
            labels: 1,
            ..Limits::default()
        },
    );
    assert_eq!(scan.first_bad[0].fault, LineFault::TooManyLabels);
    // A body without any line end.
    let (read, scan) = rows(&[b'a'; 100], limits);
    assert_eq!((read.len(), scan.left_out), (0, 100));
    // A last line without its end is taken, and told.
    let (read, scan) = rows(b"a 1\nb 2", Limits::default());
    assert_eq!((read.len(), scan.open_end), (2, true));
}

#[test]
fn natures() {
    for (page, nature) in [
        (&b"\xef\xbb\xbf# x\n\n"[..], Nature::Empty),
        (b"", Nature::Empty),
        (b"  <html>\n<p>x</p>", Nature::Html),
        (b"[1]", Nature::Json),
        (b"\x1f\x8b\x08\x00", Nature::Gzip),
        (b"\x00\x01\x02\x7fELF", Nature::Binary),
        (b"404 page not found\n", Nature::Metrics),
        (b"\xef\xbb\xbfa 1\n", Nature::Metrics),
    ] {
        assert_eq!(rows(page, Limits::default()).1.nature, nature, "{page:?}");
    }
}

/// A label value as the format writes it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn series() -> impl Strategy<Value = Row> {
    let value = prop_oneof![
        any::<f64>().prop_filter("NaN is not equal to itself", |v| !v.is_nan()),
        (-1_000_000i64..1_000_000).prop_map(|v| v as f64),
        Just(f64::INFINITY),
    ];
    (
        "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
        prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,8}", any::<String>()), 0..6),
        value,
        prop::option::of(200_000_000_000i64..4_000_000_000_000),
    )
}

fn render(rows: &[Row], gap: &str, end: &str) -> String {
    let mut page = String::new();
    for (name, labels, value, timestamp) in rows {
        page.push_str(name);
        if !labels.is_empty() {
            let inner: Vec<String> = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
                .collect();
            page.push_str(&format!("{{{}}}", inner.join(&format!(",{gap}"))));
        }
        let value = if *value == f64::INFINITY {
            "+Inf".to_owned()
        } else {
            format!("{value:e}")
        };
        page.push_str(&format!(" {value}"));
        if let Some(timestamp) = timestamp {
            page.push_str(&format!(" {timestamp}"));
        }
        page.push_str(end);
    }
    page
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read(
        wanted in prop::collection::vec(series(), 0..8),
        gap in "[ \t]{0,2}",
        end in prop_oneof![Just("\n"), Just("\r\n")],
    ) {
        // Each row twice: the second time its label block is known.
        let twice: Vec<Row> = wanted.iter().chain(&wanted).cloned().collect();
        let (got, scan) = rows(render(&twice, &gap, end).as_bytes(), Limits::default());
        prop_assert_eq!(scan.bad, 0, "{:?}", scan.first_bad);
        prop_assert_eq!(got, twice);
    }

    #[test]
    fn whole_lines_before_a_cut_are_read_as_they_were(
        wanted in prop::collection::vec(series(), 1..4),
        at in any::<prop::sample::Index>(),
    ) {
        let page = render(&wanted, " ", "\n");
        let head = &page.as_bytes()[..at.index(page.len() + 1)];
        let whole = head.iter().filter(|byte| **byte == b'\n').count();
        let (got, _) = rows(head, Limits::default());
        prop_assert!(got.len() >= whole);
        prop_assert_eq!(&got[..whole], &wanted[..whole]);
    }
}
