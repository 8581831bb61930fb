//! Durations as the API server prints them in tables.

use model::base::Moment;

/// A duration in milliseconds with two or three significant figures, as `kubectl get` shows ages.
///
/// Follows the rules of `HumanDuration` in `k8s.io/apimachinery/pkg/util/duration`.
pub fn duration(millis: i64) -> String {
    let seconds = millis / 1000;
    if seconds < -1 {
        return "<invalid>".into();
    }
    if seconds < 0 {
        return "0s".into();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    // A figure of two parts, the second omitted when it is zero.
    let pair = |whole: i64, unit: char, rest: i64, small: char| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{small}")
        }
    };
    match seconds {
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => pair(hours / 24, 'd', hours % 24, 'h'),
        _ if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        _ if hours < 24 * 365 * 8 => pair(hours / 24 / 365, 'y', hours / 24 % 365, 'd'),
        _ => format!("{}y", hours / 24 / 365),
    }
}

/// How long ago the RFC 3339 moment `stamp` was at `now`; `<unknown>` when there is none.
pub fn since(now: Moment, stamp: &str) -> String {
    match Moment::parse(stamp) {
        Some(then) => duration(now.millis().saturating_sub(then.millis())),
        None => "<unknown>".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_shows_them() {
        for (seconds, shown) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(duration(seconds * 1000), shown, "{seconds}");
        }
        assert_eq!(since(Moment::from_seconds(0), ""), "<unknown>");
    }
}
