//! `metaneff inspect`: what a file is, and what is inside.

mod archive;
mod checkpoint;
mod cost;
mod hlo;
mod large;
mod metaneff;
mod neff;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use metaneff_schema::decode_hlo;
use serde_json::{Value, json};

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  metaneff inspect model.neff model.metaneff
  metaneff inspect --json model.hlo_module.pb.gz | jq '.files[0].opcodes'
  metaneff inspect --as metaneff metaneff.pb";

/// Rows of a table that are printed unless `--all` is given.
const ROWS: usize = 40;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// NEFFs, metaneffs, HLO modules, checkpoints, `.pt` archives.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the files are, instead of a look at their bytes.
    #[arg(long = "as", value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// Print every row of every table, not the first 40.
    #[arg(long)]
    all: bool,
}

/// What a file can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A compiled program.
    Neff,
    /// The contract of one.
    Metaneff,
    /// An `HloModuleProto` or `HloProto`, plain or compressed with gzip.
    Hlo,
    /// A safetensors file.
    Checkpoint,
    /// A TorchScript archive, or another zip.
    Archive,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Neff => "neff",
            Self::Metaneff => "metaneff",
            Self::Hlo => "hlo",
            Self::Checkpoint => "checkpoint",
            Self::Archive => "archive",
        }
    }
}

/// What is known of a file: for programs and for people.
struct Report {
    document: Value,
    text: String,
    /// What is wrong with it in spite of that.
    failure: Option<Failure>,
}

/// How much to print.
#[derive(Clone, Copy)]
struct Detail {
    all: bool,
}

impl Detail {
    /// How many of so many rows are printed, and what to say of the others.
    fn rows(self, total: usize) -> (usize, String) {
        if self.all || total <= ROWS {
            return (total, String::new());
        }
        (
            ROWS,
            format!("  … {} more, --all prints them\n", total - ROWS),
        )
    }
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let detail = Detail { all: args.all };
    let mut documents = Vec::new();
    let mut failures = Vec::new();
    for (position, path) in args.files.iter().enumerate() {
        let report = match inspect(path, args.kind, detail) {
            Ok(report) => report,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        failures.extend(report.failure);
        if console.json() {
            documents.push(report.document);
        } else {
            let gap = if position == 0 { "" } else { "\n" };
            console.say(&format!("{gap}{}", report.text))?;
        }
    }
    if console.json() {
        console.document(&json!({ "files": documents }))?;
    }
    // The last one ends the verb; those before it are told here.
    let last = failures.pop();
    for failure in failures {
        console.note(&format!("error: {failure}"));
    }
    match last {
        Some(failure) => Err(failure),
        None => Ok(Exit::Fine),
    }
}

fn inspect(path: &Path, kind: Option<Kind>, detail: Detail) -> Result<Report, Failure> {
    let kind = match kind {
        Some(kind) => kind,
        None => detect(path)?,
    };
    let mut report = match kind {
        Kind::Neff => neff::inspect(path, detail),
        Kind::Metaneff => metaneff::inspect(path, detail),
        Kind::Hlo => hlo::inspect(path, detail),
        Kind::Checkpoint => checkpoint::inspect(path, detail),
        Kind::Archive => archive::inspect(path, detail),
    }?;
    if let Value::Object(fields) = &mut report.document {
        fields.insert("path".to_owned(), json!(path.display().to_string()));
        fields.insert("kind".to_owned(), json!(kind.name()));
    }
    Ok(report)
}

/// Tells by the first bytes, and between the two protobufs by the name and then
/// by what decodes.
pub(crate) fn detect(path: &Path) -> Result<Kind, Failure> {
    let mut first = Vec::new();
    File::open(path)
        .and_then(|file| file.take(4096).read_to_end(&mut first))
        .map_err(|error| Failure::file(path, &error))?;
    if let Some(kind) = by_bytes(&first) {
        return Ok(kind);
    }
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default().to_lowercase();
    if name.contains("metaneff") {
        return Ok(Kind::Metaneff);
    }
    if name.contains("hlo") {
        return Ok(Kind::Hlo);
    }
    if metaneff::is_one(path)? {
        return Ok(Kind::Metaneff);
    }
    let hlo = crate::files::read_hlo(path)?;
    if decode_hlo(hlo).is_ok_and(|module| !module.computations.is_empty()) {
        return Ok(Kind::Hlo);
    }
    Err(Failure::File {
        path: path.to_owned(),
        reason: "not recognised: neither a NEFF, a metaneff, an HLO module, a safetensors file \
                 nor a zip; --as KIND says what it should be, and then why it is not"
            .to_owned(),
    })
}

fn by_bytes(first: &[u8]) -> Option<Kind> {
    let word = |at: usize| {
        first
            .get(at..at + 8)?
            .try_into()
            .ok()
            .map(u64::from_le_bytes)
    };
    if first.starts_with(b"PK\x03\x04") || first.starts_with(b"PK\x05\x06") {
        return Some(Kind::Archive);
    }
    if first.starts_with(&[0x1f, 0x8b]) {
        return Some(Kind::Hlo);
    }
    if matches!(word(0), Some(1 | 2)) && word(8) == Some(1024) {
        return Some(Kind::Neff);
    }
    // A length, then an object of JSON.
    if word(0).is_some_and(|length| length < 1 << 32) && first.get(8) == Some(&b'{') {
        return Some(Kind::Checkpoint);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_a_file_is() {
        let mut neff = vec![0; 1024];
        neff[0] = 2;
        neff[9] = 4;
        assert_eq!(by_bytes(&neff), Some(Kind::Neff));
        assert_eq!(by_bytes(b"PK\x03\x04"), Some(Kind::Archive));
        assert_eq!(by_bytes(&[0x1f, 0x8b, 8]), Some(Kind::Hlo));
        assert_eq!(by_bytes(b"\x02\0\0\0\0\0\0\0{}"), Some(Kind::Checkpoint));
        assert_eq!(by_bytes(b""), None);
        assert_eq!(by_bytes(b"\x0a\x03abc"), None);
    }
}
