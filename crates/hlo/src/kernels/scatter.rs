//! `scatter`.

use super::gather::{IndexVectors, window_runs};
use super::slicing::out_of_bounds;
use super::walk::{for_each, index, signed, strides};
use super::{Combiner, Context, Region};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{Monoid, ScatterDims};
use crate::element::{with_element, with_word};
use crate::error::KernelError;
use crate::numerics::{Arithmetic, Numeric, supports};
use crate::options::OobPolicy;

/// Where each update window lands: pairs of offsets into operand and updates, and the runs within a window.
struct Landings {
    windows: Vec<(usize, usize)>,
    runs: Vec<(usize, usize)>,
    run: usize,
}

impl Landings {
    /// Leaves out windows that do not lie wholly in the operand; they are an error under the strict policy.
    fn new(
        operand: &[usize],
        indices: ArrayView<'_>,
        updates: &[usize],
        dims: &ScatterDims,
        policy: OobPolicy,
    ) -> Result<Self, KernelError> {
        let vectors = IndexVectors::new(indices, dims.index_vector_dim)?;
        let operand_strides = strides(operand);
        let update_strides = strides(updates);
        let window_dims: Vec<usize> = (0..operand.len())
            .filter(|dim| {
                !dims.inserted_window_dims.contains(dim) && !dims.input_batching_dims.contains(dim)
            })
            .collect();
        let sizes: Vec<usize> = dims
            .update_window_dims
            .iter()
            .map(|&dim| updates[dim])
            .collect();
        let left: Vec<usize> = window_dims
            .iter()
            .map(|&dim| operand_strides[dim])
            .collect();
        let right: Vec<usize> = dims
            .update_window_dims
            .iter()
            .map(|&dim| update_strides[dim])
            .collect();
        let (run, runs) = window_runs(&sizes, &left, &right);
        let mut window = vec![1; operand.len()];
        for (&dim, &size) in window_dims.iter().zip(&sizes) {
            window[dim] = size;
        }
        let batch_updates: Vec<isize> = (0..updates.len())
            .filter(|dim| !dims.update_window_dims.contains(dim))
            .map(|dim| signed(update_strides[dim]))
            .collect();
        let batching = vectors.batching_strides(
            dims.index_vector_dim,
            &dims.input_batching_dims,
            &dims.scatter_indices_batching_dims,
            &operand_strides,
        );
        let mut windows = Vec::new();
        let mut failure = None;
        let batch_strides = vectors.batch_strides();
        for_each(
            &vectors.batch_dims,
            [&batch_strides, &batch_updates, &batching],
            [0, 0, 0],
            |[vector, from, base]| {
                let mut to = index(base);
                for (position, &dim) in dims.scatter_dims_to_operand_dims.iter().enumerate() {
                    let start = vectors.component(vector, position);
                    let limit = operand[dim].checked_sub(window[dim]);
                    let fits = |start: &usize| limit.is_some_and(|limit| *start <= limit);
                    match usize::try_from(start).ok().filter(fits) {
                        Some(start) => to += start * operand_strides[dim],
                        None => {
                            failure.get_or_insert(out_of_bounds(start, dim, limit.unwrap_or(0)));
                            return;
                        }
                    }
                }
                windows.push((to, index(from)));
            },
        );
        match failure {
            Some(failure) if policy == OobPolicy::Strict => Err(failure),
            _ => Ok(Self { windows, runs, run }),
        }
    }

    /// Calls `visit` with the ranges of each run in operand and updates, in the order of the updates.
    fn visit(&self, mut visit: impl FnMut(std::ops::Range<usize>, std::ops::Range<usize>)) {
        for &(to, from) in &self.windows {
            for &(left, right) in &self.runs {
                let (to, from) = (to + left, from + right);
                visit(to..to + self.run, from..from + self.run);
            }
        }
    }
}

/// `scatter` in place: `operands` hold the operands and take the results.
///
/// An update whose window does not lie wholly in the operand is dropped. Updates apply in their order, so that the last
/// one to an element wins.
///
/// # Errors
///
/// [`KernelError::OutOfBounds`] under the strict policy, or a region's error.
pub(crate) fn scatter(
    operands: &mut [ArrayViewMut<'_>],
    indices: ArrayView<'_>,
    updates: &[ArrayView<'_>],
    dims: &ScatterDims,
    combiner: Combiner<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let (Some(operand), Some(update)) = (operands.first(), updates.first()) else {
        return Ok(());
    };
    if update.element_count() == 0 {
        return Ok(());
    }
    let policy = context.options.oob_policy;
    let landings = Landings::new(operand.dims(), indices, update.dims(), dims, policy)?;
    match combiner {
        Combiner::Replace => {
            for (operand, update) in operands.iter_mut().zip(updates) {
                with_word!(operand.element(), W => {
                    let (target, source) = (operand.words_mut::<W>()?, update.words::<W>()?);
                    landings.visit(|to, from| target[to].copy_from_slice(&source[from]));
                });
            }
            Ok(())
        }
        Combiner::Monoid(monoid) => {
            for (operand, update) in operands.iter_mut().zip(updates) {
                let element = operand.element();
                if !supports(element, monoid) {
                    let what = format!("scatter of {monoid:?} on {element}");
                    return Err(KernelError::Unsupported { what });
                }
                with_element!(element, T => {
                    combine(operand.values_mut::<T>()?, update.values::<T>()?, monoid, &landings);
                });
            }
            Ok(())
        }
        Combiner::Region(region) => call_region(operands, updates, &landings, region),
    }
}

fn combine<T: Numeric>(target: &mut [T], source: &[T], monoid: Monoid, landings: &Landings) {
    landings.visit(|to, from| {
        for (target, &value) in target[to].iter_mut().zip(&source[from]) {
            *target = T::store(T::Compute::combine(monoid, target.load(), value.load()));
        }
    });
}

fn call_region(
    operands: &mut [ArrayViewMut<'_>],
    updates: &[ArrayView<'_>],
    landings: &Landings,
    region: &mut dyn Region,
) -> Result<(), KernelError> {
    let sizes: Vec<usize> = operands
        .iter()
        .map(|operand| operand.element().byte_size())
        .collect();
    let lanes = landings.run;
    let mut results = Vec::new();
    let mut accumulators = Vec::new();
    let mut values = Vec::new();
    for &size in &sizes {
        results.push(crate::array::Buffer::zeroed(lanes * size)?);
        accumulators.push(crate::array::Buffer::zeroed(lanes * size)?);
        values.push(crate::array::Buffer::zeroed(lanes * size)?);
    }
    let mut outcome = Ok(());
    landings.visit(|to, from| {
        if outcome.is_err() {
            return;
        }
        for (position, &size) in sizes.iter().enumerate() {
            let (to, from) = (
                to.start * size..to.end * size,
                from.start * size..from.end * size,
            );
            accumulators[position]
                .bytes_mut()
                .copy_from_slice(&operands[position].bytes_mut()[to]);
            values[position]
                .bytes_mut()
                .copy_from_slice(&updates[position].bytes()[from]);
        }
        let args: Vec<&[u8]> = accumulators
            .iter()
            .chain(&values)
            .map(|buffer| buffer.bytes())
            .collect();
        let mut outs: Vec<&mut [u8]> = results
            .iter_mut()
            .map(|buffer| buffer.bytes_mut())
            .collect();
        outcome = region.call(lanes, &args, &mut outs);
        for (position, &size) in sizes.iter().enumerate() {
            let to = to.start * size..to.end * size;
            operands[position].bytes_mut()[to].copy_from_slice(results[position].bytes());
        }
    });
    outcome.map_err(KernelError::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Buffer;
    use crate::element::{Element, ElementType};
    use crate::kernels::testing::array;
    use crate::options::ExecuteOptions;

    fn scattered(
        start: &[i32],
        dims: &[usize],
        indices: &[i32],
        updates: (&[usize], &[i32]),
        scatter_dims: &ScatterDims,
        combiner: Combiner<'_>,
    ) -> Vec<i32> {
        let options = ExecuteOptions::default();
        let mut buffer = Buffer::copied(bytemuck::cast_slice(start)).unwrap();
        let operand = ArrayViewMut::new(i32::TYPE, dims, buffer.bytes_mut()).unwrap();
        let indices = array(&[indices.len()], indices);
        let updates = array(updates.0, updates.1);
        let context = Context { options: &options };
        scatter(
            &mut [operand],
            indices.view(),
            &[updates.view()],
            scatter_dims,
            combiner,
            context,
        )
        .unwrap();
        bytemuck::cast_slice(buffer.bytes()).to_vec()
    }

    fn rows() -> ScatterDims {
        ScatterDims {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        }
    }

    #[test]
    fn windows_outside_are_dropped_and_the_last_update_wins() {
        let got = scattered(
            &[0; 6],
            &[3, 2],
            &[-1, 2, 3, 2],
            (&[4, 2], &[1, 1, 2, 3, 4, 4, 5, 6]),
            &rows(),
            Combiner::Replace,
        );
        assert_eq!(got, [0, 0, 0, 0, 5, 6]);
    }

    #[test]
    fn a_window_that_spills_over_is_dropped_whole() {
        let dims = ScatterDims {
            update_window_dims: vec![1],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let got = scattered(
            &[0; 4],
            &[4],
            &[2, 3],
            (&[2, 2], &[1, 2, 3, 4]),
            &dims,
            Combiner::Monoid(Monoid::Add),
        );
        assert_eq!(got, [0, 0, 1, 2]);
    }

    #[test]
    fn duplicates_accumulate() {
        let got = scattered(
            &[1; 4],
            &[2, 2],
            &[1, 1],
            (&[2, 2], &[1, 2, 3, 4]),
            &rows(),
            Combiner::Monoid(Monoid::Multiply),
        );
        assert_eq!(got, [1, 1, 3, 8]);
    }

    #[test]
    fn regions_get_accumulators_before_values() {
        struct Difference;
        impl Region for Difference {
            fn call(
                &mut self,
                _lanes: usize,
                args: &[&[u8]],
                results: &mut [&mut [u8]],
            ) -> Result<(), Box<crate::error::ExecuteError>> {
                let [left, right]: [&[i32]; 2] = [args[0], args[1]].map(bytemuck::cast_slice);
                let out: &mut [i32] = bytemuck::cast_slice_mut(results[0]);
                for (out, (left, right)) in out.iter_mut().zip(left.iter().zip(right)) {
                    *out = left - right;
                }
                Ok(())
            }
        }
        let got = scattered(
            &[10; 4],
            &[2, 2],
            &[0, 0],
            (&[2, 2], &[1, 2, 3, 4]),
            &rows(),
            Combiner::Region(&mut Difference),
        );
        assert_eq!(got, [6, 4, 10, 10]);
    }

    #[test]
    fn the_strict_policy_refuses_a_sentinel() {
        let options = ExecuteOptions {
            oob_policy: OobPolicy::Strict,
            ..ExecuteOptions::default()
        };
        let mut buffer = Buffer::zeroed(8).unwrap();
        let operand = ArrayViewMut::new(ElementType::S32, &[1, 2], buffer.bytes_mut()).unwrap();
        let (indices, updates) = (array(&[1], &[i32::MAX]), array(&[1, 2], &[1, 2]));
        let context = Context { options: &options };
        let error = scatter(
            &mut [operand],
            indices.view(),
            &[updates.view()],
            &rows(),
            Combiner::Replace,
            context,
        )
        .unwrap_err();
        assert!(
            matches!(
                error,
                KernelError::OutOfBounds {
                    index: 0x7fff_ffff,
                    dim: 0,
                    limit: 0
                }
            ),
            "{error}"
        );
    }
}
