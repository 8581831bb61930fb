//! Inference: Deployments that follow the day, with disruption budgets, some of them strict.

use serde_json::{Value, json};

use model::base::{Name, ObjectKey};

use super::catalog::{H100, L4, V6E};
use super::edit::Edit;
use super::physics::day;
use super::work::{DisruptionBound, Kind, Profile, WorkParameters};
use super::{Budget, World};

/// A service of the demo.
struct Service {
    namespace: &'static str,
    name: &'static str,
    queue: &'static str,
    pool: usize,
    /// Devices of a replica.
    size: u32,
    /// Least and most replicas over the day.
    replicas: (u32, u32),
    util: f64,
    bound: Option<DisruptionBound>,
    /// Age in minutes.
    minutes: i64,
}

impl World {
    pub(super) fn services(&mut self) {
        let busy = day(self.now);
        let share = |capacity: u32, part: f64| (f64::from(capacity) * part).round() as u32;
        let l4 = self.capacity(L4);
        let v6e = self.pools[V6E].len() as u32;
        let ranker = self.part(H100, 12);
        let away = |value: Value| Some(DisruptionBound::MaxUnavailable(value));
        let stay = |value: Value| Some(DisruptionBound::MinAvailable(value));
        let all = [
            Service {
                namespace: "prod",
                name: "ranker-v3",
                queue: "ranker",
                pool: H100,
                size: 8,
                replicas: (ranker, ranker),
                util: 0.82,
                bound: away(json!(1)),
                minutes: 3_126,
            },
            Service {
                namespace: "prod",
                name: "search-embed",
                queue: "serve",
                pool: L4,
                size: 1,
                replicas: (share(l4, 0.27), share(l4, 0.36)),
                util: 0.78,
                bound: away(json!("10%")),
                minutes: 9_400,
            },
            Service {
                namespace: "prod",
                name: "rerank-small",
                queue: "serve",
                pool: L4,
                size: 1,
                replicas: (share(l4, 0.15), share(l4, 0.21)),
                util: 0.7,
                bound: stay(json!("80%")),
                minutes: 4_021,
            },
            Service {
                namespace: "prod",
                name: "moderation",
                queue: "serve",
                pool: L4,
                size: 1,
                replicas: (share(l4, 0.12), share(l4, 0.12)),
                util: 0.62,
                bound: stay(json!("100%")),
                minutes: 12_980,
            },
            Service {
                namespace: "speech",
                name: "asr-stream",
                queue: "serve",
                pool: L4,
                size: 1,
                replicas: (share(l4, 0.10), share(l4, 0.16)),
                util: 0.68,
                bound: away(json!(2)),
                minutes: 2_764,
            },
            Service {
                namespace: "nlp",
                name: "chat-small",
                queue: "serve",
                pool: L4,
                size: 4,
                replicas: (share(l4, 0.02), share(l4, 0.03)),
                util: 0.6,
                bound: None,
                minutes: 811,
            },
            Service {
                namespace: "prod",
                name: "chat-large",
                queue: "serve",
                pool: V6E,
                size: 8,
                replicas: (share(v6e, 0.15), share(v6e, 0.22)),
                util: 0.74,
                bound: away(json!(1)),
                minutes: 5_140,
            },
        ];
        for service in all {
            let Service {
                namespace,
                name,
                queue,
                pool,
                size,
                replicas: (least, most),
                util,
                bound,
                minutes,
            } = service;
            if most == 0 {
                continue;
            }
            let replicas = (least + (f64::from(most - least) * busy).round() as u32).max(1);
            let user = if namespace == "prod" {
                "deploy-bot"
            } else {
                "rosa"
            };
            let mut draft = WorkParameters::new(namespace, name, Kind::Deployment)
                .by(user)
                .queue(queue)
                .class("prod-serve")
                .on(pool, size)
                .acts(Profile::Serve, util, 0.9)
                .shape(1, replicas, replicas);
            draft.team = Name::new(if queue == "ranker" {
                "ranking"
            } else {
                "serving"
            });
            draft.curve = (most > least).then_some((least.max(1), most));
            let since = self.ago(minutes);
            if self.begin_running(draft, since, None).is_none() {
                continue;
            }
            if let Some(bound) = bound {
                let key = ObjectKey::new(namespace, name);
                let selector = std::iter::once((Name::new("app"), Name::new(name))).collect();
                self.budgets.insert(
                    key,
                    Budget {
                        uid: self.key_word(name),
                        created: since,
                        selector,
                        bound,
                        foreign: None,
                        edit: Edit::default(),
                    },
                );
            }
        }
    }
}
