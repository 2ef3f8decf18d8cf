//! `metaneff edit`: changes how a model is loaded and batched, and nothing else.

use std::fmt::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
use metaneff_schema::{Document, EditError};
use serde_json::{Value, json};

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::text::plural;

const EXAMPLES: &str = "\
Examples:
  metaneff edit model.metaneff --lazy-load true --dry-run
  metaneff edit model.metaneff --dynamic-batch all -o batched.metaneff
  metaneff edit model.metaneff --dynamic-batch input0,output0
  metaneff edit model.metaneff --rename input0=ids

Without -o the file itself is replaced, in one step. Bytes that an edit does not concern
stay as they are, fields included that this version does not know.";

/// Bytes of a field that a dry run prints.
const PRINTED: usize = 48;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The metaneff.
    metaneff: PathBuf,
    /// Where to write, instead of over the file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the bytes that would change, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Load in the background.
    #[arg(long, value_name = "true|false")]
    async_load: Option<bool>,
    /// Load when it is first executed.
    #[arg(long, value_name = "true|false")]
    lazy_load: Option<bool>,
    /// Return outputs that take an input's buffer to the caller too.
    #[arg(long, value_name = "true|false")]
    return_aliases: Option<bool>,
    /// Which tensors' leading dimension is free: `all`, `none`, or device names.
    #[arg(long, value_name = "NAMES")]
    dynamic_batch: Option<String>,
    /// Rename a tensor on the device's side; the NEFF must know the new name.
    #[arg(long, value_name = "OLD=NEW")]
    rename: Vec<String>,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let failed = |error: &dyn std::error::Error| Failure::file(&args.metaneff, error);
    let bytes = files::read(&args.metaneff)?;
    let before = Document::parse(bytes).map_err(|error| failed(&error))?;
    let message = before.message().map_err(|error| failed(&error))?;
    let mut after = before.clone();
    if !args.asks_for_something() {
        return Err(Failure::Usage(
            "nothing to edit: --async-load, --lazy-load, --return-aliases, --dynamic-batch and \
             --rename say what"
                .to_owned(),
        ));
    }
    args.apply(&mut after, &message)?;
    let changes = changes(&before, &after);
    let target = args.output.as_ref().unwrap_or(&args.metaneff);
    let same = changes.is_empty();
    // A copy is asked for even if it is the same; the file itself is left alone then.
    let write = !args.dry_run && (!same || args.output.is_some());
    if write {
        files::write(target, after.chunks().map(|chunk| &**chunk))?;
    }
    if console.json() {
        console.document(&json!({
            "path": target.display().to_string(),
            "written": write,
            "size_before": before.len(),
            "size_after": after.len(),
            "changes": changes.iter().map(Change::json).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Fine);
    }
    let mut text = String::new();
    for change in &changes {
        text.push_str(&change.text());
    }
    let what = match (write, same) {
        (_, true) => "nothing changes".to_owned(),
        (true, _) => format!("{} changed", plural(changes.len(), "field")),
        (false, _) => format!(
            "{} would change, nothing was written",
            plural(changes.len(), "field")
        ),
    };
    let _ = writeln!(
        text,
        "{}: {what}; {} bytes, {} before",
        target.display(),
        after.len(),
        before.len()
    );
    console.say(&text)?;
    Ok(Exit::Fine)
}

impl Args {
    const fn asks_for_something(&self) -> bool {
        self.async_load.is_some()
            || self.lazy_load.is_some()
            || self.return_aliases.is_some()
            || self.dynamic_batch.is_some()
            || !self.rename.is_empty()
    }

    fn apply(&self, document: &mut Document, message: &MetaNeff) -> Result<(), Failure> {
        if let Some(value) = self.async_load {
            document.set_async_load(value);
        }
        if let Some(value) = self.lazy_load {
            document.set_lazy_load(value);
        }
        if let Some(value) = self.return_aliases {
            document.set_return_aliases(value);
        }
        let usage = |error: EditError| Failure::Usage(error.to_string());
        if let Some(names) = &self.dynamic_batch {
            let (inputs, outputs) = flags(names, message)?;
            document
                .set_dynamic_batching_mixed(&inputs, &outputs)
                .map_err(usage)?;
        }
        for pair in &self.rename {
            let (old, new) = pair
                .split_once('=')
                .filter(|(old, new)| !old.is_empty() && !new.is_empty() && !new.contains('\0'))
                .ok_or_else(|| Failure::Usage(format!("`--rename {pair}`: expected OLD=NEW")))?;
            let place = |tensors: &[MetaTensor]| {
                tensors
                    .iter()
                    .position(|tensor| *tensor.name == *old.as_bytes())
            };
            match (
                place(&message.input_tensors),
                place(&message.output_tensors),
            ) {
                (Some(ordinal), _) => document.set_input_name(ordinal, new).map_err(usage)?,
                (None, Some(ordinal)) => document.set_output_name(ordinal, new).map_err(usage)?,
                (None, None) => return Err(unknown(old, message)),
            }
        }
        Ok(())
    }
}

/// Which tensors take part in a batch. Scalars never do.
fn flags(names: &str, message: &MetaNeff) -> Result<(Vec<bool>, Vec<bool>), Failure> {
    let tensors = || message.input_tensors.iter().chain(&message.output_tensors);
    let wanted: Vec<&str> = match names {
        "all" | "none" => Vec::new(),
        names => names.split(',').collect(),
    };
    for name in &wanted {
        let tensor = tensors().find(|tensor| *tensor.name == *name.as_bytes());
        match tensor {
            None => return Err(unknown(name, message)),
            Some(tensor) if tensor.shape.is_empty() => {
                return Err(Failure::Usage(format!(
                    "`{name}` is a scalar, which has no batch"
                )));
            }
            Some(_) => {}
        }
    }
    let side = |tensors: &[MetaTensor]| -> Vec<bool> {
        let flags = tensors.iter().map(|tensor| {
            let named = wanted.iter().any(|name| *tensor.name == *name.as_bytes());
            !tensor.shape.is_empty() && (names == "all" || named)
        });
        flags.collect()
    };
    Ok((side(&message.input_tensors), side(&message.output_tensors)))
}

fn unknown(name: &str, message: &MetaNeff) -> Failure {
    let tensors = message.input_tensors.iter().chain(&message.output_tensors);
    let names: Vec<_> = tensors
        .map(|tensor| crate::text::shown_bytes(&tensor.name))
        .collect();
    Failure::Usage(format!(
        "no tensor is named `{name}`; there are {}",
        names.join(", ")
    ))
}

/// A field that an edit changes.
struct Change {
    /// Where it stands before.
    offset: usize,
    before: Bytes,
    after: Bytes,
}

fn changes(before: &Document, after: &Document) -> Vec<Change> {
    let mut found = Vec::new();
    let mut offset = 0;
    let mut old = before.chunks();
    // Fields keep their places; one that is new stands at the end.
    for new in after.chunks() {
        let old = old.next().cloned().unwrap_or_default();
        let length = old.len();
        if old != *new {
            found.push(Change {
                offset,
                before: old,
                after: new.clone(),
            });
        }
        offset += length;
    }
    found
}

impl Change {
    fn text(&self) -> String {
        format!(
            "at byte {}\n  - {}\n  + {}\n",
            self.offset,
            hex(&self.before),
            hex(&self.after)
        )
    }

    fn json(&self) -> Value {
        json!({
            "offset": self.offset,
            "before": hex(&self.before),
            "after": hex(&self.after),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(nothing)".to_owned();
    }
    let text: Vec<_> = bytes
        .iter()
        .take(PRINTED)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let more = match bytes.len().saturating_sub(PRINTED) {
        0 => String::new(),
        more => format!(" … {more} more"),
    };
    format!("{}{more}", text.join(" "))
}
