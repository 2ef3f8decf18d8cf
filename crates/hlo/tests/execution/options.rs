//! The options of an execution, each where it makes a difference.

use half::bf16;
use metaneff_hlo::array::Array;
use metaneff_hlo::element::Pred;
use metaneff_hlo::error::{ExecuteError, KernelError};
use metaneff_hlo::options::{
    Denormals, DotRounding, ExecuteOptions, NanPolicy, NarrowReduce, OobPolicy, Rewrites,
};
use metaneff_schema::xla::{HloInstructionProto, HloModuleProto, LiteralProto, PrimitiveType};

use crate::build::{
    PRED, S32, add, array, calling, computation, dot, f32, gather, module, of, scatter, with,
};
use crate::{execute, f32s};

fn ints(values: &[i32]) -> Array {
    Array::from_values(&[values.len()], values).expect("as many values as elements")
}

fn with_option(change: impl FnOnce(&mut ExecuteOptions)) -> ExecuteOptions {
    let mut options = ExecuteOptions::default();
    change(&mut options);
    options
}

/// `select(p0, p1, log(p1))`: the logarithm of a negative number is not
/// selected.
fn unselected_nan() -> HloModuleProto {
    let mut proto = with("log", &[array(PRED, &[2]), f32(&[2])], f32(&[2]), |op| {
        op.operand_ids = vec![1001];
    });
    let entry = &mut proto.computations[0];
    entry.instructions.push(HloInstructionProto {
        name: "select".into(),
        opcode: "select".into(),
        shape: Some(f32(&[2])),
        id: 1100,
        operand_ids: vec![1000, 1001, 1002],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1100;
    proto
}

#[test]
fn a_nan_counts_where_the_policy_looks() {
    let chosen = Array::from_values(&[2], &[Pred(1); 2]).unwrap();
    for (value, policy, found) in [
        (-1.0, NanPolicy::Outputs, false),
        (-1.0, NanPolicy::AnyIntermediate, true),
        (-1.0, NanPolicy::Ignore, false),
        (f32::NAN, NanPolicy::Outputs, true),
        (f32::NAN, NanPolicy::AnyIntermediate, true),
        (f32::NAN, NanPolicy::Ignore, false),
    ] {
        let options = with_option(|options| options.nan_policy = policy);
        let inputs = [chosen.clone(), f32s(&[2], &[value, 1.0])];
        let execution = execute(&unselected_nan(), &inputs, &options).unwrap();
        assert_eq!(execution.numerical_error, found, "{value} under {policy:?}");
        assert_eq!(execution.outputs[0].values::<f32>().unwrap()[1], 1.0);
    }
}

#[test]
fn an_index_outside_clamps_drops_or_fails() {
    let strict = with_option(|options| options.oob_policy = OobPolicy::Strict);
    let operand = f32s(&[5, 4], &(0..20_u8).map(f32::from).collect::<Vec<_>>());
    let proto = gather(&[1, 4], |_| {});
    let inputs = [operand.clone(), ints(&[0, i32::MAX, -1])];
    let execution = execute(&proto, &inputs, &ExecuteOptions::default()).unwrap();
    let rows = execution.outputs[0].values::<f32>().unwrap();
    assert_eq!((rows[0], rows[4], rows[8]), (0.0, 16.0, 0.0));
    let error = execute(&proto, &inputs, &strict).unwrap_err();
    assert!(
        matches!(
            &error,
            ExecuteError::Kernel { site, source: KernelError::OutOfBounds { index: 2_147_483_647, dim: 0, limit: 4 } }
                if site.opcode == "gather"
        ),
        "{error}"
    );

    let proto = scatter(&[3, 4], |_| {});
    let updates = f32s(&[3, 4], &[1.0; 12]);
    let inputs = [operand, ints(&[1, i32::MAX, -1]), updates];
    let execution = execute(&proto, &inputs, &ExecuteOptions::default()).unwrap();
    let changed = execution.outputs[0].values::<f32>().unwrap();
    assert_eq!((changed[0], changed[4], changed[16]), (0.0, 5.0, 16.0));
    let error = execute(&proto, &inputs, &strict).unwrap_err();
    assert!(
        matches!(
            &error,
            ExecuteError::Kernel { site, source: KernelError::OutOfBounds { .. } }
                if site.opcode == "scatter"
        ),
        "{error}"
    );
    // Indices inside are nothing to be strict about.
    let inputs = [inputs[0].clone(), ints(&[0, 1, 2]), inputs[2].clone()];
    execute(&proto, &inputs, &strict).unwrap();
}

#[test]
fn denormals_are_kept_or_flushed() {
    let proto = of("multiply", &[f32(&[2]), f32(&[2])], f32(&[2]));
    let inputs = [f32s(&[2], &[1e-40, -1e-40]), f32s(&[2], &[1.0, 1.0])];
    let kept = execute(&proto, &inputs, &ExecuteOptions::default()).unwrap();
    assert_eq!(kept.outputs[0].values::<f32>().unwrap(), [1e-40, -1e-40]);
    let flush = with_option(|options| options.denormals = Denormals::FlushToZero);
    let flushed = execute(&proto, &inputs, &flush).unwrap();
    let bits: Vec<u32> = flushed.outputs[0]
        .values::<f32>()
        .unwrap()
        .iter()
        .map(|x| x.to_bits())
        .collect();
    assert_eq!(bits, [0, 1 << 31]);
}

#[test]
fn operands_of_products_are_rounded_on_request() {
    let proto = with(
        "dot",
        &[f32(&[1, 2]), f32(&[2, 1])],
        f32(&[1, 1]),
        dot(&[1], &[0]),
    );
    // 1 + 2^-9 rounds to 1 as a bf16.
    let inputs = [
        f32s(&[1, 2], &[1.001_953_1, 2.0]),
        f32s(&[2, 1], &[1.0, 1.0]),
    ];
    let exact = execute(&proto, &inputs, &ExecuteOptions::default()).unwrap();
    assert_eq!(exact.outputs[0].values::<f32>().unwrap(), [3.001_953_1]);
    let options = with_option(|options| options.dot_rounding = DotRounding::Bf16);
    let rounded = execute(&proto, &inputs, &options).unwrap();
    assert_eq!(rounded.outputs[0].values::<f32>().unwrap(), [3.0]);
}

#[test]
fn narrow_sums_round_each_step_or_once() {
    let narrow = PrimitiveType::Bf16;
    let (rows, scalar) = (array(narrow, &[3]), array(narrow, &[]));
    let proto = calling(
        vec![add(narrow)],
        "reduce",
        &[rows, scalar.clone()],
        scalar,
        |op| op.dimensions = vec![0],
    );
    let inputs = [
        Array::from_values(&[3], &[256.0, 1.0, 1.0].map(bf16::from_f32)).unwrap(),
        Array::from_values(&[], &[bf16::ZERO]).unwrap(),
    ];
    let wide = with_option(|options| options.narrow_reduce = NarrowReduce::Wide);
    let xla = with_option(|options| options.narrow_reduce = NarrowReduce::Xla);
    for (options, sum) in [
        (ExecuteOptions::default(), 258.0),
        (wide, 258.0),
        (ExecuteOptions::as_xla(), 256.0),
        (xla, 256.0),
    ] {
        let execution = execute(&proto, &inputs, &options).unwrap();
        let found = execution.outputs[0].values::<bf16>().unwrap()[0];
        assert_eq!(found.to_f32(), sum, "{:?}", options.narrow_reduce);
    }
}

/// `p0 / p1^p2` on integers.
fn quotient_by_a_power() -> HloModuleProto {
    let shape = array(S32, &[3]);
    let mut proto = with(
        "power",
        &[shape.clone(), shape.clone(), shape.clone()],
        shape.clone(),
        |op| op.operand_ids = vec![1001, 1002],
    );
    let entry = &mut proto.computations[0];
    entry.instructions.push(HloInstructionProto {
        name: "divide".into(),
        opcode: "divide".into(),
        shape: Some(shape),
        id: 1100,
        operand_ids: vec![1000, 1003],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1100;
    proto
}

#[test]
fn quotients_by_powers_follow_the_specification_unless_asked() {
    let inputs = [ints(&[12, 12, -7]), ints(&[2, 1, 2]), ints(&[2, 5, 0])];
    let options = ExecuteOptions::default();
    assert_eq!(options.rewrites, Rewrites::None);
    let execution = execute(&quotient_by_a_power(), &inputs, &options).unwrap();
    assert_eq!(execution.outputs[0].values::<i32>().unwrap(), [3, 12, -7]);
    let options = ExecuteOptions::as_xla();
    let execution = execute(&quotient_by_a_power(), &inputs, &options).unwrap();
    assert_eq!(execution.outputs[0].values::<i32>().unwrap(), [0, 12, -7]);
}

#[test]
fn xlas_reductions_of_single_elements_forget_the_initial_value() {
    let scalar = array(S32, &[]);
    for (dims, reduced) in [(&[3][..], &[][..]), (&[3, 1], &[1])] {
        let proto = calling(
            vec![add(S32)],
            "reduce",
            &[array(S32, dims), scalar.clone()],
            array(S32, &[3]),
            |op| op.dimensions = reduced.to_vec(),
        );
        let init = Array::from_values(&[], &[10]).unwrap();
        let inputs = [ints(&[1, 2, 3]), init];
        for (options, expected) in [
            (ExecuteOptions::default(), [11, 12, 13]),
            (ExecuteOptions::as_xla(), [1, 2, 3]),
        ] {
            let execution = execute(&proto, &inputs, &options).unwrap();
            assert_eq!(execution.outputs[0].values::<i32>().unwrap(), expected);
        }
    }
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let scalar = f32(&[]);
    let always = HloInstructionProto {
        opcode: "constant".into(),
        shape: Some(array(PRED, &[])),
        literal: Some(Box::new(LiteralProto {
            shape: Some(array(PRED, &[])),
            preds: vec![true],
            ..Default::default()
        })),
        ..HloInstructionProto::default()
    };
    let twice = HloInstructionProto {
        opcode: "add".into(),
        shape: Some(scalar.clone()),
        operand_ids: vec![200, 200],
        ..HloInstructionProto::default()
    };
    let parameter = std::slice::from_ref(&scalar);
    let endless = computation(
        "entry",
        1000,
        parameter,
        HloInstructionProto {
            opcode: "while".into(),
            shape: Some(scalar.clone()),
            called_computation_ids: vec![200, 300],
            ..HloInstructionProto::default()
        },
    );
    let proto = module(vec![
        computation("body", 200, parameter, twice),
        computation("condition", 300, parameter, always),
        endless,
    ]);
    let options = with_option(|options| options.step_budget = Some(1000));
    let error = execute(&proto, &[f32s(&[], &[1.0])], &options).unwrap_err();
    assert!(
        matches!(&error, ExecuteError::StepBudget { budget: 1000, .. }),
        "{error}"
    );
    let options = with_option(|options| {
        options.deadline = Some(std::time::Instant::now() + std::time::Duration::from_millis(20));
    });
    let error = execute(&proto, &[f32s(&[], &[1.0])], &options).unwrap_err();
    assert!(matches!(&error, ExecuteError::Deadline { .. }), "{error}");
}
