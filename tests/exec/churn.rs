//! A busy cluster: five hundred pods come and go each second, and an open plan that has nothing to do with them stays the plan
//! that it was, can be confirmed, and is carried out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use console::action_keys::PlanOutcome;
use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::ObjectKey;
use sim::change::{Request, Resource, ServedPage, SimBackend, WorldChange};
use sim::world::World;
use table::Facts;
use table::actions::{ActionState, May};

use super::stage::{self, begin, planned, pods, world};
use super::*;

/// Pods that come each second, and pods that go.
const EACH: usize = 250;

/// A fleet on one of whose nodes pods come and go.
struct Churning {
    world: World,
    node: Name,
    second: i64,
    made: u64,
    there: VecDeque<ObjectKey>,
}

impl Churning {
    fn pod(&self, key: &ObjectKey) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": key.namespace, "name": key.name, "uid": format!("uid-{}", key.name),
                "creationTimestamp": self.world.now().rfc3339(), "labels": {"app": "churn"},
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": key.name, "uid": "churn", "controller": true,
                }],
            },
            "spec": {"nodeName": self.node, "containers": [{"name": "main", "image": "i"}]},
            "status": {"phase": "Running"},
        })
    }
}

impl SimBackend for Churning {
    fn start(&mut self) -> Vec<WorldChange> {
        self.world.start()
    }

    fn now(&self) -> Moment {
        self.world.now()
    }

    fn advance(&mut self, to: Moment) -> Vec<WorldChange> {
        let mut all = self.world.advance(to);
        let second = to.millis().div_euclid(1000);
        for _ in self.second..second {
            for _ in 0..EACH {
                self.made += 1;
                let key = ObjectKey::new("nlp", format!("churn-{}", self.made));
                all.push(WorldChange::Put(Resource::Pods, self.pod(&key)));
                self.there.push_back(key);
            }
            while self.there.len() > EACH {
                let gone = self.there.pop_front().expect("there are more");
                all.push(WorldChange::Remove(Resource::Pods, gone));
            }
        }
        self.second = second;
        all
    }

    fn request(&mut self, request: Request) -> Vec<WorldChange> {
        self.world.request(request)
    }

    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage> {
        self.world.page(pod, port, path)
    }

    fn log(
        &self,
        pod: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>> {
        self.world.log(pod, container, previous)
    }

    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        self.world.exporters()
    }
}

/// What is to be done by a plan, without what only tells how much is lost by then, and who starts where.
fn substance(plan: &Plan) -> Vec<Step> {
    let steps = plan.steps.iter().cloned();
    steps
        .map(|mut step| {
            step.side_effects.loss = None;
            step.side_effects.notes.clear();
            step
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_open_plan_stays_what_it_is_while_five_hundred_pods_a_second_churn() {
    let clock = stage::ticking();
    let plain = stage::cluster(world(2, 24, false), clock.clone());
    let fleet = stage::snapshot(&plain);
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.clone();
    let own = |name: &Name| pods(gang).any(|pod| pod.node == *name);
    let busy = fleet.nodes.iter().find(|node| !own(&node.name));
    let churning = Churning {
        world: world(2, 24, false),
        node: busy.expect("another node").name.clone(),
        second: begin().millis().div_euclid(1000),
        made: 0,
        there: VecDeque::new(),
    };
    let service = embed(Box::new(churning), clock.clone(), 1.0, 1).expect("a cluster");
    let faulty = FaultyService::new(service.clone());
    let operator = Operator::at(&faulty, clock);
    let facts = || {
        let fleet = Arc::new(stage::fleet(&service));
        Facts::new(Name::new("tiny"), fleet, Arc::default())
    };
    let mut app = App::new(AppOptions::default());
    let _ = app.update(Msg::Resize(160, 50));
    let _ = app.update(Msg::Facts(facts()));
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may: May::Yes,
        ..ActionState::default()
    })));
    let press = |app: &mut App, keys: &str| -> Vec<Effect> {
        let keys = keys.chars().map(|c| match c {
            '\n' => KeyPress::plain(Key::Enter),
            c => KeyPress::char(c),
        });
        keys.flat_map(|key| app.update(Msg::Key(key))).collect()
    };
    // Whatever the console asks is answered on the picture of that moment; how often it asks is counted.
    let mut first: Option<Plan> = None;
    let mut asked = 0;
    let mut answer = |app: &mut App, effects: Vec<Effect>| {
        for effect in effects {
            if let Effect::Plan(ask) = effect {
                asked += 1;
                let plan = planned(&stage::snapshot(&service), &ask.intent).expect("a plan");
                first.get_or_insert_with(|| plan.clone());
                let _ = app.update(Msg::PlanOutcome(
                    ask.number,
                    PlanOutcome::Plan(Box::new(plan)),
                ));
            }
        }
        asked
    };
    let _ = app.update(Msg::Tick(service.cluster().now()));
    let opened = press(&mut app, &format!("6/{node}\nD"));
    assert_eq!(
        answer(&mut app, opened),
        1,
        "{}",
        render_text(&app, 160, 50)
    );
    // The confirmation is typed where the cursor starts, the reason beside it.
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Tab)));
    press(&mut app, "maintenance");
    let before = service.cluster().core().store.revision();
    for _ in 0..31 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut due = app.update(Msg::Facts(facts()));
        due.extend(app.update(Msg::Tick(service.cluster().now())));
        answer(&mut app, due);
        let shown = render_text(&app, 160, 50);
        assert!(
            shown.contains(&format!("drain {node}")) && !shown.contains("changed"),
            "{shown}"
        );
    }
    let changes = service.cluster().core().store.revision() - before;
    assert!(changes >= 30_000, "{changes} changes in a minute");
    let asked = answer(&mut app, Vec::new());
    assert!(asked >= 10, "it was looked at anew {asked} times");
    let mut sent = press(&mut app, "\n");
    if !sent
        .iter()
        .any(|effect| matches!(effect, Effect::CarryOut(_)))
    {
        sent = press(&mut app, &format!("tiny/{node}\n"));
    }
    let order = sent.into_iter().find_map(|effect| match effect {
        Effect::CarryOut(order) => Some(order),
        _ => None,
    });
    let order = order.unwrap_or_else(|| panic!("{}", render_text(&app, 160, 50)));
    assert_eq!(order.confirmation.reason, "maintenance");
    let mut first = first.expect("was made");
    first.say_why("maintenance");
    assert_eq!(substance(&order.plan), substance(&first));
    // Even the plan of a minute ago can be carried out: what it relied on has not changed.
    let (_, end) = operator.carry_out(first).await;
    assert_eq!(end.expect("runs"), RunEnd::Done);
}
