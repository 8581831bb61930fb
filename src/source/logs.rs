//! Follows logs of pods: one open request per pod, lines sent in batches of bounded size.

use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::Client;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

use model::base::name::printable;
use model::base::{Moment, Name, ObjectKey};
use model::object::{LogLine, LogWant, NO_EARLIER_LOG, ObjectNews};

use super::fetch::{escaped, failure_message, get, nameable};
use crate::api_error::ChannelClosed;

/// Longest line in bytes; the rest of a longer line is dropped.
const LONGEST: usize = 8 << 10;
/// Most lines in one batch.
const BATCH: usize = 256;
/// Lines are sent after this time at the latest.
const LINGER: Duration = Duration::from_millis(80);
/// A log stream that breaks is reopened after this time.
const AGAIN: Duration = Duration::from_secs(3);

/// A pod's containers: the fields that select one.
#[derive(Deserialize, Default)]
#[serde(default)]
struct PodObject {
    metadata: PodMeta,
    spec: PodContainers,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodMeta {
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodContainers {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    name: String,
}

impl PodObject {
    /// Every container, init containers first; and the default one of kubectl.
    fn containers(&self) -> (Vec<Name>, Option<Name>) {
        let names = self
            .spec
            .containers
            .iter()
            .chain(&self.spec.init_containers);
        let all: Vec<Name> = names.map(|container| Name::new(&container.name)).collect();
        let chosen = self
            .metadata
            .annotations
            .get("kubectl.kubernetes.io/default-container")
            .and_then(|chosen| all.iter().find(|name| name.as_str() == chosen));
        let shown = chosen.or(all.first()).cloned();
        (all, shown)
    }
}

/// Follows the requested logs until all have ended or the receiver is closed. A slow receiver slows the server's stream.
pub async fn follow(client: Client, want: LogWant, out: mpsc::Sender<ObjectNews>) {
    let Some(first) = want.pods.first() else {
        return;
    };
    if let Some(Err(why)) = want.pods.iter().map(nameable).find(Result::is_err) {
        let _ = out.send(ObjectNews::Failed(why)).await;
        return;
    }
    let path = pod_path(first);
    let text = match client.request_text(get(&path)).await {
        Ok(text) => text,
        Err(error) => {
            let why = failure_message(&error, &format!("get pod {first}"));
            let _ = out.send(ObjectNews::Failed(why)).await;
            return;
        }
    };
    let pod: PodObject = serde_json::from_str(&text).unwrap_or_default();
    let (all, shown) = pod.containers();
    let Some(container) = want.container.clone().or(shown) else {
        let why = format!("pod {first} names no container");
        let _ = out.send(ObjectNews::Failed(why)).await;
        return;
    };
    if out
        .send(ObjectNews::Containers(all, container.clone()))
        .await
        .is_err()
    {
        return;
    }
    let mut streams = JoinSet::new();
    for (at, key) in want.pods.iter().enumerate() {
        let stream = Stream {
            client: client.clone(),
            pod: at as u32,
            key: key.clone(),
            container: container.clone(),
            previous: want.previous,
            tail: want.tail,
            out: out.clone(),
        };
        streams.spawn(stream.run());
    }
    while streams.join_next().await.is_some() {}
}

fn pod_path(key: &ObjectKey) -> String {
    let (namespace, name) = (escaped(&key.namespace), escaped(&key.name));
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

struct Stream {
    client: Client,
    pod: u32,
    key: ObjectKey,
    container: Name,
    previous: bool,
    tail: u32,
    out: mpsc::Sender<ObjectNews>,
}

/// When buffered lines must be sent; `None` while there are none.
type Due = Option<std::pin::Pin<Box<Sleep>>>;

impl Stream {
    async fn run(self) {
        let mut since: Option<Moment> = None;
        loop {
            let path = self.path(since);
            let answer = self.client.request_stream(get(&path)).await;
            let broken = match answer {
                Ok(body) => match self.lines(body, &mut since).await {
                    Ok(None) => None,
                    Ok(Some(why)) => Some(why),
                    Err(ChannelClosed) => return,
                },
                Err(error) => {
                    let why = match self.has_no_earlier_log(&error) {
                        true => format!(
                            "container {} of pod {} has {NO_EARLIER_LOG}",
                            self.container, self.key
                        ),
                        false => failure_message(&error, &format!("read the log of {}", self.key)),
                    };
                    let _ = self.out.send(ObjectNews::Ended(self.pod, Some(why))).await;
                    return;
                }
            };
            match (broken, self.previous) {
                // The connection broke, not the log: resume from the last line.
                (Some(_), false) if since.is_some() => sleep(AGAIN).await,
                (why, _) => {
                    let _ = self.out.send(ObjectNews::Ended(self.pod, why)).await;
                    return;
                }
            }
        }
    }

    /// kubelet's answer for a container that did not run before, or whose last run's log the node no longer has.
    fn has_no_earlier_log(&self, error: &kube::Error) -> bool {
        let kube::Error::Api(status) = error else {
            return false;
        };
        self.previous
            && status.code == 400
            && status.message.starts_with("previous terminated container")
    }

    fn path(&self, since: Option<Moment>) -> String {
        let mut path = format!(
            "{}/log?container={}&timestamps=true",
            pod_path(&self.key),
            escaped(&self.container)
        );
        match since {
            // sinceTime has whole seconds, so lines of that second come twice; the duplicates are dropped.
            Some(since) => path.push_str(&format!("&sinceTime={}", escaped(&since.rfc3339()))),
            None => path.push_str(&format!("&tailLines={}", self.tail)),
        }
        path.push_str(if self.previous {
            "&previous=true"
        } else {
            "&follow=true"
        });
        path
    }

    /// Sends lines until the log ends (`None`) or the stream breaks (why).
    async fn lines(
        &self,
        body: impl AsyncBufRead,
        since: &mut Option<Moment>,
    ) -> Result<Option<String>, ChannelClosed> {
        let mut body = std::pin::pin!(body);
        let resumed = *since;
        let mut batch: Vec<LogLine> = Vec::new();
        let mut due: Due = None;
        let mut line = Vec::new();
        let mut cut = false;
        loop {
            let chunk = match &mut due {
                Some(late) => tokio::select! {
                    biased;
                    chunk = body.fill_buf() => Some(chunk),
                    () = late => None,
                },
                None => Some(body.fill_buf().await),
            };
            let Some(chunk) = chunk else {
                self.hand_over(&mut batch, &mut due).await?;
                continue;
            };
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    self.hand_over(&mut batch, &mut due).await?;
                    return Ok(Some(format!(
                        "the log of {} was cut off: {error}",
                        self.key
                    )));
                }
            };
            if chunk.is_empty() {
                if !line.is_empty() {
                    batch.push(self.line(&line, cut));
                }
                self.hand_over(&mut batch, &mut due).await?;
                return Ok(None);
            }
            let (taken, whole) = match memchr::memchr(b'\n', chunk) {
                Some(at) => (at + 1, true),
                None => (chunk.len(), false),
            };
            let part = &chunk[..taken - usize::from(whole)];
            let room = LONGEST.saturating_sub(line.len());
            cut |= part.len() > room;
            line.extend_from_slice(&part[..part.len().min(room)]);
            body.as_mut().consume(taken);
            if whole {
                let next = self.line(&line, cut);
                line.clear();
                cut = false;
                // Lines up to the break have been sent already.
                if resumed.is_none() || next.at > resumed {
                    *since = next.at.or(*since);
                    batch.push(next);
                    due.get_or_insert_with(|| Box::pin(sleep(LINGER)));
                }
            }
            if batch.len() >= BATCH {
                self.hand_over(&mut batch, &mut due).await?;
            }
        }
    }

    async fn hand_over(
        &self,
        batch: &mut Vec<LogLine>,
        due: &mut Due,
    ) -> Result<(), ChannelClosed> {
        *due = None;
        if batch.is_empty() {
            return Ok(());
        }
        let lines = ObjectNews::Lines(std::mem::take(batch));
        self.out.send(lines).await.map_err(|_| ChannelClosed)
    }

    fn line(&self, bytes: &[u8], cut: bool) -> LogLine {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches('\r');
        let (at, words) = match text.split_once(' ') {
            Some((stamp, rest)) => match Moment::parse(stamp) {
                Some(at) => (Some(at), rest),
                None => (None, text),
            },
            None => match Moment::parse(text) {
                Some(at) => (Some(at), ""),
                None => (None, text),
            },
        };
        let mut words = plain(words);
        if cut {
            words.push('…');
        }
        LogLine {
            pod: self.pod,
            at,
            words,
        }
    }
}

/// A line without escape sequences and control characters. Tabs become blanks; of a line that a progress bar
/// overwrote, the last state is kept.
fn plain(line: &str) -> String {
    let line = line
        .rsplit('\r')
        .find(|part| !part.is_empty())
        .unwrap_or("");
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_parameters(&mut chars),
            '\t' => out.push_str("    "),
            c => out.push(c),
        }
    }
    printable(&out).into_owned()
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips the sequence after an escape: a control sequence to its final letter, a string to its end, or one character.
fn skip_sequence(chars: &mut Chars<'_>) {
    match chars.next() {
        Some('[') => skip_parameters(chars),
        Some(']' | 'P' | '^' | '_' | 'X') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{9c}' {
                    break;
                }
                if c == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    break;
                }
            }
        }
        Some('(' | ')' | '#') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_parameters(chars: &mut Chars<'_>) {
    for c in chars.by_ref() {
        if ('\u{40}'..='\u{7e}').contains(&c) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_words_and_loses_its_colors() {
        for (line, words) in [
            ("plain", "plain"),
            ("\u{1b}[31mERROR\u{1b}[0m x", "ERROR x"),
            ("\u{1b}]0;title\u{7}y", "y"),
            ("\u{1b}]52;c;aGk=\u{1b}\\z", "z"),
            ("10%\r50%\r100%", "100%"),
            ("a\tb", "a    b"),
            ("\u{1b}[2J\u{1b}[Hcleared", "cleared"),
            ("bell\u{7}", "bell\u{fffd}"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
        ] {
            assert_eq!(plain(line), words, "{line:?}");
        }
    }

    #[test]
    fn the_container_is_the_one_that_kubectl_shows() {
        let pod: PodObject = serde_json::from_str(
            r#"{"metadata":{"annotations":{"kubectl.kubernetes.io/default-container":"b"}},
            "spec":{"containers":[{"name":"a"},{"name":"b"}],"initContainers":[{"name":"i"}]}}"#,
        )
        .expect("a pod");
        let (all, shown) = pod.containers();
        assert_eq!(all, ["a", "b", "i"].map(Name::new));
        assert_eq!(shown, Some(Name::new("b")));
        assert_eq!(PodObject::default().containers(), (Vec::new(), None));
    }
}
