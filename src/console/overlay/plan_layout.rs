//! Layout of a plan's parts in its dialog, and which parts are visible.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::screen::Screen;
use crate::text::{self, counted};
use crate::view::describe::{Line, draw_lines};
use crate::widget::cell::words;
use crate::widget::panel::{centred, up_to};
use crate::widget::table::{TableLook, table, wrapped};
use model::plan::Plan;
use table::cell::{Cell, Value};
use table::column::{Align, ColumnHead, Width};
use table::plan_steps::CommonPhrases;
use table::role::Role;

use super::plan::Dialog;
use super::plan_pictures::{self, PictureLine, PlanPictures, SIDE};
use super::plan_sum::sum;
use super::plan_words::{about, cells, common, rows};

const STEPS: &[ColumnHead] = &[
    ColumnHead::new("STEP", Align::Left, Width::Cut(10, 24), 0),
    ColumnHead::new("OBJECT", Align::Left, Width::Cut(14, 60), 0),
    ColumnHead::new("DEVICES", Align::Right, Width::Fit(7), 2),
    ColumnHead::new("WORK LOST", Align::Right, Width::Fit(9), 1),
    ColumnHead::new("COST", Align::Right, Width::Fit(4), 3),
    ColumnHead::new("HOW", Align::Left, Width::Cut(16, 120), 4),
];

/// Indent of a step's details below the step, cells.
const INDENT: u16 = 3;

/// From this width on, pictures are beside a plan that does not fit as a whole.
const BESIDE_FROM: u16 = 150;
/// From this width on, they are below its other parts otherwise.
const BELOW_FROM: u16 = 100;

/// A part that scrolls as a unit.
enum PlanBlock {
    /// The summary of the plan.
    Sum,
    /// Effects, checks and alternatives.
    About,
    /// These lines of the steps, below their column titles.
    Steps(Range<usize>),
    /// The number of steps further below.
    More(usize),
    /// Who loses work, and drained nodes.
    Pictures,
    Gap,
}

/// The lines of the steps.
struct StepLines<'a> {
    heads: Vec<ColumnHead>,
    rows: Vec<Vec<Cell<'a>>>,
    /// Text of a line without cells: the details of the step above.
    under: Vec<Option<String>>,
    /// The number of steps completed once a line is read.
    steps_done: Vec<usize>,
    widest: Vec<u16>,
}

/// The parts of a plan, in a frame.
pub(super) struct PlanExtent<'a> {
    pub(super) frame: Rect,
    pub(super) fields: u16,
    steps: StepLines<'a>,
    sum: Vec<Line>,
    about: Vec<Line>,
    pictures: Vec<PictureLine>,
    /// Pictures at the right of all other parts, which do not scroll.
    side: Vec<PictureLine>,
    /// Heights of the summary and of the details, lines.
    high: (usize, usize),
    parts: Vec<PlanBlock>,
}

impl<'a> PlanExtent<'a> {
    pub(super) fn of(dialog: &Dialog, plan: &'a Plan, screen: &'a dyn Screen, area: Rect) -> Self {
        let pictures = PlanPictures::of(plan, screen.facts());
        let mut extent = Self::whole(dialog, plan, screen, area, up_to(160, area.width));
        let all = extent.steps.rows.len();
        if all + 2 + extent.high.1 <= extent.visible_rows() {
            extent.parts = vec![PlanBlock::Steps(0..all), PlanBlock::Gap];
            // A picture takes lines that the plan leaves free, and no others.
            let spare = usize::from(area.height - extent.frame.height).saturating_sub(1);
            let width = usize::from(extent.frame.width.saturating_sub(4));
            let has_side = area.width >= extent.frame.width + SIDE;
            if has_side && pictures.lines(width).len() > spare {
                extent.side = pictures.beside(extent.visible_rows());
                let (width, height) = (extent.frame.width + SIDE, extent.frame.height);
                extent.frame = centred(area, width, height);
            } else {
                extent.pictures = pictures.fitting(width, spare);
            }
            if !extent.pictures.is_empty() {
                let height = extent.frame.height + extent.pictures.len() as u16 + 1;
                extent.frame = centred(area, extent.frame.width, height);
                extent.parts.extend([PlanBlock::Pictures, PlanBlock::Gap]);
            }
            extent.parts.push(PlanBlock::About);
            return extent;
        }
        // Not everything fits: the summary first, then as many steps as fit, then the rest.
        if area.width >= BESIDE_FROM && !pictures.beside(1).is_empty() {
            let width = up_to(160, area.width - SIDE);
            extent = Self::whole(dialog, plan, screen, area, width);
            extent.frame = centred(area, width + SIDE, extent.frame.height);
            extent.side = pictures.beside(extent.visible_rows());
        } else if area.width >= BELOW_FROM {
            extent.pictures = pictures.lines(usize::from(extent.frame.width.saturating_sub(4)));
        }
        let width = extent.width();
        let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut painter = Painter::new(&mut nothing, screen.render_style(), screen.facts().now);
        let under = below_each(&mut painter, kept(plan, &common(plan), screen), width);
        if under.rows.len() < extent.steps.rows.len() {
            extent.steps = under;
        }
        extent.sum = sum(dialog, plan, screen);
        let none = Rect::new(0, 0, width.saturating_sub(4), 0);
        extent.high.0 = draw_lines(&mut painter, none, &extent.sum, 0);
        extent.parts = extent.cut(plan.steps.len());
        extent
    }

    /// The plan without pictures, as wide and as high as it would be drawn.
    fn whole(
        dialog: &Dialog,
        plan: &'a Plan,
        screen: &'a dyn Screen,
        area: Rect,
        width: u16,
    ) -> Self {
        let mut nothing = Buffer::empty(Rect::new(0, 0, 1, 1));
        let mut painter = Painter::new(&mut nothing, screen.render_style(), screen.facts().now);
        let none = Rect::new(0, 0, width.saturating_sub(4), 0);
        let common = common(plan);
        let about = about(dialog, plan, &common, screen, none.width);
        let below = draw_lines(&mut painter, none, &about, 0);
        let steps = beside(&mut painter, kept(plan, &common, screen), width);
        let fields = if dialog.may(screen) { 3 } else { 0 };
        // Titles and steps, blank, details, blank, fields, bottom line, border.
        let wanted = steps.rows.len() + 1 + 1 + below + 1 + usize::from(fields) + 1 + 2;
        let wanted = u16::try_from(wanted).unwrap_or(u16::MAX);
        Self {
            frame: centred(area, width, wanted),
            fields,
            steps,
            sum: Vec::new(),
            about,
            pictures: Vec::new(),
            side: Vec::new(),
            high: (0, below),
            parts: Vec::new(),
        }
    }

    /// The width of the parts that scroll, with their border.
    fn width(&self) -> u16 {
        match self.side.is_empty() {
            true => self.frame.width,
            false => self.frame.width.saturating_sub(SIDE),
        }
    }

    /// The parts where not everything is visible: steps that do not fit come last.
    fn cut(&self, steps: usize) -> Vec<PlanBlock> {
        let mut parts = Vec::new();
        if self.high.0 > 0 {
            parts.extend([PlanBlock::Sum, PlanBlock::Gap]);
        }
        let below = [PlanBlock::Gap, PlanBlock::Pictures];
        let below = below
            .into_iter()
            .take(2 * usize::from(!self.pictures.is_empty()));
        // Besides the summary: a blank, the titles, the count of remaining steps.
        let room = self.visible_rows().saturating_sub(self.high.0 + 3).max(1);
        let all = self.steps.rows.len();
        // A step stays together with its details; at least one step is shown.
        let torn = |at: &usize| {
            (1..all).contains(at) && self.steps.steps_done[*at] == self.steps.steps_done[at - 1]
        };
        let whole = (1..=room.min(all)).rev().find(|at| !torn(at));
        let first = whole.or_else(|| (room..=all).find(|at| !torn(at)));
        let first = first.unwrap_or(all);
        let steps_before = first
            .checked_sub(1)
            .map_or(0, |last| self.steps.steps_done[last]);
        if first >= all || steps_before >= steps {
            parts.extend([PlanBlock::Steps(0..all), PlanBlock::Gap, PlanBlock::About]);
            parts.extend(below);
            return parts;
        }
        parts.extend([
            PlanBlock::Steps(0..first),
            PlanBlock::More(steps - steps_before),
            PlanBlock::Gap,
        ]);
        parts.push(PlanBlock::About);
        parts.extend(below);
        parts.extend([PlanBlock::Gap, PlanBlock::Steps(first..all)]);
        parts
    }

    /// Lines between the border and the fields.
    pub(super) fn visible_rows(&self) -> usize {
        usize::from(self.frame.height.saturating_sub(2 + self.fields + 1))
    }

    /// Lines to scroll until the last one is visible.
    pub(super) fn farthest(&self) -> usize {
        let whole: usize = self.parts.iter().map(|part| self.lines(part)).sum();
        whole.saturating_sub(self.visible_rows())
    }

    fn lines(&self, part: &PlanBlock) -> usize {
        match part {
            PlanBlock::Sum => self.high.0,
            PlanBlock::About => self.high.1,
            PlanBlock::Steps(range) => range.len() + 1,
            PlanBlock::Pictures => self.pictures.len(),
            PlanBlock::More(_) | PlanBlock::Gap => 1,
        }
    }

    /// Draws the visible part at scroll position `skip`.
    pub(super) fn draw(&self, painter: &mut Painter<'_>, body: Rect, skip: usize) {
        let mut above = 0;
        let own = self.width().saturating_sub(4).min(body.width);
        let side = Rect {
            x: body.x + own + 3,
            width: body.width.saturating_sub(own + 3),
            ..body
        };
        plan_pictures::draw(painter, side, &self.side, 0);
        let body = Rect { width: own, ..body };
        for part in &self.parts {
            let high = self.lines(part);
            let from = skip.saturating_sub(above);
            let top = above.saturating_sub(skip);
            above += high;
            let room = usize::from(body.height).saturating_sub(top);
            if from >= high || room == 0 {
                continue;
            }
            let shown = u16::try_from((high - from).min(room)).unwrap_or(body.height);
            let top = u16::try_from(top).unwrap_or(u16::MAX);
            let area = Rect::new(body.x, body.y + top, body.width, shown);
            match part {
                PlanBlock::Gap => {}
                PlanBlock::Sum => {
                    draw_lines(painter, area, &self.sum, from);
                }
                PlanBlock::About => {
                    draw_lines(painter, area, &self.about, from);
                }
                PlanBlock::Pictures => plan_pictures::draw(painter, area, &self.pictures, from),
                PlanBlock::More(steps) => {
                    let words = format!("{} more, at the end", counted(*steps as u64, "step"));
                    painter.text_in_role(area.x, area.y, area.width, &words, Role::Warn);
                }
                PlanBlock::Steps(range) => self.steps.draw(painter, area, range, from),
            }
        }
    }
}

impl StepLines<'_> {
    /// Draws lines of a range; the titles stay visible in place of the first.
    fn draw(&self, painter: &mut Painter<'_>, area: Rect, range: &Range<usize>, from: usize) {
        let first = (range.start + from).min(range.end);
        let last = range
            .end
            .min(first + usize::from(area.height.saturating_sub(1)));
        if first == last && from > 0 {
            return;
        }
        let wide = Rect::new(
            area.x.saturating_sub(2),
            area.y,
            area.width + 2,
            area.height,
        );
        let rows = &self.rows[first..last];
        table(
            painter,
            wide,
            &self.heads,
            &self.widest,
            rows,
            &TableLook::default(),
        );
        for (line, words) in self.under[first..last].iter().enumerate() {
            if let Some(words) = words {
                let y = area.y + 1 + line as u16;
                let room = area.width.saturating_sub(INDENT);
                painter.text_in_role(area.x + INDENT, y, room, words, Role::Muted);
            }
        }
    }
}

/// Columns, the cells of each row, and how many steps are done after each row.
type KeptSteps<'a> = (Vec<ColumnHead>, Vec<Vec<Cell<'a>>>, Vec<usize>);

/// The steps with only the columns that some step uses.
fn kept<'a>(plan: &'a Plan, common: &CommonPhrases, screen: &'a dyn Screen) -> KeptSteps<'a> {
    let rows = rows(plan);
    let ends = rows.iter().map(|row| row.last()).collect();
    let mut rows: Vec<_> = rows
        .iter()
        .map(|row| cells(row, common, screen.facts()))
        .collect();
    let says = |at: usize| rows.iter().any(|row| row[at].value != Value::Empty);
    let kept: Vec<bool> = (0..STEPS.len()).map(says).collect();
    for row in &mut rows {
        let mut kept = kept.iter();
        row.retain(|_| kept.next().is_some_and(|kept| *kept));
    }
    let heads = STEPS.iter().zip(&kept).filter(|(_, kept)| **kept);
    (heads.map(|(head, _)| *head).collect(), rows, ends)
}

/// The steps with details in the last column, wrapped.
fn beside<'a>(
    painter: &mut Painter<'_>,
    (heads, rows, ends): KeptSteps<'a>,
    width: u16,
) -> StepLines<'a> {
    // The table reserves two cells for its edges, which are the border's padding.
    let how = [heads.len().saturating_sub(1)];
    let steps = wrapped(painter, width.saturating_sub(2), &heads, rows, &how);
    let mut step_ends = Vec::new();
    for (lines, end) in steps.rows.iter().zip(ends) {
        step_ends.extend(lines.iter().map(|_| end));
    }
    let rows: Vec<_> = steps.rows.into_iter().flatten().collect();
    StepLines {
        heads,
        under: rows.iter().map(|_| None).collect(),
        rows,
        steps_done: step_ends,
        widest: steps.widest,
    }
}

/// The steps with details below each, over the full width: fewer lines on narrow screens.
fn below_each<'a>(
    painter: &mut Painter<'_>,
    (mut heads, rows, ends): KeptSteps<'a>,
    width: u16,
) -> StepLines<'a> {
    heads.pop();
    let room = usize::from(width.saturating_sub(4 + INDENT));
    let (mut whole, mut ways) = (Vec::new(), Vec::new());
    for mut row in rows {
        let way = row.pop();
        let words = way.map_or_else(String::new, |way| words(&way, painter).into_owned());
        ways.push(text::wrap(&words, room));
        whole.push(row);
    }
    let steps = wrapped(painter, width.saturating_sub(2), &heads, whole, &[]);
    let (mut rows, mut under, mut step_ends) = (Vec::new(), Vec::new(), Vec::new());
    for ((lines, way), end) in steps.rows.into_iter().zip(ways).zip(ends) {
        for line in lines {
            rows.push(line);
            under.push(None);
            step_ends.push(end);
        }
        for words in way.into_iter().filter(|words| !words.is_empty()) {
            rows.push(heads.iter().map(|_| Cell::new(Value::Empty)).collect());
            under.push(Some(words));
            step_ends.push(end);
        }
    }
    StepLines {
        heads,
        rows,
        under,
        steps_done: step_ends,
        widest: steps.widest,
    }
}
