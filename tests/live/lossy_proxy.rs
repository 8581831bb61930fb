//! A network path to the API server of our own, which is slow and loses something, or whose clock is wrong.
//!
//! The model of a lossy path: a proxy of TCP cannot drop a segment of a stream that is acknowledged already. What a lost segment
//! does to whom it is sent is done instead: everything behind it in its direction is held back for one round trip, the time of a
//! fast retransmission (losses within one round trip cost one together, as with SACK); and a lost SYN delays a connection by the
//! second that Linux waits before it sends another.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Payload of a segment.
const SEGMENT: usize = 1448;

/// Most bytes under way in one direction: a large window.
const WINDOW: usize = 1 << 20;

/// What the path does to traffic.
#[derive(Clone, Copy)]
pub struct Weather {
    /// For the way there and back together.
    pub round_trip: Duration,
    /// Of a hundred segments, so many are lost.
    pub loss_percent: u64,
    /// Seconds by which the `Date` of answers is moved (plain HTTP only).
    pub date_shift: i64,
}

/// A listening proxy. Ends with the value.
pub struct LossyProxy {
    /// Where it begins.
    pub address: SocketAddr,
    open: Arc<AtomicBool>,
    /// Segments that were lost.
    pub lost: Arc<AtomicU64>,
}

/// The same sequence at every run.
struct LossRng(u64);

impl LossRng {
    fn percent(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100
    }
}

impl LossyProxy {
    /// Opens a path to `end`.
    pub fn to(end: &str, weather: Weather) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let open = Arc::new(AtomicBool::new(true));
        let lost = Arc::new(AtomicU64::new(0));
        let (end, is_open, count) = (end.to_owned(), open.clone(), lost.clone());
        spawn(move || {
            for (number, from) in listener.incoming().map_while(Result::ok).enumerate() {
                if !is_open.load(Ordering::Relaxed) {
                    return;
                }
                let (end, count) = (end.clone(), count.clone());
                spawn(move || {
                    let mut rng = LossRng(number as u64 + 1);
                    sleep(weather.round_trip);
                    if rng.percent() < weather.loss_percent {
                        sleep(Duration::from_secs(1));
                    }
                    let Ok(to) = TcpStream::connect(&end) else {
                        return;
                    };
                    let pair = |one: &TcpStream| one.try_clone().expect("a socket");
                    lane(
                        pair(&from),
                        pair(&to),
                        Weather {
                            date_shift: 0,
                            ..weather
                        },
                        LossRng(rng.0 ^ 1),
                        count.clone(),
                    );
                    lane(to, from, weather, LossRng(rng.0 ^ 2), count);
                });
            }
        });
        Self {
            address,
            open,
            lost,
        }
    }
}

impl Drop for LossyProxy {
    fn drop(&mut self) {
        self.open.store(false, Ordering::Relaxed);
        // (Wakes the listener.)
        let _ = TcpStream::connect(self.address);
    }
}

/// What is under way.
#[derive(Default)]
struct Load {
    /// Each piece, and when it is there.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    over: bool,
}

#[derive(Default)]
struct Lane {
    on_it: Mutex<Load>,
    changed: Condvar,
}

/// One direction of a connection.
fn lane(
    mut from: TcpStream,
    mut to: TcpStream,
    weather: Weather,
    mut rng: LossRng,
    lost: Arc<AtomicU64>,
) {
    let lane = Arc::new(Lane::default());
    let arriving = lane.clone();
    spawn(move || {
        loop {
            let (due, bytes) = {
                let mut on_it = arriving
                    .on_it
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                loop {
                    if let Some(next) = on_it.pieces.pop_front() {
                        break next;
                    }
                    if on_it.over {
                        let _ = to.shutdown(Shutdown::Both);
                        return;
                    }
                    on_it = arriving
                        .changed
                        .wait(on_it)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            };
            sleep(due.saturating_duration_since(Instant::now()));
            let failed = to.write_all(&bytes).is_err();
            let mut on_it = arriving
                .on_it
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            on_it.bytes -= bytes.len();
            on_it.over |= failed;
            arriving.changed.notify_all();
        }
    });
    spawn(move || {
        let mut buffer = vec![0; 32 * SEGMENT];
        let mut held_until = Instant::now();
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let mut bytes = buffer[..count].to_vec();
            if weather.date_shift != 0 {
                shift_dates(&mut bytes, weather.date_shift);
            }
            let now = Instant::now();
            for _ in 0..count.div_ceil(SEGMENT) {
                if rng.percent() < weather.loss_percent {
                    lost.fetch_add(1, Ordering::Relaxed);
                    held_until = held_until.max(now + weather.round_trip);
                }
            }
            let due = now.max(held_until) + weather.round_trip / 2;
            let mut on_it = lane.on_it.lock().unwrap_or_else(PoisonError::into_inner);
            while on_it.bytes > WINDOW && !on_it.over {
                on_it = lane
                    .changed
                    .wait(on_it)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let over = count == 0 || on_it.over;
            on_it.over |= over;
            on_it.bytes += count;
            if count > 0 {
                on_it.pieces.push_back((due, bytes));
            }
            lane.changed.notify_all();
            if over {
                let _ = from.shutdown(Shutdown::Read);
                return;
            }
        }
    });
}

const DATE: &[u8] = b"\r\nDate: ";
const WEEK: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Moves each `Date:` header of an answer. (Go writes the head of an answer in one piece.)
fn shift_dates(bytes: &mut [u8], seconds: i64) {
    let mut at = 0;
    while let Some(found) = bytes[at..]
        .windows(DATE.len())
        .position(|part| part == DATE)
    {
        let from = at + found + DATE.len();
        at = from;
        let Some(own) = bytes.get_mut(from..from + 29) else {
            return;
        };
        if let Some(moved) = std::str::from_utf8(own)
            .ok()
            .and_then(|text| moved(text, seconds))
        {
            own.copy_from_slice(moved.as_bytes());
        }
    }
}

/// `Sat, 21 Nov 2026 15:26:00 GMT` moved by seconds.
fn moved(text: &str, seconds: i64) -> Option<String> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let month = MONTHS
        .iter()
        .position(|name| text.get(8..11) == Some(*name))? as i64
        + 1;
    let days = days_of(number(12..16)?, month, number(5..7)?);
    let at =
        ((days * 24 + number(17..19)?) * 60 + number(20..22)?) * 60 + number(23..25)? + seconds;
    let (day, second) = (at.div_euclid(86_400), at.rem_euclid(86_400));
    let (mut year, mut month) = (1970, 1);
    while days_of(year + 1, 1, 1) <= day {
        year += 1;
    }
    while month < 12 && days_of(year, month + 1, 1) <= day {
        month += 1;
    }
    let in_month = day - days_of(year, month, 1) + 1;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let week = WEEK[day.rem_euclid(7) as usize];
    let name = MONTHS[month as usize - 1];
    Some(format!(
        "{week}, {in_month:02} {name} {year} {hour:02}:{minute:02}:{:02} GMT",
        second % 60
    ))
}

/// Days since 1970-01-01.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let shifted = (month + 9) % 12;
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (shifted * 153 + 2) / 5
        + day
        - 1
        - 719_468
}

#[test]
fn dates_are_moved() {
    assert_eq!(
        moved("Sat, 21 Nov 2026 15:26:00 GMT", 600).as_deref(),
        Some("Sat, 21 Nov 2026 15:36:00 GMT")
    );
    assert_eq!(
        moved("Thu, 31 Dec 2026 23:59:59 GMT", 1).as_deref(),
        Some("Fri, 01 Jan 2027 00:00:00 GMT")
    );
    assert_eq!(
        moved("Mon, 01 Mar 2027 00:00:00 GMT", -1).as_deref(),
        Some("Sun, 28 Feb 2027 23:59:59 GMT")
    );
    let mut answer = b"HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 15:26:00 GMT\r\n\r\n{}".to_vec();
    shift_dates(&mut answer, -60);
    assert!(
        String::from_utf8_lossy(&answer).contains("\r\nDate: Sat, 21 Nov 2026 15:25:00 GMT\r\n")
    );
}
