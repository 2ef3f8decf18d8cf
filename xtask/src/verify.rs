//! `cargo xtask verify`: which modules the verifier accepts, and why not.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use metaneff_hlo::Module;
use serde::Serialize;

use crate::Outcome;
use crate::shell;

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
        let error = Module::parse(std::fs::read(&file)?)
            .err()
            .map(|error| message(&error));
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
