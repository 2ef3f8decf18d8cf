//! Text for people: sizes, tables, and names that come from files.

use comfy_table::{CellAlignment, Table, presets};

/// Characters of a name that are shown.
const SHOWN: usize = 120;

/// A size with its unit.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths, rounded down: a size is never said to be larger than it is.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    for unit in UNITS {
        if tenths < 10_240 {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    format!("{bytes} B")
}

/// A number with its thousands apart.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

/// `1 output`, `2 outputs`.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Text with names out of files in it, made safe for a terminal: control
/// characters but the end of a line are escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// A name out of a file, made safe for a terminal: control characters are
/// escaped, and what is very long is cut.
pub(crate) fn shown(name: &str) -> String {
    let start: String = name.chars().take(SHOWN).collect();
    let mut text = printable(&start).replace('\n', "\\n");
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Bytes that are a name, made safe for a terminal.
pub(crate) fn shown_bytes(name: &[u8]) -> String {
    shown(&String::from_utf8_lossy(name))
}

/// A table with a header; columns whose name starts with `#` are numbers and
/// stand to the right.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header.iter().map(|name| name.trim_start_matches('#')));
    for (index, name) in header.iter().enumerate() {
        if name.starts_with('#')
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Lines of `name: value`, their values below each other.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max();
    // Lists that stand one below the other are aligned.
    let width = width.unwrap_or_default().max(8);
    let lines = rows
        .iter()
        .map(|(name, value)| format!("  {name:width$}  {value}\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_down() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1024), "1.0 KiB");
        assert_eq!(size(1024 * 1024 - 1), "1023.9 KiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(size(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1_000");
        assert_eq!(count(12_345_678), "12_345_678");
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(shown("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(shown("größe"), "größe");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), SHOWN + 1);
    }
}
