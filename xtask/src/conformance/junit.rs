//! Reports in JUnit's form: a suite a target, a test case a case.

use metaneff_conformance::{Report, Row, Verdict};
use quick_junit::{NonSuccessKind, SerializeError, TestCase, TestCaseStatus, TestSuite};

/// The report as an XML document.
pub(super) fn render(report: &Report) -> Result<String, SerializeError> {
    let mut document = quick_junit::Report::new("metaneff conformance");
    for target in report.targets() {
        let mut suite = TestSuite::new(target);
        let rows = report.rows.iter().filter(|row| row.target == target);
        suite.add_test_cases(rows.map(case));
        document.add_test_suite(suite);
    }
    if !report.stale_expectations.is_empty() {
        let mut suite = TestSuite::new("expectations");
        for stale in &report.stale_expectations {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(stale.as_str());
            suite.add_test_case(TestCase::new("every expectation names a case", status));
        }
        document.add_test_suite(suite);
    }
    document.to_string()
}

fn case(row: &Row) -> TestCase {
    let status = match &row.verdict {
        Verdict::Failed { .. } | Verdict::UnexpectedPass { .. } => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(row.verdict.word());
            status.set_message(row.verdict.reason());
            status
        }
        Verdict::ExpectedFailure { .. } | Verdict::Unsupported { .. } => {
            let mut status = TestCaseStatus::skipped();
            let text = format!("{}: {}", row.verdict.word(), row.verdict.reason());
            status.set_message(text);
            status
        }
        _ => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(row.case, status);
    case.set_classname(row.group());
    case.set_time(row.elapsed);
    case.add_property(("shows", row.shows));
    case.add_property(("source", row.source));
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::html::tests::report;

    #[test]
    fn an_xml_parser_reads_what_was_written() {
        let text = render(&report()).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let root = document.root_element();
        assert_eq!(root.attribute("tests"), Some("6"));
        assert_eq!(root.attribute("failures"), Some("3"));
        let suites: Vec<_> = root
            .children()
            .filter(|node| node.has_tag_name("testsuite"))
            .map(|suite| suite.attribute("name").unwrap())
            .collect();
        assert_eq!(suites, ["sim", "nrt", "expectations"]);
        let failure = document
            .descendants()
            .find(|node| node.has_tag_name("failure"))
            .unwrap();
        assert_eq!(
            failure.attribute("message"),
            Some("expected <1> & \"2\", found '3'")
        );
        let case = failure.parent().unwrap();
        assert_eq!(case.attribute("name"), Some("alpha/one/fails"));
        assert_eq!(case.attribute("classname"), Some("alpha"));
        let skipped = document
            .descendants()
            .find(|node| node.has_tag_name("skipped"))
            .unwrap();
        assert_eq!(
            skipped.attribute("message"),
            Some("unsupported: a device has no such switch")
        );
    }
}
