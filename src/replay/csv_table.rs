//! CSV as published: columns by header; each error has its file, line, column and repair.

use csv::{ReaderBuilder, StringRecord};

use model::base::document::{DocumentFault, nearest};

/// A table with a header.
pub struct CsvTable<'a> {
    place: &'a str,
    header: Vec<String>,
    rows: Vec<(u64, StringRecord)>,
}

/// A column, found by its title.
#[derive(Clone, Copy, Debug)]
pub struct CsvColumn {
    at: usize,
    title: &'static str,
}

/// One row of a table.
#[derive(Clone, Copy)]
pub struct CsvRow<'s> {
    place: &'s str,
    line: u64,
    record: &'s StringRecord,
}

impl<'a> CsvTable<'a> {
    /// Reads a table; `place` names its file in faults.
    ///
    /// # Errors
    /// No header, no row, text that is not UTF-8, or a row with more or fewer fields than the header.
    pub fn read(text: &[u8], place: &'a str) -> Result<Self, DocumentFault> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text);
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| {
                let line = error.position().map(|position| position.line() as usize);
                let what = match error.kind() {
                    csv::ErrorKind::Utf8 { .. } => "is not UTF-8; save it as UTF-8".to_owned(),
                    _ => error.to_string(),
                };
                DocumentFault::new(place, "", what).at_line(line)
            })?;
            // Skip a blank line at the end.
            if record.iter().all(|field| field.trim().is_empty()) {
                continue;
            }
            let line = record.position().map_or(0, csv::Position::line);
            rows.push((line, record));
        }
        if rows.is_empty() {
            return Err(DocumentFault::new(
                place,
                "",
                "is empty; it needs a header and rows",
            ));
        }
        let (_, header) = rows.remove(0);
        let header: Vec<String> = header.iter().map(|title| title.trim().to_owned()).collect();
        if rows.is_empty() {
            return Err(DocumentFault::new(place, "", "has a header and no row"));
        }
        let sheet = Self {
            place,
            header,
            rows,
        };
        for (line, record) in &sheet.rows {
            if record.len() != sheet.header.len() {
                let message = format!(
                    "has {} fields where the header has {}",
                    record.len(),
                    sheet.header.len()
                );
                return Err(DocumentFault::new(place, "", message).at_line(Some(*line as usize)));
            }
        }
        Ok(sheet)
    }

    /// The column with a title.
    ///
    /// # Errors
    /// No column has the title, or two have it.
    pub fn column(&self, title: &'static str) -> Result<CsvColumn, DocumentFault> {
        self.optional(title)?.ok_or_else(|| {
            let titles = self.header.iter().map(String::as_str);
            let mend = match nearest(title, titles) {
                Some(near) => format!("the header has no such column; is it `{near}`?"),
                None => format!(
                    "the header has no such column; it has {}",
                    self.header.join(", ")
                ),
            };
            DocumentFault::new(self.place, title, mend).at_line(Some(1))
        })
    }

    /// The column with a title, if it exists.
    ///
    /// # Errors
    /// Two columns have the title.
    pub fn optional(&self, title: &'static str) -> Result<Option<CsvColumn>, DocumentFault> {
        let mut found = self
            .header
            .iter()
            .enumerate()
            .filter(|(_, name)| *name == title);
        let first = found.next();
        if found.next().is_some() {
            return Err(
                DocumentFault::new(self.place, title, "the header has this column twice")
                    .at_line(Some(1)),
            );
        }
        Ok(first.map(|(at, _)| CsvColumn { at, title }))
    }

    /// The rows under the header, in the order of the file.
    pub fn rows(&self) -> impl Iterator<Item = CsvRow<'_>> {
        self.rows.iter().map(|(line, record)| CsvRow {
            place: self.place,
            line: *line,
            record,
        })
    }

    /// Number of rows under the header.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

impl<'s> CsvRow<'s> {
    /// Text of a field, without surrounding blanks.
    pub fn text(&self, column: CsvColumn) -> &'s str {
        self.record.get(column.at).unwrap_or_default().trim()
    }

    /// A whole number from 0 to `most`; `4.0` is accepted, since some tools write it.
    ///
    /// # Errors
    /// The field is empty, not a number, negative, not whole, or above `most`.
    pub fn whole(&self, column: CsvColumn, most: i64) -> Result<i64, DocumentFault> {
        let thousandths = self.thousandths(column, most)?;
        if thousandths % 1_000 != 0 {
            return Err(self.fault(column, "must be a whole number"));
        }
        Ok(thousandths / 1_000)
    }

    /// A number from 0 to `most`, in thousandths; further digits are truncated.
    ///
    /// # Errors
    /// The field is empty, not a number, negative, or above `most`.
    pub fn thousandths(&self, column: CsvColumn, most: i64) -> Result<i64, DocumentFault> {
        let text = self.text(column);
        if text.is_empty() {
            return Err(self.fault(column, "is empty; give a number"));
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
            return Err(self.fault(column, "must be a number, 0 or more"));
        }
        let whole: i64 = if whole.is_empty() {
            0
        } else {
            whole.parse().unwrap_or(i64::MAX)
        };
        if whole > most {
            return Err(self.fault(column, &format!("is above the maximum, {most}")));
        }
        let cut: String = fraction.chars().chain("000".chars()).take(3).collect();
        Ok(whole * 1_000 + cut.parse::<i64>().unwrap_or(0))
    }

    /// A fault of one field.
    pub fn fault(&self, column: CsvColumn, message: &str) -> DocumentFault {
        let shown: String = self.text(column).chars().take(40).collect();
        let message = if shown.is_empty() {
            message.to_owned()
        } else {
            format!("`{shown}` {message}")
        };
        DocumentFault::new(self.place, column.title, message).at_line(Some(self.line as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        let read = || -> Result<i64, DocumentFault> {
            let sheet = CsvTable::read(text.as_bytes(), "a.csv")?;
            let gpu = sheet.column("gpu")?;
            sheet.rows().map(|row| row.whole(gpu, 100)).sum()
        };
        read().expect_err(text).to_string()
    }

    #[test]
    fn a_mistake_names_file_line_column_and_mend() {
        for (text, expected) in [
            ("", "a.csv: is empty; it needs a header and rows"),
            ("sn,gpu\n", "a.csv: has a header and no row"),
            (
                "sn,gpus\nx,1\n",
                "a.csv:1: gpu: the header has no such column; is it `gpus`?",
            ),
            (
                "a,b\nx,1\n",
                "a.csv:1: gpu: the header has no such column; it has a, b",
            ),
            (
                "gpu,gpu\n1,1\n",
                "a.csv:1: gpu: the header has this column twice",
            ),
            (
                "sn,gpu\nx,1\ny\n",
                "a.csv:3: has 1 fields where the header has 2",
            ),
            ("sn,gpu\nx,1\ny,\n", "a.csv:3: gpu: is empty; give a number"),
            (
                "sn,gpu\nx,two\n",
                "a.csv:2: gpu: `two` must be a number, 0 or more",
            ),
            (
                "sn,gpu\nx,-1\n",
                "a.csv:2: gpu: `-1` must be a number, 0 or more",
            ),
            (
                "sn,gpu\nx,1.5\n",
                "a.csv:2: gpu: `1.5` must be a whole number",
            ),
            (
                "sn,gpu\nx,101\n",
                "a.csv:2: gpu: `101` is above the maximum, 100",
            ),
            (
                "sn,gpu\nx,99999999999999999999\n",
                "a.csv:2: gpu: `99999999999999999999` is above the maximum, 100",
            ),
        ] {
            assert_eq!(fault(text), expected);
        }
        let latin = CsvTable::read(b"sn,gpu\n\xe9,1\n", "a.csv");
        let message = latin.err().map(|fault| fault.to_string());
        assert_eq!(
            message.as_deref(),
            Some("a.csv:2: is not UTF-8; save it as UTF-8")
        );
    }

    #[test]
    fn marks_carriage_returns_and_blank_lines_do_no_harm() {
        let text = "\u{feff}sn,gpu\r\n x , 2.0\r\n\r\n\"y,z\",3\r\n\r\n";
        let sheet = CsvTable::read(text.as_bytes(), "a.csv").expect("is right");
        let (sn, gpu) = (
            sheet.column("sn").expect("is there"),
            sheet.column("gpu").expect("is there"),
        );
        let rows: Vec<_> = sheet
            .rows()
            .map(|row| (row.text(sn), row.whole(gpu, 8).expect("is right")))
            .collect();
        assert_eq!(rows, [("x", 2), ("y,z", 3)]);
    }
}
