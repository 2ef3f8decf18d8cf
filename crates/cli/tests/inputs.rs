//! What verbs read: every kind of array file, damaged files, and a disk that fills.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs;
use std::path::Path;

use metaneff_schema::metaneff::MetaNeff;
use prost::Message as _;

use support::{json, left, metaneff, module, packed, stderr, stdout};

/// Elements of an input of the packed model.
const ELEMENTS: usize = 320;

/// A safetensors file of one array, every element of it the same.
fn safetensors(name: &str, value: f32) -> Vec<u8> {
    let size = 4 * ELEMENTS;
    let header =
        format!(r#"{{"{name}":{{"dtype":"F32","shape":[{ELEMENTS}],"data_offsets":[0,{size}]}}}}"#);
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&value.to_le_bytes().repeat(ELEMENTS));
    file
}

/// An archive as `torch.jit.save` writes it, with this model in it.
fn archive(neff: &[u8], metaneff: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let text = |bytes: &[u8]| {
        let size = u32::try_from(bytes.len()).unwrap();
        [b"X", &size.to_le_bytes()[..], bytes].concat()
    };
    let pickle = [
        b"\x80\x02c__torch__.module\nModule\n)\x81}(".to_vec(),
        text(b"model"),
        b"c__torch__.torch.classes.neuron\nModel\n)\x81(".to_vec(),
        text(neff),
        text(metaneff),
        b"tbub.".to_vec(),
    ]
    .concat();
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("m/data.pkl", options).unwrap();
    zip.write_all(&pickle).unwrap();
    zip.finish().unwrap().into_inner()
}

/// Shards by rank, one safetensors file as weights and as inputs, raw bytes.
#[test]
fn inputs_come_from_safetensors_shards_and_raw_files() {
    let folder = packed();
    let put = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
    fs::create_dir(folder.path().join("shards")).unwrap();
    for (rank, value) in [(0, 1.0), (1, 2.0)] {
        let name = format!("shards/tp{rank}_sharded_checkpoint.safetensors");
        put(&name, safetensors("y", value));
    }
    put("x.safetensors", safetensors("x", 0.5));
    put("y.safetensors", safetensors("y", 4.0));
    put("raw.bin", 8_f32.to_le_bytes().repeat(ELEMENTS));
    let run = |arguments: &[&str]| {
        let model = ["run", "--json", "model.neff", "model.metaneff"];
        metaneff(&folder, &[&model[..], arguments].concat())
    };
    for (arguments, sum) in [
        (&["-i", "x.safetensors", "-w", "shards"][..], 1.5),
        (&["-i", "x.safetensors", "-w", "shards", "--rank", "1"], 2.5),
        (&["-i", "x.safetensors", "-w", "y.safetensors"], 4.5),
        (&["-i", "x=raw.bin", "-i", "y.safetensors"], 12.0),
        (&["-i", "0=raw.bin", "-i", "input1=raw.bin"], 16.0),
    ] {
        let document = json(&run(arguments).success());
        let output = &document["outputs"][0];
        let found = (output["min"].as_f64(), output["max"].as_f64());
        assert_eq!(found, (Some(sum), Some(sum)), "{arguments:?}");
    }
    let assert = run(&["--zeros", "-w", "shards", "--rank", "7"]).code(3);
    assert!(stderr(&assert).contains("shards"), "{}", stderr(&assert));
}

/// A role number that no schema has is a finding, and a warning for the lenient.
#[test]
fn the_lenient_take_what_names_no_other_buffer() {
    let folder = packed();
    let path = folder.path().join("model.metaneff");
    let mut message = MetaNeff::decode(&*fs::read(&path).unwrap()).unwrap();
    message.input_tensors[0].r#type = 77;
    fs::write(&path, message.encode_to_vec()).unwrap();
    let check = ["check", "model.neff", "model.metaneff"];
    let assert = metaneff(&folder, &check).code(1);
    assert!(stdout(&assert).contains("error["), "{}", stdout(&assert));
    let assert = metaneff(&folder, &[&check[..], &["--lenient"]].concat()).success();
    assert!(stdout(&assert).contains("warning["), "{}", stdout(&assert));
    let run = ["run", "model.neff", "model.metaneff", "--zeros"];
    metaneff(&folder, &run).code(3);
    metaneff(&folder, &[&run[..], &["--lenient"]].concat()).success();
}

/// Every verb on files that are cut off, or have a byte changed, ends with one of
/// its own exit codes and a message, not by a signal, and writes all or nothing.
#[test]
fn damaged_files_are_refused_by_every_verb() {
    let folder = packed();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    let whole = |name: &str| fs::read(folder.path().join(name)).unwrap();
    put("m.pb", &fs::read(module("binary__add__f32")).unwrap());
    let model = (whole("model.neff"), whole("model.metaneff"));
    put("m.pt", &archive(&model.0, &model.1));
    put("y.safetensors", &safetensors("y", 1.0));
    metaneff(&folder, &["run", "model.neff", "--zeros", "-o", "a.npz"]).success();
    let run = ["run", "model.neff", "model.metaneff", "--zeros"];
    let bench = [
        "bench",
        "model.neff",
        "model.metaneff",
        "--zeros",
        "-n",
        "1",
        "--warmup",
        "0",
    ];
    let inputs = |option: &'static str, name: &'static str| [&run[..], &[option, name]].concat();
    let both = |more: &[&[&'static str]]| {
        let mut verbs: Vec<Vec<&'static str>> = vec![
            vec!["check", "model.neff", "model.metaneff"],
            run.to_vec(),
            bench.to_vec(),
        ];
        verbs.extend(more.iter().map(|verb| verb.to_vec()));
        verbs
    };
    let files = [
        (
            "model.neff",
            both(&[&["inspect", "model.neff"], &["unpack", "model.neff", "out"]]),
        ),
        (
            "model.metaneff",
            both(&[
                &["inspect", "model.metaneff"],
                &["edit", "--dry-run", "--lazy-load", "true", "model.metaneff"],
            ]),
        ),
        (
            "m.pb",
            vec![
                vec!["inspect", "m.pb"],
                vec![
                    "pack",
                    "m.pb",
                    "--neff",
                    "out.neff",
                    "--metaneff",
                    "out.metaneff",
                ],
                vec!["neuronx-cc", "compile", "m.pb", "-o", "out.neff"],
            ],
        ),
        (
            "m.pt",
            vec![vec!["inspect", "m.pt"], vec!["extract", "m.pt", "-o", "to"]],
        ),
        (
            "a.npz",
            vec![inputs("-i", "a.npz"), inputs("--expect", "a.npz")],
        ),
        (
            "y.safetensors",
            vec![
                vec!["inspect", "y.safetensors"],
                inputs("-w", "y.safetensors"),
            ],
        ),
    ];
    fs::create_dir(folder.path().join("to")).unwrap();
    let before = left(&folder);
    for (name, verbs) in &files {
        let bytes = whole(name);
        for cut in [0, 7, 100, 1030, bytes.len() / 2, bytes.len() - 1] {
            let cut = cut.min(bytes.len() - 1);
            let mut flipped = bytes.clone();
            flipped[cut] ^= 0x55;
            for damaged in [&bytes[..cut], &flipped] {
                put(name, damaged);
                for verb in verbs {
                    let assert = metaneff(&folder, verb);
                    let code = assert.get_output().status.code();
                    let told = !stderr(&assert).is_empty() || code < Some(2);
                    assert!(
                        matches!(code, Some(0..=4)) && told,
                        "{verb:?} at {cut}: {code:?}"
                    );
                    assert!(!stderr(&assert).contains("panicked"), "{}", stderr(&assert));
                    if code == Some(0) {
                        remove(folder.path());
                    }
                    assert_eq!(left(&folder), before, "{verb:?} at {cut}");
                    assert_eq!(fs::read_dir(folder.path().join("to")).unwrap().count(), 0);
                }
            }
        }
        put(name, &bytes);
    }
}

/// Takes away what verbs that succeed leave.
fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join("out"));
    for name in [
        "out.neff",
        "out.metaneff",
        "to/model.neff",
        "to/model.metaneff",
    ] {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Files may not grow beyond a limit, as on a disk that fills: what was there
/// stays, and nothing is left beside it.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_leaves_nothing_half_written() {
    let folder = packed();
    let path = |name: &str| folder.path().join(name);
    let neff = fs::read(path("model.neff")).unwrap();
    // A field that no version of the schema has makes the file large.
    let mut large = fs::read(path("model.metaneff")).unwrap();
    large.extend_from_slice(b"\x9a\x06\xc0\xb8\x02");
    large.extend_from_slice(&[b'x'; 40_000]);
    fs::write(path("model.metaneff"), &large).unwrap();
    fs::write(path("m.pt"), archive(&neff, &large)).unwrap();
    fs::copy(module("binary__multiply__f32"), path("m.pb")).unwrap();
    let key = format!("0={}", "k".repeat(40_000));
    let before = left(&folder);
    // Blocks of 512 or 1024 bytes: the NEFF fits below the first limit, what is
    // written after it does not, and below the second nothing does.
    for (blocks, verb) in [
        ("16", &["edit", "model.metaneff", "--lazy-load", "true"][..]),
        ("16", &["pack", "m.pb", "--input", &key]),
        ("16", &["extract", "m.pt"]),
        ("1", &["pack", "m.pb"]),
        ("1", &["unpack", "model.neff"]),
        ("1", &["neuronx-cc", "compile", "m.pb", "-o", "model.neff"]),
        ("1", &["run", "model.neff", "--zeros", "-o", "model.npz"]),
    ] {
        let limited = r#"trap "" XFSZ; ulimit -f "$1"; shift; exec "$@""#;
        let assert = assert_cmd::Command::new("sh")
            .current_dir(folder.path())
            .args(["-c", limited, "sh", blocks, env!("CARGO_BIN_EXE_metaneff")])
            .args(verb)
            .assert()
            .code(3);
        let text = stderr(&assert);
        assert!(
            text.contains("cannot be written") && text.contains("too large"),
            "{text}"
        );
        assert_eq!(left(&folder), before, "{:?}", verb[0]);
        assert_eq!(fs::read(path("model.neff")).unwrap(), neff);
        assert_eq!(fs::read(path("model.metaneff")).unwrap(), large);
    }
}
