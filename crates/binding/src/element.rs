//! Rust types whose memory is a tensor's element.

use std::fmt::Debug;

use bytemuck::{NoUninit, Zeroable};

use crate::dtype::DType;

#[cfg(target_endian = "big")]
compile_error!("tensors are little-endian, as every host of a Neuron device is");

mod sealed {
    #[expect(unnameable_types, reason = "seals the traits of this module")]
    pub trait Sealed {}
}

/// A Rust type that stands for one [`DType`] and no other.
///
/// The link is exact, so that `half::bf16` never arrives as `f16` and an 8-bit
/// float never as an integer. `float8::F8E4M3` holds the bits of
/// [`DType::F8E4M3FN`]; the other two 8-bit floats have no Rust type here and
/// are built from bytes.
pub trait Element: sealed::Sealed + Copy + Debug + Send + Sync + NoUninit + 'static {
    /// The element type.
    const DTYPE: DType;

    /// Copies elements out of a tensor's bytes; a trailing part of an element is
    /// left out.
    fn collect(bytes: &[u8]) -> Vec<Self>;

    /// Lets `fill` write `size` bytes and takes them as elements; a trailing part
    /// of an element is not asked for.
    ///
    /// # Errors
    ///
    /// What `fill` answers.
    fn read<E>(size: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<Self>, E>;

    /// The elements in place, `None` where the bytes are not aligned or may hold
    /// what is no value of the type.
    fn view(bytes: &[u8]) -> Option<&[Self]>;

    /// The elements' bytes.
    #[must_use]
    fn bytes(elements: &[Self]) -> &[u8] {
        bytemuck::cast_slice(elements)
    }
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),+ $(,)?) => {$(
        impl sealed::Sealed for $rust {}

        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;

            fn collect(bytes: &[u8]) -> Vec<Self> {
                let whole = bytes.len() - bytes.len() % size_of::<Self>();
                let mut elements = vec![Self::zeroed(); whole / size_of::<Self>()];
                bytemuck::cast_slice_mut::<Self, u8>(&mut elements)
                    .copy_from_slice(&bytes[..whole]);
                elements
            }

            fn read<E>(
                size: usize,
                fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Vec<Self>, E> {
                let mut elements = vec![Self::zeroed(); size / size_of::<Self>()];
                fill(bytemuck::cast_slice_mut(&mut elements))?;
                Ok(elements)
            }

            fn view(bytes: &[u8]) -> Option<&[Self]> {
                bytemuck::try_cast_slice(bytes).ok()
            }
        }
    )+};
}

elements! {
    i8 => I8,
    u8 => U8,
    i16 => I16,
    u16 => U16,
    i32 => I32,
    u32 => U32,
    i64 => I64,
    u64 => U64,
    f32 => F32,
    f64 => F64,
    half::f16 => F16,
    half::bf16 => BF16,
    float8::F8E4M3 => F8E4M3FN,
    float8::F8E5M2 => F8E5M2,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn collect(bytes: &[u8]) -> Vec<Self> {
        bytes.iter().map(|&byte| byte != 0).collect()
    }

    fn read<E>(size: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Vec<Self>, E> {
        Ok(Self::collect(&u8::read(size, fill)?))
    }

    fn view(bytes: &[u8]) -> Option<&[Self]> {
        bytemuck::checked::try_cast_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_as_large_as_its_type() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::DTYPE.size());
        }
        check::<bool>();
        check::<i64>();
        check::<half::bf16>();
        check::<float8::F8E4M3>();
    }

    #[test]
    fn bits_arrive_as_they_are() {
        let one = half::bf16::from_f32(1.0);
        assert_eq!(half::bf16::bytes(&[one]), [0x80, 0x3f]);
        assert_eq!(half::bf16::collect(&[0x80, 0x3f]), [one]);
        assert_eq!(half::f16::bytes(&[half::f16::ONE]), [0x00, 0x3c]);
        let nan = float8::F8E4M3::from_bits(0x7f);
        assert!(nan.is_nan());
        assert_eq!(float8::F8E4M3::bytes(&[nan]), [0x7f]);
    }

    #[test]
    fn unaligned_bytes_are_copied_not_viewed() {
        let words = [0x0403_0201_u32, 0x0807_0605];
        let bytes = u32::bytes(&words);
        assert_eq!(u32::view(bytes), Some(&words[..]));
        assert_eq!(u32::view(&bytes[1..5]), None);
        assert_eq!(u32::collect(&bytes[1..5]), [0x0504_0302]);
    }

    #[test]
    fn a_byte_above_one_is_true_but_no_bool_in_place() {
        assert_eq!(bool::collect(&[0, 1, 2]), [false, true, true]);
        assert_eq!(bool::view(&[0, 1]), Some(&[false, true][..]));
        assert_eq!(bool::view(&[2]), None);
    }
}
