//! `dot` with any dimension numbers, as a batch of matrix products.

use std::borrow::Cow;

use half::bf16;

use super::Context;
use super::gemm::{Matrix, Multiply};
use super::movement::strided_copy;
use super::walk::{for_each, index, signed, strides};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::DotDims;
use crate::element::{ElementClass, ElementType, with_element};
use crate::error::KernelError;
use crate::numerics::{NarrowFloat, Numeric, map};
use crate::options::DotRounding;

/// The type in which products of the two operands are summed for a result of the third type: `f32` for narrow floats, the
/// result's type for integers.
pub(super) fn accumulator(lhs: ElementType, rhs: ElementType, out: ElementType) -> ElementType {
    let any = |element| lhs == element || rhs == element || out == element;
    if any(ElementType::C128) || (any(ElementType::C64) && any(ElementType::F64)) {
        ElementType::C128
    } else if any(ElementType::C64) {
        ElementType::C64
    } else if any(ElementType::F64) {
        ElementType::F64
    } else if [lhs, rhs, out]
        .iter()
        .any(|element| element.class() == ElementClass::Float)
    {
        ElementType::F32
    } else {
        out
    }
}

/// The elements in type `C`, rounded to `bf16` on the way if the options say so.
pub(super) fn load_as<'a, C: Numeric>(
    view: ArrayView<'a>,
    context: Context<'_>,
) -> Result<Cow<'a, [C]>, KernelError> {
    let round =
        context.options.dot_rounding == DotRounding::Bf16 && view.element() == ElementType::F32;
    if round {
        let mut values = vec![C::from_f64(0.0); view.element_count()];
        map(view.values::<f32>()?, &mut values, |value| {
            C::from_f64(f64::from(<bf16 as NarrowFloat>::from_f32(value).to_f32()))
        });
        return Ok(Cow::Owned(values));
    }
    if C::TYPE == view.element() {
        return Ok(Cow::Borrowed(view.values()?));
    }
    let mut values = vec![C::from_f64(0.0); view.element_count()];
    with_element!(view.element(), T => {
        let source = view.values::<T>()?;
        match view.element().class() {
            ElementClass::Float => map(source, &mut values, |value| C::from_f64(value.to_f64())),
            ElementClass::Signed => map(source, &mut values, |value| C::from_i64(value.to_i64())),
            ElementClass::Complex => map(source, &mut values, |value| C::from_complex(value.to_complex())),
            ElementClass::Pred | ElementClass::Unsigned => {
                map(source, &mut values, |value| C::from_u64(value.to_u64()));
            }
        }
    });
    Ok(Cow::Owned(values))
}

/// Rounds sums into the result.
pub(super) fn store_from<C: Numeric>(
    sums: &[C],
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    with_element!(out.element(), T => {
        let target = out.values_mut::<T>()?;
        match C::TYPE.class() {
            ElementClass::Float => map(sums, target, |value| T::from_f64(value.to_f64())),
            ElementClass::Signed => map(sums, target, |value| T::from_i64(value.to_i64())),
            ElementClass::Complex => map(sums, target, |value| T::from_complex(value.to_complex())),
            ElementClass::Pred | ElementClass::Unsigned => {
                map(sums, target, |value| T::from_u64(value.to_u64()));
            }
        }
    });
    Ok(())
}

/// One operand as a batch of matrices: outer dimension (rows or columns of the result) and contracted dimension.
struct Operand<'a, C: Clone> {
    values: Cow<'a, [C]>,
    batch_strides: Vec<isize>,
    outer: usize,
    inner: usize,
}

impl<'a, C: Numeric> Operand<'a, C> {
    /// Views the operand with one stride for all free and one for all contracted dimensions; copies it if there are none.
    fn new(
        values: Cow<'a, [C]>,
        dims: &[usize],
        batch: &[usize],
        free: &[usize],
        contracting: &[usize],
    ) -> Self {
        let given = strides(dims);
        if let (Some(outer), Some(inner)) = (
            common_stride(dims, &given, free),
            common_stride(dims, &given, contracting),
        ) {
            let batch_strides = batch.iter().map(|&dim| signed(given[dim])).collect();
            return Self {
                values,
                batch_strides,
                outer,
                inner,
            };
        }
        let order: Vec<usize> = [batch, free, contracting].concat();
        let sizes: Vec<usize> = order.iter().map(|&dim| dims[dim]).collect();
        let steps: Vec<isize> = order.iter().map(|&dim| signed(given[dim])).collect();
        let mut copy = vec![C::from_f64(0.0); values.len()];
        strided_copy(&values, 0, &sizes, &steps, &mut copy);
        let inner: usize = contracting.iter().map(|&dim| dims[dim]).product();
        let batch_strides = strides(&sizes)[..batch.len()]
            .iter()
            .copied()
            .map(signed)
            .collect();
        Self {
            values: Cow::Owned(copy),
            batch_strides,
            outer: inner,
            inner: 1,
        }
    }
}

/// The stride of the dimensions taken together in the given order, if they have one.
fn common_stride(dims: &[usize], strides: &[usize], group: &[usize]) -> Option<usize> {
    let mut common: Option<(usize, usize)> = None;
    for &dim in group.iter().rev().filter(|&&dim| dims[dim] != 1) {
        match &mut common {
            None => common = Some((strides[dim], dims[dim])),
            Some((stride, size)) if strides[dim] == *stride * *size => *size *= dims[dim],
            Some(_) => return None,
        }
    }
    Some(common.map_or(1, |(stride, _)| stride))
}

/// `dot`: see [`DotDims`] for the order of the result's dimensions.
///
/// Narrow floats are widened to `f32`, summed in `f32` and rounded once; integers are summed in the result's type, which
/// wraps.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn dot(
    lhs: ArrayView<'_>,
    rhs: ArrayView<'_>,
    dims: &DotDims,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    use crate::element::{Pred, S4, U4};
    use num_complex::Complex;

    match accumulator(lhs.element(), rhs.element(), out.element()) {
        ElementType::F32 => dot_in::<f32>(lhs, rhs, dims, out, context),
        ElementType::F64 => dot_in::<f64>(lhs, rhs, dims, out, context),
        ElementType::C64 => dot_in::<Complex<f32>>(lhs, rhs, dims, out, context),
        ElementType::C128 => dot_in::<Complex<f64>>(lhs, rhs, dims, out, context),
        ElementType::S4 => dot_in::<S4>(lhs, rhs, dims, out, context),
        ElementType::S8 => dot_in::<i8>(lhs, rhs, dims, out, context),
        ElementType::S16 => dot_in::<i16>(lhs, rhs, dims, out, context),
        ElementType::S32 => dot_in::<i32>(lhs, rhs, dims, out, context),
        ElementType::S64 => dot_in::<i64>(lhs, rhs, dims, out, context),
        ElementType::U4 => dot_in::<U4>(lhs, rhs, dims, out, context),
        ElementType::U8 => dot_in::<u8>(lhs, rhs, dims, out, context),
        ElementType::U16 => dot_in::<u16>(lhs, rhs, dims, out, context),
        ElementType::U32 => dot_in::<u32>(lhs, rhs, dims, out, context),
        ElementType::U64 => dot_in::<u64>(lhs, rhs, dims, out, context),
        _ => dot_in::<Pred>(lhs, rhs, dims, out, context),
    }
}

fn dot_in<C: Multiply>(
    lhs: ArrayView<'_>,
    rhs: ArrayView<'_>,
    dims: &DotDims,
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let free = |rank: usize, batch: &[usize], contracting: &[usize]| -> Vec<usize> {
        (0..rank)
            .filter(|dim| !batch.contains(dim) && !contracting.contains(dim))
            .collect()
    };
    let lhs_free = free(lhs.dims().len(), &dims.lhs_batch, &dims.lhs_contracting);
    let rhs_free = free(rhs.dims().len(), &dims.rhs_batch, &dims.rhs_contracting);
    let product = |dims: &[usize], of: &[usize]| of.iter().map(|&dim| dims[dim]).product::<usize>();
    let m = product(lhs.dims(), &lhs_free);
    let n = product(rhs.dims(), &rhs_free);
    let k = product(lhs.dims(), &dims.lhs_contracting);
    if out.element_count() == 0 {
        return Ok(());
    }
    let left = Operand::new(
        load_as::<C>(lhs, context)?,
        lhs.dims(),
        &dims.lhs_batch,
        &lhs_free,
        &dims.lhs_contracting,
    );
    let right = Operand::new(
        load_as::<C>(rhs, context)?,
        rhs.dims(),
        &dims.rhs_batch,
        &rhs_free,
        &dims.rhs_contracting,
    );
    let batch: Vec<usize> = dims.lhs_batch.iter().map(|&dim| lhs.dims()[dim]).collect();
    let out_strides: Vec<isize> = strides(&batch)
        .into_iter()
        .map(|stride| signed(stride * m * n))
        .collect();
    let fill = |target: &mut [C]| {
        for_each(
            &batch,
            [&left.batch_strides, &right.batch_strides, &out_strides],
            [0, 0, 0],
            |[left_start, right_start, out_start]| {
                C::multiply_matrices(
                    [m, k, n],
                    (
                        &left.values,
                        Matrix {
                            start: index(left_start),
                            row: left.outer,
                            column: left.inner,
                        },
                    ),
                    (
                        &right.values,
                        Matrix {
                            start: index(right_start),
                            row: right.inner,
                            column: right.outer,
                        },
                    ),
                    (
                        &mut *target,
                        Matrix {
                            start: index(out_start),
                            row: n,
                            column: 1,
                        },
                    ),
                );
            },
        );
    };
    if C::TYPE == out.element() {
        fill(out.values_mut::<C>()?);
        return Ok(());
    }
    let mut sums = vec![C::ZERO; out.element_count()];
    fill(&mut sums);
    store_from(&sums, out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::element::Element;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    fn matrices() -> DotDims {
        DotDims {
            lhs_contracting: vec![1],
            rhs_contracting: vec![0],
            ..DotDims::default()
        }
    }

    fn product<A: Element, B: Element, R: Element>(
        left: (&[usize], &[A]),
        right: (&[usize], &[B]),
        dims: &DotDims,
        out: &[usize],
    ) -> Vec<R> {
        let options = ExecuteOptions::default();
        let (left, right) = (array(left.0, left.1), array(right.0, right.1));
        run(out, |out| {
            dot(
                left.view(),
                right.view(),
                dims,
                out,
                Context { options: &options },
            )
        })
    }

    #[test]
    fn a_zero_contraction_gives_zeros() {
        let got: Vec<f32> =
            product::<f32, f32, _>((&[2, 0], &[]), (&[0, 2], &[]), &matrices(), &[2, 2]);
        assert_eq!(got, [0.0; 4]);
    }

    #[test]
    fn narrow_floats_accumulate_wide_and_round_once() {
        let ones = [bf16::ONE; 257];
        let mut small = [bf16::from_f32(1.0 / 512.0); 257];
        small[0] = bf16::ONE;
        let got: Vec<bf16> = product(
            (&[1, 257], &ones),
            (&[257, 1], &small),
            &matrices(),
            &[1, 1],
        );
        assert_eq!(got, [bf16::from_f32(1.5)]);
    }

    #[test]
    fn integers_wrap_in_the_result_type() {
        let (left, right) = ([100_i8, 100], [100_i8, 100]);
        let got: Vec<i8> = product((&[1, 2], &left), (&[2, 1], &right), &matrices(), &[1, 1]);
        assert_eq!(got, [32]);
        let got: Vec<i32> = product((&[1, 2], &left), (&[2, 1], &right), &matrices(), &[1, 1]);
        assert_eq!(got, [20_000]);
    }

    #[test]
    fn operands_are_rounded_to_bf16_on_request() {
        let options = ExecuteOptions {
            dot_rounding: DotRounding::Bf16,
            ..ExecuteOptions::default()
        };
        let (left, right) = (array(&[1, 1], &[1.003_f32]), array(&[1, 1], &[1.0_f32]));
        let got: Vec<f32> = run(&[1, 1], |out| {
            dot(
                left.view(),
                right.view(),
                &matrices(),
                out,
                Context { options: &options },
            )
        });
        assert_eq!(got, [1.0]);
    }

    /// Every dimension has a role: 0 batch, 1 left free, 2 right free, 3 contracted.
    fn reference(
        roles: &[(u8, usize)],
        left: &[i32],
        right: &[i32],
        orders: [&[usize]; 2],
    ) -> Vec<i32> {
        let size = |role: u8| -> Vec<usize> {
            (0..roles.len())
                .filter(|&dim| roles[dim].0 == role)
                .collect()
        };
        let order = [size(0), size(1), size(2), size(3)].concat();
        let sizes: Vec<usize> = order.iter().map(|&dim| roles[dim].1).collect();
        let place = |dims: &[usize]| -> Vec<isize> {
            let strides = strides(&dims.iter().map(|&dim| roles[dim].1).collect::<Vec<_>>());
            order
                .iter()
                .map(|dim| {
                    dims.iter()
                        .position(|other| other == dim)
                        .map_or(0, |at| signed(strides[at]))
                })
                .collect()
        };
        let kept: usize = order
            .iter()
            .filter(|&&dim| roles[dim].0 != 3)
            .map(|&dim| roles[dim].1)
            .product();
        let inner: usize = sizes.iter().product::<usize>() / kept.max(1);
        let mut out = vec![0_i32; kept];
        let mut count = 0;
        for_each(
            &sizes,
            [&place(orders[0]), &place(orders[1])],
            [0, 0],
            |[l, r]| {
                out[count / inner] += left[index(l)] * right[index(r)];
                count += 1;
            },
        );
        out
    }

    proptest! {
        #[test]
        fn any_dimension_numbers_match_a_plain_sum(
            roles in prop::collection::vec((0_u8..4, 1_usize..4), 0..6),
            seed in any::<u64>(),
        ) {
            let shuffled = |skip: u8, salt: u32| -> Vec<usize> {
                let mut dims: Vec<usize> = (0..roles.len()).filter(|&dim| roles[dim].0 != skip).collect();
                dims.sort_by_key(|&dim| seed.rotate_left(salt + 11 * u32::try_from(dim).unwrap()) % 101);
                dims
            };
            let orders = [shuffled(2, 0), shuffled(1, 17)];
            // Free dimensions appear in the result in the order of their operand.
            let position = |side: usize, role: u8| -> Vec<usize> {
                orders[side].iter().copied().filter(|&dim| roles[dim].0 == role).collect()
            };
            let relabelled: Vec<usize> = [position(0, 0), position(0, 1), position(1, 2), position(0, 3)].concat();
            let roles: Vec<(u8, usize)> = relabelled.iter().map(|&dim| roles[dim]).collect();
            let orders = orders.map(|order| -> Vec<usize> {
                order.iter().map(|dim| relabelled.iter().position(|other| other == dim).unwrap()).collect()
            });
            let at = |side: usize, role: u8| -> Vec<usize> {
                (0..roles.len()).filter(|&dim| roles[dim].0 == role)
                    .map(|dim| orders[side].iter().position(|&other| other == dim).unwrap())
                    .collect()
            };
            let dims = DotDims {
                lhs_batch: at(0, 0),
                rhs_batch: at(1, 0),
                lhs_contracting: at(0, 3),
                rhs_contracting: at(1, 3),
            };
            let sizes = |side: usize| -> Vec<usize> { orders[side].iter().map(|&dim| roles[dim].1).collect() };
            let values = |side: usize| -> Vec<i32> {
                (1..).map(|value: i32| value * 7 % 23 - 11).take(sizes(side).iter().product()).collect()
            };
            let out: Vec<usize> = roles.iter().filter(|role| role.0 != 3).map(|role| role.1).collect();
            let want = reference(&roles, &values(0), &values(1), [&orders[0], &orders[1]]);
            let got: Vec<i32> = product((&sizes(0), &values(0)), (&sizes(1), &values(1)), &dims, &out);
            prop_assert_eq!(&got, &want);
            let float = |values: Vec<i32>| -> Vec<f32> { values.into_iter().map(|value| value as f32).collect() };
            let got: Vec<f32> = product((&sizes(0), &float(values(0))), (&sizes(1), &float(values(1))), &dims, &out);
            prop_assert_eq!(got, float(want));
        }
    }
}
