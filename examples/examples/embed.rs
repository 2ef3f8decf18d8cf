//! Sentence embeddings of MiniLM-L6 with its real weights, on any backend.
//!
//! The module takes every weight as an input; the checkpoint's keys say which
//! one goes where. `cargo xtask weights` fetches the checkpoint and the
//! tokenizer. The cosine similarities of three sentences are compared with those
//! that the documentation of sentence-transformers prints for this model.
//!
//! ```console
//! $ cargo xtask weights
//! $ cargo run --release --example embed -- "A sentence." "Another one."
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{Checkpoint, Core, HostTensor, Runtime, Tensor, Validated};
use metaneff_examples::{BackendArgs, Outcome, Package, describe, exit};
use tokenizers::Tokenizer;

/// Tokens of a sentence, as the module is compiled.
const LENGTH: usize = 32;

/// The sentences of the documentation's first example.
const SENTENCES: [&str; 3] = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
];

/// Their similarities: first and second, first and third, second and third.
/// Source: the quickstart of sbert.net, for `all-MiniLM-L6-v2`, to four digits.
const SIMILARITIES: [f32; 3] = [0.6660, 0.1046, 0.1411];

/// Embeds sentences and compares them.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
    /// Folder with `model.safetensors` and `tokenizer.json`.
    #[arg(long, default_value = "target/weights/minilm")]
    weights: PathBuf,
    /// Sentences to compare instead of those of the documentation.
    sentences: Vec<String>,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let sentences: Vec<&str> = match &args.sentences[..] {
        [] => SENTENCES.into(),
        given => given.iter().map(String::as_str).collect(),
    };
    let tokenizer = Tokenizer::from_file(args.weights.join("tokenizer.json"))
        .map_err(|error| format!("no tokenizer, try `cargo xtask weights`: {error}"))?;
    let checkpoint = Checkpoint::open(args.weights.join("model.safetensors"))?;

    // Each launch takes one sentence; a batch of any size is cut into launches.
    let artifact = Package::open("minilm")?.artifact()?;
    let artifact = artifact.edit(|metaneff| {
        let mut inputs = vec![false; artifact.contract().inputs().len()];
        inputs[..2].fill(true);
        metaneff.set_dynamic_batching_mixed(&inputs, &[true])
    })?;
    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let model = runtime.load(&artifact, Core::new(0))?;
    let loaded = model.load_checkpoint(&checkpoint)?;
    println!("{loaded:?}");
    let mut session = model.session()?;

    let (mut ids, mut mask) = (Vec::new(), Vec::new());
    for sentence in &sentences {
        let encoding = tokenizer
            .encode(*sentence, true)
            .map_err(|error| format!("`{sentence}` is not tokenized: {error}"))?;
        let used = encoding
            .get_attention_mask()
            .iter()
            .filter(|mask| **mask == 1);
        let tokens = &encoding.get_ids()[..used.count()];
        if tokens.len() > LENGTH {
            return Err(
                format!("`{sentence}` has {} tokens, at most {LENGTH}", tokens.len()).into(),
            );
        }
        for position in 0..LENGTH {
            ids.push(
                tokens
                    .get(position)
                    .map_or(Ok(0), |token| i32::try_from(*token))?,
            );
            mask.push(i32::from(position < tokens.len()));
        }
    }
    let row = |key: &str,
               values: Vec<i32>|
     -> Result<Tensor<Validated<'static>>, metaneff_binding::Error> {
        let tensor = HostTensor::from_vec([sentences.len(), LENGTH], values)?;
        Ok(artifact.contract().slot(key)?.validate(tensor)?)
    };
    let inputs = vec![row("input_ids", ids)?, row("attention_mask", mask)?];
    let executed = session.execute_batch(inputs)?;
    println!(
        "{} sentences in {} launches",
        sentences.len(),
        executed.launches()
    );
    let outputs = executed
        .reject_nan()
        .map_err(metaneff_binding::Error::from)?;
    let embeddings = outputs.get(0)?.to_vec::<f32>()?;
    let width = embeddings.len() / sentences.len();
    let embeddings: Vec<&[f32]> = embeddings.chunks_exact(width).collect();

    let mut found = Vec::new();
    for (i, first) in embeddings.iter().enumerate() {
        for (j, second) in embeddings.iter().enumerate().skip(i + 1) {
            // Embeddings have length one.
            let cosine: f32 = first.iter().zip(*second).map(|(a, b)| a * b).sum();
            println!("{cosine:.4}  `{}` and `{}`", sentences[i], sentences[j]);
            found.push(cosine);
        }
    }
    if !args.sentences.is_empty() {
        return Ok(true);
    }
    let pairs = found.iter().zip(SIMILARITIES);
    let right = found.len() == SIMILARITIES.len()
        && pairs
            .into_iter()
            .all(|(found, published)| (found - published).abs() <= 6e-5);
    println!(
        "the similarities {} those of the model's documentation",
        if right { "are" } else { "ARE NOT" }
    );
    Ok(right)
}
