//! Archives as TorchScript writes them, and hostile ones.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use prost::Message;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;
use crate::metaneff::{MetaNeff, MetaTensor};
use crate::neff::HEADER_SIZE;

/// Writes a pickle with the opcodes that TorchScript's pickler emits.
#[derive(Clone, Default)]
struct Pen(Vec<u8>);

impl Pen {
    fn new() -> Self {
        Self(vec![0x80, 2])
    }

    fn op(mut self, opcode: u8) -> Self {
        self.0.push(opcode);
        self
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.push(b'X');
        let size = u32::try_from(text.len()).unwrap();
        self.0.extend_from_slice(&size.to_le_bytes());
        self.0.extend_from_slice(text);
        self
    }

    fn remember(self, index: u8) -> Self {
        self.op(b'q').op(index)
    }

    fn recall(self, index: u8) -> Self {
        self.op(b'h').op(index)
    }

    fn global(mut self, module: &str, name: &str) -> Self {
        self.0
            .extend_from_slice(format!("c{module}\n{name}\n").as_bytes());
        self
    }

    fn int(self, value: u8) -> Self {
        self.op(b'K').op(value)
    }

    /// An object whose state follows, before `BUILD`.
    fn object(self, module: &str, name: &str) -> Self {
        self.global(module, name).op(b')').op(0x81)
    }

    fn neuron(self, class: &str, neff: &[u8], metaneff: &[u8]) -> Self {
        self.object("__torch__.torch.classes.neuron", class)
            .op(b'(')
            .text(neff)
            .text(metaneff)
            .int(2)
            .op(0x88)
            .op(b't')
            .op(b'b')
    }

    /// A tensor of `u8` or `f32` elements over a storage.
    fn tensor(self, class: &str, key: &str, offset: u8, shape: &[u8], strides: &[u8]) -> Self {
        let mut pen = self
            .global("torch._utils", "_rebuild_tensor_v2")
            .op(b'(')
            .op(b'(')
            .text(b"storage")
            .global("torch", class)
            .text(key.as_bytes())
            .text(b"cpu")
            .int(6)
            .op(b't')
            .op(b'Q')
            .int(offset);
        for dims in [shape, strides] {
            pen = pen.op(b'(');
            for dim in dims {
                pen = pen.int(*dim);
            }
            pen = pen.op(b't');
        }
        pen.op(0x89)
            .global("collections", "OrderedDict")
            .op(b')')
            .op(b'R')
            .op(b't')
            .op(b'R')
    }

    fn stop(self) -> Vec<u8> {
        self.op(b'.').0
    }
}

/// A header with `size` bytes after it, the first of them `tag`.
fn neff(tag: u8, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_SIZE + size];
    bytes[0] = 2;
    bytes[8..10].copy_from_slice(&1024_u16.to_le_bytes());
    bytes[16..24].copy_from_slice(&(size as u64).to_le_bytes());
    bytes[24] = 2;
    // Not UTF-8, as compressed data is not.
    bytes[HEADER_SIZE] = 0xff;
    bytes[HEADER_SIZE + 1] = tag;
    bytes
}

fn metaneff(name: &'static str) -> Vec<u8> {
    let message = MetaNeff {
        input_tensors: vec![MetaTensor {
            name: "input0".into(),
            shape: vec![2],
            data_type: 1,
            ..MetaTensor::default()
        }],
        name: name.into(),
        ..MetaNeff::default()
    };
    message.encode_to_vec()
}

fn zipped(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn archive(members: &[(&str, &[u8])]) -> Result<ScriptArchive<Cursor<Vec<u8>>>, ScriptError> {
    ScriptArchive::read(Cursor::new(zipped(members, CompressionMethod::Stored)))
}

fn module(pen: Pen) -> Pen {
    pen.object("__torch__.module", "Module").op(b'}').op(b'(')
}

/// A traced module: `model` and a parameter.
fn trace() -> Vec<u8> {
    module(Pen::new())
        .text(b"training")
        .op(0x89)
        .text(b"model")
        .neuron("Model", &neff(1, 40), &metaneff("one"))
        .text(b"bias")
        .tensor("FloatStorage", "0", 1, &[2, 2], &[2, 1])
        .op(b'u')
        .op(b'b')
        .stop()
}

#[test]
fn a_traced_modules_model_is_found_by_its_attribute() {
    let storage: Vec<u8> = (0_u8..6).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    let bytes = trace();
    let mut archive = archive(&[
        ("model/data.pkl", &bytes),
        ("model/code/__torch__.py", b"class Module(Module):"),
        ("model/data/0", &storage),
        ("model/constants.pkl", &Pen::new().op(b')').stop()),
    ])
    .unwrap();
    let model = archive.model().unwrap();
    assert_eq!(
        (model.name.as_str(), model.kind),
        ("model", ScriptKind::Model)
    );
    assert_eq!(model.neff, neff(1, 40));
    assert_eq!(model.metaneff, metaneff("one"));
    assert_eq!(model.numbers, [2, 1]);
    let [tensor] = archive.tensors() else {
        panic!("{:?}", archive.tensors());
    };
    assert_eq!(
        (tensor.name.as_str(), &tensor.shape[..]),
        ("bias", &[2, 2][..])
    );
    assert_eq!(archive.tensor("bias").unwrap(), storage[4..20]);
    assert!(matches!(
        archive.tensor("weight"),
        Err(ScriptError::NoTensor { .. })
    ));
}

#[test]
fn models_of_several_buckets_are_named_by_their_paths() {
    let restored = |pen: Pen| pen.global("torch.jit._pickle", "restore_type_tag").op(b'(');
    // `nxd_model.spmd_models` is a dictionary, `models` a list of two that share a NEFF.
    let pen = module(Pen::new()).text(b"nxd_model");
    let pen = module(pen).text(b"spmd_models");
    let pen = restored(pen).op(b'}').op(b'(').text(b"decode");
    let pen = pen
        .neuron("SPMDModel", &neff(1, 9), &metaneff("decode"))
        .op(b'u')
        .text(b"Dict[str, SPMDModel]")
        .op(b't')
        .op(b'R')
        .text(b"models");
    let pen = restored(pen).op(b']').op(b'(');
    let pen = pen
        .object("__torch__.torch.classes.neuron", "SPMDModel")
        .text(&neff(7, 9))
        .remember(3)
        .text(&metaneff("short"))
        .op(0x86)
        .op(b'b')
        .object("__torch__.torch.classes.neuron", "SPMDModel")
        .recall(3)
        .text(&metaneff("long"))
        .op(0x86)
        .op(b'b')
        .op(b'e')
        .text(b"List[SPMDModel]")
        .op(b't')
        .op(b'R')
        .op(b'u')
        .op(b'b')
        .op(b'u')
        .op(b'b');
    let archive = archive(&[("nxd/data.pkl", &pen.stop())]).unwrap();
    let found: Vec<_> = archive
        .models()
        .iter()
        .map(|model| (model.name.as_str(), &model.metaneff[..], model.neff[1025]))
        .collect();
    let (decode, short, long) = (metaneff("decode"), metaneff("short"), metaneff("long"));
    assert_eq!(
        found,
        [
            ("nxd_model.spmd_models[\"decode\"]", &decode[..], 1),
            ("nxd_model.models[0]", &short[..], 7),
            ("nxd_model.models[1]", &long[..], 7),
        ]
    );
    assert!(matches!(
        archive.model(),
        Err(ScriptError::Blobs { neffs: 3, .. })
    ));
}

#[test]
fn constants_of_the_code_are_paired_in_their_order() {
    let (program, contract) = (neff(3, 11), metaneff("constant"));
    let size = u8::try_from(contract.len()).unwrap();
    let constants = Pen::new()
        .op(b'(')
        .text(&program)
        .text(b"a name")
        .tensor("ByteStorage", "0", 0, &[size], &[1])
        .op(b't')
        .stop();
    let empty = module(Pen::new()).op(b'u').op(b'b').stop();
    let archive = archive(&[
        ("old/data.pkl", &empty),
        ("old/constants.pkl", &constants),
        ("old/constants/0", &contract),
    ])
    .unwrap();
    let model = archive.model().unwrap();
    assert_eq!(model.name, "CONSTANTS.c0");
    assert_eq!(model.kind, ScriptKind::Constants);
    assert_eq!(
        (&model.neff[..], &model.metaneff[..]),
        (&program[..], &contract[..])
    );

    let half = Pen::new().op(b'(').text(&program).op(b't').stop();
    let error = self::archive(&[("old/data.pkl", &empty), ("old/constants.pkl", &half)]);
    assert!(matches!(
        error,
        Err(ScriptError::Blobs {
            neffs: 1,
            metaneffs: 0,
            ..
        })
    ));
}

#[test]
fn compressed_members_are_read_and_blobs_share_the_members_memory() {
    let bytes = zipped(&[("m/data.pkl", &trace())], CompressionMethod::Deflated);
    let archive = ScriptArchive::read(Cursor::new(bytes)).unwrap();
    let model = archive.model().unwrap();
    let between = model.metaneff.as_ptr() as usize - model.neff.as_ptr() as usize;
    assert_eq!(between, model.neff.len() + 5);
}

#[test]
fn files_that_are_no_module_say_what_they_are() {
    let error = ScriptArchive::read(Cursor::new(b"PK but no zip".to_vec())).unwrap_err();
    assert!(matches!(error, ScriptError::Zip { .. }));
    let error = archive(&[("a.txt", b"x"), ("b/c/data.pkl", b"x")]).unwrap_err();
    assert!(matches!(error, ScriptError::NotScript { members: 2 }));
    let error = ScriptArchive::open("no/such/file.pt").unwrap_err();
    assert!(matches!(error, ScriptError::Io(_)));
    let plain = module(Pen::new()).op(b'u').op(b'b').stop();
    let archive = archive(&[("m/data.pkl", &plain)]).unwrap();
    assert!(matches!(archive.model(), Err(ScriptError::NoModel)));
}

fn pickled(bytes: &[u8]) -> PickleError {
    match archive(&[("m/data.pkl", bytes)]) {
        Err(ScriptError::Pickle { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pickles_that_are_wrong_say_where() {
    assert_eq!(
        pickled(b"\x80\x02X\xff\xff\xff\xff"),
        PickleError::Truncated {
            offset: 7,
            needed: 0xffff_ffff,
            left: 0
        }
    );
    assert!(matches!(
        pickled(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff"),
        PickleError::Truncated {
            needed: u64::MAX,
            ..
        }
    ));
    assert!(matches!(
        pickled(b"cos\nsystem"),
        PickleError::Truncated { offset: 4, .. }
    ));
    assert!(matches!(pickled(b""), PickleError::Truncated { .. }));
    // `EXT1`, which would look a function up.
    assert_eq!(
        pickled(b"\x80\x02\x82\x01."),
        PickleError::Opcode {
            offset: 2,
            opcode: 0x82
        }
    );
    for (bytes, expected) in [
        (&b"."[..], "a value"),
        (b"N(.", "a value"),
        (b"t.", "a mark"),
        (b"NNb.", "an object to build"),
        (b"NNa.", "a list"),
        (b"](Nu.", "a value for each key"),
        (b"h\x07.", "a value that was remembered"),
        (b"q\x07.", "a value to remember"),
        (b"\x8a\x09123456789.", "an integer of 64 bits"),
        (b"N\x86.", "as many values as the opcode takes"),
    ] {
        match pickled(bytes) {
            PickleError::Stack {
                expected: found, ..
            } => assert_eq!(found, expected),
            other => panic!("{other:?}"),
        }
    }
    let many = b"]".repeat(1 << 20);
    assert!(matches!(pickled(&many), PickleError::Values { .. }));
}

#[test]
fn integers_keep_their_sign() {
    let state = Pen::new()
        .object("__torch__.torch.classes.neuron", "Model")
        .op(b'(')
        .text(&neff(1, 9))
        .text(&metaneff("one"));
    let mut bytes = state.0;
    bytes.extend_from_slice(b"J\xfe\xff\xff\xffM\x01\x02\x8a\x02\x00\x80\x8a\x00tb.");
    let archive = archive(&[("m/data.pkl", &bytes)]).unwrap();
    let model = archive.model().unwrap();
    assert_eq!(model.name, "");
    assert_eq!(model.numbers, [-2, 513, -32768, 0]);
}

#[test]
fn a_model_without_its_metaneff_is_named() {
    let bytes = module(Pen::new())
        .text(b"model")
        .neuron("Model", &neff(1, 9), b"\x12\x01")
        .op(b'u')
        .op(b'b')
        .stop();
    let error = archive(&[("m/data.pkl", &bytes)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`model` (torch.classes.neuron.Model) has 1 strings that are a NEFF and 0 that are a \
         metaneff, expected one for one"
    );
}

#[test]
fn deep_and_circular_values_end_in_an_error_or_are_left_out() {
    let mut deep = b"]".repeat(1000);
    deep.extend(b"a".repeat(999));
    deep.push(b'.');
    let error = archive(&[("m/data.pkl", &deep)]).unwrap_err();
    assert!(matches!(error, ScriptError::Depth { .. }));
    // A list that holds itself.
    let archive = archive(&[("m/data.pkl", b"]q\x00h\x00a.")]).unwrap();
    assert!(archive.models().is_empty());
}

#[test]
fn a_long_name_that_many_values_share_is_not_repeated_without_end() {
    let mut pen = Pen::new()
        .op(b'}')
        .op(b'(')
        .text(&b"k".repeat(100_000))
        .remember(0);
    for round in 0..200 {
        if round > 0 {
            pen = pen.recall(0);
        }
        pen = pen.tensor("FloatStorage", "0", 0, &[1], &[1]);
    }
    let bytes = pen.op(b'u').stop();
    let error = archive(&[("m/data.pkl", &bytes)]).unwrap_err();
    assert!(matches!(error, ScriptError::Names { .. }));
}

#[test]
fn a_string_that_many_models_share_is_looked_into_once() {
    // Each look would walk over a megabyte of fields.
    let fields = b"\x08\x01".repeat(500_000);
    let mut pen = Pen::new().op(b'(').text(&fields).remember(0);
    for _ in 0..20_000 {
        pen = pen
            .object("__torch__.torch.classes.neuron", "Model")
            .recall(0)
            .op(b'b');
    }
    let bytes = pen.op(b't').stop();
    let error = archive(&[("m/data.pkl", &bytes)]).unwrap_err();
    assert!(matches!(error, ScriptError::Blobs { .. }));
}

#[test]
fn views_that_skip_elements_and_ranges_outside_are_refused() {
    let cases = [
        (0, &[2_u8, 2][..], &[1_u8, 2][..], "follow"),
        (3, &[2, 2], &[2, 1], "byte 28"),
    ];
    for (offset, shape, strides, expected) in cases {
        let bytes = module(Pen::new())
            .text(b"w")
            .tensor("FloatStorage", "0", offset, shape, strides)
            .op(b'u')
            .op(b'b')
            .stop();
        let mut archive = archive(&[("m/data.pkl", &bytes), ("m/data/0", &[0; 24])]).unwrap();
        let error = archive.tensor("w").unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A dimension of one may have any stride; a storage that is not there is said.
    let bytes = module(Pen::new())
        .text(b"w")
        .tensor("FloatStorage", "0", 0, &[1, 2], &[7, 1])
        .text(b"v")
        .tensor("NovelStorage", "9", 0, &[1], &[1])
        .text(b"u")
        .tensor("HalfStorage", "9", 0, &[1], &[1])
        .op(b'u')
        .op(b'b')
        .stop();
    let mut archive = archive(&[("m/data.pkl", &bytes), ("m/data/0", &[7; 24])]).unwrap();
    assert_eq!(archive.tensor("w").unwrap(), [7; 8][..]);
    assert!(matches!(
        archive.tensor("v"),
        Err(ScriptError::Tensor { .. })
    ));
    assert!(matches!(
        archive.tensor("u"),
        Err(ScriptError::Member { .. })
    ));
}

#[test]
fn members_that_share_bytes_are_refused() {
    let mut bytes = zipped(
        &[("m/data.pkl", &trace()), ("m/data/0", &[0; 24])],
        CompressionMethod::Stored,
    );
    // The second central header points to the first member.
    let header = bytes
        .windows(4)
        .rposition(|window| window == b"PK\x01\x02")
        .unwrap();
    bytes[header + 42..header + 46].fill(0);
    assert!(ScriptArchive::read(Cursor::new(bytes)).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_a_module_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = archive(&[("m/data.pkl", &bytes), ("m/constants.pkl", &bytes)]);
        let _ = ScriptArchive::read(Cursor::new(bytes));
    }

    #[test]
    fn mutated_archives_are_a_module_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = zipped(
            &[("m/data.pkl", &trace()), ("m/data/0", &[0; 24])],
            CompressionMethod::Stored,
        );
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(mut archive) = ScriptArchive::read(Cursor::new(bytes.clone())) {
            let names: Vec<_> = archive.tensors().iter().map(|t| t.name.clone()).collect();
            for name in names {
                let _ = archive.tensor(&name);
            }
        }
        bytes.truncate(cut.index(bytes.len()));
        let _ = ScriptArchive::read(Cursor::new(bytes));
    }

    #[test]
    fn mutated_pickles_are_a_module_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = trace();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = archive(&[("m/data.pkl", &bytes)]);
    }
}
