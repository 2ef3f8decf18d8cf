//! A greedy decoding loop whose caches stay on the device.
//!
//! Each step gives its caches away and gets their successors back, so nothing
//! of them is copied; the transfer counters show it. Logits and tokens of every
//! step are compared with goldens.
//!
//! ```console
//! $ cargo run --release --example decode
//! $ cargo run --release --example decode -- --backend nrt --lib PATH
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Core, HostTensor, Runtime};
use metaneff_examples::{
    BackendArgs, Outcome, Package, contract_table, describe, exit, transfers_table,
};

/// Decodes with a small transformer and compares every step with XLA's.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// The model's folder, or its name in `models`.
    #[arg(long, default_value = "decode")]
    model: std::path::PathBuf,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let package = Package::open(&args.model)?;
    let artifact = package.artifact()?;
    println!("{}", contract_table(artifact.contract()));

    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let model = runtime.load(&artifact, Core::new(0))?;
    model.load_weights(package.weights(&artifact)?)?;
    let mut session = model.session()?;
    let token_slot = session.slot("input_ids")?.clone();
    let position_slot = session.slot("position_ids")?.clone();

    let golden_tokens = package.array("tokens.npy")?.to_vec::<i32>()?;
    let golden_logits = package.array("logits.npy")?.to_vec::<f32>()?;
    let steps = golden_tokens.len() - 1;
    let vocabulary = golden_logits.len() / steps;

    let mut caches = session.zero_states()?;
    let mut token = golden_tokens[0];
    let mut right = true;
    let mut readings = vec![runtime.transfers()];
    for (step, golden) in golden_logits.chunks_exact(vocabulary).enumerate() {
        let position = i32::try_from(step)?;
        let token_input = token_slot.validate(HostTensor::from_vec([1, 1], vec![token])?)?;
        let position_input = position_slot.validate(HostTensor::from_vec([1], vec![position])?)?;

        let ready = session.bind([token_input, position_input])?;
        let (outputs, successors) = ready.execute(caches)?.tolerate_nan().into_parts();
        let logits = outputs.get(0)?.to_vec::<f32>()?;
        caches = successors;

        token = argmax(&logits);
        let (largest, within) = package.signature().tolerance.compare(&logits, golden);
        let expected = golden_tokens[step + 1];
        println!(
            "step {step:2}: token {token:3}, golden {expected:3}, logits differ by at most {largest:.1e}"
        );
        right &= within && token == expected;
        readings.push(runtime.transfers());
    }

    let verdict = if right {
        "equal the goldens"
    } else {
        "DIFFER FROM THE GOLDENS"
    };
    println!("{steps} steps: tokens and logits {verdict}");
    if let [Some(start), Some(first), .., Some(end)] = readings[..] {
        let rows = [
            ("the first step", start, first),
            ("all other steps", first, end),
        ];
        println!("{}", transfers_table(&rows));
        let bytes: usize = caches
            .iter()
            .filter_map(|cache| Some(cache.device()?.size()))
            .sum();
        let copied = end.device_to_device - start.device_to_device;
        println!("caches: {bytes} B on the device, {copied} B of them copied in {steps} steps");
        right &= copied == 0 && end.allocations == first.allocations;
    } else {
        println!("this backend does not count transfers");
    }
    Ok(right)
}

/// The position of the greatest value, the first of equal ones.
fn argmax(values: &[f32]) -> i32 {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    i32::try_from(best).unwrap_or(i32::MAX)
}
