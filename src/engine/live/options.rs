//! Engine options of a live fleet. Settings take precedence, then the cluster's own objects, then defaults.

use crate::packing::PackingPolicy;
use crate::snapshot::{
    Backfill, EngineOptions, FlavorChoice, OptionOrigin, OptionOrigins, OptionSource, Route,
};
use model::base::Name;
use model::fleet::observe::Table;
use model::fleet::queue::QueueSystem;
use model::fleet::scheduling::{FairStrategy, Setting};
use model::fleet::{Fleet, TableState};

/// Engine options, and the origin of each value.
pub(super) fn options(fleet: &Fleet) -> (EngineOptions, OptionOrigins) {
    let rules = &fleet.policy.engine;
    let mut options = EngineOptions {
        backfill: backfill(fleet),
        ..EngineOptions::default()
    };
    let mut origins = OptionOrigins::default();
    if let Some(given) = &rules.placement
        && let Ok(policy) = given.value.parse::<PackingPolicy>()
    {
        options.placement = policy;
        origins.placement = setting(given);
    }
    if let Some(given) = &rules.backfill {
        options.backfill = match given.value {
            0 => Backfill::None,
            1 => Backfill::Head,
            depth => Backfill::Depth(depth),
        };
        origins.backfill = setting(given);
    }
    let (fair, origin) = match &rules.fair_sharing {
        Some(given) => (given.value.as_slice(), setting(given)),
        None => of_kueue(fleet),
    };
    options.fair_sharing = (!fair.is_empty()).then(|| fair.to_vec());
    origins.fair_sharing = origin;
    (options, origins)
}

/// Backfill of the cluster's own scheduler: Kueue, Volcano and KAI make no reservations for pending jobs; `govern` makes one for
/// the first job of each queue.
fn backfill(fleet: &Fleet) -> Backfill {
    let mut queues = fleet.queues.iter();
    if queues.any(|queue| queue.system() == QueueSystem::Stokehold) {
        Backfill::Head
    } else {
        Backfill::None
    }
}

/// Fair sharing as Kueue is configured. If that is unknown, it is off, and the origin says why.
fn of_kueue(fleet: &Fleet) -> (&[FairStrategy], OptionOrigin) {
    match fleet.kueue.as_deref() {
        Some(config) => match &config.fair_sharing {
            Ok(strategies) => {
                let object = format!("ConfigMap {}", config.key);
                (strategies, OptionOrigin::new(OptionSource::Object, object))
            }
            Err(_) => (&[], OptionOrigin::new(OptionSource::Assumed, unread(fleet))),
        },
        None if !has_kueue(fleet) => (&[], OptionOrigin::default()),
        None => (&[], OptionOrigin::new(OptionSource::Assumed, unread(fleet))),
    }
}

/// Why Kueue's configuration is not known.
pub(super) fn unread(fleet: &Fleet) -> String {
    let name = Table::KueueConfig.name();
    match fleet.kueue.as_deref() {
        Some(config) => {
            let why = config.fair_sharing.as_ref().err();
            let why = why.map_or("the record does not have this part of it", |why| {
                why.as_str()
            });
            format!("ConfigMap {} cannot be read: {why}", config.key)
        }
        None => match fleet.visibility(Table::KueueConfig) {
            TableState::Lost(lost) | TableState::NotVisible(lost) => {
                format!("{name}: {}", lost.message)
            }
            TableState::Waiting => format!("{name} has not been read yet"),
            TableState::Live | TableState::Absent => format!("there is no {name} in kueue-system"),
        },
    }
}

fn has_kueue(fleet: &Fleet) -> bool {
    let mut queues = fleet.queues.iter();
    queues.any(|queue| queue.system() == QueueSystem::Kueue)
}

fn setting<T>(given: &Setting<T>) -> OptionOrigin {
    OptionOrigin::new(OptionSource::Setting, given.place.clone())
}

/// Routes of the settings, in order.
pub(super) fn routes(fleet: &Fleet) -> Vec<Route> {
    let routes = fleet.policy.engine.routes.iter();
    routes
        .map(|given| {
            let rule = &given.value;
            let choice = |(flavor, speed_milli): &(Name, i64)| FlavorChoice {
                flavor: flavor.clone(),
                speed_milli: *speed_milli,
            };
            Route {
                queue: rule.queue.clone(),
                labels: rule.labels.iter().cloned().collect(),
                flavors: rule.flavors.iter().map(choice).collect(),
                most_price: rule.most_micro_usd,
                origin: setting(given),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::live::snapshot;
    use model::base::{Moment, ObjectKey};
    use model::cost::SpendRates;
    use model::fleet::observe::{Lost, LostKind};
    use model::fleet::policy;
    use model::fleet::queue::{Queue, QueueKey};
    use model::fleet::scheduling::{EngineRules, KueueConfig, PLACEMENTS, RouteRule};

    fn fleet(rules: EngineRules) -> Fleet {
        let policy = policy::Policy {
            engine: rules,
            ..policy::Policy::default()
        };
        let mut fleet = Fleet::unknown(Arc::new(policy));
        let queue = Queue {
            key: QueueKey {
                system: QueueSystem::Kueue,
                name: Name::new("nlp"),
                ..QueueKey::default()
            },
            ..Queue::default()
        };
        fleet.queues = Arc::from([Arc::new(queue)]);
        fleet
    }

    fn setting_of<T>(value: T) -> Option<Setting<T>> {
        let place = Name::new("/etc/stokehold.toml:7");
        Some(Setting { value, place })
    }

    fn kueue(fleet: &mut Fleet, fair_sharing: Result<Vec<FairStrategy>, Name>) {
        let key = ObjectKey::new("kueue-system", "kueue-manager-config");
        let resources = fair_sharing.is_ok().then(Default::default);
        fleet.kueue = Some(Arc::new(KueueConfig {
            key,
            fair_sharing,
            resources,
            gates_off: Vec::new(),
        }));
    }

    #[test]
    fn the_names_of_settings_are_those_of_the_engine() {
        assert_eq!(PackingPolicy::ALL.map(PackingPolicy::name), PLACEMENTS);
    }

    #[test]
    fn room_is_kept_where_govern_admits_and_settings_win() {
        let read_options = |fleet: &Fleet| snapshot(fleet, &SpendRates::default()).options.backfill;
        let mut fleet = fleet(EngineRules::default());
        assert_eq!(read_options(&fleet), Backfill::None, "Kueue keeps no room");
        let mut queue = Queue::clone(&fleet.queues[0]);
        queue.key.system = QueueSystem::Stokehold;
        fleet.queues = Arc::from([Arc::new(queue)]);
        assert_eq!(read_options(&fleet), Backfill::Head);
        let rules = EngineRules {
            backfill: setting_of(0),
            ..EngineRules::default()
        };
        let mut ours = self::fleet(rules);
        ours.queues = fleet.queues;
        assert_eq!(read_options(&ours), Backfill::None);
    }

    #[test]
    fn fair_sharing_is_as_kueue_is_configured_and_settings_win() {
        let mut fleet = fleet(EngineRules::default());
        let read_options = |fleet: &Fleet| {
            let snapshot = snapshot(fleet, &SpendRates::default());
            let fair = snapshot.options.fair_sharing.map(|list| list.len());
            (fair, snapshot.origins.fair_sharing.to_string())
        };
        let both = FairStrategy::ALL.to_vec();
        kueue(&mut fleet, Ok(both));
        let object = "ConfigMap kueue-system/kueue-manager-config";
        assert_eq!(read_options(&fleet), (Some(2), object.to_owned()));
        kueue(&mut fleet, Ok(Vec::new()));
        assert_eq!(read_options(&fleet), (None, object.to_owned()));
        let rules = EngineRules {
            fair_sharing: setting_of(vec![FairStrategy::InitialShare]),
            ..EngineRules::default()
        };
        let mut ours = self::fleet(rules);
        kueue(&mut ours, Ok(Vec::new()));
        assert_eq!(
            read_options(&ours),
            (Some(1), "/etc/stokehold.toml:7".to_owned())
        );
    }

    #[test]
    fn unreadable_options_are_assumed_and_reported() {
        let mut fleet = fleet(EngineRules::default());
        let read_options = |fleet: &Fleet| {
            let snapshot = snapshot(fleet, &SpendRates::default());
            assert_eq!(snapshot.options.fair_sharing, None);
            snapshot.origins.fair_sharing
        };
        assert_eq!(
            read_options(&fleet).source,
            OptionSource::Assumed,
            "not read yet"
        );
        let lost = Lost {
            kind: LostKind::Rights,
            since: Moment::default(),
            message: String::from("403: not allowed"),
        };
        Arc::make_mut(&mut fleet.known).insert(Table::KueueConfig, TableState::Lost(lost));
        let why = read_options(&fleet).to_string();
        assert_eq!(
            why,
            "assumed, configmaps/kueue-manager-config: 403: not allowed"
        );
        kueue(&mut fleet, Err(Name::new("no YAML")));
        let why = read_options(&fleet).to_string();
        assert!(why.ends_with("cannot be read: no YAML"), "{why}");
        fleet.kueue = None;
        fleet.queues = Arc::from([]);
        assert_eq!(
            read_options(&fleet),
            OptionOrigin::default(),
            "no Kueue, nothing to ask"
        );
    }

    #[test]
    fn settings_reach_the_engine_of_a_live_cluster() {
        let route = RouteRule {
            queue: Some(Name::new("nlp")),
            labels: vec![(Name::new("framework"), Name::new("jax"))],
            flavors: vec![(Name::new("tpu-v5p"), 1_300)],
            most_micro_usd: Some(6_000_000),
        };
        let snapshot = snapshot(
            &fleet(EngineRules {
                placement: setting_of("fgd"),
                backfill: setting_of(4),
                fair_sharing: None,
                routes: setting_of(route).into_iter().collect(),
            }),
            &SpendRates::default(),
        );
        assert_eq!(snapshot.options.placement, PackingPolicy::Fgd);
        assert_eq!(snapshot.options.backfill, Backfill::Depth(4));
        let place = OptionOrigin::new(OptionSource::Setting, "/etc/stokehold.toml:7");
        assert_eq!(snapshot.origins.placement, place);
        assert_eq!(snapshot.routes.len(), 1);
        assert_eq!(snapshot.routes[0].origin, place);
        assert_eq!(snapshot.routes[0].flavors[0].speed_milli, 1_300);
    }
}
