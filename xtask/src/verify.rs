//! `cargo xtask verify`: which modules the verifier accepts, and why not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use metaneff_hlo::Module;
use serde::Serialize;

use crate::Outcome;
use crate::shell;

/// What files begin with that gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Options of `verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, or folders that are searched for `.pb` files.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Also write the verdicts to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Report {
    files: Vec<Verdict>,
}

#[derive(Debug, Serialize)]
struct Verdict {
    file: String,
    accepted: bool,
    error: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let report = report(args)?;
    let refused = report.files.iter().filter(|file| !file.accepted).count();
    shell::say(&format!(
        "verify: {} accepted, {refused} refused",
        report.files.len() - refused
    ));
    Ok(if refused == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn report(args: &Args) -> Result<Report, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for path in &args.paths {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        return Err("no `.pb` file was found".into());
    }
    let mut report = Report {
        files: Vec::with_capacity(files.len()),
    };
    for file in files {
        let error = refusal(&file);
        let verdict = Verdict {
            file: file.display().to_string(),
            accepted: error.is_none(),
            error,
        };
        match &verdict.error {
            None => shell::say(&format!("accepted {}", verdict.file)),
            Some(error) => shell::say(&format!("refused  {}: {error}", verdict.file)),
        }
        report.files.push(verdict);
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    Ok(report)
}

/// Why a file is refused, if it is.
fn refusal(file: &Path) -> Option<String> {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => return Some(format!("cannot be read: {error}")),
    };
    if bytes.starts_with(&GZIP) {
        return Some("is compressed by gzip: decompress it first".to_owned());
    }
    Module::parse(bytes).err().map(|error| message(&error))
}

/// An error with its sources.
fn message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// A file itself, or the `.pb` files below a folder, by name.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut folders = vec![path.to_owned()];
    let first = files.len();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // Links are not followed: they could lead in circles.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "pb")
            {
                files.push(entry.path());
            }
        }
    }
    files[first..].sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use metaneff_schema::xla::{
        HloComputationProto, HloInstructionProto, HloModuleProto, HloProto, PrimitiveType,
        ShapeProto,
    };
    use prost::Message;

    /// A module whose only instruction has `opcode`.
    fn module(opcode: &str) -> HloModuleProto {
        let shape = ShapeProto {
            element_type: PrimitiveType::F32.into(),
            ..ShapeProto::default()
        };
        let instruction = HloInstructionProto {
            name: "only".into(),
            opcode: opcode.into(),
            shape: Some(shape),
            ..HloInstructionProto::default()
        };
        HloModuleProto {
            computations: vec![HloComputationProto {
                name: "entry".into(),
                instructions: vec![instruction],
                ..HloComputationProto::default()
            }],
            ..HloModuleProto::default()
        }
    }

    #[test]
    fn every_file_has_a_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let bytes = module("parameter").encode_to_vec();
        let wrapped = HloProto {
            hlo_module: Some(module("parameter")),
        };
        for (name, content) in [
            ("a_plain.pb", bytes.clone()),
            ("b_wrapped.pb", wrapped.encode_to_vec()),
            ("c_truncated.pb", bytes[..bytes.len() - 3].to_vec()),
            ("d_empty.pb", Vec::new()),
            ("e_compressed.pb", vec![0x1f, 0x8b, 8, 0]),
            ("inner/f_send.pb", module("send").encode_to_vec()),
            ("notes.txt", b"no module".to_vec()),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let json = folder.path().join("report.json");
        let missing = folder.path().join("missing.pb");
        let args = Args {
            paths: vec![folder.path().to_owned(), missing],
            json: Some(json.clone()),
        };
        let report = report(&args).unwrap();
        let verdicts: Vec<(&str, bool, &str)> = report
            .files
            .iter()
            .map(|file| {
                let name = file.file.rsplit('/').next().unwrap_or_default();
                (
                    name,
                    file.accepted,
                    file.error.as_deref().unwrap_or_default(),
                )
            })
            .collect();
        let accepted: Vec<&str> = verdicts
            .iter()
            .filter_map(|&(name, accepted, _)| accepted.then_some(name))
            .collect();
        assert_eq!(accepted, ["a_plain.pb", "b_wrapped.pb"]);
        for (name, reason) in [
            ("c_truncated.pb", "no HLO module"),
            ("d_empty.pb", "number of computations"),
            ("e_compressed.pb", "decompress it first"),
            (
                "f_send.pb",
                "send instruction `only` of computation `entry`",
            ),
            ("missing.pb", "cannot be read"),
        ] {
            let verdict = verdicts.iter().find(|verdict| verdict.0 == name);
            let (_, accepted, error) = verdict.expect("a verdict");
            assert!(!accepted && error.contains(reason), "{name}: {error}");
        }
        assert_eq!(verdicts.len(), 7);

        let written: serde_json::Value =
            serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
        let first = &written["files"][0];
        assert!(first["file"].as_str().unwrap().ends_with("a_plain.pb"));
        assert_eq!(first["accepted"], true);
        assert_eq!(first["error"], serde_json::Value::Null);
    }

    #[test]
    fn a_folder_without_modules_cannot_be_verified() {
        let folder = tempfile::tempdir().unwrap();
        let args = Args {
            paths: vec![folder.path().to_owned()],
            json: None,
        };
        assert_eq!(
            report(&args).unwrap_err().to_string(),
            "no `.pb` file was found"
        );
    }
}
