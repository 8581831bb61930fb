//! Faults on request: what a test or an operator makes the simulated API server do wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Everything that may go wrong at once. The default is a server in good health.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct InjectedFaults {
    /// Added to every answer, in milliseconds.
    pub latency_ms: u64,
    /// This many of the next watches from a revision answer 410 immediately.
    pub expired_watches: u32,
    /// This many of the next requests answer 429.
    pub too_many: u32,
    /// `Retry-After` of those 429, in seconds.
    pub retry_after_seconds: u32,
    /// This many of the next requests answer 500.
    pub server_errors: u32,
    /// This many of the next requests answer a page of HTML with code 502, as a broken proxy would.
    pub html: u32,
    /// Every token is refused (401) until this is reset.
    pub tokens_expired: bool,
    /// Requests get no answer until this is reset; running watches send nothing.
    pub silent: bool,
    /// Plural names of resources whose lists and watches answer 500.
    pub broken: Vec<String>,
    /// Names of pods whose pages never come through the proxy.
    pub hung: Vec<String>,
    /// Raised by one: every running watch ends.
    pub watch_drops: u64,
}

/// What to do with one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultAction {
    Serve,
    /// Answer 429 with this `Retry-After` in seconds.
    TooMany(u32),
    ServerError,
    Html,
    Expired,
    Silent,
}

impl InjectedFaults {
    /// The delay before an answer.
    pub fn latency(&self) -> Duration {
        Duration::from_millis(self.latency_ms)
    }

    /// What to do with the next request; counts down what is limited in number.
    pub fn judge(&mut self) -> FaultAction {
        let taken = |count: &mut u32| {
            let any = *count > 0;
            *count = count.saturating_sub(1);
            any
        };
        if self.silent {
            FaultAction::Silent
        } else if self.tokens_expired {
            FaultAction::Expired
        } else if taken(&mut self.html) {
            FaultAction::Html
        } else if taken(&mut self.server_errors) {
            FaultAction::ServerError
        } else if taken(&mut self.too_many) {
            FaultAction::TooMany(self.retry_after_seconds)
        } else {
            FaultAction::Serve
        }
    }

    /// True when the next watch from a revision must answer 410; counts down.
    pub fn judge_watch(&mut self) -> bool {
        let any = self.expired_watches > 0;
        self.expired_watches = self.expired_watches.saturating_sub(1);
        any
    }

    /// True when lists and watches of this plural name fail.
    pub fn breaks(&self, plural: &str) -> bool {
        self.broken.iter().any(|broken| broken == plural)
    }

    /// True when the page at this path never arrives.
    pub fn hangs(&self, path: &str) -> bool {
        let pod = path.split("/pods/").nth(1).unwrap_or_default();
        let pod = pod.split([':', '/']).next().unwrap_or_default();
        path.contains("/proxy") && self.hung.iter().any(|hung| hung == pod)
    }

    /// Reads the query `latencyMs=50&silent=true&broken=nodes,pods` on top of what is set.
    ///
    /// # Errors
    /// Names the parameter that is unknown or has a wrong value.
    pub fn with(&self, query: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut next = serde_json::to_value(self).map_err(|error| error.to_string())?;
        for (key, value) in query {
            let bad = |wanted: &str| format!("fault {key:?} is {wanted}, not {value:?}");
            let truth = || value.parse::<bool>().map_err(|_| bad("true or false"));
            if key == "dropWatches" {
                let drops = self.watch_drops + u64::from(truth()?);
                next["watchDrops"] = drops.into();
                continue;
            }
            let known = next.get(key).filter(|_| key != "watchDrops");
            next[key] = match known {
                Some(Value::Bool(_)) => truth()?.into(),
                Some(Value::Array(_)) => names(value).into(),
                Some(_) => value.parse::<u64>().map_err(|_| bad("a number"))?.into(),
                None => {
                    let all = next.as_object().into_iter().flatten();
                    let names = all.map(|(name, _)| name.as_str());
                    let names: Vec<&str> = names.filter(|name| *name != "watchDrops").collect();
                    return Err(format!(
                        "there is no fault {key:?}; the faults are {}, dropWatches",
                        names.join(", ")
                    ));
                }
            };
        }
        serde_json::from_value(next).map_err(|error| error.to_string())
    }
}

/// `a,b` split into parts.
fn names(value: &str) -> Vec<String> {
    let names = value.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limited_faults_run_out() {
        let mut faults = InjectedFaults {
            too_many: 1,
            retry_after_seconds: 3,
            html: 1,
            expired_watches: 1,
            ..InjectedFaults::default()
        };
        assert_eq!(faults.judge(), FaultAction::Html);
        assert_eq!(faults.judge(), FaultAction::TooMany(3));
        assert_eq!(faults.judge(), FaultAction::Serve);
        assert!(faults.judge_watch() && !faults.judge_watch());
    }

    #[test]
    fn faults_are_set_by_query() {
        let query = |text: &str| {
            text.split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect()
        };
        let set = InjectedFaults::default()
            .with(&query("latencyMs=50&broken=nodes,pods&dropWatches=true"))
            .expect("valid");
        assert_eq!((set.latency_ms, set.watch_drops), (50, 1));
        assert!(set.breaks("pods") && !set.breaks("jobs"));
        assert!(
            set.with(&query("latency=5"))
                .unwrap_err()
                .contains("latencyMs")
        );
        assert!(set.with(&query("silent=maybe")).is_err());
    }
}
