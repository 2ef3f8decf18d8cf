//! `convolution` of any rank, as products of the kernel with matrices of patches.
//!
//! The base is dilated, then padded (or cropped), then the window moves over it. Patches are gathered in blocks, so that
//! they take a bounded share of memory; convolutions with one input feature a group, whose products would be tiny, are summed
//! in place when features are the fastest dimension.

use pulp::NullaryFnOnce;

use super::Context;
use super::dot::{accumulator, load_as, store_from};
use super::gemm::{Matrix, Multiply};
use super::movement::strided_copy;
use super::walk::{for_each, index, signed, strides};
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{ConvDims, WindowDim};
use crate::element::{ElementType, Pred, S4, U4};
use crate::error::KernelError;
use crate::numerics::{Arithmetic, run};

/// Elements that a block of patches may take.
const BLOCK_ELEMENTS: usize = 1 << 18;

/// Marks a position of the window that meets padding or a gap.
pub(super) const HOLE: usize = usize::MAX;

/// Base index that each window position meets for each output index, or [`HOLE`]; output indices vary fastest.
pub(super) fn meeting_points(window: &WindowDim, base: usize, outputs: usize) -> Vec<usize> {
    let mut points = Vec::with_capacity(window.size * outputs);
    for position in 0..window.size {
        let shift = signed(position * window.window_dilation)
            .saturating_sub(isize::try_from(window.padding_low).unwrap_or(isize::MAX));
        for output in 0..outputs {
            let place = shift.saturating_add(signed(output * window.stride));
            let dilation = signed(window.base_dilation);
            let point = if place % dilation == 0 {
                place / dilation
            } else {
                -1
            };
            points.push(
                usize::try_from(point)
                    .ok()
                    .filter(|&point| point < base)
                    .unwrap_or(HOLE),
            );
        }
    }
    points
}

/// `convolution`.
///
/// Narrow floats are widened to `f32`, summed in `f32` and rounded once; integers are summed in the result's type, which
/// wraps.
///
/// # Errors
///
/// [`KernelError::View`] if a view is not what it says.
pub(crate) fn convolution(
    input: ArrayView<'_>,
    kernel: ArrayView<'_>,
    dims: &ConvDims,
    out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    use num_complex::Complex;

    match accumulator(input.element(), kernel.element(), out.element()) {
        ElementType::F32 => convolve::<f32>(input, kernel, dims, out, context),
        ElementType::F64 => convolve::<f64>(input, kernel, dims, out, context),
        ElementType::C64 => convolve::<Complex<f32>>(input, kernel, dims, out, context),
        ElementType::C128 => convolve::<Complex<f64>>(input, kernel, dims, out, context),
        ElementType::S4 => convolve::<S4>(input, kernel, dims, out, context),
        ElementType::S8 => convolve::<i8>(input, kernel, dims, out, context),
        ElementType::S16 => convolve::<i16>(input, kernel, dims, out, context),
        ElementType::S32 => convolve::<i32>(input, kernel, dims, out, context),
        ElementType::S64 => convolve::<i64>(input, kernel, dims, out, context),
        ElementType::U4 => convolve::<U4>(input, kernel, dims, out, context),
        ElementType::U8 => convolve::<u8>(input, kernel, dims, out, context),
        ElementType::U16 => convolve::<u16>(input, kernel, dims, out, context),
        ElementType::U32 => convolve::<u32>(input, kernel, dims, out, context),
        ElementType::U64 => convolve::<u64>(input, kernel, dims, out, context),
        _ => convolve::<Pred>(input, kernel, dims, out, context),
    }
}

fn convolve<C: Multiply>(
    input: ArrayView<'_>,
    kernel: ArrayView<'_>,
    dims: &ConvDims,
    mut out: ArrayViewMut<'_>,
    context: Context<'_>,
) -> Result<(), KernelError> {
    if out.element_count() == 0 {
        return Ok(());
    }
    let geometry = Geometry::new(input.dims(), kernel.dims(), out.dims(), dims);
    let (input, kernel) = (
        load_as::<C>(input, context)?,
        load_as::<C>(kernel, context)?,
    );
    if C::TYPE == out.element() {
        geometry.fill(&input, &kernel, out.values_mut::<C>()?);
        return Ok(());
    }
    let mut sums = vec![C::ZERO; out.element_count()];
    geometry.fill(&input, &kernel, &mut sums);
    store_from(&sums, out)
}

/// Sizes and strides of a convolution, with spatial dimensions in window order and at least one of them.
struct Geometry {
    images: usize,
    feature_groups: usize,
    batch_groups: usize,
    group_inputs: usize,
    outputs: usize,
    window: Vec<usize>,
    outs: Vec<usize>,
    points: Vec<Vec<usize>>,
    contiguous: bool,
    in_batch: usize,
    in_feature: usize,
    in_spatial: Vec<usize>,
    kernel_input: usize,
    kernel_output: usize,
    kernel_spatial: Vec<isize>,
    kernel_start: isize,
    out_batch: usize,
    out_feature: usize,
    out_spatial: Vec<usize>,
}

impl Geometry {
    fn new(input: &[usize], kernel: &[usize], out: &[usize], dims: &ConvDims) -> Self {
        let (in_strides, kernel_strides, out_strides) =
            (strides(input), strides(kernel), strides(out));
        let mut geometry = Self {
            images: out[dims.output_batch],
            feature_groups: dims.feature_groups.max(1),
            batch_groups: dims.batch_groups.max(1),
            group_inputs: kernel[dims.kernel_input_feature],
            outputs: out[dims.output_feature],
            window: Vec::new(),
            outs: Vec::new(),
            points: Vec::new(),
            contiguous: false,
            in_batch: in_strides[dims.input_batch],
            in_feature: in_strides[dims.input_feature],
            in_spatial: Vec::new(),
            kernel_input: kernel_strides[dims.kernel_input_feature],
            kernel_output: kernel_strides[dims.kernel_output_feature],
            kernel_spatial: Vec::new(),
            kernel_start: 0,
            out_batch: out_strides[dims.output_batch],
            out_feature: out_strides[dims.output_feature],
            out_spatial: Vec::new(),
        };
        for (dim, window) in dims.window.dims.iter().enumerate() {
            let (base, target) = (dims.input_spatial[dim], dims.output_spatial[dim]);
            geometry
                .points
                .push(meeting_points(window, input[base], out[target]));
            geometry.window.push(window.size);
            geometry.outs.push(out[target]);
            geometry.in_spatial.push(in_strides[base]);
            geometry.out_spatial.push(out_strides[target]);
            let step = signed(kernel_strides[dims.kernel_spatial[dim]]);
            if window.reversal {
                geometry.kernel_start += step * (signed(window.size) - 1);
            }
            geometry
                .kernel_spatial
                .push(if window.reversal { -step } else { step });
        }
        if let Some(last) = dims.window.dims.last() {
            let step = geometry.in_spatial.last().copied();
            geometry.contiguous = last.stride == 1 && last.base_dilation == 1 && step == Some(1);
        } else {
            geometry.points.push(vec![0]);
            geometry.window.push(1);
            geometry.outs.push(1);
            geometry.in_spatial.push(0);
            geometry.out_spatial.push(0);
            geometry.kernel_spatial.push(0);
        }
        geometry
    }

    fn groups(&self) -> usize {
        self.feature_groups.max(self.batch_groups)
    }

    /// The kernel with the given order of dimensions: output features first, then window and input features.
    fn kernel_matrix<C: Arithmetic>(&self, kernel: &[C], features_last: bool) -> Vec<C> {
        let mut sizes = vec![self.outputs];
        let mut steps = vec![signed(self.kernel_output)];
        if !features_last {
            sizes.push(self.group_inputs);
            steps.push(signed(self.kernel_input));
        }
        sizes.extend(&self.window);
        steps.extend(&self.kernel_spatial);
        if features_last {
            sizes.push(self.group_inputs);
            steps.push(signed(self.kernel_input));
        }
        let mut matrix = vec![C::ZERO; sizes.iter().product()];
        strided_copy(kernel, self.kernel_start, &sizes, &steps, &mut matrix);
        matrix
    }

    fn fill<C: Multiply>(&self, input: &[C], kernel: &[C], out: &mut [C]) {
        let positions: usize = self.window.iter().product();
        let depth = positions * self.group_inputs;
        if depth == 0 {
            out.fill(C::ZERO);
            return;
        }
        if self.group_inputs == 1
            && self.in_feature == 1
            && self.out_feature == 1
            && self.feature_groups > 1
        {
            self.fill_depthwise(input, kernel, out);
            return;
        }
        let features_last = self.in_feature == 1 && self.group_inputs > 1;
        let matrix = self.kernel_matrix(kernel, features_last);
        let last = self.outs.len() - 1;
        let width = self.outs[last];
        let rows: usize = self.outs[..last].iter().product();
        let block_rows = (BLOCK_ELEMENTS / (depth * width).max(1)).clamp(1, rows);
        let group_outputs = self.outputs / self.groups();
        let mut patches = vec![C::ZERO; depth * width * block_rows];
        let mut product = vec![C::ZERO; group_outputs * width * block_rows];
        for image in 0..self.images {
            for group in 0..self.groups() {
                let source_image = if self.batch_groups > 1 {
                    image + group * self.images
                } else {
                    image
                };
                let feature = if self.feature_groups > 1 {
                    group * self.group_inputs
                } else {
                    0
                };
                let base = source_image * self.in_batch + feature * self.in_feature;
                for first in (0..rows).step_by(block_rows) {
                    let count = block_rows.min(rows - first) * width;
                    let patches = &mut patches[..depth * count];
                    let right = if features_last {
                        self.gather_features(&input[base..], first, patches);
                        Matrix {
                            start: 0,
                            row: 1,
                            column: depth,
                        }
                    } else {
                        self.gather_rows(&input[base..], first, count, patches);
                        Matrix {
                            start: 0,
                            row: count,
                            column: 1,
                        }
                    };
                    let left = Matrix {
                        start: group * group_outputs * depth,
                        row: depth,
                        column: 1,
                    };
                    let size = [group_outputs, depth, count];
                    let start = image * self.out_batch + group * group_outputs * self.out_feature;
                    if let Some(column) = self.common_out_stride() {
                        let place = Matrix {
                            start: start + first * width * column,
                            row: self.out_feature,
                            column,
                        };
                        C::multiply_matrices(
                            size,
                            (&matrix, left),
                            (patches, right),
                            (&mut *out, place),
                        );
                    } else {
                        let place = Matrix {
                            start: 0,
                            row: count,
                            column: 1,
                        };
                        C::multiply_matrices(
                            size,
                            (&matrix, left),
                            (patches, right),
                            (&mut product, place),
                        );
                        self.spread(&product, start, first * width, count, group_outputs, out);
                    }
                }
            }
        }
    }

    /// The distance in the output between neighbouring spatial positions in row-major order, if it is the same for all.
    fn common_out_stride(&self) -> Option<usize> {
        let mut size = 1;
        let mut stride = None;
        for (&out, &step) in self
            .outs
            .iter()
            .zip(&self.out_spatial)
            .rev()
            .filter(|&(&out, _)| out != 1)
        {
            let first = *stride.get_or_insert(step);
            if step != first * size {
                return None;
            }
            size *= out;
        }
        Some(stride.unwrap_or(1))
    }

    /// Writes `features` rows of `count` positions from `first` on to their places in the output.
    fn spread<C: Arithmetic>(
        &self,
        product: &[C],
        start: usize,
        first: usize,
        count: usize,
        features: usize,
        out: &mut [C],
    ) {
        let steps = strides(&self.outs);
        for position in 0..count {
            let mut place = start;
            let mut rest = first + position;
            for (step, out_step) in steps.iter().zip(&self.out_spatial) {
                place += rest / step * out_step;
                rest %= step;
            }
            for feature in 0..features {
                out[place + feature * self.out_feature] = product[feature * count + position];
            }
        }
    }

    /// Input offset of an output row (all spatial dimensions but the last) at a window position, unless it meets a hole.
    fn row_offset(&self, row: usize, position: &[usize]) -> Option<usize> {
        let last = self.outs.len() - 1;
        let mut rest = row;
        let mut offset = 0;
        for dim in (0..last).rev() {
            let output = rest % self.outs[dim];
            rest /= self.outs[dim];
            match self.points[dim][position[dim] * self.outs[dim] + output] {
                HOLE => return None,
                point => offset += point * self.in_spatial[dim],
            }
        }
        Some(offset)
    }

    /// Patches with one row an input feature and window position, and one column an output position.
    fn gather_rows<C: Arithmetic>(
        &self,
        input: &[C],
        first: usize,
        count: usize,
        patches: &mut [C],
    ) {
        let last = self.outs.len() - 1;
        let width = self.outs[last];
        let positions = positions(&self.window);
        for (number, row) in patches.chunks_mut(count).enumerate() {
            let (feature, position) = (
                number / positions.len(),
                &positions[number % positions.len()],
            );
            let points = &self.points[last][position[last] * width..][..width];
            // Without gaps the points that are not padding form one range.
            let begin = points
                .iter()
                .position(|&point| point != HOLE)
                .unwrap_or(width);
            let end = points
                .iter()
                .rposition(|&point| point != HOLE)
                .map_or(begin, |end| end + 1);
            for (row_number, line) in row.chunks_mut(width).enumerate() {
                let Some(offset) = self.row_offset(first + row_number, position) else {
                    line.fill(C::ZERO);
                    continue;
                };
                let offset = offset + feature * self.in_feature;
                if self.contiguous {
                    line[..begin].fill(C::ZERO);
                    line[end..].fill(C::ZERO);
                    if begin < end {
                        let source = &input[offset + points[begin]..][..end - begin];
                        line[begin..end].copy_from_slice(source);
                    }
                } else {
                    for (value, &point) in line.iter_mut().zip(points) {
                        *value = match point {
                            HOLE => C::ZERO,
                            point => input[offset + point * self.in_spatial[last]],
                        };
                    }
                }
            }
        }
    }

    /// Patches with one row an output position, of all window positions with their contiguous input features.
    fn gather_features<C: Arithmetic>(&self, input: &[C], first: usize, patches: &mut [C]) {
        let last = self.outs.len() - 1;
        let width = self.outs[last];
        let positions = positions(&self.window);
        let depth = positions.len() * self.group_inputs;
        for (row_number, row) in patches.chunks_mut(depth * width).enumerate() {
            for (which, position) in positions.iter().enumerate() {
                let offset = self.row_offset(first + row_number, position);
                let points = &self.points[last][position[last] * width..][..width];
                for (column, &point) in points.iter().enumerate() {
                    let target =
                        &mut row[column * depth + which * self.group_inputs..][..self.group_inputs];
                    match offset {
                        Some(offset) if point != HOLE => {
                            let start = offset + point * self.in_spatial[last];
                            target.copy_from_slice(&input[start..][..self.group_inputs]);
                        }
                        _ => target.fill(C::ZERO),
                    }
                }
            }
        }
    }

    /// Convolution with one input feature a group, features fastest in input and output.
    fn fill_depthwise<C: Multiply>(&self, input: &[C], kernel: &[C], out: &mut [C]) {
        let mut sizes = self.window.clone();
        sizes.push(self.outputs);
        let mut steps = self.kernel_spatial.clone();
        steps.push(signed(self.kernel_output));
        let mut taps = vec![C::ZERO; sizes.iter().product()];
        strided_copy(kernel, self.kernel_start, &sizes, &steps, &mut taps);
        run(Depthwise {
            geometry: self,
            input,
            taps: &taps,
            out,
        });
    }
}

struct Depthwise<'a, C> {
    geometry: &'a Geometry,
    input: &'a [C],
    taps: &'a [C],
    out: &'a mut [C],
}

impl<C: Arithmetic> NullaryFnOnce for Depthwise<'_, C> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            geometry,
            input,
            taps,
            out,
        } = self;
        let last = geometry.outs.len() - 1;
        let width = geometry.outs[last];
        let multiplier = geometry.outputs / geometry.feature_groups;
        let positions = positions(&geometry.window);
        let out_steps: Vec<isize> = geometry.out_spatial.iter().copied().map(signed).collect();
        for image in 0..geometry.images {
            let base = image * geometry.in_batch;
            let mut row = 0;
            let start = signed(image * geometry.out_batch);
            for_each(
                &geometry.outs[..last],
                [&out_steps[..last]],
                [start],
                |[place]| {
                    for column in 0..width {
                        let start = index(place) + column * geometry.out_spatial[last];
                        let sums = &mut out[start..][..geometry.outputs];
                        sums.fill(C::ZERO);
                        for (position, taps) in positions.iter().zip(taps.chunks(geometry.outputs))
                        {
                            let point = geometry.points[last][position[last] * width + column];
                            let Some(offset) =
                                geometry.row_offset(row, position).filter(|_| point != HOLE)
                            else {
                                continue;
                            };
                            let start = base + offset + point * geometry.in_spatial[last];
                            let values = &input[start..][..geometry.feature_groups];
                            if multiplier == 1 {
                                for ((sum, &tap), &value) in sums.iter_mut().zip(taps).zip(values) {
                                    *sum = sum.add(tap.multiply(value));
                                }
                            } else {
                                for (output, (sum, &tap)) in sums.iter_mut().zip(taps).enumerate() {
                                    *sum = sum.add(tap.multiply(values[output / multiplier]));
                                }
                            }
                        }
                    }
                    row += 1;
                },
            );
        }
    }
}

/// Every position of the window, in row-major order.
fn positions(window: &[usize]) -> Vec<Vec<usize>> {
    let steps = strides(window);
    (0..window.iter().product())
        .map(|number: usize| {
            steps
                .iter()
                .zip(window)
                .map(|(step, size)| number / step % size)
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attributes::Window;
    use crate::kernels::testing::{array, run as run_kernel};
    use crate::options::ExecuteOptions;

    fn plain_dims(spatial: usize, window: Vec<WindowDim>) -> ConvDims {
        ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: (2..2 + spatial).collect(),
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: (2..2 + spatial).collect(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: (2..2 + spatial).collect(),
            window: Window { dims: window },
            feature_groups: 1,
            batch_groups: 1,
        }
    }

    fn convolved(
        input: (&[usize], &[i32]),
        kernel: (&[usize], &[i32]),
        dims: &ConvDims,
        out: &[usize],
    ) -> Vec<i32> {
        let options = ExecuteOptions::default();
        let context = Context { options: &options };
        let (input, kernel) = (array(input.0, input.1), array(kernel.0, kernel.1));
        run_kernel(out, |out| {
            convolution(input.view(), kernel.view(), dims, out, context)
        })
    }

    #[test]
    fn a_reversed_window_runs_backwards() {
        let window = WindowDim {
            size: 3,
            reversal: true,
            ..WindowDim::ONE
        };
        let dims = plain_dims(1, vec![window]);
        let got = convolved(
            (&[1, 1, 4], &[1, 2, 3, 4]),
            (&[1, 1, 3], &[1, 10, 100]),
            &dims,
            &[1, 1, 2],
        );
        assert_eq!(got, [123, 234]);
    }

    #[test]
    fn groups_split_features_or_batch() {
        let mut dims = plain_dims(0, vec![]);
        dims.feature_groups = 2;
        dims.kernel_input_feature = 0;
        dims.kernel_output_feature = 1;
        let got = convolved(
            (&[1, 4], &[1, 2, 3, 4]),
            (&[2, 2], &[1, 10, 100, 1000]),
            &dims,
            &[1, 2],
        );
        assert_eq!(got, [201, 4030]);
        dims.feature_groups = 1;
        dims.batch_groups = 2;
        let got = convolved((&[2, 1], &[3, 5]), (&[1, 2], &[10, 100]), &dims, &[1, 2]);
        assert_eq!(got, [30, 500]);
    }

    #[test]
    fn dilation_comes_before_padding() {
        let window = WindowDim {
            size: 2,
            base_dilation: 2,
            padding_low: 1,
            padding_high: -1,
            ..WindowDim::ONE
        };
        let dims = plain_dims(1, vec![window]);
        let got = convolved(
            (&[1, 1, 3], &[1, 2, 3]),
            (&[1, 1, 2], &[1, 10]),
            &dims,
            &[1, 1, 4],
        );
        assert_eq!(got, [10, 1, 20, 2]);
    }

    /// Index of each dimension's coordinate, from a list of (dimension, coordinate).
    fn at(dims: &[usize], coordinates: &[(usize, usize)]) -> usize {
        let strides = strides(dims);
        coordinates
            .iter()
            .map(|&(dim, coordinate)| strides[dim] * coordinate)
            .sum()
    }

    fn reference(
        input: (&[usize], &[i32]),
        kernel: (&[usize], &[i32]),
        dims: &ConvDims,
        out: &[usize],
    ) -> Vec<i32> {
        let mut sums = vec![0; out.iter().product()];
        let spatial = dims.window.dims.len();
        let window: Vec<usize> = dims.window.dims.iter().map(|dim| dim.size).collect();
        let outs: Vec<usize> = dims.output_spatial.iter().map(|&dim| out[dim]).collect();
        let (images, outputs) = (out[dims.output_batch], out[dims.output_feature]);
        let features = kernel.0[dims.kernel_input_feature];
        for image in 0..images {
            for output in 0..outputs {
                for place in positions(&outs) {
                    let mut sum = 0;
                    for position in positions(&window) {
                        let mut met = Vec::new();
                        for dim in 0..spatial {
                            let w = dims.window.dims[dim];
                            let at = i64::try_from(
                                place[dim] * w.stride + position[dim] * w.window_dilation,
                            )
                            .unwrap()
                                - w.padding_low;
                            let dilation = i64::try_from(w.base_dilation).unwrap();
                            if at >= 0
                                && at % dilation == 0
                                && at / dilation
                                    < i64::try_from(input.0[dims.input_spatial[dim]]).unwrap()
                            {
                                let tap = if w.reversal {
                                    w.size - 1 - position[dim]
                                } else {
                                    position[dim]
                                };
                                met.push((usize::try_from(at / dilation).unwrap(), tap));
                            }
                        }
                        if met.len() < spatial {
                            continue;
                        }
                        for feature in 0..features {
                            let group = output / (outputs / dims.feature_groups);
                            let batch = output / (outputs / dims.batch_groups) * images;
                            let mut i = vec![
                                (dims.input_batch, image + batch),
                                (dims.input_feature, feature + group * features),
                            ];
                            let mut k = vec![
                                (dims.kernel_output_feature, output),
                                (dims.kernel_input_feature, feature),
                            ];
                            for (dim, (source, tap)) in met.iter().enumerate() {
                                i.push((dims.input_spatial[dim], *source));
                                k.push((dims.kernel_spatial[dim], *tap));
                            }
                            sum += input.1[at(input.0, &i)] * kernel.1[at(kernel.0, &k)];
                        }
                    }
                    let mut o = vec![(dims.output_batch, image), (dims.output_feature, output)];
                    let places = place.iter().copied();
                    o.extend(dims.output_spatial.iter().copied().zip(places));
                    sums[at(out, &o)] = sum;
                }
            }
        }
        sums
    }

    fn window_dim() -> impl Strategy<Value = WindowDim> {
        (
            1_usize..4,
            1_usize..3,
            -1_i64..3,
            -1_i64..3,
            1_usize..3,
            1_usize..3,
            any::<bool>(),
        )
            .prop_map(
                |(
                    size,
                    stride,
                    padding_low,
                    padding_high,
                    window_dilation,
                    base_dilation,
                    reversal,
                )| WindowDim {
                    size,
                    stride,
                    padding_low,
                    padding_high,
                    window_dilation,
                    base_dilation,
                    reversal,
                },
            )
    }

    /// Permutation of `rank` dimensions from a number: batch, feature, spatial….
    fn permutation(rank: usize, seed: u64) -> Vec<usize> {
        let mut dims: Vec<usize> = (0..rank).collect();
        dims.sort_by_key(|&dim| seed.rotate_left(7 * u32::try_from(dim).unwrap()) % 89);
        dims
    }

    proptest! {
        #[test]
        fn patches_match_a_plain_sum(
            window in prop::collection::vec(window_dim(), 0..3),
            spatial in [1_usize..5, 1..5],
            (images, inputs, group_outputs) in (1_usize..3, 1_usize..4, 1_usize..3),
            (feature_groups, batch_groups) in prop_oneof![
                Just((1_usize, 1_usize)), (2_usize..4).prop_map(|n| (n, 1)), (2_usize..4).prop_map(|n| (1, n))
            ],
            seeds in any::<[u64; 3]>(),
        ) {
            let rank = window.len() + 2;
            let [i, k, o] = seeds.map(|seed| permutation(rank, seed));
            let dims = ConvDims {
                input_batch: i[0],
                input_feature: i[1],
                input_spatial: i[2..].to_vec(),
                kernel_output_feature: k[0],
                kernel_input_feature: k[1],
                kernel_spatial: k[2..].to_vec(),
                output_batch: o[0],
                output_feature: o[1],
                output_spatial: o[2..].to_vec(),
                window: Window { dims: window.clone() },
                feature_groups,
                batch_groups,
            };
            let place = |order: &[usize], sizes: Vec<usize>| -> Vec<usize> {
                let mut placed = vec![0; rank];
                for (&dim, size) in order.iter().zip(sizes) {
                    placed[dim] = size;
                }
                placed
            };
            let bases = &spatial[..window.len()];
            let outputs = group_outputs * feature_groups.max(batch_groups);
            let outs: Vec<usize> = window.iter().zip(bases).map(|(w, &base)| w.output_size(base).unwrap()).collect();
            let input = place(&i, [&[images * batch_groups, inputs * feature_groups], bases].concat());
            let kernel = place(&k, [vec![outputs, inputs], window.iter().map(|w| w.size).collect()].concat());
            let out = place(&o, [vec![images, outputs], outs].concat());
            let values = |dims: &[usize], salt: i32| -> Vec<i32> {
                (1..).map(|value: i32| (value * 31 + salt) % 17 - 8).take(dims.iter().product()).collect()
            };
            let (x, y) = (values(&input, 1), values(&kernel, 5));
            let got = convolved((&input, &x), (&kernel, &y), &dims, &out);
            prop_assert_eq!(got, reference((&input, &x), (&kernel, &y), &dims, &out));
        }
    }
}
