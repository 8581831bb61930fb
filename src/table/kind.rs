//! The names of a kind of rows, the exporters that it needs, and the output formats.

use serde_json::Value;

use model::fleet::observe::Table;
use model::schema::SchemaHead;

use super::navigation::ViewId;

/// The description in the JSON Schema of most kinds: how to read their values.
pub const UNKNOWN_IS_NULL: &str =
    "Unknown is null, never 0; units are in the names; times are RFC 3339.";

/// The names of a kind, on the command line and in its JSON Schema.
#[derive(Debug)]
pub struct KindNames {
    /// On the command line: `pools`.
    pub plural: &'static str,
    /// Singular, as in `pool/NAME`: `pool`.
    pub singular: &'static str,
    /// Other names on the command line.
    pub aliases: &'static [&'static str],
    /// Its line of help.
    pub help: &'static str,
    /// Title of its schema.
    pub title: &'static str,
    /// Description of its schema, true for every field.
    pub description: &'static str,
    /// Derives the schema of its rows.
    pub schema: fn(SchemaHead) -> Value,
}

impl KindNames {
    /// The JSON Schema of its rows.
    pub fn schema(&self) -> Value {
        (self.schema)(SchemaHead {
            name: self.plural,
            title: self.title,
            description: self.description,
        })
    }
}

/// How the console opens and draws the rows of a kind. Its words, its command, its key and its view follow from it.
#[derive(Clone, Copy, Debug)]
pub struct KindView {
    /// The tab that it is, or that it is opened under.
    pub tab: ViewId,
    /// What it shows, in one phrase; `None` for a tab, which says that itself.
    pub doc: Option<&'static str>,
    /// The key that opens it, as key files write it. A tab is opened by its digit.
    pub key: Option<&'static str>,
    /// Names in the palette beside those on the command line: those of k9s.
    pub words: &'static [&'static str],
    /// With all that is known of the object under the cursor below the table.
    pub has_facts: bool,
    /// Its rows can be kept to those of a namespace.
    pub by_namespace: bool,
}

impl KindView {
    /// The view that a digit opens.
    pub const fn tab(tab: ViewId) -> Self {
        Self {
            tab,
            doc: None,
            key: None,
            words: &[],
            has_facts: false,
            by_namespace: false,
        }
    }

    /// Opened under the tab of another kind.
    pub const fn under(tab: ViewId, doc: &'static str) -> Self {
        Self {
            doc: Some(doc),
            ..Self::tab(tab)
        }
    }

    model::setters! {
        /// Sets the key that opens it.
        pub key(key: &'static str) key = Some(key);
        /// Sets its other names in the palette.
        pub words(words: &'static [&'static str]) words = words;
        /// Shows the facts of the object under the cursor.
        pub with_facts() has_facts = true;
        /// Lets its rows be kept to those of a namespace, with `RowScope::Kind`.
        pub by_namespace() by_namespace = true;
    }
}

/// The parts of a `get` command that decide which exporters are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GetRequest {
    pub format: Format,
    /// True when the command names objects.
    pub is_named: bool,
    /// True when a filter, the order or a chosen column uses a reading.
    pub uses_readings: bool,
}

impl GetRequest {
    /// The exporters to read for a kind whose names are known without them: `named` when objects are named, `DevicesUnknown` for
    /// `-o name`, otherwise all.
    pub fn exporters(self, named: Exporters) -> Exporters {
        match (self.is_named, self.format) {
            (false, Format::Name) if !self.uses_readings => Exporters::DevicesUnknown,
            (false, _) => Exporters::All,
            (true, _) => named,
        }
    }
}

/// Which exporters an answer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exporters {
    /// Exporters of nodes whose Kubernetes objects do not name their device model. All other values are known without exporters.
    DevicesUnknown,
    /// As `DevicesUnknown`, and exporters of nodes with sliced devices: the cost of a slice depends on the other slices of its device.
    Priced,
    /// As `DevicesUnknown`, and exporters of the nodes that the rows are about.
    OfRows,
    All,
}

/// True for every table but those of queueing rules and of autoscalers.
pub fn is_needed_for_jobs(table: Table) -> bool {
    !table.holds_rules() && !table.holds_scaling()
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    Table,
    Wide,
    /// A JSON array of objects.
    Json,
    /// The same as YAML.
    Yaml,
    /// CSV: one line a row; nested fields are columns such as `nodes.total`.
    Csv,
    /// `KIND/NAME`, one line a row.
    Name,
    /// The query's template applied to the rows.
    Template,
}
