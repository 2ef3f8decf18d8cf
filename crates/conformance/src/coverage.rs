//! What the cases stand for: the reference page section by section, the needs of
//! users row by row, and the runtime's statuses number by number.
//!
//! A line names cases by id, or a whole group of them by a prefix that ends with
//! a slash. A line that no case can stand for says why.

mod needs;
mod page;
mod statuses;

pub use needs::NEEDS;
pub use page::PAGE;
pub use statuses::STATUSES;

/// One thing that is laid down somewhere.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Clause {
    /// The section, row or number.
    pub place: &'static str,
    /// What it says.
    pub says: &'static str,
    /// What stands for it.
    pub shown: Shown,
}

/// What stands for a clause.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Shown {
    /// Cases, or groups of cases.
    By(&'static [&'static str]),
    /// No case, for this reason.
    Elsewhere(&'static str),
}

impl Clause {
    const fn by(place: &'static str, says: &'static str, cases: &'static [&'static str]) -> Self {
        Self {
            place,
            says,
            shown: Shown::By(cases),
        }
    }

    const fn elsewhere(place: &'static str, says: &'static str, because: &'static str) -> Self {
        Self {
            place,
            says,
            shown: Shown::Elsewhere(because),
        }
    }
}

#[cfg(test)]
mod tests {
    use metaneff_binding::testing::Fake;

    use super::*;
    use crate::{cases, order_cases};

    const SECTIONS: &[&str] = &[
        "1", "2", "2.1", "2.2", "2.3", "3", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "5", "6",
        "7", "8", "9", "10",
    ];

    fn ids() -> Vec<&'static str> {
        let order = order_cases();
        let mut ids: Vec<_> = cases::<Fake>().iter().map(|case| case.id).collect();
        ids.extend(order.iter().map(|case| case.id));
        ids
    }

    #[test]
    fn every_line_names_cases_that_there_are() {
        let ids = ids();
        let stands = |name: &str| {
            let mut ids = ids.iter();
            match name.ends_with('/') {
                true => ids.any(|id| id.starts_with(name)),
                false => ids.any(|id| *id == name),
            }
        };
        let mut wrong = Vec::new();
        for clause in PAGE.iter().chain(NEEDS).chain(STATUSES) {
            match clause.shown {
                Shown::By([]) => wrong.push(format!("{}: no case", clause.place)),
                Shown::By(names) => {
                    let absent = names.iter().filter(|name| !stands(name));
                    wrong.extend(absent.map(|name| format!("{}: `{name}`", clause.place)));
                }
                Shown::Elsewhere(because) => assert!(!because.is_empty(), "{}", clause.place),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_group_of_cases_stands_for_something() {
        let mut idle: Vec<_> = ids().iter().filter_map(|id| id.split('/').next()).collect();
        idle.dedup();
        for clause in PAGE.iter().chain(NEEDS).chain(STATUSES) {
            if let Shown::By(names) = clause.shown {
                idle.retain(|group| {
                    !names
                        .iter()
                        .any(|name| name.split('/').next() == Some(group))
                });
            }
        }
        assert!(idle.is_empty(), "{idle:?}");
    }

    #[test]
    fn every_section_of_the_page_is_there() {
        for section in SECTIONS {
            assert!(
                PAGE.iter().any(|clause| clause.place == *section),
                "{section}"
            );
        }
        for clause in PAGE {
            assert!(SECTIONS.contains(&clause.place), "{}", clause.place);
        }
    }

    #[test]
    fn every_row_of_loading_and_contracts_is_there() {
        let rows: Vec<_> = NEEDS.iter().map(|clause| clause.place).collect();
        let rows_of = (1..=70).chain([121, 122, 123, 126]);
        let expected: Vec<_> = rows_of.map(|row: u32| row.to_string()).collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn every_status_is_there() {
        let found: Vec<_> = STATUSES.iter().map(|clause| clause.place).collect();
        let expected: Vec<_> = metaneff_schema::nrt::Status::ALL
            .iter()
            .map(|status| status.name().unwrap())
            .collect();
        assert_eq!(found, expected);
    }

    /// Sections and rows that a source names, each as it stands there.
    fn cited(source: &str) -> (Vec<&str>, Vec<&str>) {
        let (mut sections, mut rows) = (Vec::new(), Vec::new());
        for part in source.split(';').map(str::trim) {
            if let Some(place) = part.strip_prefix("page ") {
                sections.push(place.split(',').next().unwrap_or_default());
            }
            let several = part.strip_prefix("user needs ");
            let listed = several.or_else(|| part.strip_prefix("user need "));
            if let Some(listed) = listed {
                let words = listed.split([',', ' ']).filter(|word| !word.is_empty());
                let numbers = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
                let before = rows.len();
                rows.extend(numbers);
                if rows.len() == before {
                    rows.push(listed);
                }
            }
        }
        (sections, rows)
    }

    /// Whether a source names nothing, a section or a row that there is not, or
    /// a file that readers of this repository do not have.
    fn is_wrong(source: &str) -> bool {
        const ROWS: u32 = 133;
        let (sections, rows) = cited(source);
        let row = |text: &&str| text.parse().is_ok_and(|row: u32| (1..=ROWS).contains(&row));
        source.is_empty()
            || source.contains(".md")
            || !sections.iter().all(|section| SECTIONS.contains(section))
            || !rows.iter().all(row)
    }

    #[test]
    fn what_a_case_names_as_its_source_is_a_section_that_there_is() {
        let order = order_cases();
        let of_order = order.iter().map(|case| (case.id, case.shows, case.source));
        let generic = cases::<Fake>();
        let all = generic
            .iter()
            .map(|case| (case.id, case.shows, case.source));
        let wrong: Vec<_> = all
            .chain(of_order)
            .filter(|(_, shows, source)| shows.is_empty() || is_wrong(source))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_source_that_there_is_not_is_noticed() {
        for right in [
            "page 2.1, keys; user need 58, counters",
            "user needs 4, 43",
            "nrt.h",
        ] {
            assert!(!is_wrong(right), "{right}");
        }
        for wrong in [
            "",
            "page 4.7",
            "page 8; page 11, x",
            "user need 0",
            "user needs 5 and 134",
            "user need x",
            "facts.md",
        ] {
            assert!(is_wrong(wrong), "{wrong}");
        }
    }
}
