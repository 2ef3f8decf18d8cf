//! Compiles the project's own `.proto` files; no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(
        [
            "proto/metaneff.proto",
            "proto/xla_data.proto",
            "proto/hlo.proto",
        ],
        ["proto"],
    )?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        // Most instructions are no constants, and a literal is most of the message.
        .boxed(".xla.HloInstructionProto.literal")
        .enable_type_names()
        .compile_fds(descriptors)?;
    Ok(())
}
