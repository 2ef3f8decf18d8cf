//! Running a case.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::array::{Array, ArrayView};
use crate::element::with_element;
use crate::error::{ExecuteError, KernelError};
use crate::exec::{Event, Executable, Execution};
use crate::ir::Module;
use crate::numerics::Numeric;
use crate::options::ExecuteOptions;
use crate::trace::Difference;
use crate::verify::{Problem, VerifyError};
use crate::world::World;

use super::case::{Case, CaseError};
use super::compare::{Comparison, compare};

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Every output is within tolerance.
    Passed,
    /// An output is not, or something else went wrong.
    Failed,
    /// The module needs what is not supported.
    Unsupported,
}

/// What came of a case.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The case's name.
    pub name: String,
    /// The case's category.
    pub category: String,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it did not pass.
    pub reason: Option<String>,
    /// How each output compares, device by device.
    pub outputs: Vec<Comparison>,
    /// Microseconds that execution took, the first time.
    pub microseconds: u64,
}

/// Statistics of an instruction's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TraceEntry {
    /// Number of instructions that were executed before.
    pub step: u64,
    /// The computation.
    pub computation: String,
    /// The instruction.
    pub instruction: String,
    /// Its opcode.
    pub opcode: String,
    /// Shape of its result.
    pub shape: String,
    /// Elements of its result that are NaN; complex ones, in either part.
    pub nan: usize,
    /// Elements of its result that are infinite and not NaN; complex ones, in
    /// either part.
    pub infinite: usize,
    /// Least finite value; of complex numbers here and below, the real part.
    pub min: Option<f64>,
    /// Greatest finite value.
    pub max: Option<f64>,
    /// Mean of the finite values.
    pub mean: Option<f64>,
    /// FNV-1a of the bytes: equal results have equal digests.
    pub digest: String,
}

/// Runs a case under `options`.
#[must_use]
pub fn run_case(case: &Case, options: &ExecuteOptions) -> Outcome {
    let mut outcome = Outcome {
        name: case.name.clone(),
        category: case.category.clone(),
        verdict: Verdict::Passed,
        reason: None,
        outputs: Vec::new(),
        microseconds: 0,
    };
    if let Err(failure) = run(case, options, &mut outcome) {
        outcome.verdict = failure.verdict();
        outcome.reason = Some(failure.to_string());
    }
    outcome
}

/// Runs a case of one device under `options` and gives the statistics of every
/// instruction's result, in the order of execution.
///
/// # Errors
///
/// [`CaseFailure`] if the case cannot be read or executed.
pub fn trace_case(case: &Case, options: &ExecuteOptions) -> Result<Vec<TraceEntry>, CaseFailure> {
    let executable = executable(case)?;
    let inputs = inputs(case, 0, executable.module())?;
    let bytes: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
    let mut entries = Vec::new();
    executable.execute_traced(&bytes, options, &mut |event| entries.push(entry(&event)))?;
    Ok(entries)
}

/// Runs a case of one device under two sets of options and names the first
/// instruction whose results differ, as [`Executable::first_difference`] does.
///
/// # Errors
///
/// [`CaseFailure`] if the case cannot be read or executed.
pub fn first_difference(
    case: &Case,
    left: &ExecuteOptions,
    right: &ExecuteOptions,
    tolerance: f64,
) -> Result<Option<Difference>, CaseFailure> {
    let executable = executable(case)?;
    let inputs = inputs(case, 0, executable.module())?;
    let bytes: Vec<&[u8]> = inputs.iter().map(Array::bytes).collect();
    Ok(executable.first_difference(&bytes, left, right, tolerance)?)
}

/// The step at which two traces of a module begin to differ, by the digests of
/// the results: a trace that was written before, say, and one of now.
#[must_use]
pub fn first_change(golden: &[TraceEntry], found: &[TraceEntry]) -> Option<usize> {
    let differs = |(golden, found): (&TraceEntry, &TraceEntry)| {
        (&golden.computation, &golden.instruction, &golden.digest)
            != (&found.computation, &found.instruction, &found.digest)
    };
    let common = golden.len().min(found.len());
    golden
        .iter()
        .zip(found)
        .position(differs)
        .or_else(|| (golden.len() != found.len()).then_some(common))
}

/// Why a case did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseFailure {
    /// The case cannot be read.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The module is refused.
    #[error("refused: {0}")]
    Verify(#[from] VerifyError),
    /// The execution failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// An array has another shape than its file or its golden values.
    #[error("{what} {index} of device {device}: {source}")]
    Array {
        /// Input or output.
        what: &'static str,
        /// Its number.
        index: usize,
        /// The device.
        device: usize,
        /// What is wrong.
        source: crate::array::ViewError,
    },
    /// There are more or fewer outputs than golden ones.
    #[error("{found} outputs where the case has {expected}")]
    OutputCount {
        /// Golden outputs.
        expected: usize,
        /// Outputs.
        found: usize,
    },
    /// A device's thread panicked.
    #[error("a device's thread panicked")]
    Panicked,
    /// Outputs are out of tolerance.
    #[error(
        "output {index} of device {device}: {failed} of {elements} elements out of tolerance, the first at {first}: expected {expected}, found {found}"
    )]
    Tolerance {
        /// The output.
        index: usize,
        /// The device.
        device: usize,
        /// Elements out of tolerance.
        failed: usize,
        /// Elements.
        elements: usize,
        /// The first element out of tolerance.
        first: usize,
        /// Its golden value.
        expected: String,
        /// Its value.
        found: String,
    },
}

impl CaseFailure {
    fn verdict(&self) -> Verdict {
        let unsupported = match self {
            Self::Verify(error) => {
                matches!(
                    error.problem(),
                    Some(
                        Problem::Opcode
                            | Problem::RefusedOpcode { .. }
                            | Problem::Unsupported { .. }
                    )
                )
            }
            Self::Execute(error) => matches!(
                error,
                ExecuteError::Unsupported { .. }
                    | ExecuteError::CustomCall { .. }
                    | ExecuteError::Kernel {
                        source: KernelError::Unsupported { .. },
                        ..
                    }
            ),
            _ => false,
        };
        if unsupported {
            Verdict::Unsupported
        } else {
            Verdict::Failed
        }
    }
}

fn executable(case: &Case) -> Result<Executable, CaseFailure> {
    Ok(Executable::new(Module::parse(case.module()?)?))
}

fn run(case: &Case, options: &ExecuteOptions, outcome: &mut Outcome) -> Result<(), CaseFailure> {
    let executable = executable(case)?;
    let (executions, elapsed) = execute(case, &executable, options)?;
    outcome.microseconds = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    let mut first = None;
    for (device, execution) in executions.iter().enumerate() {
        let goldens = &case.outputs[device];
        if execution.outputs.len() != goldens.len() {
            let (expected, found) = (goldens.len(), execution.outputs.len());
            return Err(CaseFailure::OutputCount { expected, found });
        }
        for (index, output) in execution.outputs.iter().enumerate() {
            let comparison = compared(case, device, index, output)?;
            if comparison.failed > 0 && first.is_none() {
                first = Some(CaseFailure::Tolerance {
                    index,
                    device,
                    failed: comparison.failed,
                    elements: comparison.elements,
                    first: comparison.first_failed.unwrap_or_default(),
                    expected: comparison.expected.clone().unwrap_or_default(),
                    found: comparison.found.clone().unwrap_or_default(),
                });
            }
            outcome.outputs.push(comparison);
        }
    }
    first.map_or(Ok(()), Err)
}

fn compared(
    case: &Case,
    device: usize,
    index: usize,
    output: &Array,
) -> Result<Comparison, CaseFailure> {
    let tensor = &case.outputs[device][index];
    let mut goldens = vec![case.array(tensor)?];
    if let Some(file) = case.alternatives.get(index) {
        let mut other = tensor.clone();
        other.file.clone_from(file);
        goldens.push(case.array(&other)?);
    }
    output
        .to_row_major()
        .and_then(|output| compare(&output, &goldens, case.tolerance))
        .map_err(|source| CaseFailure::Array {
            what: "output",
            index,
            device,
            source,
        })
}

fn inputs(case: &Case, device: usize, module: &Module) -> Result<Vec<Array>, CaseFailure> {
    let shapes: Vec<_> = module
        .parameters()
        .iter()
        .flat_map(|shape| shape.leaves())
        .collect();
    let mut arrays = Vec::new();
    for (index, tensor) in case.inputs[device].iter().enumerate() {
        let array = case.array(tensor)?;
        arrays.push(match shapes.get(index).and_then(|shape| shape.layout()) {
            Some(layout) => array
                .to_layout(layout)
                .map_err(|source| CaseFailure::Array {
                    what: "input",
                    index,
                    device,
                    source,
                })?,
            None => array,
        });
    }
    Ok(arrays)
}

/// Executes the case on every device at once.
fn execute(
    case: &Case,
    executable: &Executable,
    options: &ExecuteOptions,
) -> Result<(Vec<Execution>, Duration), CaseFailure> {
    let devices = case.inputs.len();
    let inputs = (0..devices)
        .map(|device| inputs(case, device, executable.module()))
        .collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let inputs = &inputs;
    let execute = move |device: usize, options: &ExecuteOptions| {
        let bytes: Vec<&[u8]> = inputs[device].iter().map(Array::bytes).collect();
        executable.execute(&bytes, options)
    };
    if devices == 1 {
        return Ok((vec![execute(0, options)?], start.elapsed()));
    }
    let places = World::new(case.replicas, case.partitions).devices();
    let executions = std::thread::scope(|scope| {
        let threads: Vec<_> = places
            .into_iter()
            .enumerate()
            .map(|(index, device)| {
                let options = ExecuteOptions {
                    device: Some(device),
                    ..options.clone()
                };
                scope.spawn(move || execute(index, &options))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .map_err(|_| CaseFailure::Panicked)?
                    .map_err(Into::into)
            })
            .collect::<Result<Vec<_>, CaseFailure>>()
    })?;
    Ok((executions, start.elapsed()))
}

fn entry(event: &Event<'_>) -> TraceEntry {
    let mut statistics = Statistics::default();
    for &array in &event.arrays {
        statistics.add(array);
    }
    let finite = statistics.finite > 0;
    let mean = statistics.sum / statistics.finite as f64;
    TraceEntry {
        step: event.step,
        computation: event.computation.name().to_owned(),
        instruction: event.instruction.name().to_owned(),
        opcode: event.instruction.opcode().to_owned(),
        shape: event.instruction.shape().to_string(),
        nan: statistics.nan,
        infinite: statistics.infinite,
        min: finite.then_some(statistics.min),
        max: finite.then_some(statistics.max),
        mean: finite.then_some(mean),
        digest: format!("{:016x}", statistics.digest),
    }
}

struct Statistics {
    nan: usize,
    infinite: usize,
    finite: usize,
    min: f64,
    max: f64,
    sum: f64,
    digest: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            nan: 0,
            infinite: 0,
            finite: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }
}

impl Statistics {
    fn add(&mut self, array: ArrayView<'_>) {
        for &byte in array.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        with_element!(array.element(), T => {
            for value in array.values::<T>().unwrap_or_default() {
                let value = value.to_complex();
                if value.is_nan() {
                    self.nan += 1;
                } else if value.is_infinite() {
                    self.infinite += 1;
                } else {
                    let value = value.re;
                    self.finite += 1;
                    self.min = self.min.min(value);
                    self.max = self.max.max(value);
                    self.sum += value;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    #[test]
    fn imaginary_parts_are_looked_at() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let values = [
            Complex::new(1.0, nan),
            Complex::new(nan, 1.0),
            Complex::new(infinity, nan),
            Complex::new(2.0, -infinity),
            Complex::new(infinity, 2.0),
            Complex::new(3.0, -7.0),
            Complex::new(5.0, 9.0),
        ];
        let array = Array::from_values(&[values.len()], &values).unwrap();
        let mut statistics = Statistics::default();
        statistics.add(array.view());
        let counts = (statistics.nan, statistics.infinite, statistics.finite);
        assert_eq!(counts, (3, 2, 2));
        let sums = (statistics.min, statistics.max, statistics.sum);
        assert_eq!(sums, (3.0, 5.0, 8.0));
    }
}
