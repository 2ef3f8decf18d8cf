//! Models of any width.

use metaneff_binding::{Artifact, ContractError, LoadOptions};
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};

/// Elements of every tensor.
pub const ELEMENTS: usize = 64;

/// The shape of every tensor, as messages have it.
const SHAPE: [i64; 1] = [64];
const _: () = assert!(SHAPE[0].unsigned_abs() == ELEMENTS as u64);

/// A contract with `slots` user inputs and one output, all `f32[64]`.
#[must_use]
pub fn contract_message(slots: usize) -> MetaNeff {
    let tensor = |name: String| MetaTensor {
        name: name.into(),
        shape: SHAPE.to_vec(),
        data_type: 1,
        ..MetaTensor::default()
    };
    let input = |ordinal: usize| MetaTensor {
        r#type: 1,
        user_input_key: Some(format!("argument_{ordinal}").into()),
        ..tensor(format!("input{ordinal}"))
    };
    MetaNeff {
        input_tensors: (0..slots).map(input).collect(),
        output_tensors: vec![tensor("output0".to_owned())],
        ..MetaNeff::default()
    }
}

/// A model with this contract and an empty NEFF, for the stub.
///
/// # Errors
///
/// None: the contract is sound.
pub fn wide(slots: usize) -> Result<Artifact, ContractError> {
    metaneff_binding::testing::model(&contract_message(slots))
}

/// How to load it: the stub does not tell its tensors.
#[must_use]
pub fn options() -> LoadOptions {
    LoadOptions::new().without_comparison()
}
