//! Kueue's own configuration: one ConfigMap that contains a `Configuration` as YAML.
//!
//! Sources: `apis/config/v1beta1` and `v1beta2` of Kueue, and its installation manifests.

use model::base::Names;
use model::fleet::observe::{Observation, Table};
use model::fleet::scheduling::{FairStrategy, KueueConfig};

use super::Projected;
use super::meta::Meta;
use super::partial::{Map, Text, partial, yaml};

/// The key under which Kueue's manifests keep it.
const KEY: &str = "controller_manager_config.yaml";

/// `kind` of the document.
const KIND: &str = "Configuration";

/// The first version in which fair sharing is on where its section is there at all.
const WITHOUT_SWITCH: &str = "config.kueue.x-k8s.io/v1beta2";

partial! {
    /// The ConfigMap.
    KueueConfigObject {
        /// Metadata.
        meta: Meta = "metadata",
        /// Keys of the ConfigMap; one of them is the configuration.
        data: Map<Text> = "data",
    }
}

/// The fields of Kueue's configuration that the engine uses.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Configuration {
    api_version: String,
    kind: String,
    fair_sharing: Option<FairSharing>,
}

/// `fairSharing`; since `v1beta2` it has no `enable`.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct FairSharing {
    enable: Option<bool>,
    preemption_strategies: Vec<String>,
}

/// The preemption strategies that a configuration enables; empty where fair sharing is off.
fn strategies(text: &str) -> Result<Vec<FairStrategy>, String> {
    let read: Configuration = yaml(text)
        .map_err(|why| format!("`{KEY}` is not a valid configuration of Kueue: {why}"))?;
    if read.kind != KIND {
        return Err(format!("`{KEY}` has no {KIND}"));
    }
    let Some(fair) = read.fair_sharing else {
        return Ok(Vec::new());
    };
    if !fair.enable.unwrap_or(read.api_version == WITHOUT_SWITCH) {
        return Ok(Vec::new());
    }
    if fair.preemption_strategies.is_empty() {
        return Ok(FairStrategy::ALL.to_vec());
    }
    let known = |word: &String| {
        FairStrategy::ALL
            .into_iter()
            .find(|strategy| strategy.in_kueue() == word)
            .ok_or_else(|| format!("`{word}` is not a known preemption strategy"))
    };
    fair.preemption_strategies.iter().map(known).collect()
}

impl Projected for KueueConfigObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let text = self.data.get(KEY);
        let fair_sharing = match text {
            Some(text) => strategies(text),
            None => Err(format!("it has no key `{KEY}`")),
        };
        Some(Observation::KueueConfig(Box::new(KueueConfig {
            key: self.meta.key(names)?,
            fair_sharing: fair_sharing.map_err(|words| names.intern(&words)),
        })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(data: serde_json::Value) -> Result<Vec<FairStrategy>, String> {
        let object = json!({
            "metadata": {"namespace": "kueue-system", "name": "kueue-manager-config"}, "data": data,
        });
        let object: KueueConfigObject = serde_json::from_value(object).expect("an object");
        match object.project(Table::KueueConfig, &mut Names::default()) {
            Some(Observation::KueueConfig(config)) => {
                assert_eq!(config.key.to_string(), "kueue-system/kueue-manager-config");
                config.fair_sharing.map_err(|words| words.to_string())
            }
            other => panic!("{other:?}"),
        }
    }

    fn read_strategies(version: &str, rest: &str) -> Result<Vec<FairStrategy>, String> {
        let head = format!("apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\n");
        read(json!({ KEY: format!("{head}health:\n  healthProbeBindAddress: :8081\n{rest}") }))
    }

    #[test]
    fn fair_sharing_is_on_where_the_configuration_turns_it_on() {
        use FairStrategy::{FinalShare, InitialShare};
        let both = Ok(vec![FinalShare, InitialShare]);
        assert_eq!(read_strategies("v1beta1", ""), Ok(Vec::new()));
        assert_eq!(
            read_strategies("v1beta1", "fairSharing:\n  enable: false\n"),
            Ok(Vec::new())
        );
        assert_eq!(
            read_strategies("v1beta1", "fairSharing: {}\n"),
            Ok(Vec::new())
        );
        assert_eq!(
            read_strategies("v1beta1", "fairSharing:\n  enable: true\n"),
            both
        );
        let one = "fairSharing:\n  enable: true\n  preemptionStrategies: [LessThanInitialShare]\n";
        assert_eq!(read_strategies("v1beta1", one), Ok(vec![InitialShare]));
        // Without `enable`, the section itself enables it.
        assert_eq!(read_strategies("v1beta2", "fairSharing: {}\n"), both);
        assert_eq!(read_strategies("v1beta2", ""), Ok(Vec::new()));
    }

    #[test]
    fn a_configuration_that_cannot_be_read_says_why_and_turns_nothing_off() {
        let said = read(json!({})).expect_err("no key");
        assert!(said.contains(KEY), "{said}");
        let said = read(json!({ KEY: "kind: Secret" })).expect_err("another kind");
        assert!(said.contains("has no Configuration"), "{said}");
        let said = read(json!({ KEY: "a: [" })).expect_err("no YAML");
        assert!(said.contains("is not a valid configuration"), "{said}");
        let odd = "fairSharing:\n  enable: true\n  preemptionStrategies: [Oldest]\n";
        let said = read_strategies("v1beta1", odd).expect_err("not known");
        assert!(said.contains("`Oldest`"), "{said}");
    }
}
