//! Encodes what happens between two keyframes: objects as bytes, readings and source health as numbers.
//!
//! The codecs of writer and reader start from the same state at each keyframe and learn identically. A page is identified by its
//! *shape* (its rows and their signals). A shape is written once and then referenced by number, and usually predicted, because
//! exporters answer in the same order every time.

use std::collections::hash_map::Entry as Place;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use model::base::{Moment, Name, ObjectKey};
use model::fleet::histogram::Histogram;
use model::fleet::observe::{Observation, SourceHealth};
use model::fleet::reading::{Page, ReadingScope};
use model::fleet::signal::{Signal, Signals};

use super::coder::{BitCoder, Decoder, Encoder};
use super::fault::Damage;
use super::models::{Models, NextEntry};
use super::row_models::{PreviousRow, SignalList};
use super::shape::{bare, is_alike, is_of_a_pod};
use super::source_numbers::{differs_in_numbers, numbers_of, set_numbers};

/// How many recent shapes of an exporter are compared with a page.
const SHAPES_TRIED: usize = 6;

/// What was recorded, in order.
#[derive(Clone, Debug)]
pub enum RecordedEvent {
    /// An observation from a source.
    Seen(Box<Observation>),
    /// A snapshot was taken and evaluated: pools, checks, history.
    Judged,
}

/// One recorded event and its time on the server's clock.
pub type RecordEntry = (Moment, RecordedEvent);

/// A page without its values.
#[derive(Clone, Serialize, Deserialize)]
struct PageShape {
    page: Page,
    lists: Vec<u32>,
    /// Index of each row's state.
    #[serde(skip)]
    rows: Vec<u32>,
    /// Used since the last keyframe.
    #[serde(skip)]
    used: bool,
}

/// Objects in a frame, as written.
#[derive(Serialize)]
enum WrittenObjects<'a> {
    Shape(&'a PageShape),
    List(Vec<&'static str>),
    Source(&'a SourceHealth),
}

#[derive(Deserialize)]
enum ReadObjects {
    Shape(PageShape),
    List(Vec<String>),
    Source(SourceHealth),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ExporterKey {
    node: Option<Name>,
    dialect: Name,
    host: Option<Name>,
    pod: Option<ObjectKey>,
}

#[derive(PartialEq, Eq, Hash)]
struct RowKey {
    exporter: u32,
    scope: ReadingScope,
    index: Option<u32>,
    uuid: Option<Name>,
    slice: Option<Name>,
    model: Option<Name>,
    pod: Option<ObjectKey>,
}

struct RowState {
    row: PreviousRow,
    list: u32,
}

/// State of the codec, the same for writer and reader.
#[derive(Default)]
pub(crate) struct Codec {
    models: Models,
    lists: Vec<SignalList>,
    shapes: Vec<PageShape>,
    /// The latest shapes of an exporter, most recently used first.
    exporters: FxHashMap<ExporterKey, (u32, Vec<u32>)>,
    row_numbers: FxHashMap<RowKey, u32>,
    rows: Vec<RowState>,
    sources: Vec<SourceHealth>,
    source_numbers: FxHashMap<Name, u32>,
}

/// A frame that is being written.
pub(crate) struct Writing {
    bits: Encoder,
    /// Objects, each preceded by its length.
    blob: Vec<u8>,
    from: Moment,
    last: Moment,
    count: u32,
}

impl Writing {
    pub(crate) fn new(from: Moment) -> Self {
        Self {
            bits: Encoder::new(),
            blob: Vec::new(),
            from,
            last: from,
            count: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Approximate number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bits.len() + self.blob.len()
    }

    pub(crate) fn span(&self) -> (Moment, Moment) {
        (self.from, self.last)
    }

    fn object(&mut self, bytes: &[u8]) {
        put(&mut self.blob, bytes);
    }
}

/// Serializes with the names of fields and variants, so that another version can read the fields that it knows.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Vec<u8> {
    // No recorded type fails to serialize: none has unusual map keys or sequences of unknown length.
    rmp_serde::to_vec_named(value).unwrap_or_default()
}

/// Appends an object to a blob, preceded by its length.
pub(crate) fn put(blob: &mut Vec<u8>, bytes: &[u8]) {
    blob.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    blob.extend_from_slice(bytes);
}

/// Reads the next object from a blob.
pub(crate) fn take<'b>(blob: &mut &'b [u8]) -> Result<&'b [u8], Damage> {
    let short = Damage::Frame("an object ends early");
    let (length, rest) = blob.split_at_checked(4).ok_or(short.clone())?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let (object, rest) = rest.split_at_checked(length).ok_or(short)?;
    *blob = rest;
    Ok(object)
}

pub(crate) fn of_bytes<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, Damage> {
    rmp_serde::from_slice(bytes)
        .map_err(|_| Damage::Frame("an object is not what this version knows"))
}

impl Codec {
    /// The codec after a keyframe: it knows the shapes used since the last keyframe and the given sources. `write` receives the
    /// objects from which a reader restores the same state.
    pub(crate) fn renewed<'s>(
        &self,
        sources: impl Iterator<Item = &'s SourceHealth>,
        mut write: impl FnMut(&[u8]),
    ) -> Self {
        let mut next = Self {
            lists: self.lists.clone(),
            ..Self::default()
        };
        for list in &self.lists {
            let names = list.iter().map(|signal| signal.name()).collect();
            write(&to_bytes(&WrittenObjects::List(names)));
        }
        // One shape for each exporter: the latest.
        let current = |shape: &PageShape| {
            let (_, known) = self.exporters.get(&exporter_of(&shape.page))?;
            self.shapes.get(*known.first()? as usize)
        };
        for shape in self.shapes.iter().filter(|shape| shape.used) {
            if current(shape).is_some_and(|current| std::ptr::eq(current, shape)) {
                write(&to_bytes(&WrittenObjects::Shape(shape)));
                next.add_shape(PageShape {
                    rows: Vec::new(),
                    used: false,
                    ..shape.clone()
                });
            }
        }
        for health in sources {
            write(&to_bytes(&WrittenObjects::Source(health)));
            next.add_source(health.clone());
        }
        next
    }

    /// The last known health of every source.
    pub(crate) fn sources(&self) -> &[SourceHealth] {
        &self.sources
    }

    /// Restores one list, shape or source that [`Codec::renewed`] wrote.
    ///
    /// # Errors
    /// The bytes are none of these.
    pub(crate) fn prime(&mut self, bytes: &[u8]) -> Result<(), Damage> {
        match of_bytes(bytes)? {
            ReadObjects::List(names) => self.add_list(&names)?,
            ReadObjects::Shape(shape) => self.read_shape(shape)?,
            ReadObjects::Source(health) => self.add_source(health),
        }
        Ok(())
    }

    fn add_list(&mut self, names: &[String]) -> Result<(), Damage> {
        let list: Option<SignalList> = names.iter().map(|name| Signal::from_name(name)).collect();
        let list = list.ok_or(Damage::Frame("it has a signal of a later version"))?;
        self.lists.push(list);
        Ok(())
    }

    fn read_shape(&mut self, shape: PageShape) -> Result<(), Damage> {
        let lists = self.lists.len();
        let whole = shape.lists.len() == shape.page.readings.len()
            && shape.lists.iter().all(|list| (*list as usize) < lists);
        if !whole || shape.page.readings.is_empty() {
            return Err(Damage::Frame("a page has no rows"));
        }
        self.add_shape(shape);
        Ok(())
    }

    fn start(&mut self, frame: &mut Writing, at: Moment, next: NextEntry) {
        // If the clock goes back slightly, the time stays the same.
        let at = at.max(frame.last);
        let models = &mut self.models;
        models.kind(&mut frame.bits, next);
        let pause = at.since(frame.last).millis() as i64;
        models.pause.code(&mut frame.bits, pause);
        frame.last = at;
        frame.count += 1;
    }

    /// Writes an object that is already serialized.
    pub(crate) fn object(&mut self, frame: &mut Writing, at: Moment, bytes: &[u8]) {
        self.start(frame, at, NextEntry::Object);
        frame.object(bytes);
    }

    /// Writes that a snapshot was evaluated.
    pub(crate) fn judged(&mut self, frame: &mut Writing, at: Moment) {
        self.start(frame, at, NextEntry::Judged);
    }

    pub(crate) fn page(&mut self, frame: &mut Writing, at: Moment, page: &Page) {
        self.start(frame, at, NextEntry::Page);
        let (shape, is_new) = self.shape_of(page, frame);
        self.models.shape.code(&mut frame.bits, shape);
        self.shapes[shape as usize].used = true;
        if is_new {
            frame.object(&to_bytes(&WrittenObjects::Shape(
                &self.shapes[shape as usize],
            )));
        }
        let age = frame.last.millis().wrapping_sub(page.at.millis());
        self.models.age.code(&mut frame.bits, age);
        let mut values = Vec::new();
        for (at, reading) in page.readings.iter().enumerate() {
            values.clear();
            values.extend(reading.signals.iter().map(|(_, value)| value));
            let mut histograms = reading.histograms.clone();
            self.row(&mut frame.bits, shape, at, &values, &mut histograms);
        }
    }

    fn row(
        &mut self,
        bits: &mut impl BitCoder,
        shape: u32,
        at: usize,
        values: &[f64],
        histograms: &mut [Histogram],
    ) -> Signals {
        let shape = &self.shapes[shape as usize];
        let (list, number) = (shape.lists[at], shape.rows[at]);
        let state = &mut self.rows[number as usize];
        let to = &self.lists[list as usize];
        if state.list != list {
            state.row = state.row.moved(&self.lists[state.list as usize], to);
            state.list = list;
        }
        let rows = &mut self.models.rows;
        let signals = rows.code(bits, to, &mut state.row, values);
        rows.code_buckets(bits, &mut state.row, histograms);
        signals
    }

    /// The number of a page's shape, and whether the shape is new. Also writes new signal lists.
    fn shape_of(&mut self, page: &Page, frame: &mut Writing) -> (u32, bool) {
        if let Some((_, known)) = self.exporters.get(&exporter_of(page)) {
            let found = known.iter().copied().find(|number| self.has(*number, page));
            if let Some(found) = found {
                self.use_shape(page, found);
                return (found, false);
            }
        }
        let lists = page.readings.iter().map(|reading| {
            let list: SignalList = reading.signals.iter().map(|(signal, _)| signal).collect();
            match self.lists.iter().position(|known| *known == list) {
                Some(at) => at as u32,
                None => {
                    let names = list.iter().map(|signal| signal.name()).collect();
                    frame.object(&to_bytes(&WrittenObjects::List(names)));
                    self.lists.push(list);
                    self.lists.len() as u32 - 1
                }
            }
        });
        let lists = lists.collect();
        let shape = PageShape {
            page: Page {
                node: page.node.clone(),
                at: Moment::default(),
                interval: page.interval,
                readings: page.readings.iter().map(bare).collect(),
            },
            lists,
            rows: Vec::new(),
            used: true,
        };
        (self.add_shape(shape), true)
    }

    fn has(&self, number: u32, page: &Page) -> bool {
        let shape = &self.shapes[number as usize];
        shape.page.interval == page.interval
            && shape.page.readings.len() == page.readings.len()
            && shape
                .page
                .readings
                .iter()
                .zip(&page.readings)
                .all(|(a, b)| is_alike(a, b))
            && shape.lists.iter().zip(&page.readings).all(|(list, row)| {
                let list = &self.lists[*list as usize];
                list.len() == row.signals.len()
                    && list
                        .iter()
                        .zip(row.signals.iter())
                        .all(|(a, (b, _))| *a == b)
            })
    }

    fn use_shape(&mut self, page: &Page, number: u32) {
        if let Some((_, known)) = self.exporters.get_mut(&exporter_of(page)) {
            known.retain(|other| *other != number);
            known.insert(0, number);
        }
    }

    fn add_shape(&mut self, mut shape: PageShape) -> u32 {
        let number = self.shapes.len() as u32;
        let exporters = self.exporters.len() as u32;
        let key = exporter_of(&shape.page);
        let (exporter, known) = self
            .exporters
            .entry(key)
            .or_insert_with(|| (exporters, Vec::new()));
        known.insert(0, number);
        known.truncate(SHAPES_TRIED);
        let exporter = *exporter;
        for (reading, list) in shape.page.readings.iter().zip(&shape.lists) {
            let key = RowKey {
                exporter,
                scope: reading.scope,
                index: reading.index,
                uuid: reading.uuid.clone(),
                slice: reading.slice.clone(),
                model: is_of_a_pod(reading.scope)
                    .then(|| reading.model.clone())
                    .flatten(),
                pod: is_of_a_pod(reading.scope)
                    .then(|| reading.pod.clone())
                    .flatten(),
            };
            let row = match self.row_numbers.entry(key) {
                Place::Occupied(known) => *known.get(),
                Place::Vacant(free) => {
                    self.rows.push(RowState {
                        row: PreviousRow::default(),
                        list: *list,
                    });
                    *free.insert(self.rows.len() as u32 - 1)
                }
            };
            shape.rows.push(row);
        }
        self.shapes.push(shape);
        number
    }

    pub(crate) fn source(&mut self, frame: &mut Writing, at: Moment, health: &SourceHealth) {
        self.start(frame, at, NextEntry::Source);
        let number = self.source_numbers.get(&health.name).copied();
        let number =
            number.filter(|number| differs_in_numbers(&self.sources[*number as usize], health));
        let new = self.sources.len() as u32;
        self.models
            .source
            .code(&mut frame.bits, number.unwrap_or(new));
        match number {
            Some(number) => self.fare(&mut frame.bits, number, frame.last, Some(health)),
            None => {
                frame.object(&to_bytes(&WrittenObjects::Source(health)));
                self.add_source(health.clone());
            }
        }
    }

    fn add_source(&mut self, health: SourceHealth) {
        let number = self.sources.len() as u32;
        self.source_numbers.insert(health.name.clone(), number);
        self.sources.push(health);
    }

    /// Writes or reads the numbers of a known source.
    fn fare(
        &mut self,
        bits: &mut impl BitCoder,
        number: u32,
        at: Moment,
        health: Option<&SourceHealth>,
    ) {
        let known = &mut self.sources[number as usize];
        let fields = &mut self.models.fare;
        let second = at.millis().div_euclid(1000);
        // Time of the last successful answer: 0 if unchanged, otherwise the second relative to now.
        let answered = health
            .filter(|health| health.last_ok != known.last_ok)
            .and_then(|health| health.last_ok)
            .map_or(0, |ok| match ok.millis() / 1000 - second {
                later @ 0.. => later + 1,
                earlier => earlier,
            });
        let answered = fields[0].code(bits, answered);
        if answered != 0 {
            let by = if answered > 0 { answered - 1 } else { answered };
            known.last_ok = Some(Moment::from_millis(
                second.wrapping_add(by).wrapping_mul(1000),
            ));
        }
        let was = numbers_of(known);
        let mut now = health.map_or(was, numbers_of);
        for ((field, now), was) in fields[1..].iter_mut().zip(&mut now).zip(was) {
            *now = was.wrapping_add(field.code(bits, now.wrapping_sub(was)));
        }
        set_numbers(known, now);
    }

    /// Decodes one frame. `bits` and `blob` are its two parts, `from` is its first time.
    ///
    /// # Errors
    /// The data is not what a writer of this version writes.
    pub(crate) fn read(
        &mut self,
        numbers: &[u8],
        mut blob: &[u8],
        from: Moment,
        mut out: impl FnMut(RecordEntry),
    ) -> Result<(), Damage> {
        let mut bits = Decoder::new(numbers);
        let mut at = from;
        loop {
            bits.check()?;
            let next = self.models.kind(&mut bits, NextEntry::End);
            if next == NextEntry::End {
                return Ok(());
            }
            let pause = self.models.pause.code(&mut bits, 0);
            at = at.plus(std::time::Duration::from_millis(pause.max(0) as u64));
            let value = match next {
                NextEntry::Judged => RecordedEvent::Judged,
                NextEntry::Source => {
                    let health = self.read_source(&mut bits, &mut blob, at)?;
                    RecordedEvent::Seen(Box::new(Observation::Source(health)))
                }
                NextEntry::Page => {
                    let page = self.read_page(&mut bits, &mut blob, at)?;
                    RecordedEvent::Seen(Box::new(Observation::Page(Box::new(page))))
                }
                NextEntry::Object | NextEntry::End => {
                    // Skips entries of a later version that this version does not know.
                    match of_bytes(take(&mut blob)?) {
                        Ok(observation) => RecordedEvent::Seen(Box::new(observation)),
                        Err(_) => continue,
                    }
                }
            };
            out((at, value));
        }
    }

    fn read_source(
        &mut self,
        bits: &mut Decoder<'_>,
        blob: &mut &[u8],
        at: Moment,
    ) -> Result<SourceHealth, Damage> {
        let number = self.models.source.code(bits, 0);
        match (number as usize).cmp(&self.sources.len()) {
            std::cmp::Ordering::Less => self.fare(bits, number, at, None),
            std::cmp::Ordering::Equal => match of_bytes(take(blob)?)? {
                ReadObjects::Source(health) => self.add_source(health),
                _ => return Err(Damage::Frame("a source is missing")),
            },
            std::cmp::Ordering::Greater => return Err(Damage::Frame("a source is unknown")),
        }
        Ok(self.sources[number as usize].clone())
    }

    fn read_page(
        &mut self,
        bits: &mut Decoder<'_>,
        blob: &mut &[u8],
        at: Moment,
    ) -> Result<Page, Damage> {
        let number = self.models.shape.code(bits, 0);
        let known = self.shapes.len();
        if number as usize > known {
            return Err(Damage::Frame("a page is unknown"));
        }
        while number as usize >= self.shapes.len() {
            match of_bytes(take(blob)?)? {
                ReadObjects::List(names) => self.add_list(&names)?,
                ReadObjects::Shape(shape) => self.read_shape(shape)?,
                ReadObjects::Source(_) => return Err(Damage::Frame("a page is missing")),
            }
        }
        let age = self.models.age.code(bits, 0);
        let mut page = self.shapes[number as usize].page.clone();
        page.at = Moment::from_millis(at.millis().wrapping_sub(age));
        for (at, reading) in page.readings.iter_mut().enumerate() {
            reading.signals = self.row(bits, number, at, &[], &mut reading.histograms);
        }
        Ok(page)
    }
}

impl Writing {
    /// Both parts of the frame: numbers and objects.
    pub(crate) fn finish(mut self, codec: &mut Codec) -> (Vec<u8>, Vec<u8>) {
        codec.models.kind(&mut self.bits, NextEntry::End);
        (self.bits.finish(), self.blob)
    }
}

fn exporter_of(page: &Page) -> ExporterKey {
    let first = page.readings.first();
    let serving = first.filter(|reading| is_of_a_pod(reading.scope));
    ExporterKey {
        node: page.node.clone(),
        dialect: first.map(|first| first.dialect.clone()).unwrap_or_default(),
        host: first.and_then(|first| first.host.clone()),
        pod: serving.and_then(|first| first.pod.clone()),
    }
}
