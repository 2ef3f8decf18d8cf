//! `gather`.

use super::Context;
use super::slicing::clamp_start;
use super::walk::{for_each, index, integers, signed, strides};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::GatherDims;
use crate::element::with_word;
use crate::error::KernelError;

/// Where index vectors lie and which operand dimensions they address: what gather and scatter have in common.
pub(super) struct IndexVectors {
    values: Vec<i64>,
    /// Distance between the components of a vector.
    step: usize,
    /// Sizes of the dimensions of the indices but that of the vectors.
    pub(super) batch_dims: Vec<usize>,
    batch_strides: Vec<usize>,
}

impl IndexVectors {
    pub(super) fn new(indices: ArrayView<'_>, vector_dim: usize) -> Result<Self, KernelError> {
        let all = strides(indices.dims());
        let others = || (0..indices.dims().len()).filter(|&dim| dim != vector_dim);
        Ok(Self {
            values: integers(indices)?,
            step: all.get(vector_dim).copied().unwrap_or(1),
            batch_dims: others().map(|dim| indices.dims()[dim]).collect(),
            batch_strides: others().map(|dim| all[dim]).collect(),
        })
    }

    pub(super) fn batch_strides(&self) -> Vec<isize> {
        self.batch_strides.iter().copied().map(signed).collect()
    }

    /// Component `position` of the vector that starts at `offset`.
    pub(super) fn component(&self, offset: isize, position: usize) -> i64 {
        self.values[index(offset) + position * self.step]
    }

    /// Strides, by batch dimension, that add the operand offset of batching dimensions.
    pub(super) fn batching_strides(
        &self,
        vector_dim: usize,
        operand_dims: &[usize],
        indices_dims: &[usize],
        operand_strides: &[usize],
    ) -> Vec<isize> {
        let mut steps = vec![0; self.batch_dims.len()];
        for (&operand_dim, &indices_dim) in operand_dims.iter().zip(indices_dims) {
            let dim = if indices_dim > vector_dim {
                indices_dim - 1
            } else {
                indices_dim
            };
            steps[dim] = signed(operand_strides[operand_dim]);
        }
        steps
    }
}

/// Runs of elements that are contiguous on both sides of a window: their offsets and their common length.
pub(super) fn window_runs(
    dims: &[usize],
    left: &[usize],
    right: &[usize],
) -> (usize, Vec<(usize, usize)>) {
    let mut run = 1;
    let mut split = dims.len();
    while split > 0 && (dims[split - 1] == 1 || (left[split - 1] == run && right[split - 1] == run))
    {
        split -= 1;
        run *= dims[split];
    }
    let left: Vec<isize> = left[..split].iter().copied().map(signed).collect();
    let right: Vec<isize> = right[..split].iter().copied().map(signed).collect();
    let mut runs = Vec::new();
    for_each(&dims[..split], [&left, &right], [0, 0], |[left, right]| {
        runs.push((index(left), index(right)));
    });
    (run, runs)
}

/// `gather`: each start is clamped so that its whole slice fits, before any offset is added.
///
/// # Errors
///
/// [`KernelError::OutOfBounds`] under the strict policy.
pub(crate) fn gather(
    operand: ArrayView<'_>,
    indices: ArrayView<'_>,
    dims: &GatherDims,
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if out.element_count() == 0 {
        return Ok(());
    }
    let vectors = IndexVectors::new(indices, dims.index_vector_dim)?;
    let operand_strides = strides(operand.dims());
    let out_strides = strides(out.dims());
    let window_dims: Vec<usize> = (0..operand.dims().len())
        .filter(|dim| {
            !dims.collapsed_slice_dims.contains(dim) && !dims.operand_batching_dims.contains(dim)
        })
        .collect();
    let sizes: Vec<usize> = window_dims
        .iter()
        .map(|&dim| dims.slice_sizes[dim])
        .collect();
    let left: Vec<usize> = window_dims
        .iter()
        .map(|&dim| operand_strides[dim])
        .collect();
    let right: Vec<usize> = dims
        .offset_dims
        .iter()
        .map(|&dim| out_strides[dim])
        .collect();
    let (run, runs) = window_runs(&sizes, &left, &right);
    let batch_out: Vec<isize> = (0..out_strides.len())
        .filter(|dim| !dims.offset_dims.contains(dim))
        .map(|dim| signed(out_strides[dim]))
        .collect();
    let batching = vectors.batching_strides(
        dims.index_vector_dim,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
        &operand_strides,
    );

    let mut failure = None;
    let policy = context.options.oob_policy;
    with_word!(operand.element(), W => {
        let (source, target) = (operand.words::<W>()?, out.words_mut::<W>()?);
        for_each(
            &vectors.batch_dims,
            [&vectors.batch_strides(), &batch_out, &batching],
            [0, 0, 0],
            |[vector, to, base]| {
                let mut from = index(base);
                for (position, &dim) in dims.start_index_map.iter().enumerate() {
                    let start = vectors.component(vector, position);
                    let window = dims.slice_sizes[dim];
                    match clamp_start(start, dim, operand.dims()[dim], window, policy) {
                        Ok(start) => from += start * operand_strides[dim],
                        Err(error) => {
                            failure.get_or_insert(error);
                        }
                    }
                }
                for &(left, right) in &runs {
                    let source = &source[from + left..][..run];
                    target[index(to) + right..][..run].copy_from_slice(source);
                }
            },
        );
    });
    failure.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    fn rows() -> GatherDims {
        GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 1,
            slice_sizes: vec![1, 2],
            ..GatherDims::default()
        }
    }

    #[test]
    fn starts_are_clamped_before_offsets_are_added() {
        let options = ExecuteOptions::default();
        let operand = array(&[3, 2], &[0, 1, 2, 3, 4, 5]);
        let indices = array(&[4], &[-1, 2, 9, i32::MAX]);
        let got: Vec<i32> = run(&[4, 2], |out| {
            gather(
                operand.view(),
                indices.view(),
                &rows(),
                out,
                Context { options: &options },
            )
        });
        assert_eq!(got, [0, 1, 4, 5, 4, 5, 4, 5]);
        let dims = GatherDims {
            offset_dims: vec![1],
            start_index_map: vec![0],
            index_vector_dim: 1,
            slice_sizes: vec![3],
            ..GatherDims::default()
        };
        let operand = array(&[5], &[0, 1, 2, 3, 4]);
        let indices = array(&[2], &[1_u32, u32::MAX]);
        let got: Vec<i32> = run(&[2, 3], |out| {
            gather(
                operand.view(),
                indices.view(),
                &dims,
                out,
                Context { options: &options },
            )
        });
        assert_eq!(got, [1, 2, 3, 2, 3, 4]);
    }

    #[test]
    fn batching_dimensions_select_the_row() {
        let options = ExecuteOptions::default();
        let dims = GatherDims {
            start_index_map: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            collapsed_slice_dims: vec![1],
            index_vector_dim: 2,
            slice_sizes: vec![1, 1],
            ..GatherDims::default()
        };
        let operand = array(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        let indices = array(&[2, 2], &[2, 0, 1, 1]);
        let got: Vec<i32> = run(&[2, 2], |out| {
            gather(
                operand.view(),
                indices.view(),
                &dims,
                out,
                Context { options: &options },
            )
        });
        assert_eq!(got, [2, 0, 4, 4]);
    }
}
