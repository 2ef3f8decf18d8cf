//! Backends for tests of what stands on this crate.
//!
//! [`Fake`] keeps tensors in host memory and executes a closure; it counts what
//! is alive and fails on demand. With the feature `mock`, `MockBackend` asserts
//! which calls a backend gets. To execute real models without a device, use the
//! simulator of `metaneff-backend-sim`.

mod fake;
#[cfg(any(test, feature = "mock"))]
mod mock;

use bytes::Bytes;
use metaneff_schema::metaneff::{MetaNeff, MetaTensor};

pub use fake::{Fake, FakeModel, FakeSet, FakeTensor, Launch, Live};
#[cfg(any(test, feature = "mock"))]
pub use mock::{MockBackend, MockHandle};

use crate::artifact::Artifact;
use crate::contract::{ContractError, ContractOptions};

/// A model with inputs `input0` and `input1` and output `output0`, all `f32[2]`,
/// as [`Fake`] executes it by default: the output is the sum of the inputs.
///
/// # Panics
///
/// Never: the contract is valid.
#[must_use]
pub fn add_model() -> Artifact {
    let tensor = |name: &'static str| MetaTensor {
        name: Bytes::from_static(name.as_bytes()),
        shape: vec![2],
        data_type: 1,
        ..MetaTensor::default()
    };
    let message = MetaNeff {
        input_tensors: vec![tensor("input0"), tensor("input1")],
        output_tensors: vec![tensor("output0")],
        ..MetaNeff::default()
    };
    match model(&message) {
        Ok(artifact) => artifact,
        Err(error) => unreachable!("{error}"),
    }
}

/// A model with this contract and an empty NEFF, which only [`Fake`] loads.
///
/// # Errors
///
/// As [`Contract::new`](crate::Contract::new).
pub fn model(message: &MetaNeff) -> Result<Artifact, ContractError> {
    Artifact::from_message(Bytes::new(), message, &ContractOptions::new())
}
