//! Writes `fixtures/` anew: run it after changing `tests/producers`.

#[path = "../tests/producers/mod.rs"]
mod producers;

use std::fmt::Write as _;
use std::path::Path;

use prost::Message as _;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut readme = "# Metaneffs in the form of every known producer\n\nWritten by \
        `cargo run -p metaneff-schema --example write_fixtures`.\n\n| file | what it is |\n|---|---|\n"
        .to_owned();
    for fixture in producers::fixtures() {
        let file = format!("{}.metaneff", fixture.name);
        std::fs::write(folder.join(&file), fixture.message.encode_to_vec())?;
        let _ = writeln!(readme, "| `{file}` | {} |", fixture.about);
    }
    std::fs::write(folder.join("README.md"), readme)
}
