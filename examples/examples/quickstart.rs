//! Loads a compiled model, binds inputs, executes, and checks the outputs.
//!
//! ```console
//! $ cargo run --release --example quickstart
//! $ cargo run --release --example quickstart -- --backend nrt --lib PATH
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Core, Runtime};
use metaneff_examples::{BackendArgs, Outcome, Package, contract_table, describe, exit};

/// Runs a transformer encoder layer and compares it with XLA's output.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// The model's folder, or its name in `models`.
    #[arg(long, default_value = "quickstart")]
    model: std::path::PathBuf,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let package = Package::open(&args.model)?;
    let artifact = package.artifact()?;
    println!("{}", contract_table(artifact.contract()));
    for warning in artifact.warnings() {
        println!("note: {warning}");
    }

    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let model = runtime.load(&artifact, Core::new(0))?;
    model.load_weights(package.weights(&artifact)?)?;

    let mut session = model.session()?;
    let input = session.slot("src")?.validate(package.array("input.npy")?)?;
    let executed = session.bind([input])?.execute(())?;
    println!("completion: {:?}", executed.completion());
    let outputs = executed.tolerate_nan().into_outputs();

    let golden = package.array("golden.npy")?;
    let golden = golden.to_vec::<f32>()?;
    let mut right = true;
    for output in outputs.iter() {
        let values = output.to_vec::<f32>()?;
        let first: Vec<String> = values
            .iter()
            .take(6)
            .map(|value| format!("{value:.6}"))
            .collect();
        println!(
            "{} {}: {} …",
            output.name(),
            output.shape(),
            first.join(", ")
        );
        let (largest, within) = package.signature().tolerance.compare(&values, &golden);
        let verdict = if within {
            "within tolerance"
        } else {
            "OUT OF TOLERANCE"
        };
        println!("largest difference from the golden of XLA: {largest:e}, {verdict}");
        right &= within;
    }
    Ok(right)
}
