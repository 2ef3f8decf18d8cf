//! `dot` and `convolution` of any rank.

use metaneff_schema::xla::{
    ConvolutionDimensionNumbers, DotDimensionNumbers, PrimitiveType, Window, WindowDimension,
};

use crate::build::with;
use crate::draw::{Draw, check};
use crate::value::{Tensor, agrees, count, i64s, indices};

use PrimitiveType::{Bf16, F16, F32, F64, S8, S32};

/// One spatial dimension.
#[derive(Clone, Debug)]
pub(crate) struct Spatial {
    pub(crate) base: usize,
    pub(crate) window: WindowDimension,
}

impl Spatial {
    pub(crate) fn new(draw: &mut Draw, base: usize, largest: usize) -> Self {
        Self {
            base,
            window: WindowDimension {
                size: draw.size(1, largest) as i64,
                stride: draw.size(1, 3) as i64,
                padding_low: draw.within(0, 3) - i64::from(draw.seldom(6)),
                padding_high: draw.within(0, 3) - i64::from(draw.seldom(6)),
                window_dilation: if draw.seldom(3) {
                    draw.size(1, 3) as i64
                } else {
                    1
                },
                base_dilation: if draw.seldom(3) {
                    draw.size(1, 3) as i64
                } else {
                    1
                },
                window_reversal: false,
            },
        }
    }

    /// Outputs.
    pub(crate) fn outputs(&self) -> usize {
        let window = &self.window;
        let dilated = |size: i64, dilation| {
            if size == 0 {
                0
            } else {
                (size - 1) * dilation + 1
            }
        };
        let base = dilated(self.base as i64, window.base_dilation)
            + window.padding_low
            + window.padding_high;
        let size = dilated(window.size, window.window_dilation);
        if base < size || base <= 0 {
            return 0;
        }
        ((base - size) / window.stride + 1) as usize
    }

    /// The base position that the window at an output has at one of its own:
    /// none in padding and holes.
    pub(crate) fn meets(&self, output: usize, position: usize) -> Option<usize> {
        let window = &self.window;
        let position = if window.window_reversal {
            window.size as usize - 1 - position
        } else {
            position
        };
        let place = output as i64 * window.stride + position as i64 * window.window_dilation
            - window.padding_low;
        if place < 0 || place % window.base_dilation != 0 {
            return None;
        }
        let place = (place / window.base_dilation) as usize;
        (place < self.base).then_some(place)
    }
}

/// `parts` in a random order, and where each went.
fn arranged(draw: &mut Draw, parts: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let places = draw.order(parts.len());
    let mut dims = vec![0; parts.len()];
    for (&place, &size) in places.iter().zip(parts) {
        dims[place] = size;
    }
    (dims, places)
}

#[test]
fn convolutions_agree() {
    check(500, |draw| {
        let rank = draw.pick(&[1, 2, 0, 3]);
        let feature_groups = draw.pick(&[1, 1, 2, 3]);
        let batch_groups = if feature_groups == 1 {
            draw.pick(&[1, 1, 2])
        } else {
            1
        };
        let (input_features, output_features) = (
            draw.size(1, 3),
            draw.size(1, 2) * feature_groups * batch_groups,
        );
        let batch = draw.size(1, 2) * batch_groups;
        let spatial: Vec<Spatial> = (0..rank)
            .map(|_| {
                let base = draw.size(1, if rank == 3 { 4 } else { 7 });
                let mut spatial = Spatial::new(draw, base, 3);
                spatial.window.window_reversal = draw.seldom(3);
                spatial
            })
            .collect();
        let parts = |first: usize, second: usize, sizes: Vec<usize>| {
            let mut parts = vec![first, second];
            parts.extend(sizes);
            parts
        };
        let bases = spatial.iter().map(|spatial| spatial.base).collect();
        let windows: Vec<usize> = spatial
            .iter()
            .map(|spatial| spatial.window.size as usize)
            .collect();
        let outs = spatial.iter().map(Spatial::outputs).collect();
        let input_parts = parts(batch, input_features * feature_groups, bases);
        let (input_dims, input_at) = arranged(draw, &input_parts);
        let kernel_parts = parts(output_features, input_features, windows.clone());
        let (kernel_dims, kernel_at) = arranged(draw, &kernel_parts);
        let output_parts = parts(batch / batch_groups, output_features, outs);
        let (output_dims, output_at) = arranged(draw, &output_parts);
        let (operands, result) = draw.pick(&[
            (F32, F32),
            (F64, F64),
            (S32, S32),
            (Bf16, F32),
            (S8, S32),
            (F16, F16),
        ]);
        let input = Tensor::new(
            operands,
            &input_dims,
            draw.values(count(&input_dims), -3, 3),
        );
        let kernel = Tensor::new(
            operands,
            &kernel_dims,
            draw.values(count(&kernel_dims), -3, 3),
        );
        let expected = Tensor::build(result, &output_dims, |index| {
            let (image, feature) = (index[output_at[0]], index[output_at[1]]);
            let group = feature * feature_groups / output_features;
            let batch_group = feature * batch_groups / output_features;
            let mut sum = 0.0;
            for position in indices(&windows) {
                let met: Option<Vec<usize>> = (0..rank)
                    .map(|dim| spatial[dim].meets(index[output_at[dim + 2]], position[dim]))
                    .collect();
                let Some(met) = met else { continue };
                for channel in 0..input_features {
                    let mut from = vec![0; rank + 2];
                    from[input_at[0]] = batch_group * (batch / batch_groups) + image;
                    from[input_at[1]] = group * input_features + channel;
                    let mut with = vec![0; rank + 2];
                    with[kernel_at[0]] = feature;
                    with[kernel_at[1]] = channel;
                    for dim in 0..rank {
                        from[input_at[dim + 2]] = met[dim];
                        with[kernel_at[dim + 2]] = position[dim];
                    }
                    sum += input.at(&from) * kernel.at(&with);
                }
            }
            sum
        });
        let proto = with(
            "convolution",
            &[input.shape(), kernel.shape()],
            expected.shape(),
            |op| {
                op.window = Some(Window {
                    dimensions: spatial.iter().map(|spatial| spatial.window).collect(),
                });
                op.feature_group_count = feature_groups as i64;
                op.batch_group_count = batch_groups as i64;
                op.convolution_dimension_numbers = Some(ConvolutionDimensionNumbers {
                    input_batch_dimension: input_at[0] as i64,
                    input_feature_dimension: input_at[1] as i64,
                    input_spatial_dimensions: i64s(&input_at[2..]),
                    kernel_output_feature_dimension: kernel_at[0] as i64,
                    kernel_input_feature_dimension: kernel_at[1] as i64,
                    kernel_spatial_dimensions: i64s(&kernel_at[2..]),
                    output_batch_dimension: output_at[0] as i64,
                    output_feature_dimension: output_at[1] as i64,
                    output_spatial_dimensions: i64s(&output_at[2..]),
                });
            },
        );
        agrees(&proto, &[&input, &kernel], &[expected], 0.0)
    });
}

#[test]
fn products_agree() {
    check(600, |draw| {
        let sizes = |draw: &mut Draw, high, most| -> Vec<usize> {
            let rank = draw.size(0, high);
            draw.dims(rank, most)
        };
        let (batch, contracted) = (sizes(draw, 2, 3), sizes(draw, 2, 9));
        let (left, right) = (sizes(draw, 2, 5), sizes(draw, 2, 5));
        let parts = |free: &[usize]| [&batch[..], &contracted, free].concat();
        let (lhs_dims, lhs_at) = arranged(draw, &parts(&left));
        let (rhs_dims, rhs_at) = arranged(draw, &parts(&right));
        // Free dimensions keep the order that they have in the operand.
        let split = batch.len() + contracted.len();
        let ascending = |at: &[usize]| {
            let mut free = at[split..].to_vec();
            free.sort_unstable();
            free
        };
        let (lhs_free, rhs_free) = (ascending(&lhs_at), ascending(&rhs_at));
        let mut dims = batch.clone();
        dims.extend(lhs_free.iter().map(|&dim| lhs_dims[dim]));
        dims.extend(rhs_free.iter().map(|&dim| rhs_dims[dim]));
        let (operands, result) = draw.pick(&[
            (F32, F32),
            (F64, F64),
            (S32, S32),
            (Bf16, F32),
            (S8, S32),
            (F16, F16),
            (Bf16, Bf16),
            (F16, F32),
        ]);
        let tensor = |draw: &mut Draw, dims: &[usize]| {
            Tensor::new(operands, dims, draw.values(count(dims), -3, 3))
        };
        let (lhs, rhs) = (tensor(draw, &lhs_dims), tensor(draw, &rhs_dims));
        let expected = Tensor::build(result, &dims, |index| {
            let (of_batch, of_free) = index.split_at(batch.len());
            let (of_left, of_right) = of_free.split_at(left.len());
            let place =
                |rank: usize, at: &[usize], free: &[usize], of_free: &[usize], k: &[usize]| {
                    let mut place = vec![0; rank];
                    for (&dim, &position) in at.iter().zip(of_batch.iter().chain(k)) {
                        place[dim] = position;
                    }
                    for (&dim, &position) in free.iter().zip(of_free) {
                        place[dim] = position;
                    }
                    place
                };
            let products = indices(&contracted).into_iter().map(|k| {
                lhs.at(&place(lhs_dims.len(), &lhs_at, &lhs_free, of_left, &k))
                    * rhs.at(&place(rhs_dims.len(), &rhs_at, &rhs_free, of_right, &k))
            });
            // An empty sum is 0, not -0.
            products.fold(0.0, |sum, product| sum + product)
        });
        let shapes = [lhs.shape(), rhs.shape()];
        let proto = with("dot", &shapes, expected.shape(), |op| {
            op.dot_dimension_numbers = Some(DotDimensionNumbers {
                lhs_batch_dimensions: i64s(&lhs_at[..batch.len()]),
                rhs_batch_dimensions: i64s(&rhs_at[..batch.len()]),
                lhs_contracting_dimensions: i64s(&lhs_at[batch.len()..split]),
                rhs_contracting_dimensions: i64s(&rhs_at[batch.len()..split]),
            });
        });
        agrees(&proto, &[&lhs, &rhs], &[expected], 0.0)
    });
}
