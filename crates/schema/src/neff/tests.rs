//! Tests of the container: every gate, both package kinds, the round trip.

use prost::Message as _;

use super::*;
use crate::nrt::{NrtDtype, Status};
use crate::xla::{self, PrimitiveType};

fn shape(element: PrimitiveType, dims: &[i64]) -> xla::ShapeProto {
    xla::ShapeProto {
        element_type: element.into(),
        dimensions: dims.to_vec(),
        ..Default::default()
    }
}

/// A module with these parameters, which are its results as well.
fn module(shapes: &[xla::ShapeProto]) -> xla::HloModuleProto {
    let count = i64::try_from(shapes.len()).unwrap();
    let mut instructions: Vec<_> = (0..count)
        .zip(shapes)
        .map(|(number, shape)| xla::HloInstructionProto {
            opcode: "parameter".to_owned(),
            parameter_number: number,
            id: number,
            shape: Some(shape.clone()),
            ..Default::default()
        })
        .collect();
    instructions.push(xla::HloInstructionProto {
        opcode: "tuple".to_owned(),
        id: count,
        operand_ids: (0..count).collect(),
        shape: Some(xla::ShapeProto {
            element_type: PrimitiveType::Tuple.into(),
            tuple_shapes: shapes.to_vec(),
            ..Default::default()
        }),
        ..Default::default()
    });
    xla::HloModuleProto {
        name: "m".to_owned(),
        computations: vec![xla::HloComputationProto {
            root_id: count,
            instructions,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn file(kind: PackageKind) -> Vec<u8> {
    let hlo = module(&[shape(PrimitiveType::F32, &[1, 1, 1, 32])]).encode_to_vec();
    NeffBuilder::from_hlo(hlo)
        .unwrap()
        .package(kind)
        .build()
        .to_vec()
}

fn parse(file: Vec<u8>) -> Result<Neff, NeffError> {
    Neff::parse(
        file,
        &ParseOptions {
            validate_hash: true,
            ..Default::default()
        },
    )
}

/// A plain package with these members.
fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, contents) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        tar.append_data(&mut header, name, contents.as_bytes())
            .unwrap();
    }
    let data = tar.into_inner().unwrap();
    let mut header = NeffHeader::read(&file(PackageKind::Tar)).unwrap();
    header.data_size = data.len() as u64;
    header.hash = package::hash(PackageKind::Tar, &data);
    [&header.to_bytes()[..], &data].concat()
}

const ROOT: &str =
    r#"{"nodes":[{"op":"x","name":"k","attrs":{"func_name":"__kelf","kelf":"kelf-0.json"}}]}"#;
const KELF: &str =
    r#"{"version":"0.5","target":"*","graphs":[{"name":"sg00","definition":"sg00/def.json"}]}"#;

fn table(var: &str) -> Result<Neff, NeffError> {
    parse(archive(&[
        ("neff.json", ROOT),
        ("kelf-0.json", KELF),
        ("sg00/def.json", &format!(r#"{{"var":{{{var}}}}}"#)),
        ("sg00/wavegraph-bin.json", "not json"),
    ]))
}

#[test]
fn both_kinds_pass_every_gate_and_carry_the_graph() {
    for kind in [PackageKind::Tar, PackageKind::GzipTar] {
        let neff = parse(file(kind)).unwrap();
        assert_eq!(neff.header().package, kind);
        let names: Vec<_> = neff
            .variables()
            .iter()
            .map(|v| (v.name.as_str(), v.var_id))
            .collect();
        assert_eq!(names, [("input0", 0), ("output0", 1)]);
        assert_eq!(neff.outputs().next().unwrap().size, 128);
        let graph = neff.graph().unwrap();
        assert_eq!(crate::decode_hlo(graph.clone()).unwrap().name, "m");
        assert_eq!(neff.read_member("metaneff/hlo_module.pb").unwrap(), graph);
        assert_eq!(neff.read_member("sg00/pe.bin").unwrap().len(), 0);
        assert!(matches!(
            neff.read_member("no"),
            Err(NeffError::MissingMember { .. })
        ));
    }
}

#[test]
fn packing_is_deterministic() {
    assert_eq!(file(PackageKind::GzipTar), file(PackageKind::GzipTar));
}

#[test]
fn a_plain_package_shares_the_graph_with_the_file() {
    let file = Bytes::from(file(PackageKind::Tar));
    let neff = Neff::parse(file.clone(), &ParseOptions::default()).unwrap();
    assert!(
        file.as_ptr_range()
            .contains(&neff.graph().unwrap().as_ptr())
    );
}

#[test]
fn tensors_are_reported_as_the_runtime_reports_them() {
    use PrimitiveType as P;
    let hlo = module(&[
        shape(P::F32, &[]),
        shape(P::Pred, &[3]),
        shape(P::S64, &[2, 512]),
        shape(P::F8e4m3fn, &[4]),
        shape(P::F32, &[0, 4]),
        shape(P::F64, &[2]),
    ]);
    let neff = parse(
        NeffBuilder::from_hlo(hlo.encode_to_vec())
            .unwrap()
            .build()
            .to_vec(),
    )
    .unwrap();
    let rows: Vec<_> = neff
        .inputs()
        .map(|v| (v.name.as_str(), v.dtype, v.shape.clone().unwrap(), v.size))
        .collect();
    assert_eq!(
        rows,
        [
            ("input0", NrtDtype::FLOAT32, vec![1], 4),
            ("input1", NrtDtype::UINT8, vec![3], 3),
            ("input2", NrtDtype::INT32, vec![2, 1024], 8192),
            ("input3", NrtDtype::INT8, vec![4], 4),
            ("input5", NrtDtype::UNKNOWN, vec![2], 16),
        ]
    );
}

#[test]
fn names_come_from_the_front_end_where_it_gives_them() {
    let mut hlo = module(&[
        shape(PrimitiveType::F32, &[2]),
        shape(PrimitiveType::F32, &[2]),
    ]);
    let attributes = |key: &str, value: &str| {
        let map = [(key.to_owned(), value.to_owned())].into();
        Some(xla::FrontendAttributes { map })
    };
    let instructions = &mut hlo.computations[0].instructions;
    instructions[0].frontend_attributes = attributes("neff_input_names", "x.must_alias_input");
    instructions[2].frontend_attributes = attributes("neff_output_names", "y, z");
    let builder = NeffBuilder::from_hlo(hlo.encode_to_vec()).unwrap();
    let boundary = builder.boundary();
    let names = |side: &[BoundaryTensor]| side.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&boundary.inputs), ["x.must_alias_input", "input1"]);
    assert_eq!(names(&boundary.outputs), ["y", "z"]);
}

#[test]
fn feature_bits_are_named() {
    let hlo = module(&[shape(PrimitiveType::F32, &[1])]).encode_to_vec();
    let build = |bits| {
        NeffBuilder::from_hlo(hlo.clone())
            .unwrap()
            .feature_bits(bits)
            .build()
    };
    let old = ParseOptions {
        supported_features: 0x8000_0000_0000_00ff,
        ..Default::default()
    };
    let error = Neff::parse(build(0x100), &old).unwrap_err();
    assert_eq!(
        error,
        NeffError::Features {
            requested: 0x100,
            supported: 0x8000_0000_0000_00ff,
            missing: 0x100
        }
    );
    assert_eq!(error.status(), Status(10));
    let new = ParseOptions::default();
    assert!(Neff::parse(build(0x100), &new).is_ok());
    assert!(Neff::parse(build(1 << 26 | 1 << 63), &new).is_ok());
    for bit in [27, 40, 62] {
        let missing = 1 << bit;
        let error = Neff::parse(build(missing), &new).unwrap_err();
        assert!(matches!(error, NeffError::Features { missing: found, .. } if found == missing));
    }
}

#[test]
fn header_gates_have_their_statuses() {
    let good = file(PackageKind::GzipTar);
    let with = |offset: usize, value: u64| {
        let mut file = good.clone();
        file[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        parse(file).unwrap_err()
    };
    let available = (good.len() - HEADER_SIZE) as u64;
    assert_eq!(with(0x00, 9), NeffError::PackageVersion { found: 9 });
    assert_eq!(
        with(0x08, 0),
        NeffError::HeaderSize {
            expected: 1024,
            found: 0
        }
    );
    assert_eq!(
        with(0x10, available + 1),
        NeffError::DataSize {
            found: available + 1,
            available
        }
    );
    let version = with(0x18, 3);
    assert_eq!(version, NeffError::Version { major: 3, minor: 0 });
    assert_eq!(version.status(), Status::UNSUPPORTED_NEFF_VERSION);
    assert_eq!(
        parse(good[..10].to_vec()).unwrap_err().status(),
        Status::INVALID
    );
}

#[test]
fn the_hash_is_checked_on_demand() {
    for kind in [PackageKind::Tar, PackageKind::GzipTar] {
        let mut file = file(kind);
        file[0xAC] ^= 1;
        assert!(Neff::parse(file.clone(), &ParseOptions::default()).is_ok());
        assert!(matches!(parse(file), Err(NeffError::Hash { .. })));
    }
}

#[test]
fn the_chain_of_manifests_is_followed() {
    let missing = |members: &[(&str, &str)]| match parse(archive(members)).unwrap_err() {
        NeffError::MissingMember { member, .. } => member,
        other => panic!("{other}"),
    };
    assert_eq!(missing(&[("a", "")]), "neff.json");
    assert_eq!(missing(&[("./neff.json", ROOT)]), "kelf-0.json");
    assert_eq!(
        missing(&[("neff.json", ROOT), ("kelf-0.json", KELF)]),
        "sg00/def.json"
    );
    let error = parse(archive(&[("neff.json", r#"{"nodes":[]}"#)])).unwrap_err();
    assert!(matches!(error, NeffError::Manifest { member, .. } if member == "neff.json"));
}

#[test]
fn variable_tables_are_checked() {
    let carved = r#"
        "input":{"type":"input","var_id":0,"size":128,"internal_shape":[1,1,1,32]},
        "SB":{"type":"state-buffer","var_id":1,"size":64,"alignment":64},
        "output":{"type":"output","var_id":2,"size":128,"dtype":"float32","shape":[1,1,1,32]},
        "gradient_in":{"type":"tmp-buf","var_id":3,"size":128},
        "gradient_out":{"type":"tmp-buf","var_id":4,"size":128,"referenced_var_id":2}"#;
    let neff = table(carved).unwrap();
    assert_eq!(neff.outputs().next().unwrap().var_id, 2);
    assert_eq!(neff.variables()[4].referenced_var_id, Some(2));
    assert_eq!(neff.members().len(), 3);

    let gap = table(r#""o":{"type":"output","var_id":1,"size":4}"#).unwrap_err();
    assert!(matches!(
        gap,
        NeffError::VariableIds {
            count: 1,
            largest: 1,
            ..
        }
    ));
    let twice = r#""o":{"type":"output","var_id":0},"p":{"type":"output","var_id":0}"#;
    assert!(matches!(
        table(twice),
        Err(NeffError::VariableIds { count: 2, .. })
    ));
    let none = table(r#""i":{"type":"input","var_id":0,"size":4}"#).unwrap_err();
    assert_eq!(none, NeffError::NoOutput);
    for bad in [
        r#""o":{"type":"output","var_id":0,"alignment":3}"#,
        r#""o":{"type":"output","var_id":-1}"#,
        r#""o":{"type":"output","var_id":0,"size":5,"shape":[2],"element_size":4}"#,
        r#""o":{"type":"output","var_id":0,"shape":[4294967296,4294967296],"element_size":4}"#,
    ] {
        assert!(
            matches!(table(bad), Err(NeffError::Variable { .. })),
            "{bad}"
        );
    }
}

#[test]
fn the_target_is_checked_where_one_is_asked_for() {
    let hlo = module(&[shape(PrimitiveType::F32, &[1])]).encode_to_vec();
    let file = NeffBuilder::from_hlo(hlo).unwrap().target("sunda").build();
    let mut options = ParseOptions {
        target: Some("cayman".to_owned()),
        ..Default::default()
    };
    let error = Neff::parse(file.clone(), &options).unwrap_err();
    assert!(matches!(error, NeffError::Target { .. }));
    options.allow_legacy = true;
    assert!(Neff::parse(file, &options).is_ok());
}

#[test]
fn an_archive_that_expands_without_end_is_refused() {
    let zeros = "0".repeat(8 << 20);
    let hlo = module(&[shape(PrimitiveType::F32, &[1])]);
    let mut big = hlo.clone();
    big.computations[0].instructions[0].name = zeros;
    let file = NeffBuilder::from_hlo(big.encode_to_vec()).unwrap().build();
    let error = Neff::parse(file.clone(), &ParseOptions::default()).unwrap_err();
    assert!(matches!(error, NeffError::Expansion { member, .. } if member.ends_with(".pb")));
    let options = ParseOptions {
        max_expansion: Some(16 << 20),
        ..Default::default()
    };
    assert!(Neff::parse(file, &options).is_ok());
}

/// Front ends trace empty slices, and compilers drop results without elements.
#[test]
fn a_module_of_empty_results_is_packed_without_an_output() {
    let hlo = module(&[shape(PrimitiveType::F32, &[0])]).encode_to_vec();
    let file = NeffBuilder::from_hlo(hlo).unwrap().build();
    let neff = Neff::parse(file, &ParseOptions::default()).unwrap();
    assert_eq!(neff.outputs().count(), 0);
}

#[test]
fn modules_that_cannot_be_packed_say_why() {
    let from =
        |module: &xla::HloModuleProto| NeffBuilder::from_hlo(module.encode_to_vec()).unwrap_err();
    assert_eq!(from(&module(&[])), BuildError::NoOutput);
    let mut entry = module(&[shape(PrimitiveType::F32, &[1])]);
    entry.entry_computation_id = 5;
    assert_eq!(from(&entry), BuildError::NoEntry { id: 5 });
    let huge = module(&[shape(PrimitiveType::F32, &[1 << 32, 1 << 32])]);
    assert!(matches!(from(&huge), BuildError::Tensor { name, .. } if name == "input0"));
    let mut gap = module(&[shape(PrimitiveType::F32, &[1])]);
    gap.computations[0].instructions[0].parameter_number = 1;
    assert_eq!(
        from(&gap),
        BuildError::ParameterNumber {
            expected: 0,
            found: 1
        }
    );
}
