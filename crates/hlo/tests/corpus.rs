//! Every case of the corpus, at its tolerance.
#![cfg(feature = "corpus")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use metaneff_hlo::corpus::{Case, Tolerance, Verdict, run_case};
use metaneff_hlo::options::ExecuteOptions;

/// The project's cases, and the larger collection if it lies beside the project.
fn roots() -> BTreeSet<PathBuf> {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .ancestors()
        .skip(2)
        .flat_map(|folder| [folder.join("corpus"), folder.join("shared/corpus")])
        .filter_map(|folder| folder.canonicalize().ok())
        .collect()
}

#[test]
fn cases_pass() {
    let filter = std::env::var("METANEFF_CORPUS_FILTER").unwrap_or_default();
    let options = ExecuteOptions::as_xla();
    let mut failures = Vec::new();
    let mut passed = 0;
    for root in roots() {
        for case in Case::all(&root).unwrap() {
            if !case.name.contains(&filter) {
                continue;
            }
            let outcome = run_case(&case, &options);
            match outcome.verdict {
                Verdict::Passed => passed += 1,
                verdict => failures.push(format!(
                    "{verdict:?} {}: {}",
                    case.name,
                    outcome.reason.unwrap_or_default()
                )),
            }
        }
    }
    println!("{passed} passed, {} failed", failures.len());
    assert!(
        failures.is_empty(),
        "{} failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Categories of operations that move data, compare or convert.
const EXACT: [&str; 10] = [
    "bitcast_convert",
    "compare",
    "convert",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "shape",
    "sort",
    "ternary",
    "topk",
];

#[test]
fn integers_and_movement_are_exact() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut exact = 0;
    for case in Case::all(&root).unwrap() {
        let integers = case.outputs[0]
            .iter()
            .all(|output| output.dtype.starts_with(['s', 'u', 'p']));
        let exempt = matches!(case.tolerance, Tolerance::Range { .. });
        if (integers || EXACT.contains(&&*case.category)) && !exempt {
            assert_eq!(case.tolerance, Tolerance::Exact, "{}", case.name);
            exact += 1;
        }
    }
    assert!(exact > 100, "only {exact}");
}
