//! Files that are right, and files that only look so.

use super::*;
use crate::testing::{Fake, model};
use crate::{Core, Runtime};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use proptest::prelude::*;

fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

fn tensor(key: &str, dtype: &str, shape: &str, offsets: (usize, usize)) -> String {
    let (start, end) = offsets;
    format!(r#""{key}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
}

fn refused(header: &str, data: &[u8]) -> HeaderError {
    match Checkpoint::from_bytes(file(header, data)) {
        Err(CheckpointError::Header { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tensor_that_is_not_aligned_is_read() {
    let header = format!(
        "{{{},{}}}",
        tensor("a", "U8", "[3]", (0, 3)),
        tensor("b", "F32", "[1]", (3, 7))
    );
    let bytes = file(&header, &[1, 2, 3, 0, 0, 128, 63]);
    let checkpoint = Checkpoint::from_bytes(bytes.clone()).unwrap();
    assert_eq!(
        checkpoint.read("b").unwrap().to_vec::<f32>().unwrap(),
        [1.0]
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tp1_sharded_checkpoint.safetensors");
    std::fs::write(&path, bytes).unwrap();
    let checkpoint = Checkpoint::open_rank(folder.path(), 1, 2).unwrap();
    assert_eq!(
        checkpoint.read("b").unwrap().to_vec::<f32>().unwrap(),
        [1.0]
    );
    assert_eq!(
        checkpoint.read("a").unwrap().to_vec::<u8>().unwrap(),
        [1, 2, 3]
    );
    let error = Checkpoint::open_rank(folder.path(), 2, 2).unwrap_err();
    assert!(matches!(
        error,
        CheckpointError::Rank {
            rank: 2,
            world_size: 2
        }
    ));
    let error = Checkpoint::open_rank(folder.path(), 0, 2).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Io { path, .. } if path.ends_with("tp0_sharded_checkpoint.safetensors"))
    );

    // A file that shrinks after it was opened is an error of its own.
    std::fs::write(&path, []).unwrap();
    assert!(matches!(
        checkpoint.read("b").unwrap_err(),
        CheckpointError::Io { .. }
    ));
}

#[test]
fn offsets_shapes_and_the_file_agree() {
    let one = |dtype, shape, offsets| format!("{{{}}}", tensor("a", dtype, shape, offsets));
    // Offsets against shape; a gap; an overflow; an empty range for one element.
    for (header, data) in [
        (one("F32", "[2]", (0, 4)), &[0; 4][..]),
        (one("F32", "[1]", (4, 8)), &[0; 8]),
        (one("F32", "[4611686018427387904,8]", (0, 8)), &[0; 8]),
        (one("F32", "[1]", (0, 0)), &[]),
        (one("F99", "[1]", (0, 4)), &[0; 4]),
        ("[1,2]".to_owned(), &[]),
        ("{".to_owned(), &[]),
    ] {
        assert!(
            matches!(refused(&header, data), HeaderError::Invalid { .. }),
            "{header}"
        );
    }
    assert_eq!(
        refused(&one("F32", "[1]", (0, 4)), &[0; 5]),
        HeaderError::Size {
            expected: 4,
            found: 5
        }
    );
    // An empty range for no elements is right.
    let empty = Checkpoint::from_bytes(file(&one("F32", "[0]", (0, 0)), &[])).unwrap();
    assert!(empty.read("a").unwrap().bytes().is_empty());
}

#[test]
fn keys_stand_once_and_headers_have_an_end() {
    let header = format!(
        "{{{},{}}}",
        tensor("a", "U8", "[1]", (0, 1)),
        tensor("a", "U8", "[1]", (1, 2))
    );
    assert_eq!(
        refused(&header, &[0; 2]),
        HeaderError::DuplicateKey { key: "a".into() }
    );
    let mut huge = (1_u64 << 63).to_le_bytes().to_vec();
    huge.extend_from_slice(b"{}");
    assert!(matches!(
        Checkpoint::from_bytes(huge),
        Err(CheckpointError::Header {
            reason: HeaderError::TooLarge {
                found: 0x8000_0000_0000_0000,
                limit: 2
            },
            ..
        })
    ));
    assert!(matches!(
        Checkpoint::from_bytes(vec![1, 2]),
        Err(CheckpointError::Header {
            reason: HeaderError::NoLength,
            ..
        })
    ));
}

#[test]
fn elements_that_no_slot_has_are_named() {
    let header = format!("{{{}}}", tensor("a", "C64", "[1]", (0, 8)));
    let checkpoint = Checkpoint::from_bytes(file(&header, &[0; 8])).unwrap();
    assert!(matches!(
        checkpoint.read("a").unwrap_err(),
        CheckpointError::ElementType { found, .. } if found == "C64"
    ));
    assert!(matches!(
        checkpoint.read("b").unwrap_err(),
        CheckpointError::UnknownKey { key } if key == "b"
    ));
}

/// `x + w + b`, with `w` and `b` from a checkpoint.
fn network() -> crate::Artifact {
    let tensor = |name: &'static str, role, key: Option<&'static str>| MetaTensor {
        name: name.into(),
        shape: vec![1],
        data_type: 1,
        r#type: role,
        checkpoint_key: key.map(Into::into),
        ..MetaTensor::default()
    };
    model(&MetaNeff {
        input_tensors: vec![
            tensor("input0", 1, None),
            tensor("input1", 3, Some("layer.w")),
            tensor("input2", 3, Some("b'x")),
        ],
        output_tensors: vec![tensor("output0", 0, None)],
        ..MetaNeff::default()
    })
    .unwrap()
}

fn checkpoint(keys: &[(&str, f32)]) -> Checkpoint {
    let mut entries = Vec::new();
    let mut data = Vec::new();
    for (key, value) in keys {
        entries.push(tensor(key, "F32", "[1]", (data.len(), data.len() + 4)));
        data.extend_from_slice(&value.to_le_bytes());
    }
    Checkpoint::from_bytes(file(&format!("{{{}}}", entries.join(",")), &data)).unwrap()
}

#[test]
fn weights_come_by_checkpoint_key_and_stay() {
    let fake = Fake::new();
    let runtime = Runtime::new(fake.clone());
    let artifact = network();
    let model = runtime.load(&artifact, Core::new(0)).unwrap();
    let summary = model
        .load_checkpoint(&checkpoint(&[
            ("b'x", 100.0),
            ("layer.w", 10.0),
            ("other", 0.0),
        ]))
        .unwrap();
    assert_eq!((summary.weights, summary.bytes), (2, 8));
    assert_eq!(summary.unused, ["other"]);

    let run = |model: &crate::Model<'_, Fake>| {
        let mut session = model.session().unwrap();
        let x = session
            .slot(0)
            .unwrap()
            .validate(HostTensor::from_vec([1], vec![1_f32]).unwrap());
        let ready = session.bind([x.unwrap()]).unwrap();
        let outputs = ready.execute(()).unwrap().tolerate_nan().into_outputs();
        outputs.get(0).unwrap().to_vec::<f32>().unwrap()[0]
    };
    assert_eq!(run(&model), 111.0);
    let before = runtime.transfers().unwrap().host_to_device;
    assert_eq!(run(&model), 111.0);
    assert_eq!(runtime.transfers().unwrap().host_to_device - before, 4);

    // All that is missing is listed, and nothing changes.
    let error = model
        .load_checkpoint(&checkpoint(&[("other", 0.0)]))
        .unwrap_err();
    let CheckpointError::Weights(WeightsError::Missing(missing)) = error else {
        panic!("{error}");
    };
    assert_eq!(missing.slots.len(), 2);
    assert_eq!(run(&model), 111.0);

    // Another model shares the buffers; a replacement is its own.
    let twin = runtime.load(&artifact, Core::new(0)).unwrap();
    let before = fake.live().tensors;
    twin.share_weights(&model).unwrap();
    assert_eq!(fake.live().tensors, before);
    let w = HostTensor::from_vec([1], vec![20_f32]).unwrap();
    let w = twin.slot("layer.w").unwrap().validate(w).unwrap();
    twin.replace_weights(vec![w]).unwrap();
    assert_eq!(run(&twin), 121.0);
    assert_eq!(run(&model), 111.0);
    drop(model);
    assert_eq!(run(&twin), 121.0);

    let other = runtime.load(&artifact, Core::new(1)).unwrap();
    assert!(matches!(
        other.share_weights(&twin).unwrap_err(),
        WeightsError::OtherCore { .. }
    ));
    drop((twin, other));
    assert!(fake.live().is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_a_checkpoint_or_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        length in 0_u64..200,
    ) {
        if bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
        let _ = Checkpoint::from_bytes(bytes);
    }

    #[test]
    fn a_damaged_header_never_reads_outside(position in 0_usize..120, byte: u8) {
        let header = format!(
            "{{{},{}}}",
            tensor("a", "U8", "[3]", (0, 3)),
            tensor("b", "F32", "[1]", (3, 7))
        );
        let mut bytes = file(&header, &[1; 7]);
        let position = position % bytes.len();
        bytes[position] = byte;
        if let Ok(checkpoint) = Checkpoint::from_bytes(bytes) {
            for key in checkpoint.keys() {
                if let Ok(tensor) = checkpoint.read(key) {
                    prop_assert!(tensor.bytes().len() <= 7);
                }
            }
        }
    }
}
