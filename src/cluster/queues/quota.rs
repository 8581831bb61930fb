//! Amounts of quotas in the fleet's units.

use model::fleet::queue::Measure;

use crate::accelerators::counts_devices;
use crate::lenient_json::Quantity;

/// In which unit a resource is counted.
pub fn measure(resource: &str) -> Measure {
    match resource {
        "cpu" => Measure::MilliCores,
        "memory" | "ephemeral-storage" => Measure::Bytes,
        other if other.starts_with("hugepages-") => Measure::Bytes,
        other if counts_devices(other) => Measure::MilliDevices,
        _ => Measure::Units,
    }
}

/// An amount of a resource in its unit, never negative; `None` when absent or out of range.
pub fn amount(quantity: Quantity, measure: Measure) -> Option<i64> {
    let milli = quantity.0?.max(0);
    Some(match measure {
        Measure::MilliDevices | Measure::MilliCores => milli,
        Measure::Bytes | Measure::Units => milli / 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_a_unit() {
        for (resource, unit) in [
            ("cpu", Measure::MilliCores),
            ("memory", Measure::Bytes),
            ("hugepages-2Mi", Measure::Bytes),
            ("nvidia.com/gpu", Measure::MilliDevices),
            ("google.com/tpu", Measure::MilliDevices),
            ("pods", Measure::Units),
            ("example.com/credits", Measure::Units),
        ] {
            assert_eq!(measure(resource), unit, "{resource}");
        }
        let two = Quantity(Some(2_500));
        assert_eq!(amount(two, Measure::MilliDevices), Some(2_500));
        assert_eq!(amount(two, Measure::Bytes), Some(2));
        assert_eq!(amount(Quantity(Some(-1)), Measure::Units), Some(0));
        assert_eq!(amount(Quantity(None), Measure::Bytes), None);
    }
}
