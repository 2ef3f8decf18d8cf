//! Modules that XLA's shape inference or verifier refuses.

mod build;
mod invalid;
mod started;
mod valid;

use metaneff_hlo::{Module, Problem, VerifyError};
use metaneff_schema::xla::HloInstructionProto;

use build::*;
use invalid::refused;
use valid::accepted;

#[test]
fn valid_modules_are_accepted() {
    for (name, proto) in accepted() {
        if let Err(error) = Module::verify(&proto) {
            panic!("{name}: {error}");
        }
    }
}

/// What is wrong with a module or a computation as a whole.
const OF_NO_INSTRUCTION: [&str; 7] = [
    "a root that is not there",
    "an entry that is not there",
    "a computation id twice",
    "no computations",
    "a program shape of another parameter",
    "an alias of a missing parameter",
    "an alias of a missing output",
];

#[test]
fn invalid_modules_are_refused() {
    let modules = refused();
    assert!(modules.len() >= 60, "{} modules", modules.len());
    for (name, proto) in modules {
        match Module::verify(&proto) {
            Ok(_) => panic!("{name} is accepted"),
            Err(VerifyError::Decode(error)) => panic!("{name}: {error}"),
            Err(VerifyError::Instruction { site, .. }) => {
                assert!(
                    !site.instruction.is_empty() && !site.computation.is_empty(),
                    "{name}"
                );
                assert!(!OF_NO_INSTRUCTION.contains(&name), "{name}");
            }
            Err(error) => assert!(OF_NO_INSTRUCTION.contains(&name), "{name}: {error}"),
        }
    }
}

#[test]
fn parameters_are_named() {
    for (changed, number, name) in [(1, 2, "p1"), (1, 0, "p1")] {
        let mut proto = vectors("add");
        proto.computations[0].instructions[changed].parameter_number = number;
        match Module::verify(&proto).unwrap_err() {
            VerifyError::Instruction { site, .. } => assert_eq!(
                (&*site.opcode, &*site.instruction, &*site.computation),
                ("parameter", name, "entry")
            ),
            error => panic!("{error}"),
        }
    }
}

#[test]
fn errors_name_what_differs() {
    let proto = of("add", &[f32(&[2]), f32(&[2])], f32(&[3]));
    let error = Module::verify(&proto).unwrap_err();
    let VerifyError::Instruction { site, problem } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (&*site.opcode, &*site.instruction, &*site.computation),
        ("add", "root", "entry")
    );
    assert_eq!(
        *problem,
        Problem::Mismatch {
            what: "shape",
            expected: "f32[2]".into(),
            found: "f32[3]".into()
        }
    );
}

#[test]
fn the_opcode_table_holds() {
    for opcode in metaneff_hlo::OPCODES {
        let error = Module::verify(&of(opcode.name, &[], f32(&[]))).err();
        let problem = error.as_ref().and_then(VerifyError::problem);
        assert_ne!(problem, Some(&Problem::Opcode), "{}", opcode.name);
    }
    // `cargo run -p metaneff-hlo --example opcodes` writes the file.
    assert_eq!(
        metaneff_hlo::opcode_table(),
        include_str!("../../OPCODES.md")
    );
}

#[test]
fn deep_calls_are_refused() {
    let scalar = f32(&[]);
    let mut computations = vec![add(F32)];
    for (depth, first) in (1..200).zip((10_000..).step_by(10_000)) {
        let op = HloInstructionProto {
            opcode: "call".into(),
            shape: Some(scalar.clone()),
            called_computation_ids: vec![computations[depth - 1].id],
            ..HloInstructionProto::default()
        };
        computations.push(computation(
            &format!("c{depth}"),
            first,
            &[scalar.clone(), scalar.clone()],
            op,
        ));
    }
    let error = Module::verify(&module(computations)).unwrap_err();
    let VerifyError::Instruction { site, problem } = &error else {
        panic!("{error}")
    };
    let expected = Problem::Limit {
        what: "depth of calls",
        limit: 128,
        found: 129,
    };
    assert_eq!(*problem, expected);
    // The computation that is called first is no call yet.
    assert_eq!((&*site.instruction, &*site.computation), ("root", "c128"));
}
