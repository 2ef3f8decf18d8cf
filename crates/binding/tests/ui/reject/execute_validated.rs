//! A validated tensor cannot be executed: it is not bound.

use metaneff_binding::{Tensor, Validated};

fn run(x: Tensor<Validated<'_>>) {
    x.execute(());
}

fn main() {}
