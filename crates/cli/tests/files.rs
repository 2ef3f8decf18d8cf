//! Closed pipes, file systems that refuse, and what verbs write.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::neff::{Neff, ParseOptions};
use prost::Message as _;

use support::{json, left, metaneff, module, packed, stderr, stdout};

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../models/quickstart")
        .join(name)
}

/// Elements of the first input.
fn elements(message: &MetaNeff) -> usize {
    let product: i64 = message.input_tensors[0].shape.iter().product();
    usize::try_from(product).unwrap()
}

#[test]
fn what_is_packed_fits_runs_and_unpacks() {
    let folder = packed();
    assert_eq!(left(&folder), ["model.metaneff", "model.neff"]);
    metaneff(&folder, &["check", "model.neff", "model.metaneff"]).success();
    metaneff(
        &folder,
        &[
            "run",
            "model.neff",
            "model.metaneff",
            "--random",
            "1",
            "-o",
            "first.npz",
        ],
    )
    .success();
    let same = [
        "run",
        "model.neff",
        "model.metaneff",
        "--random",
        "1",
        "--expect",
        "first.npz",
    ];
    metaneff(
        &folder,
        &[&same[..], &["--rtol", "0", "--atol", "0"]].concat(),
    )
    .success();
    // An array that no slot is called like is left out and told.
    let weights = ["run", "model.neff", "--random", "1", "-w", "first.npz"];
    let assert = metaneff(&folder, &weights).success();
    assert!(stderr(&assert).contains("1 array of --weights called like no slot: output0"));
    let other = [
        "run",
        "model.neff",
        "model.metaneff",
        "--random",
        "2",
        "--expect",
        "first.npz",
    ];
    let assert = metaneff(&folder, &other).code(1);
    assert!(stdout(&assert).contains("different within rtol"));

    let assert = metaneff(&folder, &["unpack", "model.neff"]).success();
    assert!(stdout(&assert).starts_with("model: 9 members, "));
    let graph = fs::read(folder.path().join("model/metaneff/hlo_module.pb")).unwrap();
    assert_eq!(graph, fs::read(module("binary__add__f32")).unwrap());
    let header = fs::read(folder.path().join("model/header.bin")).unwrap();
    assert_eq!(
        header[..],
        fs::read(folder.path().join("model.neff")).unwrap()[..1024]
    );
    // A second time the folder is there.
    let assert = metaneff(&folder, &["unpack", "model.neff"]).code(3);
    assert!(stderr(&assert).contains("not empty"));
    assert_eq!(
        left(&folder),
        ["first.npz", "model", "model.metaneff", "model.neff"]
    );
}

/// A NEFF that carries its module needs no metaneff.
#[test]
fn a_packed_neff_runs_alone() {
    let folder = packed();
    let assert = metaneff(&folder, &["run", "--json", "model.neff", "--zeros"]).success();
    assert_eq!(json(&assert)["outputs"][0]["max"], 0.0);
}

/// A folder as the runtime dumps it, and one array a file.
#[test]
fn dumps_are_replayed() {
    let folder = packed();
    let message = fs::read(folder.path().join("model.metaneff")).unwrap();
    let message = MetaNeff::decode(&*message).unwrap();
    let elements = elements(&message);
    let dump = folder.path().join("input_dump_1_h_nn_2");
    fs::create_dir(&dump).unwrap();
    fs::write(
        dump.join("input0.bin"),
        1.5_f32.to_le_bytes().repeat(elements),
    )
    .unwrap();
    fs::write(
        dump.join("input1.bin"),
        2_f32.to_le_bytes().repeat(elements),
    )
    .unwrap();
    fs::write(dump.join("model_name.txt"), "m").unwrap();
    let run = [
        "run",
        "--json",
        "model.neff",
        "model.metaneff",
        "-i",
        "input_dump_1_h_nn_2",
    ];
    let assert = metaneff(&folder, &run).success();
    let output = &json(&assert)["outputs"][0];
    assert_eq!((&output["min"], &output["max"]), (&3.5.into(), &3.5.into()));
    // A dump of the wrong length says what is expected.
    fs::write(dump.join("input1.bin"), [0; 3]).unwrap();
    let assert = metaneff(&folder, &run).code(3);
    assert!(
        stderr(&assert).contains("takes") && stderr(&assert).contains("found 3"),
        "{}",
        stderr(&assert)
    );
}

#[test]
fn a_nan_is_told_and_a_finding_where_that_is_asked() {
    let folder = packed();
    let message =
        MetaNeff::decode(&*fs::read(folder.path().join("model.metaneff")).unwrap()).unwrap();
    let elements = elements(&message);
    let nan = f32::NAN.to_le_bytes().repeat(elements);
    fs::write(folder.path().join("nan.bin"), nan).unwrap();
    let run = [
        "run",
        "model.neff",
        "model.metaneff",
        "-i",
        "x=nan.bin",
        "--zeros",
    ];
    let assert = metaneff(&folder, &run).success();
    assert!(stdout(&assert).contains("numerical error (1003)"));
    metaneff(&folder, &[&run[..], &["--reject-nan"]].concat()).code(1);
    let ignored = metaneff(
        &folder,
        &[&run[..], &["--reject-nan", "--nan", "ignore"]].concat(),
    );
    assert!(stdout(&ignored.success()).contains("completion: clean"));
}

#[test]
fn traces_have_the_steps_and_the_instructions() {
    let folder = packed();
    let run = [
        "run",
        "model.neff",
        "model.metaneff",
        "--zeros",
        "--trace",
        "t.json",
        "--profile",
    ];
    let assert = metaneff(&folder, &run).success();
    assert!(stdout(&assert).contains("time by opcode"));
    let trace: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("t.json")).unwrap()).unwrap();
    let names: Vec<_> = trace["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    for name in ["load", "bind", "execute", "read the outputs", "add"] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn benchmarks_compare_with_their_own_documents() {
    let folder = packed();
    let bench = [
        "bench",
        "model.neff",
        "model.metaneff",
        "--random",
        "1",
        "-n",
        "3",
        "--warmup",
        "1",
    ];
    let assert = metaneff(&folder, &[&bench[..], &["--json"]].concat()).success();
    let document = json(&assert);
    for part in ["total", "device", "host"] {
        let numbers = &document[part];
        assert!(
            numbers["min_us"].as_f64() <= numbers["p50_us"].as_f64(),
            "{numbers}"
        );
        assert!(
            numbers["p50_us"].as_f64() <= numbers["max_us"].as_f64(),
            "{numbers}"
        );
    }
    fs::write(
        folder.path().join("before.json"),
        &assert.get_output().stdout,
    )
    .unwrap();
    let compare = [&bench[..], &["--baseline", "before.json"]].concat();
    assert!(stdout(&metaneff(&folder, &compare).success()).contains("in the baseline"));
    // Nothing is a million times as fast as before.
    let mut impossible = document;
    impossible["total"]["p50_us"] = 1e-6.into();
    fs::write(folder.path().join("before.json"), impossible.to_string()).unwrap();
    metaneff(
        &folder,
        &[&compare[..], &["--max-regression", "10"]].concat(),
    )
    .code(1);
}

#[test]
fn edits_change_what_they_name_and_keep_the_rest() {
    let folder = packed();
    let path = folder.path().join("model.metaneff");
    let mut original = fs::read(&path).unwrap();
    // A field that no version of the schema has.
    original.extend_from_slice(b"\x9a\x06\x02hi");
    fs::write(&path, &original).unwrap();
    let edit = [
        "edit",
        "model.metaneff",
        "--lazy-load",
        "true",
        "--dynamic-batch",
        "all",
    ];
    metaneff(&folder, &[&edit[..], &["--dry-run"]].concat()).success();
    assert_eq!(fs::read(&path).unwrap(), original);
    metaneff(&folder, &edit).success();
    let edited = fs::read(&path).unwrap();
    let message = MetaNeff::decode(&*edited).unwrap();
    assert!(message.model_config.unwrap().lazy_load);
    assert!(
        message
            .input_tensors
            .iter()
            .all(|tensor| tensor.allow_dynamic_batch_size)
    );
    assert!(edited.windows(5).any(|window| window == b"\x9a\x06\x02hi"));
    // And back: the same fields as at first.
    let back = [
        "edit",
        "model.metaneff",
        "--lazy-load",
        "false",
        "--dynamic-batch",
        "none",
    ];
    metaneff(&folder, &back).success();
    let message = MetaNeff::decode(&*fs::read(&path).unwrap()).unwrap();
    let expected = MetaNeff::decode(&*original).unwrap();
    assert_eq!(message.input_tensors, expected.input_tensors);
    assert_eq!(message.serialized_graph_def, expected.serialized_graph_def);
    // An edit that is the state already leaves the file alone.
    let assert = metaneff(
        &folder,
        &["edit", "--json", "model.metaneff", "--lazy-load", "false"],
    );
    assert_eq!(json(&assert.success())["written"], false);
    assert_eq!(left(&folder), ["model.metaneff", "model.neff"]);
}

/// Names in a file cannot move the cursor, whatever the verb.
#[test]
fn escape_sequences_in_names_are_not_printed() {
    let folder = packed();
    let name = "\u{1b}[2J\u{7}evil";
    let message = MetaNeff {
        name: name.into(),
        input_tensors: vec![MetaTensor {
            name: name.into(),
            data_type: 1,
            ..MetaTensor::default()
        }],
        ..MetaNeff::default()
    };
    fs::write(folder.path().join("evil.metaneff"), message.encode_to_vec()).unwrap();
    for verb in [
        &["inspect", "evil.metaneff"][..],
        &["check", "model.neff", "evil.metaneff"],
        &["check", "--format", "github", "model.neff", "evil.metaneff"],
        &["run", "model.neff", "evil.metaneff", "--zeros"],
        &["edit", "evil.metaneff", "--rename", "a=b"],
    ] {
        let assert = metaneff(&folder, verb);
        let text = stdout(&assert) + &stderr(&assert);
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{verb:?}: {text:?}"
        );
    }
}

/// A reader that goes away after the first bytes ends the command quietly.
#[test]
fn a_pipe_that_closes_early_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_metaneff"))
        .args(["inspect", "--all", "--json"])
        .args([
            model("model.neff"),
            model("model.metaneff"),
            model("module.pb"),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut text = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""));
}

/// A device that is always full, as output and as a file to be written.
#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_and_says_so() {
    let full = || {
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap()
    };
    let output = Command::new(env!("CARGO_BIN_EXE_metaneff"))
        .arg("devices")
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("standard output cannot be written"), "{text}");
    let folder = packed();
    let run = [
        "run",
        "model.neff",
        "model.metaneff",
        "--zeros",
        "-o",
        "/dev/full",
    ];
    let assert = metaneff(&folder, &run).code(3);
    assert!(
        stderr(&assert).contains("`/dev/full` cannot be written"),
        "{}",
        stderr(&assert)
    );
}

/// What cannot be replaced stays as it was, and nothing is left beside it.
#[test]
fn read_only_targets_stay_as_they_are() {
    let folder = packed();
    let path = folder.path().join("model.metaneff");
    let before = fs::read(&path).unwrap();
    let neff = fs::read(folder.path().join("model.neff")).unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let graph = module("binary__multiply__f32");
    for verb in [
        &["edit", "model.metaneff", "--lazy-load", "true"][..],
        &["run", "model.neff", "--zeros", "-o", "model.metaneff"],
        &["run", "model.neff", "--zeros", "--trace", "model.metaneff"],
        &["pack", graph.to_str().unwrap()],
    ] {
        let assert = metaneff(&folder, verb).code(3);
        assert!(
            stderr(&assert).contains("cannot be written"),
            "{}",
            stderr(&assert)
        );
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read(folder.path().join("model.neff")).unwrap(), neff);
        assert_eq!(left(&folder), ["model.metaneff", "model.neff"]);
    }
}

/// `--json` is JSON for failures too, on standard error.
#[test]
fn failures_are_json_where_that_is_asked() {
    let folder = packed();
    let assert = metaneff(&folder, &["--json", "run", "model.neff", "model.metaneff"]).code(2);
    let error: serde_json::Value = serde_json::from_slice(&assert.get_output().stderr).unwrap();
    assert_eq!(error["error"]["kind"], "usage");
    assert!(stdout(&assert).is_empty());
}

/// Zips and safetensors files are listed by their directories.
#[test]
fn archives_and_checkpoints_are_listed() {
    use std::io::Write as _;
    let folder = packed();
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path().join("m.pt")).unwrap());
    for (name, contents) in [
        ("m/data.pkl", b"\x80\x02N.".to_vec()),
        ("m/code/__torch__.py", b"class M: ...".to_vec()),
        (
            "m/model.neff",
            fs::read(folder.path().join("model.neff")).unwrap(),
        ),
    ] {
        zip.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        zip.write_all(&contents).unwrap();
    }
    zip.finish().unwrap();
    let assert = metaneff(&folder, &["inspect", "--json", "m.pt"]).success();
    let file = &json(&assert)["files"][0];
    let what: Vec<_> = file["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| &member["what"])
        .collect();
    assert_eq!(what, ["pickle", "TorchScript code", "NEFF"]);

    let header = r#"{"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&[0; 12]);
    fs::write(folder.path().join("w.safetensors"), &file).unwrap();
    let assert = metaneff(&folder, &["inspect", "--json", "w.safetensors"]).success();
    let tensor = &json(&assert)["files"][0]["tensors"][0];
    assert_eq!(
        (&tensor["dtype"], &tensor["size"]),
        (&"bf16".into(), &12.into())
    );
    // Cut off: the header promises more than there is.
    fs::write(folder.path().join("w.safetensors"), &file[..file.len() - 1]).unwrap();
    metaneff(&folder, &["inspect", "w.safetensors"]).code(3);
}

/// A traced module as `torch.jit.save` pickles it: its `model` has NEFF and metaneff.
#[test]
fn models_are_taken_out_of_archives() {
    use std::io::Write as _;
    let folder = packed();
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let text = |bytes: &[u8]| {
        let size = u32::try_from(bytes.len()).unwrap();
        [b"X", &size.to_le_bytes()[..], bytes].concat()
    };
    let pickle = [
        b"\x80\x02c__torch__.module\nModule\n)\x81}(".to_vec(),
        text(b"model"),
        b"c__torch__.torch.classes.neuron\nModel\n)\x81(".to_vec(),
        text(&read("model.neff")),
        text(&read("model.metaneff")),
        b"tbub.".to_vec(),
    ]
    .concat();
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path().join("m.pt")).unwrap());
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("m/data.pkl", options).unwrap();
    zip.write_all(&pickle).unwrap();
    zip.finish().unwrap();

    let assert = metaneff(&folder, &["inspect", "m.pt"]).success();
    assert!(
        stdout(&assert).contains("1 compiled model\n"),
        "{}",
        stdout(&assert)
    );
    fs::create_dir(folder.path().join("out")).unwrap();
    metaneff(&folder, &["extract", "m.pt", "-o", "out", "--dry-run"]).success();
    assert_eq!(fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
    metaneff(&folder, &["extract", "m.pt", "-o", "out"]).success();
    for name in ["model.neff", "model.metaneff"] {
        assert_eq!(read(&format!("out/{name}")), read(name));
    }
    let assert = metaneff(&folder, &["extract", "model.neff"]).code(3);
    assert!(
        stderr(&assert).contains("no zip archive"),
        "{}",
        stderr(&assert)
    );
}

#[test]
fn every_shell_gets_a_script() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&metaneff(&folder, &["completions", shell]).success());
        let assert = metaneff(&folder, &["completions", "--json", shell]).success();
        assert_eq!(json(&assert)["script"], script);
        for verb in ["inspect", "check", "run", "bench", "edit", "unpack"] {
            assert!(script.contains(verb), "{shell}: {verb}");
        }
    }
}

#[test]
fn a_tar_without_compression_is_the_same_model() {
    let folder = packed();
    let graph = module("binary__add__f32");
    metaneff(
        &folder,
        &[
            "pack",
            graph.to_str().unwrap(),
            "--tar",
            "--neff",
            "t.neff",
            "--metaneff",
            "t.metaneff",
        ],
    )
    .success();
    let parse = |name: &str| {
        let mut options = ParseOptions::default();
        options.validate_hash = true;
        Neff::parse(fs::read(folder.path().join(name)).unwrap(), &options).unwrap()
    };
    let (plain, gzip) = (parse("t.neff"), parse("model.neff"));
    assert_ne!(plain.header().package, gzip.header().package);
    assert_eq!(plain.variables(), gzip.variables());
    assert_eq!(plain.graph(), gzip.graph());
}
