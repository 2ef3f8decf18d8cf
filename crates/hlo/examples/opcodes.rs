//! Writes the table of opcodes that the crate's documentation shows.

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/OPCODES.md");
    std::fs::write(path, metaneff_hlo::opcode_table())
}
