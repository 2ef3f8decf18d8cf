//! Text generation over buckets: a prompt goes to the smallest prefill that
//! holds it, each further token to the decode step; all of them share weights
//! and one KV cache on the device.
//!
//! The tokens are compared with goldens of the same network, computed one token
//! at a time.
//!
//! ```console
//! $ cargo run --release --example generate -- --prompt 11
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Buckets, Core, HostTensor, Runtime};
use metaneff_examples::{BackendArgs, Outcome, Package, describe, exit, transfers_table};

/// Generates with a small transformer that is compiled for three shapes.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// How many of the golden tokens are the prompt.
    #[arg(long, default_value_t = 6)]
    prompt: usize,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let decode = Package::open("decode")?;
    let golden = decode.array("tokens.npy")?.to_vec::<i32>()?;
    if args.prompt == 0 || args.prompt >= golden.len() {
        return Err(format!("a prompt has 1 to {} tokens", golden.len() - 1).into());
    }
    let prompt = &golden[..args.prompt];

    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let mut buckets = Buckets::new();
    for name in ["decode", "prefill_8", "prefill_16"] {
        let artifact = Package::open(name)?.artifact()?;
        let model = runtime.load(&artifact, Core::new(0))?;
        if name == "decode" {
            model.load_weights(decode.weights(&artifact)?)?;
        }
        buckets.add(name, &model)?;
    }
    buckets.share_weights()?;
    let first = buckets.session("decode").ok_or("no bucket `decode`")?;
    let mut caches = first.zero_states()?;
    let mut readings = vec![runtime.transfers()];

    let mut generated = Vec::new();
    let mut input = prompt.to_vec();
    let mut position = prompt.len() - 1;
    while position + 1 < golden.len() {
        let count = input.len();
        let ids = HostTensor::from_slice([1, count], &input)?;
        let at = HostTensor::from_vec([1], vec![i32::try_from(position)?])?;
        let given = [
            ("input_ids", ids.dtype(), ids.shape()),
            ("position_ids", at.dtype(), at.shape()),
        ];
        let (bucket, shapes) = buckets.smallest(given)?;
        let bucket = bucket.to_owned();
        let room = shapes
            .iter()
            .find(|(name, _)| *name == "input_ids")
            .and_then(|(_, shape)| shape.dims().last().copied())
            .ok_or("the bucket has no `input_ids`")?;
        // The rest of the prompt's row is not looked at: later tokens overwrite it.
        input.resize(room, 0);
        let ids = HostTensor::from_slice([1, room], &input)?;

        let executed = buckets.execute(vec![("input_ids", ids), ("position_ids", at)], caches)?;
        let (outputs, successors) = executed.tolerate_nan().into_parts();
        let token = argmax(&outputs.get(0)?.to_vec::<f32>()?);
        caches = successors;
        println!(
            "{bucket:>10}: {count:2} in, token {token:3}, golden {:3}",
            golden[position + 1]
        );
        generated.push(token);
        readings.push(runtime.transfers());
        input = vec![token];
        position += 1;
    }
    let mut right = generated == golden[args.prompt..];
    let verdict = if right {
        "equal the goldens"
    } else {
        "DIFFER FROM THE GOLDENS"
    };
    println!("{} tokens {verdict}", generated.len());
    if let [Some(start), Some(first), .., Some(end)] = readings[..] {
        let rows = [
            ("the prefill", start, first),
            ("all decode steps", first, end),
        ];
        println!("{}", transfers_table(&rows));
        right &= end.device_to_device == start.device_to_device;
    }
    Ok(right)
}

fn argmax(logits: &[f32]) -> i32 {
    let best = logits
        .iter()
        .zip(0..)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map_or(0, |(_, token)| token)
}
