//! `dynamic-slice` and `dynamic-update-slice`.

use super::Context;
use super::movement::strided_copy;
use super::walk::{for_each, index, integers, signed, strides};
use crate::array::{ArrayView, ArrayViewMut};
use crate::element::with_word;
use crate::error::KernelError;
use crate::options::OobPolicy;

/// The start that is used: the nearest one at which the window fits, or an error under the strict policy.
pub(super) fn clamp_start(
    start: i64,
    dim: usize,
    size: usize,
    window: usize,
    policy: OobPolicy,
) -> Result<usize, KernelError> {
    let limit = size.saturating_sub(window);
    let clamped = usize::try_from(start.max(0)).map_or(limit, |start| start.min(limit));
    if policy == OobPolicy::Strict && i64::try_from(clamped) != Ok(start) {
        return Err(out_of_bounds(start, dim, limit));
    }
    Ok(clamped)
}

/// The error of an index outside its array.
pub(super) fn out_of_bounds(start: i64, dim: usize, limit: usize) -> KernelError {
    KernelError::OutOfBounds {
        index: start,
        dim,
        limit: i64::try_from(limit).unwrap_or(i64::MAX),
    }
}

/// Offset of the window of `window` elements in an array of `dims`, at the clamped starts.
fn start_offset(
    dims: &[usize],
    window: &[usize],
    starts: &[ArrayView<'_>],
    policy: OobPolicy,
) -> Result<usize, KernelError> {
    let mut offset = 0;
    for (dim, (start, stride)) in starts.iter().zip(strides(dims)).enumerate() {
        let start = integers(*start)?.first().copied().unwrap_or(0);
        offset += clamp_start(start, dim, dims[dim], window[dim], policy)? * stride;
    }
    Ok(offset)
}

/// `dynamic-slice`: `starts` are integer scalars, one a dimension; each is clamped so that the slice fits.
///
/// # Errors
///
/// [`KernelError::OutOfBounds`] under the strict policy.
pub(crate) fn dynamic_slice(
    operand: ArrayView<'_>,
    starts: &[ArrayView<'_>],
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let dims = out.dims().to_vec();
    let start = start_offset(operand.dims(), &dims, starts, context.options.oob_policy)?;
    let steps: Vec<isize> = strides(operand.dims()).into_iter().map(signed).collect();
    with_word!(operand.element(), W => {
        strided_copy(operand.words::<W>()?, signed(start), &dims, &steps, out.words_mut::<W>()?);
    });
    Ok(())
}

/// `dynamic-update-slice` in place: `operand` takes the result; each start is clamped so that the update fits.
///
/// # Errors
///
/// [`KernelError::OutOfBounds`] under the strict policy.
pub(crate) fn dynamic_update_slice(
    mut operand: ArrayViewMut<'_>,
    update: ArrayView<'_>,
    starts: &[ArrayView<'_>],
    context: Context<'_>,
) -> Result<(), KernelError> {
    let dims = update.dims();
    let start = start_offset(operand.dims(), dims, starts, context.options.oob_policy)?;
    if update.element_count() == 0 {
        return Ok(());
    }
    let steps: Vec<isize> = strides(operand.dims()).into_iter().map(signed).collect();
    let update_steps: Vec<isize> = strides(dims).into_iter().map(signed).collect();
    // Rows of the update that fill whole trailing dimensions of the operand are contiguous in both.
    let mut split = dims.len();
    let mut run = 1;
    while split > 0 {
        split -= 1;
        run *= dims[split];
        if dims[split] != operand.dims()[split] {
            break;
        }
    }
    with_word!(operand.element(), W => {
        let (target, source) = (operand.words_mut::<W>()?, update.words::<W>()?);
        for_each(
            &dims[..split],
            [&steps[..split], &update_steps[..split]],
            [signed(start), 0],
            |[to, from]| target[index(to)..][..run].copy_from_slice(&source[index(from)..][..run]),
        );
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Buffer;
    use crate::element::ElementType;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    #[test]
    fn starts_are_clamped_to_the_operand() {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let operand = array(&[2, 4], &[0, 1, 2, 3, 4, 5, 6, 7]);
        let (low, high) = (array(&[], &[-5_i32]), array(&[], &[u32::MAX]));
        let starts = [low.view(), high.view()];
        let got: Vec<i32> = run(&[1, 2], |out| {
            dynamic_slice(operand.view(), &starts, out, context)
        });
        assert_eq!(got, [2, 3]);
    }

    #[test]
    fn updates_are_clamped_too() {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let mut buffer = Buffer::zeroed(6 * 4).unwrap();
        let update = array(&[2, 2], &[1, 2, 3, 4]);
        let (row, column) = (array(&[], &[9_i64]), array(&[], &[9_u8]));
        let operand = ArrayViewMut::new(ElementType::S32, &[2, 3], buffer.bytes_mut()).unwrap();
        dynamic_update_slice(
            operand,
            update.view(),
            &[row.view(), column.view()],
            context,
        )
        .unwrap();
        assert_eq!(
            bytemuck::cast_slice::<u8, i32>(buffer.bytes()),
            [0, 1, 2, 0, 3, 4]
        );
    }

    #[test]
    fn the_strict_policy_names_index_and_limit() {
        let options = ExecuteOptions {
            oob_policy: OobPolicy::Strict,
            ..ExecuteOptions::default()
        };
        let context = Context { options: &options };
        let operand = array(&[4], &[0, 1, 2, 3]);
        let start = array(&[], &[i32::MAX]);
        let mut buffer = Buffer::zeroed(8).unwrap();
        let out = ArrayViewMut::new(ElementType::S32, &[2], buffer.bytes_mut()).unwrap();
        let error = dynamic_slice(operand.view(), &[start.view()], out, context).unwrap_err();
        assert!(
            matches!(
                error,
                KernelError::OutOfBounds {
                    index: 0x7fff_ffff,
                    dim: 0,
                    limit: 2
                }
            ),
            "{error}"
        );
    }
}
