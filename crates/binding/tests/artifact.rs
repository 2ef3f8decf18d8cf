//! From files to outputs.

use bytes::Bytes;
use metaneff_binding::testing::Fake;
use metaneff_binding::{
    Artifact, ArtifactError, ContractOptions, Core, DType, Error, Finding, HostTensor,
    JoinMismatch, Runtime, Side, VarId,
};
use metaneff_schema::MetaNeffBuilder;
use metaneff_schema::metaneff::MetaNeff;
use metaneff_schema::neff::{BuildError, NeffBuilder, NeffError};
use metaneff_schema::xla::{
    HloComputationProto, HloInstructionProto, HloModuleProto, PrimitiveType, ProgramShapeProto,
    ShapeProto,
};
use prost::Message;

fn array(element_type: PrimitiveType, dimensions: &[i64]) -> ShapeProto {
    ShapeProto {
        element_type: element_type.into(),
        dimensions: dimensions.to_vec(),
        ..ShapeProto::default()
    }
}

/// A module of two parameters whose sum is the root.
fn graph(shape: &ShapeProto) -> Bytes {
    let instruction = |id, opcode: &str| HloInstructionProto {
        id,
        name: format!("{opcode}.{id}"),
        opcode: opcode.to_owned(),
        shape: Some(shape.clone()),
        ..HloInstructionProto::default()
    };
    let parameter = |id, number| HloInstructionProto {
        parameter_number: number,
        ..instruction(id, "parameter")
    };
    let program = ProgramShapeProto {
        parameters: vec![shape.clone(), shape.clone()],
        result: Some(shape.clone()),
        ..ProgramShapeProto::default()
    };
    HloModuleProto {
        name: "sum".to_owned(),
        host_program_shape: Some(program.clone()),
        computations: vec![HloComputationProto {
            instructions: vec![
                parameter(0, 0),
                parameter(1, 1),
                HloInstructionProto {
                    operand_ids: vec![0, 1],
                    ..instruction(2, "add")
                },
            ],
            root_id: 2,
            program_shape: Some(program),
            ..HloComputationProto::default()
        }],
        ..HloModuleProto::default()
    }
    .encode_to_vec()
    .into()
}

fn neff(graph: &Bytes) -> Result<Bytes, BuildError> {
    Ok(NeffBuilder::from_hlo(graph.clone())?.build())
}

fn metaneff(graph: &Bytes) -> Result<MetaNeff, BuildError> {
    Ok(MetaNeffBuilder::from_hlo(graph.clone())?.build())
}

#[test]
fn files_are_read_joined_and_run() -> Result<(), Error> {
    let graph = graph(&array(PrimitiveType::F32, &[2]));
    let folder = tempfile::tempdir().unwrap();
    let [program, contract] = ["model.neff", "model.metaneff"].map(|name| folder.path().join(name));
    std::fs::write(&program, neff(&graph).unwrap()).unwrap();
    std::fs::write(&contract, metaneff(&graph).unwrap().encode_to_vec()).unwrap();

    let artifact = Artifact::open(&program, &contract)?;
    assert!(artifact.contract().is_joined());
    assert_eq!(artifact.contract().output(0)?.var_id(), VarId::Joined(2));
    assert_eq!(artifact.graph(), Some(&graph));

    let runtime = Runtime::new(Fake::new());
    let model = runtime.load(&artifact, Core::new(0))?;
    let mut session = model.session()?;
    let a = session
        .slot("input0")?
        .validate(HostTensor::from_slice([2], &[1.0_f32, 2.0])?)?;
    let b = session
        .slot("input1")?
        .validate(HostTensor::from_slice([2], &[3.0_f32, 4.0])?)?;
    let outputs = session
        .bind([b, a])?
        .execute(())?
        .reject_nan()?
        .into_outputs();
    assert_eq!(outputs.get("output0")?.to_vec::<f32>()?, [4.0, 6.0]);

    let missing = folder.path().join("none");
    let error = Artifact::open(&missing, &contract).unwrap_err();
    assert!(matches!(error, ArtifactError::Io { path, .. } if path == missing));
    Ok(())
}

#[test]
fn the_packed_graph_says_the_true_types() {
    let graph = graph(&array(PrimitiveType::U64, &[2, 512]));
    let mut message = metaneff(&graph).unwrap();
    message.serialized_graph_def = Bytes::new();
    let artifact = Artifact::from_bytes(neff(&graph).unwrap(), message.encode_to_vec()).unwrap();
    // The device sees pairs of 32-bit integers, the contract signed ones.
    let slot = artifact.contract().slot(0).unwrap();
    assert_eq!(slot.dtype(), Some(DType::U64));
    assert_eq!(slot.stored_dtype(), Some(DType::I64));
    assert_eq!(slot.byte_size(), 8192);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let small = graph(&array(PrimitiveType::F32, &[2]));
    let large = graph(&array(PrimitiveType::F32, &[3]));
    let contract = metaneff(&small).unwrap().encode_to_vec();
    let error = Artifact::from_bytes(neff(&large).unwrap(), contract.clone()).unwrap_err();
    let ArtifactError::Join(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.mismatches.len(), 3);
    assert!(matches!(
        error.mismatches[2],
        JoinMismatch::Size {
            side: Side::Output,
            expected: 8,
            found: 12,
            ..
        }
    ));

    let error = Artifact::from_bytes("short", contract).unwrap_err();
    assert!(matches!(
        error,
        ArtifactError::Neff(NeffError::TooShort { found: 5, .. })
    ));
    let error = Artifact::from_bytes(neff(&small).unwrap(), vec![0x0a, 0xff]).unwrap_err();
    assert!(matches!(error, ArtifactError::Decode(_)));
}

#[test]
fn unknown_fields_are_no_reason_to_refuse() {
    let graph = graph(&array(PrimitiveType::F32, &[2]));
    let mut contract = metaneff(&graph).unwrap().encode_to_vec();
    // Field 99, a string.
    contract.extend([0x9a, 0x06, 0x01, b'x']);
    assert!(Artifact::from_bytes(neff(&graph).unwrap(), contract).is_ok());
}

#[test]
fn a_lenient_reading_says_what_it_tolerated() {
    let graph = graph(&array(PrimitiveType::F32, &[2]));
    let mut message = metaneff(&graph).unwrap();
    message.num_states = 7;
    let bytes = message.encode_to_vec();
    let error = Artifact::from_bytes(neff(&graph).unwrap(), bytes.clone()).unwrap_err();
    assert!(matches!(error, ArtifactError::Contract(_)));
    let options = ContractOptions::new().lenient();
    let artifact = Artifact::from_bytes_with(neff(&graph).unwrap(), bytes, &options).unwrap();
    assert!(matches!(
        artifact.warnings(),
        [Finding::RoleCount {
            declared: 7,
            found: 0,
            ..
        }]
    ));
}

#[test]
fn an_edit_keeps_every_other_byte_and_shares_the_graph() {
    let graph = graph(&array(PrimitiveType::F32, &[2]));
    let program = neff(&graph).unwrap();
    let mut wire = metaneff(&graph).unwrap().encode_to_vec();
    // A field 99 of a newer producer.
    wire.extend_from_slice(b"\x9a\x06\x02hi");
    let wire = Bytes::from(wire);
    let artifact = Artifact::from_bytes(program, wire.clone()).unwrap();

    let same = artifact.edit(|_| Ok(())).unwrap();
    assert_eq!(same.metaneff().unwrap().to_vec(), wire);
    assert_ne!(same.contract().id(), artifact.contract().id());

    let edited = artifact.with_dynamic_batching(true).unwrap();
    assert!(edited.contract().slot(0).unwrap().has_dynamic_batch());
    assert!(edited.contract().output(0).unwrap().has_dynamic_batch());
    assert!(!artifact.contract().slot(0).unwrap().has_dynamic_batch());
    assert!(edited.contract().is_joined());
    let document = edited.metaneff().unwrap();
    assert_eq!(document.unknown_fields()[0].number, 99);
    // One flag of two bytes a tensor, and nothing else.
    assert_eq!(document.len(), wire.len() + 3 * 2);
    let range = wire.as_ptr_range();
    assert!(range.contains(&document.message().unwrap().serialized_graph_def.as_ptr()));

    let restored = edited.with_dynamic_batching(false).unwrap();
    assert_eq!(restored.metaneff().unwrap().to_vec(), wire);

    let bare = Artifact::from_contract(Bytes::new(), artifact.contract().clone());
    let error = bare.with_dynamic_batching(true).unwrap_err();
    assert!(matches!(error, ArtifactError::NoMetaneff));
    let error = artifact
        .edit(|metaneff| metaneff.set_dynamic_batching_mixed(&[true], &[true]))
        .unwrap_err();
    assert!(matches!(error, ArtifactError::Edit(_)));
}

/// A saved module with one attribute, `model`, as TorchScript writes it.
fn script(neff: &[u8], metaneff: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::{Cursor, Write};
    let text = |text: &[u8]| {
        let size = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
        [b"X", &size[..], text].concat()
    };
    let pickle = [
        b"\x80\x02c__torch__\nTrace\n)\x81}(",
        &text(b"model")[..],
        b"c__torch__.torch.classes.neuron\nSPMDModel\n)\x81(",
        &text(neff),
        &text(metaneff),
        b"K\x02tbub.",
    ];
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("traced/data.pkl", stored)?;
    zip.write_all(&pickle.concat())?;
    Ok(zip.finish()?.into_inner())
}

#[test]
fn a_saved_torchscript_module_gives_its_artifacts() {
    let graph = graph(&array(PrimitiveType::F32, &[2]));
    let (neff, metaneff) = (neff(&graph).unwrap(), metaneff(&graph).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.pt");
    let options = ContractOptions::new();
    let file = script(&neff, &metaneff.encode_to_vec()).unwrap();
    std::fs::write(&path, file).unwrap();
    let artifacts = Artifact::open_script(&path, &options).unwrap();
    let [(name, artifact)] = &artifacts[..] else {
        panic!("{artifacts:?}");
    };
    assert_eq!(name, "model");
    assert_eq!(*artifact.neff(), neff);
    assert_eq!(artifact.contract().inputs().len(), 2);
    assert!(artifact.contract().is_joined());

    // What is no NEFF is found by no one; what has no model says so.
    let file = script(b"no NEFF", b"no metaneff").unwrap();
    std::fs::write(&path, file).unwrap();
    let error = Artifact::open_script(&path, &options).unwrap_err();
    assert!(matches!(error, ArtifactError::Script(_)));
    let error = Artifact::open_script(folder.path().join("none.pt"), &options).unwrap_err();
    assert!(error.to_string().contains("cannot be read"));
}
