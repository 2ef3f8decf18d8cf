//! How a function becomes an exported one.
//!
//! [`export!`] is the only way into the library. Each function that it declares
//! gets a panic boundary, a place in a version node, a line in the log when it
//! fails, and an entry in the list of exports.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use metaneff_binding::{BackendError, Cause};
use metaneff_schema::nrt::Status;

use crate::log;

/// An exported function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// Its name.
    pub name: &'static str,
    /// The public header that declares it.
    pub header: &'static str,
    /// The version node that it is exported in.
    pub node: &'static str,
}

impl Export {
    pub(crate) const fn new(name: &'static str, header: &'static str, node: &'static str) -> Self {
        Self { name, header, node }
    }
}

/// What an exported function can answer.
pub(crate) trait Answer {
    /// What its body gives.
    type Value;

    /// The answer of a body that succeeded.
    fn success(value: Self::Value) -> Self;

    /// The answer of a body that failed.
    fn failure(status: Status) -> Self;

    /// The status to log.
    fn status(&self) -> Status {
        Status::SUCCESS
    }
}

impl Answer for Status {
    type Value = Self;

    fn success(value: Self) -> Self {
        value
    }

    fn failure(status: Status) -> Self {
        status
    }

    fn status(&self) -> Status {
        *self
    }
}

macro_rules! plain_answers {
    ($($type:ty = $failure:expr;)+) => {$(
        impl Answer for $type {
            type Value = Self;

            fn success(value: Self) -> Self {
                value
            }

            fn failure(_: Status) -> Self {
                $failure
            }
        }
    )+};
}

plain_answers! {
    () = ();
    bool = false;
    usize = 0;
    c_int = -1;
    *mut c_void = ptr::null_mut();
    *const c_char = ptr::null();
}

/// Runs the body of the exported function `call`. Nothing unwinds into C, and
/// nothing fails silently.
pub(crate) fn boundary<R: Answer>(
    call: &'static str,
    body: impl FnOnce(&'static str) -> Result<R::Value, BackendError>,
) -> R {
    let answer = match catch_unwind(AssertUnwindSafe(|| body(call))) {
        Ok(Ok(value)) => R::success(value),
        Ok(Err(error)) => {
            if is_unsupported(&error) {
                log::once(call);
            } else {
                log::error(&error);
            }
            return R::failure(error.status());
        }
        Err(_) => {
            let text = "the simulator panicked; this is a bug in it".to_owned();
            log::error(&BackendError::new(call, Status::FAILURE).because(Cause::Other(text)));
            return R::failure(Status::FAILURE);
        }
    };
    log::called(call, answer.status());
    answer
}

/// An argument that is refused: `NRT_INVALID`.
pub(crate) fn invalid(
    call: &'static str,
    argument: &'static str,
    detail: impl Into<String>,
) -> BackendError {
    failure(call, Status::INVALID).because(Cause::Argument {
        argument,
        detail: detail.into(),
    })
}

/// `call` answers `status`.
pub(crate) fn failure(call: &'static str, status: Status) -> BackendError {
    BackendError::new(call, status)
}

/// `call` answers `status`, and the log says why.
pub(crate) fn failed(
    call: &'static str,
    status: Status,
    reason: impl Into<String>,
) -> BackendError {
    failure(call, status).because(Cause::Other(reason.into()))
}

const UNSUPPORTED: &str = "the simulator has no such device";

/// What a function that is not simulated answers; its name is logged once.
pub(crate) fn unsupported(call: &'static str) -> BackendError {
    failed(call, Status::FAILURE, UNSUPPORTED)
}

fn is_unsupported(error: &BackendError) -> bool {
    matches!(error.cause(), Cause::Other(text) if text == UNSUPPORTED)
}

/// Declares exported functions: the header, the version node, and each function
/// with the name of its own name first.
///
/// ```text
/// export! {
///     header "nrt.h", node "NRT_2.0.0";
///
///     /// Frees the memory of a tensor.
///     fn nrt_tensor_free(call; tensor: HandleSlot<Tensor>) { … }
/// }
/// ```
///
/// Symbol versions come from an assembler directive on a trampoline, which binds
/// to the function whatever it is called and wherever the compiler puts it.
macro_rules! export {
    (
        header $header:literal, node $node:literal;
        $($(#[$doc:meta])* fn $name:ident($call:ident $(; $($argument:ident: $type:ty),+ $(,)?)?)
            $(-> $answer:ty)? $body:block)+
    ) => {
        /// The functions of this module.
        pub(crate) const EXPORTS: &[$crate::export::Export] = &[
            $($crate::export::Export::new(stringify!($name), $header, $node)),+
        ];

        $(
            $(#[$doc])*
            extern "C" fn $name($($($argument: $type),+)?) $(-> $answer)? {
                $crate::export::boundary(stringify!($name), |$call: &'static str| $body)
            }

            #[cfg(target_arch = "x86_64")]
            $crate::export::trampoline!($name, $node, "jmp");
            #[cfg(target_arch = "aarch64")]
            $crate::export::trampoline!($name, $node, "b");
        )+
    };
}

/// Exports a function under its name in a version node.
macro_rules! trampoline {
    ($name:ident, $node:literal, $jump:literal) => {
        core::arch::global_asm!(
            ".pushsection .text,\"ax\",@progbits",
            concat!(".globl metaneff_", stringify!($name)),
            concat!(".type metaneff_", stringify!($name), ",@function"),
            concat!("metaneff_", stringify!($name), ":"),
            concat!($jump, " {function}"),
            concat!(".size metaneff_", stringify!($name), ", . - metaneff_", stringify!($name)),
            concat!(
                ".symver metaneff_", stringify!($name), ",", stringify!($name), "@@", $node, ",remove"
            ),
            ".popsection",
            function = sym $name,
        );
    };
}

pub(crate) use {export, trampoline};
