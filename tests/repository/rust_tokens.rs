//! Splits a file of Rust into tokens, as far as counting needs it.

/// A word, a literal or a mark of Rust, and its first line, counted from 0.
#[derive(Clone, Copy)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

pub fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Where the string literal ends that begins at `start` with letters, `#` and a quote; `None` where there is none.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let prefix = bytes[start..]
        .iter()
        .take_while(|byte| b"bcr".contains(byte));
    let prefix = prefix.count();
    let is_raw = bytes[start..start + prefix].contains(&b'r');
    let fences = bytes[start + prefix..].iter();
    let fences = fences.take_while(|byte| is_raw && **byte == b'#').count();
    let mut at = start + prefix + fences;
    if prefix > 2 || bytes.get(at) != Some(&b'"') {
        return None;
    }
    at += 1;
    while at < bytes.len() {
        let fence = bytes.get(at + 1..at + 1 + fences);
        match bytes[at] {
            b'\\' if !is_raw => at += 1,
            b'"' if fence.is_some_and(|fence| fence.iter().all(|byte| *byte == b'#')) => {
                return Some(at + 1 + fences);
            }
            _ => {}
        }
        at += 1;
    }
    Some(bytes.len())
}

/// Where the token ends that begins with a quote at `start`: a character, or a lifetime.
fn quote_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes.get(start + 1) == Some(&b'\\') {
        let close = bytes.iter().skip(start + 3).position(|byte| *byte == b'\'');
        return close.map_or(bytes.len(), |close| start + 4 + close);
    }
    let width = text[start + 1..].chars().next().map_or(0, char::len_utf8);
    if bytes.get(start + 1 + width) == Some(&b'\'') {
        return start + 2 + width;
    }
    let word = bytes[start + 1..].iter().take_while(|byte| is_word(**byte));
    start + 1 + word.count()
}

/// Where the comment ends that begins at `start`; `None` where none does.
fn comment_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = &bytes[start..];
    if rest.starts_with(b"//") {
        let line = rest.iter().position(|byte| *byte == b'\n');
        return Some(start + line.unwrap_or(rest.len()));
    }
    if !rest.starts_with(b"/*") {
        return None;
    }
    let (mut at, mut depth) = (start + 2, 1);
    while depth > 0 && at < bytes.len() {
        let step: (i32, usize) = match &bytes[at..] {
            [b'/', b'*', ..] => (1, 2),
            [b'*', b'/', ..] => (-1, 2),
            _ => (0, 1),
        };
        depth += step.0;
        at += step.1;
    }
    Some(at)
}

/// The tokens of a file, without comments.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut out, mut at, mut line) = (Vec::with_capacity(text.len() / 5), 0, 0);
    while at < bytes.len() {
        if bytes[at].is_ascii_whitespace() {
            line += usize::from(bytes[at] == b'\n');
            at += 1;
            continue;
        }
        let comment = comment_end(bytes, at);
        let end = comment.or_else(|| string_end(bytes, at));
        let end = end.unwrap_or_else(|| match bytes[at] {
            b'\'' => quote_end(text, at),
            b':' if bytes.get(at + 1) == Some(&b':') => at + 2,
            byte if is_word(byte) => {
                at + bytes[at..]
                    .iter()
                    .take_while(|byte| is_word(**byte))
                    .count()
            }
            _ => at + 1,
        });
        let text = &text[at..end];
        if comment.is_none() {
            out.push(Token { text, line });
        }
        line += text.bytes().filter(|byte| *byte == b'\n').count();
        at = end;
    }
    out
}

/// The place of the mark that closes what opens at `open`.
pub fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// The last token of the item, field, arm or expression that begins at `start`.
pub fn item_end(tokens: &[Token], start: usize) -> usize {
    let mut at = start;
    while at < tokens.len() {
        match tokens[at].text {
            "(" | "[" => at = closing(tokens, at),
            "{" => {
                let end = closing(tokens, at);
                let comma = tokens.get(end + 1).is_some_and(|next| next.text == ",");
                return end + usize::from(comma);
            }
            ";" | "," => return at,
            ")" | "]" | "}" => return at - 1,
            _ => {}
        }
        at += 1;
    }
    tokens.len() - 1
}

/// Whether a token is a word: a keyword or a name.
pub fn is_name(token: &Token) -> bool {
    token.text.bytes().next().is_some_and(is_word)
}
