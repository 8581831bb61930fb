//! An outage of the API server: one event, however many tables it takes with it.

use crate::base::Moment;

use super::observe::{Lost, LostKind, SourceHealth, SourceState};
use crate::fleet::fleet::{Fleet, TableState};

/// So many tables that fail in one way are not single failures.
const MANY: usize = 3;

/// The name of the source that is the API server as a whole.
pub const API: &str = "api";

/// The API server does not serve us.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage<'a> {
    /// Unreachable, or it does not accept our credentials, or it refuses a table that it returned before.
    pub kind: LostKind,
    /// When it last served us, as near as is known.
    pub since: Option<Moment>,
    /// What failed, and how to repair it.
    pub message: &'a str,
}

impl Outage<'_> {
    /// The outage in a few words.
    pub const fn title(&self) -> &'static str {
        match self.kind {
            LostKind::Unreachable => "the cluster does not answer",
            LostKind::Login => "not logged in",
            LostKind::Rights => "rights were removed",
        }
    }
}

impl Fleet {
    /// The API server as a source.
    fn api(&self) -> Option<&SourceHealth> {
        self.sources
            .iter()
            .find(|source| source.name.as_str() == API)
    }

    fn lost_tables(&self) -> impl Iterator<Item = &Lost> {
        self.known.values().filter_map(|known| match known {
            TableState::Lost(lost) => Some(lost),
            _ => None,
        })
    }

    /// The current outage, if any: the server itself fails, or many tables fail in the same way.
    pub fn outage(&self) -> Option<Outage<'_>> {
        let api = self.api().filter(|api| api.state == SourceState::Lost);
        let first = self.lost_tables().map(|lost| lost.since).min();
        if let Some(api) = api {
            let login = self.lost_tables().any(|lost| lost.kind == LostKind::Login);
            return Some(Outage {
                kind: match login {
                    true => LostKind::Login,
                    false => LostKind::Unreachable,
                },
                since: api.last_ok.into_iter().chain(first).min(),
                message: &api.message,
            });
        }
        [LostKind::Unreachable, LostKind::Login, LostKind::Rights]
            .into_iter()
            .find_map(|kind| {
                let mut of = self.lost_tables().filter(|lost| lost.kind == kind);
                let one = of.next()?;
                (of.count() + 1 >= MANY).then_some(Outage {
                    kind,
                    since: first,
                    message: &one.message,
                })
            })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::base::Name;
    use crate::fleet::observed::kinds::Table;

    const NOW: Moment = Moment::from_seconds(1_800_000_000);

    fn ago(seconds: u64) -> Moment {
        NOW.minus(Duration::from_secs(seconds))
    }

    fn fleet(lost: &[(Table, LostKind, u64)], api: SourceState) -> Fleet {
        let mut fleet = Fleet::unknown(Arc::default());
        let known = Arc::make_mut(&mut fleet.known);
        for (table, kind, seconds) in lost {
            let lost = Lost {
                kind: *kind,
                since: ago(*seconds),
                message: String::from("connection refused"),
            };
            known.insert(*table, TableState::Lost(lost));
        }
        fleet.sources = Arc::from([SourceHealth {
            last_ok: Some(ago(40)),
            message: String::from("no answer in time"),
            ..SourceHealth::new(
                Name::new(API),
                Name::new("kubernetes"),
                api,
                Duration::from_secs(90),
            )
        }]);
        fleet
    }

    #[test]
    fn a_server_that_is_lost_is_an_outage_since_its_last_answer() {
        let lost = [(Table::Pods, LostKind::Unreachable, 35)];
        let fleet = fleet(&lost, SourceState::Lost);
        let outage = fleet.outage().expect("the server is lost");
        assert_eq!(outage.since, Some(ago(40)));
        assert_eq!(outage.title(), "the cluster does not answer");
        assert_eq!(outage.message, "no answer in time");
    }

    #[test]
    fn many_tables_that_fail_alike_are_one_outage_and_one_is_none() {
        let all: Vec<_> = Table::ALL
            .iter()
            .map(|table| (*table, LostKind::Unreachable, 20))
            .collect();
        let outage = fleet(&all, SourceState::Live);
        assert_eq!(
            outage.outage().map(|outage| outage.since),
            Some(Some(ago(20)))
        );
        let one = fleet(&all[..1], SourceState::Live);
        assert_eq!(one.outage(), None);
        let expired: Vec<_> = all.iter().map(|it| (it.0, LostKind::Login, 5)).collect();
        let expired = fleet(&expired, SourceState::Live);
        let title = expired.outage().map(|outage| outage.title());
        assert_eq!(title, Some("not logged in"));
    }
}
