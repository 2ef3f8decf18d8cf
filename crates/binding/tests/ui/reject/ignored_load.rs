//! A load that nobody waits for is noticed.

#![deny(unused_must_use)]

use metaneff_binding::{Backend, Unloaded};

fn run<B: Backend>(model: Unloaded<B>) {
    model.start();
}

fn main() {}
