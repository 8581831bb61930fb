//! Reads the objects that an action targets: the named object, its owners, and its Kueue or other queueing objects.
//!
//! Uses a reading client: viewing a plan needs no write permission.

use std::collections::BTreeMap;

use kube::Client;
use serde_json::Value;
use tokio::sync::OnceCell;

use cluster::discovery::Groups;
use cluster::mutations::{entry, has_condition, text};
use model::base::{Exit, Failure, Name, Names, SmallSort};
use model::fleet::kinds::{self, ApiKind};
use model::fleet::observe::{Observation, Table};
use model::plan::{Object, Plan, Refusal, RefusalCode, Step};
use plan::scale::Autoscalers;
use plan::{ActionTarget, FoundObject, JobSubject, SubjectPriorityClass, gang_refusal};

use super::machine::ObjectRead;
use super::request::{get, read};
use super::response::ServerResponse;

/// Maximum depth of the owner chain that is followed.
const DEEPEST: usize = 8;

/// Why a target could not be resolved.
#[derive(Debug)]
pub enum Unseen {
    /// No plan can be made for it.
    Refused(Refusal),
    /// The API server returned an error.
    Failed(Failure),
}

/// The PodGroups that make a job of pods without a controller.
const GANGS: [Table; 3] = [
    Table::PodGroups,
    Table::KaiPodGroups,
    Table::VolcanoPodGroups,
];

impl From<Refusal> for Unseen {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Resolves targets in one cluster.
pub struct Looker {
    client: Client,
    /// Namespace of a name that is typed without one.
    namespace: String,
    /// Versions of each group, the preferred one first.
    served: OnceCell<BTreeMap<String, Vec<String>>>,
}

/// A typed name, parsed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Named<'a> {
    kind: Option<String>,
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> Named<'a> {
    /// Parses `NAME`, `NAMESPACE/NAME`, `KIND/NAME`, `KIND/NAMESPACE/NAME`.
    fn parse(text: &'a str) -> Option<Self> {
        let is_kind = |word: &str| {
            let word = word.to_ascii_lowercase();
            let mut all = kinds::jobs().chain(kinds::queues());
            matches!(&*word, "job" | "queue")
                || all.any(|of| word == of.plural || word == of.kind.to_ascii_lowercase())
        };
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        match parts.as_slice() {
            [name] => Some(Self {
                kind: None,
                namespace: None,
                name,
            }),
            [kind, name] if is_kind(kind) => Some(Self {
                kind: Some(kind.to_ascii_lowercase()),
                namespace: None,
                name,
            }),
            [namespace, name] => Some(Self {
                kind: None,
                namespace: Some(namespace),
                name,
            }),
            [kind, namespace, name] if is_kind(kind) => Some(Self {
                kind: Some(kind.to_ascii_lowercase()),
                namespace: Some(namespace),
                name,
            }),
            _ => None,
        }
    }

    fn matches_kind(&self, of: &ApiKind) -> bool {
        self.kind.as_ref().is_none_or(|wanted| {
            wanted == of.plural
                || *wanted == of.kind.to_ascii_lowercase()
                || wanted == "queue" && of.plural.ends_with("queues")
        })
    }
}

/// All objects that a plan references.
fn objects(plan: &mut Plan) -> impl Iterator<Item = &mut Object> {
    let facts = plan.reads.iter_mut().map(|fact| &mut fact.object);
    let steps = plan.steps.iter_mut().flat_map(Step::objects_mut);
    steps.chain(facts)
}

fn failed(what: &str, answer: &ServerResponse) -> Unseen {
    let exit = match answer.code {
        Some(401 | 403) => Exit::Refused,
        Some(_) => Exit::Failed,
        None => Exit::Unreachable,
    };
    Unseen::Failed(Failure::new(exit, format!("{what}: {}", answer.words())))
}

fn found(mut object: Object, now: Value) -> FoundObject {
    object = object.with_uid(text(&now, "/metadata/uid"));
    FoundObject { object, now }
}

impl Looker {
    /// Reads through this client. `namespace` applies to names without a namespace.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            served: OnceCell::new(),
        }
    }

    async fn served(&self) -> Result<&BTreeMap<String, Vec<String>>, Unseen> {
        self.served
            .get_or_try_init(|| async {
                let answer = get(&self.client, "/apis").await;
                if answer.code != Some(200) {
                    return Err(failed("reading what the cluster serves", &answer));
                }
                let mut served = BTreeMap::from([(String::new(), vec!["v1".to_owned()])]);
                let reported: Groups = serde_json::from_value(answer.body).unwrap_or_default();
                let groups = reported.groups.iter();
                served.extend(groups.map(|group| (group.name.to_string(), group.versions())));
                Ok(served)
            })
            .await
    }

    /// Like `find`, while a name is searched among all kinds: a kind that we may not read is skipped and noted.
    async fn probe(
        &self,
        of: &ApiKind,
        namespace: &str,
        named: &Named<'_>,
        barred: &mut Vec<String>,
    ) -> Result<Option<FoundObject>, Unseen> {
        match self.find(of, namespace, named.name).await {
            Err(Unseen::Failed(failure))
                if failure.exit == Exit::Refused && named.kind.is_none() =>
            {
                barred.push(of.qualified().to_owned());
                Ok(None)
            }
            other => other,
        }
    }

    /// Reads one object; `None` when it does not exist or its kind is not served.
    async fn find(
        &self,
        of: &ApiKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<FoundObject>, Unseen> {
        let versions = self.served().await?.get(of.group);
        // Kinds in one group may be served in different versions.
        for version in versions.into_iter().flatten() {
            let object = Object::served(of, version, name).within(namespace);
            match read(&self.client, &object).await {
                ObjectRead::There(now) => return Ok(Some(found(object, *now))),
                ObjectRead::Gone => {}
                ObjectRead::Not(answer) => {
                    return Err(failed(&format!("reading {object}"), &answer));
                }
            }
        }
        Ok(None)
    }

    /// Adds what shows that its steps have taken effect, and fills in the versions that the cluster serves where the plan leaves them
    /// open. Kinds in one group may differ in version: the first version that serves the object is used.
    pub async fn settle(&self, plan: &mut Plan) {
        self.follow_up(plan).await;
        let Ok(served) = self.served().await else {
            return;
        };
        let mut known: BTreeMap<(Name, Name), Name> = BTreeMap::new();
        let open: Vec<Object> = objects(plan)
            .filter(|object| object.place.version.is_empty())
            .map(|object| object.clone())
            .collect();
        for object in open {
            let key = (object.place.group.clone(), object.place.plural.clone());
            let Some(versions) = served.get(object.place.group.as_str()) else {
                continue;
            };
            if known.contains_key(&key) {
                continue;
            }
            let mut version = versions.first().map(|version| Name::new(version));
            for one in versions.iter().filter(|_| versions.len() > 1) {
                let mut asked = object.clone();
                asked.place.version = Name::new(one);
                if matches!(read(&self.client, &asked).await, ObjectRead::There(_)) {
                    version = Some(asked.place.version);
                    break;
                }
            }
            known.extend(version.map(|version| (key, version)));
        }
        for object in objects(plan) {
            let key = (object.place.group.clone(), object.place.plural.clone());
            if object.place.version.is_empty()
                && let Some(version) = known.get(&key)
            {
                object.place.version = version.clone();
            }
        }
    }

    async fn list(&self, table: Table, namespace: &str) -> Result<Vec<Value>, Unseen> {
        Ok(self.list_as(table, namespace).await?.1)
    }

    /// The objects of a kind, with the version in which the cluster serves it: kinds in one group may have different ones.
    async fn list_as(&self, table: Table, namespace: &str) -> Result<(String, Vec<Value>), Unseen> {
        let of = table.api();
        for version in self.served().await?.get(of.group).into_iter().flatten() {
            let object = Object::served(of, version, "").within(namespace);
            let Some(path) = cluster::mutations::path(&object, true) else {
                break;
            };
            let mut answer = get(&self.client, &path).await;
            match answer.code {
                Some(200) => {
                    let items = answer.body.get_mut("items").map(Value::take);
                    let Some(Value::Array(items)) = items else {
                        break;
                    };
                    return Ok((version.clone(), items));
                }
                Some(404) => {}
                _ => return Err(failed(&format!("listing {}", of.plural), &answer)),
            }
        }
        Ok((String::new(), Vec::new()))
    }

    /// Finds the job or queue with this name.
    ///
    /// # Errors
    /// Nothing has this name, several objects have it, or the API server returned an error.
    pub async fn target(&self, typed: &str) -> Result<ActionTarget, Unseen> {
        let named = Named::parse(typed).ok_or_else(|| malformed(typed))?;
        let mut barred = Vec::new();
        let mut queues = Vec::new();
        for of in kinds::queues() {
            // Without a namespace, the name may be a cluster-scoped queue or a queue in the current namespace.
            let namespace = match (of.namespaced, named.namespace) {
                (false, None) => "",
                (true, namespace) => namespace.unwrap_or(&self.namespace),
                (false, Some(_)) => continue,
            };
            if named.matches_kind(of) {
                queues.extend(self.probe(of, namespace, &named, &mut barred).await?);
            }
        }
        if named.kind.is_none() && named.namespace.is_none() {
            // A ClusterQueue and a LocalQueue may share a name: the LocalQueue is used only when it is named by kind or
            // namespace.
            queues.small_sort_by_key(|queue| !queue.object.namespace.is_empty());
            queues.truncate(1);
        }
        let jobs = self.jobs(&named, &mut barred).await?;
        match (queues.len(), jobs.len()) {
            (1, 0) => Ok(ActionTarget::Queue(Box::new(queues.remove(0)))),
            (0, 1) => Ok(ActionTarget::Job(Box::new(self.subject(jobs).await?))),
            (0, 0) => Err(self.none(&named, "job or queue", &barred).await),
            _ => Err(ambiguous(typed, queues.iter().chain(&jobs)).into()),
        }
    }

    /// Finds the job with this name.
    ///
    /// # Errors
    /// Nothing has this name, several objects have it, or the API server returned an error.
    pub async fn job(&self, typed: &str) -> Result<JobSubject, Unseen> {
        let named = Named::parse(typed).ok_or_else(|| malformed(typed))?;
        let mut barred = Vec::new();
        let jobs = self.jobs(&named, &mut barred).await?;
        match jobs.len() {
            0 => Err(self.none(&named, "job", &barred).await),
            1 => self.subject(jobs).await,
            _ => Err(ambiguous(typed, jobs.iter()).into()),
        }
    }

    async fn jobs(
        &self,
        named: &Named<'_>,
        barred: &mut Vec<String>,
    ) -> Result<Vec<FoundObject>, Unseen> {
        let namespace = named.namespace.unwrap_or(&self.namespace);
        let mut all: Vec<FoundObject> = Vec::new();
        for of in kinds::jobs() {
            if named.matches_kind(of) {
                all.extend(self.probe(of, namespace, named, barred).await?);
            }
        }
        if all.len() > 1 {
            // Objects with the same name that own each other are one job.
            let uids: Vec<String> = all
                .iter()
                .map(|one| text(&one.now, "/metadata/uid").to_owned())
                .collect();
            all.retain(|one| {
                controller(&one.now)
                    .is_none_or(|owner| !uids.iter().any(|uid| uid == text(owner, "/uid")))
            });
        }
        Ok(all)
    }

    /// The autoscalers of replicas in a namespace.
    ///
    /// # Errors
    /// The API server returned an error.
    pub async fn autoscalers(&self, namespace: &str) -> Result<Autoscalers, Unseen> {
        let mut all = Autoscalers::default();
        let mut names = Names::default();
        for table in [Table::PodAutoscalers, Table::ScaledObjects] {
            for item in self.list(table, namespace).await? {
                match cluster::seen(table, &item, &mut names) {
                    Some(Observation::PodScaler(scaler)) => all.pods.push(*scaler),
                    Some(Observation::ScaledObject(object)) => all.keda.push(*object),
                    _ => {}
                }
            }
        }
        Ok(all)
    }

    /// Why a gang of bare pods, which is a job of its PodGroup's name, cannot be changed as a job; `None` where no PodGroup has the name.
    async fn gang(&self, named: &Named<'_>) -> Option<Refusal> {
        let namespace = named.namespace.unwrap_or(&self.namespace);
        for table in GANGS {
            if !named.matches_kind(table.api()) {
                continue;
            }
            // A PodGroup that may not be read is as good as none.
            let mut barred = Vec::new();
            let probed = self.probe(table.api(), namespace, named, &mut barred).await;
            let Ok(Some(found)) = probed else { continue };
            let owners = found.now.pointer("/metadata/ownerReferences");
            let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
            let Some(owner) = owners.find(|owner| text(owner, "/kind") != "Pod") else {
                return Some(gang_refusal(&found.object.to_string()));
            };
            let job = format!(
                "{} {namespace}/{}",
                text(owner, "/kind"),
                text(owner, "/name")
            );
            let sentence = format!("{} is the gang of {job}", found.object);
            let refusal = Refusal::new(RefusalCode::Unsupported, sentence);
            return Some(refusal.instead(format!("act on {job}")));
        }
        None
    }

    /// Why no object of this name can be acted on: it is a gang, or there is none.
    async fn none(&self, named: &Named<'_>, what: &str, barred: &[String]) -> Unseen {
        let gang = self.gang(named).await;
        gang.unwrap_or_else(|| self.nothing(named, what, barred))
            .into()
    }

    fn nothing(&self, named: &Named<'_>, what: &str, barred: &[String]) -> Refusal {
        let namespace = named.namespace.unwrap_or(&self.namespace);
        let sentence = match barred {
            [] => format!("there is no {what} {namespace}/{}", named.name),
            barred => format!(
                "there is no {what} {namespace}/{} of a kind that you may read; you may not read {}",
                named.name,
                barred.join(", ")
            ),
        };
        Refusal::new(RefusalCode::NotFound, sentence)
            .instead("name it as NAMESPACE/NAME; `get jobs` and `get queues` list them")
    }

    /// A job with its owners and its queueing objects.
    async fn subject(&self, mut chain: Vec<FoundObject>) -> Result<JobSubject, Unseen> {
        while chain.len() < DEEPEST {
            let Some(last) = chain.last() else { break };
            let Some(owner) = controller(&last.now).cloned() else {
                break;
            };
            let (kind, name) = (text(&owner, "/kind"), text(&owner, "/name"));
            let group = text(&owner, "/apiVersion")
                .rsplit_once('/')
                .map_or("", |(group, _)| group);
            let known = kinds::jobs().find(|of| of.group == group && of.kind == kind);
            let above = match known {
                Some(of) => {
                    let namespace = last.object.namespace.to_string();
                    self.find(of, &namespace, name).await?
                }
                None => None,
            };
            let Some(above) =
                above.filter(|above| text(&above.now, "/metadata/uid") == text(&owner, "/uid"))
            else {
                let sentence = format!(
                    "{} belongs to {kind} {name}, which Stokehold cannot act on",
                    last.object
                );
                return Err(Refusal::new(RefusalCode::OwnedByAnother, sentence)
                    .instead(format!("act on {kind} {name} with its own tool"))
                    .into());
            };
            chain.push(above);
        }
        let uids: Vec<String> = chain
            .iter()
            .map(|one| text(&one.now, "/metadata/uid").to_owned())
            .collect();
        let top = chain.last().expect("a chain has an object").clone();
        let namespace = top.object.namespace.to_string();
        let owned = |now: &Value| {
            owners(now).any(|owner| uids.iter().any(|uid| uid == text(owner, "/uid")))
        };
        let mut workloads = self.owned(Table::KueueWorkloads, &namespace, owned).await?;
        let ended = |one: &FoundObject| has_condition(&one.now, "Finished", "True");
        match workloads.iter().all(ended) {
            true => drop(workloads.drain(..workloads.len().saturating_sub(1))),
            false => workloads.retain(|one| !ended(one)),
        }
        workloads.small_sort_by_key(|one| one.object.name.clone());
        let group_name = chain
            .iter()
            .find_map(|one| entry(&one.now, "annotations", "scheduling.k8s.io/group-name"));
        let mut pod_groups = self
            .owned(Table::VolcanoPodGroups, &namespace, |now| {
                owned(now) || group_name.is_some_and(|name| text(now, "/metadata/name") == name)
            })
            .await?;
        Ok(JobSubject {
            chain,
            workloads,
            // Finished ones may remain: use the newest.
            pod_group: pod_groups.pop(),
            classes: self.classes(Table::PriorityClasses).await,
            workload_classes: self.classes(Table::WorkloadPriorityClasses).await,
        })
    }

    /// The objects of this kind that are wanted, the newest last.
    pub(super) async fn owned(
        &self,
        table: Table,
        namespace: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Vec<FoundObject>, Unseen> {
        let (version, items) = self.list_as(table, namespace).await?;
        let is_going = |now: &Value| now.pointer("/metadata/deletionTimestamp").is_some();
        let mut fitting: Vec<Value> = items
            .into_iter()
            .filter(|now| wanted(now) && !is_going(now))
            .collect();
        fitting.small_sort_by_key(|now| text(now, "/metadata/creationTimestamp").to_owned());
        let named = fitting.into_iter().map(|now| {
            let name = text(&now, "/metadata/name").to_owned();
            let object = Object::served(table.api(), &version, &name).within(namespace);
            found(object, now)
        });
        Ok(named.collect())
    }

    /// Priority classes; empty when they cannot be listed. Only a priority given by class name needs them.
    async fn classes(&self, table: Table) -> Vec<SubjectPriorityClass> {
        let items = self.list(table, "").await.unwrap_or_default();
        items
            .iter()
            .map(|item| SubjectPriorityClass {
                name: text(item, "/metadata/name").to_owned(),
                value: item.get("value").and_then(Value::as_i64).unwrap_or(0),
            })
            .collect()
    }
}

pub(super) fn owners(now: &Value) -> impl Iterator<Item = &Value> {
    now.pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn controller(now: &Value) -> Option<&Value> {
    owners(now).find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
}

fn malformed(typed: &str) -> Refusal {
    let sentence = format!("`{typed}` is not a valid name");
    Refusal::new(RefusalCode::NotFound, sentence)
        .instead("write NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME")
}

fn ambiguous<'a>(typed: &str, all: impl Iterator<Item = &'a FoundObject>) -> Refusal {
    let names: Vec<String> = all
        .map(|one| {
            let object = &one.object;
            let kind = object.kind.to_ascii_lowercase();
            if object.namespace.is_empty() {
                format!("{kind}/{}", object.name)
            } else {
                format!("{kind}/{}/{}", object.namespace, object.name)
            }
        })
        .collect();
    let sentence = format!("`{typed}` is ambiguous: {}", names.join(" or "));
    Refusal::new(RefusalCode::Ambiguous, sentence).instead("name it with its kind")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let parsed = |text: &str| {
            Named::parse(text).map(|named| {
                (
                    named.kind.unwrap_or_default(),
                    named.namespace.unwrap_or_default().to_owned(),
                    named.name.to_owned(),
                )
            })
        };
        let of = |kind: &str, namespace: &str, name: &str| {
            Some((kind.to_owned(), namespace.to_owned(), name.to_owned()))
        };
        assert_eq!(parsed("train"), of("", "", "train"));
        assert_eq!(parsed("nlp/train"), of("", "nlp", "train"));
        assert_eq!(parsed("ClusterQueue/nlp"), of("clusterqueue", "", "nlp"));
        assert_eq!(parsed("jobset/nlp/train"), of("jobset", "nlp", "train"));
        for bad in ["", "/", "a//b", "a/b/c", "a/b/c/d"] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }
}
