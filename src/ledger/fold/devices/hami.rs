//! HAMi's registration on a node: its physical devices. The resource of its device plugin counts shares of them.
//!
//! Source: HAMi's protocol of registration: `hami.io/node-KIND-register`, a JSON list since 2.6, before that
//! `ID,SPLIT,MIB,CORES,TYPE,NUMA,HEALTHY` with a colon after each device.

use model::base::{DeviceAmount, Name};
use model::fleet::device::{Device, Health, Slice};
use model::fleet::seen::{NodeSeen, PodSeen, is_hami_allocation};
use model::fleet::signal::{Signal, Signals};

use super::readings::NodeReadings;
use super::slice_shares;

/// More devices or shares than this are a mistake.
const MOST: usize = 256;

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Registered {
    id: Name,
    index: Option<u32>,
    split: u32,
    memory_mib: Option<u64>,
    /// Cores that it gives away, in percent of one device; 100 unless its node scales them.
    cores: u64,
    pub(crate) product: Option<Name>,
    healthy: bool,
}

/// The physical devices of a node that HAMi shares out; none for other nodes.
pub(crate) fn registered(node: &NodeSeen) -> Vec<Registered> {
    let mut all: Vec<Registered> = Vec::new();
    for (key, value) in node.annotations.iter() {
        let kind = key
            .strip_prefix("hami.io/node-")
            .and_then(|rest| rest.strip_suffix("-register"));
        if kind.is_none_or(str::is_empty) {
            continue;
        }
        let text = value.trim();
        let these = match text.starts_with('[') {
            true => listed(text),
            false => text.split(':').filter_map(row).collect(),
        };
        for one in these {
            if all.len() < MOST && !all.iter().any(|known| known.id == one.id) {
                all.push(one);
            }
        }
    }
    all
}

fn listed(text: &str) -> Vec<Registered> {
    let Ok(serde_json::Value::Array(items)) = serde_json::from_str(text) else {
        return Vec::new();
    };
    let read = |item: &serde_json::Value| {
        let id = item.get("id")?.as_str().filter(|id| !id.is_empty())?;
        let number = |key: &str| item.get(key).and_then(serde_json::Value::as_u64);
        let word = item.get("type").and_then(serde_json::Value::as_str);
        Some(Registered {
            id: Name::new(id),
            index: number("index").and_then(|index| u32::try_from(index).ok()),
            split: split(number("count")),
            memory_mib: number("devmem").filter(|mib| *mib > 0),
            cores: number("devcore").filter(|cores| *cores > 0).unwrap_or(100),
            product: product(word),
            healthy: item.get("health").and_then(serde_json::Value::as_bool) != Some(false),
        })
    };
    items.iter().filter_map(read).collect()
}

fn row(text: &str) -> Option<Registered> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let id = fields.first().filter(|id| !id.is_empty())?;
    // A text without fields is no device.
    fields.get(1)?;
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Registered {
        id: Name::new(id),
        index: number(7).and_then(|index| u32::try_from(index).ok()),
        split: split(number(1)),
        memory_mib: number(2).filter(|mib| *mib > 0),
        cores: number(3).filter(|cores| *cores > 0).unwrap_or(100),
        product: product(fields.get(4).copied()),
        healthy: fields.get(6) != Some(&"false"),
    })
}

fn split(count: Option<u64>) -> u32 {
    u32::try_from(count.unwrap_or(1).clamp(1, MOST as u64)).unwrap_or(1)
}

/// HAMi writes the vendor before the product of NVIDIA's devices: it does no harm.
fn product(word: Option<&str>) -> Option<Name> {
    word.filter(|word| !word.is_empty()).map(Name::new)
}

/// Shares of each device.
pub(crate) fn shares(all: &[Registered]) -> u32 {
    all.iter().map(|one| one.split).max().unwrap_or(1)
}

/// The index of each: the one that an exporter gives to the same id, else its own, else the next that is free.
pub(crate) fn indices(all: &[Registered], readings: &NodeReadings) -> Vec<u32> {
    let read = |one: &Registered| {
        let mut slots = readings.devices.iter();
        slots
            .find(|(_, read)| read.uuid.as_ref() == Some(&one.id))
            .map(|(slot, _)| *slot)
    };
    let mut taken: Vec<Option<u32>> = all.iter().map(read).collect();
    for (at, one) in all.iter().enumerate() {
        if taken[at].is_some() {
            continue;
        }
        let own = one.index.filter(|index| (*index as usize) < MOST);
        let free = |index: &u32| !taken.contains(&Some(*index));
        taken[at] = own.filter(free).or_else(|| (0..).find(free));
    }
    taken.into_iter().flatten().collect()
}

/// What HAMi's scheduler gave a pod of this device: MiB of memory and percent of its cores, summed over its containers.
fn allotted(pod: &PodSeen, id: &str) -> Option<(u64, u64)> {
    let given = pod.annotations.iter();
    let given = given.filter(|(key, _)| is_hami_allocation(key));
    let rows = given.flat_map(|(_, value)| value.split([':', ';']));
    let amounts = rows.filter_map(|row| {
        let mut fields = row.split(',').map(str::trim);
        let own = fields.next()?.split('[').next() == Some(id);
        fields.next()?;
        let mut number = || fields.next()?.parse::<u64>().ok();
        own.then(|| (number(), number()))
    });
    let mut sum = None;
    for (mib, cores) in amounts {
        let (all_mib, all_cores) = sum.unwrap_or_default();
        sum = Some((mib? + all_mib, cores? + all_cores));
    }
    sum
}

impl Registered {
    /// Sets the part of each slice: of the memory or of the cores that HAMi's scheduler gave its pod, the larger. The rest is spread
    /// over the free slices; where nothing is left they go. A pod whose part is not known has an even one.
    pub(crate) fn weigh(&self, device: &mut Device) {
        let count = device.slices.len() as u64;
        let part = |slice: &Slice| {
            let pod = slice.holder.as_ref()?;
            let Some((mib, cores)) = allotted(&pod.seen, &self.id) else {
                return Some(DeviceAmount::cut(0, 1, count));
            };
            let memory = self.memory_mib.map(|all| DeviceAmount::cut(0, mib, all));
            Some(
                memory
                    .unwrap_or_default()
                    .max(DeviceAmount::cut(0, cores, self.cores)),
            )
        };
        let parts: Vec<Option<DeviceAmount>> = device.slices.iter().map(part).collect();
        let held: DeviceAmount = parts.iter().flatten().copied().sum();
        let left = DeviceAmount::ONE.less(held).millionths();
        let free = parts.iter().filter(|part| part.is_none()).count() as u64;
        let mut at = 0;
        let slices = std::mem::take(&mut device.slices).into_vec().into_iter();
        let weighed = slices.zip(parts).map(|(slice, part)| {
            let units = part.map(DeviceAmount::millionths).unwrap_or_else(|| {
                at += 1;
                left * at / free - left * (at - 1) / free
            });
            (slice, units)
        });
        let (mut slices, units): (Vec<Slice>, Vec<u64>) = weighed
            .filter(|(slice, units)| slice.holder.is_some() || *units > 0)
            .unzip();
        slice_shares::set_shares_by_units(&mut slices, &units, DeviceAmount::ONE.millionths());
        device.slices = slices.into_boxed_slice();
        device.makes_slices = true;
    }

    /// Fills in a device from its HAMi registration.
    pub(crate) fn complete(&self, device: &mut Device) {
        if device.uuid.is_none() {
            device.uuid = Some(self.id.clone());
        }
        if let Some(mib) = self.memory_mib {
            let memory: Signals = [(Signal::MemTotal, mib as f64 * 1_048_576.0)]
                .into_iter()
                .collect();
            device.signals = device.signals.or(&memory);
        }
        if !self.healthy && !device.health.is_fault() {
            device.health = Health::Fault(Name::new("reported unhealthy by HAMi's device plugin"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, value: &str) -> Vec<Registered> {
        let seen = NodeSeen {
            annotations: [(Name::new(key), Name::new(value))].into_iter().collect(),
            ..NodeSeen::default()
        };
        registered(&seen)
    }

    #[test]
    fn both_forms_say_the_same() {
        let list = of(
            "hami.io/node-nvidia-register",
            r#"[{"id":"GPU-a","count":10,"devmem":81559,"devcore":100,"type":"NVIDIA-NVIDIA H100 80GB HBM3","numa":0,"mode":"hami-core","health":true},
                {"id":"GPU-b","index":1,"count":10,"devmem":81559,"type":"NVIDIA-NVIDIA H100 80GB HBM3","health":false}]"#,
        );
        let rows = of(
            "hami.io/node-nvidia-register",
            "GPU-a,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,true:GPU-b,10,81559,100,NVIDIA-NVIDIA H100 80GB HBM3,0,false,1,hami-core:",
        );
        assert_eq!(list, rows);
        assert_eq!((list.len(), shares(&list)), (2, 10));
        assert!(list[0].healthy && !list[1].healthy);
        assert_eq!(
            of(
                "hami.io/node-mlu-register",
                "MLU-1,4,23308,0,MLU-MLU370-X4,0,false:"
            )
            .len(),
            1
        );
    }

    #[test]
    fn nonsense_registers_nothing() {
        for value in [
            "",
            ":::",
            "[",
            "[{}]",
            "[1,null,\"x\"]",
            "{\"id\":\"a\"}",
            "GPU-a",
            ",,,,",
            "[{\"id\":7}]",
        ] {
            assert_eq!(of("hami.io/node-nvidia-register", value), [], "{value}");
        }
        assert_eq!(
            of("hami.io/node-handshake-nvidia", "GPU-a,10,1,1,x,0,true:"),
            []
        );
        let huge = of(
            "hami.io/node-nvidia-register",
            "a,99999999999999999999,-4,x:b,18446744073709551615,18446744073709551615,1,,,:",
        );
        assert!(huge.iter().all(|one| one.split <= 256));
        let many: String = (0..5000)
            .map(|at| format!("GPU-{at},1,1,1,x,0,true:"))
            .collect();
        assert_eq!(of("hami.io/node-nvidia-register", &many).len(), 256);
    }
}
