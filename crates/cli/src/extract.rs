//! `metaneff extract`: the compiled models inside of a `.pt` archive.

use std::collections::BTreeSet;
use std::path::PathBuf;

use metaneff_schema::script::ScriptArchive;
use serde_json::{Value, json};

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::text::{shown, size, table};

const EXAMPLES: &str = "\
Examples:
  metaneff extract model.pt
  metaneff extract model.pt -o folder
  metaneff extract model.pt --dry-run

Of one model the files are called model.neff and model.metaneff, of several they are
called as the models are in the archive. Nothing in the archive is executed.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The archive, as `torch.jit.save` wrote it.
    archive: PathBuf,
    /// The folder for the files; it must be there.
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    output: PathBuf,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let failed = |error: &dyn std::error::Error| Failure::file(&args.archive, error);
    let archive = ScriptArchive::open(&args.archive).map_err(|error| failed(&error))?;
    let models = archive.models();
    if models.is_empty() {
        // The archive's own words for it.
        archive.model().map_err(|error| failed(&error))?;
    }
    let mut taken = BTreeSet::new();
    let mut rows = table(&["model", "kind", "file", "#bytes"]);
    let mut documents: Vec<Value> = Vec::new();
    let mut contents = Vec::new();
    for model in models {
        let stem = match models.len() {
            1 => "model".to_owned(),
            _ => free(&file_name(&model.name), &mut taken),
        };
        for (extension, bytes) in [("neff", &model.neff), ("metaneff", &model.metaneff)] {
            let path = args.output.join(format!("{stem}.{extension}"));
            let kind = model.kind.to_string();
            rows.add_row([
                shown(&model.name),
                kind.clone(),
                path.display().to_string(),
                size(bytes.len() as u64),
            ]);
            documents.push(json!({
                "model": model.name,
                "kind": kind,
                "path": path.display().to_string(),
                "size": bytes.len(),
            }));
            contents.push((path, bytes.clone()));
        }
    }
    if !args.dry_run {
        files::write_all(&contents)?;
    }
    if console.json() {
        console.document(&json!({ "written": !args.dry_run, "files": documents }))?;
    } else {
        console.say(&rows.to_string())?;
    }
    Ok(Exit::Fine)
}

/// A model's path in the archive as the name of a file.
fn file_name(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let text: String = name
        .chars()
        .take(100)
        .map(|c| if plain(c) || c == '.' { c } else { '_' })
        .collect();
    let text = text.trim_matches(['_', '.']);
    if text.is_empty() {
        "model".to_owned()
    } else {
        text.to_owned()
    }
}

/// The name, with a number if it is taken.
fn free(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    let found = candidates.find(|candidate| !taken.contains(candidate));
    let found = found.unwrap_or_default();
    taken.insert(found.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_become_names_of_files() {
        assert_eq!(
            file_name("nxd_model.spmd_models[\"decode\"]"),
            "nxd_model.spmd_models__decode"
        );
        assert_eq!(file_name("../../etc/passwd"), "etc_passwd");
        assert_eq!(file_name("\u{1b}["), "model");
        let mut taken = BTreeSet::new();
        let names: Vec<_> = ["a", "a", "b", "a"]
            .iter()
            .map(|name| free(name, &mut taken))
            .collect();
        assert_eq!(names, ["a", "a-2", "b", "a-3"]);
    }
}
