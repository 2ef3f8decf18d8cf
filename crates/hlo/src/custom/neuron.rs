//! Targets that Neuron's front ends emit.

use crate::array::{ArrayView, ArrayViewMut, Buffer};
use crate::element::{ElementType, with_element};
use crate::kernels::{Context, top_k};
use crate::numerics::{Numeric, RealMath, convert};
use crate::options::ExecuteOptions;

use super::resize::{Kernel, resize, resize_gradient};
use super::{Call, CustomCallError, CustomCalls};

pub(super) type Done = Result<(), CustomCallError>;
pub(super) type Outs<'o, 'v> = &'o mut [ArrayViewMut<'v>];

/// Targets that give their operands back: hints to the compiler.
const IDENTITIES: [&str; 10] = [
    "AwsNeuronTransferWithStaticRing",
    "AwsNeuronLNCShardingConstraint",
    "AwsNeuronModuleMarkerStart-Forward",
    "AwsNeuronModuleMarkerStart-Backward",
    "AwsNeuronModuleMarkerEnd-Forward",
    "AwsNeuronModuleMarkerEnd-Backward",
    "NeuronBoundaryMarker-Start",
    "NeuronBoundaryMarker-End",
    "Sharding",
    "TorchNeuronStartBackward",
];

pub(super) fn register(targets: &mut CustomCalls) {
    for name in IDENTITIES {
        targets.register(name, identity);
    }
    let kernels = [("Nearest", Kernel::Nearest), ("Bilinear", Kernel::Bilinear)];
    for (name, kernel) in kernels {
        targets.register(format!("Resize{name}"), move |call, outs| {
            resize(call, outs, kernel)
        });
        targets.register(format!("Resize{name}Grad"), move |call, outs| {
            resize_gradient(call, outs, kernel)
        });
    }
    targets.register("AwsNeuronTopK", neuron_top_k);
    targets.register("AwsNeuronArgMax", |call, outs| {
        extremum(call, outs, |x, best| x > best)
    });
    targets.register("AwsNeuronArgMin", |call, outs| {
        extremum(call, outs, |x, best| x < best)
    });
    targets.register("AwsNeuronSoftmax", softmax);
    targets.register("AwsNeuronSoftmaxBackward", softmax_backward);
    targets.register("AwsNeuronRmsNorm", rms_norm);
    targets.register("AwsNeuronGelu", |call, outs| unary(call, outs, gelu));
    targets.register("AwsNeuronGeluApprxTanh", |call, outs| {
        unary(call, outs, gelu_tanh)
    });
    targets.register("AwsNeuronSilu", |call, outs| {
        unary(call, outs, |x| x * x.logistic())
    });
    targets.register("AwsNeuronErf", |call, outs| {
        unary(call, outs, RealMath::erf)
    });
    targets.register("AwsNeuronGeluBackward", |call, outs| {
        backward(call, outs, gelu_slope)
    });
    targets.register("AwsNeuronSiluBackward", |call, outs| {
        backward(call, outs, |x| {
            let logistic = x.logistic();
            logistic * (1.0 + x * (1.0 - logistic))
        })
    });
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + RealMath::erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + RealMath::tanh(inner))
}

fn gelu_slope(x: f64) -> f64 {
    let density = RealMath::exp(-0.5 * x * x) / std::f64::consts::TAU.sqrt();
    0.5 * (1.0 + RealMath::erf(x * std::f64::consts::FRAC_1_SQRT_2)) + x * density
}

fn identity(call: Call<'_>, outs: Outs<'_, '_>) -> Done {
    counts(call, call.operands.len(), outs.len())?;
    for (index, out) in outs.iter_mut().enumerate() {
        same_shape(call, call.operands[index], out)?;
        out.bytes_mut()
            .copy_from_slice(call.operands[index].bytes());
    }
    Ok(())
}

fn neuron_top_k(call: Call<'_>, outs: Outs<'_, '_>) -> Done {
    let [operand] = call.operands else {
        return Err(operands(call, 1));
    };
    let k = number(call, "k")?;
    let Some((&last, outer)) = operand.dims().split_last() else {
        return Err(call.mismatch("rank", "1 or more", 0));
    };
    if k > last {
        return Err(call.mismatch("k", format_args!("at most {last}"), k));
    }
    let [values, indices] = outs else {
        return Err(results(call, 2, outs.len()));
    };
    for dims in [values.dims(), indices.dims()] {
        if dims.split_last() != Some((&k, outer)) {
            return Err(call.mismatch(
                "result",
                format_args!("{k} in the last dimension"),
                format_args!("{dims:?}"),
            ));
        }
    }
    if !matches!(indices.element(), ElementType::U32 | ElementType::S32) {
        return Err(call.mismatch("indices", "u32 or s32", indices.element()));
    }
    if values.element() != operand.element() {
        return Err(call.mismatch("values", operand.element(), values.element()));
    }
    // Indices below 2^31 are the same bits in both types.
    let dims = indices.dims();
    let signed = ArrayViewMut::new(ElementType::S32, dims, indices.bytes_mut())?;
    let options = ExecuteOptions::default();
    top_k(
        *operand,
        true,
        values.reborrow(),
        signed,
        Context { options: &options },
    )?;
    Ok(())
}

/// The index of the first value that no other one is `better` than; NaN is
/// better than anything.
fn extremum(call: Call<'_>, outs: Outs<'_, '_>, better: fn(f64, f64) -> bool) -> Done {
    let ([operand], [out]) = (call.operands, outs) else {
        return Err(operands(call, 1));
    };
    let dimension = dimension(call, operand.dims())?;
    let (size, inner) = strides(operand.dims(), dimension);
    let values = wide(*operand)?;
    let mut indices = vec![0_u64; out.element_count()];
    if indices.len() * size != values.len() || size == 0 {
        return Err(call.mismatch(
            "elements of the result",
            values.len().checked_div(size).unwrap_or(0),
            indices.len(),
        ));
    }
    for (position, index) in indices.iter_mut().enumerate() {
        let first = position / inner * size * inner + position % inner;
        let mut best = values[first];
        for step in 1..size {
            let value = values[first + step * inner];
            if !best.is_nan() && (value.is_nan() || better(value, best)) {
                (best, *index) = (value, step as u64);
            }
        }
    }
    if !out.element().is_integer() {
        return Err(call.mismatch(
            "element type of the result",
            "an integer type",
            out.element(),
        ));
    }
    with_element!(out.element(), T => {
        for (out, index) in out.values_mut::<T>()?.iter_mut().zip(indices) {
            *out = T::from_u64(index);
        }
    });
    Ok(())
}

fn softmax(call: Call<'_>, outs: Outs<'_, '_>) -> Done {
    let ([operand], [out]) = (call.operands, outs) else {
        return Err(operands(call, 1));
    };
    same_shape(call, *operand, out)?;
    let mut values = wide(*operand)?;
    let dimension = dimension(call, operand.dims())?;
    lines(&mut values, operand.dims(), dimension, |line| {
        let max = line
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, RealMath::maximum);
        line.iter_mut().for_each(|x| *x = RealMath::exp(*x - max));
        let sum: f64 = line.iter().sum();
        line.iter_mut().for_each(|x| *x /= sum);
    });
    narrow(&values, out)
}

fn softmax_backward(call: Call<'_>, outs: Outs<'_, '_>) -> Done {
    let ([gradient, output], [out]) = (call.operands, outs) else {
        return Err(operands(call, 2));
    };
    same_shape(call, *gradient, out)?;
    same_shape(call, *output, out)?;
    let (gradient_values, output_values) = (wide(*gradient)?, wide(*output)?);
    let mut weighted: Vec<f64> = gradient_values
        .iter()
        .zip(&output_values)
        .map(|(g, y)| g * y)
        .collect();
    let dimension = dimension(call, gradient.dims())?;
    lines(&mut weighted, gradient.dims(), dimension, |line| {
        let sum = line.iter().sum();
        line.fill(sum);
    });
    let values: Vec<f64> = output_values
        .iter()
        .zip(&gradient_values)
        .zip(&weighted)
        .map(|((y, g), sum)| y * (g - sum))
        .collect();
    narrow(&values, out)
}

fn rms_norm(call: Call<'_>, outs: Outs<'_, '_>) -> Done {
    let ([operand, weight, epsilon], [out]) = (call.operands, outs) else {
        return Err(operands(call, 3));
    };
    if operand.dims() != out.dims() {
        return Err(call.mismatch(
            "dimensions of the result",
            format_args!("{:?}", operand.dims()),
            format_args!("{:?}", out.dims()),
        ));
    }
    let dimension = dimension(call, operand.dims())?;
    let size = operand.dims()[dimension];
    let (weight, epsilon) = (wide(*weight)?, wide(*epsilon)?);
    if weight.len() != size || epsilon.len() != 1 {
        return Err(call.mismatch("elements of the weight", size, weight.len()));
    }
    let mut values = wide(*operand)?;
    lines(&mut values, operand.dims(), dimension, |line| {
        let mean = line.iter().map(|x| x * x).sum::<f64>() / line.len() as f64;
        let scale = (mean + epsilon[0]).rsqrt();
        line.iter_mut()
            .zip(&weight)
            .for_each(|(x, weight)| *x *= scale * weight);
    });
    narrow(&values, out)
}

fn unary(call: Call<'_>, outs: Outs<'_, '_>, function: impl Fn(f64) -> f64) -> Done {
    let ([operand], [out]) = (call.operands, outs) else {
        return Err(operands(call, 1));
    };
    same_shape(call, *operand, out)?;
    let values: Vec<f64> = wide(*operand)?.into_iter().map(function).collect();
    narrow(&values, out)
}

/// The slope at the operand; of two operands the first, a gradient, times the
/// slope at the second.
fn backward(call: Call<'_>, outs: Outs<'_, '_>, slope: impl Fn(f64) -> f64) -> Done {
    if call.operands.len() == 1 {
        return unary(call, outs, slope);
    }
    let ([gradient, operand], [out]) = (call.operands, outs) else {
        return Err(operands(call, 2));
    };
    same_shape(call, *gradient, out)?;
    same_shape(call, *operand, out)?;
    let values: Vec<f64> = wide(*gradient)?
        .into_iter()
        .zip(wide(*operand)?)
        .map(|(g, x)| g * slope(x))
        .collect();
    narrow(&values, out)
}

/// The elements as `f64`.
pub(super) fn wide(view: ArrayView<'_>) -> Result<Vec<f64>, CustomCallError> {
    with_element!(view.element(), T => {
        Ok(view.values::<T>()?.iter().map(|value| value.to_f64()).collect())
    })
}

/// Rounds values to the element type of `out`.
pub(super) fn narrow(values: &[f64], out: &mut ArrayViewMut<'_>) -> Done {
    let buffer = Buffer::copied(bytemuck::cast_slice(values))?;
    let source = ArrayView::new(ElementType::F64, out.dims(), buffer.bytes())?;
    convert(source, out.reborrow())?;
    Ok(())
}

/// Calls `then` with each line of elements along `dimension`.
fn lines(values: &mut [f64], dims: &[usize], dimension: usize, then: impl Fn(&mut [f64])) {
    let (size, inner) = strides(dims, dimension);
    let mut line = vec![0.0; size];
    for first in 0..values.len().checked_div(size).unwrap_or(0) {
        let first = first / inner * size * inner + first % inner;
        for (step, value) in line.iter_mut().enumerate() {
            *value = values[first + step * inner];
        }
        then(&mut line);
        for (step, value) in line.iter().enumerate() {
            values[first + step * inner] = *value;
        }
    }
}

/// Size of a dimension, and elements between its neighbours.
fn strides(dims: &[usize], dimension: usize) -> (usize, usize) {
    (dims[dimension], dims[dimension + 1..].iter().product())
}

fn number(call: Call<'_>, what: &'static str) -> Result<usize, CustomCallError> {
    let text = String::from_utf8_lossy(call.config);
    text.trim()
        .parse()
        .map_err(|_| call.mismatch(what, "a number", &text))
}

fn dimension(call: Call<'_>, dims: &[usize]) -> Result<usize, CustomCallError> {
    let dimension = number(call, "dimension")?;
    if dimension < dims.len() {
        Ok(dimension)
    } else {
        Err(call.mismatch("dimension", format_args!("below {}", dims.len()), dimension))
    }
}

fn counts(call: Call<'_>, expected: usize, found: usize) -> Done {
    if expected == found {
        Ok(())
    } else {
        Err(results(call, expected, found))
    }
}

pub(super) fn operands(call: Call<'_>, expected: usize) -> CustomCallError {
    call.mismatch(
        "number of operands, with one result",
        expected,
        call.operands.len(),
    )
}

fn results(call: Call<'_>, expected: usize, found: usize) -> CustomCallError {
    call.mismatch("number of results", expected, found)
}

fn same_shape(call: Call<'_>, operand: ArrayView<'_>, out: &ArrayViewMut<'_>) -> Done {
    let text = |element: ElementType, dims: &[usize]| format!("{element}{dims:?}");
    if operand.element() == out.element() && operand.dims() == out.dims() {
        return Ok(());
    }
    let expected = text(operand.element(), operand.dims());
    Err(call.mismatch(
        "shape of the result",
        expected,
        text(out.element(), out.dims()),
    ))
}
