//! The second lane: beside the real controllers of KubeRay, KAI and Karpenter, on a plane of its own (`tests/live/up second`), which
//! has Kubernetes 1.37 where the first lane has 1.36.

mod kai;
mod karpenter;
mod ray;

use std::cell::RefCell;

use serde_json::Value;

use super::{acting, controllers, plane, terminal, truth};

impl acting::Stage {
    /// A row of a kind, which comes to be as wanted.
    fn row(&self, kind: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = RefCell::new(None);
        self.until(&format!("{kind} {name} is as wanted"), || {
            let rows = plane::rows("live-admin", kind).into_iter();
            let row = rows.into_iter().find(|row| row["name"] == name);
            *found.borrow_mut() = row.filter(|row| wanted(row));
            found.borrow().is_some()
        });
        found.take().expect("it was waited for")
    }
}
