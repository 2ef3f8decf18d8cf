//! `metaneff check`: whether a NEFF, its metaneff and its module belong together.

mod consequence;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use metaneff_binding::{Contract, ContractError, ContractOptions};
use metaneff_hlo::Module;
use metaneff_schema::metaneff::MetaNeff;
use metaneff_schema::neff::{Neff, ParseOptions};
use metaneff_schema::{decode_hlo, decode_metaneff};
use serde::Serialize;
use serde_json::json;

use crate::Outcome;
use crate::console::{Colour, Console};
use crate::exit::{Exit, Failure, chain};
use crate::files;
use crate::text::{plural, shown};

const EXAMPLES: &str = "\
Examples:
  metaneff check model.neff model.metaneff
  metaneff check --lenient model.neff metaneff.pb model.hlo_module.pb
  metaneff check --format github model.neff model.metaneff   # as a step of a workflow

Exit code 1 if there is an error; warnings alone give 0.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The compiled program.
    neff: PathBuf,
    /// Its contract.
    metaneff: PathBuf,
    /// The module that was compiled, instead of the one that the metaneff or the
    /// NEFF carries.
    hlo: Option<PathBuf>,
    /// Take what names no other buffer and no other size for a warning.
    #[arg(long)]
    lenient: bool,
    /// How findings are printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// As workflow commands, which GitHub shows beside the files.
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Error,
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Serialize)]
struct Entry {
    severity: Severity,
    rule: &'static str,
    file: PathBuf,
    message: String,
    consequence: String,
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let neff_bytes = files::read(&args.neff)?;
    let neff = Neff::parse(neff_bytes, &ParseOptions::default())
        .map_err(|error| Failure::file(&args.neff, &error))?;
    let message = decode_metaneff(files::read(&args.metaneff)?)
        .map_err(|error| Failure::file(&args.metaneff, &error))?;
    let given = args.hlo.as_deref().map(files::read_hlo).transpose()?;

    let mut entries = Vec::new();
    let source = graph(args, &neff, &message, given, &mut entries);
    verify(source.as_ref(), &mut entries)?;
    let mut checked = message;
    if let Some((_, graph)) = source {
        checked.serialized_graph_def = graph;
    }
    let contract = contract(args, &checked, &mut entries);
    if let Some(contract) = &contract {
        join(args, contract, &neff, &mut entries);
    }

    let errors = entries
        .iter()
        .filter(|entry| entry.severity == Severity::Error)
        .count();
    let warnings = entries.len() - errors;
    if console.json() {
        console.document(&json!({
            "fits": errors == 0,
            "errors": errors,
            "warnings": warnings,
            "findings": entries,
        }))?;
    } else {
        let text = match args.format {
            Format::Text => text(console, args, contract.as_ref(), &entries),
            Format::Github => entries.iter().map(workflow_command).collect(),
        };
        if !text.is_empty() {
            console.say(&text)?;
        }
    }
    Ok(if errors == 0 {
        Exit::Fine
    } else {
        Exit::Finding
    })
}

/// The module to compare with and the file that it comes from.
fn graph(
    args: &Args,
    neff: &Neff,
    message: &MetaNeff,
    given: Option<Bytes>,
    entries: &mut Vec<Entry>,
) -> Option<(PathBuf, Bytes)> {
    let inline = &message.serialized_graph_def;
    let inside = neff.graph();
    if let Some(inside) = inside
        && !inline.is_empty()
        && inside != inline
    {
        entries.push(Entry {
            severity: Severity::Warning,
            rule: "two-graphs",
            file: args.metaneff.clone(),
            message: format!(
                "its graph ({} bytes) is not the one inside the NEFF ({} bytes)",
                inline.len(),
                inside.len()
            ),
            consequence: "the simulator would execute the NEFF's".to_owned(),
        });
    }
    if let (Some(path), Some(given)) = (&args.hlo, given) {
        if !inline.is_empty() && inline != &given {
            entries.push(Entry {
                severity: Severity::Warning,
                rule: "two-graphs",
                file: path.clone(),
                message: "not the graph that the metaneff carries".to_owned(),
                consequence: "findings below are about the module that was given".to_owned(),
            });
        }
        return Some((path.clone(), given));
    }
    if !inline.is_empty() {
        return Some((args.metaneff.clone(), inline.clone()));
    }
    inside.map(|graph| (args.neff.clone(), graph.clone()))
}

fn verify(source: Option<&(PathBuf, Bytes)>, entries: &mut Vec<Entry>) -> Result<(), Failure> {
    let Some((path, graph)) = source else {
        return Ok(());
    };
    let problem = match decode_hlo(graph.clone()) {
        Ok(proto) => match Module::verify(&proto) {
            Ok(_) => return Ok(()),
            Err(error) => chain(&error),
        },
        Err(error) => chain(&error),
    };
    entries.push(Entry {
        severity: Severity::Warning,
        rule: "graph-not-well-formed",
        file: path.clone(),
        message: problem,
        consequence: "the simulator refuses to load the model; a device is not concerned"
            .to_owned(),
    });
    Ok(())
}

/// The contract, lenient where the strict one is refused, so that one run finds
/// everything.
fn contract(args: &Args, message: &MetaNeff, entries: &mut Vec<Entry>) -> Option<Contract> {
    let lenient = Contract::new(message, &ContractOptions::new().lenient());
    let chosen = if args.lenient {
        lenient.clone()
    } else {
        Contract::new(message, &ContractOptions::new())
    };
    let mut push = |severity, finding: &metaneff_binding::Finding| {
        let (rule, consequence) = consequence::of_finding(finding);
        entries.push(Entry {
            severity,
            rule,
            file: args.metaneff.clone(),
            message: finding.to_string(),
            consequence,
        });
    };
    match &chosen {
        Ok(contract) => {
            for warning in contract.warnings() {
                push(Severity::Warning, warning);
            }
        }
        Err(ContractError {
            findings, omitted, ..
        }) => {
            for finding in findings {
                let severity = if finding.is_harmless() {
                    Severity::Warning
                } else {
                    Severity::Error
                };
                push(severity, finding);
            }
            if *omitted > 0 {
                entries.push(Entry {
                    severity: Severity::Error,
                    rule: "more",
                    file: args.metaneff.clone(),
                    message: format!("{omitted} more findings of this kind"),
                    consequence: String::new(),
                });
            }
        }
    }
    let rest = || {
        // What the graph has against it is told; the NEFF may have more.
        let options = ContractOptions::new().lenient().without_graph();
        Contract::new(message, &options)
    };
    chosen.or(lenient).or_else(|_| rest()).ok()
}

fn join(args: &Args, contract: &Contract, neff: &Neff, entries: &mut Vec<Entry>) {
    let Err(error) = contract.join(neff) else {
        return;
    };
    for mismatch in &error.mismatches {
        let (rule, consequence) = consequence::of_mismatch(mismatch, &error.mismatches, neff);
        entries.push(Entry {
            severity: Severity::Error,
            rule,
            file: args.neff.clone(),
            message: mismatch.to_string(),
            consequence,
        });
    }
}

fn text(console: &Console, args: &Args, contract: Option<&Contract>, entries: &[Entry]) -> String {
    let mut out = String::new();
    for entry in entries {
        let severity = match entry.severity {
            Severity::Error => console.paint(Colour::Red, "error"),
            Severity::Warning => console.paint(Colour::Yellow, "warning"),
        };
        let (file, rule) = (entry.file.display(), entry.rule);
        let _ = writeln!(
            out,
            "{file}: {severity}[{rule}]: {}",
            shown_long(&entry.message)
        );
        if !entry.consequence.is_empty() {
            let _ = writeln!(out, "  → {}", shown_long(&entry.consequence));
        }
    }
    let errors = entries
        .iter()
        .filter(|entry| entry.severity == Severity::Error)
        .count();
    let warnings = plural(entries.len() - errors, "warning");
    let (neff, metaneff) = (args.neff.display(), args.metaneff.display());
    if errors > 0 {
        let verdict = console.paint(Colour::Red, "do not belong together");
        let errors = plural(errors, "error");
        let _ = writeln!(out, "{neff} and {metaneff} {verdict}: {errors}, {warnings}");
        return out;
    }
    let slots = contract.map_or_else(String::new, |contract| {
        format!(
            ": {}, {}, each with its variable",
            plural(contract.inputs().len(), "input"),
            plural(contract.outputs().len(), "output")
        )
    });
    let verdict = console.paint(Colour::Green, "belong together");
    let _ = writeln!(out, "{neff} and {metaneff} {verdict}{slots}; {warnings}");
    out
}

/// Text from files, without control characters but at its full length.
fn shown_long(text: &str) -> String {
    let words: Vec<_> = text.split(' ').map(shown).collect();
    words.join(" ")
}

/// `::error file=…,title=…::…`, with the escapes of workflow commands.
fn workflow_command(entry: &Entry) -> String {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let severity = match entry.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let consequence = match entry.consequence.as_str() {
        "" => String::new(),
        text => format!(" → {text}"),
    };
    format!(
        "::{severity} file={},title={}::{}\n",
        property(&display(&entry.file)),
        property(&format!("metaneff {}", entry.rule)),
        data(&shown_long(&format!("{}{consequence}", entry.message)))
    )
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflow_commands_are_escaped() {
        let entry = Entry {
            severity: Severity::Error,
            rule: "size",
            file: "a,b:c.neff".into(),
            message: "100% of it\u{1b}".to_owned(),
            consequence: String::new(),
        };
        assert_eq!(
            workflow_command(&entry),
            "::error file=a%2Cb%3Ac.neff,title=metaneff size::100%25 of it\\u{1b}\n"
        );
    }
}
