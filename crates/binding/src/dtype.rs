//! Element types, and what each is called in every place that names it.
//!
//! One table joins five vocabularies: the metaneff's `DataType`, ATen's
//! `ScalarType` index, the runtime's `nrt_dtype_t`, XLA's `PrimitiveType` and
//! the size in bytes. Source: the reference page, sections 2.1 and 4.2, the
//! public `nrt.h`, and `xla_data.proto`.
//!
//! Producers collapse types: a `U32` parameter of the graph is `INT32` in the
//! contract, a `PRED` is `BOOL` or `UINT8`. The contract's type is what the
//! bytes are *stored* as, the graph's type is what they *mean*;
//! [`DType::may_be_stored_as`] says which pairs occur.

use std::fmt;

use metaneff_schema::metaneff::meta_tensor::DataType;
use metaneff_schema::nrt::NrtDtype;
use metaneff_schema::xla::PrimitiveType;

macro_rules! dtypes {
    ($($(#[$doc:meta])* $name:ident: $bytes:literal, $text:literal, aten $aten:expr, nrt $nrt:expr,
       $xla:ident, metaneff [$($data_type:ident),+];)+) => {
        /// The type of a tensor's elements.
        ///
        /// The four 8-bit floats are four types: a byte means another number in
        /// each of them, and nothing here converts between them.
        ///
        /// # Examples
        ///
        /// ```
        /// use metaneff_binding::DType;
        /// use metaneff_schema::nrt::NrtDtype;
        /// use metaneff_schema::xla::PrimitiveType;
        ///
        /// assert_eq!(DType::BF16.size(), 2);
        /// assert_eq!(DType::BF16.aten_scalar_type(), Some(15));
        /// assert_eq!(DType::BF16.nrt(), Some(NrtDtype::BFLOAT16));
        /// assert_eq!(DType::from_xla(PrimitiveType::U32), Some(DType::U32));
        /// // The producer's collapse: an unsigned parameter in a signed slot.
        /// assert!(DType::U32.may_be_stored_as(DType::I32));
        /// assert!(!DType::F32.may_be_stored_as(DType::I32));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum DType {
            $($(#[$doc])* $name,)+
        }

        impl DType {
            /// Every element type, in the table's order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Bytes of one element.
            #[must_use]
            pub const fn size(self) -> usize {
                match self { $(Self::$name => $bytes,)+ }
            }

            /// The short name that errors and tables print, as in `bf16`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The index of ATen's `ScalarType`, `None` where ATen has no such
            /// type.
            #[must_use]
            pub const fn aten_scalar_type(self) -> Option<i8> {
                match self { $(Self::$name => $aten,)+ }
            }

            /// The element type of an ATen `ScalarType` index.
            #[must_use]
            pub fn from_aten_scalar_type(index: i8) -> Option<Self> {
                Self::ALL.iter().copied().find(|d| d.aten_scalar_type() == Some(index))
            }

            /// The runtime's number, `None` for `F64`, which the runtime lacks.
            /// `Bool` is `UINT8` there, and both E4M3 flavours are `FP8_E4`.
            #[must_use]
            pub const fn nrt(self) -> Option<NrtDtype> {
                match self { $(Self::$name => $nrt,)+ }
            }

            /// The graph's number.
            #[must_use]
            pub const fn xla(self) -> PrimitiveType {
                match self { $(Self::$name => PrimitiveType::$xla,)+ }
            }

            /// The element type of a graph's number; `None` for types that no
            /// tensor at a model's boundary has, such as tuples and complex
            /// numbers.
            #[must_use]
            pub const fn from_xla(primitive: PrimitiveType) -> Option<Self> {
                match primitive {
                    $(PrimitiveType::$xla => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The contract's numbers under which producers store this type; the
            /// first is the one to write.
            #[must_use]
            pub const fn data_types(self) -> &'static [DataType] {
                match self { $(Self::$name => &[$(DataType::$data_type),+],)+ }
            }
        }
    };
}

dtypes! {
    /// A truth value in one byte: 0 or 1.
    Bool: 1, "bool", aten Some(11), nrt Some(NrtDtype::UINT8), Pred, metaneff [Bool, Uint8, Byte];
    /// Signed 8-bit integer.
    I8: 1, "i8", aten Some(1), nrt Some(NrtDtype::INT8), S8, metaneff [Int8];
    /// Unsigned 8-bit integer.
    U8: 1, "u8", aten Some(0), nrt Some(NrtDtype::UINT8), U8, metaneff [Uint8, Byte, String];
    /// Signed 16-bit integer.
    I16: 2, "i16", aten Some(2), nrt Some(NrtDtype::INT16), S16, metaneff [Int16];
    /// Unsigned 16-bit integer.
    U16: 2, "u16", aten Some(27), nrt Some(NrtDtype::UINT16), U16, metaneff [Uint16, Int16];
    /// Signed 32-bit integer.
    I32: 4, "i32", aten Some(3), nrt Some(NrtDtype::INT32), S32, metaneff [Int32];
    /// Unsigned 32-bit integer.
    U32: 4, "u32", aten Some(28), nrt Some(NrtDtype::UINT32), U32, metaneff [Int32];
    /// Signed 64-bit integer.
    I64: 8, "i64", aten Some(4), nrt Some(NrtDtype::INT64), S64, metaneff [Int64];
    /// Unsigned 64-bit integer.
    U64: 8, "u64", aten Some(29), nrt Some(NrtDtype::UINT64), U64, metaneff [Int64];
    /// IEEE half precision.
    F16: 2, "f16", aten Some(5), nrt Some(NrtDtype::FLOAT16), F16, metaneff [Float16];
    /// Brain floating point.
    BF16: 2, "bf16", aten Some(15), nrt Some(NrtDtype::BFLOAT16), Bf16, metaneff [Bfloat16];
    /// IEEE single precision.
    F32: 4, "f32", aten Some(6), nrt Some(NrtDtype::FLOAT32), F32, metaneff [Float];
    /// IEEE double precision.
    F64: 8, "f64", aten Some(7), nrt None, F64, metaneff [Double];
    /// 8-bit float, 4 exponent bits, finite: 0x7f is NaN, there is no infinity.
    F8E4M3FN: 1, "f8e4m3fn", aten Some(24), nrt Some(NrtDtype::FP8_E4), F8e4m3fn, metaneff [F8e4m3fn, Int8];
    /// 8-bit float, 5 exponent bits, with infinities.
    F8E5M2: 1, "f8e5m2", aten Some(23), nrt Some(NrtDtype::FP8_E5), F8e5m2, metaneff [F8e5m2, Int8];
    /// 8-bit float, 4 exponent bits, with infinities: 0x78 is +inf.
    F8E4M3: 1, "f8e4m3", aten None, nrt Some(NrtDtype::FP8_E4), F8e4m3, metaneff [Int8];
    /// 8-bit float, 3 exponent bits, with infinities.
    F8E3M4: 1, "f8e3m4", aten None, nrt Some(NrtDtype::FP8_E3), F8e3m4, metaneff [Int8];
}

impl DType {
    /// The element type that a contract's number stores.
    ///
    /// # Errors
    ///
    /// [`UnknownDataType`] for 0 (undefined), for the reserved gap 11 and for
    /// every number that the schema does not have.
    pub fn from_data_type(number: i32) -> Result<Self, UnknownDataType> {
        Ok(
            match DataType::try_from(number).map_err(|_| UnknownDataType { number })? {
                DataType::Undefined => return Err(UnknownDataType { number }),
                DataType::Float => Self::F32,
                DataType::Int32 => Self::I32,
                DataType::Byte | DataType::String | DataType::Uint8 => Self::U8,
                DataType::Bool => Self::Bool,
                DataType::Int8 => Self::I8,
                DataType::Uint16 => Self::U16,
                DataType::Int16 => Self::I16,
                DataType::Int64 => Self::I64,
                DataType::Float16 => Self::F16,
                DataType::Double => Self::F64,
                DataType::Bfloat16 => Self::BF16,
                DataType::F8e4m3fn => Self::F8E4M3FN,
                DataType::F8e5m2 => Self::F8E5M2,
            },
        )
    }

    /// Whether producers store this type of the graph under the contract's type
    /// `stored`.
    #[must_use]
    pub fn may_be_stored_as(self, stored: Self) -> bool {
        self == stored
            || self
                .data_types()
                .iter()
                .any(|&d| Self::from_data_type(d.into()) == Ok(stored))
    }

    /// Whether the type holds floating-point numbers.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16
                | Self::BF16
                | Self::F32
                | Self::F64
                | Self::F8E4M3FN
                | Self::F8E5M2
                | Self::F8E4M3
                | Self::F8E3M4
        )
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A contract's data type number that stands for no element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("data type {number} of the contract is not known")]
#[non_exhaustive]
pub struct UnknownDataType {
    /// The number as the file has it.
    pub number: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_numbers_are_those_of_the_table() {
        // (data type, element type, ATen index, runtime's number), from the page's section 4.2.
        let table = [
            (1, DType::F32, 6, Some(0xA)),
            (2, DType::I32, 3, Some(0x8)),
            (3, DType::U8, 0, Some(0x3)),
            (4, DType::U8, 0, Some(0x3)),
            (5, DType::Bool, 11, Some(0x3)),
            (6, DType::U8, 0, Some(0x3)),
            (7, DType::I8, 1, Some(0x2)),
            (8, DType::U16, 27, Some(0x5)),
            (9, DType::I16, 2, Some(0x4)),
            (10, DType::I64, 4, Some(0xC)),
            (12, DType::F16, 5, Some(0x7)),
            (13, DType::F64, 7, None),
            (14, DType::BF16, 15, Some(0x6)),
            (15, DType::F8E4M3FN, 24, Some(0xE)),
            (16, DType::F8E5M2, 23, Some(0xF)),
        ];
        for (number, dtype, aten, nrt) in table {
            assert_eq!(DType::from_data_type(number), Ok(dtype));
            assert_eq!(dtype.aten_scalar_type(), Some(aten));
            assert_eq!(dtype.nrt().map(|n| n.0), nrt);
        }
        for number in [-1, 0, 11, 17, 99, i32::MAX] {
            assert_eq!(
                DType::from_data_type(number),
                Err(UnknownDataType { number })
            );
        }
    }

    #[test]
    fn every_type_survives_the_other_vocabularies() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_xla(dtype.xla()), Some(dtype));
            if let Some(index) = dtype.aten_scalar_type() {
                assert_eq!(DType::from_aten_scalar_type(index), Some(dtype));
            }
            for &stored in dtype.data_types() {
                let stored = DType::from_data_type(stored.into()).unwrap();
                assert_eq!(stored.size(), dtype.size(), "{dtype} in {stored}");
                assert!(dtype.may_be_stored_as(stored));
            }
        }
    }

    #[test]
    fn producers_collapse_these_and_no_others() {
        let collapsed: Vec<(DType, DType)> = DType::ALL
            .iter()
            .flat_map(|&a| DType::ALL.iter().map(move |&b| (a, b)))
            .filter(|&(a, b)| a != b && a.may_be_stored_as(b))
            .collect();
        assert_eq!(
            collapsed,
            [
                (DType::Bool, DType::U8),
                (DType::U16, DType::I16),
                (DType::U32, DType::I32),
                (DType::U64, DType::I64),
                (DType::F8E4M3FN, DType::I8),
                (DType::F8E5M2, DType::I8),
                (DType::F8E4M3, DType::I8),
                (DType::F8E3M4, DType::I8),
            ]
        );
    }
}
