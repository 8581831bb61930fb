//! Inference: Deployments that follow the day, with disruption budgets, some of them strict.

use model::base::{Name, ObjectKey};

use super::catalog::{CATALOG, H100, ServiceSpec, V6E};
use super::clients::patch::Edit;
use super::physics::day;
use super::work::{Profile, WorkKind, WorkParameters};
use super::{SimBudget, World};

impl World {
    pub(super) fn services(&mut self) {
        let busy = day(self.now);
        for service in &CATALOG.services {
            let ServiceSpec {
                namespace,
                name,
                queue,
                pool,
                ..
            } = *service;
            let whole = match pool {
                V6E => self.pools[V6E].len() as u32,
                _ => self.capacity(pool),
            };
            let [least, most] = match pool {
                H100 => [self.part(H100, 12); 2],
                _ => service
                    .share
                    .map(|part| (f64::from(whole) * part).round() as u32),
            };
            if most == 0 {
                continue;
            }
            let replicas = (least + (f64::from(most - least) * busy).round() as u32).max(1);
            let user = if namespace == "prod" {
                "deploy-bot"
            } else {
                "rosa"
            };
            let mut draft = WorkParameters::new(namespace, name, WorkKind::Deployment)
                .by(user)
                .queue(queue)
                .class("prod-serve")
                .on(pool, service.size)
                .acts(Profile::Serve, service.util, 0.9)
                .shape(1, replicas, replicas);
            draft.team = Name::new(if queue == "ranker" {
                "ranking"
            } else {
                "serving"
            });
            draft.curve = (most > least).then_some((least.max(1), most));
            let since = self.ago(service.minutes);
            if self.begin_running(draft, since, None).is_none() {
                continue;
            }
            if let Some(bound) = service.bound.clone() {
                let key = ObjectKey::new(namespace, name);
                let selector = std::iter::once((Name::new("app"), Name::new(name))).collect();
                self.budgets.insert(
                    key,
                    SimBudget {
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
