//! Resizing of images, as torch_xla emits it for Neuron.
//!
//! Images are `[batch, height, width, channels]`; the size of the result says
//! how far each of the two middle dimensions is scaled. The configuration is
//! two digits, quoted: whether corners are aligned and whether pixels have
//! their centres at halves, as TensorFlow's operations of these names have it.

use crate::array::{ArrayView, ArrayViewMut};

use super::neuron::{Done, Outs, narrow, operands, wide};
use super::{Call, CustomCallError};

/// How a pixel of the result is taken from the image.
#[derive(Clone, Copy)]
pub(super) enum Kernel {
    Nearest,
    Bilinear,
}

/// For each pixel of the result along one dimension, pixels of the image and
/// their weights.
type Taps = Vec<Vec<(usize, f64)>>;

#[derive(Clone, Copy)]
struct Grid {
    align_corners: bool,
    half_pixel_centers: bool,
}

impl Grid {
    fn of(call: Call<'_>) -> Result<Self, CustomCallError> {
        let text = String::from_utf8_lossy(call.config);
        let (align_corners, half_pixel_centers) = match text.trim().trim_matches('"') {
            "00" => (false, false),
            "01" => (false, true),
            "10" => (true, false),
            _ => {
                return Err(call.mismatch(
                    "alignment of corners and centres of pixels",
                    "\"00\", \"01\" or \"10\"",
                    text,
                ));
            }
        };
        Ok(Self {
            align_corners,
            half_pixel_centers,
        })
    }

    /// Taps of `to` pixels that are made of `from` ones.
    fn taps(self, kernel: Kernel, from: usize, to: usize) -> Taps {
        let last = from.saturating_sub(1);
        let scale = if self.align_corners && to > 1 {
            last as f64 / (to - 1) as f64
        } else {
            from as f64 / to as f64
        };
        let half = if self.half_pixel_centers { 0.5 } else { 0.0 };
        (0..to)
            .map(|pixel| match kernel {
                Kernel::Nearest => {
                    let place = (pixel as f64 + half) * scale;
                    let place = if self.align_corners {
                        place.round()
                    } else {
                        place.floor()
                    };
                    vec![(bounded(place, last), 1.0)]
                }
                Kernel::Bilinear => {
                    let place = ((pixel as f64 + half) * scale - half).max(0.0);
                    let low = bounded(place.floor(), last);
                    let share = (place - low as f64).min(1.0);
                    vec![(low, 1.0 - share), ((low + 1).min(last), share)]
                }
            })
            .collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the place is a whole number that is not negative"
)]
fn bounded(place: f64, last: usize) -> usize {
    (place as usize).min(last)
}

/// Height and width of images; batch and channels must be those of `other`.
fn sizes(
    call: Call<'_>,
    images: ArrayView<'_>,
    other: &ArrayViewMut<'_>,
) -> Result<[[usize; 4]; 2], CustomCallError> {
    let four = |dims: &[usize]| -> Result<[usize; 4], CustomCallError> {
        dims.try_into()
            .map_err(|_| call.mismatch("rank of images", 4, dims.len()))
    };
    let (given, result) = (four(images.dims())?, four(other.dims())?);
    if (given[0], given[3]) != (result[0], result[3]) {
        return Err(call.mismatch(
            "batch and channels of the result",
            format_args!("{} and {}", given[0], given[3]),
            format_args!("{} and {}", result[0], result[3]),
        ));
    }
    if given.contains(&0) || result.contains(&0) {
        return Err(call.mismatch("size of images", "1 or more", 0));
    }
    Ok([given, result])
}

pub(super) fn resize(call: Call<'_>, outs: Outs<'_, '_>, kernel: Kernel) -> Done {
    let ([images], [out]) = (call.operands, outs) else {
        return Err(operands(call, 1));
    };
    let grid = Grid::of(call)?;
    let [from, to] = sizes(call, *images, out)?;
    let values = wide(*images)?;
    let mut resized = vec![0.0; to.iter().product()];
    for_each_tap(grid, kernel, from, to, |target, source, weight| {
        resized[target] += weight * values[source];
    });
    narrow(&resized, out)
}

/// The gradient of the images: each pixel's gradient goes where it was taken.
pub(super) fn resize_gradient(call: Call<'_>, outs: Outs<'_, '_>, kernel: Kernel) -> Done {
    let ([gradient], [out]) = (call.operands, outs) else {
        return Err(operands(call, 1));
    };
    let grid = Grid::of(call)?;
    let [to, from] = sizes(call, *gradient, out)?;
    let values = wide(*gradient)?;
    let mut sums = vec![0.0; from.iter().product()];
    for_each_tap(grid, kernel, from, to, |target, source, weight| {
        sums[source] += weight * values[target];
    });
    narrow(&sums, out)
}

/// Calls `visit` with each element of the result, each of the image that it is
/// made of, and the weight.
fn for_each_tap(
    grid: Grid,
    kernel: Kernel,
    from: [usize; 4],
    to: [usize; 4],
    mut visit: impl FnMut(usize, usize, f64),
) {
    let rows = grid.taps(kernel, from[1], to[1]);
    let columns = grid.taps(kernel, from[2], to[2]);
    let offset = |dims: [usize; 4], n: usize, y: usize, x: usize| {
        ((n * dims[1] + y) * dims[2] + x) * dims[3]
    };
    for n in 0..to[0] {
        for (y, row) in rows.iter().enumerate() {
            for (x, column) in columns.iter().enumerate() {
                for &(source_y, row_weight) in row {
                    for &(source_x, column_weight) in column {
                        let target = offset(to, n, y, x);
                        let source = offset(from, n, source_y, source_x);
                        for channel in 0..to[3] {
                            let weight = row_weight * column_weight;
                            visit(target + channel, source + channel, weight);
                        }
                    }
                }
            }
        }
    }
}
