//! Reports as one page for a browser, which loads nothing from elsewhere.

use std::fmt::{self, Write as _};

use metaneff_conformance::{Report, Row, Tally, Verdict};

use super::table;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Text that stands for itself in HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The report as a page.
pub(super) fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &Report) -> fmt::Result {
    let verdict = if report.is_success() {
        "passed"
    } else {
        "failed"
    };
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>metaneff conformance: {verdict}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>Conformance <span class=\"badge {verdict}\">{verdict}</span></h1>\n\
         <p>{}</p>\n",
        Escaped(&report.summary())
    )?;
    targets(page, report)?;
    page.push_str("</header>\n<main>\n");
    for stale in &report.stale_expectations {
        writeln!(page, "<p class=\"stale\">{}</p>", Escaped(stale))?;
    }
    matrix(page, report)?;
    failures(page, report)?;
    cases(page, report)?;
    write!(
        page,
        "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// A card a target, with a bar of what its cases came to.
fn targets(page: &mut String, report: &Report) -> fmt::Result {
    page.push_str("<ul class=\"targets\">\n");
    for (target, tally) in report.targets().into_iter().zip(report.tallies()) {
        write!(
            page,
            "<li><b>{}</b> <span>{} of {}</span>\n<div class=\"bar\" role=\"img\" aria-label=\"{}\">",
            Escaped(target),
            tally.passed,
            tally.total(),
            Escaped(&table::cell(&tally)),
        )?;
        for (class, count) in [
            ("passed", tally.passed),
            ("failed", tally.failed),
            ("expected", tally.expected),
            ("unsupported", tally.unsupported),
        ] {
            if count > 0 {
                write!(
                    page,
                    "<i class=\"{class}\" style=\"flex-grow:{count}\"></i>"
                )?;
            }
        }
        page.push_str("</div></li>\n");
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn matrix(page: &mut String, report: &Report) -> fmt::Result {
    page.push_str("<section>\n<h2>Groups</h2>\n<div class=\"scroll\"><table class=\"matrix\">\n<thead><tr><th scope=\"col\">group</th>");
    for target in report.targets() {
        write!(page, "<th scope=\"col\">{}</th>", Escaped(target))?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for (group, cells) in report.matrix() {
        let name = Escaped(group);
        write!(
            page,
            "<tr><th scope=\"row\"><a href=\"#{name}/\">{name}</a></th>"
        )?;
        for tally in &cells {
            let (class, text) = (class(tally), table::cell(tally));
            write!(page, "<td class=\"{class}\">{}</td>", Escaped(&text))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n</section>\n");
    Ok(())
}

/// How a cell of the matrix looks.
fn class(tally: &Tally) -> &'static str {
    if tally.total() == 0 {
        "none"
    } else if tally.failed > 0 {
        "failed"
    } else if tally.expected > 0 {
        "expected"
    } else if tally.passed == 0 {
        "unsupported"
    } else {
        "passed"
    }
}

/// What failed, all of it on view.
fn failures(page: &mut String, report: &Report) -> fmt::Result {
    if report.failures().next().is_none() {
        return Ok(());
    }
    page.push_str("<section id=\"failures\">\n<h2>Failures</h2>\n");
    for row in report.failures() {
        write!(
            page,
            "<details open class=\"failure\"><summary><code>{}</code> on <b>{}</b> \
             <span class=\"badge failed\">{}</span></summary>\n<p>{} <i>({})</i></p>\n\
             <pre>{}</pre></details>\n",
            Escaped(row.case),
            Escaped(row.target),
            row.verdict.word(),
            Escaped(row.shows),
            Escaped(row.source),
            Escaped(row.verdict.reason()),
        )?;
    }
    page.push_str("</section>\n");
    Ok(())
}

/// Every case with its verdict on each target, and a box that filters them.
fn cases(page: &mut String, report: &Report) -> fmt::Result {
    page.push_str(
        "<section>\n<h2>Cases</h2>\n<form role=\"search\" id=\"filter\">\n\
         <input type=\"search\" id=\"text\" placeholder=\"id, what it shows, source, reason\" \
         aria-label=\"filter the cases\" autocomplete=\"off\">\n\
         <label><input type=\"checkbox\" id=\"only\"> not passed everywhere</label>\n\
         <output id=\"count\"></output>\n</form>\n\
         <div class=\"scroll\"><table class=\"cases\" id=\"cases\">\n<thead><tr><th scope=\"col\">case</th><th scope=\"col\">shows</th>\
         <th scope=\"col\">source</th>",
    );
    let targets = report.targets();
    for target in &targets {
        write!(page, "<th scope=\"col\">{}</th>", Escaped(target))?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    let mut seen: Vec<&str> = Vec::new();
    for row in &report.rows {
        if seen.contains(&row.case) {
            continue;
        }
        seen.push(row.case);
        case(page, report, row, &targets)?;
    }
    page.push_str("</tbody></table></div>\n</section>\n");
    Ok(())
}

fn case(page: &mut String, report: &Report, first: &Row, targets: &[&str]) -> fmt::Result {
    let on = |target: &&str| {
        let mut rows = report.rows.iter();
        rows.find(|row| row.case == first.case && row.target == *target)
    };
    let all = targets
        .iter()
        .filter_map(on)
        .all(|row| row.verdict == Verdict::Passed);
    write!(
        page,
        "<tr data-passed=\"{all}\"><th scope=\"row\"><code>{}</code></th><td>{}</td><td class=\"source\">{}</td>",
        Escaped(first.case),
        Escaped(first.shows),
        Escaped(first.source),
    )?;
    for target in targets {
        let Some(row) = on(target) else {
            page.push_str("<td class=\"none\"></td>");
            continue;
        };
        let (class, mark) = match row.verdict {
            Verdict::Passed => ("passed", "✓"),
            Verdict::ExpectedFailure { .. } => ("expected", "expected"),
            Verdict::Unsupported { .. } => ("unsupported", "–"),
            _ => ("failed", "✗"),
        };
        let micros = row.elapsed.as_micros();
        let reason = Escaped(row.verdict.reason());
        let word = row.verdict.word();
        write!(
            page,
            "<td class=\"{class}\" title=\"{word}, {micros} µs\">{mark}",
        )?;
        if !row.verdict.reason().is_empty() {
            write!(page, "<span class=\"reason\">{reason}</span>")?;
        }
        page.push_str("</td>");
    }
    page.push_str("</tr>\n");
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use metaneff_conformance::{Case, Expectation, Outcome};

    use super::*;

    /// Six rows and a stale expectation, one of each kind.
    pub(in crate::conformance) fn report() -> Report {
        let mut report = Report::default();
        let mut add = |id, target, verdict| {
            let case = Case::<()>::new(id, "what <b>holds</b>", "page 5 & header", |()| Ok(()));
            let outcome = Outcome::new(verdict, std::time::Duration::from_micros(1500));
            report.add(&case, target, outcome, &[]);
        };
        let failed = || Verdict::Failed {
            message: "expected <1> & \"2\", found '3'".to_owned(),
        };
        add("alpha/one/passes", "sim", Verdict::Passed);
        add("alpha/one/fails", "sim", failed());
        add("beta/two/passes", "sim", Verdict::Passed);
        add(
            "alpha/one/passes",
            "nrt",
            Verdict::Unsupported {
                because: "a device has no such switch".to_owned(),
            },
        );
        add("alpha/one/fails", "nrt", failed());
        report.hold_to_account::<()>(
            "sim",
            &[],
            &[Expectation::new("sim", "no/such/case", "", "")],
        );
        report
    }

    #[test]
    fn text_is_escaped() {
        let page = render(&report());
        assert!(page.contains("what &lt;b&gt;holds&lt;/b&gt;"));
        assert!(page.contains("expected &lt;1&gt; &amp; &quot;2&quot;, found &#39;3&#39;"));
        assert!(!page.contains("<b>holds"));
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let page = render(&report());
        for word in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
    }

    /// The names that Chromium goes by.
    const BROWSERS: &[&str] = &[
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "headless_shell",
    ];

    /// The page's elements after its script ran, at this fragment.
    fn shown(browser: &str, page: &std::path::Path, fragment: &str) -> String {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("file://{}#{fragment}", page.display()))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_browser_shows_and_filters_the_cases() {
        let runs = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        let Some(browser) = BROWSERS.iter().find(runs) else {
            println!("skipped: none of {BROWSERS:?} is installed");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        std::fs::write(&path, render(&report())).unwrap();
        let rows = |dom: &str| {
            let table = dom.split("id=\"cases\"").nth(1).unwrap();
            let body = table.split("<tbody>").nth(1).unwrap();
            let body = body.split("</tbody>").next().unwrap().to_owned();
            let all = body.matches("<tr").count();
            (all - body.matches("hidden=").count(), all)
        };
        let dom = shown(browser, &path, "");
        assert_eq!(rows(&dom), (3, 3));
        assert!(dom.contains(">3 of 3 cases</output>"), "{dom}");
        assert!(dom.contains("<details open"));
        assert!(!dom.contains("data-error"));
        assert_eq!(rows(&shown(browser, &path, "beta")), (1, 3));
        assert_eq!(rows(&shown(browser, &path, "EXPECTED%20%3C1%3E")), (1, 3));
        assert_eq!(rows(&shown(browser, &path, "nothing-like-it")), (0, 3));
    }
}
