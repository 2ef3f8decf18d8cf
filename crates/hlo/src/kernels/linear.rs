//! `cholesky` and `triangular-solve`, evaluated in `f64`.

use std::ops::{Div, Mul, Sub};

use num_complex::Complex;

use super::Context;
use super::dot::{load_as, store_from};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{MatrixTranspose, TriangularSolve};
use crate::error::KernelError;
use crate::numerics::Numeric;

/// Real or complex numbers.
trait Field: Numeric + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> {
    fn conjugate(self) -> Self;
    /// Square root of the real part.
    fn root(self) -> Self;
    fn real(value: f64) -> Self {
        Self::from_f64(value)
    }
}

impl Field for f64 {
    fn conjugate(self) -> Self {
        self
    }

    fn root(self) -> Self {
        self.sqrt()
    }
}

impl Field for Complex<f64> {
    fn conjugate(self) -> Self {
        self.conj()
    }

    fn root(self) -> Self {
        Self::new(self.re.sqrt(), 0.0)
    }
}

/// `cholesky` of the last two dimensions; the other triangle of the result is 0.
///
/// Only the triangle that `lower` names is read. A matrix that is not positive definite gives NaN everywhere.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn cholesky(
    operand: ArrayView<'_>,
    lower: bool,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if operand.element().is_complex() {
        factorise::<Complex<f64>>(operand, lower, out, context)
    } else {
        factorise::<f64>(operand, lower, out, context)
    }
}

fn factorise<F: Field>(
    operand: ArrayView<'_>,
    lower: bool,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let Some(&size) = operand.dims().last().filter(|&&size| size > 0) else {
        return Ok(());
    };
    let values = load_as::<F>(operand, context)?;
    let mut result = vec![F::real(0.0); values.len()];
    for (a, l) in values
        .chunks(size * size)
        .zip(result.chunks_mut(size * size))
    {
        // The factor is built as a lower triangle; an upper one is its adjoint.
        let place = |row: usize, column: usize| {
            if lower {
                row * size + column
            } else {
                column * size + row
            }
        };
        let turn = |value: F| if lower { value } else { value.conjugate() };
        for column in 0..size {
            for row in column..size {
                let mut sum = turn(a[place(row, column)]);
                for inner in 0..column {
                    sum = sum
                        - turn(l[place(row, inner)]) * turn(l[place(column, inner)]).conjugate();
                }
                let value = if row == column {
                    sum.root()
                } else {
                    sum / turn(l[place(column, column)])
                };
                l[place(row, column)] = turn(value);
            }
        }
        let definite = |diagonal: usize| l[diagonal * size + diagonal].to_f64() > 0.0;
        if !(0..size).all(definite) {
            l.fill(F::real(f64::NAN));
        }
    }
    store_from(&result, out)
}

/// `triangular-solve` of the last two dimensions.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn triangular_solve(
    a: ArrayView<'_>,
    b: ArrayView<'_>,
    options: &TriangularSolve,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if a.element().is_complex() {
        solve::<Complex<f64>>(a, b, options, out, context)
    } else {
        solve::<f64>(a, b, options, out, context)
    }
}

fn solve<F: Field>(
    a: ArrayView<'_>,
    b: ArrayView<'_>,
    options: &TriangularSolve,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let (Some(&size), [.., rows, columns]) = (a.dims().last(), b.dims()) else {
        return Ok(());
    };
    let (rows, columns) = (*rows, *columns);
    if size == 0 || rows * columns == 0 {
        return Ok(());
    }
    let (triangles, mut result) = (
        load_as::<F>(a, context)?,
        load_as::<F>(b, context)?.into_owned(),
    );
    for (triangle, x) in triangles
        .chunks(size * size)
        .zip(result.chunks_mut(rows * columns))
    {
        // Solving from the right is solving the transposed system from the left.
        let swap = (options.transpose == MatrixTranspose::None) != options.left_side;
        let forwards = options.lower != swap;
        let element = |row: usize, column: usize| {
            let value = triangle[if swap {
                column * size + row
            } else {
                row * size + column
            }];
            if options.transpose == MatrixTranspose::Adjoint {
                value.conjugate()
            } else {
                value
            }
        };
        let place = |row: usize, side: usize| {
            if options.left_side {
                row * columns + side
            } else {
                side * columns + row
            }
        };
        let sides = if options.left_side { columns } else { rows };
        for step in 0..size {
            let row = if forwards { step } else { size - 1 - step };
            let known = if forwards { 0..row } else { row + 1..size };
            for side in 0..sides {
                let mut sum = x[place(row, side)];
                for column in known.clone() {
                    sum = sum - element(row, column) * x[place(column, side)];
                }
                x[place(row, side)] = if options.unit_diagonal {
                    sum
                } else {
                    sum / element(row, row)
                };
            }
        }
    }
    store_from(&result, out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::element::Element;
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    fn factor<T: Element>(size: usize, values: &[T], lower: bool) -> Vec<T> {
        let options = ExecuteOptions::default();
        let operand = array(&[size, size], values);
        run(&[size, size], |out| {
            cholesky(operand.view(), lower, out, Context { options: &options })
        })
    }

    #[test]
    fn factors_multiply_to_the_matrix() {
        let a = [4.0, 2.0, 1.0, 2.0, 5.0, 3.0, 1.0, 3.0, 6.0_f64];
        let (l, u) = (factor(3, &a, true), factor(3, &a, false));
        for row in 0..3 {
            for column in 0..3 {
                let lower: f64 = (0..3).map(|k| l[row * 3 + k] * l[column * 3 + k]).sum();
                let upper: f64 = (0..3).map(|k| u[k * 3 + row] * u[k * 3 + column]).sum();
                assert!((lower - a[row * 3 + column]).abs() < 1e-14);
                assert!((upper - a[row * 3 + column]).abs() < 1e-14);
            }
        }
        assert_eq!((l[1], u[3]), (0.0, 0.0));
        let i = Complex::<f64>::i();
        let hermitian = [Complex::from(4.0), -2.0 * i, 2.0 * i, Complex::from(5.0)];
        assert_eq!(
            factor(2, &hermitian, true),
            [
                Complex::from(2.0),
                Complex::from(0.0),
                i,
                Complex::from(2.0)
            ]
        );
        assert_eq!(
            factor(2, &hermitian, false),
            [
                Complex::from(2.0),
                -i,
                Complex::from(0.0),
                Complex::from(2.0)
            ]
        );
    }

    #[test]
    fn an_indefinite_matrix_gives_nan() {
        assert!(
            factor(2, &[1.0_f32, 2.0, 2.0, 1.0], true)
                .iter()
                .all(|value| value.is_nan())
        );
        assert!(
            factor(2, &[4.0_f32, 2.0, 2.0, 1.0], false)
                .iter()
                .all(|value| value.is_nan())
        );
    }

    proptest! {
        #[test]
        fn solutions_solve(
            size in 1_usize..5, other in 1_usize..4,
            (left_side, lower, unit_diagonal) in any::<(bool, bool, bool)>(),
            transpose in prop_oneof![
                Just(MatrixTranspose::None), Just(MatrixTranspose::Transpose), Just(MatrixTranspose::Adjoint)
            ],
        ) {
            let options = TriangularSolve { left_side, lower, unit_diagonal, transpose };
            let number = |index: usize| Complex::new((index as f64).sin(), (index as f64 * 1.3).cos());
            let a: Vec<Complex<f64>> = (0..size * size).map(|index| number(index) + 2.0).collect();
            let dims = if left_side { [size, other] } else { [other, size] };
            let b: Vec<Complex<f64>> = (0..size * other).map(|index| number(index + 50)).collect();
            let execute = ExecuteOptions::default();
            let (matrix, sides) = (array(&[size, size], &a), array(&dims, &b));
            let x: Vec<Complex<f64>> = run(&dims, |out| {
                triangular_solve(matrix.view(), sides.view(), &options, out, Context { options: &execute })
            });
            let triangle = |row: usize, column: usize| {
                let inside = if lower { column <= row } else { column >= row };
                match () {
                    () if row == column && unit_diagonal => Complex::new(1.0, 0.0),
                    () if inside => a[row * size + column],
                    () => Complex::new(0.0, 0.0),
                }
            };
            let op = |row: usize, column: usize| match transpose {
                MatrixTranspose::None => triangle(row, column),
                MatrixTranspose::Transpose => triangle(column, row),
                MatrixTranspose::Adjoint => triangle(column, row).conj(),
            };
            for row in 0..dims[0] {
                for column in 0..dims[1] {
                    let product: Complex<f64> = (0..size)
                        .map(|k| if left_side { op(row, k) * x[k * dims[1] + column] } else { x[row * size + k] * op(k, column) })
                        .sum();
                    let scale: f64 = x.iter().map(|value| value.norm()).sum::<f64>() + 1.0;
                    prop_assert!((product - b[row * dims[1] + column]).norm() < 1e-12 * scale);
                }
            }
        }
    }
}
