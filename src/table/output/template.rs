//! `-o jsonpath=…`: kubectl's templates over rows. Each path is translated into RFC 9535 and evaluated by a crate; a path
//! that cannot be translated, or that names a field that rows do not have, is refused with the reason.
//!
//! ```text
//! {.items[*].name}                                    all names, a space between them
//! {range .items[*]}{.name}{"\t"}{.node}{"\n"}{end}    a line a row
//! {.items[?(@.state=="waiting")].name}                those that wait
//! {.name}                                             of one object: get KIND NAME
//! $[*].name                                           without braces: RFC 9535 on the array that -o json prints
//! ```

use jsonpath_rust::JsonPath;
use jsonpath_rust::parser::parse_json_path;
use model::base::document::nearest;
use model::base::name::printable_lines;
use model::value::escaped;
use serde_json::{Value, json};

use super::fields;
use crate::Kind;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    parts: Vec<TemplatePart>,
    /// True when some path starts at the object itself: exactly one object must be named.
    of_one: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum TemplatePart {
    Text(String),
    /// The values at a path.
    Path(Path),
    Range(Path, Vec<TemplatePart>),
}

/// A path in RFC 9535, and its starting point.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Path {
    query: String,
    from: From,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    /// The list of rows, as kubectl's `{"items": […]}`.
    List,
    /// The array printed by `-o json`.
    Array,
    /// The named object, or the current value of a range.
    Here,
}

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TemplateStep {
    Field(String),
    /// The translated content of brackets.
    Index(String),
    Deep,
}

/// What a path starts from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Answer,
    Row,
    /// A value whose fields are not known in advance.
    Other,
}

impl Template {
    /// Parses a template for rows of a kind.
    ///
    /// # Errors
    /// The template cannot be translated; the text says why.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let wrong = |why: String| format!("-o jsonpath: {why}");
        let read = if text.contains('{') {
            TemplateParser::new(kind, text).parts(At::Answer, false)
        } else if text.trim().is_empty() {
            Err("an empty template; write {.items[*].name}".to_owned())
        } else if text.trim_start().starts_with('$') {
            let query = text.trim().to_owned();
            let from = match kind {
                Kind::Fleet => From::Here,
                _ => From::Array,
            };
            checked(&query).map(|()| vec![TemplatePart::Path(Path { query, from })])
        } else {
            // kubectl's relaxed form.
            TemplateParser::new(kind, "")
                .path(text.trim(), At::Answer)
                .map(|(path, _)| vec![TemplatePart::Path(path)])
        };
        let parts = read.map_err(wrong)?;
        let of_one = |part: &TemplatePart| match part {
            TemplatePart::Path(path) | TemplatePart::Range(path, _) => path.from == From::Here,
            TemplatePart::Text(_) => false,
        };
        Ok(Self {
            of_one: kind != Kind::Fleet && parts.iter().any(of_one),
            parts,
        })
    }

    /// True when exactly one object must be named, because a path starts at it.
    pub const fn is_of_one(&self) -> bool {
        self.of_one
    }

    /// Applies the template to rows given as JSON.
    ///
    /// # Errors
    /// The template is for one object, and there are more or none.
    pub fn render<'a>(&self, rows: impl Iterator<Item = &'a str>) -> Result<String, String> {
        let rows: Vec<Value> = rows
            .map(|row| serde_json::from_str(row).expect("rows are serialized by us"))
            .collect();
        let here = match rows.as_slice() {
            [one] => one.clone(),
            all if self.of_one => {
                return Err(format!(
                    "-o jsonpath: a path begins at one object, and there are {}: write {{.items[*]…}} or give a name that only one has",
                    all.len()
                ));
            }
            _ => Value::Null,
        };
        let roots = Roots {
            list: json!({ "items": rows }),
            here,
        };
        let mut out = String::new();
        for part in &self.parts {
            part.write(&roots, &roots.here, &mut out)?;
        }
        Ok(out)
    }
}

struct Roots {
    list: Value,
    here: Value,
}

impl TemplatePart {
    fn write(&self, roots: &Roots, here: &Value, out: &mut String) -> Result<(), String> {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Path(path) => {
                let found = path.values(roots, here)?;
                let words: Vec<String> = found.into_iter().map(words).collect();
                out.push_str(&words.join(" "));
            }
            Self::Range(path, parts) => {
                for value in path.values(roots, here)? {
                    for part in parts {
                        part.write(roots, value, out)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Path {
    fn values<'v>(&self, roots: &'v Roots, here: &'v Value) -> Result<Vec<&'v Value>, String> {
        let root = match self.from {
            From::List => &roots.list,
            From::Array => &roots.list["items"],
            From::Here => here,
        };
        root.query(&self.query)
            .map_err(|error| format!("-o jsonpath: {}: {error}", self.query))
    }
}

/// A value as kubectl prints it: strings bare, the rest as JSON. An unknown value is `null`.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => printable_lines(text).into_owned(),
        other => escaped(other.to_string()),
    }
}

/// Rejects anything that is not valid RFC 9535.
fn checked(query: &str) -> Result<(), String> {
    match parse_json_path(query) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("`{query}` is not understood (RFC 9535)")),
    }
}

/// A parser of templates.
struct TemplateParser<'t> {
    kind: Kind,
    rest: &'t str,
}

impl<'t> TemplateParser<'t> {
    const fn new(kind: Kind, rest: &'t str) -> Self {
        Self { kind, rest }
    }

    /// Parses parts up to the `{end}` of a range, or up to the end of the text.
    fn parts(&mut self, at: At, in_range: bool) -> Result<Vec<TemplatePart>, String> {
        let mut parts = Vec::new();
        loop {
            let (text, rest) = match self.rest.find('{') {
                Some(begin) => (&self.rest[..begin], Some(&self.rest[begin + 1..])),
                None => (self.rest, None),
            };
            if !text.is_empty() {
                parts.push(TemplatePart::Text(text.to_owned()));
            }
            let Some(rest) = rest else {
                self.rest = "";
                return match in_range {
                    true => Err("{range …} has no {end}".to_owned()),
                    false => Ok(parts),
                };
            };
            let end = closing(rest).ok_or("a { is not closed")?;
            let inside = rest[..end].trim();
            self.rest = &rest[end + 1..];
            if inside == "end" {
                return match in_range {
                    true => Ok(parts),
                    false => Err("{end} without {range …}".to_owned()),
                };
            }
            if let Some(path) = inside.strip_prefix("range ") {
                let (path, to) = self.path(path.trim(), at)?;
                let within = self.parts(to, true)?;
                parts.push(TemplatePart::Range(path, within));
            } else if inside.starts_with(['"', '\'']) {
                parts.push(TemplatePart::Text(literal(inside)?));
            } else {
                let (path, _) = self.path(inside, at)?;
                parts.push(TemplatePart::Path(path));
            }
        }
    }

    /// Parses a path; returns it with what it leads to.
    fn path(&self, text: &str, at: At) -> Result<(Path, At), String> {
        let absolute = text.starts_with('$');
        let bare = text.strip_prefix(['$', '@']).unwrap_or(text);
        let at = if absolute { At::Answer } else { at };
        if !(bare.starts_with(['.', '[']) || bare.is_empty()) {
            return Err(format!("`{text}`: a path begins with a dot: {{.{text}}}"));
        }
        let mut steps = steps(bare)?;
        let listed = steps.first() == Some(&TemplateStep::Field("items".to_owned()))
            || steps.first() == Some(&TemplateStep::Deep);
        let mut from = From::Here;
        let mut now = at;
        if at == At::Answer && self.kind != Kind::Fleet {
            if listed || steps.is_empty() {
                from = From::List;
            } else {
                now = At::Row;
            }
        } else if self.kind == Kind::Fleet {
            now = At::Other;
        }
        let mut walked = 0;
        if now == At::Answer {
            // `.items` followed by one index leads to a row.
            now = match steps.get(1) {
                Some(TemplateStep::Index(_)) if steps[0] != TemplateStep::Deep => {
                    walked = 2;
                    At::Row
                }
                _ => At::Other,
            };
        }
        if now == At::Row && walked < steps.len() {
            self.known(&mut steps, walked)?;
            now = At::Other;
        }
        let query: String = steps.iter().map(written).collect();
        let query = format!("${query}");
        checked(&query)?;
        Ok((Path { query, from }, now))
    }

    /// Rejects a field that rows do not have. `metadata.name` and `metadata.namespace` map to `name` and `namespace`.
    fn known(&self, steps: &mut Vec<TemplateStep>, at: usize) -> Result<(), String> {
        let all = fields(self.kind);
        let top = |name: &str| {
            let mut heads = all
                .iter()
                .map(|field| field.split('.').next().unwrap_or(field));
            heads.any(|head| head == name)
        };
        let (first, second) = match (steps.get(at), steps.get(at + 1)) {
            (Some(TemplateStep::Field(first)), second) => (first, second),
            // Quoted names are names, not paths.
            (Some(TemplateStep::Index(inside)), _) if inside.starts_with(['\'', '"']) => {
                let names = inside
                    .split(',')
                    .map(|name| name.trim().trim_matches(['\'', '"']));
                let unknown = names
                    .filter(|name| !top(name))
                    .map(|name| self.unknown(name));
                return unknown.map(Err).next().unwrap_or(Ok(()));
            }
            _ => return Ok(()),
        };
        if first == "metadata" && !top("metadata") {
            match second {
                Some(TemplateStep::Field(name)) if top(name) => {
                    steps.remove(at);
                    return Ok(());
                }
                Some(TemplateStep::Field(name)) if name == "name" && top("id") => {
                    steps.splice(at..at + 2, [TemplateStep::Field("id".to_owned())]);
                    return Ok(());
                }
                Some(TemplateStep::Field(name)) if name == "labels" => {
                    return Err("rows have no labels: -l selects by them".to_owned());
                }
                _ => {}
            }
        }
        if top(first) {
            return Ok(());
        }
        Err(self.unknown(first))
    }

    /// The message for a field that rows do not have.
    fn unknown(&self, first: &str) -> String {
        let all = fields(self.kind);
        let mut heads: Vec<&str> = all
            .iter()
            .map(|field| field.split('.').next().unwrap_or(field))
            .collect();
        heads.dedup();
        let near = nearest(first, heads.iter().copied());
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        format!(
            "no field `{first}` in {}{near}; fields: {}",
            self.kind.name(),
            heads.join(", ")
        )
    }
}

fn written(step: &TemplateStep) -> String {
    match step {
        TemplateStep::Field(name) => {
            format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        TemplateStep::Index(inside) => format!("[{inside}]"),
        TemplateStep::Deep => "..".to_owned(),
    }
}

/// Position of the closing brace, outside quotes.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '}') => return Some(at),
            _ => {}
        }
    }
    None
}

/// A quoted text with its escapes resolved.
fn literal(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}`: a text has one pair of quotes");
    let quote = text.chars().next().unwrap_or('"');
    let inside = text
        .strip_prefix(quote)
        .and_then(|rest| rest.strip_suffix(quote))
        .ok_or_else(wrong)?;
    let mut out = String::new();
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some(c @ ('\\' | '"' | '\'' | '/')) => c,
                _ => return Err(format!("`{text}`: escapes are \\n \\t \\r \\\\ and quotes")),
            }),
            c if c == quote => return Err(wrong()),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Parses the steps of a path that starts with a dot or a bracket.
fn steps(text: &str) -> Result<Vec<TemplateStep>, String> {
    let mut all = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            all.push(TemplateStep::Deep);
            // After `..` a name or a bracket follows directly.
            rest = after;
            if rest.starts_with('[') {
                continue;
            }
        } else if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            // kubectl accepts `.[0]` as well.
            if rest.starts_with('[') || rest.is_empty() {
                continue;
            }
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = bracket(after).ok_or_else(|| format!("`{text}`: a [ is not closed"))?;
            all.push(index(after[..end].trim())?);
            rest = &after[end + 1..];
            continue;
        } else {
            return Err(format!("`{text}`: `{rest}` is not understood"));
        }
        let (name, after) = field(rest);
        match name.as_str() {
            "" => return Err(format!("`{text}`: a name is missing behind a dot")),
            "*" => all.push(TemplateStep::Index("*".to_owned())),
            _ => all.push(TemplateStep::Field(name)),
        }
        rest = after;
    }
    Ok(all)
}

/// A name up to a dot, a bracket or a space; `\.` is a literal dot.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                if let Some((_, c)) = chars.next() {
                    name.push(c);
                }
            }
            '.' | '[' | ' ' | ')' | '=' | '!' | '<' | '>' => return (name, &text[at..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// Position of the closing bracket, outside quotes and nested brackets.
fn bracket(text: &str) -> Option<usize> {
    let (mut quote, mut depth) = (None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Parses the content of brackets: an index, a slice, names, `*` or a filter.
fn index(inside: &str) -> Result<TemplateStep, String> {
    let Some(filter) = inside.strip_prefix('?') else {
        return Ok(TemplateStep::Index(inside.to_owned()));
    };
    // Names in a filter are translated like those of a path; quoted text is kept.
    let mut out = String::from("?");
    let mut rest = filter.trim();
    while let Some(c) = rest.chars().next() {
        match c {
            '"' | '\'' => {
                let end = rest[1..]
                    .find(c)
                    .ok_or_else(|| format!("`{inside}`: a quote is not closed"))?;
                out.push_str(&rest[..end + 2]);
                rest = &rest[end + 2..];
            }
            '@' | '$' => {
                out.push(c);
                rest = &rest[1..];
                let mut path = rest;
                while path.starts_with(['.', '[']) {
                    path = match path.strip_prefix('[') {
                        Some(after) => &after[bracket(after).ok_or("a [ is not closed")? + 1..],
                        None => field(&path[1..]).1,
                    };
                }
                let walked = steps(&rest[..rest.len() - path.len()])?;
                out.extend(walked.iter().map(written));
                rest = path;
            }
            c => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    Ok(TemplateStep::Index(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [&str; 2] = [
        r#"{"name":"a-1","pool":"a","ready":true,"zone":null,"devices":{"total":8,"free":2}}"#,
        r#"{"name":"b-1","pool":"b","ready":false,"zone":"z\u001b","devices":{"total":4,"free":4}}"#,
    ];

    fn of(text: &str) -> String {
        let template = Template::parse(Kind::Nodes, text).unwrap_or_else(|why| panic!("{why}"));
        template
            .render(ROWS.into_iter())
            .unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn kubectls_templates_are_translated() {
        for (text, wanted) in [
            ("{.items[*].name}", "a-1 b-1"),
            (".items[*].name", "a-1 b-1"),
            ("{.items[*].metadata.name}", "a-1 b-1"),
            ("{.items[0].devices.total}", "8"),
            ("{.items[*]['name','pool']}", "a-1 b-1 a b"),
            ("{..total}", "8 4"),
            ("{.items[?(@.pool==\"b\")].name}", "b-1"),
            ("{.items[?(@.devices.free<3)].name}", "a-1"),
            ("{.items[?(@.ready==true)].name}", "a-1"),
            ("n: {.items[0].zone}", "n: null"),
            (
                r#"{range .items[*]}{.name}{"\t"}{.devices.free}{"\n"}{end}"#,
                "a-1\t2\nb-1\t4\n",
            ),
            ("$[*].name", "a-1 b-1"),
            ("{.items[1].devices}", r#"{"free":4,"total":4}"#),
        ] {
            assert_eq!(of(text), wanted, "{text}");
        }
        assert!(!of("{.items[1].zone}").contains('\u{1b}'));
    }

    #[test]
    fn one_object_is_its_own_root() {
        let template =
            Template::parse(Kind::Nodes, "{.name} {.devices.total}").expect("understood");
        assert!(template.is_of_one());
        assert_eq!(
            template.render([ROWS[0]].into_iter()).expect("one"),
            "a-1 8"
        );
        let refused = template.render(ROWS.into_iter()).expect_err("two");
        assert!(refused.contains("there are 2"), "{refused}");
    }

    #[test]
    fn what_cannot_be_translated_is_refused_with_the_reason() {
        for (text, why) in [
            (
                "{.items[*].status.phase}",
                "no field `status` in nodes; fields: name, pool,",
            ),
            ("{.items[*].nam}", "did you mean `name`?"),
            (
                "{.items[*]['name', 'devices.free']}",
                "no field `devices.free`",
            ),
            ("{.items[*].metadata.labels}", "-l selects by them"),
            ("{name}", "begins with a dot"),
            ("{.items[*]", "a { is not closed"),
            ("{range .items[*]}{.name}", "has no {end}"),
            ("{end}", "{end} without"),
            ("{\"\\q\"}", "escapes are"),
            ("", "an empty template"),
            ("$[", "RFC 9535"),
        ] {
            let refused = Template::parse(Kind::Nodes, text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
