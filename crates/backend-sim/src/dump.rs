//! Dumping the inputs of an execution to files.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

/// Writes `input{i}.bin` and, last, `model_name.txt` into a new folder of
/// `directory`, whose name is as the runtime makes it: a random number, the
/// host and core part, and the model's number.
pub(crate) fn write(
    directory: &Path,
    model: &str,
    id: u64,
    inputs: &[&[u8]],
) -> io::Result<PathBuf> {
    let random = RandomState::new().build_hasher().finish();
    let folder = directory.join(format!("input_dump_{random:016x}_h_nn_{id}"));
    fs::create_dir_all(&folder)?;
    for (index, bytes) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("input{index}.bin")), bytes)?;
    }
    fs::write(folder.join("model_name.txt"), model)?;
    Ok(folder)
}
