//! `batch-norm-*`, `cholesky`, `triangular-solve`, `fft` and complex numbers.

use metaneff_schema::xla::triangular_solve_options::Transpose;
use metaneff_schema::xla::{CholeskyOptions, FftType, PrimitiveType, TriangularSolveOptions};
use num_complex::Complex64;

use crate::build::{array, of, tuple, with};
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, execute_bytes, i64s, indices};

use PrimitiveType::{C64, C128, F32, F64, Pred};

/// Numbers that are no multiples of one another.
fn numbers(draw: &mut Draw, count: usize) -> Vec<f64> {
    (0..count)
        .map(|_| draw.within(-40, 40) as f64 / 16.0 + draw.below(3) as f64 / 7.0)
        .collect()
}

#[test]
fn normalised_batches_agree() {
    check(250, |draw| {
        let element = draw.pick(&[F32, F64]);
        let rank = draw.size(1, 4);
        let dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 4)).collect();
        let feature = draw.below(rank);
        let features = dims[feature];
        let epsilon = 0.125_f64;
        let tensor = |draw: &mut Draw, dims: &[usize]| {
            Tensor::new(element, dims, numbers(draw, count(dims)))
        };
        let operand = tensor(draw, &dims);
        let [scale, offset, mean] = [(); 3].map(|()| tensor(draw, &[features]));
        let variance = Tensor::build(element, &[features], |_| draw.size(1, 9) as f64 / 4.0);
        let gradient = tensor(draw, &dims);
        let per_feature = |value: &dyn Fn(usize, &[usize]) -> f64| -> Vec<f64> {
            let mut sums = vec![0.0; features];
            for (flat, index) in indices(&dims).iter().enumerate() {
                sums[index[feature]] += value(flat, index);
            }
            sums
        };
        let size = (operand.values.len() / features) as f64;
        let means: Vec<f64> = per_feature(&|flat, _| operand.values[flat])
            .into_iter()
            .map(|sum| sum / size)
            .collect();
        let variances: Vec<f64> =
            per_feature(&|flat, index| (operand.values[flat] - means[index[feature]]).powi(2))
                .into_iter()
                .map(|sum| sum / size)
                .collect();
        let normalised = |mean: &[f64], variance: &[f64]| {
            Tensor::build(element, &dims, |index| {
                let channel = index[feature];
                let centred = operand.at(&index) - mean[channel];
                centred / (variance[channel] + epsilon).sqrt() * scale.values[channel]
                    + offset.values[channel]
            })
        };
        let attributes = |op: &mut metaneff_schema::xla::HloInstructionProto| {
            op.epsilon = epsilon as f32;
            op.feature_index = feature as i64;
        };

        let inputs = [&operand, &scale, &offset, &mean, &variance];
        let shapes = inputs.map(Tensor::shape);
        let proto = with("batch-norm-inference", &shapes, operand.shape(), attributes);
        let expected = normalised(&mean.values, &variance.values);
        agrees(&proto, &inputs, &[expected], 2e-5)?;

        let results = tuple(&[operand.shape(), scale.shape(), scale.shape()]);
        let proto = with(
            "batch-norm-training",
            &shapes[..3],
            results.clone(),
            attributes,
        );
        let expected = [
            normalised(&means, &variances),
            Tensor::new(element, &[features], means.clone()),
            Tensor::new(element, &[features], variances.clone()),
        ];
        agrees(&proto, &inputs[..3], &expected, 2e-5)?;

        // The gradients of scale and offset are sums; that of the operand is
        // the derivative of the normalisation with both statistics its own.
        let root = |channel: usize| (variance.values[channel] + epsilon).sqrt();
        let offset_gradient = per_feature(&|flat, _| gradient.values[flat]);
        let scale_gradient = per_feature(&|flat, index| {
            let channel = index[feature];
            gradient.values[flat] * (operand.values[flat] - mean.values[channel]) / root(channel)
        });
        let operand_gradient = Tensor::build(element, &dims, |index| {
            let channel = index[feature];
            let centred = (operand.at(&index) - mean.values[channel]) / root(channel);
            scale.values[channel] / root(channel) / size
                * (size * gradient.at(&index)
                    - offset_gradient[channel]
                    - centred * scale_gradient[channel])
        });
        let inputs = [&operand, &scale, &mean, &variance, &gradient];
        let proto = with(
            "batch-norm-grad",
            &inputs.map(Tensor::shape),
            results,
            attributes,
        );
        let expected = [
            operand_gradient,
            Tensor::new(element, &[features], scale_gradient),
            Tensor::new(element, &[features], offset_gradient),
        ];
        agrees(&proto, &inputs, &expected, 5e-5)
    });
}

/// Complex numbers of either width, as what is computed with.
fn complex_bytes(element: PrimitiveType, values: &[Complex64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|z| match element {
            F32 => (z.re as f32).to_le_bytes().to_vec(),
            F64 => z.re.to_le_bytes().to_vec(),
            C64 => [(z.re as f32).to_le_bytes(), (z.im as f32).to_le_bytes()].concat(),
            _ => [z.re.to_le_bytes(), z.im.to_le_bytes()].concat(),
        })
        .collect()
}

fn complex_values(element: PrimitiveType, bytes: &[u8]) -> Vec<Complex64> {
    let word = |bytes: &[u8]| match element {
        F32 | C64 => f64::from(f32::from_le_bytes(bytes.try_into().expect("four bytes"))),
        _ => f64::from_le_bytes(bytes.try_into().expect("eight bytes")),
    };
    match element {
        F32 => bytes.chunks(4).map(|x| word(x).into()).collect(),
        F64 => bytes.chunks(8).map(|x| word(x).into()).collect(),
        C64 => bytes
            .chunks(8)
            .map(|z| Complex64::new(word(&z[..4]), word(&z[4..])))
            .collect(),
        _ => bytes
            .chunks(16)
            .map(|z| Complex64::new(word(&z[..8]), word(&z[8..])))
            .collect(),
    }
}

/// Numbers as the type holds them.
fn held(element: PrimitiveType, values: Vec<Complex64>) -> Vec<Complex64> {
    complex_values(element, &complex_bytes(element, &values))
}

fn near(expected: &[Complex64], found: &[Complex64], tolerance: f64) -> Result<(), String> {
    let largest = expected.iter().map(|z| z.norm()).fold(1.0, f64::max);
    for (place, (x, y)) in expected.iter().zip(found).enumerate() {
        let (same, distance) = (x == y, (x - y).norm());
        if !same && distance.partial_cmp(&(tolerance * largest)) != Some(std::cmp::Ordering::Less) {
            return Err(format!("element {place} is {y}, the reference has {x}"));
        }
    }
    if expected.len() != found.len() {
        return Err(format!("{} elements", found.len()));
    }
    Ok(())
}

fn number_of(draw: &mut Draw, element: PrimitiveType) -> Complex64 {
    let [re, im] = [(); 2].map(|()| numbers(draw, 1)[0]);
    Complex64::new(
        re,
        if matches!(element, C64 | C128) {
            im
        } else {
            0.0
        },
    )
}

fn tolerance(element: PrimitiveType) -> f64 {
    if matches!(element, F32 | C64) {
        1e-4
    } else {
        1e-10
    }
}

/// Batches of square matrices.
fn matrices(draw: &mut Draw, element: PrimitiveType, batch: usize, n: usize) -> Vec<Complex64> {
    let values = (0..batch * n * n)
        .map(|flat| {
            let diagonal = flat / n % n == flat % n;
            number_of(draw, element) / 4.0 + if diagonal { 3.0 * n as f64 } else { 0.0 }
        })
        .collect();
    held(element, values)
}

#[test]
fn cholesky_factors_give_the_matrix() {
    check(150, |draw| {
        let element = draw.pick(&[F32, F64, C64, C128]);
        let (batch, n) = (draw.size(1, 2), draw.size(1, 6));
        let lower = draw.flag();
        let root = matrices(draw, element, batch, n);
        // Hermitian and positive definite.
        let at = |m: &[Complex64], b: usize, i: usize, j: usize| m[(b * n + i) * n + j];
        let mut matrix = Vec::new();
        for b in 0..batch {
            for i in 0..n {
                for j in 0..n {
                    let products = (0..n).map(|k| at(&root, b, i, k) * at(&root, b, j, k).conj());
                    matrix.push(products.sum::<Complex64>());
                }
            }
        }
        let matrix = held(element, matrix);
        let shape = array(element, &[batch as i64, n as i64, n as i64]);
        let proto = with(
            "cholesky",
            std::slice::from_ref(&shape),
            shape.clone(),
            |op| {
                op.cholesky_options = Some(CholeskyOptions { lower });
            },
        );
        let outputs = execute_bytes(&proto, &[complex_bytes(element, &matrix)])?;
        let factor = complex_values(element, outputs[0].bytes());
        let mut product = Vec::new();
        for b in 0..batch {
            for i in 0..n {
                for j in 0..n {
                    let outside = if lower { j > i } else { j < i };
                    if outside && at(&factor, b, i, j) != Complex64::ZERO {
                        return Err(format!("{} beyond the triangle", at(&factor, b, i, j)));
                    }
                    let term = |k: usize| match lower {
                        true => at(&factor, b, i, k) * at(&factor, b, j, k).conj(),
                        false => at(&factor, b, k, i).conj() * at(&factor, b, k, j),
                    };
                    product.push((0..n).map(term).sum());
                }
            }
        }
        near(&matrix, &product, tolerance(element))
    });
}

#[test]
fn triangular_systems_are_solved() {
    check(250, |draw| {
        let element = draw.pick(&[F32, F64, C64, C128]);
        let (batch, n, m) = (draw.size(1, 2), draw.size(1, 6), draw.size(1, 3));
        let options = TriangularSolveOptions {
            left_side: draw.flag(),
            lower: draw.flag(),
            unit_diagonal: draw.flag(),
            transpose_a: draw
                .pick(&[
                    Transpose::NoTranspose,
                    Transpose::Transpose,
                    Transpose::Adjoint,
                ])
                .into(),
        };
        let (rows, columns) = if options.left_side { (n, m) } else { (m, n) };
        let mut a = matrices(draw, element, batch, n);
        if options.unit_diagonal {
            a.iter_mut().for_each(|x| *x /= 4.0 * n as f64);
            a = held(element, a);
        }
        let b = (0..batch * rows * columns)
            .map(|_| number_of(draw, element))
            .collect();
        let b = held(element, b);
        // The triangle that counts, transposed as asked.
        let coefficient = |batch: usize, i: usize, j: usize| {
            let transposed = options.transpose_a() != Transpose::NoTranspose;
            let (i, j) = if transposed { (j, i) } else { (i, j) };
            let value = a[(batch * n + i) * n + j];
            let value = match (i == j, if options.lower { j < i } else { j > i }) {
                (true, _) if options.unit_diagonal => Complex64::ONE,
                (true, _) | (_, true) => value,
                _ => Complex64::ZERO,
            };
            if options.transpose_a() == Transpose::Adjoint {
                value.conj()
            } else {
                value
            }
        };
        let a_shape = array(element, &i64s(&[batch, n, n]));
        let b_shape = array(element, &i64s(&[batch, rows, columns]));
        let proto = with(
            "triangular-solve",
            &[a_shape, b_shape.clone()],
            b_shape,
            |op| op.triangular_solve_options = Some(options),
        );
        let inputs = [complex_bytes(element, &a), complex_bytes(element, &b)];
        let outputs = execute_bytes(&proto, &inputs)?;
        let x = complex_values(element, outputs[0].bytes());
        let mut product = Vec::new();
        for batch in 0..batch {
            for i in 0..rows {
                for j in 0..columns {
                    let at = |i: usize, j: usize| x[(batch * rows + i) * columns + j];
                    let term = |k: usize| match options.left_side {
                        true => coefficient(batch, i, k) * at(k, j),
                        false => at(i, k) * coefficient(batch, k, j),
                    };
                    product.push((0..n).map(term).sum());
                }
            }
        }
        near(&b, &product, tolerance(element))
    });
}

/// The transform of the last dimensions, by its definition.
fn transformed(
    values: &[Complex64],
    dims: &[usize],
    lengths: &[usize],
    sign: f64,
) -> Vec<Complex64> {
    let first = dims.len() - lengths.len();
    indices(dims)
        .iter()
        .map(|to| {
            let mut sum = Complex64::ZERO;
            for from in indices(lengths) {
                let turns: f64 = from
                    .iter()
                    .zip(&to[first..])
                    .zip(lengths)
                    .map(|((&n, &k), &length)| (n * k % length) as f64 / length as f64)
                    .sum();
                let mut at = to[..first].to_vec();
                at.extend(&from);
                sum += values[crate::value::flat(dims, &at)]
                    * Complex64::cis(sign * std::f64::consts::TAU * turns);
            }
            sum
        })
        .collect()
}

#[test]
fn transforms_agree() {
    check(200, |draw| {
        let (real, complex) = draw.pick(&[(F32, C64), (F64, C128)]);
        let rank = draw.size(1, 3);
        let lengths: Vec<usize> = (0..rank).map(|_| draw.size(1, 6)).collect();
        let mut dims = vec![draw.size(1, 2)];
        dims.extend(&lengths);
        let last = dims.len() - 1;
        let mut half = dims.clone();
        half[last] = lengths[rank - 1] / 2 + 1;
        let total = count(&lengths) as f64;
        let kind = draw.pick(&[FftType::Fft, FftType::Ifft, FftType::Rfft, FftType::Irfft]);
        let element = if kind == FftType::Rfft { real } else { complex };
        let values: Vec<Complex64> = (0..count(&dims))
            .map(|_| number_of(draw, element))
            .collect();
        let values = held(element, values);
        let inverse = |values: &[Complex64]| -> Vec<Complex64> {
            transformed(values, &dims, &lengths, 1.0)
                .iter()
                .map(|z| z / total)
                .collect()
        };
        // The half of a spectrum that stands for all of it.
        let kept = |spectrum: &[Complex64]| -> Vec<Complex64> {
            indices(&half)
                .iter()
                .map(|index| spectrum[crate::value::flat(&dims, index)])
                .collect()
        };
        let (input, input_dims, expected, output, output_dims) = match kind {
            FftType::Fft => {
                let expected = transformed(&values, &dims, &lengths, -1.0);
                (values, &dims, expected, complex, &dims)
            }
            FftType::Ifft => {
                let expected = inverse(&values);
                (values, &dims, expected, complex, &dims)
            }
            FftType::Rfft => {
                let expected = kept(&transformed(&values, &dims, &lengths, -1.0));
                (values, &dims, expected, complex, &half)
            }
            FftType::Irfft => {
                // Of the spectrum of real numbers.
                let numbers: Vec<Complex64> = values.iter().map(|z| z.re.into()).collect();
                let spectrum = transformed(&numbers, &dims, &lengths, -1.0);
                (kept(&spectrum), &half, numbers, real, &dims)
            }
        };
        let proto = with(
            "fft",
            &[array(element, &i64s(input_dims))],
            array(output, &i64s(output_dims)),
            |op| {
                op.fft_type = kind.into();
                op.fft_length = i64s(&lengths);
            },
        );
        let outputs = execute_bytes(&proto, &[complex_bytes(element, &input)])?;
        let found = complex_values(output, outputs[0].bytes());
        near(&expected, &found, tolerance(element))
    });
}

type Unary = fn(Complex64) -> Complex64;
type Binary = fn(Complex64, Complex64) -> Complex64;

#[test]
fn complex_numbers_agree() {
    check(400, |draw| {
        let element = draw.pick(&[C64, C128]);
        let part = if element == C64 { F32 } else { F64 };
        let n = draw.size(1, 9);
        let shape = array(element, &[n as i64]);
        let vector =
            |draw: &mut Draw| held(element, (0..n).map(|_| number_of(draw, element)).collect());
        let (x, y) = (vector(draw), vector(draw));
        let unary: &[(&str, Unary)] = &[
            ("negate", |z| -z),
            ("exponential", |z| z.exp()),
            ("exponential-minus-one", |z| z.exp() - 1.0),
            ("log", |z| z.ln()),
            ("log-plus-one", |z| (z + 1.0).ln()),
            ("sqrt", |z| z.sqrt()),
            ("rsqrt", |z| z.sqrt().inv()),
            ("sine", |z| z.sin()),
            ("cosine", |z| z.cos()),
            ("tan", |z| z.tan()),
            ("tanh", |z| z.tanh()),
            ("logistic", |z| ((-z).exp() + 1.0).inv()),
            ("sign", |z| {
                if z == Complex64::ZERO {
                    z
                } else {
                    z / z.norm()
                }
            }),
        ];
        let (opcode, function) = draw.pick(unary);
        let outputs = execute_bytes(
            &of(opcode, std::slice::from_ref(&shape), shape.clone()),
            &[complex_bytes(element, &x)],
        )?;
        // Where a function grows without bound, near a pole or at 0, rounding
        // of the operand alone moves the result.
        let regular: Vec<bool> = x
            .iter()
            .map(|&z| {
                let value = function(z);
                value.is_finite() && value.norm() < 1e3 && (opcode == "negate" || z.norm() > 0.1)
            })
            .collect();
        let chosen = |values: Vec<Complex64>| -> Vec<Complex64> {
            values
                .into_iter()
                .zip(&regular)
                .filter_map(|(z, &regular)| regular.then_some(z))
                .collect()
        };
        let expected = chosen(x.iter().map(|&z| function(z)).collect());
        let found = chosen(complex_values(element, outputs[0].bytes()));
        near(&expected, &found, tolerance(element))
            .map_err(|error| format!("{opcode}: {error}"))?;

        let binary: &[(&str, Binary)] = &[
            ("add", |x, y| x + y),
            ("subtract", |x, y| x - y),
            ("multiply", |x, y| x * y),
            ("divide", |x, y| x / y),
        ];
        let (opcode, function) = draw.pick(binary);
        let both = [shape.clone(), shape.clone()];
        let inputs = [complex_bytes(element, &x), complex_bytes(element, &y)];
        let outputs = execute_bytes(&of(opcode, &both, shape.clone()), &inputs)?;
        let pairs = x.iter().zip(&y).filter(|(_, y)| y.norm() > 0.1);
        let expected: Vec<Complex64> = pairs.map(|(&x, &y)| function(x, y)).collect();
        let found: Vec<Complex64> = complex_values(element, outputs[0].bytes())
            .into_iter()
            .zip(&y)
            .filter_map(|(z, y)| (y.norm() > 0.1).then_some(z))
            .collect();
        near(&expected, &found, tolerance(element))
            .map_err(|error| format!("{opcode}: {error}"))?;

        // Parts, and back.
        let parts = array(part, &[n as i64]);
        for (opcode, of_part) in [
            ("real", (|z| z.re) as fn(&Complex64) -> f64),
            ("imag", |z| z.im),
            ("abs", |z| z.norm()),
        ] {
            let proto = of(opcode, std::slice::from_ref(&shape), parts.clone());
            let outputs = execute_bytes(&proto, &inputs[..1])?;
            let expected: Vec<Complex64> = x.iter().map(|z| of_part(z).into()).collect();
            near(
                &expected,
                &complex_values(part, outputs[0].bytes()),
                tolerance(element),
            )
            .map_err(|error| format!("{opcode}: {error}"))?;
        }
        let proto = of("complex", &[parts.clone(), parts], shape.clone());
        let re: Vec<Complex64> = x.iter().map(|z| z.re.into()).collect();
        let im: Vec<Complex64> = x.iter().map(|z| z.im.into()).collect();
        let outputs = execute_bytes(
            &proto,
            &[complex_bytes(part, &re), complex_bytes(part, &im)],
        )?;
        near(&x, &complex_values(element, outputs[0].bytes()), 0.0)?;
        let proto = with("compare", &both, array(Pred, &[n as i64]), |op| {
            op.comparison_direction = "NE".into();
        });
        let outputs = execute_bytes(&proto, &inputs)?;
        let expected: Vec<u8> = x.iter().zip(&y).map(|(x, y)| u8::from(x != y)).collect();
        if outputs[0].bytes() != expected {
            return Err(format!("{:?} differ, not {expected:?}", outputs[0].bytes()));
        }
        Ok(())
    });
}
