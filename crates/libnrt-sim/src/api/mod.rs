//! The exported functions, by what they are about.

pub(crate) mod asynchronous;
pub(crate) mod collectives;
pub(crate) mod debug_stream;
pub(crate) mod execute;
pub(crate) mod inspect;
pub(crate) mod lifecycle;
pub(crate) mod model;
pub(crate) mod nec;
pub(crate) mod profile;
pub(crate) mod sendrecv;
pub(crate) mod set;
pub(crate) mod sys_trace;
pub(crate) mod tensor;
pub(crate) mod transfer;
