//! A keyframe: the complete state at one time, from which playback can start.

use std::num::NonZero;
use std::thread;

use serde::{Deserialize, Serialize};

use ledger::{SavedLedger, checks};
use model::base::Moment;
use model::fleet::observe::Observation;
use model::fleet::signal::{Signal, Signals};

use super::codec::{Codec, of_bytes, put, take, to_bytes};
use super::coder::{Decoder, Encoder};
use super::fault::Damage;
use super::mirror::Mirror;
use super::row_models::{PreviousRow, RowModels};

/// State that the last observations do not contain.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// State of the ledger.
    pub ledger: SavedLedger,
    pub checks: checks::CheckStates,
}

impl Saved {
    /// The part that the next program on the same cluster takes over; `at` is the time of saving.
    #[must_use]
    pub fn handed_on(self, at: Moment) -> Self {
        Self {
            ledger: self.ledger.handed_on(),
            checks: self.checks.handed_on(at),
        }
    }
}

/// The complete state at one time.
#[derive(Clone)]
pub struct Keyframe {
    /// Time of the keyframe.
    pub at: Moment,
    /// The last observation of every object, in an order in which they can be applied.
    pub observations: Vec<Observation>,
    /// State beyond the observations.
    pub saved: Saved,
}

/// Writes a keyframe. Returns its numbers, its objects, and the codec for the frames that follow.
pub(crate) fn write(mirror: &Mirror, saved: Saved, codec: &Codec) -> (Vec<u8>, Vec<u8>, Codec) {
    let mut blob = vec![0; 4];
    let (mut objects, mut primed) = (0u32, 0u32);
    mirror.all(|bytes| {
        put(&mut blob, bytes);
        objects += 1;
    });
    let next = codec.renewed(mirror.sources(), |bytes| {
        put(&mut blob, bytes);
        primed += 1;
    });
    // Values are numbers and are stored separately.
    let mut saved = saved;
    let (mut coder, mut rows) = (Encoder::new(), RowModels::default());
    let mut lists: Vec<Vec<&'static str>> = Vec::new();
    let mut kinds: Vec<u32> = Vec::new();
    let mut states: Vec<PreviousRow> = Vec::new();
    saved.ledger.visit_signals(|signals| {
        let list: Vec<Signal> = signals.iter().map(|(signal, _)| signal).collect();
        let names: Vec<&'static str> = list.iter().map(|signal| signal.name()).collect();
        let kind = match lists.iter().position(|known| *known == names) {
            Some(at) => at,
            None => {
                lists.push(names);
                states.push(PreviousRow::default());
                lists.len() - 1
            }
        };
        kinds.push(kind as u32);
        let values: Vec<f64> = signals.iter().map(|(_, value)| value).collect();
        rows.code(&mut coder, &list, &mut states[kind], &values);
        *signals = Signals::default();
    });
    put(&mut blob, &to_bytes(&(lists, kinds)));
    put(&mut blob, &to_bytes(&saved));
    blob[..4].copy_from_slice(&objects.to_le_bytes());
    blob.extend_from_slice(&primed.to_le_bytes());
    (coder.finish(), blob, next)
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Number of observations in a keyframe, number of objects that restore the codec, and the objects.
fn counts(blob: &[u8]) -> Result<(u32, u32, &[u8]), Damage> {
    let short = Damage::Frame("a keyframe ends early");
    let (first, rest) = blob.split_at_checked(4).ok_or(short.clone())?;
    let end = rest.len().checked_sub(4).ok_or(short)?;
    let (rest, last) = rest.split_at(end);
    Ok((number(first), number(last), rest))
}

/// The codec for the frames after a keyframe, without its state.
///
/// # Errors
/// The data is damaged.
pub(crate) fn codec_of(blob: &[u8]) -> Result<Codec, Damage> {
    let (observations, primed, mut rest) = counts(blob)?;
    for _ in 0..observations {
        take(&mut rest)?;
    }
    let mut codec = Codec::default();
    for _ in 0..primed {
        codec.prime(take(&mut rest)?)?;
    }
    Ok(codec)
}

/// Minimum number of objects for each thread.
const SHARE: usize = 1_000;

/// Decodes objects as observations, in order. Skips those of a later version that this version does not know.
fn decoded(objects: &[&[u8]]) -> Vec<Observation> {
    let read = |objects: &[&[u8]]| -> Vec<Observation> {
        let all = objects.iter();
        all.filter_map(|bytes| of_bytes(bytes).ok()).collect()
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = objects.len().div_ceil(cores).max(SHARE);
    thread::scope(|threads| {
        let shares = objects.chunks(share);
        let others: Vec<_> = shares
            .skip(1)
            .map(|share| threads.spawn(move || read(share)))
            .collect();
        let mut all = read(&objects[..share.min(objects.len())]);
        for other in others {
            let read = other.join();
            all.extend(read.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    })
}

/// Reads a keyframe, and the codec for the frames that follow.
///
/// # Errors
/// The data is damaged.
pub(crate) fn read(at: Moment, numbers: &[u8], blob: &[u8]) -> Result<(Keyframe, Codec), Damage> {
    let (count, primed, mut rest) = counts(blob)?;
    let mut objects = Vec::new();
    for _ in 0..count {
        objects.push(take(&mut rest)?);
    }
    let mut observations = decoded(&objects);
    let mut codec = Codec::default();
    for _ in 0..primed {
        codec.prime(take(&mut rest)?)?;
    }
    let sources = codec.sources().iter().cloned();
    observations.extend(sources.map(Observation::Source));
    let (lists, kinds): (Vec<Vec<String>>, Vec<u32>) = of_bytes(take(&mut rest)?)?;
    let mut saved: Saved = of_bytes(take(&mut rest)?)?;
    let lists: Option<Vec<Vec<Signal>>> = lists
        .iter()
        .map(|names| names.iter().map(|name| Signal::from_name(name)).collect())
        .collect();
    let lists = lists.ok_or(Damage::Frame("it has a signal of a later version"))?;
    let mut states = vec![PreviousRow::default(); lists.len()];
    let (mut coder, mut rows) = (Decoder::new(numbers), RowModels::default());
    let mut kinds = kinds.into_iter();
    let mut whole = true;
    saved.ledger.visit_signals(|signals| {
        let kind = kinds.next().map_or(usize::MAX, |kind| kind as usize);
        match (lists.get(kind), states.get_mut(kind)) {
            (Some(list), Some(state)) => *signals = rows.code(&mut coder, list, state, &[]),
            _ => whole = false,
        }
    });
    coder.check()?;
    if !whole {
        return Err(Damage::Frame("a keyframe has more rows than values"));
    }
    let keyframe = Keyframe {
        at,
        observations,
        saved,
    };
    Ok((keyframe, codec))
}
