//! `metaneff pack`: an HLO module becomes a NEFF and its metaneff.

use std::path::PathBuf;

use bytes::Bytes;
use metaneff_binding::{Contract, ContractOptions};
use metaneff_hlo::Module;
use metaneff_schema::neff::{NeffBuilder, PackageKind};
use metaneff_schema::{Document, MetaNeffBuilder, decode_hlo};
use serde_json::json;

use crate::Outcome;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::text::{plural, size};

const EXAMPLES: &str = "\
Examples:
  metaneff pack model.hlo_module.pb
  metaneff pack module.pb --neff out/model.neff --metaneff out/model.metaneff
  metaneff pack module.pb --input 0=input_ids --state 1=cache.k --weight 2=embedding.weight

A NEFF made so has no program for a device; the simulator executes the module inside.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The module: an `HloModuleProto` or `HloProto`, plain or compressed with gzip.
    hlo: PathBuf,
    /// Where the NEFF goes.
    #[arg(long, value_name = "FILE", default_value = "model.neff")]
    neff: PathBuf,
    /// Where the metaneff goes.
    #[arg(long, value_name = "FILE", default_value = "model.metaneff")]
    metaneff: PathBuf,
    /// The parameter is the caller's, under an argument's name.
    #[arg(long, value_name = "N=KEY", value_parser = role)]
    input: Vec<(usize, String)>,
    /// The parameter is a state, under a checkpoint key.
    #[arg(long, value_name = "N=KEY", value_parser = role)]
    state: Vec<(usize, String)>,
    /// The parameter is a weight, under a checkpoint key.
    #[arg(long, value_name = "N=KEY", value_parser = role)]
    weight: Vec<(usize, String)>,
    /// Every leading dimension is free.
    #[arg(long)]
    dynamic_batch: bool,
    /// Return outputs that take an input's buffer to the caller too.
    #[arg(long)]
    return_aliases: bool,
    /// Leave the module out of the metaneff; the NEFF has it anyway.
    #[arg(long)]
    without_graph: bool,
    /// Physical cores that make a core.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    lnc: u32,
    /// An uncompressed package.
    #[arg(long)]
    tar: bool,
}

fn role(text: &str) -> Result<(usize, String), String> {
    let (ordinal, key) = text.split_once('=').ok_or("expected N=KEY")?;
    let ordinal = ordinal
        .parse()
        .map_err(|_| format!("`{ordinal}` is no parameter's number"))?;
    Ok((ordinal, key.to_owned()))
}

pub(crate) fn run(console: &Console, args: &Args) -> Outcome {
    let failed = |error: &dyn std::error::Error| Failure::file(&args.hlo, error);
    let graph = files::read_hlo(&args.hlo)?;
    let proto = decode_hlo(graph.clone()).map_err(|error| failed(&error))?;
    let module = Module::verify(&proto).map_err(|error| failed(&error))?;
    let parameters = module.parameters().len();
    let roles = args.input.iter().chain(&args.state).chain(&args.weight);
    for (ordinal, key) in roles {
        if *ordinal >= parameters {
            return Err(Failure::Usage(format!(
                "there is no parameter {ordinal} for `{key}`: the module has {}",
                plural(parameters, "parameter")
            )));
        }
    }
    let mut builder = NeffBuilder::from_hlo(graph.clone())
        .map_err(|error| failed(&error))?
        .cores(1, args.lnc);
    if args.tar {
        builder = builder.package(PackageKind::Tar);
    }
    let neff = builder.build();
    let mut builder = MetaNeffBuilder::from_hlo(graph)
        .map_err(|error| failed(&error))?
        .inline_graph(!args.without_graph)
        .return_aliases(args.return_aliases);
    for (ordinal, key) in &args.input {
        builder = builder.user_input(*ordinal, key);
    }
    for (ordinal, key) in &args.state {
        builder = builder.state(*ordinal, key);
    }
    for (ordinal, key) in &args.weight {
        builder = builder.weight(*ordinal, key);
    }
    if args.dynamic_batch {
        builder = builder.dynamic_batch();
    }
    let message = builder.build();
    // Names of a front end are no finding here, everything else is.
    Contract::new(&message, &ContractOptions::new().lenient()).map_err(|error| failed(&error))?;
    let metaneff = Bytes::from(Document::of(&message).to_vec());
    files::write_all(&[
        (args.neff.clone(), neff.clone()),
        (args.metaneff.clone(), metaneff.clone()),
    ])?;

    if console.json() {
        console.document(&json!({
            "neff": { "path": args.neff.display().to_string(), "size": neff.len() },
            "metaneff": { "path": args.metaneff.display().to_string(), "size": metaneff.len() },
            "inputs": message.input_tensors.len(),
            "outputs": message.output_tensors.len(),
        }))?;
        return Ok(Exit::Fine);
    }
    console.say(&format!(
        "{}: {}\n{}: {}, {}, {}\n",
        args.neff.display(),
        size(neff.len() as u64),
        args.metaneff.display(),
        size(metaneff.len() as u64),
        plural(message.input_tensors.len(), "input"),
        plural(message.output_tensors.len(), "output")
    ))?;
    Ok(Exit::Fine)
}
