//! Pictures of an object, for the room that its table and its facts leave: curves of its last hour, its devices in order, quota to
//! scale, times ahead. Each says in its border what it shows; where nothing is known it says so.

mod cost;
mod drawing;
mod objects;
mod waiting;

use ratatui::layout::Rect;

use super::describe::{Description, Line, draw_columns, draw_panel};
use crate::painter::Painter;
use crate::widget::panel::panel;
use model::base::Moment;
use model::fleet::history::Track;
use table::Facts;
use table::role::Role;

pub use cost::of_days;
pub use objects::{of_selection, of_sources};
pub use waiting::of_queue;

/// What a picture shows, in words at the left and right of its border, and the drawing itself.
pub struct ObjectPicture {
    pub title: String,
    pub note: String,
    pub drawing: Drawing,
}

/// The kinds of pictures.
pub enum Drawing {
    Curve(Curve),
    Sparks(Vec<SparkLine>),
    /// A column for each share, 0 to 1, in this order; the words of the whole and of nothing.
    Columns(Vec<(f64, Role)>, [String; 2]),
    /// Lines of text, of which the last ones are shown.
    Text(Vec<String>),
    /// Lines as a page has them.
    Lines(Vec<Line>),
    /// A column for each day, made of the amounts of several; see [`Stack`].
    Stack(Stack),
    /// What is used, free and asked, to scale.
    Scales(Vec<AmountScale>),
    /// Times ahead, and the last moment of the axis.
    Times(Vec<TimeSpan>, Moment),
    /// A line for each device, with a sign for each of its parts; then what the signs are.
    Parts(Vec<(String, Vec<TeamPart>)>, Vec<PartKey>),
}

/// What a sign for parts of devices means: whose they are and how many, then how many of each size where the sizes are known.
pub struct PartKey {
    pub part: TeamPart,
    pub words: String,
    pub sizes: String,
}

/// A line of a track: its name, the track, the value that is the most, and words for now.
pub type SparkLine = (String, Track, f32, String);

/// A track over the span of history.
pub struct Curve {
    pub track: Track,
    pub role: Role,
    /// What a value of the track is multiplied by to be the amount of `words`.
    pub scale: f32,
    pub words: fn(f32) -> String,
    /// An amount that it is held against.
    pub limit: Option<f32>,
    /// Its present value, with which it ends: the last sample may be older. `None`: with that.
    pub now: Option<f32>,
}

/// Money by day: a column for each day, made of the teams' parts.
pub struct Stack {
    /// Of each day its label and the parts, in the order of `teams`; `None` where nothing was observed.
    pub days: Vec<(String, Option<Vec<f64>>)>,
    /// Whose the parts are: the sign, the name, and what each cost in all of the days.
    pub teams: Vec<(TeamPart, String, String)>,
    /// A budget's part of a day.
    pub limit: Option<f64>,
}

/// Devices of a quota or of nodes, in one unit: what is used, free and asked for.
pub struct AmountScale {
    pub name: String,
    pub own: f64,
    pub borrowed: f64,
    pub free: f64,
    pub asked: f64,
    pub words: String,
}

/// A time ahead: exactly, or between two others.
pub struct TimeSpan {
    pub name: String,
    /// The earliest, the expected and the latest moment.
    pub times: [Moment; 3],
    pub words: String,
    pub role: Role,
}

/// A part of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TeamPart {
    /// Allocated to the team of this place in [`TeamLetters`](crate::widget::team_letters::TeamLetters).
    Team(usize),
    /// Allocated to one of the teams that have no line in the legend.
    Others,
    NoTeam,
    /// Allocated to several teams.
    Several,
    Free,
    /// Allocated to no pod, but a new pod cannot use it: [`Unusable`](model::fleet::pool::Unusable).
    Unusable,
    Fault,
    /// It may be free or another's: not all pods are visible.
    Unknown,
}

/// Least lines of a picture with its border.
pub const LEAST: u16 = 6;
/// Most lines of a curve with its border: a higher one says no more.
const MOST: u16 = 18;
/// Most lines of a stack with its border: a higher one tells smaller amounts apart.
const MOST_OF_STACK: u16 = 30;
/// Lines of times that a picture asks for at most.
const MOST_TIMES: usize = 16;
/// Least columns of a picture with its border.
const NARROWEST: u16 = 56;

impl ObjectPicture {
    pub fn new(title: impl Into<String>, note: impl Into<String>, drawing: Drawing) -> Self {
        Self {
            title: title.into(),
            note: note.into(),
            drawing,
        }
    }

    /// True for what is read best over the whole width.
    fn is_wide(&self) -> bool {
        match &self.drawing {
            Drawing::Stack(_) | Drawing::Text(_) => true,
            Drawing::Parts(rows, _) => rows.len() > 16,
            _ => false,
        }
    }

    /// Lines with its border that it can fill.
    fn height(&self, width: u16) -> u16 {
        let lines = match &self.drawing {
            Drawing::Curve(_) | Drawing::Columns(..) => return MOST,
            Drawing::Stack(_) => return MOST_OF_STACK,
            // One line is enough where that is all there is.
            Drawing::Text(rows) => return (rows.len() + 2) as u16,
            Drawing::Lines(rows) => return (rows.len() + 2) as u16,
            Drawing::Sparks(rows) => rows.len() + 1,
            Drawing::Scales(rows) => rows.len() * 3,
            Drawing::Times(rows, _) => rows.len().min(MOST_TIMES) + 1,
            Drawing::Parts(rows, legend) => {
                drawing::part_lines(rows, width) + legend.len().div_ceil(3)
            }
        };
        u16::try_from(lines + 2).unwrap_or(u16::MAX).max(LEAST)
    }
}

/// Draws what is known of an object, and below it the pictures that `make` gives, where there is room for both.
pub fn draw_under(
    facts: &Facts,
    painter: &mut Painter<'_>,
    area: Rect,
    mut known: Description,
    make: impl FnOnce() -> Vec<ObjectPicture>,
) {
    let mut lines = lines_of(painter, area.width, &known);
    let pictures = match area.height >= lines.saturating_add(LEAST) {
        true => make(),
        false => Vec::new(),
    };
    if !pictures.is_empty() {
        // The curves show the past at length.
        known.lines.retain(|line| !matches!(line, Line::Past(..)));
        lines = lines_of(painter, area.width, &known);
    }
    let height = area.height.min(lines);
    draw_panel(painter, Rect { height, ..area }, &known, false);
    let y = area.y + height;
    let height = area.height - height;
    let all: Vec<&ObjectPicture> = pictures.iter().collect();
    draw(facts, painter, Rect { y, height, ..area }, &all);
}

/// Lines that a description takes with its border.
fn lines_of(painter: &mut Painter<'_>, width: u16, known: &Description) -> u16 {
    let none = Rect::new(0, 0, width.saturating_sub(4), 0);
    draw_columns(painter, none, &known.lines).saturating_add(2)
}

/// Draws as many of the pictures as the area has room for, the first ones first: the wide ones have lines of their own.
pub fn draw(facts: &Facts, painter: &mut Painter<'_>, area: Rect, pictures: &[&ObjectPicture]) {
    if area.height < LEAST || area.width < NARROWEST {
        return;
    }
    let mut rows: Vec<&[&ObjectPicture]> = Vec::new();
    for run in pictures.chunk_by(|one, other| one.is_wide() == other.is_wide()) {
        let columns = match (run[0].is_wide(), run.len()) {
            (true, _) | (_, 1) => 1,
            (_, 2 | 4) => 2,
            _ => 3,
        };
        rows.extend(run.chunks(columns.min(usize::from(area.width / NARROWEST))));
    }
    rows.truncate(usize::from(area.height / LEAST));
    let wants = |row: &[&ObjectPicture]| {
        row.iter()
            .map(|it| it.height(area.width))
            .max()
            .unwrap_or(LEAST)
    };
    let mut y = area.y;
    for (at, row) in rows.iter().enumerate() {
        let left = area.bottom() - y;
        // What is lower than its part leaves the rest to those below.
        let below: u16 = rows[at + 1..].iter().map(|row| wants(row)).sum();
        let even = left / (rows.len() - at) as u16;
        let height = wants(row).min(even.max(left.saturating_sub(below)));
        let width = area.width / row.len() as u16;
        for (place, picture) in row.iter().enumerate() {
            let x = area.x + width * place as u16;
            let last = place + 1 == row.len();
            let width = if last { area.right() - x } else { width };
            let frame = Rect::new(x, y, width, height);
            let inside = panel(painter, frame, &picture.title, &picture.note);
            drawing::draw(facts, painter, inside, &picture.drawing);
        }
        y += height;
    }
}
