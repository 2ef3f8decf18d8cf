//! Every case of the corpus, at its tolerance.
#![cfg(feature = "corpus")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use metaneff_hlo::array::Array;
use metaneff_hlo::corpus::{Case, Tolerance, Verdict, run_case};
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};

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
    assert!(passed >= 300 || !filter.is_empty(), "only {passed}");
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

/// Where someone looks at every value, no chain of instructions is fused.
#[test]
fn fusion_changes_no_bit() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut compared = 0;
    for case in Case::all(&root).unwrap() {
        if case.inputs.len() != 1 {
            continue;
        }
        let executable = Executable::new(Module::parse(case.module().unwrap()).unwrap());
        let inputs: Vec<Array> = case.inputs[0]
            .iter()
            .map(|tensor| case.array(tensor).unwrap())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
        for options in [ExecuteOptions::default(), ExecuteOptions::as_xla()] {
            let fused = executable.execute(&inputs, &options).unwrap();
            let mut events = 0;
            let single = executable
                .execute_traced(&inputs, &options, &mut |_| events += 1)
                .unwrap();
            // Instructions that nothing uses are left out, with all that they call.
            assert!(fused.steps <= single.steps, "{}", case.name);
            for (fused, single) in fused.outputs.iter().zip(&single.outputs) {
                assert!(fused.bytes() == single.bytes(), "{}", case.name);
            }
            compared += events;
        }
    }
    assert!(compared > 1000, "only {compared}");
}
