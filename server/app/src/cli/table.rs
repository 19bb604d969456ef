//! Tables in kubectl's style: no lines, three spaces between columns, upper-case headers.
//!
//! Widths are terminal columns: a wide character counts two, a combining one none.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::console::one_line;

/// Tone of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Normal.
    Plain,
    /// Needs attention.
    Warn,
    /// Failed.
    Bad,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell(pub String, pub Tone);

impl<T: ToString> From<T> for Cell {
    fn from(text: T) -> Self {
        Self(text.to_string(), Tone::Plain)
    }
}

/// Longest text of a cell in a plain table, in terminal columns; a wide table cuts nothing.
const NARROW: usize = 60;
/// Longest text of a last cell, which shifts no other column: a reason has the next step at its end.
const LAST: usize = 600;

/// Table. The last columns may be for wide output only.
#[derive(Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
    wide: bool,
}

impl Table {
    /// Returns a table with these headers; `more` is added if `wide`.
    #[must_use]
    pub fn new(heads: &[&str], more: &[&str], wide: bool) -> Self {
        let heads = heads.iter().chain(if wide { more } else { &[] }).map(ToString::to_string).collect();
        Self { heads, rows: Vec::new(), wide }
    }
    /// Adds a row; cells beyond the headers are dropped.
    pub fn row(&mut self, cells: Vec<Cell>) {
        let most = |at: usize| if at + 1 == self.heads.len() { LAST } else { NARROW };
        let cut = |(at, Cell(text, tone)): (usize, Cell)| Cell(fit(&text, most(at), self.wide), tone);
        let row = cells.into_iter().take(self.heads.len()).enumerate().map(cut).collect();
        self.rows.push(row);
    }
    /// Adds a column, with a cell for each row.
    pub fn column(&mut self, head: &str, cells: Vec<Cell>) {
        self.heads.push(head.to_owned());
        for (row, Cell(text, tone)) in self.rows.iter_mut().zip(cells) {
            row.push(Cell(fit(&text, NARROW, self.wide), tone));
        }
    }
    /// Renders the table, with or without headers and colour.
    #[must_use]
    pub fn render(&self, heads: bool, color: bool) -> String {
        let widths: Vec<usize> = (0..self.heads.len()).map(|i| self.width(i, heads)).collect();
        let mut out = String::new();
        if heads && !self.rows.is_empty() {
            let cells: Vec<Cell> = self.heads.iter().map(Cell::from).collect();
            line(&mut out, &cells, &widths, false);
        }
        for row in &self.rows {
            line(&mut out, row, &widths, color);
        }
        out
    }
    fn width(&self, column: usize, heads: bool) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.0.width());
        let head = if heads { self.heads.get(column).map_or(0, String::len) } else { 0 };
        cells.max().unwrap_or(0).max(head)
    }
}

/// Renders one line without control characters, cut to `most` columns unless the table is wide.
fn fit(text: &str, most: usize, wide: bool) -> String {
    let clean = one_line(text);
    let clean = if clean.is_empty() { "-".to_owned() } else { clean };
    if wide || clean.width() <= most {
        return clean;
    }
    let mut left = most - 1;
    let fits = |c: &char| {
        let width = c.width().unwrap_or(0);
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    clean.chars().take_while(fits).chain(['…']).collect()
}

fn line(out: &mut String, cells: &[Cell], widths: &[usize], color: bool) {
    let mut text = String::new();
    for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let last = i + 1 == cells.len();
        let pad = if last { 0 } else { width.saturating_sub(cell.0.width()) + 3 };
        text.push_str(&paint(&cell.0, cell.1, color));
        text.push_str(&" ".repeat(pad));
    }
    out.push_str(text.trim_end());
    out.push('\n');
}

/// Paints the text in the colour of its tone.
#[must_use]
pub fn paint(text: &str, tone: Tone, color: bool) -> String {
    match (color, tone) {
        (false, _) | (_, Tone::Plain) => text.to_owned(),
        (true, Tone::Warn) => format!("\u{1b}[33m{text}\u{1b}[0m"),
        (true, Tone::Bad) => format!("\u{1b}[31m{text}\u{1b}[0m"),
    }
}

/// Formats an age in its largest sensible unit.
#[must_use]
pub fn age(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_table(wide: bool) -> Table {
        let mut table = Table::new(&["NAME", "STATE"], &["REASON"], wide);
        table.row(vec!["a".into(), Cell("Live".into(), Tone::Plain), "".into()]);
        table.row(vec!["longer".into(), Cell("Stale".into(), Tone::Bad), "x".repeat(70).into()]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(mk_table(false).render(true, false), "NAME     STATE\na        Live\nlonger   Stale\n");
        assert_eq!(mk_table(false).render(false, false), "a        Live\nlonger   Stale\n");
        let wide = mk_table(true).render(true, false);
        assert!(wide.contains("a        Live    -\n") && wide.contains(&"x".repeat(70)), "{wide}");
    }

    #[test]
    fn long_cell_is_cut_if_it_would_shift_columns() {
        let mut table = Table::new(&["WHAT", "WHY"], &[], false);
        table.row(vec!["x".repeat(70).into(), "y".repeat(200).into()]);
        let text = table.render(false, false);
        assert_eq!((text.matches('x').count(), text.matches('y').count()), (NARROW - 1, 200));
    }

    #[test]
    fn wide_characters_count_two_columns() {
        let mut table = Table::new(&["NAME", "STATE"], &[], false);
        table.row(vec!["価格表".into(), "Live".into()]);
        table.row(vec!["e\u{301}".into(), "Live".into()]);
        assert_eq!(table.render(true, false), "NAME     STATE\n価格表   Live\ne\u{301}        Live\n");
        let mut table = Table::new(&["NAME", "STATE"], &[], false);
        table.row(vec!["価".repeat(40).into(), "Live".into()]);
        let cut = format!("{}…", "価".repeat(29));
        assert!(table.render(false, false).starts_with(&cut), "{}", table.render(false, false));
    }

    #[test]
    fn colour_does_not_shift_a_column() {
        let painted = mk_table(true).render(true, true);
        assert_eq!(
            painted.replace("\u{1b}[31m", "").replace("\u{1b}[0m", ""),
            mk_table(true).render(true, false)
        );
    }

    #[test]
    fn control_characters_are_removed_from_cells() {
        let mut table = Table::new(&["ID"], &[], false);
        table.row(vec!["a\u{1b}[2Jb\nc".into()]);
        assert_eq!(table.render(false, false), "a [2Jb c\n");
    }

    #[test]
    fn ages_use_their_largest_unit() {
        let ages: Vec<String> = [5, 61_000, 600_000, 8_000_000, 900_000_000].into_iter().map(age).collect();
        assert_eq!(ages, ["5ms", "61s", "10m", "2h", "10d"]);
    }
}
