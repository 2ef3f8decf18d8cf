//! A module computed by libtorch, against its HLO on the simulator.

use std::collections::HashMap;

use metaneff_backend_sim::Sim;
use metaneff_binding::{Core, Runtime};
use metaneff_examples::Package;
use metaneff_torch::{ToTorch as _, TorchSession};
use tch::{Kind, Tensor};

const HEADS: i64 = 4;

/// PyTorch's `TransformerEncoderLayer` with its defaults but for the activation,
/// which is GELU: attention, sum, norm, feed forward, sum, norm.
fn encoder_layer(x: &Tensor, weights: &HashMap<String, Tensor>) -> Tensor {
    let weight = |key: &str| &weights[key];
    let (batch, length, width) = x.size3().expect("three dimensions");
    let heads = |part: &Tensor| {
        part.reshape([batch, length, HEADS, width / HEADS])
            .transpose(1, 2)
    };
    let projected = x.linear(
        weight("self_attn.in_proj_weight"),
        Some(weight("self_attn.in_proj_bias")),
    );
    let parts = projected.chunk(3, 2);
    let [query, key, value] = [0, 1, 2].map(|i| heads(&parts[i]));
    let scale = f64::from(u32::try_from(width / HEADS).expect("a width")).sqrt();
    let scores = query.matmul(&key.transpose(-2, -1)) / scale;
    let mixed = scores.softmax(-1, Kind::Float).matmul(&value);
    let mixed = mixed.transpose(1, 2).reshape([batch, length, width]);
    let attended = mixed.linear(
        weight("self_attn.out_proj.weight"),
        Some(weight("self_attn.out_proj.bias")),
    );
    let norm = |x: &Tensor, name: &str| {
        x.layer_norm(
            [width],
            Some(weight(&format!("{name}.weight"))),
            Some(weight(&format!("{name}.bias"))),
            1e-5,
            false,
        )
    };
    let x = norm(&(x + attended), "norm1");
    let hidden = x
        .linear(weight("linear1.weight"), Some(weight("linear1.bias")))
        .gelu("none");
    let fed = hidden.linear(weight("linear2.weight"), Some(weight("linear2.bias")));
    norm(&(x + fed), "norm2")
}

#[test]
fn an_encoder_layer_gives_what_libtorch_gives() {
    let package = Package::open("quickstart").expect("the repository's model");
    let artifact = package.artifact().expect("a sound model");
    let runtime = Runtime::new(Sim::builder().build().expect("a simulator"));
    let model = runtime
        .load(&artifact, Core::new(0))
        .expect("a sound model");
    let tensors = package.weights(&artifact).expect("weights");
    let weights = artifact
        .contract()
        .inputs()
        .iter()
        .filter_map(|slot| {
            let key = std::str::from_utf8(slot.checkpoint_key()?).expect("a key of ASCII");
            let file = package
                .array(&format!("weights/{key}.npy"))
                .expect("a weight");
            Some((key.to_owned(), file.to_torch().expect("floats")))
        })
        .collect();
    model.load_weights(tensors).expect("the model's weights");

    let input = package.array("input.npy").expect("an input");
    let input = input.to_torch().expect("floats");
    let mut session = TorchSession::new(&model).expect("a session");
    for scale in [1.0, -0.5, 3.0] {
        let input = &input * scale;
        let expected = encoder_layer(&input, &weights);
        let [found] = session.forward_tuple(&[input]).expect("a launch");
        assert!(
            found.allclose(&expected, 1e-4, 1e-5, false),
            "largest difference {:?}",
            (found - expected).abs().max()
        );
    }
}
