//! Reports for a terminal.

use comfy_table::Table;
use metaneff_conformance::{Case, Report, Tally, Verdict};

/// The cases, what they show, and where that is laid down.
pub(super) fn list<A, B>(generic: &[Case<A>], order: &[Case<B>]) -> String {
    let mut table = new(["case", "shows", "source", "set-up"]);
    for case in generic {
        table.add_row([case.id, case.shows, case.source, &case.setup.to_string()]);
    }
    for case in order {
        table.add_row([case.id, case.shows, case.source, "mock"]);
    }
    format!("{table}\n{} cases", generic.len() + order.len())
}

/// What did not pass, the matrix, and a line for all.
pub(super) fn render(report: &Report, verbose: bool) -> String {
    let mut text = String::new();
    let mut rows = new(["case", "target", "verdict", "µs", "reason"]);
    for row in &report.rows {
        if verbose || row.verdict != Verdict::Passed {
            rows.add_row([
                row.case.to_owned(),
                row.target.to_owned(),
                row.verdict.word().to_owned(),
                row.elapsed.as_micros().to_string(),
                row.verdict.reason().to_owned(),
            ]);
        }
    }
    if rows.row_iter().next().is_some() {
        text.push_str(&format!("{rows}\n"));
    }
    text.push_str(&format!("{}\n", matrix(report)));
    for stale in &report.stale_expectations {
        text.push_str(&format!("{stale}\n"));
    }
    text.push_str(&format!("conformance: {}", report.summary()));
    text
}

fn matrix(report: &Report) -> Table {
    let header = ["group"].into_iter().chain(report.targets());
    let mut table = new(header);
    for (group, cells) in report.matrix() {
        let cells = cells.iter().map(cell);
        table.add_row([group.to_owned()].into_iter().chain(cells));
    }
    table
}

/// `12`, `10/12 (2 FAILED)`, or nothing where the group has no cases.
pub(super) fn cell(tally: &Tally) -> String {
    let total = tally.total();
    if total == 0 {
        return String::new();
    }
    let mut notes = Vec::new();
    for (count, word) in [
        (tally.failed, "FAILED"),
        (tally.expected, "expected"),
        (tally.unsupported, "unsupported"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {word}"));
        }
    }
    if notes.is_empty() {
        return total.to_string();
    }
    format!("{}/{total} ({})", tally.passed, notes.join(", "))
}

fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(header);
    table
}
