//! safetensors files, by their header alone.

use std::fmt::Write as _;
use std::path::Path;

use metaneff_binding::Checkpoint;
use serde_json::{Value, json};

use super::{Detail, Report};
use crate::exit::Failure;
use crate::text::{plural, shown, size, table};

pub(super) fn inspect(path: &Path, detail: Detail) -> Result<Report, Failure> {
    let checkpoint = Checkpoint::open(path).map_err(|error| Failure::file(path, &error))?;
    let bytes = std::fs::metadata(path)
        .map_err(|error| Failure::file(path, &error))?
        .len();
    let mut rows = table(&["key", "dtype", "shape", "#bytes"]);
    let mut tensors: Vec<Value> = Vec::new();
    let (printed, rest) = detail.rows(checkpoint.keys().len());
    for key in checkpoint.keys() {
        let dtype = checkpoint.dtype(key);
        let shape = checkpoint.shape(key).cloned().unwrap_or_default();
        let bytes = dtype.and_then(|dtype| shape.byte_size(dtype).ok());
        if tensors.len() < printed {
            rows.add_row([
                shown(key),
                dtype.map_or_else(|| "unknown".to_owned(), |dtype| dtype.to_string()),
                shape.to_string(),
                bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
            ]);
        }
        tensors.push(json!({
            "key": key,
            "dtype": dtype.map(|dtype| dtype.name()),
            "shape": shape.dims(),
            "size": bytes,
        }));
    }
    let mut text = format!("{}: safetensors, {}\n", path.display(), size(bytes));
    let _ = writeln!(text, "{}", plural(tensors.len(), "tensor"));
    let _ = write!(text, "{rows}\n{rest}");
    let document = json!({ "size": bytes, "tensors": tensors });
    Ok(Report {
        document,
        text,
        failure: None,
    })
}
