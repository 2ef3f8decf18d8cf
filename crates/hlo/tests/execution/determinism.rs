//! The same bits from run to run and on any number of threads.

use std::path::Path;

use metaneff_hlo::array::Array;
use metaneff_hlo::corpus::Case;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};

/// Models with products, convolutions, loops, sorts and random numbers.
const MODELS: [&str; 7] = [
    "model__cnn_train__f32",
    "model__flash_attention_scan__f32",
    "model__llama_decode_kv__bf16",
    "model__moe_topk_dense__bf16",
    "model__mlp_train_adam__f32",
    "model__resnet_small__bf16",
    "tx_model__resnet_eval__f32",
];

#[test]
fn bits_do_not_depend_on_threads() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    for name in MODELS {
        let case = Case::open(&corpus.join(name)).unwrap();
        let executable = Executable::new(Module::parse(case.module().unwrap()).unwrap());
        let inputs: Vec<Array> = case.inputs[0]
            .iter()
            .map(|tensor| case.array(tensor).unwrap())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
        let run = || {
            let execution = executable
                .execute(&inputs, &ExecuteOptions::default())
                .unwrap();
            let outputs = execution
                .outputs
                .iter()
                .map(|output| output.bytes().to_vec());
            outputs.collect::<Vec<_>>()
        };
        let first = run();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            for repetition in 0..2 {
                assert!(
                    pool.install(run) == first,
                    "{name} on {threads} threads, run {repetition}"
                );
            }
        }
    }
}

#[test]
fn large_products_do_not_depend_on_threads() {
    // Large enough to be divided between threads.
    let n = 400_usize;
    let shape = crate::build::f32(&[n as i64, n as i64]);
    let proto = crate::build::with(
        "dot",
        &[shape.clone(), shape.clone()],
        shape,
        crate::build::dot(&[1], &[0]),
    );
    let executable = Executable::new(Module::verify(&proto).unwrap());
    let values: Vec<f32> = (0..n * n)
        .map(|i| ((i * 7919) % 1009) as f32 / 500.0 - 1.0)
        .collect();
    let input = crate::f32s(&[n, n], &values);
    let run = || {
        let inputs = [input.bytes(), input.bytes()];
        let execution = executable
            .execute(&inputs, &ExecuteOptions::default())
            .unwrap();
        execution.outputs[0].bytes().to_vec()
    };
    let first = run();
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        assert!(pool.install(run) == first, "{threads} threads");
    }
}
