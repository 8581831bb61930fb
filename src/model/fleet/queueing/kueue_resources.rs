//! What Kueue counts in quotas in place of what pods request: `resources` of its configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::Name;

use crate::fleet::observed::object_parts::Resources;

/// `resources` of Kueue's configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KueueResources {
    /// Prefixes of resources that it does not count.
    pub excluded: Vec<Name>,
    /// Resources that it counts instead of a resource, or beside it.
    pub transformations: Vec<Transformation>,
    /// The resource that it counts devices of a class as.
    pub device_classes: Vec<DeviceClassMapping>,
}

/// An entry of `transformations`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Transformation {
    pub input: Name,
    /// True where the requested resource itself is not counted.
    pub replaces: bool,
    /// The requested resource whose amount multiplies the outputs; empty for none.
    pub multiply_by: Name,
    /// Amount of each output for one unit of the input, in thousandths; may be negative.
    pub outputs: Vec<(Name, i64)>,
}

/// An entry of `deviceClassMappings`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClassMapping {
    /// The resource of quotas.
    pub resource: Name,
    pub classes: Vec<Name>,
    /// True where it counts counters or capacities of the devices (`sources`), which the request does not say.
    pub by_source: bool,
}

/// A request that is a DeviceClass and not an extended resource: these have a domain and a slash.
fn is_class(resource: &Name) -> bool {
    !resource.contains('/')
}

fn times(one: i64, other: i64) -> i64 {
    let product = i128::from(one) * i128::from(other) / 1000;
    i64::try_from(product).unwrap_or(if product < 0 { i64::MIN } else { i64::MAX })
}

impl KueueResources {
    fn mapping(&self, class: &Name) -> Option<&DeviceClassMapping> {
        let mut all = self.device_classes.iter();
        all.find(|mapping| mapping.classes.contains(class))
    }

    /// True for a quota resource that represents devices of some classes, one for each.
    pub fn counts_devices(&self, resource: &Name) -> bool {
        let mut all = self.device_classes.iter();
        all.any(|mapping| mapping.resource == *resource && !mapping.by_source)
    }

    /// The first class of a request whose devices are counted by what the request does not say.
    pub fn uncounted<'r>(&self, request: &'r Resources) -> Option<&'r Name> {
        let classes = request.devices.iter().filter(|(_, count)| *count > 0);
        let mut classes = classes.map(|(name, _)| name).filter(|name| is_class(name));
        classes.find(|class| self.mapping(class).is_some_and(|it| it.by_source))
    }

    /// What a pod's request counts as, in thousandths of each resource's unit; empty where it counts as what it is.
    ///
    /// Source: `pkg/workload/resources.go` and `applyResourceTransformations` of `pkg/workload/workload.go` of Kueue 0.19:
    /// excluded resources are dropped, then transformed; what a transformation gives is never below zero in all; devices of
    /// claims are added afterwards.
    pub fn count(&self, request: &Resources) -> BTreeMap<Name, i64> {
        let devices = || request.devices.iter().filter(|(_, count)| *count > 0);
        let mut input: BTreeMap<Name, i64> = devices()
            .filter(|(name, _)| !is_class(name))
            .map(|(name, count)| (name.clone(), i64::from(*count) * 1000))
            .collect();
        for (name, milli) in [
            ("cpu", request.cpu_milli),
            ("memory", request.memory_bytes.saturating_mul(1000)),
        ] {
            if milli > 0 {
                input.insert(Name::new(name), milli);
            }
        }
        let asked = input.len();
        let is_excluded = |name: &Name| self.excluded.iter().any(|it| name.starts_with(&**it));
        input.retain(|name, _| !is_excluded(name));
        let mut changed = input.len() != asked;
        let (mut counted, mut made) = (BTreeMap::new(), BTreeMap::new());
        let add = |to: &mut BTreeMap<Name, i64>, name: &Name, milli: i64| {
            let sum = to.entry(name.clone()).or_insert(0);
            *sum = i64::saturating_add(*sum, milli);
        };
        for (name, milli) in &input {
            let mut all = self.transformations.iter();
            let Some(known) = all.find(|it| it.input == *name) else {
                add(&mut counted, name, *milli);
                continue;
            };
            changed = true;
            let by = input.get(&known.multiply_by);
            let base = by.map_or(*milli, |by| times(*milli, *by));
            for (output, each) in &known.outputs {
                add(&mut made, output, times(base, *each));
            }
            if !known.replaces {
                add(&mut counted, name, *milli);
            }
        }
        for (name, milli) in &made {
            add(&mut counted, name, (*milli).max(0));
        }
        for (class, count) in devices().filter(|(name, _)| is_class(name)) {
            let mapping = self.mapping(class);
            changed |= mapping.is_some();
            let resource = mapping.map_or(class, |mapping| &mapping.resource);
            add(&mut counted, resource, i64::from(*count) * 1000);
        }
        match changed {
            true => counted,
            false => BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(devices: &[(&str, u32)]) -> Resources {
        Resources {
            cpu_milli: 4_000,
            memory_bytes: 1 << 30,
            devices: devices
                .iter()
                .map(|(name, count)| (Name::new(name), *count))
                .collect(),
            ..Resources::default()
        }
    }

    fn counted(resources: &KueueResources, devices: &[(&str, u32)]) -> Vec<(String, i64)> {
        let all = resources.count(&request(devices)).into_iter();
        all.map(|(name, milli)| (name.to_string(), milli)).collect()
    }

    fn transformation(input: &str, replaces: bool, outputs: &[(&str, i64)]) -> Transformation {
        Transformation {
            input: Name::new(input),
            replaces,
            outputs: outputs
                .iter()
                .map(|(name, each)| (Name::new(name), *each))
                .collect(),
            ..Transformation::default()
        }
    }

    #[test]
    fn devices_of_a_class_count_as_what_it_is_mapped_to() {
        let mut resources = KueueResources {
            excluded: vec![Name::new("cpu"), Name::new("memory")],
            device_classes: vec![DeviceClassMapping {
                resource: Name::new("whole-gpus"),
                classes: vec![Name::new("gpu.nvidia.com")],
                by_source: false,
            }],
            ..KueueResources::default()
        };
        let ask = [
            ("gpu.nvidia.com", 2),
            ("mig.nvidia.com", 1),
            ("nvidia.com/gpu", 1),
        ];
        let wanted = [
            ("mig.nvidia.com", 1_000),
            ("nvidia.com/gpu", 1_000),
            ("whole-gpus", 2_000),
        ];
        assert_eq!(
            counted(&resources, &ask),
            wanted.map(|(name, milli)| (name.to_owned(), milli))
        );
        assert!(resources.counts_devices(&Name::new("whole-gpus")));
        assert_eq!(resources.uncounted(&request(&ask)), None);
        resources.device_classes[0].by_source = true;
        assert!(!resources.counts_devices(&Name::new("whole-gpus")));
        let class = Name::new("gpu.nvidia.com");
        assert_eq!(resources.uncounted(&request(&ask)), Some(&class));
    }

    #[test]
    fn a_transformation_replaces_or_adds_and_multiplies() {
        let mig = "nvidia.com/mig-1g.5gb";
        let replaced = KueueResources {
            excluded: vec![Name::new("cpu")],
            transformations: vec![transformation(
                mig,
                true,
                &[("credits", 5_000), ("memory", -1_000_000_000_000_000)],
            )],
            ..KueueResources::default()
        };
        let wanted = [
            ("credits".to_owned(), 10_000),
            ("memory".to_owned(), 1_000 << 30),
        ];
        assert_eq!(counted(&replaced, &[(mig, 2)]), wanted);
        let mut retained = transformation("nvidia.com/gpu", false, &[("gpu-cores", 1_000)]);
        retained.multiply_by = Name::new("cpu");
        let retained = KueueResources {
            excluded: vec![Name::new("mem")],
            transformations: vec![retained],
            ..KueueResources::default()
        };
        let wanted = [
            ("cpu", 4_000),
            ("gpu-cores", 8_000),
            ("nvidia.com/gpu", 2_000),
        ];
        assert_eq!(
            counted(&retained, &[("nvidia.com/gpu", 2)]),
            wanted.map(|(name, milli)| (name.to_owned(), milli))
        );
        // What nothing concerns counts as it is.
        let none = KueueResources::default();
        assert!(counted(&none, &[("nvidia.com/gpu", 2)]).is_empty());
    }
}
