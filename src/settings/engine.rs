//! `[engine]` and `[[route]]`: how the engine decides which job starts on which nodes.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use model::base::Name;
use model::base::document::{DocumentFault, unknown};
use model::fleet::scheduling::{EngineRules, FairStrategy, PLACEMENTS, RouteRule, Setting};

use super::number::{Positive, Usd};
use super::origin::Origin;
use super::types::Settings;

/// Maximum number of reservations for each queue.
const DEEPEST: u16 = 1024;

/// Options of the engine. Absent options are read from the cluster, otherwise the default applies.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    pub placement: Option<PlacementName>,
    /// Number of pending workloads in each queue that get a reservation (backfill depth).
    pub backfill: Option<Depth>,
    /// Fair sharing between queues by weight.
    pub fair_sharing: Option<FairSharing>,
}

/// The name of a placement policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementName(pub &'static str);

impl<'de> Deserialize<'de> for PlacementName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let known = PLACEMENTS.into_iter().find(|name| *name == text);
        known
            .map(Self)
            .ok_or_else(|| D::Error::custom(unknown("placement policy", &text, &PLACEMENTS)))
    }
}

/// `"none"`, `"head"` or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth(pub u16);

impl Depth {
    fn read(text: &str) -> Option<Self> {
        match text {
            "none" => Some(Self(0)),
            "head" => Some(Self(1)),
            text => text
                .parse()
                .ok()
                .filter(|depth| *depth <= DEEPEST)
                .map(Self),
        }
    }
}

impl<'de> Deserialize<'de> for Depth {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct DepthVisitor;
        impl Visitor<'_> for DepthVisitor {
            type Value = Depth;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"none\", \"head\" or a number from 0 to {DEEPEST}")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Depth, E> {
                let wrong = || {
                    E::custom(format_args!(
                        "`{text}` is not \"none\", \"head\" or a number from 0 to {DEEPEST}"
                    ))
                };
                Depth::read(text).ok_or_else(wrong)
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Depth, E> {
                self.visit_str(&number.to_string())
            }
        }
        from.deserialize_any(DepthVisitor)
    }
}

/// Preemption strategies in order; empty means off. Accepts `true`, `"on"`, `false`, `"off"` or a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FairSharing(pub Vec<FairStrategy>);

impl<'de> Deserialize<'de> for FairSharing {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FairVisitor;
        impl<'de> Visitor<'de> for FairVisitor {
            type Value = FairSharing;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"on\", \"off\" or a list of preemption strategies")
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<FairSharing, E> {
                Ok(FairSharing(match on {
                    true => FairStrategy::ALL.to_vec(),
                    false => Vec::new(),
                }))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<FairSharing, E> {
                match text {
                    "on" | "true" => self.visit_bool(true),
                    "off" | "false" => self.visit_bool(false),
                    _ => Err(E::custom(format_args!(
                        "`{text}` is not \"on\", \"off\" or a list of preemption strategies"
                    ))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FairSharing, A::Error> {
                let names = FairStrategy::ALL.map(FairStrategy::name);
                let mut all = Vec::new();
                while let Some(item) = items.next_element::<String>()? {
                    let mut known = FairStrategy::ALL.into_iter();
                    let found = known.find(|strategy| strategy.name() == item);
                    let strategy = found.ok_or_else(|| {
                        A::Error::custom(unknown("preemption strategy", &item, &names))
                    })?;
                    if !all.contains(&strategy) {
                        all.push(strategy);
                    }
                }
                if all.is_empty() {
                    return Err(A::Error::custom(
                        "an empty list has no meaning; write \"off\" to turn fair sharing off",
                    ));
                }
                Ok(FairSharing(all))
            }
        }
        from.deserialize_any(FairVisitor)
    }
}

/// Flavor preferences of jobs.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// Jobs to match; all jobs when empty.
    #[serde(rename = "match", default)]
    pub wanted: RouteMatchSettings,
    /// Flavors, the best first.
    #[serde(deserialize_with = "some")]
    pub flavors: Vec<RouteFlavor>,
    /// Maximum price of a flavor.
    pub max_usd_per_device_hour: Option<Usd>,
}

/// Jobs that a route matches: all given conditions must match.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteMatchSettings {
    pub queue: Option<String>,
    /// Labels of the workload.
    pub label: BTreeMap<String, String>,
}

/// A flavor of a route.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteFlavor {
    pub flavor: String,
    /// Relative speed of a job on this flavor; 1 when absent.
    pub speed: Option<Positive>,
}

impl RouteFlavor {
    /// The speed in thousandths.
    fn milli(&self) -> i64 {
        let speed = self.speed.map_or(1.0, Positive::get);
        (speed * 1000.0).round().clamp(0.0, 1e9) as i64
    }
}

fn some<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RouteFlavor>, D::Error> {
    let flavors = Vec::<RouteFlavor>::deserialize(from)?;
    if flavors.is_empty() {
        return Err(D::Error::custom("a route needs at least one flavor"));
    }
    Ok(flavors)
}

impl Settings {
    /// The engine options that are set, each with its origin.
    pub(super) fn engine_rules(&self) -> EngineRules {
        let engine = &self.engine;
        EngineRules {
            placement: self.setting("engine.placement", engine.placement.map(|it| it.0)),
            backfill: self.setting("engine.backfill", engine.backfill.map(|it| it.0)),
            fair_sharing: self.setting(
                "engine.fair_sharing",
                engine.fair_sharing.as_ref().map(|it| it.0.clone()),
            ),
            routes: self.routes(),
        }
    }

    fn setting<T>(&self, key: &str, value: Option<T>) -> Option<Setting<T>> {
        let place = self.origins.of(key).map(Origin::to_string);
        Some(Setting {
            value: value?,
            place: Name::from(place.unwrap_or_default()),
        })
    }

    fn routes(&self) -> Vec<Setting<RouteRule>> {
        let origin = self.origins.of("route");
        let routes = self.route.iter().enumerate().map(|(at, route)| Setting {
            value: route.rule(),
            place: Name::from(origin.map_or_else(String::new, |origin| origin.of_item(at))),
        });
        routes.collect()
    }

    /// Invalid routes, each with its line.
    pub(super) fn wrong_routes(&self) -> Vec<DocumentFault> {
        let mut faults = Vec::new();
        for (at, route) in self.route.iter().enumerate() {
            let mut blame = |message: String| faults.push(self.fault_of_item("route", at, message));
            for (place, flavor) in route.flavors.iter().enumerate() {
                let before = &route.flavors[..place];
                if before.iter().any(|known| known.flavor == flavor.flavor) {
                    blame(format!(
                        "flavor `{}` appears twice in this route",
                        flavor.flavor
                    ));
                }
                if !(1..=1_000_000).contains(&flavor.milli()) {
                    let name = &flavor.flavor;
                    blame(format!("flavor `{name}`: speed must be from 0.001 to 1000"));
                }
            }
            if self.route[..at]
                .iter()
                .any(|before| before.wanted == route.wanted)
            {
                let message = "an earlier route matches the same jobs, so this one never applies";
                blame(message.to_owned());
            }
        }
        faults
    }
}

impl RouteSettings {
    fn rule(&self) -> RouteRule {
        let labels = self.wanted.label.iter();
        RouteRule {
            queue: self.wanted.queue.as_deref().map(Name::new),
            labels: labels
                .map(|(key, value)| (Name::new(key), Name::new(value)))
                .collect(),
            flavors: self
                .flavors
                .iter()
                .map(|flavor| (Name::new(&flavor.flavor), flavor.milli()))
                .collect(),
            most_micro_usd: self.max_usd_per_device_hour.map(|usd| usd.rate().micros()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::origin::Layer;
    use super::super::{Inputs, SettingsText, load};
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let inputs = Inputs {
            files: vec![SettingsText {
                layer: Layer::User,
                path: "/home/me/stokehold.toml".into(),
                text: text.into(),
            }],
            ..Inputs::default()
        };
        load(&inputs).map_err(|faults| faults.iter().map(|fault| format!("{fault}\n")).collect())
    }

    #[test]
    fn options_and_routes_know_their_file_and_line() {
        let settings = read(
            "theme = \"ash\"\n[engine]\nplacement = \"fgd\"\nbackfill = 4\nfair_sharing = \"on\"\n\n\
             [[route]]\nmatch = { queue = \"nlp\", label = { framework = \"jax\" } }\n\
             flavors = [ { flavor = \"tpu-v5p\", speed = 1.3 }, { flavor = \"h100\" } ]\n\
             max_usd_per_device_hour = 6.0\n\n[[route]]\nflavors = [ { flavor = \"a100\", speed = 0.45 } ]\n",
        )
        .expect("right");
        let rules = settings.engine_rules();
        let place = rules.placement.expect("said");
        assert_eq!(
            (place.value, &*place.place),
            ("fgd", "/home/me/stokehold.toml:3")
        );
        let depth = rules.backfill.expect("said");
        assert_eq!(
            (depth.value, &*depth.place),
            (4, "/home/me/stokehold.toml:4")
        );
        let fair = rules.fair_sharing.expect("said");
        assert_eq!(fair.value, FairStrategy::ALL);
        assert_eq!(&*fair.place, "/home/me/stokehold.toml:5");
        let [first, second] = rules.routes.as_slice() else {
            panic!("two routes");
        };
        assert_eq!(&*first.place, "/home/me/stokehold.toml:7");
        assert_eq!(&*second.place, "/home/me/stokehold.toml:12");
        assert_eq!(first.value.queue.as_deref(), Some("nlp"));
        let flavors: Vec<(&str, i64)> = first
            .value
            .flavors
            .iter()
            .map(|(name, speed)| (&**name, *speed))
            .collect();
        assert_eq!(flavors, [("tpu-v5p", 1_300), ("h100", 1_000)]);
        assert_eq!(first.value.most_micro_usd, Some(6_000_000));
        let nothing = read("").expect("right").engine_rules();
        assert_eq!(
            nothing,
            EngineRules::default(),
            "nothing is said by default"
        );
    }

    #[test]
    fn an_error_names_the_line_and_the_valid_values() {
        for (text, words) in [
            (
                "[engine]\nplacement = \"best_fit\"\n",
                "did you mean `best-fit`",
            ),
            (
                "[engine]\nbackfill = \"deep\"\n",
                "`deep` is not \"none\", \"head\" or a number",
            ),
            ("[engine]\nbackfill = -1\n", "from 0 to 1024"),
            (
                "[engine]\nfair_sharing = \"yes\"\n",
                "`yes` is not \"on\", \"off\"",
            ),
            ("[engine]\nfair_sharing = []\n", "write \"off\""),
            (
                "[engine]\nfair_sharing = [\"less-than-initial\"]\n",
                "less-than-initial-share",
            ),
            ("[engine]\nplacment = \"fgd\"\n", "placment"),
            ("\n[[route]]\nflavors = []\n", "at least one flavor"),
            (
                "\n[[route]]\nmatch = { team = \"a\" }\nflavors = [{ flavor = \"a\" }]\n",
                "team",
            ),
            (
                "\n[[route]]\nflavors = [{ flavor = \"a\" }, { flavor = \"a\" }]\n",
                ":2: route: flavor `a` appears twice",
            ),
            (
                "\n[[route]]\nflavors = [{ flavor = \"a\", speed = 0 }]\n",
                "above 0",
            ),
            (
                "\n[[route]]\nflavors = [{ flavor = \"a\" }]\n\n[[route]]\nflavors = [{ flavor = \"b\" }]\n",
                ":5: route: an earlier route",
            ),
        ] {
            let message = read(text).expect_err(text);
            assert!(message.contains(words), "{text}\n{message}");
            assert!(message.contains("/home/me/stokehold.toml:"), "{message}");
        }
    }

    #[test]
    fn one_word_of_a_variable_sets_an_option() {
        let inputs = |name: &str, word: &str| Inputs {
            variables: vec![(name.to_owned(), word.to_owned())],
            ..Inputs::default()
        };
        let set = load(&inputs("STOKEHOLD_ENGINE_BACKFILL", "8"))
            .expect("right")
            .engine_rules();
        let depth = set.backfill.expect("said");
        assert_eq!(
            (depth.value, &*depth.place),
            (8, "STOKEHOLD_ENGINE_BACKFILL")
        );
        let set = load(&inputs("STOKEHOLD_ENGINE_FAIR_SHARING", "off")).expect("right");
        assert_eq!(
            set.engine_rules().fair_sharing.map(|setting| setting.value),
            Some(Vec::new())
        );
    }
}
