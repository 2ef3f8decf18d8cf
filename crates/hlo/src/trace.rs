//! Where two executions of a module begin to differ.

use std::sync::mpsc::{Receiver, sync_channel};

use crate::array::ArrayView;
use crate::element::{ElementType, with_element};
use crate::error::{ExecuteError, Site};
use crate::exec::{Event, Executable};
use crate::numerics::Numeric;
use crate::options::ExecuteOptions;

/// The first instruction whose results differ between two executions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// Number of instructions that were executed before it.
    pub step: u64,
    /// The instruction of the left execution.
    pub left: Site,
    /// That of the right one: another where the executions took different
    /// branches after differences within the tolerance.
    pub right: Site,
    /// How the values differ; `None` if the instructions are not the same.
    pub values: Option<ValueDifference>,
}

/// How two values of an instruction differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueDifference {
    /// Number of the array within the value, depth first.
    pub array: usize,
    /// The first element that differs, in row-major order.
    pub element: usize,
    /// Its value on the left; of a complex number, the real part, or the
    /// imaginary one where that alone differs.
    pub left: f64,
    /// Its value on the right.
    pub right: f64,
    /// Elements of that array that differ.
    pub differing: usize,
    /// Elements of that array.
    pub elements: usize,
    /// The largest difference of two finite elements of that array; of complex
    /// numbers, its magnitude.
    pub largest: f64,
}

/// A result, sent from one execution to the other.
struct Sent {
    site: Site,
    arrays: Vec<(ElementType, Vec<u8>)>,
}

impl Executable {
    /// Executes the module under two sets of options, side by side, and names
    /// the first instruction whose results differ: under which one a mode takes
    /// effect, say.
    ///
    /// Two elements differ if their values are further apart than `tolerance`
    /// times the larger magnitude, or than `tolerance` where both are below
    /// one; a NaN differs from every number. With a tolerance of 0, results
    /// differ unless all bytes are equal.
    ///
    /// # Errors
    ///
    /// [`ExecuteError`] of the execution that failed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use metaneff_hlo::options::{DotRounding, ExecuteOptions};
    /// use metaneff_hlo::{Executable, Module};
    ///
    /// let executable = Executable::new(Module::parse(std::fs::read("module.pb")?)?);
    /// let exact = ExecuteOptions::default();
    /// let mut rounded = ExecuteOptions::default();
    /// rounded.dot_rounding = DotRounding::Bf16;
    /// if let Some(difference) = executable.first_difference(&[&[0; 64]], &exact, &rounded, 1e-3)? {
    ///     println!("{} is the first to differ", difference.left);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_difference(
        &self,
        inputs: &[&[u8]],
        left: &ExecuteOptions,
        right: &ExecuteOptions,
        tolerance: f64,
    ) -> Result<Option<Difference>, ExecuteError> {
        let (sender, receiver) = sync_channel(1);
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                self.execute_traced(inputs, right, &mut |event| {
                    // Nobody receives once a difference is found.
                    let _gone = sender.send(sent(&event));
                })
            });
            let mut receiver = Some(receiver);
            let mut difference = None;
            let own = self.execute_traced(inputs, left, &mut |event| {
                if let Some(found) = receiver
                    .as_ref()
                    .and_then(|receiver| compared(&event, receiver, tolerance))
                {
                    difference = Some(found);
                    receiver = None;
                }
            });
            drop(receiver);
            let other = other.join().unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            });
            own?;
            other?;
            Ok(difference)
        })
    }
}

fn site(event: &Event<'_>) -> Site {
    Site {
        opcode: event.instruction.opcode().to_owned(),
        instruction: event.instruction.name().to_owned(),
        computation: event.computation.name().to_owned(),
    }
}

fn sent(event: &Event<'_>) -> Sent {
    let arrays = event.arrays.iter();
    Sent {
        site: site(event),
        arrays: arrays
            .map(|array| (array.element(), array.bytes().to_vec()))
            .collect(),
    }
}

/// How an instruction's result differs from the one that the other execution
/// sends; `None` also if that has ended.
fn compared(event: &Event<'_>, receiver: &Receiver<Sent>, tolerance: f64) -> Option<Difference> {
    let other = receiver.recv().ok()?;
    let difference = |values| Difference {
        step: event.step,
        left: site(event),
        right: other.site.clone(),
        values,
    };
    if site(event) != other.site {
        return Some(difference(None));
    }
    for (number, (left, (element, right))) in event.arrays.iter().zip(&other.arrays).enumerate() {
        if left.bytes() == right {
            continue;
        }
        let found = with_element!(*element, T => {
            values_differ::<T>(number, *left, right, tolerance)
        });
        if found.is_some() {
            return Some(difference(found));
        }
    }
    None
}

fn values_differ<T: Numeric>(
    array: usize,
    left: ArrayView<'_>,
    right: &[u8],
    tolerance: f64,
) -> Option<ValueDifference> {
    // Bytes that were sent need not be aligned.
    let size = T::TYPE.byte_size();
    let mut found: Option<ValueDifference> = None;
    let elements = left.element_count();
    for (element, (x, bytes)) in left
        .values::<T>()
        .ok()?
        .iter()
        .zip(right.chunks_exact(size))
        .enumerate()
    {
        let differing_bytes = bytemuck::bytes_of(x) != bytes;
        let y: T = bytemuck::pod_read_unaligned(bytes);
        let (x, y) = (x.to_complex(), y.to_complex());
        let differs = if tolerance == 0.0 {
            differing_bytes
        } else {
            apart(x.re, y.re, tolerance) || apart(x.im, y.im, tolerance)
        };
        if !differs {
            continue;
        }
        let imaginary = x.re.to_bits() == y.re.to_bits() && x.im.to_bits() != y.im.to_bits();
        let (left, right) = if imaginary {
            (x.im, y.im)
        } else {
            (x.re, y.re)
        };
        let first = found.get_or_insert(ValueDifference {
            array,
            element,
            left,
            right,
            differing: 0,
            elements,
            largest: 0.0,
        });
        first.differing += 1;
        let difference = (x - y).norm();
        if difference.is_finite() {
            first.largest = first.largest.max(difference);
        }
    }
    found
}

fn apart(x: f64, y: f64, tolerance: f64) -> bool {
    if x == y || (x.is_nan() && y.is_nan()) {
        return false;
    }
    // A NaN and infinities compare false.
    let within = (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0);
    !within || x.is_infinite() || y.is_infinite()
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex;

    use crate::array::Array;

    #[test]
    fn imaginary_parts_count() {
        let left = [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)].map(|(re, im)| Complex::new(re, im));
        let right = [(1.0, 2.0), (3.0, 5.0), (8.0, 2.0)].map(|(re, im)| Complex::new(re, im));
        let left = Array::from_values::<Complex<f32>>(&[3], &left).unwrap();
        let right: &[Complex<f32>] = &right;
        for tolerance in [0.0, 0.01] {
            let bytes = bytemuck::cast_slice(right);
            let found = values_differ::<Complex<f32>>(7, left.view(), bytes, tolerance);
            let expected = ValueDifference {
                array: 7,
                element: 1,
                left: 4.0,
                right: 5.0,
                differing: 2,
                elements: 3,
                largest: 5.0,
            };
            assert_eq!(found, Some(expected));
        }
    }
}
