//! A frame as plain text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::text;

use super::App;

/// One frame as plain text: for pipes, logs and tests. Lines have no trailing blanks.
pub fn render_text(app: &App, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    app.draw(area, &mut buf);
    buffer_text(&buf)
}

/// One frame without the hint line, for output that takes no keys.
pub fn printed_text(app: &App, width: u16, height: u16) -> String {
    let frame = render_text(app, width, height);
    let lines: Vec<&str> = frame.lines().collect();
    let kept = lines.len().saturating_sub(1);
    format!("{}\n", lines[..kept].join("\n").trim_end())
}

/// The symbols of a buffer as text, line by line.
pub fn buffer_text(buf: &Buffer) -> String {
    let mut out = String::with_capacity(buf.content.len() + usize::from(buf.area.height));
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut skip = 0;
        for x in buf.area.left()..buf.area.right() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buf[(x, y)].symbol();
            skip = text::width(symbol).saturating_sub(1);
            line.push_str(symbol);
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
