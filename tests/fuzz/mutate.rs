//! Mutations of inputs, from a seed: the same on every machine.

/// Random numbers: xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator; every seed gives numbers of its own.
    pub fn new(seed: u64) -> Self {
        // Seeds that lie beside each other are far apart, and none is zero.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self((mixed ^ (mixed >> 33)) | 1)
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }
}

/// Bits of text that many readers trip over.
const BITS: &[&str] = &[
    "",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    ",",
    ":",
    "=",
    "#",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\0",
    "\u{feff}",
    "\u{202e}",
    "\u{9b}",
    "\u{1b}[2J",
    "\u{e0041}",
    "e\u{301}\u{301}\u{301}",
    "null",
    "true",
    "NaN",
    "-Inf",
    "1e999",
    "-1",
    "0",
    "1.5",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "99999999999999999999",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "-009999-01-01T00:00:00Z",
    "9E",
    "1Ei",
    "-8",
    "\\u0000",
    "\\ud800",
    "../..",
    "%00",
    "%s",
    "日本語",
];

/// Changes an input in one to eight places. `others` are inputs to take pieces from, `words` what the reader knows.
pub fn mutate(
    input: &[u8],
    others: &[Vec<u8>],
    words: &[&str],
    most: usize,
    random: &mut Random,
) -> Vec<u8> {
    let mut data = input.to_vec();
    if data.len() > most {
        // A window of it: long pages are read in parts.
        let from = random.below(data.len() - most);
        data.drain(..from);
        data.truncate(most);
    }
    for _ in 0..1 + random.below(8) {
        let at = random.below(data.len() + 1);
        match random.below(12) {
            0 => data.truncate(at),
            1 | 2 => {
                let word = word(words, random);
                data.splice(at..at, word.bytes());
            }
            3 => {
                let end = (at + random.below(40)).min(data.len());
                data.drain(at..end);
            }
            4 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            5 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
            6 => {
                let end = (at + random.below(400)).min(data.len());
                let copy = data[at..end].to_vec();
                let to = random.below(data.len() + 1);
                data.splice(to..to, copy);
            }
            7 | 8 => {
                let (start, end) = token(&data, at);
                let word = word(words, random);
                data.splice(start..end, word.bytes());
            }
            9 => {
                // A piece of another input.
                if let Some(other) = others.get(random.below(others.len())) {
                    let from = random.below(other.len());
                    let end = (from + random.below(500)).min(other.len());
                    let to = (at + random.below(200)).min(data.len());
                    data.splice(at..to, other[from..end].iter().copied());
                }
            }
            10 => {
                // The same again and again: what grows with nesting or repetition.
                let end = (at + 1 + random.below(16)).min(data.len());
                let copy = data[at..end].repeat(1 + random.below(100));
                data.splice(at..at, copy);
            }
            _ => {
                // A word of the input in another place.
                let (from, till) = token(&data, random.below(data.len() + 1));
                let copy = data[from..till].to_vec();
                let (start, end) = token(&data, at);
                data.splice(start..end, copy);
            }
        }
        data.truncate(most);
    }
    data
}

fn word<'a>(words: &[&'a str], random: &mut Random) -> &'a str {
    match random.below(3) {
        0 => BITS[random.below(BITS.len())],
        _ if words.is_empty() => BITS[random.below(BITS.len())],
        _ => words[random.below(words.len())],
    }
}

/// The word around a place: letters, digits and what stands in names and numbers.
fn token(data: &[u8], at: usize) -> (usize, usize) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+/".contains(byte);
    let start = data[..at].iter().rposition(|byte| !is_word(byte));
    let end = data[at..].iter().position(|byte| !is_word(byte));
    (
        start.map_or(0, |start| start + 1),
        end.map_or(data.len(), |end| at + end),
    )
}
