//! Statistics of every instruction, and where two modes begin to differ.

use std::path::Path;

use metaneff_hlo::corpus::{Case, first_change, first_difference, trace_case};
use metaneff_hlo::options::{Denormals, DotRounding, ExecuteOptions};
use metaneff_hlo::{Executable, Module};

use crate::build::{f32, of};

fn case(name: &str) -> Case {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    Case::open(&corpus.join(name)).expect("a case of the corpus")
}

#[test]
fn every_instruction_has_statistics() {
    let entries = trace_case(&case("layer__softmax__f32"), &ExecuteOptions::default()).unwrap();
    let opcodes: Vec<&str> = entries.iter().map(|entry| entry.opcode.as_str()).collect();
    for opcode in ["parameter", "reduce", "exponential", "divide"] {
        assert!(opcodes.contains(&opcode), "{opcodes:?}");
    }
    let steps: Vec<u64> = entries.iter().map(|entry| entry.step).collect();
    assert_eq!(steps, (0..entries.len() as u64).collect::<Vec<_>>());
    let last = entries.last().unwrap();
    assert_eq!(
        (last.shape.as_str(), last.nan, last.infinite),
        ("f32[4,16]", 0, 0)
    );
    // Each row of a softmax sums to one.
    let mean = last.mean.unwrap();
    assert!((mean - 1.0 / 16.0).abs() < 1e-6, "{mean}");
}

#[test]
fn the_first_product_shows_its_operands_rounding() {
    let case = case("layer__attention__f32");
    let exact = ExecuteOptions::default();
    let mut rounded = ExecuteOptions::default();
    rounded.dot_rounding = DotRounding::Bf16;
    let difference = first_difference(&case, &exact, &rounded, 0.0)
        .unwrap()
        .unwrap();
    assert_eq!(difference.left, difference.right);
    assert_eq!(difference.left.opcode, "dot");
    let entries = trace_case(&case, &exact).unwrap();
    let first = entries.iter().find(|entry| entry.opcode == "dot").unwrap();
    assert_eq!(
        (difference.step, &*difference.left.instruction),
        (first.step, &*first.instruction)
    );
    let values = difference.values.unwrap();
    assert!(values.differing > 0 && values.differing <= values.elements);
    assert!(
        values.largest > 1e-6 && values.largest < 0.1,
        "{}",
        values.largest
    );
    // The operands' rounding is below one part in a hundred everywhere.
    assert_eq!(
        first_difference(&case, &exact, &rounded, 0.05).unwrap(),
        None
    );
    assert_eq!(first_difference(&case, &exact, &exact, 0.0).unwrap(), None);
}

#[test]
fn differences_name_elements() {
    let proto = of("add", &[f32(&[3]), f32(&[3])], f32(&[3]));
    let executable = Executable::new(Module::verify(&proto).unwrap());
    let input: Vec<u8> = [1.0_f32, 1e-40, 2.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let zero = [0_u8; 12];
    let kept = ExecuteOptions::default();
    let mut flushed = ExecuteOptions::default();
    flushed.denormals = Denormals::FlushToZero;
    let inputs: [&[u8]; 2] = [&input, &zero];
    let difference = executable
        .first_difference(&inputs, &kept, &flushed, 0.0)
        .unwrap()
        .unwrap();
    assert_eq!(difference.left.instruction, "root");
    let values = difference.values.unwrap();
    assert_eq!(
        (
            values.array,
            values.element,
            values.differing,
            values.elements
        ),
        (0, 1, 1, 3)
    );
    assert_eq!((values.left as f32, values.right), (1e-40, 0.0));
    // An execution that fails says why.
    let mut limited = ExecuteOptions::default();
    limited.step_budget = Some(1);
    let error = executable
        .first_difference(&inputs, &kept, &limited, 0.0)
        .unwrap_err();
    assert!(error.to_string().contains("budget of 1"), "{error}");
}

#[test]
fn a_trace_shows_what_has_changed_since_another() {
    let case = case("layer__attention__f32");
    let exact = ExecuteOptions::default();
    let mut rounded = ExecuteOptions::default();
    rounded.dot_rounding = DotRounding::Bf16;
    let golden = trace_case(&case, &exact).unwrap();
    assert_eq!(first_change(&golden, &golden), None);
    let found = trace_case(&case, &rounded).unwrap();
    let first = golden.iter().position(|entry| entry.opcode == "dot");
    assert_eq!(first_change(&golden, &found), first);
    assert_eq!(first_change(&golden, &golden[..3]), Some(3));
}
