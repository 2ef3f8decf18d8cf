//! Instructions that are started and done, buffer donors, opcodes that HLO has
//! and this crate does not execute.

use metaneff_hlo::{Module, Problem, REFUSED_OPCODES, VerifyError};
use metaneff_schema::xla::{
    HloBufferDonorProto, HloInstructionProto, HloModuleProto, PrimitiveType, ShapeProto,
    hlo_buffer_donor_proto::BufferDonorEntryProto,
};

use crate::build::*;

/// An instruction on a parameter `f32[2]` of shape `shape`, and one that
/// follows it.
fn followed(opcode: &str, shape: ShapeProto, next: &str, result: ShapeProto) -> HloModuleProto {
    let mut proto = with(opcode, &[f32(&[2])], shape, |_| {});
    let entry = &mut proto.computations[0];
    entry.instructions.push(HloInstructionProto {
        name: "next".into(),
        opcode: next.into(),
        shape: Some(result),
        id: 1500,
        operand_ids: vec![1001],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1500;
    proto
}

/// A started `all-gather` along dimension 0.
fn gathered(shape: ShapeProto, result: ShapeProto) -> HloModuleProto {
    let mut proto = followed("all-gather-start", shape, "all-gather-done", result);
    proto.computations[0].instructions[1].dimensions = vec![0];
    proto
}

fn context() -> ShapeProto {
    array(PrimitiveType::U32, &[])
}

fn started() -> ShapeProto {
    tuple(&[f32(&[2]), f32(&[2]), context()])
}

fn mismatch(proto: &HloModuleProto) -> (String, &'static str) {
    match Module::verify(proto) {
        Err(VerifyError::Instruction {
            site,
            problem: Problem::Mismatch { what, .. },
        }) => (site.instruction, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn starts_and_dones_are_checked() {
    let permute = |shape, result| {
        followed(
            "collective-permute-start",
            shape,
            "collective-permute-done",
            result,
        )
    };
    Module::verify(&permute(started(), f32(&[2]))).unwrap();
    Module::verify(&followed("copy-start", started(), "copy-done", f32(&[2]))).unwrap();
    Module::verify(&gathered(tuple(&[f32(&[2]), f32(&[4])]), f32(&[4]))).unwrap();
    let root = |what| ("root".to_owned(), what);
    let next = |what| ("next".to_owned(), what);
    let wrong = [
        (permute(f32(&[2]), f32(&[2])), root("shape")),
        (
            permute(tuple(&[f32(&[3]), f32(&[2])]), f32(&[2])),
            root("operands of the shape"),
        ),
        (
            permute(tuple(&[f32(&[2]), f32(&[3])]), f32(&[3])),
            root("shape"),
        ),
        (
            permute(tuple(&[f32(&[2]), f32(&[2]), f32(&[])]), f32(&[2])),
            root("context of the shape"),
        ),
        (permute(started(), f32(&[3])), next("shape")),
        (
            followed(
                "copy-start",
                started(),
                "collective-permute-done",
                f32(&[2]),
            ),
            next("opcode of the operand"),
        ),
        (
            followed("negate", f32(&[2]), "all-reduce-done", f32(&[2])),
            next("opcode of the operand"),
        ),
        (
            followed("copy-start", started(), "async-done", f32(&[2])),
            next("opcode of the operand"),
        ),
        (
            gathered(tuple(&[f32(&[2]), f32(&[3])]), f32(&[3])),
            root("shape"),
        ),
    ];
    for (proto, expected) in wrong {
        assert_eq!(mismatch(&proto), expected);
    }
    // A computation of another signature.
    let mut other = calling(
        vec![add(F32)],
        "async-start",
        &[f32(&[])],
        tuple(&[tuple(&[f32(&[])]), f32(&[])]),
        |_| {},
    );
    assert_eq!(mismatch(&other).1, "parameters of the called computation");
    other.computations[1].instructions[1]
        .called_computation_ids
        .clear();
    assert_eq!(mismatch(&other).1, "number of called computations");
}

fn donors(entries: &[(i64, &[i64])]) -> HloModuleProto {
    let entries = entries
        .iter()
        .map(|&(parameter_number, path)| BufferDonorEntryProto {
            parameter_number,
            parameter_shape_index: path.to_vec(),
        });
    let parameters = [f32(&[2]), tuple(&[f32(&[2]), f32(&[3])])];
    let mut proto = with("get-tuple-element", &parameters, f32(&[3]), |op| {
        op.operand_ids = vec![1001];
        op.tuple_index = 1;
    });
    proto.buffer_donor = Some(HloBufferDonorProto {
        entries: entries.collect(),
    });
    proto
}

#[test]
fn buffer_donors_are_checked() {
    let module = Module::verify(&donors(&[(0, &[]), (1, &[1])])).unwrap();
    let found: Vec<(usize, &[usize])> = module
        .donors()
        .iter()
        .map(|donor| (donor.parameter, &*donor.path))
        .collect();
    assert_eq!(found, [(0, &[][..]), (1, &[1][..])]);
    assert!(Module::verify(&vectors("add")).unwrap().donors().is_empty());

    let mut aliased = donors(&[(1, &[1])]);
    aliased.input_output_alias = Some(alias(&[], 1));
    if let Some(alias) = &mut aliased.input_output_alias {
        alias.entries[0].parameter_shape_index = vec![1];
    }
    for (proto, expected) in [
        (donors(&[(2, &[])]), "parameter of a buffer donor"),
        (donors(&[(-1, &[])]), "parameter of a buffer donor"),
        (donors(&[(1, &[2])]), "index of an alias"),
        (donors(&[(0, &[0])]), "index of an alias"),
        (donors(&[(1, &[])]), "buffer donor"),
        (donors(&[(0, &[]), (0, &[])]), "buffer donor"),
        (aliased, "buffer donor"),
    ] {
        let error = Module::verify(&proto).unwrap_err();
        let VerifyError::Module {
            problem: Problem::Mismatch { what, .. },
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*what, expected, "{error}");
    }
}

#[test]
fn known_opcodes_are_refused_with_a_reason() {
    for opcode in REFUSED_OPCODES {
        let error = Module::verify(&vectors(opcode.name)).unwrap_err();
        let reason = opcode.reason;
        assert_eq!(error.problem(), Some(&Problem::RefusedOpcode { reason }));
        assert!(error.to_string().contains(reason), "{error}");
    }
    let error = Module::verify(&vectors("frobnicate")).unwrap_err();
    assert_eq!(error.problem(), Some(&Problem::Opcode));
}
