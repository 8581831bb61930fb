//! Checks of `doctor` on a cluster: reachability, identity, rights, and the sources of one snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};

use cluster::rights::{VISIBILITY, rights};
use model::base::Exit;
use model::fleet::observe::Table;
use model::fleet::visibility::{HELP, help_within, viewer_of};
use source::api_error::{ApiError, clipped};
use source::client::{Connection, connect};
use source::kubeconfig::{self, ContextChoice};
use source::rights::{Permission, may, self_subject};
use source::server::{Api, TableAvailability};
use table::Needs;
use table::checkup::{CheckupItem, Point, of_facts};

use super::clock::Stopwatch;
use super::session::{self, ClusterTarget, Coming};
use super::setup::Setup;
use super::source_options;

/// Clock skew in milliseconds above which ages are wrong where they are not corrected.
const SKEW: i64 = 2_000;

/// Longest wait for one answer of the server.
const PATIENCE: Duration = Duration::from_secs(15);

/// Access reviews in flight at one time.
const AT_ONCE: usize = 8;

/// All points to report about a cluster; `progress` as for [`session::snapshot`].
pub async fn examine(
    setup: &Setup,
    choice: ContextChoice,
    progress: &mut (dyn FnMut(Coming) + Send),
) -> Vec<Point> {
    let mut points = Vec::new();
    let connection = match connect(
        choice.clone(),
        setup.host.clock.clone(),
        source_options::proxied(setup),
        setup.interactive,
    ) {
        Ok(connection) => connection,
        Err(fault) => {
            let mend = "correct the kubeconfig, or name another with --kubeconfig and --context";
            points.push(Point::fail(
                CheckupItem::Kubeconfig,
                Exit::Usage,
                fault.to_string(),
                mend,
            ));
            return points;
        }
    };
    let message = format!(
        "context {} at {}, namespace {}",
        connection.context, connection.server, connection.namespace
    );
    points.push(Point::ok(CheckupItem::Kubeconfig, message));
    let api = Api::new(connection.client.clone(), setup.host.clock.clone());
    let watch = Stopwatch::start();
    match tokio::time::timeout(PATIENCE, api.version()).await {
        Ok(Ok(version)) => {
            let took = watch.elapsed().as_millis();
            points.push(Point::ok(
                CheckupItem::Api,
                format!("{} answers in {took} ms", version.name()),
            ));
        }
        Ok(Err(error)) => {
            let (exit, message) = match &error {
                kube::Error::Api(status) if matches!(status.code, 401 | 403) => (
                    Exit::Refused,
                    format!(
                        "{}: the API server refuses the credentials ({})",
                        status.code,
                        clipped(&status.message)
                    ),
                ),
                other => (Exit::Unreachable, ApiError::of_transport(other).message),
            };
            let mend = match exit {
                Exit::Refused => "log in again (the user of the current context)",
                _ => {
                    "is the cluster up, its address in the kubeconfig right, and the VPN connected?"
                }
            };
            points.push(Point::fail(CheckupItem::Api, exit, message, mend));
            return points;
        }
        Err(_) => {
            let message = format!(
                "the API server does not answer within {} s",
                PATIENCE.as_secs()
            );
            let mend = "is its address reachable from here (VPN, firewall)?";
            points.push(Point::fail(
                CheckupItem::Api,
                Exit::Unreachable,
                message,
                mend,
            ));
            return points;
        }
    }
    points.push(identity(&connection).await);
    points.push(skew(&connection));
    let served = kinds(&api, &mut points).await;
    let mut known = kubeconfig::namespaces(&choice).unwrap_or_default();
    known.insert(0, connection.namespace.clone());
    known.dedup();
    points.extend(allowed(&connection, setup, &served, &known).await);
    match session::snapshot(
        setup,
        ClusterTarget::Cluster(choice),
        &Needs::everything(),
        progress,
    )
    .await
    {
        Ok(facts) => points.extend(of_facts(&facts)),
        Err(failure) => points.push(Point::fail(
            CheckupItem::Fleet,
            failure.exit,
            "nothing could be listed",
            failure
                .message
                .lines()
                .next()
                .unwrap_or("look at the points above")
                .to_owned(),
        )),
    }
    points
}

async fn identity(connection: &Connection) -> Point {
    match self_subject(&connection.client).await {
        Ok((name, groups)) => {
            let groups: Vec<String> = groups
                .into_iter()
                .filter(|group| group != "system:authenticated")
                .collect();
            let groups = match groups.as_slice() {
                [] => String::new(),
                groups => format!(" in {}", groups.join(", ")),
            };
            Point::ok(CheckupItem::Identity, format!("{name}{groups}"))
        }
        Err(why) => Point::warn(
            CheckupItem::Identity,
            "the server does not report your user",
            format!("nothing depends on it ({why})"),
        ),
    }
}

fn skew(connection: &Connection) -> Point {
    match connection.stats.skew_ms() {
        None => Point::warn(
            CheckupItem::Clock,
            "the server's answers have no Date header: ages use this machine's clock",
            "does a proxy before the API server remove the Date header?",
        ),
        Some(skew) if skew.abs() <= SKEW => {
            Point::ok(CheckupItem::Clock, "agrees with the server's")
        }
        Some(skew) => Point::warn(
            CheckupItem::Clock,
            format!(
                "this machine's clock is {} s {} the server's; ages on screen are corrected for it",
                skew.abs() / 1000,
                if skew > 0 { "behind" } else { "ahead of" }
            ),
            "set this machine's clock (NTP)",
        ),
    }
}

/// Which tables the server serves; also added as points.
async fn kinds(api: &Api, points: &mut Vec<Point>) -> BTreeSet<Table> {
    let mut served = BTreeSet::new();
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for table in Table::ALL {
        let place = table.api();
        if !place.version.is_empty() {
            if place.follows.is_none_or(|basis| served.contains(&basis)) {
                served.insert(*table);
            }
            continue;
        }
        match api.served(*table, false).await {
            Ok(TableAvailability::In(version)) => {
                served.insert(*table);
                there.push(format!("{} {version}", table.name()));
            }
            Err(trouble) => points.push(Point::warn(
                CheckupItem::Kinds,
                format!(
                    "the server does not report whether it serves {}",
                    table.name()
                ),
                trouble.message,
            )),
            Ok(TableAvailability::Not) => missing.push(table.name()),
        }
    }
    let mut message = "the core kinds".to_owned();
    if !there.is_empty() {
        message.push_str(&format!(", {}", there.join(", ")));
    }
    if !missing.is_empty() {
        message.push_str(&format!("; not served: {}", missing.join(", ")));
    }
    points.push(Point::ok(CheckupItem::Kinds, message));
    served
}

/// An access review to send: the right and the namespace.
struct Question {
    resource: String,
    group: &'static str,
    verb: &'static str,
    namespace: String,
    name: &'static str,
    what: &'static str,
    table: bool,
    /// True if the role for single namespaces has the right.
    within: bool,
}

/// The rights that we have and lack, as points.
async fn allowed(
    connection: &Connection,
    setup: &Setup,
    served: &BTreeSet<Table>,
    known: &[String],
) -> Vec<Point> {
    let chosen = &setup.settings.scope.namespaces;
    let path = format!("/apis/{VISIBILITY}");
    let visible = match http::Request::get(path).body(Vec::new()) {
        Ok(request) => connection.client.request_text(request).await.is_ok(),
        Err(_) => false,
    };
    let within = rights(true);
    let mut questions = Vec::new();
    for right in rights(false) {
        for resource in &right.resources {
            let table = Table::ALL.iter().find(|table| {
                let place = table.api();
                place.group == right.group
                    && place.only == right.only
                    && place.namespace() == right.namespace
                    && table.plural() == *resource
            });
            if table.is_some_and(|table| !served.contains(table)) {
                continue;
            }
            if right.group == VISIBILITY && !visible {
                continue;
            }
            let namespaced = table.map_or(right.group.is_empty(), |table| table.api().namespaced);
            let places = match right.namespace {
                Some(namespace) => vec![namespace.to_owned()],
                None if namespaced && !chosen.is_empty() => chosen.clone(),
                None => vec![String::new()],
            };
            for namespace in places {
                for verb in right
                    .verbs
                    .iter()
                    .filter(|verb| table.is_none() || **verb != "get")
                {
                    questions.push(Question {
                        resource: (*resource).to_owned(),
                        group: right.group,
                        verb,
                        namespace: namespace.clone(),
                        name: right.only.map_or("", |(_, name)| name),
                        what: right.what,
                        // Rights in one namespace only add to the view.
                        table: table.is_some() && right.namespace.is_none(),
                        within: within.iter().any(|other| {
                            (other.group, other.only, other.namespace)
                                == (right.group, right.only, right.namespace)
                                && other.resources.contains(resource)
                                && other.verbs.contains(verb)
                        }),
                    });
                }
            }
        }
    }
    let client = Arc::new(connection.client.clone());
    let answers: Vec<(Question, Result<bool, String>)> = stream::iter(questions)
        .map(|question| {
            let client = Arc::clone(&client);
            async move {
                let permission = Permission {
                    verb: question.verb,
                    group: question.group,
                    resource: &question.resource,
                    namespace: &question.namespace,
                    name: question.name,
                };
                let answer = may(&client, permission).await;
                (question, answer)
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    judge(connection, chosen, known, answers).await
}

async fn judge(
    connection: &Connection,
    chosen: &[String],
    known: &[String],
    answers: Vec<(Question, Result<bool, String>)>,
) -> Vec<Point> {
    let mut granted: Vec<String> = Vec::new();
    let mut denied: Vec<Question> = Vec::new();
    let mut points = Vec::new();
    for (question, answer) in answers {
        match answer {
            Ok(true) => {
                if !granted.contains(&question.resource) {
                    granted.push(question.resource);
                }
            }
            Ok(false) => denied.push(question),
            Err(why) => {
                let message = format!(
                    "the server does not report whether we may {} {}",
                    question.verb, question.resource
                );
                points.push(Point::warn(CheckupItem::Rights, message, why));
                break;
            }
        }
    }
    // With rights in single namespaces only, these may be readable: check the ones that the kubeconfig names.
    let mut readable: Vec<String> = Vec::new();
    let is_pods = |question: &Question| question.table && question.resource == "pods";
    if denied.iter().any(is_pods) {
        for namespace in known {
            let pods = Permission {
                verb: "list",
                group: "",
                resource: "pods",
                namespace,
                name: "",
            };
            let again = readable.contains(namespace);
            if !again && may(&connection.client, pods).await == Ok(true) {
                readable.push(namespace.clone());
            }
        }
    }
    let narrow = !readable.is_empty();
    // The namespaces that the session is confined to: those of -n and the settings, or those that may be read at all.
    let confined: &[String] = match chosen {
        [] => readable.as_slice(),
        chosen => chosen,
    };
    let mut refused: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut without: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut left_out: BTreeSet<String> = BTreeSet::new();
    for question in &denied {
        let place = match &*question.namespace {
            "" => "in the whole cluster".to_owned(),
            namespace => format!("in namespace {namespace}"),
        };
        if !confined.is_empty() && !question.within {
            let namespace = &question.namespace;
            left_out.insert(match namespace.is_empty() || confined.contains(namespace) {
                true => question.resource.clone(),
                false => format!("{} in {namespace}", question.resource),
            });
        } else if question.table {
            refused.entry(place).or_default().insert(&question.resource);
        } else if chosen.is_empty() && narrow {
            // Asked for the whole cluster only: the point about the tables says to give -n.
        } else {
            let right = format!(
                "{} {} ({})",
                question.verb, question.resource, question.what
            );
            without.entry(place).or_default().push(right);
        }
    }
    let help = help_within(confined);
    for (place, actions) in without {
        points.push(Point::warn(
            CheckupItem::Rights,
            format!("may not, {place}: {}", actions.join(", ")),
            help.clone(),
        ));
    }
    let denied_tables = denied.iter().filter(|question| question.table);
    let lacking: BTreeSet<&str> = denied_tables.map(|it| it.resource.as_str()).collect();
    granted.retain(|resource| !lacking.contains(resource.as_str()));
    for (place, resources) in &refused {
        let names: Vec<&str> = resources.iter().copied().collect();
        let message = format!("may not list and watch {place}: {}", names.join(", "));
        let mend = if narrow {
            format!(
                "give -n {} (separate more namespaces with commas); for everything {HELP}",
                readable.join(",")
            )
        } else if chosen.is_empty() {
            format!(
                "give -n with your namespaces, or {}",
                help_within(&["NAMESPACE"])
            )
        } else {
            help.clone()
        };
        points.insert(0, Point::warn(CheckupItem::Rights, message, mend));
    }
    if granted.is_empty() && !narrow {
        let asked = match known {
            [] => String::new(),
            known => format!(", nor in namespace {}", known.join(", ")),
        };
        let message = format!("no resource may be read cluster-wide{asked}");
        let mend = format!(
            "give -n with your namespaces, or {}",
            help_within(&["NAMESPACE"])
        );
        points.insert(
            0,
            Point::fail(CheckupItem::Rights, Exit::Refused, message, mend),
        );
    } else if !granted.is_empty() {
        points.insert(
            0,
            Point::ok(
                CheckupItem::Rights,
                format!("may read {}", granted.join(", ")),
            ),
        );
    }
    if !left_out.is_empty() {
        let names: Vec<String> = left_out.into_iter().collect();
        let message = format!(
            "without {}: the role of {} leaves them out",
            names.join(", "),
            viewer_of(confined)
        );
        points.push(Point::ok(CheckupItem::Rights, message));
    }
    points
}
