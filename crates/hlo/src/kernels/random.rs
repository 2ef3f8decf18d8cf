//! `rng-bit-generator` and `rng`.
//!
//! Threefry 2x32 with 20 rounds and Philox 4x32 with 10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3",
//! 2011), with XLA's assignment of counters to elements.
#![expect(
    clippy::cast_possible_truncation,
    reason = "words are split and elements take the low bits of a word"
)]

use super::Context;
use super::walk::strides;
use crate::array::{ArrayView, ArrayViewMut};
use crate::attributes::{RngAlgorithm, RngDistribution};
use crate::element::{ElementClass, with_element};
use crate::error::KernelError;
use crate::numerics::Numeric;

/// Threefry 2x32, 20 rounds.
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    const PARITY: u32 = 0x1bd1_1bda;
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [
        counter[0].wrapping_add(keys[0]),
        counter[1].wrapping_add(keys[1]),
    ];
    for group in 0..5_usize {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(keys[(group + 1) % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(group + 2) % 3])
            .wrapping_add(group as u32 + 1);
    }
    x
}

/// Philox 4x32, 10 rounds.
fn philox(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    for _round in 0..10 {
        let first = MULTIPLIERS[0] * u64::from(counter[0]);
        let second = MULTIPLIERS[1] * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Bits for every element of `dims`, as 32-bit words or, if `wide`, as 64-bit words; and by how much the counter advances.
fn threefry_bits(key: u64, counter: u64, dims: &[usize], wide: bool) -> (Vec<u64>, u64) {
    let key = words(key);
    let at = |index: usize| threefry(key, words(counter.wrapping_add(index as u64)));
    let count: usize = dims.iter().product();
    if wide {
        let bits = (0..count)
            .map(at)
            .map(|[low, high]| joined(low, high))
            .collect();
        return (bits, count as u64);
    }
    // The first even dimension, else the largest, is halved: neighbours along it share a counter.
    let largest = |dims: &[usize]| (0..dims.len()).rev().max_by_key(|&dim| dims[dim]);
    let split = dims
        .iter()
        .position(|dim| dim % 2 == 0)
        .or_else(|| largest(dims));
    let Some(split) = split else {
        return (vec![u64::from(at(0)[0])], 1);
    };
    let mut halved = dims.to_vec();
    halved[split] = dims[split].div_ceil(2);
    let (full, half) = (strides(dims), strides(&halved));
    let bits = (0..count)
        .map(|element| {
            let mut index = 0;
            for dim in 0..dims.len() {
                let position = element / full[dim] % dims[dim];
                index += if dim == split { position / 2 } else { position } * half[dim];
            }
            u64::from(at(index)[element / full[split] % dims[split] % 2])
        })
        .collect();
    (bits, halved.iter().product::<usize>() as u64)
}

/// The first `count` words of the stream, 32-bit or, if `wide`, 64-bit; and by how much the counter advances.
fn philox_bits(key: u64, counter: u128, count: usize, wide: bool) -> (Vec<u64>, u64) {
    let key = words(key);
    let needed = if wide { 2 * count } else { count };
    let blocks = needed.div_ceil(4);
    let stream: Vec<u32> = (0..blocks)
        .flat_map(|block| {
            let counter = counter.wrapping_add(block as u128);
            let ([a, b], [c, d]) = (words(counter as u64), words((counter >> 64) as u64));
            philox(key, [a, b, c, d])
        })
        .collect();
    let bits = if wide {
        stream
            .chunks_exact(2)
            .take(count)
            .map(|pair| joined(pair[0], pair[1]))
            .collect()
    } else {
        stream.into_iter().take(count).map(u64::from).collect()
    };
    (bits, blocks as u64)
}

/// `rng-bit-generator`; elements of 8 and 16 bits take the low bits of a 32-bit word each. The default algorithm is Philox.
///
/// # Errors
///
/// [`KernelError::Unsupported`] if the state is not `u64[2]` (or `u64[3]` for Philox) or the elements are not integers.
pub(crate) fn rng_bit_generator(
    state: ArrayView<'_>,
    algorithm: RngAlgorithm,
    mut new_state: ArrayViewMut<'_>,
    mut bits: ArrayViewMut<'_>,
    _context: Context<'_>,
) -> Result<(), KernelError> {
    let refuse = |what: String| Err(KernelError::Unsupported { what });
    if !bits.element().is_integer() {
        return refuse(format!("rng-bit-generator of {}", bits.element()));
    }
    let state = state.values::<u64>()?;
    let wide = bits.element().byte_size() == 8;
    let (next, drawn) = match (algorithm, state) {
        (RngAlgorithm::ThreeFry, &[key, counter]) => {
            let (drawn, step) = threefry_bits(key, counter, bits.dims(), wide);
            (vec![key, counter.wrapping_add(step)], drawn)
        }
        (RngAlgorithm::Philox | RngAlgorithm::Default, &[key, low, ref rest @ ..])
            if rest.len() < 2 =>
        {
            let high = rest.first().copied().unwrap_or(0);
            let counter = u128::from(low) | u128::from(high) << 64;
            let (drawn, step) = philox_bits(key, counter, bits.element_count(), wide);
            let counter = counter.wrapping_add(u128::from(step));
            let next = [key, counter as u64, (counter >> 64) as u64];
            (next[..state.len()].to_vec(), drawn)
        }
        _ => {
            return refuse(format!(
                "rng-bit-generator with a state of {} words",
                state.len()
            ));
        }
    };
    new_state.values_mut::<u64>()?.copy_from_slice(&next);
    with_element!(bits.element(), T => {
        for (target, word) in bits.values_mut::<T>()?.iter_mut().zip(drawn) {
            *target = T::from_u64(word);
        }
    });
    Ok(())
}

/// `rng` from `seed`: uniform in `[a, b)`, or normal of mean `a` and standard deviation `b`. XLA's own values are not
/// specified; equal seeds give equal values here.
///
/// # Errors
///
/// [`KernelError::Unsupported`] if the elements are complex, or normal and not floats.
pub(crate) fn rng(
    distribution: RngDistribution,
    a: ArrayView<'_>,
    b: ArrayView<'_>,
    seed: u64,
    mut out: ArrayViewMut<'_>,
) -> Result<(), KernelError> {
    let element = out.element();
    let class = element.class();
    let float = class == ElementClass::Float;
    if class == ElementClass::Complex || (distribution == RngDistribution::Normal && !float) {
        let what = format!("rng of {element}");
        return Err(KernelError::Unsupported { what });
    }
    let (drawn, _) = philox_bits(seed, 0, 2 * out.element_count(), true);
    // The upper 53 bits, as a number in [0, 1).
    let unit = |word: u64| (word >> 11) as f64 * (0.5_f64).powi(53);
    with_element!(element, T => {
        let (a, b) = (a.values::<T>()?[0], b.values::<T>()?[0]);
        for (target, pair) in out.values_mut::<T>()?.iter_mut().zip(drawn.chunks_exact(2)) {
            *target = match distribution {
                RngDistribution::Normal => {
                    let radius = (-2.0 * (1.0 - unit(pair[0])).ln()).sqrt();
                    let angle = std::f64::consts::TAU * unit(pair[1]);
                    T::from_f64(a.to_f64() + b.to_f64() * radius * angle.cos())
                }
                RngDistribution::Uniform if float => {
                    let (low, high) = (a.to_f64(), b.to_f64());
                    let value = T::from_f64(low + (high - low) * unit(pair[0]));
                    // Rounding may reach the open end.
                    if value.to_f64() < high { value } else { a }
                }
                RngDistribution::Uniform => {
                    let range = b.to_u64().wrapping_sub(a.to_u64()).max(1);
                    T::from_u64(a.to_u64().wrapping_add(pair[0] % range))
                }
            };
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Buffer;
    use crate::element::{Element, ElementType};
    use crate::kernels::testing::{array, run};
    use crate::options::ExecuteOptions;

    fn generate<T: Element>(
        state: &[u64],
        algorithm: RngAlgorithm,
        dims: &[usize],
    ) -> (Vec<u64>, Vec<T>) {
        let options = ExecuteOptions::default();
        let given = array(&[state.len()], state);
        let mut next = Buffer::zeroed(state.len() * 8).unwrap();
        let lengths = [state.len()];
        let bits = run(dims, |bits| {
            let next = ArrayViewMut::new(ElementType::U64, &lengths, next.bytes_mut()).unwrap();
            rng_bit_generator(
                given.view(),
                algorithm,
                next,
                bits,
                Context { options: &options },
            )
        });
        (bytemuck::cast_slice(next.bytes()).to_vec(), bits)
    }

    #[test]
    fn ciphers_match_their_published_vectors() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(
            threefry([u32::MAX; 2], [u32::MAX; 2]),
            [0x1cb9_96fc, 0xbb00_2be7]
        );
        assert_eq!(
            philox([0, 0], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }

    #[test]
    fn threefry_matches_xla() {
        let (state, bits) = generate::<u32>(&[1, 2], RngAlgorithm::ThreeFry, &[4]);
        assert_eq!(state, [1, 4]);
        assert_eq!(
            bits,
            [43_444_564, 2_150_618_427, 3_979_645_651, 3_745_730_563]
        );
        let (state, _) = generate::<u32>(&[1, u64::MAX], RngAlgorithm::ThreeFry, &[3]);
        assert_eq!(state, [1, 1]);
    }

    #[test]
    fn the_counter_carries() {
        let (state, _) = generate::<u32>(&[7, u64::MAX, 3], RngAlgorithm::Philox, &[5]);
        assert_eq!(state, [7, 1, 4]);
    }
}
