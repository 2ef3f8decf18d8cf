//! Numbers of the runtime's C interface that files and libraries share.
//!
//! Source: `nrt_status.h` and `nrt.h` of the public Neuron headers. A number
//! that comes from C or from a file is never a Rust enum: an unknown value
//! stays representable.

use std::fmt;

macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident($repr:ty) { $($(#[$doc:meta])* $konst:ident = $value:literal, $text:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        #[expect(clippy::exhaustive_structs, reason = "a number of the C interface and nothing else")]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$doc])* pub const $konst: Self = Self($value);)+

            /// Every value that the header names, in the header's order.
            pub const ALL: &'static [Self] = &[$(Self::$konst),+];

            /// The header's name, or `None` for a number it does not have.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)+
                    _ => None,
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name} ({})", self.0),
                    None => write!(f, "{} {}", stringify!($name), self.0),
                }
            }
        }
    };
}

numbers! {
    /// What a call of the runtime answered: `NRT_STATUS` of `nrt_status.h`.
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_schema::nrt::Status;
    ///
    /// assert_eq!(Status::RESOURCE.to_string(), "NRT_RESOURCE (4)");
    /// assert_eq!(Status(777).to_string(), "Status 777");
    /// assert!(Status(1003).is_completed());
    /// ```
    Status(i32) {
        /// The call did what was asked.
        SUCCESS = 0, "NRT_SUCCESS";
        /// Non-specific failure.
        FAILURE = 1, "NRT_FAILURE";
        /// An argument is not valid.
        INVALID = 2, "NRT_INVALID";
        /// A handle is not valid.
        INVALID_HANDLE = 3, "NRT_INVALID_HANDLE";
        /// A resource is exhausted, mostly device memory.
        RESOURCE = 4, "NRT_RESOURCE";
        /// A time limit passed.
        TIMEOUT = 5, "NRT_TIMEOUT";
        /// The hardware failed.
        HW_ERROR = 6, "NRT_HW_ERROR";
        /// The execution queue has no room.
        QUEUE_FULL = 7, "NRT_QUEUE_FULL";
        /// The model needs more cores than are available.
        LOAD_NOT_ENOUGH_NC = 9, "NRT_LOAD_NOT_ENOUGH_NC";
        /// The NEFF is of a version or feature set that is not supported.
        UNSUPPORTED_NEFF_VERSION = 10, "NRT_UNSUPPORTED_NEFF_VERSION";
        /// Host memory could not be allocated.
        FAIL_HOST_MEM_ALLOC = 11, "NRT_FAIL_HOST_MEM_ALLOC";
        /// The runtime is not initialised.
        UNINITIALIZED = 13, "NRT_UNINITIALIZED";
        /// The runtime has been closed.
        CLOSED = 14, "NRT_CLOSED";
        /// The queue has no entry.
        QUEUE_EMPTY = 15, "NRT_QUEUE_EMPTY";
        /// An execution unit is unrecoverable.
        EXEC_UNIT_UNRECOVERABLE = 101, "NRT_EXEC_UNIT_UNRECOVERABLE";
        /// An input was refused at execution.
        EXEC_BAD_INPUT = 1002, "NRT_EXEC_BAD_INPUT";
        /// The execution completed, and an output holds a NaN.
        EXEC_COMPLETED_WITH_NUM_ERR = 1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR";
        /// The execution completed with another error.
        EXEC_COMPLETED_WITH_ERR = 1004, "NRT_EXEC_COMPLETED_WITH_ERR";
        /// The core is executing something else.
        EXEC_NC_BUSY = 1005, "NRT_EXEC_NC_BUSY";
        /// An indirect access was out of bounds.
        EXEC_OOB = 1006, "NRT_EXEC_OOB";
        /// A collective is still pending.
        COLL_PENDING = 1100, "NRT_COLL_PENDING";
        /// A collective failed in hardware.
        EXEC_HW_ERR_COLLECTIVES = 1200, "NRT_EXEC_HW_ERR_COLLECTIVES";
        /// Device memory has an uncorrectable error.
        EXEC_HW_ERR_HBM_UE = 1201, "NRT_EXEC_HW_ERR_HBM_UE";
        /// A core's memory has an uncorrectable error.
        EXEC_HW_ERR_NC_UE = 1202, "NRT_EXEC_HW_ERR_NC_UE";
        /// A DMA was aborted.
        EXEC_HW_ERR_DMA_ABORT = 1203, "NRT_EXEC_HW_ERR_DMA_ABORT";
        /// The notification queue overflowed.
        EXEC_SW_NQ_OVERFLOW = 1204, "NRT_EXEC_SW_NQ_OVERFLOW";
        /// Device memory has an uncorrectable error that a reset repairs.
        EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE";
        /// The network proxy failed.
        NETWORK_PROXY_FAILURE = 1206, "NRT_NETWORK_PROXY_FAILURE";
    }
}

impl Status {
    /// Whether an execution that answers this has completed with outputs that
    /// are valid to read: success, or a NaN in an output (1003).
    #[must_use]
    pub const fn is_completed(self) -> bool {
        matches!(self, Self::SUCCESS | Self::EXEC_COMPLETED_WITH_NUM_ERR)
    }
}

numbers! {
    /// Element type as the runtime reports it: `nrt_dtype_t` of `nrt.h`.
    NrtDtype(u32) {
        /// Not stated.
        UNKNOWN = 0x0, "NRT_DTYPE_UNKNOWN";
        /// 64-bit unsigned integer.
        UINT64 = 0x1, "NRT_DTYPE_UINT64";
        /// 8-bit signed integer.
        INT8 = 0x2, "NRT_DTYPE_INT8";
        /// 8-bit unsigned integer.
        UINT8 = 0x3, "NRT_DTYPE_UINT8";
        /// 16-bit signed integer.
        INT16 = 0x4, "NRT_DTYPE_INT16";
        /// 16-bit unsigned integer.
        UINT16 = 0x5, "NRT_DTYPE_UINT16";
        /// Brain floating point.
        BFLOAT16 = 0x6, "NRT_DTYPE_BFLOAT16";
        /// IEEE half precision.
        FLOAT16 = 0x7, "NRT_DTYPE_FLOAT16";
        /// 32-bit signed integer.
        INT32 = 0x8, "NRT_DTYPE_INT32";
        /// 32-bit unsigned integer.
        UINT32 = 0x9, "NRT_DTYPE_UINT32";
        /// IEEE single precision.
        FLOAT32 = 0xA, "NRT_DTYPE_FLOAT32";
        /// Single precision with a rounded mantissa.
        FP32R = 0xB, "NRT_DTYPE_FP32R";
        /// 64-bit signed integer.
        INT64 = 0xC, "NRT_DTYPE_INT64";
        /// 8-bit float, 3 exponent bits.
        FP8_E3 = 0xD, "NRT_DTYPE_FP8_E3";
        /// 8-bit float, 4 exponent bits.
        FP8_E4 = 0xE, "NRT_DTYPE_FP8_E4";
        /// 8-bit float, 5 exponent bits.
        FP8_E5 = 0xF, "NRT_DTYPE_FP8_E5";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_prints_and_unknown_ones_stay() {
        for code in -1..2000 {
            let status = Status(code);
            assert!(!status.to_string().is_empty());
            assert_eq!(status.name().is_some(), Status::ALL.contains(&status));
        }
        assert_eq!(Status::ALL.len(), 28);
        assert_eq!(Status(8).name(), None);
        assert_eq!(Status(12).name(), None);
    }

    #[test]
    fn only_success_and_numerical_error_are_completions() {
        let completed: Vec<_> = Status::ALL.iter().filter(|s| s.is_completed()).collect();
        assert_eq!(completed, [&Status(0), &Status(1003)]);
    }
}
