//! An element is one of the types that a tensor holds.

use metaneff_binding::{Error, HostTensor};

fn run(x: &HostTensor<'_>) -> Result<Vec<char>, Error> {
    Ok(x.to_vec::<char>()?)
}

fn main() {}
