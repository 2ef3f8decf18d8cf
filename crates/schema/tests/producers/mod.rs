//! Metaneffs in the form of every known producer.

use std::collections::BTreeMap;

use bytes::Bytes;
use metaneff_schema::metaneff::meta_tensor::{DataType, Type};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor, ModelConfig};

/// One fixture: its file's stem, what it is, and the message.
pub(crate) struct Fixture {
    /// File name without its ending.
    pub(crate) name: &'static str,
    /// Who writes such a message, and what is special about it.
    pub(crate) about: &'static str,
    /// The message.
    pub(crate) message: MetaNeff,
}

fn tensor(name: &str, data_type: DataType, shape: &[i64], role: Type) -> MetaTensor {
    MetaTensor {
        name: Bytes::copy_from_slice(name.as_bytes()),
        shape: shape.to_vec(),
        data_type: data_type.into(),
        r#type: role.into(),
        ..MetaTensor::default()
    }
}

fn keyed(mut tensor: MetaTensor, checkpoint: Option<&str>, user: Option<&str>) -> MetaTensor {
    let key = |key: &str| Bytes::copy_from_slice(key.as_bytes());
    tensor.checkpoint_key = checkpoint.map(key);
    tensor.user_input_key = user.map(key);
    tensor
}

fn output(name: &str, data_type: DataType, shape: &[i64]) -> MetaTensor {
    tensor(name, data_type, shape, Type::UndefinedType)
}

fn graph() -> Bytes {
    Bytes::from_static(include_bytes!("../data/control__hlo_input_output_alias.pb"))
}

/// All fixtures, in the order of the producers' table.
pub(crate) fn fixtures() -> Vec<Fixture> {
    vec![
        torch_neuronx_1(),
        torch_neuronx_2(),
        nxd_model_builder(),
        nxd_weight_layout(),
        transformers_neuronx(),
    ]
}

fn torch_neuronx_1() -> Fixture {
    let input = |name| tensor(name, DataType::Float, &[1, 8], Type::UndefinedType);
    Fixture {
        name: "torch_neuronx_1_13_trace",
        about: "torch_neuronx 1.13 trace: no roles, no keys, an alias of the trace, no graph",
        message: MetaNeff {
            input_tensors: vec![input("input0"), input("input1")],
            output_tensors: vec![
                output("output0", DataType::Float, &[1, 8]),
                output("output1", DataType::Float, &[1, 8]),
            ],
            output_aliases_to: BTreeMap::from([(1, 1)]),
            name: Bytes::from_static(b"graph"),
            ..MetaNeff::default()
        },
    }
}

fn torch_neuronx_2() -> Fixture {
    let weight = tensor("input2", DataType::Float, &[32, 8], Type::InputWeight);
    Fixture {
        name: "torch_neuronx_2_trace",
        about: "torch_neuronx 2.x trace: arguments and separated weights, PRED as BOOL, the graph inside",
        message: MetaNeff {
            input_tensors: vec![
                tensor("input0", DataType::Int64, &[1, 16], Type::UserInput),
                tensor("input1", DataType::Bool, &[1, 16], Type::UserInput),
                keyed(weight, Some("embedding.weight"), None),
            ],
            output_tensors: vec![output("output0", DataType::Float, &[1, 16, 8])],
            serialized_graph_def: graph(),
            ..MetaNeff::default()
        },
    }
}

fn nxd_model_builder() -> Fixture {
    let cache = [1, 4, 32, 8];
    let ids = tensor("input0", DataType::Int32, &[1, 1], Type::UserInput);
    let positions = tensor("input1", DataType::Int32, &[1], Type::UserInput);
    let state = tensor("input2", DataType::Bfloat16, &cache, Type::InputState);
    let weight = tensor("input3", DataType::Bfloat16, &[64, 32], Type::InputWeight);
    Fixture {
        name: "nxd_model_builder",
        about: "neuronx-distributed ModelBuilder: user inputs, then states, then weights; state \
                outputs alias state inputs; argument and buffer names as keys",
        message: MetaNeff {
            input_tensors: vec![
                keyed(ids, None, Some("input_ids")),
                keyed(positions, None, Some("position_ids")),
                keyed(state, Some("kv_mgr.past_key_values.0"), None),
                keyed(weight, Some("lm_head.weight"), None),
            ],
            output_tensors: vec![
                output("output0", DataType::Float, &[1, 64]),
                output("output1", DataType::Bfloat16, &cache),
            ],
            output_aliases_to: BTreeMap::from([(1, 2)]),
            model_config: Some(ModelConfig::default()),
            serialized_graph_def: graph(),
            ..MetaNeff::default()
        },
    }
}

fn nxd_weight_layout() -> Fixture {
    let key = Some("layers.0->mlp.weight");
    let weight = tensor("input0", DataType::Bfloat16, &[64, 32], Type::InputWeight);
    Fixture {
        name: "nxd_weight_layout",
        about: "neuronx-distributed weight-layout transform: only weights, outputs carry checkpoint \
                keys too",
        message: MetaNeff {
            input_tensors: vec![keyed(weight, key, None)],
            output_tensors: vec![keyed(
                output("output0", DataType::Bfloat16, &[32, 64]),
                key,
                None,
            )],
            ..MetaNeff::default()
        },
    }
}

fn transformers_neuronx() -> Fixture {
    let none = Type::UndefinedType;
    Fixture {
        name: "transformers_neuronx",
        about: "transformers-neuronx hlo2metaneff: no roles, PRED as UINT8, F8E4M3FN as INT8, aliases \
                of the module, no graph",
        message: MetaNeff {
            input_tensors: vec![
                tensor("input0", DataType::Int32, &[1, 1], none),
                tensor("input1", DataType::Uint8, &[1, 128], none),
                tensor("input2", DataType::Int8, &[128, 64], none),
            ],
            output_tensors: vec![
                output("output0", DataType::Float, &[1, 64]),
                output("output1", DataType::Int8, &[128, 64]),
            ],
            output_aliases_to: BTreeMap::from([(1, 2)]),
            ..MetaNeff::default()
        },
    }
}
