//! Fuzzy search over many names: exact match, then prefix, then prefix of a part, then substring, then letters in order.
//! Searches a hundred thousand names between two frames.

/// A search: words that must all match.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FuzzyQuery {
    words: Vec<Box<[u8]>>,
    mask: u64,
}

/// Cost per match class; within a class the earlier position and the shorter name win.
const CLASS: u32 = 1000;

impl FuzzyQuery {
    /// The words of a text, ignoring case.
    pub fn new(text: &str) -> Self {
        let words: Vec<Box<[u8]>> = text
            .split_whitespace()
            .map(|word| word.to_ascii_lowercase().into_bytes().into())
            .collect();
        let mask = words.iter().fold(0, |mask, word| mask | mask_of(word));
        Self { words, mask }
    }

    /// True for an empty search: everything matches.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// False when a name with this mask lacks a letter of the search.
    pub const fn may_match(&self, mask: u64) -> bool {
        self.mask & !mask == 0
    }

    /// The distance of a name from the search, smaller is better; `None` when a word does not match.
    pub fn cost(&self, name: &str) -> Option<u32> {
        let name = name.as_bytes();
        let mut cost = 0;
        for word in &self.words {
            cost += cost_of(name, word)?;
        }
        Some(cost + (name.len() as u32).min(200))
    }
}

/// A bit mask of the letters and digits in a name.
pub fn mask(name: &str) -> u64 {
    mask_of(name.as_bytes())
}

fn mask_of(name: &[u8]) -> u64 {
    name.iter().fold(0, |mask, byte| {
        mask | match byte.to_ascii_lowercase() {
            letter @ b'a'..=b'z' => 1 << (letter - b'a'),
            digit @ b'0'..=b'9' => 1 << (26 + digit - b'0'),
            b'-' => 1 << 36,
            b'/' => 1 << 37,
            b'.' => 1 << 38,
            _ => 1 << 39,
        }
    })
}

fn cost_of(name: &[u8], word: &[u8]) -> Option<u32> {
    if name.len() < word.len() {
        return None;
    }
    if name.eq_ignore_ascii_case(word) {
        return Some(0);
    }
    let mut within = None;
    for at in 0..=name.len() - word.len() {
        if !name[at..at + word.len()].eq_ignore_ascii_case(word) {
            continue;
        }
        let begins = at == 0 || !name[at - 1].is_ascii_alphanumeric();
        let place = (at as u32).min(CLASS - 1);
        if begins {
            return Some(if at == 0 { CLASS } else { 2 * CLASS + place });
        }
        within = within.or(Some(3 * CLASS + place));
    }
    within.or_else(|| scattered(name, word))
}

/// The letters in order, with gaps between them.
fn scattered(name: &[u8], word: &[u8]) -> Option<u32> {
    let mut cost = 4 * CLASS;
    let mut at = 0;
    for (nth, wanted) in word.iter().enumerate() {
        let gap = name[at..]
            .iter()
            .position(|byte| byte.eq_ignore_ascii_case(wanted))?;
        at += gap + 1;
        // A letter that starts a part of the name costs nothing extra.
        let begins = at < 2 || !name[at - 2].is_ascii_alphanumeric();
        if nth > 0 && gap > 0 {
            cost += if begins { 5 } else { 20 + gap as u32 };
        }
    }
    Some(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(query: &str, names: &[&str]) -> Vec<String> {
        let query = FuzzyQuery::new(query);
        let mut found: Vec<(u32, &str)> = names
            .iter()
            .filter(|name| query.may_match(mask(name)))
            .filter_map(|name| Some((query.cost(name)?, *name)))
            .collect();
        found.sort_unstable();
        found.iter().map(|(_, name)| (*name).to_owned()).collect()
    }

    #[test]
    fn the_nearer_comes_first() {
        assert_eq!(
            best(
                "job",
                &["j-o-b", "big-job", "objob", "jobs", "job", "nodes"]
            ),
            ["job", "jobs", "big-job", "objob", "j-o-b"]
        );
        assert_eq!(
            best("l70", &["nlp/llm-70b-sft", "vision/clip-l", "l4-serve-70"])[0],
            "l4-serve-70"
        );
    }

    #[test]
    fn every_word_counts_and_case_does_not() {
        assert_eq!(
            best("LLM sft", &["nlp/llm-70b-sft", "nlp/llm-70b"]),
            ["nlp/llm-70b-sft"]
        );
        assert!(best("zz", &["nodes"]).is_empty());
        assert_eq!(best("", &["b", "a"]).len(), 2);
    }

    #[test]
    fn a_mask_never_hides_a_match() {
        for name in ["A100-17/gpu3", "nlp/llm.70b", "größe_x"] {
            for word in ["a1", "17/g", "l.7", "ö", "_x"] {
                let query = FuzzyQuery::new(word);
                assert!(
                    query.may_match(mask(name)) || query.cost(name).is_none(),
                    "{word} in {name}"
                );
            }
        }
    }
}
