//! Numbers as bits: an adaptive binary range coder (as in LZMA) and models that learn how each field changes.
//!
//! Readings change little from page to page, and by an amount that depends on the signal. An order-0 model for each signal that
//! keeps learning across frames needs about half the space of a general-purpose compressor on the same columns.

use super::fault::Damage;

/// Probability that a bit is 0, in 1/32768.
type Chance = u16;

const HALF: Chance = 1 << 14;
const WHOLE: u32 = 1 << 15;
const SPEED: u32 = 5;
const TOP: u32 = 1 << 24;

pub(crate) struct Encoder {
    low: u64,
    range: u32,
    cache: u8,
    pending: u64,
    out: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new() -> Self {
        Self {
            low: 0,
            range: u32::MAX,
            cache: 0,
            pending: 1,
            out: Vec::new(),
        }
    }

    fn shift(&mut self) {
        if self.low < 0xff00_0000 || self.low > u64::from(u32::MAX) {
            let carry = (self.low >> 32) as u8;
            let mut byte = self.cache;
            for _ in 0..self.pending {
                self.out.push(byte.wrapping_add(carry));
                byte = 0xff;
            }
            self.pending = 0;
            self.cache = (self.low >> 24) as u8;
        }
        self.pending += 1;
        self.low = (self.low & 0x00ff_ffff) << 8;
    }

    fn bit(&mut self, chance: &mut Chance, bit: bool) {
        let bound = (self.range >> 15) * u32::from(*chance);
        if bit {
            self.low += u64::from(bound);
            self.range -= bound;
            *chance -= *chance >> SPEED;
        } else {
            self.range = bound;
            *chance += ((WHOLE - u32::from(*chance)) >> SPEED) as Chance;
        }
        while self.range < TOP {
            self.range <<= 8;
            self.shift();
        }
    }

    /// Writes the lowest `count` bits without a model, highest first.
    fn plain(&mut self, value: u64, count: u32) {
        for at in (0..count).rev() {
            self.range >>= 1;
            if value >> at & 1 == 1 {
                self.low += u64::from(self.range);
            }
            while self.range < TOP {
                self.range <<= 8;
                self.shift();
            }
        }
    }

    /// Flushes the encoder and returns its bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for _ in 0..5 {
            self.shift();
        }
        self.out
    }

    /// Approximate number of bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }
}

pub(crate) struct Decoder<'a> {
    code: u32,
    range: u32,
    bytes: &'a [u8],
    /// Bytes read past the end. More than a few indicate damage.
    past: u32,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut out = Self {
            code: 0,
            range: u32::MAX,
            bytes,
            past: 0,
        };
        for _ in 0..5 {
            out.code = out.code << 8 | u32::from(out.byte());
        }
        out
    }

    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => {
                self.past = self.past.saturating_add(1);
                0
            }
        }
    }

    /// # Errors
    /// More bytes were read than were written.
    pub(crate) fn check(&self) -> Result<(), Damage> {
        if self.past > 8 {
            return Err(Damage::Frame("its numbers end early"));
        }
        Ok(())
    }

    fn bit(&mut self, chance: &mut Chance) -> bool {
        let bound = (self.range >> 15) * u32::from(*chance);
        let bit = self.code >= bound;
        if bit {
            self.code -= bound;
            self.range -= bound;
            *chance -= *chance >> SPEED;
        } else {
            self.range = bound;
            *chance += ((WHOLE - u32::from(*chance)) >> SPEED) as Chance;
        }
        while self.range < TOP {
            self.range <<= 8;
            self.code = self.code << 8 | u32::from(self.byte());
        }
        bit
    }

    fn plain(&mut self, count: u32) -> u64 {
        let mut value = 0;
        for _ in 0..count {
            self.range >>= 1;
            let bit = self.code >= self.range;
            if bit {
                self.code -= self.range;
            }
            value = value << 1 | u64::from(bit);
            while self.range < TOP {
                self.range <<= 8;
                self.code = self.code << 8 | u32::from(self.byte());
            }
        }
        value
    }
}

/// Common interface of encoder and decoder: each step takes a bit and returns the bit that was coded.
pub(crate) trait BitCoder {
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool;
    fn plain(&mut self, value: u64, count: u32) -> u64;
}

impl BitCoder for Encoder {
    fn bit(&mut self, chance: &mut Chance, bit: bool) -> bool {
        Encoder::bit(self, chance, bit);
        bit
    }

    fn plain(&mut self, value: u64, count: u32) -> u64 {
        Encoder::plain(self, value, count);
        value
    }
}

/// The argument is ignored: the value comes from the file.
impl BitCoder for Decoder<'_> {
    fn bit(&mut self, chance: &mut Chance, _: bool) -> bool {
        Decoder::bit(self, chance)
    }

    fn plain(&mut self, _: u64, count: u32) -> u64 {
        Decoder::plain(self, count)
    }
}

/// An adaptive model of one bit.
#[derive(Clone)]
pub(crate) struct BitModel(Chance);

impl Default for BitModel {
    fn default() -> Self {
        Self(HALF)
    }
}

impl BitModel {
    pub(crate) fn code(&mut self, coder: &mut impl BitCoder, value: bool) -> bool {
        coder.bit(&mut self.0, value)
    }
}

/// An adaptive model of a signed number that is usually small.
#[derive(Clone)]
pub(crate) struct Number {
    /// Bit length in unary code, with separate models by the length of the previous number.
    length: [[Chance; 65]; 3],
    sign: [Chance; 3],
    /// The two bits below the highest, by length.
    high: [[Chance; 4]; 65],
    last: u32,
    last_sign: usize,
}

impl Default for Number {
    fn default() -> Self {
        Self {
            length: [[HALF; 65]; 3],
            sign: [HALF; 3],
            high: [[HALF; 4]; 65],
            last: 0,
            last_sign: 0,
        }
    }
}

impl Number {
    pub(crate) fn code(&mut self, coder: &mut impl BitCoder, value: i64) -> i64 {
        let size = value.unsigned_abs();
        let wanted = 64 - size.leading_zeros();
        let context = match self.last {
            0..=1 => 0,
            2..=4 => 1,
            _ => 2,
        };
        let mut length = 0;
        while length < 64 {
            let chance = &mut self.length[context][length as usize];
            if !coder.bit(chance, wanted > length) {
                break;
            }
            length += 1;
        }
        self.last = length;
        if length == 0 {
            self.last_sign = 0;
            return 0;
        }
        let negative = coder.bit(&mut self.sign[self.last_sign], value < 0);
        self.last_sign = if negative { 1 } else { 2 };
        let below = length - 1;
        let mut out = 1u64;
        for at in 0..below.min(2) {
            let place = if at == 0 { 0 } else { 1 + (out & 1) as usize };
            let bit = size >> (below - 1 - at) & 1 == 1;
            let bit = coder.bit(&mut self.high[length as usize][place], bit);
            out = out << 1 | u64::from(bit);
        }
        let rest = below - below.min(2);
        out = out << rest | coder.plain(size & ((1 << rest) - 1), rest);
        if negative {
            (out as i64).wrapping_neg()
        } else {
            out as i64
        }
    }
}

/// 64 bits without a model.
pub(crate) fn raw(coder: &mut impl BitCoder, value: u64) -> u64 {
    let high = coder.plain(value >> 32, 32);
    high << 32 | coder.plain(value & 0xffff_ffff, 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in proptest::collection::vec(
            prop_oneof![any::<i64>(), -3i64..3, -1000i64..1000], 0..400))
        {
            let (mut coder, mut model) = (Encoder::new(), Number::default());
            for value in &values {
                model.code(&mut coder, *value);
                raw(&mut coder, value.unsigned_abs());
            }
            let bytes = coder.finish();
            let (mut coder, mut model) = (Decoder::new(&bytes), Number::default());
            for value in &values {
                prop_assert_eq!(model.code(&mut coder, 0), *value);
                prop_assert_eq!(raw(&mut coder, 0), value.unsigned_abs());
            }
            prop_assert!(coder.check().is_ok());
        }
    }

    #[test]
    fn what_hardly_changes_costs_hardly_anything() {
        let (mut coder, mut model) = (Encoder::new(), Number::default());
        for at in 0..80_000 {
            model.code(&mut coder, i64::from(at % 1000 == 0));
        }
        let bytes = coder.finish().len();
        assert!(bytes < 400, "{bytes} bytes for 80000 zeros");
    }

    #[test]
    fn reading_past_the_end_is_an_error() {
        let (mut coder, mut model) = (Decoder::new(&[1, 2]), Number::default());
        for _ in 0..100 {
            model.code(&mut coder, 0);
            raw(&mut coder, 0);
        }
        assert!(coder.check().is_err());
    }
}
