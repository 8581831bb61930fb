//! Events: messages of controllers about objects. After a NodeClaim failed for lack of capacity, only its event remains.

use model::base::{Moment, Name, Names};
use model::fleet::launch_failure::LaunchFailure;
use model::fleet::observe::{Observation, Table};
use model::object::EventSeen;

use super::Projected;
use super::lenient_json::{Text, Whole, partial};
use super::meta::Meta;

partial! {
    EventObject {
        meta: Meta = "metadata",
        /// How serious it is: `Normal` or `Warning`.
        grade: Text = "type",
        reason: Text = "reason",
        message: Text = "message",
        /// Occurrences, in older events.
        count: Whole = "count",
        /// First occurrence, in older events.
        first: Text = "firstTimestamp",
        /// Last occurrence, in older events.
        last: Text = "lastTimestamp",
        /// First occurrence, in newer events.
        time: Text = "eventTime",
        /// Occurrences, in newer events.
        series: Series = "series",
        /// The object that it is about.
        about: Involved = "involvedObject",
        /// Who reports it, in newer events.
        reporter: Text = "reportingComponent",
        /// Who reports it, in older events.
        source: Source = "source",
    }
}

partial! {
    Involved {
        kind: Text = "kind",
        name: Text = "name",
    }
}

partial! {
    Source {
        component: Text = "component",
    }
}

partial! {
    Series {
        count: Whole = "count",
        last: Text = "lastObservedTime",
    }
}

/// A text of an event in one line, without control characters.
fn line(text: &Text) -> String {
    let text = text.get().unwrap_or_default();
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    model::base::name::printable(&line).into_owned()
}

impl EventObject {
    /// First occurrence. Older events carry a count, newer ones a series; either may lack the other's fields.
    fn first(&self) -> Option<Moment> {
        [&self.first, &self.time, &self.meta.created]
            .into_iter()
            .find_map(Text::moment)
    }

    fn last(&self) -> Option<Moment> {
        let last_seen = self.series.last.moment().or(self.last.moment());
        last_seen.or_else(|| self.first())
    }

    /// The event as a page shows it.
    pub fn seen(&self) -> EventSeen {
        let component = Some(line(&self.source.component)).filter(|by| !by.is_empty());
        let count = self.series.count.count().or(self.count.count());
        EventSeen {
            about: format!("{} {}", line(&self.about.kind), line(&self.about.name)),
            warning: self.grade.get().is_some_and(|grade| grade != "Normal"),
            reason: line(&self.reason),
            message: line(&self.message),
            first: self.first(),
            last: self.last(),
            count: count.unwrap_or(1).max(1),
            by: component.unwrap_or_else(|| line(&self.reporter)),
        }
    }
}

impl Projected for EventObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let claim = line(&self.about.name);
        let message = line(&self.message);
        // The message begins with what the other fields say.
        let repeated = format!("NodeClaim {claim} event: ");
        let sentence = message.strip_prefix(&repeated).unwrap_or(&message);
        Some(Observation::LaunchFailure(Box::new(LaunchFailure {
            key: self.meta.key(names)?,
            claim: Name::from(claim),
            why: (names.intern(&line(&self.reason)), Name::new(sentence)),
            at: self.last(),
        })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_both_ages_read_the_same() {
        let event = |value| {
            serde_json::from_value::<EventObject>(value)
                .expect("an event")
                .seen()
        };
        let old = event(json!({
            "type": "Warning", "reason": "FailedScheduling", "message": "0/4 nodes\nare available", "count": 7,
            "firstTimestamp": "2026-11-21T06:00:00Z", "lastTimestamp": "2026-11-21T06:40:00Z", "eventTime": null,
            "involvedObject": {"kind": "Pod", "name": "a"}, "source": {"component": "default-scheduler"}}));
        let new = event(json!({
            "type": "Normal", "reason": "Scheduled", "eventTime": "2026-11-21T06:00:00.000000Z", "firstTimestamp": null,
            "series": {"count": 3, "lastObservedTime": "2026-11-21T06:10:00.000000Z"}, "reportingComponent": "scheduler",
            "involvedObject": {"kind": "Pod", "name": "b"}, "source": {}}));
        assert!(old.warning && !new.warning);
        assert_eq!((old.count, new.count), (7, 3));
        assert_eq!(old.message, "0/4 nodes are available");
        assert_eq!(old.last, Moment::parse("2026-11-21T06:40:00Z"));
        assert_eq!(new.first, Moment::parse("2026-11-21T06:00:00Z"));
        assert_eq!(new.last, Moment::parse("2026-11-21T06:10:00Z"));
        assert_eq!((&*new.by, &*old.about), ("scheduler", "Pod a"));
    }

    /// The event as Karpenter 1.8 records it: the claim itself is deleted at once.
    #[test]
    fn what_stays_of_a_claim_without_capacity_is_its_event() {
        let event = json!({
            "metadata": {"name": "l40s-q8x2d.18a2b", "namespace": "default", "creationTimestamp": "2026-11-20T08:00:00Z"},
            "involvedObject": {"kind": "NodeClaim", "apiVersion": "karpenter.sh/v1", "name": "l40s-q8x2d"},
            "type": "Warning", "reason": "InsufficientCapacityError",
            "message": "NodeClaim l40s-q8x2d event: insufficient capacity, no spot capacity of g6e.12xlarge in us-east-1b",
            "count": 1, "firstTimestamp": "2026-11-20T08:00:00Z", "lastTimestamp": "2026-11-20T08:04:00Z"});
        let seen = super::super::seen(Table::LaunchFailures, &event, &mut Names::default());
        let Some(Observation::LaunchFailure(failure)) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!(failure.key.to_string(), "default/l40s-q8x2d.18a2b");
        assert_eq!(&*failure.claim, "l40s-q8x2d");
        let sentence = "insufficient capacity, no spot capacity of g6e.12xlarge in us-east-1b";
        assert_eq!(
            (&*failure.why.0, &*failure.why.1),
            ("InsufficientCapacityError", sentence)
        );
        assert_eq!(failure.at, Moment::parse("2026-11-20T08:04:00Z"));
    }
}
