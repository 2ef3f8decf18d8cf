//! One program on two cores: a multilayer perceptron whose hidden units are
//! spread over two ranks, with weights of its own for each.
//!
//! Both ranks execute at once; an all-reduce completes their sums, so both give
//! the whole output. It is compared with one that was computed in 64 bits
//! without ranks.
//!
//! ```console
//! $ cargo run --release --example spmd
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Runtime, SpmdInputs, SpmdOptions};
use metaneff_examples::{BackendArgs, Outcome, Package, contract_table, describe, exit};

/// Computes a perceptron on two ranks.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// The core of the first rank; the second follows.
    #[arg(long, default_value_t = 0)]
    core: u32,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let package = Package::open("spmd")?;
    let artifact = package.artifact()?;
    println!("{}", contract_table(artifact.contract()));

    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let options = SpmdOptions::new(2, 2).from_core(metaneff_binding::Core::new(args.core));
    let model = runtime.load_spmd(&artifact, &options)?;
    // tp0_sharded_checkpoint.safetensors and tp1_sharded_checkpoint.safetensors
    model.load_checkpoints(package.folder())?;
    let mut session = model.session()?;

    let x = model.slot("x")?.validate(package.array("input.npy")?)?;
    let executed = session.execute(SpmdInputs::replicated(vec![x]), ())?;
    let (outputs, _) = executed.reject_nan()?.into_parts();

    let golden = package.array("golden.npy")?.to_vec::<f32>()?;
    let mut right = true;
    for (rank, model) in model.ranks() {
        let found = outputs.rank(rank)?.get(0)?.to_vec::<f32>()?;
        let (largest, within) = package.signature().tolerance.compare(&found, &golden);
        let verdict = if within { "equals" } else { "DIFFERS FROM" };
        println!(
            "rank {rank} on {}: the output {verdict} the golden, by at most {largest:.1e}",
            model.core()
        );
        right &= within;
    }
    Ok(right)
}
