//! A borrowed host tensor does not outlive its data.

use metaneff_binding::{HostTensor, Slot, Tensor, Validated};

fn keep(slot: &Slot) -> Tensor<Validated<'static>> {
    let data = vec![1.0_f32, 2.0];
    slot.validate(HostTensor::from_slice([2], &data).unwrap()).unwrap()
}

fn main() {}
