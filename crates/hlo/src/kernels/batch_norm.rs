//! `batch-norm-inference`, `-training` and `-grad`, evaluated in `f64` over each feature.

use super::Context;
use super::dot::{load_as, store_from};
use crate::array::{ArrayView, ArrayViewMut};
use crate::error::KernelError;

/// The elements of each feature in a row-major array.
struct Features {
    count: usize,
    inner: usize,
    elements: f64,
}

impl Features {
    fn new(dims: &[usize], feature: usize) -> Self {
        let count = dims[feature];
        let others: usize = dims
            .iter()
            .enumerate()
            .filter(|&(dim, _)| dim != feature)
            .map(|(_, &dim)| dim)
            .product();
        Self {
            count,
            inner: dims[feature + 1..].iter().product(),
            elements: others as f64,
        }
    }

    /// Calls `visit` with each run of one feature: the feature and where the run starts.
    fn runs(&self, length: usize, mut visit: impl FnMut(usize, std::ops::Range<usize>)) {
        if self.inner == 0 || self.count == 0 {
            return;
        }
        for (number, start) in (0..length).step_by(self.inner).enumerate() {
            visit(number % self.count, start..start + self.inner);
        }
    }

    /// Sum of `value(index)` over the elements of each feature.
    fn sums(&self, length: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        self.runs(length, |feature, run| {
            sums[feature] += run.map(|index| value(feature, index)).sum::<f64>();
        });
        sums
    }

    /// `value(feature, index)` for every element.
    fn map(&self, length: usize, value: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let mut values = vec![0.0; length];
        self.runs(length, |feature, run| {
            for index in run {
                values[index] = value(feature, index);
            }
        });
        values
    }
}

fn inverse_deviations(variance: &[f64], epsilon: f32) -> Vec<f64> {
    variance
        .iter()
        .map(|variance| 1.0 / (variance + f64::from(epsilon)).sqrt())
        .collect()
}

/// `batch-norm-inference`; `operands` are operand, scale, offset, mean, variance.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn batch_norm_inference(
    operands: [ArrayView<'_>; 5],
    epsilon: f32,
    feature: usize,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    let features = Features::new(operands[0].dims(), feature);
    let [x, scale, offset, mean, variance] =
        operands.map(|operand| load_as::<f64>(operand, context));
    let (x, scale, offset, mean, variance) = (x?, scale?, offset?, mean?, variance?);
    let inverse = inverse_deviations(&variance, epsilon);
    let values = features.map(x.len(), |feature, index| {
        (x[index] - mean[feature]) * inverse[feature] * scale[feature] + offset[feature]
    });
    store_from(&values, out)
}

/// `batch-norm-training`; `operands` are operand, scale, offset, `outs` the normalised operand, mean, (biased) variance.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn batch_norm_training(
    operands: [ArrayView<'_>; 3],
    epsilon: f32,
    feature: usize,
    outs: [ArrayViewMut<'_>; 3],
    context: Context<'_>,
) -> Result<(), KernelError> {
    let features = Features::new(operands[0].dims(), feature);
    let [x, scale, offset] = operands.map(|operand| load_as::<f64>(operand, context));
    let (x, scale, offset) = (x?, scale?, offset?);
    let average = |sums: Vec<f64>| -> Vec<f64> {
        sums.into_iter()
            .map(|sum| sum / features.elements)
            .collect()
    };
    let mean = average(features.sums(x.len(), |_, index| x[index]));
    let variance = average(features.sums(x.len(), |feature, index| {
        let difference = x[index] - mean[feature];
        difference * difference
    }));
    let inverse = inverse_deviations(&variance, epsilon);
    let values = features.map(x.len(), |feature, index| {
        (x[index] - mean[feature]) * inverse[feature] * scale[feature] + offset[feature]
    });
    let [out, mean_out, variance_out] = outs;
    store_from(&values, out)?;
    store_from(&mean, mean_out)?;
    store_from(&variance, variance_out)
}

/// `batch-norm-grad`; `operands` are operand, scale, mean, variance, gradient of the output, `outs` the gradients of
/// operand, scale, offset.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn batch_norm_grad(
    operands: [ArrayView<'_>; 5],
    epsilon: f32,
    feature: usize,
    outs: [ArrayViewMut<'_>; 3],
    context: Context<'_>,
) -> Result<(), KernelError> {
    let features = Features::new(operands[0].dims(), feature);
    let [x, scale, mean, variance, gradient] =
        operands.map(|operand| load_as::<f64>(operand, context));
    let (x, scale, mean, variance, gradient) = (x?, scale?, mean?, variance?, gradient?);
    let inverse = inverse_deviations(&variance, epsilon);
    let offset_gradient = features.sums(x.len(), |_, index| gradient[index]);
    let products = features.sums(x.len(), |feature, index| {
        gradient[index] * (x[index] - mean[feature])
    });
    let scale_gradient: Vec<f64> = products
        .iter()
        .zip(&inverse)
        .map(|(product, inverse)| product * inverse)
        .collect();
    let values = features.map(x.len(), |feature, index| {
        let (inverse, count) = (inverse[feature], features.elements);
        let slope = products[feature] * inverse * inverse / count;
        let centred =
            gradient[index] - offset_gradient[feature] / count - (x[index] - mean[feature]) * slope;
        scale[feature] * inverse * centred
    });
    let [operand_out, scale_out, offset_out] = outs;
    store_from(&values, operand_out)?;
    store_from(&scale_gradient, scale_out)?;
    store_from(&offset_gradient, offset_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Buffer;
    use crate::element::ElementType;
    use crate::kernels::testing::array;
    use crate::options::ExecuteOptions;

    fn train(
        x: &[f64],
        scale: &[f64],
        offset: &[f64],
        dims: &[usize],
        feature: usize,
    ) -> [Vec<f64>; 3] {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let channels = [dims[feature]];
        let operands = [
            array(dims, x),
            array(&channels, scale),
            array(&channels, offset),
        ];
        let mut buffers =
            [x.len(), scale.len(), scale.len()].map(|count| Buffer::zeroed(count * 8).unwrap());
        let [a, b, c] = &mut buffers;
        let outs = [(a, dims), (b, &channels[..]), (c, &channels[..])].map(|(buffer, dims)| {
            ArrayViewMut::new(ElementType::F64, dims, buffer.bytes_mut()).unwrap()
        });
        let views = [operands[0].view(), operands[1].view(), operands[2].view()];
        batch_norm_training(views, 1e-3, feature, outs, context).unwrap();
        buffers.map(|buffer| bytemuck::cast_slice(buffer.bytes()).to_vec())
    }

    #[test]
    fn training_centres_and_scales_each_feature() {
        let x = [1.0, 10.0, 3.0, 30.0, 5.0, 20.0];
        let [y, mean, variance] = train(&x, &[1.0, 2.0], &[0.0, 7.0], &[3, 2], 1);
        assert_eq!(mean, [3.0, 20.0]);
        assert!(
            (variance[0] - 8.0 / 3.0).abs() < 1e-12 && (variance[1] - 200.0 / 3.0).abs() < 1e-12
        );
        assert!((y[0] + 2.0 / (8.0 / 3.0 + f64::from(1e-3_f32)).sqrt()).abs() < 1e-12);
        assert!((y[5] - 7.0).abs() < 1e-12);
    }

    #[test]
    fn gradients_match_finite_differences() {
        let dims = [2, 2, 3];
        let x: Vec<f64> = (0..12)
            .map(|index| (f64::from(index) * 1.7).sin())
            .collect();
        let gradient: Vec<f64> = (0..12)
            .map(|index| (f64::from(index) * 0.9).cos())
            .collect();
        let (scale, offset) = ([1.5, -0.5], [0.25, 0.75]);
        let loss = |x: &[f64], scale: &[f64], offset: &[f64]| -> f64 {
            let [y, ..] = train(x, scale, offset, &dims, 1);
            y.iter()
                .zip(&gradient)
                .map(|(y, gradient)| y * gradient)
                .sum()
        };
        let [_, mean, variance] = train(&x, &scale, &offset, &dims, 1);
        let options = ExecuteOptions::default();
        let arrays = [
            array(&dims, &x),
            array(&[2], &scale),
            array(&[2], &mean),
            array(&[2], &variance),
            array(&dims, &gradient),
        ];
        let mut buffers = [12, 2, 2].map(|count: usize| Buffer::zeroed(count * 8).unwrap());
        let [a, b, c] = &mut buffers;
        let outs = [(a, &dims[..]), (b, &[2][..]), (c, &[2][..])].map(|(buffer, dims)| {
            ArrayViewMut::new(ElementType::F64, dims, buffer.bytes_mut()).unwrap()
        });
        let views = [0, 1, 2, 3, 4].map(|index: usize| arrays[index].view());
        batch_norm_grad(views, 1e-3, 1, outs, Context { options: &options }).unwrap();
        let got: Vec<Vec<f64>> = buffers
            .iter()
            .map(|buffer| bytemuck::cast_slice(buffer.bytes()).to_vec())
            .collect();
        let step = 1e-6;
        for index in 0..12 {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[index] += step;
            down[index] -= step;
            let slope = (loss(&up, &scale, &offset) - loss(&down, &scale, &offset)) / (2.0 * step);
            assert!(
                (slope - got[0][index]).abs() < 1e-7,
                "{slope} {}",
                got[0][index]
            );
        }
        for channel in 0..2 {
            let (mut up, mut down) = (scale, scale);
            up[channel] += step;
            down[channel] -= step;
            let slope = (loss(&x, &up, &offset) - loss(&x, &down, &offset)) / (2.0 * step);
            assert!((slope - got[1][channel]).abs() < 1e-7);
            let (mut up, mut down) = (offset, offset);
            up[channel] += step;
            down[channel] -= step;
            let slope = (loss(&x, &scale, &up) - loss(&x, &scale, &down)) / (2.0 * step);
            assert!((slope - got[2][channel]).abs() < 1e-7);
        }
    }
}
