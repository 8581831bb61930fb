//! The plan that the command line showed last, so that the next command carries out exactly that one.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use exec::{ClusterIdentity, Same};
use model::base::Moment;
use model::plan::{Intent, Plan};
use settings::Settings;
use source::local;

/// A plan that was shown longer ago than this no longer counts.
const KEPT: Duration = Duration::from_mins(15);

/// A plan, and the cluster that it was shown for.
#[derive(Deserialize)]
struct Shown {
    cluster: ClusterIdentity,
    plan: Plan,
}

#[derive(Serialize)]
struct Showing<'a> {
    cluster: &'a ClusterIdentity,
    plan: &'a Plan,
}

/// Path of the file with the plan that was shown last, in the state directory; `None` for a user without a home directory.
pub fn file_path(settings: &Settings) -> Option<PathBuf> {
    let folder = settings.state_dir.as_deref()?;
    Some(folder.join("shown-plan.json"))
}

/// The plan that was shown last, if it was made for this cluster at most 15 minutes before `now`.
pub fn load(file_path: Option<&Path>, here: &ClusterIdentity, now: Moment) -> Option<Plan> {
    let text = match local::read_text(file_path?) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, "the plan that was shown last is not known");
            return None;
        }
    };
    // (A file of another version is ignored.)
    let Shown { cluster, plan } = serde_json::from_str(&text).ok()?;
    let is_fresh = now.since(plan.computed_at) <= KEPT.into();
    (is_fresh && cluster.compare(here) != Same::No).then_some(plan)
}

/// Saves the plan that is shown.
pub fn keep(file_path: Option<&Path>, cluster: &ClusterIdentity, plan: &Plan) {
    let Some(file_path) = file_path else {
        return;
    };
    if let Err(error) = written(file_path, &Showing { cluster, plan }) {
        tracing::warn!(%error, path = %file_path.display(), "the plan that is shown is not kept");
    }
}

/// Deletes the saved plan: it is being carried out.
pub fn forget(file_path: Option<&Path>) {
    if let Some(file_path) = file_path {
        let _ = fs::remove_file(file_path);
    }
}

fn written(file_path: &Path, shown: &Showing<'_>) -> io::Result<()> {
    let folder = file_path.parent().unwrap_or_else(|| Path::new("."));
    local::make_folder(folder)?;
    // Two processes may show a plan at once.
    let part = file_path.with_extension(format!("{}.part", std::process::id()));
    local::replace(file_path, &part, &serde_json::to_vec(shown)?)
}

/// Whether two intents are the same. A deadline given as a duration is another time in each.
pub fn is_same(one: &Intent, other: &Intent) -> bool {
    match (one, other) {
        (
            Intent::Drain { nodes, deadline },
            Intent::Drain {
                nodes: others,
                deadline: by,
            },
        ) => nodes == others && deadline.is_some() == by.is_some(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;
    use model::plan::JobName;

    #[test]
    fn a_plan_is_known_on_its_cluster_for_a_while() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file_path = folder.path().join("state/shown-plan.json");
        let file_path = Some(file_path.as_path());
        let here = |uid: &str| ClusterIdentity {
            context: "prod".into(),
            server: "https://a".into(),
            uid: uid.into(),
        };
        let job = JobName(ObjectKey::new("nlp", "train"));
        let at = Moment::from_seconds(1_000_000);
        let plan = Plan::new("preempt", Intent::Preempt { job }, at);
        assert_eq!(load(file_path, &here("1"), at), None, "nothing was shown");
        keep(file_path, &here("1"), &plan);
        assert_eq!(load(file_path, &here("1"), at).as_ref(), Some(&plan));
        assert_eq!(load(file_path, &here("2"), at), None, "another cluster");
        let later = Moment::from_seconds(1_000_000 + 16 * 60);
        assert_eq!(load(file_path, &here("1"), later), None, "long ago");
        forget(file_path);
        assert_eq!(load(file_path, &here("1"), at), None);
    }

    #[test]
    fn a_file_that_is_not_ours_shows_nothing() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file_path = folder.path().join("shown-plan.json");
        fs::write(&file_path, "{\"plan\": 7").expect("can be written");
        let here = ClusterIdentity {
            context: "prod".into(),
            server: "https://a".into(),
            uid: String::new(),
        };
        assert_eq!(load(Some(&file_path), &here, Moment::default()), None);
    }
}
