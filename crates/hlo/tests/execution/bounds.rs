//! Modules that ask for too much.

use metaneff_hlo::error::ExecuteError;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module, Problem};
use metaneff_schema::xla::{HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto};

use crate::build::{F32, array, calling, computation, f32, module, tuple, with};
use crate::{execute, f32s};

/// `f_n(x) = f_{n-1}(f_{n-1}(x))`, so that calls double: the first negates.
fn doubling(depth: i64) -> HloModuleProto {
    let scalar = f32(&[]);
    let parameter = std::slice::from_ref(&scalar);
    let negate = HloInstructionProto {
        opcode: "negate".into(),
        shape: Some(scalar.clone()),
        ..HloInstructionProto::default()
    };
    let mut computations = vec![computation("f0", 0, parameter, negate)];
    for level in 1..depth {
        let first = level * 10;
        let call = |id, operand| HloInstructionProto {
            name: format!("call{id}"),
            opcode: "call".into(),
            shape: Some(scalar.clone()),
            id,
            operand_ids: vec![operand],
            called_computation_ids: vec![first - 10],
            ..HloInstructionProto::default()
        };
        let mut caller = computation("f", first, parameter, call(0, first));
        caller.instructions.push(call(first + 2, first + 1));
        caller.root_id = first + 2;
        computations.push(caller);
    }
    module(computations)
}

#[test]
fn calls_that_double_end_with_the_budget() {
    // Of a depth that verification takes, on a thread of a usual stack.
    let executable = Executable::new(Module::verify(&doubling(120)).unwrap());
    let mut options = ExecuteOptions::default();
    options.step_budget = Some(100_000);
    let error = executable.execute(&[&[0; 4]], &options).unwrap_err();
    assert!(
        matches!(
            &error,
            ExecuteError::StepBudget {
                budget: 100_000,
                ..
            }
        ),
        "{error}"
    );
    // Few calls are all executed: 2^4 negations.
    let execution = execute(
        &doubling(5),
        &[f32s(&[], &[3.0])],
        &ExecuteOptions::default(),
    )
    .unwrap();
    assert_eq!(execution.outputs[0].values::<f32>().unwrap(), [3.0]);
    // Parameters and calls of each level, and the negations.
    assert_eq!(execution.steps, (1 + 2 + 4 + 8) * 3 + 16 * 2);
}

#[test]
fn plans_of_doubling_regions_are_bounded() {
    // A reduction whose computation doubles without any arithmetic in between.
    let scalar = f32(&[]);
    let both = [scalar.clone(), scalar.clone()];
    let first = HloInstructionProto {
        opcode: "add".into(),
        shape: Some(scalar.clone()),
        ..HloInstructionProto::default()
    };
    let mut computations = vec![computation("f0", 0, &both, first)];
    for level in 1..100 {
        let start = level * 10;
        let call = |id, operands: [i64; 2]| HloInstructionProto {
            name: format!("call{id}"),
            opcode: "call".into(),
            shape: Some(scalar.clone()),
            id,
            operand_ids: operands.to_vec(),
            called_computation_ids: vec![start - 10],
            ..HloInstructionProto::default()
        };
        let mut caller = computation("f", start, &both, call(0, [start, start + 1]));
        caller
            .instructions
            .push(call(start + 3, [start + 2, start]));
        caller.root_id = start + 3;
        computations.push(caller);
    }
    let mut proto = with("reduce", &[f32(&[4]), scalar.clone()], scalar, |op| {
        op.dimensions = vec![0];
        op.called_computation_ids = vec![990];
    });
    let entry = proto.computations.remove(0);
    computations.push(entry);
    proto.computations = computations;
    let executable = Executable::new(Module::verify(&proto).unwrap());
    let mut options = ExecuteOptions::default();
    options.step_budget = Some(10_000);
    let error = executable
        .execute(&[&[0; 16], &[0; 4]], &options)
        .unwrap_err();
    assert!(error.to_string().contains("10000 steps"), "{error}");
}

/// A broadcast of a scalar to so many elements, then their sum.
fn wide(elements: i64) -> HloModuleProto {
    let scalar = f32(&[]);
    let mut proto = calling(
        vec![crate::build::add(F32)],
        "broadcast",
        std::slice::from_ref(&scalar),
        f32(&[elements]),
        |op| op.called_computation_ids.clear(),
    );
    let entry = proto.computations.last_mut().expect("an entry");
    entry.instructions.push(HloInstructionProto {
        name: "sum".into(),
        opcode: "reduce".into(),
        shape: Some(scalar),
        id: 1100,
        operand_ids: vec![1001, 1000],
        called_computation_ids: vec![0],
        dimensions: vec![0],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1100;
    proto
}

#[test]
fn the_memory_limit_names_the_instruction() {
    let mut options = ExecuteOptions::default();
    options.memory_limit = Some(1 << 20);
    let error = execute(&wide(1 << 18), &[f32s(&[], &[1.0])], &options);
    // The broadcast fits to the byte, the sum beside it does not.
    let error = error.unwrap_err();
    assert!(
        matches!(
            &error,
            ExecuteError::MemoryLimit { site, needed, limit: 1_048_576 }
                if site.instruction == "sum" && *needed == (1 << 20) + 4
        ),
        "{error}"
    );
    // A shape that no machine has is refused before anything is allocated.
    let error = execute(&wide(1 << 50), &[f32s(&[], &[1.0])], &options).unwrap_err();
    assert!(
        matches!(
            &error,
            ExecuteError::MemoryLimit { site, needed, .. }
                if site.opcode == "broadcast" && *needed == 1 << 52
        ),
        "{error}"
    );
    options.memory_limit = Some((1 << 20) + 4);
    let execution = execute(&wide(1 << 18), &[f32s(&[], &[1.0])], &options).unwrap();
    assert_eq!(execution.outputs[0].values::<f32>().unwrap(), [262_145.0]);
}

#[test]
fn memory_is_counted_again_when_it_is_free() {
    // A long chain needs two values at a time.
    let shape = f32(&[256]);
    let mut proto = with(
        "negate",
        std::slice::from_ref(&shape),
        shape.clone(),
        |_| {},
    );
    let entry = &mut proto.computations[0];
    for id in 1002..1100 {
        entry.instructions.push(HloInstructionProto {
            name: format!("n{id}"),
            opcode: "negate".into(),
            shape: Some(shape.clone()),
            id,
            operand_ids: vec![id - 1],
            ..HloInstructionProto::default()
        });
        entry.root_id = id;
    }
    let executable = Executable::new(Module::verify(&proto).unwrap());
    let mut options = ExecuteOptions::default();
    options.memory_limit = Some(2 * 1024);
    for _ in 0..3 {
        executable.execute(&[&[0; 1024]], &options).unwrap();
    }
    options.memory_limit = Some(2 * 1024 - 1);
    let error = executable.execute(&[&[0; 1024]], &options).unwrap_err();
    assert!(
        matches!(&error, ExecuteError::MemoryLimit { site, needed: 2048, limit: 2047 } if site.instruction == "n1002"),
        "{error}"
    );
}

#[test]
fn sizes_beyond_63_bits_are_refused() {
    for shape in [
        f32(&[1 << 40, 1 << 40]),
        f32(&[i64::MAX]),
        f32(&[1 << 62, 2, 0]),
        array(metaneff_schema::xla::PrimitiveType::C128, &[1 << 60]),
    ] {
        let proto = with("broadcast", &[f32(&[])], shape, |_| {});
        let error = Module::verify(&proto).unwrap_err();
        assert!(
            matches!(error.problem(), Some(Problem::Overflow { .. })),
            "{error}"
        );
    }
    let error = Module::verify(&with("iota", &[], f32(&[-1]), |_| {})).unwrap_err();
    assert!(
        matches!(error.problem(), Some(Problem::Mismatch { .. })),
        "{error}"
    );
}

/// So many calls on one tuple of so many elements, of a computation that gives
/// its first.
fn calls_on_a_tuple(calls: i64, elements: usize) -> HloModuleProto {
    let wide = tuple(&vec![f32(&[]); elements]);
    let first = HloInstructionProto {
        opcode: "get-tuple-element".into(),
        shape: Some(f32(&[])),
        ..HloInstructionProto::default()
    };
    let called = computation("first", 0, std::slice::from_ref(&wide), first);
    let mut entry: HloComputationProto = computation(
        "entry",
        1000,
        &[f32(&[])],
        HloInstructionProto {
            opcode: "tuple".into(),
            shape: Some(wide),
            operand_ids: vec![1000; elements],
            ..HloInstructionProto::default()
        },
    );
    for id in 0..calls {
        entry.instructions.push(HloInstructionProto {
            name: format!("call{id}"),
            opcode: "call".into(),
            shape: Some(ShapeProto { ..f32(&[]) }),
            id: 2000 + id,
            operand_ids: vec![1001],
            called_computation_ids: vec![0],
            ..HloInstructionProto::default()
        });
        entry.root_id = 2000 + id;
    }
    module(vec![called, entry])
}

#[test]
fn many_calls_on_a_wide_tuple_are_bounded() {
    let execution = execute(
        &calls_on_a_tuple(20, 30),
        &[f32s(&[], &[2.5])],
        &ExecuteOptions::default(),
    );
    assert_eq!(
        execution.unwrap().outputs[0].values::<f32>().unwrap(),
        [2.5]
    );
    // Quadratic: ten thousand calls on ten thousand elements.
    let error = Module::verify(&calls_on_a_tuple(10_000, 10_000)).unwrap_err();
    let Some(Problem::Limit { what, found, limit }) = error.problem() else {
        panic!("{error}")
    };
    assert_eq!(*what, "number of shapes that calls repeat");
    assert!(found > limit && *found <= limit + 10_001, "{error}");
}

#[test]
fn thousands_of_computations_are_no_trouble() {
    let scalar = f32(&[]);
    let both = [scalar.clone(), scalar.clone()];
    let sum = |first| {
        let op = HloInstructionProto {
            opcode: "add".into(),
            shape: Some(scalar.clone()),
            ..HloInstructionProto::default()
        };
        computation("sum", first, &both, op)
    };
    let count = 5000_i64;
    let mut computations: Vec<HloComputationProto> =
        (0..count).map(|n| sum(10_000 + n * 3)).collect();
    let mut entry = computation(
        "entry",
        0,
        &[f32(&[3])],
        HloInstructionProto {
            opcode: "constant".into(),
            shape: Some(scalar.clone()),
            literal: Some(Box::new(metaneff_schema::xla::LiteralProto {
                shape: Some(scalar.clone()),
                f32s: vec![0.0],
                ..Default::default()
            })),
            ..HloInstructionProto::default()
        },
    );
    for n in 0..count {
        entry.instructions.push(HloInstructionProto {
            name: format!("reduce{n}"),
            opcode: "reduce".into(),
            shape: Some(scalar.clone()),
            id: 2 + n,
            operand_ids: vec![0, 1 + n],
            dimensions: vec![0],
            called_computation_ids: vec![10_000 + n * 3],
            ..HloInstructionProto::default()
        });
        entry.root_id = 2 + n;
    }
    computations.push(entry);
    let input = f32s(&[3], &[1.0, 2.0, -2.0]);
    let execution = execute(&module(computations), &[input], &ExecuteOptions::default()).unwrap();
    assert_eq!(execution.outputs[0].values::<f32>().unwrap(), [5000.0]);
}

/// A module that gives its parameter back and calls a computation for nothing.
fn idle() -> HloModuleProto {
    let mut proto = doubling(2);
    // The parameter of the entry computation.
    proto.computations[1].root_id = 10;
    proto
}

#[test]
fn what_nothing_uses_is_left_out() {
    let executable = Executable::new(Module::verify(&idle()).unwrap());
    let options = ExecuteOptions::default();
    let seven = 7.0_f32.to_le_bytes();
    let execution = executable.execute(&[&seven], &options).unwrap();
    assert_eq!(execution.outputs[0].bytes(), seven);
    // The parameter and two calls, and nothing of what is called.
    assert_eq!(execution.steps, 3);
    // Who looks at every value sees all of them.
    let mut seen = 0;
    let traced = executable.execute_traced(&[&seven], &options, &mut |_| seen += 1);
    assert_eq!(traced.unwrap().steps, 3 + 2 * 2);
    assert_eq!(seen, 7);
}

#[test]
fn what_does_more_than_compute_is_not_left_out() {
    let mut proto = idle();
    for instruction in &mut proto.computations[0].instructions {
        if instruction.opcode == "negate" {
            instruction.opcode = "custom-call".into();
            instruction.custom_call_target = "NobodyKnowsIt".into();
        }
    }
    let error = execute(&proto, &[f32s(&[], &[7.0])], &ExecuteOptions::default()).unwrap_err();
    assert!(matches!(&error, ExecuteError::CustomCall { .. }), "{error}");
}
