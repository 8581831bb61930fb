//! The kubeconfig as kubectl reads it: files merged, context chosen, in-cluster where there is none.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use kube::Config;
use kube::client::Body;
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

use model::base::SmallSort;

use super::no_proxy;

/// Reads an environment variable. Handed in, so that tests need not change the process's own.
pub type Environment = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// Sends requests to an API server.
pub type Transport =
    BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// The chosen cluster and user.
#[derive(Clone)]
pub struct ContextChoice {
    /// `--kubeconfig`: this file and no other.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`: instead of the current one.
    pub context: Option<String>,
    /// `--as`: the user to impersonate.
    pub impersonate: Option<String>,
    /// `--as-group`: the groups to impersonate.
    pub impersonate_groups: Vec<String>,
    pub environment: Environment,
    /// Sends requests in the place of TCP and TLS: a server in this process.
    pub transport: Option<Transport>,
}

impl Default for ContextChoice {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            impersonate: None,
            impersonate_groups: Vec::new(),
            environment: Arc::new(|name| std::env::var_os(name)),
            transport: None,
        }
    }
}

impl fmt::Debug for ContextChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("kubeconfig", &self.kubeconfig)
            .field("context", &self.context)
            .field("impersonate", &self.impersonate)
            .field("impersonate_groups", &self.impersonate_groups)
            .finish_non_exhaustive()
    }
}

/// A fault of the kubeconfig: the file, the place in it, and the fix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFault(pub String);

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigFault {}

/// A cluster, resolved to a client's parameters. Credentials that change in use are separate from `config`.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Address, CA, proxy, fixed credentials.
    pub config: Config,
    /// Name of the context; `in-cluster` without one.
    pub context: String,
    pub namespace: String,
    /// The credential plugin, where one is configured.
    pub exec: Option<ExecConfig>,
    /// The file with the token, if there is one.
    pub token_file: Option<PathBuf>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
}

/// Resolves `choice` to a cluster.
///
/// # Errors
/// A file that is not there or cannot be read, a context, cluster or user that does not exist, an address that
/// is none, a certificate that cannot be loaded.
pub fn resolve(choice: &ContextChoice) -> Result<Resolved, ConfigFault> {
    let files = files(choice)?;
    if files.is_empty() {
        return in_cluster(choice);
    }
    let mut merged = Kubeconfig::default();
    for file in &files {
        let one = Kubeconfig::read_from(file).map_err(|error| {
            ConfigFault(format!("kubeconfig {}: {}", file.display(), flat(&error)))
        })?;
        merged = merged.merge(one).map_err(|error| {
            ConfigFault(format!("kubeconfig {}: {}", file.display(), flat(&error)))
        })?;
    }
    from_files(choice, merged, files)
}

/// Every context of the kubeconfig with the current one's name, for completions and messages.
///
/// # Errors
/// A file that cannot be read.
pub fn contexts(choice: &ContextChoice) -> Result<(Vec<String>, Option<String>), ConfigFault> {
    let merged = merged(choice)?;
    let names = merged
        .contexts
        .iter()
        .map(|context| context.name.clone())
        .collect();
    Ok((
        names,
        merged.current_context.filter(|name| !name.is_empty()),
    ))
}

/// The namespaces in contexts of the chosen context's cluster: those that its user may know.
///
/// # Errors
/// As [`contexts`].
pub fn namespaces(choice: &ContextChoice) -> Result<Vec<String>, ConfigFault> {
    let merged = merged(choice)?;
    let chosen = choice.context.as_ref().or(merged.current_context.as_ref());
    let named = |name: &str| merged.contexts.iter().find(|context| context.name == name);
    let own = chosen.and_then(|name| named(name)?.context.as_ref());
    let mut all: Vec<String> = merged
        .contexts
        .iter()
        .filter_map(|context| context.context.as_ref())
        .filter(|context| own.is_some_and(|own| own.cluster == context.cluster))
        .filter_map(|context| context.namespace.clone())
        .filter(|namespace| !namespace.is_empty())
        .collect();
    all.small_sort();
    all.dedup();
    Ok(all)
}

/// All files of a choice as one.
fn merged(choice: &ContextChoice) -> Result<Kubeconfig, ConfigFault> {
    let mut merged = Kubeconfig::default();
    for file in files(choice)? {
        let one = Kubeconfig::read_from(&file).map_err(|error| {
            ConfigFault(format!("kubeconfig {}: {}", file.display(), flat(&error)))
        })?;
        merged = merged.merge(one).map_err(|error| {
            ConfigFault(format!("kubeconfig {}: {}", file.display(), flat(&error)))
        })?;
    }
    Ok(merged)
}

/// The files to read: the one named, else those of KUBECONFIG that exist, else the one in the home directory.
fn files(choice: &ContextChoice) -> Result<Vec<PathBuf>, ConfigFault> {
    if let Some(file) = &choice.kubeconfig {
        if !file.is_file() {
            return Err(ConfigFault(format!(
                "kubeconfig {}: there is no such file; check --kubeconfig",
                file.display()
            )));
        }
        return Ok(vec![file.clone()]);
    }
    let listed = (choice.environment)("KUBECONFIG").filter(|list| !list.is_empty());
    if let Some(list) = listed {
        let named: Vec<PathBuf> = std::env::split_paths(&list)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        // kubectl passes over the ones that are missing; none at all is a mistake.
        let there: Vec<PathBuf> = named
            .iter()
            .filter(|path| path.is_file())
            .cloned()
            .collect();
        if there.is_empty() && !named.is_empty() {
            return Err(ConfigFault(format!(
                "KUBECONFIG names {}, and there is no such file; correct it, or unset it to use ~/.kube/config",
                named
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        return Ok(there);
    }
    Ok(home(choice)
        .filter(|path| path.is_file())
        .into_iter()
        .collect())
}

fn home(choice: &ContextChoice) -> Option<PathBuf> {
    let home = (choice.environment)("HOME")
        .or_else(|| (choice.environment)("USERPROFILE"))
        .filter(|home| !home.is_empty())?;
    Some(Path::new(&home).join(".kube").join("config"))
}

fn in_cluster(choice: &ContextChoice) -> Result<Resolved, ConfigFault> {
    if let Some(context) = &choice.context {
        return Err(ConfigFault(format!(
            "there is no kubeconfig, so there is no context \"{context}\"; give --kubeconfig FILE"
        )));
    }
    if (choice.environment)("KUBERNETES_SERVICE_HOST").is_none() {
        let home = home(choice).map_or_else(
            || "~/.kube/config".to_owned(),
            |path| path.display().to_string(),
        );
        return Err(ConfigFault(format!(
            "no cluster: there is no {home}, KUBECONFIG is not set, and this is not a pod; give --kubeconfig FILE, or try `stokehold demo`"
        )));
    }
    let mut config = Config::incluster().map_err(|error| {
        ConfigFault(format!(
            "in a pod, but without a usable service account: {}; check automountServiceAccountToken",
            flat(&error)
        ))
    })?;
    config.default_retry = false;
    let token_file = config.auth_info.token_file.take().map(PathBuf::from);
    impersonate(choice, &mut config);
    Ok(Resolved {
        namespace: config.default_namespace.clone(),
        config,
        context: "in-cluster".to_owned(),
        exec: None,
        token_file,
        files: Vec::new(),
    })
}

fn from_files(
    choice: &ContextChoice,
    merged: Kubeconfig,
    files: Vec<PathBuf>,
) -> Result<Resolved, ConfigFault> {
    let shown = files
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let fault = |words: String| ConfigFault(format!("kubeconfig {shown}: {words}"));
    let names = || merged.contexts.iter().map(|context| context.name.as_str());
    let current = merged
        .current_context
        .clone()
        .filter(|name| !name.is_empty());
    let Some(context) = choice.context.clone().or(current) else {
        return Err(fault(format!(
            "there is no current context; choose one with --context ({}), or `kubectl config use-context NAME`",
            listed(names())
        )));
    };
    let chosen = merged
        .contexts
        .iter()
        .find(|known| known.name == context)
        .and_then(|known| known.context.clone())
        .ok_or_else(|| {
            fault(format!(
                "there is no context \"{context}\"{}; it has {} (`kubectl config get-contexts` lists them)",
                nearest(&context, names()),
                listed(names())
            ))
        })?;
    let cluster_names = || merged.clusters.iter().map(|cluster| cluster.name.as_str());
    let Some(cluster) = merged
        .clusters
        .iter()
        .find(|known| known.name == chosen.cluster)
        .and_then(|known| known.cluster.as_ref())
    else {
        return Err(fault(format!(
            "context \"{context}\" names the cluster \"{}\", which does not exist{}; it has {}",
            chosen.cluster,
            nearest(&chosen.cluster, cluster_names()),
            listed(cluster_names())
        )));
    };
    let own_proxy = cluster.proxy_url.clone().filter(|url| !url.is_empty());
    let user_names = || merged.auth_infos.iter().map(|user| user.name.as_str());
    if let Some(user) = chosen.user.as_deref().filter(|user| !user.is_empty())
        && !user_names().any(|known| known == user)
    {
        return Err(fault(format!(
            "context \"{context}\" names the user \"{user}\", who is not there{}; it has {}",
            nearest(user, user_names()),
            listed(user_names())
        )));
    }
    let options = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    // Only in name asynchronous: it never waits.
    let loaded = futures::executor::block_on(Config::from_custom_kubeconfig(merged, &options));
    let mut config =
        loaded.map_err(|error| fault(format!("context \"{context}\": {}", flat(&error))))?;
    if config.cluster_url.host().is_none() {
        return Err(fault(format!(
            "context \"{context}\": the server \"{}\" is not an address like https://HOST:PORT",
            config.cluster_url
        )));
    }
    config.default_retry = false;
    if own_proxy.is_none() {
        config.proxy_url = no_proxy::proxy_of(&config.cluster_url, &choice.environment)
            .map_err(|words| fault(format!("context \"{context}\": {words}")))?;
    }
    impersonate(choice, &mut config);
    // A fixed token has precedence over every way of getting one.
    let fixed = config.auth_info.token.is_some();
    let token_file = config
        .auth_info
        .token_file
        .take()
        .filter(|_| !fixed)
        .map(PathBuf::from);
    let exec = config
        .auth_info
        .exec
        .take()
        .filter(|_| !fixed && token_file.is_none());
    Ok(Resolved {
        namespace: chosen
            .namespace
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "default".to_owned()),
        config,
        context,
        exec,
        token_file,
        files,
    })
}

fn impersonate(choice: &ContextChoice, config: &mut Config) {
    if let Some(user) = &choice.impersonate {
        config.auth_info.impersonate = Some(user.clone());
    }
    if !choice.impersonate_groups.is_empty() {
        config.auth_info.impersonate_groups = Some(choice.impersonate_groups.clone());
    }
}

/// `; did you mean "x"?`, when something is near.
fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(near, _)| *near > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| {
            format!("; did you mean \"{name}\"?")
        })
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = names.collect();
    all.small_sort();
    match all.len() {
        0 => "none".to_owned(),
        1..=8 => all.join(", "),
        more => format!("{}, and {} more", all[..7].join(", "), more - 7),
    }
}

/// An error with its causes in one line.
pub(super) fn flat(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut cause = error.source();
    while let Some(at) = cause {
        let text = at.to_string();
        if !out.contains(&text) {
            out.push_str(": ");
            out.push_str(&text);
        }
        cause = at.source();
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}
