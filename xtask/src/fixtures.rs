//! `cargo xtask fixtures`: packs the examples' models.
//!
//! Each folder of `models` has a module and a signature; the NEFF and the
//! metaneff follow from them, byte for byte.

use std::path::Path;
use std::process::ExitCode;

use metaneff_schema::MetaNeffBuilder;
use metaneff_schema::neff::NeffBuilder;
use prost::Message as _;
use serde::Deserialize;

use crate::Outcome;
use crate::shell;

/// Options of `fixtures`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file would change.
    #[arg(long)]
    check: bool,
}

impl Args {
    pub(crate) const CHECK: Self = Self { check: true };
}

#[derive(Deserialize)]
struct Signature {
    name: String,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Input {
    role: Role,
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    State,
    Weight,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default)]
    alias: Option<i64>,
}

/// Packs every model, or compares.
pub(crate) fn run(args: &Args) -> Outcome {
    let models = shell::root().join("models");
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(&models)? {
        let folder = entry?.path();
        if folder.join("signature.json").is_file() {
            folders.push(folder);
        }
    }
    folders.sort();
    let mut stale = 0_usize;
    for folder in &folders {
        let (neff, metaneff) =
            pack(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (name, bytes) in [("model.neff", neff), ("model.metaneff", metaneff)] {
            let path = folder.join(name);
            let shown = path.strip_prefix(shell::root()).unwrap_or(&path).display();
            if std::fs::read(&path).is_ok_and(|old| old == bytes) {
                shell::say(&format!("{shown}: {} bytes, up to date", bytes.len()));
            } else if args.check {
                shell::complain(&format!(
                    "{shown} does not follow from the module and the signature"
                ));
                stale += 1;
            } else {
                std::fs::write(&path, &bytes)?;
                shell::say(&format!("{shown}: {} bytes written", bytes.len()));
            }
        }
    }
    if folders.is_empty() {
        return Err(format!("{} has no model", models.display()).into());
    }
    Ok(if stale == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn pack(folder: &Path) -> Result<(Vec<u8>, Vec<u8>), Box<dyn std::error::Error>> {
    let signature: Signature =
        serde_json::from_slice(&std::fs::read(folder.join("signature.json"))?)?;
    let module = std::fs::read(folder.join("module.pb"))?;
    let neff = NeffBuilder::from_hlo(module.clone())?
        .name(signature.name.as_str())
        .build();
    // The NEFF carries the module already.
    let mut metaneff = MetaNeffBuilder::from_hlo(module)?.inline_graph(false);
    for (ordinal, input) in signature.inputs.iter().enumerate() {
        metaneff = match input.role {
            Role::User => metaneff.user_input(ordinal, &input.key),
            Role::State => metaneff.state(ordinal, &input.key),
            Role::Weight => metaneff.weight(ordinal, &input.key),
        };
    }
    let message = metaneff.build();
    let counts = (message.input_tensors.len(), message.output_tensors.len());
    let expected = (signature.inputs.len(), signature.outputs.len());
    if counts != expected {
        return Err(format!(
            "the signature has {expected:?} inputs and outputs, the module {counts:?}"
        )
        .into());
    }
    for (ordinal, output) in signature.outputs.iter().enumerate() {
        let found = message.output_aliases_to.get(&i64::try_from(ordinal)?);
        if found != output.alias.as_ref() {
            return Err(format!(
                "output {ordinal} is aliased to {found:?} by the module, to {:?} by the signature",
                output.alias
            )
            .into());
        }
    }
    Ok((neff.to_vec(), message.encode_to_vec()))
}
