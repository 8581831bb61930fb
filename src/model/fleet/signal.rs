//! The canonical signals: the one name, unit and meaning that every exporter's metric is turned into.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! signals {
    ($($(#[doc = $meaning:literal])* $variant:ident = $name:literal, $kind:ident;)*) => {
        /// A canonical measurement of a device, slice, node or model server. Units are in the name; ratios are 0 to 1.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Signal { $($(#[doc = $meaning])* $variant,)* }

        impl Signal {
            /// Every signal, in the order of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The canonical name, as dialect files (`config/exporters`) and JSON output spell it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The quantity that it measures, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($meaning),*).trim(),)* }
            }

            /// Whether the value is a level or a running total.
            pub const fn kind(self) -> SignalType {
                match self { $(Self::$variant => SignalType::$kind,)* }
            }
        }
    };
}

/// How a signal's values relate over time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalType {
    /// A level: each value is independent of the others.
    Gauge,
    /// A total that only grows, but for restarts: differences matter.
    Counter,
}

signals! {
    /// Share of time with work resident, 0 to 1.
    Util = "util_ratio", Gauge;
    /// Share of streaming multiprocessors active, 0 to 1.
    SmActive = "sm_active_ratio", Gauge;
    /// Share of warps resident, 0 to 1.
    SmOccupancy = "sm_occupancy_ratio", Gauge;
    /// Share of cycles in which a tensor or matrix unit was active, 0 to 1.
    TensorActive = "tensor_active_ratio", Gauge;
    /// Share of cycles in which device memory was active, 0 to 1.
    DramActive = "dram_active_ratio", Gauge;
    /// Share of time the encoder was busy, 0 to 1.
    EncoderUtil = "encoder_util_ratio", Gauge;
    /// Share of time the decoder was busy, 0 to 1.
    DecoderUtil = "decoder_util_ratio", Gauge;
    /// Device memory in use, bytes.
    MemUsed = "mem_used_bytes", Gauge;
    /// Device memory free, bytes.
    MemFree = "mem_free_bytes", Gauge;
    /// Device memory kept by driver and firmware, bytes.
    MemReserved = "mem_reserved_bytes", Gauge;
    /// Device memory in all, bytes.
    MemTotal = "mem_total_bytes", Gauge;
    /// Device memory in use as a share of the usable memory, 0 to 1.
    MemUsedRatio = "mem_used_ratio", Gauge;
    /// Core temperature, degrees Celsius.
    Temp = "temp_celsius", Gauge;
    /// Memory temperature, degrees Celsius.
    MemTemp = "mem_temp_celsius", Gauge;
    /// Core temperature at which the device slows down, degrees Celsius.
    TempSlowdown = "temp_slowdown_celsius", Gauge;
    /// Core temperature at which the device shuts down, degrees Celsius.
    TempShutdown = "temp_shutdown_celsius", Gauge;
    /// Degrees Celsius left before the device slows down; may be negative.
    TempMargin = "temp_margin_celsius", Gauge;
    /// Power that the device draws, watts.
    Power = "power_watts", Gauge;
    /// Power limit in force, watts.
    PowerLimit = "power_limit_watts", Gauge;
    /// Energy used since the driver was loaded, joules.
    Energy = "energy_joules_total", Counter;
    /// Clock of the cores (SM), hertz.
    SmClock = "sm_clock_hz", Gauge;
    /// Clock of the device's memory, hertz.
    MemClock = "mem_clock_hz", Gauge;
    /// PCIe bytes sent a second.
    PcieTx = "pcie_tx_bytes_per_s", Gauge;
    /// PCIe bytes received a second.
    PcieRx = "pcie_rx_bytes_per_s", Gauge;
    /// PCIe replays since the driver was loaded.
    PcieReplay = "pcie_replay_total", Counter;
    /// NVLink (or xGMI) bytes a second, both directions.
    Nvlink = "nvlink_bytes_per_s", Gauge;
    /// NVLink bytes sent a second.
    NvlinkTx = "nvlink_tx_bytes_per_s", Gauge;
    /// NVLink bytes received a second.
    NvlinkRx = "nvlink_rx_bytes_per_s", Gauge;
    /// NVLink errors since the driver was loaded.
    NvlinkErrors = "nvlink_errors_total", Counter;
    /// The last XID code; 0 is none. Sticky until the driver is reloaded.
    XidLast = "xid_last", Gauge;
    /// XID errors within the exporter's window.
    XidWindow = "xid_count_window", Gauge;
    /// Corrected (single-bit) memory errors.
    EccCorrected = "ecc_sbe_total", Counter;
    /// Uncorrected (double-bit) memory errors.
    EccUncorrected = "ecc_dbe_total", Counter;
    /// Memory rows remapped for uncorrectable errors.
    RemappedUncorrectable = "remapped_rows_uncorrectable", Counter;
    /// Memory rows remapped for correctable errors.
    RemappedCorrectable = "remapped_rows_correctable", Counter;
    /// 1 when a row could not be remapped.
    RemapFailed = "row_remap_failed", Gauge;
    /// 1 when a remapped row waits for a reset.
    RemapPending = "row_remap_pending", Gauge;
    /// Clock-event bits as NVML defines them.
    ThrottleReasons = "throttle_reasons", Gauge;
    /// Seconds slowed by power, in all.
    PowerViolation = "power_violation_seconds_total", Counter;
    /// Seconds slowed by heat, in all.
    ThermalViolation = "thermal_violation_seconds_total", Counter;
    /// The exporter's own word: 1 healthy, 0 not.
    Health = "health", Gauge;
    /// What NVML recommends: 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain and reset.
    RecoveryAction = "recovery_action", Gauge;
    /// Requests that a model server works on.
    RequestsRunning = "requests_running", Gauge;
    /// Requests that wait in a model server's queue.
    RequestsWaiting = "requests_waiting", Gauge;
    /// Share of a model server's key-value cache in use, 0 to 1.
    KvCache = "kv_cache_ratio", Gauge;
    /// Share of the tokens of prompts that were found in the cache, 0 to 1.
    PrefixHit = "prefix_hit_ratio", Gauge;
    /// Mean time from a request to its first token, seconds.
    Ttft = "ttft_seconds", Gauge;
    /// Mean time between two tokens of an answer, seconds.
    Itl = "itl_seconds", Gauge;
    /// Mean over requests of the time for each token after the first, seconds.
    Tpot = "tpot_seconds", Gauge;
    /// Mean time that a request waits before it is worked on, seconds.
    QueueTime = "queue_seconds", Gauge;
    /// Mean time from a request to the end of its answer, seconds.
    E2e = "e2e_seconds", Gauge;
    /// Requests answered since the server started.
    RequestsDone = "requests_total", Counter;
    /// Requests that failed since the server started.
    RequestsFailed = "requests_failed_total", Counter;
    /// Tokens of prompts read since the server started.
    PromptTokens = "prompt_tokens_total", Counter;
    /// Tokens generated since the server started.
    GeneratedTokens = "generation_tokens_total", Counter;
    /// Requests requeued for lack of cache since the server started.
    Preemptions = "preemptions_total", Counter;
    /// Accelerators that a node says it has.
    DeviceCount = "device_count", Gauge;
}

impl Signal {
    /// True for what a model server says of its requests; every other signal is a device's.
    pub const fn is_of_a_server(self) -> bool {
        self as u8 >= Self::RequestsRunning as u8 && self as u8 <= Self::Preemptions as u8
    }

    /// The signal of this canonical name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|signal| signal.name() == name)
    }
}

/// Values by signal, sorted by signal, at most one each. A signal that is not there is unknown, never zero.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Signal, f64)>", into = "Vec<(Signal, f64)>")]
pub struct Signals {
    /// A bit for each signal that is known, by its number.
    known: Known,
    /// The values of these, in signal order.
    values: Option<Arc<[f64]>>,
}

/// One bit a signal.
type Known = u64;

const _: () = assert!(Signal::ALL.len() <= Known::BITS as usize);

impl Signals {
    /// The value, when known.
    pub fn get(&self, signal: Signal) -> Option<f64> {
        let bit = (1 as Known) << signal as u8;
        let values = self.values.as_ref().filter(|_| self.known & bit != 0)?;
        values
            .get((self.known & (bit - 1)).count_ones() as usize)
            .copied()
    }

    /// Every known value in signal order.
    pub fn iter(&self) -> impl Iterator<Item = (Signal, f64)> + '_ {
        let mut left = self.known;
        let signals = std::iter::from_fn(move || {
            let signal = Signal::ALL.get(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(*signal)
        });
        signals.zip(self.values.iter().flat_map(|values| values.iter().copied()))
    }

    /// How many signals are known.
    pub fn len(&self) -> usize {
        self.known.count_ones() as usize
    }

    /// True when nothing is known.
    pub fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// These values, with those of `other` where these are silent.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        other.iter().chain(self.iter()).collect()
    }
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Sorted anew: a file may say anything.
impl From<Vec<(Signal, f64)>> for Signals {
    fn from(values: Vec<(Signal, f64)>) -> Self {
        values.into_iter().collect()
    }
}

impl From<Signals> for Vec<(Signal, f64)> {
    fn from(signals: Signals) -> Self {
        signals.iter().collect()
    }
}

/// The last value of a signal wins; values that are not finite are left out, for they say nothing.
impl FromIterator<(Signal, f64)> for Signals {
    fn from_iter<I: IntoIterator<Item = (Signal, f64)>>(values: I) -> Self {
        let mut known: Known = 0;
        let mut all = [0.0; Signal::ALL.len()];
        for (signal, value) in values {
            if value.is_finite() {
                known |= 1 << signal as u8;
                all[signal as usize] = value;
            }
        }
        if known == 0 {
            return Self::default();
        }
        let mut left = known;
        let values = (0..known.count_ones()).map(|_| {
            let value = all[left.trailing_zeros() as usize];
            left &= left - 1;
            value
        });
        Self {
            known,
            values: Some(values.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for signal in Signal::ALL {
            assert_eq!(Signal::from_name(signal.name()), Some(*signal));
        }
        assert_eq!(Signal::from_name("util"), None);
    }

    #[test]
    fn unknown_is_not_zero() {
        let signals: Signals = [
            (Signal::Temp, f64::NAN),
            (Signal::Util, 0.0),
            (Signal::Util, 0.5),
        ]
        .into_iter()
        .collect();
        assert_eq!(signals.get(Signal::Temp), None);
        assert_eq!(signals.get(Signal::Util), Some(0.5));
        let other: Signals = [(Signal::Temp, 60.0), (Signal::Util, 0.9)]
            .into_iter()
            .collect();
        let both = signals.or(&other);
        assert_eq!(
            (both.get(Signal::Temp), both.get(Signal::Util)),
            (Some(60.0), Some(0.5))
        );
    }
}
