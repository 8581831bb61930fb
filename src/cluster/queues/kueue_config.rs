//! Kueue's own configuration: one ConfigMap that contains a `Configuration` as YAML.
//!
//! Sources: `apis/config/v1beta1` and `v1beta2` of Kueue, and its installation manifests.

use std::collections::BTreeMap;

use model::base::{Name, Names};
use model::fleet::kueue_resources::{DeviceClassMapping, KueueResources, Transformation};
use model::fleet::observe::{Observation, Table};
use model::fleet::scheduling::{FairStrategy, KueueConfig};

use crate::Projected;
use crate::lenient_json::{Map, Text, partial, yaml};
use crate::meta::Meta;
use crate::resources::ResourceList;

/// The key under which Kueue's manifests keep it.
const KEY: &str = "controller_manager_config.yaml";

/// `kind` of the document.
const KIND: &str = "Configuration";

/// The first version in which fair sharing is on where its section is there at all.
const WITHOUT_SWITCH: &str = "config.kueue.x-k8s.io/v1beta2";

partial! {
    KueueConfigObject {
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
    fair_sharing: Option<KueueFairSharing>,
    resources: RawResources,
    feature_gates: BTreeMap<String, bool>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawResources {
    exclude_resource_prefixes: Vec<String>,
    transformations: Vec<RawTransformation>,
    device_class_mappings: Vec<RawMapping>,
}

/// An entry of `transformations`.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawTransformation {
    input: String,
    /// `Retain`, which is the default, or `Replace`.
    strategy: Option<String>,
    multiply_by: String,
    outputs: ResourceList,
}

/// An entry of `deviceClassMappings`.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawMapping {
    name: String,
    device_class_names: Vec<String>,
    sources: Vec<serde_json::Value>,
}

impl RawResources {
    fn read(&self, names: &mut Names) -> KueueResources {
        let mut all = |texts: &[String]| -> Vec<Name> {
            texts.iter().map(|text| names.intern(text)).collect()
        };
        KueueResources {
            excluded: all(&self.exclude_resource_prefixes),
            device_classes: self
                .device_class_mappings
                .iter()
                .map(|raw| DeviceClassMapping {
                    resource: Name::new(&raw.name),
                    classes: all(&raw.device_class_names),
                    by_source: !raw.sources.is_empty(),
                })
                .collect(),
            transformations: self
                .transformations
                .iter()
                .map(|raw| Transformation {
                    input: Name::new(&raw.input),
                    replaces: raw.strategy.as_deref() == Some("Replace"),
                    multiply_by: Name::new(&raw.multiply_by),
                    outputs: raw
                        .outputs
                        .iter()
                        .filter_map(|(resource, each)| Some((Name::new(resource), each.0?)))
                        .collect(),
                })
                .collect(),
        }
    }
}

/// `fairSharing`; since `v1beta2` it has no `enable`.
#[derive(serde::Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct KueueFairSharing {
    enable: Option<bool>,
    preemption_strategies: Vec<String>,
}

fn configuration(text: &str) -> Result<Configuration, String> {
    let read: Configuration = yaml(text)
        .map_err(|why| format!("`{KEY}` is not a valid configuration of Kueue: {why}"))?;
    match read.kind == KIND {
        true => Ok(read),
        false => Err(format!("`{KEY}` has no {KIND}")),
    }
}

/// The preemption strategies that a configuration enables; empty where fair sharing is off.
fn strategies(read: &Configuration) -> Result<Vec<FairStrategy>, String> {
    let Some(fair) = &read.fair_sharing else {
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
        let read = match text {
            Some(text) => configuration(text),
            None => Err(format!("it has no key `{KEY}`")),
        };
        let key = self.meta.key(names)?;
        let resources = read.as_ref().ok().map(|read| read.resources.read(names));
        let gates = read.as_ref().map(|read| &read.feature_gates);
        let gates = gates.into_iter().flatten().filter(|(_, is_on)| !**is_on);
        let gates_off = gates.map(|(gate, _)| names.intern(gate)).collect();
        let fair_sharing = read.and_then(|read| strategies(&read));
        Some(Observation::KueueConfig(Box::new(KueueConfig {
            key,
            fair_sharing: fair_sharing.map_err(|words| names.intern(&words)),
            resources,
            gates_off,
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
    fn what_quotas_count_is_read() {
        let text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nresources:\n  excludeResourcePrefixes: [example.com/]\n  \
            transformations:\n  - input: nvidia.com/mig-1g.5gb\n    strategy: Replace\n    outputs:\n      credits: 5\n      memory: 5Gi\n  \
            deviceClassMappings:\n  - name: whole-gpus\n    deviceClassNames: [gpu.nvidia.com]\n  - name: cores\n    deviceClassNames: [part]\n    \
            sources: [{counter: {name: cores}}]\nfeatureGates:\n  PartialAdmission: false\n  TASBalancedPlacement: true\n";
        let object = json!({
            "metadata": {"namespace": "kueue-system", "name": "kueue-manager-config"}, "data": {KEY: text},
        });
        let object: KueueConfigObject = serde_json::from_value(object).expect("an object");
        let seen = object.project(Table::KueueConfig, &mut Names::default());
        let Some(Observation::KueueConfig(config)) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!(config.gates_off, [Name::new("PartialAdmission")]);
        let resources = config.resources.expect("it can be read");
        assert_eq!(&*resources.excluded[0], "example.com/");
        let [mig] = &resources.transformations[..] else {
            panic!("{resources:?}");
        };
        assert!(mig.replaces && &*mig.input == "nvidia.com/mig-1g.5gb");
        let outputs = [("credits", 5_000), ("memory", 5_000 << 30)];
        assert_eq!(
            mig.outputs,
            outputs.map(|(name, each)| (Name::new(name), each))
        );
        let [whole, cores] = &resources.device_classes[..] else {
            panic!("{resources:?}");
        };
        assert!(!whole.by_source && cores.by_source);
        assert_eq!(
            (&*whole.resource, &*whole.classes[0]),
            ("whole-gpus", "gpu.nvidia.com")
        );
    }

    #[test]
    fn a_configuration_that_cannot_be_read_says_why_and_turns_nothing_off() {
        let message = read(json!({})).expect_err("no key");
        assert!(message.contains(KEY), "{message}");
        let message = read(json!({ KEY: "kind: Secret" })).expect_err("another kind");
        assert!(message.contains("has no Configuration"), "{message}");
        let message = read(json!({ KEY: "a: [" })).expect_err("no YAML");
        assert!(
            message.contains("is not a valid configuration"),
            "{message}"
        );
        let odd = "fairSharing:\n  enable: true\n  preemptionStrategies: [Oldest]\n";
        let message = read_strategies("v1beta1", odd).expect_err("not known");
        assert!(message.contains("`Oldest`"), "{message}");
    }
}
