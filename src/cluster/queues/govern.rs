//! The queues of `govern`: one ConfigMap that contains the document `queues.toml`.

use model::base::Names;
use model::fleet::govern::GovernQueues;
use model::fleet::observe::{Observation, Table};
use model::fleet::queue_document::{KEY, read};

use crate::Projected;
use crate::lenient_json::{Map, Text, partial};
use crate::meta::Meta;

partial! {
    GovernQueuesObject {
        meta: Meta = "metadata",
        /// Keys of the ConfigMap; one of them is the document.
        data: Map<Text> = "data",
    }
}

impl Projected for GovernQueuesObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        let queues = match self.data.get(KEY) {
            Some(text) => read(text, KEY).map_err(|fault| fault.to_string()),
            None => Err(format!("it has no key `{KEY}`: put the queues there")),
        };
        Some(Observation::GovernQueues(Box::new(GovernQueues {
            key,
            uid: names.intern(&self.meta.uid),
            created: self.meta.created(),
            queues: queues.map_err(|words| names.intern(&words)),
        })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::seen;

    fn project(data: Value) -> GovernQueues {
        let object = json!({
            "metadata": {"namespace": "stokehold", "name": "stokehold-queues"}, "data": data,
        });
        match seen(Table::GovernQueues, &object, &mut Names::default()) {
            Some(Observation::GovernQueues(seen)) => *seen,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn queues_are_read_and_a_broken_document_says_why() {
        let good = project(json!({ KEY: "[[queue]]\nname = \"nlp\"\n" }));
        assert_eq!(good.key.to_string(), "stokehold/stokehold-queues");
        assert_eq!(good.queues.expect("is right")[0].name().as_str(), "nlp");
        let bad = project(json!({ KEY: "[[queue]]\nname = 3\n" })).queues;
        assert!(bad.expect_err("is wrong").starts_with("queues.toml:2: "));
        let none = project(json!({})).queues.expect_err("no key");
        assert_eq!(
            none.as_str(),
            "it has no key `queues.toml`: put the queues there"
        );
    }
}
