//! The users of the simulated cluster, their tokens, and what each may do.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::change::Resource;
use super::resource::Spec;
use super::specs::SPECS;

/// A user with a context in the kubeconfig.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum User {
    Admin,
    /// May read everything, cluster-wide, pod logs and proxies included.
    Viewer,
    /// May read in the namespaces of one team only: no cluster-wide list, no nodes, no proxy.
    Team,
    /// Is authenticated, and may only read discovery and review its own rights.
    Nobody,
}

impl User {
    /// Every user, in the order of the kubeconfig's contexts.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Viewer, Self::Team, Self::Nobody];

    /// The user's name, which is also the name of its context.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "sim-admin",
            Self::Viewer => "sim-viewer",
            Self::Team => "sim-team",
            Self::Nobody => "sim-nobody",
        }
    }
}

/// The requester, as authenticated or impersonated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    pub name: String,
    pub groups: Vec<String>,
    /// Uid; empty when none is known.
    pub uid: String,
}

impl Identity {
    /// The identity of one of the cluster's own users.
    pub fn of(user: User) -> Self {
        let mut groups = Vec::new();
        if user == User::Admin {
            groups.push("system:masters".to_owned());
        }
        groups.push("system:authenticated".to_owned());
        Self {
            name: user.name().to_owned(),
            groups,
            uid: String::new(),
        }
    }

    fn is(&self, user: User) -> bool {
        self.name == user.name()
    }
}

/// The requested action, in the authorizer's terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessRequest<'a> {
    /// Something on a resource.
    Resource {
        /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, ...
        verb: &'a str,
        /// API group; empty for the core group.
        group: &'a str,
        plural: &'a str,
        /// Subresource; empty for the main resource.
        subresource: &'a str,
        /// Namespace; empty for the cluster scope.
        namespace: &'a str,
        /// Name; empty for all.
        name: &'a str,
    },
    /// A path outside of the resources.
    Path { verb: &'a str, path: &'a str },
}

/// One rule of a role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyRule {
    /// Verbs; `*` is any.
    pub verbs: Vec<String>,
    /// API groups; `*` is any.
    pub groups: Vec<String>,
    /// `PLURAL` or `PLURAL/SUBRESOURCE`; `*` is any.
    pub resources: Vec<String>,
    /// Paths, with `*` at the end for everything below; only where the other lists are empty.
    pub paths: Vec<String>,
}

impl PolicyRule {
    /// Verbs and resources are words with blanks between them.
    fn of(verbs: &str, groups: &[&str], resources: &str) -> Self {
        Self {
            verbs: words(verbs),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            resources: words(resources),
            paths: Vec::new(),
        }
    }

    fn of_paths(verb: &str, paths: &str) -> Self {
        Self {
            verbs: words(verb),
            paths: words(paths),
            ..Self::default()
        }
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

type Rules = LazyLock<Vec<PolicyRule>>;

const READ: &str = "get list watch";

static EVERYTHING: Rules = LazyLock::new(|| {
    vec![
        PolicyRule::of("*", &["*"], "*"),
        PolicyRule::of_paths("*", "*"),
    ]
});

/// What every authenticated user may do.
static BASIC: Rules = LazyLock::new(|| {
    let reviews = "selfsubjectaccessreviews selfsubjectrulesreviews";
    let discovery =
        "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/";
    vec![
        PolicyRule::of("create", &["authorization.k8s.io"], reviews),
        PolicyRule::of("create", &["authentication.k8s.io"], "selfsubjectreviews"),
        PolicyRule::of_paths("get", discovery),
    ]
});

/// What unauthenticated requests may do.
static PUBLIC: Rules = LazyLock::new(|| {
    vec![PolicyRule::of_paths(
        "get",
        "/healthz /livez /readyz /version /version/",
    )]
});

/// What the viewer may: read everything but who has which rights, what filters traffic and what checks requests.
static VIEW: Rules = LazyLock::new(|| {
    let groups: Vec<&str> = fleet_groups().into_keys().collect();
    let core = "configmaps events namespaces namespaces/status nodes nodes/status pods pods/log pods/status \
                serviceaccounts services services/status";
    vec![
        PolicyRule::of(READ, &[""], core),
        PolicyRule::of("get", &[""], "pods/proxy services/proxy"),
        PolicyRule::of(READ, &groups, "*"),
    ]
});

/// What the team's user may in its namespaces: read what is in namespaces.
static TEAM: Rules = LazyLock::new(|| {
    let core = "configmaps events pods pods/log pods/status serviceaccounts services";
    let mut rules = vec![
        PolicyRule::of(READ, &[""], core),
        PolicyRule::of("get", &[""], "namespaces"),
    ];
    let (whole, parts): (Vec<_>, Vec<_>) = fleet_groups()
        .into_iter()
        .partition(|(_, specs)| specs.iter().all(|spec| spec.namespaced));
    let whole: Vec<&str> = whole.into_iter().map(|(group, _)| group).collect();
    rules.push(PolicyRule::of(READ, &whole, "*"));
    for (group, specs) in parts {
        let mut rule = PolicyRule::of(READ, &[group], "");
        for spec in specs.iter().filter(|spec| spec.namespaced) {
            rule.resources.push(spec.plural.to_owned());
            if spec.has_status() {
                rule.resources.push(format!("{}/status", spec.plural));
            }
        }
        if !rule.resources.is_empty() {
            rules.push(rule);
        }
    }
    rules
});

/// What the fleet is made of, by API group, without the core group; and Leases.
fn fleet_groups() -> BTreeMap<&'static str, Vec<&'static Spec>> {
    let mut groups: BTreeMap<&str, Vec<&Spec>> = BTreeMap::new();
    let of_fleet = |spec: &&Spec| spec.table.is_some() || spec.resource == Resource::Leases;
    for spec in SPECS.iter().filter(of_fleet) {
        if !spec.group.is_empty() {
            groups.entry(spec.group).or_default().push(spec);
        }
    }
    groups
}

impl PolicyRule {
    fn allows(&self, ask: &AccessRequest<'_>) -> bool {
        let has = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
        match ask {
            AccessRequest::Resource {
                verb,
                group,
                plural,
                subresource,
                ..
            } => {
                let full;
                let resource = if subresource.is_empty() {
                    *plural
                } else {
                    full = format!("{plural}/{subresource}");
                    &full
                };
                has(&self.verbs, verb) && has(&self.groups, group) && has(&self.resources, resource)
            }
            AccessRequest::Path { verb, path } => {
                has(&self.verbs, verb)
                    && self.paths.iter().any(|p| match p.strip_suffix('*') {
                        Some(stem) => path.starts_with(stem),
                        None => p == path,
                    })
            }
        }
    }
}

/// The users' tokens, and the namespaces that the team's user may read.
#[derive(Clone, Debug)]
pub struct Users {
    tokens: BTreeMap<String, User>,
    team_namespaces: Vec<String>,
}

impl Users {
    /// The four users with these tokens (in the order of [`User::ALL`]) and the team's namespaces.
    pub fn new(tokens: [String; 4], team_namespaces: Vec<String>) -> Self {
        Self {
            tokens: tokens.into_iter().zip(User::ALL).collect(),
            team_namespaces,
        }
    }

    pub fn token(&self, user: User) -> &str {
        self.tokens
            .iter()
            .find(|(_, owner)| **owner == user)
            .map(|(token, _)| token.as_str())
            .expect("every user has a token")
    }

    /// Whose token this is.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        self.tokens.get(token).map(|user| Identity::of(*user))
    }

    /// The namespaces that `sim-team` may read.
    pub fn team_namespaces(&self) -> &[String] {
        &self.team_namespaces
    }

    /// The rules of a user in a namespace (empty: at the cluster scope).
    pub fn rules(&self, who: &Identity, namespace: &str) -> Vec<PolicyRule> {
        let bound = self.bound(who, namespace);
        bound
            .into_iter()
            .flat_map(|(_, rules)| rules.iter().cloned())
            .collect()
    }

    /// The same, grouped by the binding that grants them; the administrators' rules have none.
    fn bound(
        &self,
        who: &Identity,
        namespace: &str,
    ) -> Vec<(Option<String>, &'static [PolicyRule])> {
        let mut bound: Vec<(Option<String>, &'static [PolicyRule])> = Vec::new();
        let in_group = |group: &str| who.groups.iter().any(|g| g == group);
        if in_group("system:masters") {
            bound.push((None, &EVERYTHING));
        }
        if in_group("system:authenticated") {
            let role = |role: &str| {
                let to = "to Group \"system:authenticated\"";
                Some(format!(
                    "ClusterRoleBinding \"{role}\" of ClusterRole \"{role}\" {to}"
                ))
            };
            bound.push((role("system:basic-user"), &BASIC));
            bound.push((role("system:public-info-viewer"), &PUBLIC));
        }
        let user = &who.name;
        if who.is(User::Viewer) {
            let binding = format!(
                "ClusterRoleBinding \"{user}\" of ClusterRole \"{user}\" to User \"{user}\""
            );
            bound.push((Some(binding), &VIEW));
        }
        let own = self.team_namespaces.iter().any(|n| n == namespace);
        if who.is(User::Team) && own {
            let binding = format!(
                "RoleBinding \"{user}/{namespace}\" of ClusterRole \"view\" to User \"{user}\""
            );
            bound.push((Some(binding), &TEAM));
        }
        bound
    }

    /// True when the user may do this.
    pub fn may(&self, who: &Identity, ask: &AccessRequest<'_>) -> bool {
        let bound = self.bound(who, place(ask));
        bound
            .into_iter()
            .flat_map(|(_, rules)| rules)
            .any(|rule| rule.allows(ask))
    }

    /// The binding that permits the action to the user; `None` when there is none, or none is needed.
    pub fn binding(&self, who: &Identity, ask: &AccessRequest<'_>) -> Option<String> {
        let bound = self.bound(who, place(ask));
        let (binding, _) = bound
            .into_iter()
            .find(|(_, rules)| rules.iter().any(|rule| rule.allows(ask)))?;
        binding
    }
}

/// The namespace in which the request is authorized.
fn place<'a>(ask: &AccessRequest<'a>) -> &'a str {
    match ask {
        // One namespace by name is read with the rights in it.
        AccessRequest::Resource {
            namespace: "",
            plural: "namespaces",
            group: "",
            name,
            ..
        } => name,
        AccessRequest::Resource { namespace, .. } => namespace,
        AccessRequest::Path { .. } => "",
    }
}

/// The message of a 403.
pub fn refused(who: &Identity, ask: &AccessRequest<'_>) -> String {
    use super::names::quoted;
    let user = quoted(&who.name);
    match ask {
        AccessRequest::Path { verb, path } => {
            format!("User {user} cannot {verb} path {}", quoted(path))
        }
        AccessRequest::Resource {
            verb,
            group,
            plural,
            subresource,
            namespace,
            ..
        } => {
            let resource = if subresource.is_empty() {
                (*plural).to_owned()
            } else {
                format!("{plural}/{subresource}")
            };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quoted(namespace))
            };
            format!(
                "User {user} cannot {verb} resource {} in API group {} {place}",
                quoted(&resource),
                quoted(group)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> AccessRequest<'a> {
        let (plural, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        AccessRequest::Resource {
            verb,
            group: "",
            plural,
            subresource,
            namespace,
            name: "",
        }
    }

    #[test]
    fn each_user_may_what_its_context_says() {
        let tokens = ["a", "v", "t", "n"].map(str::to_owned);
        let users = Users::new(tokens, vec!["nlp".into(), "vision".into()]);
        let may = |token: &str, verb, resource, namespace| {
            let who = users.authenticate(token).expect("known");
            users.may(&who, &ask(verb, resource, namespace))
        };
        assert!(may("a", "delete", "nodes", "") && may("a", "get", "pods/proxy", "x"));
        assert!(may("v", "list", "pods", "") && may("v", "get", "pods/proxy", "x"));
        assert!(!may("v", "delete", "pods", "x") && !may("v", "create", "pods/eviction", "x"));
        assert!(may("t", "list", "pods", "nlp") && may("t", "get", "pods/log", "vision"));
        assert!(!may("t", "list", "pods", "") && !may("t", "list", "pods", "other"));
        assert!(!may("t", "list", "nodes", "") && !may("t", "get", "pods/proxy", "nlp"));
        assert!(!may("n", "list", "pods", "nlp"));
        assert!(users.authenticate("x").is_none());
        let unprivileged = users.authenticate("n").expect("known");
        assert!(users.may(
            &unprivileged,
            &AccessRequest::Path {
                verb: "get",
                path: "/apis/apps/v1"
            }
        ));
        assert!(!users.may(
            &unprivileged,
            &AccessRequest::Path {
                verb: "get",
                path: "/metrics"
            }
        ));
        assert_eq!(
            refused(&unprivileged, &ask("list", "pods", "")),
            "User \"sim-nobody\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
        );
    }
}
