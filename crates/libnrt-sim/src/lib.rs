//! `libnrt.so`: the C interface of the Neuron runtime over the simulated
//! instance of `metaneff-backend-sim`.
//!
//! The library has the soname `libnrt.so.1` and the version nodes `NRT_2.0.0` and
//! `NRT_3.0.0`, and exports every function of the public headers ([`exports`]), so
//! that a program that was built for the runtime runs with it and no device. It
//! is an explicit choice: a program finds this library only where its search path
//! leads to it, and `nrt_get_version` says that it is a simulator.
//!
//! The crate's `README.md` says how to use it and what it does not have.

mod abi;
mod api;
mod blocks;
mod buffer;
mod cc;
mod export;
mod handles;
mod locks;
mod log;
mod pointers;
mod runtime;
mod search;
mod sendrecv;
mod stack;
mod streams;
mod trace;
mod units;

pub use export::Export;

/// Functions of one source file.
type Part = &'static [Export];

const PARTS: &[Part] = &[
    api::lifecycle::EXPORTS,
    api::lifecycle::version::EXPORTS,
    api::lifecycle::status::EXPORTS,
    api::model::EXPORTS,
    api::model::experimental::EXPORTS,
    api::set::EXPORTS,
    api::tensor::EXPORTS,
    api::transfer::EXPORTS,
    api::transfer::experimental::EXPORTS,
    api::execute::EXPORTS,
    api::asynchronous::EXPORTS,
    api::asynchronous::experimental::EXPORTS,
    api::collectives::EXPORTS,
    api::collectives::experimental::EXPORTS,
    api::profile::EXPORTS,
    api::profile::experimental::EXPORTS,
    api::inspect::EXPORTS,
    api::sys_trace::EXPORTS,
    api::debug_stream::EXPORTS,
    api::sendrecv::EXPORTS,
    api::nec::EXPORTS,
];

/// Every exported function.
///
/// # Examples
///
/// ```
/// let load = nrt::exports().find(|export| export.name == "nrt_load").unwrap();
/// assert_eq!((load.header, load.node), ("nrt.h", "NRT_2.0.0"));
/// ```
pub fn exports() -> impl Iterator<Item = &'static Export> {
    PARTS.iter().copied().flatten()
}
