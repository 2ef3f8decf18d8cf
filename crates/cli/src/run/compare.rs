//! Outputs against what is expected.

use std::fmt::Write as _;
use std::path::Path;

use metaneff_binding::{DType, HostTensor};
use serde_json::{Value, json};

use crate::arrays::{Array, Elements, Source, number};
use crate::exit::Failure;
use crate::text::{count, plural, shown, table};

/// Differences that are named one by one.
const NAMED: usize = 5;

/// Upper ends of the histogram's cells, in steps between neighbouring numbers.
const STEPS: &[u128] = &[0, 1, 2, 4, 16, 256, 65_536, u128::MAX];

/// What a comparison found.
pub(super) struct Verdict {
    pub(super) equal: bool,
    pub(super) document: Value,
    pub(super) text: String,
}

/// One output against its golden array.
struct Difference {
    elements: usize,
    failed: usize,
    largest: f64,
    /// Position, found, expected, steps apart.
    named: Vec<(usize, String, String, Option<u128>)>,
    histogram: Vec<usize>,
}

pub(super) fn compare(
    path: &Path,
    outputs: &[(String, HostTensor<'static>)],
    rtol: f64,
    atol: f64,
) -> Result<Verdict, Failure> {
    let source = Source::open(path)?;
    let mut equal = true;
    let mut compared = 0;
    let mut text = String::new();
    let mut documents = Vec::new();
    for (name, tensor) in outputs {
        let entry = match &source {
            Source::One(entry) if outputs.len() == 1 => entry,
            Source::One(_) => {
                return Err(Failure::Usage(format!(
                    "`{}` has one array, the model {}: give an .npz with their names",
                    path.display(),
                    plural(outputs.len(), "output")
                )));
            }
            Source::Many(entries) => match entries.get(name) {
                Some(entry) => entry,
                None => continue,
            },
        };
        compared += 1;
        let golden = golden(entry.read()?, tensor).map_err(|reason| Failure::File {
            path: path.to_owned(),
            reason: format!("for output `{}`: {reason}", shown(name)),
        })?;
        let difference = Difference::between(tensor, &golden, rtol, atol);
        equal &= difference.failed == 0;
        difference.describe(name, tensor.shape().dims(), path, &mut text);
        documents.push(difference.json(name, tensor.shape().dims()));
    }
    if compared == 0 {
        let names: Vec<_> = outputs
            .iter()
            .map(|(name, _)| format!("`{}`", shown(name)))
            .collect();
        return Err(Failure::File {
            path: path.to_owned(),
            reason: format!("no array is named after an output: {}", names.join(", ")),
        });
    }
    let verdict = if equal { "equal" } else { "different" };
    let _ = writeln!(text, "{verdict} within rtol {rtol:e}, atol {atol:e}");
    let document = json!({ "equal": equal, "rtol": rtol, "atol": atol, "outputs": documents });
    Ok(Verdict {
        equal,
        document,
        text,
    })
}

/// The bytes to compare with, if they have the output's type and shape.
fn golden(array: Array, tensor: &HostTensor<'static>) -> Result<bytes::Bytes, String> {
    let dtype = tensor.dtype();
    let fits = match array.elements {
        Elements::Of(found) => found == dtype,
        Elements::Opaque(size) => size == dtype.size(),
        Elements::Raw => array.bytes.len() == tensor.bytes().len(),
    };
    let shape = array.elements == Elements::Raw || array.shape == tensor.shape().dims();
    if fits && shape {
        return Ok(array.bytes);
    }
    let found = match array.elements {
        Elements::Of(found) => format!("{found} {:?}", array.shape),
        Elements::Opaque(size) => format!("elements of {size} bytes {:?}", array.shape),
        Elements::Raw => format!("{} bytes", array.bytes.len()),
    };
    Err(format!(
        "{dtype} {} expected, found {found}",
        tensor.shape()
    ))
}

impl Difference {
    fn between(tensor: &HostTensor<'static>, golden: &[u8], rtol: f64, atol: f64) -> Self {
        let dtype = tensor.dtype();
        let size = dtype.size();
        let mut out = Self {
            elements: 0,
            failed: 0,
            largest: 0.0,
            named: Vec::new(),
            histogram: vec![0; STEPS.len()],
        };
        let pairs = tensor
            .bytes()
            .chunks_exact(size)
            .zip(golden.chunks_exact(size));
        for (position, (found, expected)) in pairs.enumerate() {
            out.elements += 1;
            let steps = steps(dtype, found, expected);
            let cell = steps.and_then(|steps| STEPS.iter().position(|end| steps <= *end));
            if let Some(cell) = cell.and_then(|cell| out.histogram.get_mut(cell)) {
                *cell += 1;
            }
            let (x, y) = (number::value(dtype, found), number::value(dtype, expected));
            let distance = (x - y).abs();
            if distance.is_finite() {
                out.largest = out.largest.max(distance);
            }
            if steps == Some(0) || close(x, y, rtol, atol) {
                continue;
            }
            out.failed += 1;
            if out.named.len() < NAMED {
                let shown = |element| number::shown(dtype, element);
                out.named
                    .push((position, shown(found), shown(expected), steps));
            }
        }
        out
    }

    fn describe(&self, name: &str, dims: &[usize], path: &Path, text: &mut String) {
        let _ = writeln!(
            text,
            "{} against {}: {} of {} elements differ, at most by {:.2e}",
            shown(name),
            path.display(),
            count(self.failed as u64),
            count(self.elements as u64),
            self.largest
        );
        if !self.named.is_empty() {
            let mut rows = table(&["#index", "#found", "#expected", "#steps apart"]);
            for (position, found, expected, steps) in &self.named {
                let steps = steps.map_or_else(|| "NaN".to_owned(), |steps| steps.to_string());
                rows.add_row([
                    index(*position, dims),
                    found.clone(),
                    expected.clone(),
                    steps,
                ]);
            }
            let _ = writeln!(text, "{rows}");
        }
        let longest = self
            .histogram
            .iter()
            .max()
            .copied()
            .unwrap_or_default()
            .max(1);
        let mut rows = table(&["#steps apart", "#elements", ""]);
        let mut from = 0;
        for (end, number) in STEPS.iter().zip(&self.histogram) {
            if *number > 0 {
                let range = match *end {
                    u128::MAX => format!("{from} or more"),
                    end if end == from => format!("{end}"),
                    end => format!("{from} to {end}"),
                };
                rows.add_row([
                    range,
                    number.to_string(),
                    "█".repeat((number * 20 / longest).max(1)),
                ]);
            }
            from = end.saturating_add(1);
        }
        let _ = writeln!(text, "{rows}");
    }

    fn json(&self, name: &str, dims: &[usize]) -> Value {
        json!({
            "name": name,
            "elements": self.elements,
            "failed": self.failed,
            "largest": self.largest,
            "first": self.named.iter().map(|(position, found, expected, steps)| json!({
                "index": index(*position, dims),
                "found": found,
                "expected": expected,
                "steps": steps.map(|steps| steps.to_string()),
            })).collect::<Vec<_>>(),
            "histogram": STEPS.iter().zip(&self.histogram).map(|(end, number)| json!({
                "up_to": if *end == u128::MAX { Value::Null } else { json!(end.to_string()) },
                "elements": number,
            })).collect::<Vec<_>>(),
        })
    }
}

/// How many neighbours lie between two elements; two NaNs are the same.
fn steps(dtype: DType, found: &[u8], expected: &[u8]) -> Option<u128> {
    match (number::place(dtype, found), number::place(dtype, expected)) {
        (Some(found), Some(expected)) => Some(found.abs_diff(expected)),
        (None, None) => Some(0),
        _ => None,
    }
}

fn close(found: f64, expected: f64, rtol: f64, atol: f64) -> bool {
    if !found.is_finite() || !expected.is_finite() {
        return found == expected || found.is_nan() && expected.is_nan();
    }
    (found - expected).abs() <= atol + rtol * expected.abs()
}

/// A position as an index of every dimension.
fn index(mut position: usize, dims: &[usize]) -> String {
    let mut indices: Vec<_> = dims
        .iter()
        .rev()
        .map(|&dim| {
            let index = position % dim.max(1);
            position /= dim.max(1);
            index.to_string()
        })
        .collect();
    indices.reverse();
    format!("[{}]", indices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(found: &[f32], expected: &[f32], rtol: f64) -> Difference {
        let tensor = HostTensor::from_vec([found.len()], found.to_vec()).unwrap();
        let bytes: Vec<_> = expected.iter().flat_map(|x| x.to_le_bytes()).collect();
        Difference::between(&tensor, &bytes, rtol, 0.0)
    }

    #[test]
    fn differences_are_counted_by_steps() {
        let next = |x: f32, by: u32| f32::from_bits(x.to_bits() + by);
        let found = [
            1.0,
            next(1.0, 1),
            next(1.0, 2),
            next(1.0, 300),
            f32::NAN,
            0.0,
            f32::INFINITY,
        ];
        let expected = [1.0, 1.0, 1.0, 1.0, f32::NAN, f32::NAN, f32::MAX];
        let result = difference(&found, &expected, 1e-5);
        assert_eq!(result.histogram, [2, 2, 1, 0, 0, 0, 1, 0]);
        assert_eq!((result.elements, result.failed), (7, 3));
        assert_eq!(result.named[0].0, 3);
        assert_eq!(result.named[1].3, None);
        assert_eq!(difference(&[1.0], &[-1.0], 2.0).failed, 0);
        assert_eq!(difference(&[1.0], &[-1.0], 1.9).failed, 1);
    }

    #[test]
    fn positions_become_indices() {
        assert_eq!(index(0, &[]), "[]");
        assert_eq!(index(7, &[2, 3, 4]), "[0, 1, 3]");
        assert_eq!(index(23, &[2, 3, 4]), "[1, 2, 3]");
    }
}
