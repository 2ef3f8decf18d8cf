//! Runs a compiled PyTorch module on tensors of libtorch.
//!
//! ```console
//! $ eval "$(cargo xtask libtorch --env)"
//! $ cargo run --release -p metaneff-torch --example torch_forward
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Core, Runtime};
use metaneff_examples::{BackendArgs, Outcome, Package, contract_table, describe, exit};
use metaneff_torch::{ToTorch as _, TorchSession};

/// Runs a transformer encoder layer on a `tch::Tensor`.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let package = Package::open("quickstart")?;
    let artifact = package.artifact()?;
    println!("{}", contract_table(artifact.contract()));

    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let model = runtime.load(&artifact, Core::new(0))?;
    model.load_weights(package.weights(&artifact)?)?;

    let mut session = TorchSession::new(&model)?;
    let input = package.array("input.npy")?.to_torch()?;
    let [output] = session.forward_tuple(&[input])?;

    let golden = package.array("golden.npy")?.to_torch()?;
    let largest = (&output - &golden).abs().max().double_value(&[]);
    println!("output {:?} {:?}", output.size(), output.kind());
    println!(
        "first row {}",
        output.select(0, 0).select(0, 0).narrow(0, 0, 6)
    );
    println!("largest difference from the golden of XLA: {largest:e}");
    let tolerance = package.signature().tolerance;
    let (rtol, atol) = (f64::from(tolerance.rtol), f64::from(tolerance.atol));
    Ok(output.allclose(&golden, rtol, atol, false))
}
