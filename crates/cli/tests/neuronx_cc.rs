//! `metaneff neuronx-cc` and the executable of that name, as front ends call them.

use std::path::Path;

use assert_cmd::Command;
use metaneff_schema::neff::{Neff, ParseOptions};
use metaneff_schema::xla::{HloModuleProto, OpMetadata};
use prost::Message as _;

fn module(name: &str) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("corpus").join(name).join("module.pb")
}

fn compiler(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuronx-cc"));
    command.current_dir(folder);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A front end's line: the NEFF appears in the work folder and has the module.
#[test]
fn a_module_becomes_a_neff() {
    let folder = tempfile::tempdir().unwrap();
    let input = module("binary__add__f32");
    compiler(folder.path())
        .args(["compile", "--framework", "XLA"])
        .arg(&input)
        .args(["--pipeline", "compile", "SaveTemps", "--target", "trn2"])
        .args([
            "--output=add.neff",
            "--lnc",
            "1",
            "--internal-tensorizer-opt-level=2",
        ])
        .assert()
        .success()
        .stdout("Compiler status PASS\n");
    let neff = std::fs::read(folder.path().join("add.neff")).unwrap();
    let mut options = ParseOptions::default();
    options.validate_hash = true;
    let neff = Neff::parse(neff, &options).unwrap();
    assert_eq!(neff.graph().unwrap(), &std::fs::read(input).unwrap());
    assert_eq!(neff.header().logical_core_size, 1);
    let names: Vec<_> = neff.variables().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["input0", "input1", "output0"]);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// The same verb below `metaneff`, with a compressed module and a wider core.
#[test]
fn compressed_modules_and_wide_cores_are_taken() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&std::fs::read(module("binary__add__f32")).unwrap())
        .unwrap();
    let input = folder.path().join("model.hlo_module.pb.gz");
    std::fs::write(&input, gzip.finish().unwrap()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_metaneff"))
        .current_dir(folder.path())
        .args(["neuronx-cc", "compile", "--lnc=2"])
        .arg(&input)
        .assert()
        .success();
    let neff = std::fs::read(folder.path().join("file.neff")).unwrap();
    let neff = Neff::parse(neff, &ParseOptions::default()).unwrap();
    assert_eq!(neff.header().logical_core_size, 2);
}

/// A front end that wants to read the lowered program gets the module's lines.
#[test]
fn the_module_is_listed_for_print_nki() {
    let folder = tempfile::tempdir().unwrap();
    compiler(folder.path())
        .arg("compile")
        .arg(module("binary__add__f32"))
        .args(["--pipeline", "tensorize", "SaveTemps"])
        .args([
            "--tensorizer-options=--print-nki --other",
            "-o",
            "file.neff",
        ])
        .assert()
        .success();
    let listing = std::fs::read_to_string(folder.path().join("nki.py")).unwrap();
    assert!(listing.contains("no NKI program"), "{listing}");
    assert!(
        listing.contains("def ") && listing.contains(" = add("),
        "{listing}"
    );
    assert!(!folder.path().join("file.neff").exists());
}

/// A module that is wrong: the line of the program that it comes from, exit code
/// 1, and no NEFF.
#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(module("binary__add__f32")).unwrap();
    let mut proto = HloModuleProto::decode(&*bytes).unwrap();
    let entry = proto
        .computations
        .iter_mut()
        .find(|c| c.id == proto.entry_computation_id)
        .unwrap();
    let add = entry
        .instructions
        .iter_mut()
        .find(|i| i.opcode == "add")
        .unwrap();
    add.name = "sum.3".to_owned();
    add.operand_ids.pop();
    for (metadata, expected) in [
        (None, "bad.pb: error: add instruction `sum.3`"),
        (
            Some(OpMetadata {
                source_file: "kernels/sum.py".to_owned(),
                source_line: 12,
                ..OpMetadata::default()
            }),
            "kernels/sum.py:12: error: add instruction `sum.3`",
        ),
    ] {
        let entry = proto
            .computations
            .iter_mut()
            .find(|c| c.id == proto.entry_computation_id)
            .unwrap();
        let add = entry.instructions.iter_mut().find(|i| i.name == "sum.3");
        add.unwrap().metadata = metadata;
        std::fs::write(folder.path().join("bad.pb"), proto.encode_to_vec()).unwrap();
        let assert = compiler(folder.path())
            .args(["compile", "bad.pb", "--output", "bad.neff"])
            .assert()
            .code(1)
            .stdout("Compiler status ERROR\n");
        let message = text(&assert.get_output().stderr);
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("bad.pb"), "{message}");
        assert!(!folder.path().join("bad.neff").exists());
    }
}

/// Files that are missing, cut off or something else: exit code 3, with the
/// file's name.
#[test]
fn files_that_are_no_modules_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(module("binary__add__f32")).unwrap();
    for (name, contents) in [
        ("missing.pb", None),
        ("cut.pb", Some(bytes[..bytes.len() / 2].to_vec())),
        ("text.pb", Some(b"HloModule m".to_vec())),
        ("cut.gz", Some(vec![0x1f, 0x8b, 8, 0])),
    ] {
        if let Some(contents) = contents {
            std::fs::write(folder.path().join(name), contents).unwrap();
        }
        let assert = compiler(folder.path())
            .args(["compile", name])
            .assert()
            .code(3);
        let message = text(&assert.get_output().stderr);
        assert!(
            message.contains(&format!("error: `{name}`: ")),
            "{name}: {message}"
        );
        assert!(!folder.path().join("file.neff").exists());
    }
}

/// A read-only NEFF stays as it is; a folder that does not exist is named.
#[test]
fn targets_that_cannot_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept.neff");
    std::fs::write(&kept, "old").unwrap();
    let mut permissions = std::fs::metadata(&kept).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&kept, permissions).unwrap();
    for target in ["kept.neff", "no/such/folder.neff", "."] {
        let assert = compiler(folder.path())
            .arg("compile")
            .arg(module("binary__add__f32"))
            .args(["-o", target])
            .assert()
            .code(3);
        let message = text(&assert.get_output().stderr);
        assert!(
            message.contains(&format!("`{target}` cannot be written")),
            "{message}"
        );
    }
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "old");
}

/// Usage errors have exit code 2; version and help go to standard output.
#[test]
fn usage_version_and_help_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = compiler(folder.path());
        command.args(arguments).assert()
    };
    let usage = run(&["compile", "--framework", "TENSORFLOW", "m.pb"]).code(2);
    assert!(text(&usage.get_output().stderr).contains("expected XLA"));
    run(&[]).code(2);
    let version = run(&["--version"]).success();
    assert!(text(&version.get_output().stdout).starts_with("NeuronX Compiler version "));
    let help = run(&["compile", "--help"]).success();
    assert!(text(&help.get_output().stdout).contains("Usage: neuronx-cc compile"));
    let operators = run(&["list-operators", "--framework", "XLA"]).success();
    let operators = text(&operators.get_output().stdout);
    assert!(operators.lines().any(|line| line == "dot"));
}

/// Below `metaneff`, `--json` is a document for success and for failure.
#[test]
fn the_outcome_is_json_where_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let run = |input: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaneff"));
        command
            .current_dir(folder.path())
            .args(["--json", "neuronx-cc", "compile"])
            .arg(input);
        let output = command.output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    let (code, document) = run(&module("binary__add__f32"));
    assert_eq!((code, &document["status"]), (Some(0), &"PASS".into()));
    assert_eq!(document["neff"], "file.neff");
    let mut proto =
        HloModuleProto::decode(&*std::fs::read(module("binary__add__f32")).unwrap()).unwrap();
    proto.computations[0].instructions[0].opcode = "no-such-opcode".to_owned();
    let bad = folder.path().join("bad.pb");
    std::fs::write(&bad, proto.encode_to_vec()).unwrap();
    let (code, document) = run(&bad);
    assert_eq!((code, &document["status"]), (Some(1), &"ERROR".into()));
}
