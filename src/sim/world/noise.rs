//! Numbers from hashes: noise that is a pure function of its arguments, without state.

/// Mixes two words into one (the finaliser of SplitMix64).
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A word out of a text (FNV-1a, mixed).
pub fn hash(text: &str) -> u64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for byte in text.bytes() {
        h = (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mix(h, 0x5f)
}

/// The word as a number in `[0, 1)`.
pub(super) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// The word as a number in `[-1, 1)`.
pub(super) fn signed(word: u64) -> f64 {
    unit(word) * 2.0 - 1.0
}

/// Noise in `[-1, 1)` that is continuous in time and decorrelates over `period_ms`.
pub fn smooth(key: u64, at_ms: i64, period_ms: i64) -> f64 {
    let step = at_ms.div_euclid(period_ms);
    let part = at_ms.rem_euclid(period_ms) as f64 / period_ms as f64;
    let (a, b) = (
        signed(mix(key, step as u64)),
        signed(mix(key, (step + 1) as u64)),
    );
    let ease = part * part * (3.0 - 2.0 * part);
    a + (b - a) * ease
}

/// A random-looking (version 4) UUID out of one word.
pub(super) fn uuid(word: u64) -> String {
    let (a, b) = (mix(word, 1), mix(word, 2));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        0x8000 | ((b >> 48) & 0x3fff),
        b & 0xffff_ffff_ffff
    )
}

/// A suffix of `length` characters out of the alphabet that Kubernetes uses for generated names.
pub(super) fn suffix(word: u64, length: usize) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut left = mix(word, 0x7a);
    (0..length)
        .map(|_| {
            let letter = ALPHABET[(left % 27) as usize] as char;
            left = mix(left, 3);
            letter
        })
        .collect()
}

/// Lower-case hexadecimal text of `length` digits.
pub(super) fn hex(word: u64, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    let mut at = 0;
    while text.len() < length {
        text.push_str(&format!("{:016x}", mix(word, at)));
        at += 1;
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_bounded_and_continuous() {
        let mut last = smooth(7, 0, 60_000);
        for second in 1..3600 {
            let now = smooth(7, second * 1000, 60_000);
            assert!((-1.0..1.0).contains(&now));
            assert!((now - last).abs() < 0.06, "jump at {second}");
            last = now;
        }
    }

    #[test]
    fn texts_have_the_shape_of_their_kind() {
        let id = uuid(99);
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert_eq!(suffix(5, 5).len(), 5);
        assert_ne!(suffix(5, 5), suffix(6, 5));
        assert_eq!(hex(5, 40).len(), 40);
        assert_ne!(hash("a"), hash("b"));
    }
}
