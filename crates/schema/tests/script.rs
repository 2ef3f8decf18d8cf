//! A file that libtorch itself has saved (`tools/make_torchscript.cpp`).

use std::path::Path;

use metaneff_schema::decode_metaneff;
use metaneff_schema::script::{ScriptArchive, ScriptError, ScriptKind};

fn open() -> Result<ScriptArchive, ScriptError> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    ScriptArchive::open(data.join("torchscript.pt"))
}

#[test]
fn models_are_found_by_their_attributes() {
    let archive = open().unwrap();
    let found: Vec<_> = archive
        .models()
        .iter()
        .map(|model| (model.name.as_str(), model.kind, &model.numbers[..]))
        .collect();
    assert_eq!(
        found,
        [
            ("model", ScriptKind::Model, &[2][..]),
            ("child.inner", ScriptKind::Model, &[-7][..]),
        ]
    );
    for (model, tag) in archive.models().iter().zip([b'a', b'b']) {
        assert_eq!(model.neff.len(), 1024 + 9);
        assert_eq!(model.neff[1024..1026], [0xff, tag]);
        let message = decode_metaneff(model.metaneff.clone()).unwrap();
        assert_eq!(&message.input_tensors[0].name[..], b"input0");
        assert_eq!(message.output_tensors[0].shape, [1, 1, 1, 32]);
    }
}

#[test]
fn tensors_are_read_where_their_elements_follow_one_another() {
    let mut archive = open().unwrap();
    let floats: Vec<u8> = (0_u8..6).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    assert_eq!(archive.tensor("child.weight").unwrap(), floats);
    // [1, 2, 3] in bf16, behind one element that is not the tensor's.
    let tail = [0x80, 0x3f, 0x00, 0x40, 0x40, 0x40];
    assert_eq!(archive.tensor("child.tail").unwrap(), tail[..]);
    assert!(matches!(
        archive.tensor("child.transposed"),
        Err(ScriptError::Tensor { .. })
    ));
    let weight = archive
        .tensors()
        .iter()
        .find(|tensor| tensor.name == "child.weight")
        .unwrap();
    assert_eq!(
        (&weight.shape[..], &weight.storage[..]),
        (&[2, 3][..], "FloatStorage")
    );
}

/// A zip with one member, `m/data.pkl`, that is not compressed.
fn zipped(pickle: &[u8]) -> std::io::Result<Vec<u8>> {
    use std::io::{Cursor, Write};
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("m/data.pkl", stored)?;
    zip.write_all(pickle)?;
    Ok(zip.finish()?.into_inner())
}

#[test]
fn hostile_pickles_take_memory_in_proportion_to_their_size() {
    let count = 200_000;
    let lists = b"]".repeat(count);
    let marks = b"(".repeat(count);
    let numbers = b"K\x01".repeat(count);
    let singles = [&b"N"[..], &b"\x85".repeat(count / 2)].concat();
    let recalled = [&b"]q\x00"[..], &b"h\x00".repeat(count)].concat();
    let remembered: Vec<u8> = (0..40_000_u32)
        .flat_map(|index| [&b"Nr"[..], &index.to_le_bytes()].concat())
        .collect();
    let classes = b"ca\nb\n".repeat(count / 5);
    for mut pickle in [
        lists, marks, numbers, singles, recalled, remembered, classes,
    ] {
        pickle.push(b'.');
        let file = zipped(&pickle).unwrap();
        let size = u64::try_from(file.len()).unwrap();
        let measured = allocation_counter::measure(|| {
            let _ = ScriptArchive::read(std::io::Cursor::new(&file[..]));
        });
        let limit = 128 * size + (1 << 20);
        assert!(
            measured.bytes_max <= limit,
            "{} bytes for a file of {size} that starts {:?}",
            measured.bytes_max,
            &pickle[..6]
        );
    }
}
