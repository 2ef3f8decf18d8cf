//! libtorch tensors in and out of compiled Neuron models.
//!
//! Tensors of [`tch`] become host tensors and back ([`ToHost`], [`ToTorch`]), and
//! a [`TorchSession`] runs a model on them as torch-neuronx's `forward_v2` does:
//! user inputs by position, outputs as tensors.
//!
//! ```
//! # use metaneff_binding::testing::{Fake, add_model};
//! use metaneff_binding::{Core, Order, Runtime};
//! use metaneff_torch::{Forward, TorchError, TorchSession};
//! use tch::Tensor;
//!
//! # let artifact = add_model(); // `Artifact::open("model.neff", "model.metaneff")?`
//! let runtime = Runtime::new(Fake::new());
//! let model = runtime.load(&artifact, Core::new(0)).map_err(metaneff_binding::Error::from)?;
//! // The inputs are alike, so that their order has to be confirmed.
//! let mut session = TorchSession::new(&model)?.with_order(Order::Confirmed);
//!
//! let inputs = [Tensor::from_slice(&[1.0_f32, 2.0]), Tensor::from_slice(&[3.0_f32, 4.0])];
//! let Forward { outputs, .. } = session.forward(&inputs, ())?;
//! assert_eq!(outputs, [Tensor::from_slice(&[4.0_f32, 6.0])]);
//! # Ok::<(), TorchError>(())
//! ```
//!
//! A model inside of a saved TorchScript file (`.pt`) is taken out by
//! [`Artifact::open_script`](metaneff_binding::Artifact::open_script), without
//! libtorch, which refuses such a file where the Neuron extension is missing.
//!
//! # Copies
//!
//! | from | to | copies |
//! |---|---|---|
//! | `tch::Tensor` | [`HostTensor`](metaneff_binding::HostTensor) | one by [`ToHost::to_host`], none by [`ToHost::host_view`] |
//! | `tch::Tensor` | a launch ([`TorchSession::forward`]) | none on the host; one more if not contiguous |
//! | an output or state on the device | `tch::Tensor` | none on the host: the backend writes to the tensor's memory |
//! | [`HostTensor`](metaneff_binding::HostTensor) | `tch::Tensor` | one by [`ToTorch::to_torch`], none by [`torch_view`] |
//!
//! The two that copy nothing and outlive a call are `unsafe`: libtorch hands out
//! aliases of a tensor's memory in safe code (`shallow_clone`, every view), so
//! that no lifetime alone can keep the memory from being written or freed.
//!
//! A view that would outlive what it sees does not compile:
//!
//! ```compile_fail,E0505
//! # use metaneff_torch::{Copying, ToHost as _};
//! let tensor = tch::Tensor::from_slice(&[1.0_f32]);
//! // The tensor has no alias.
//! let view = unsafe { tensor.host_view(Copying::Forbidden) }?;
//! drop(tensor);
//! view.bytes();
//! # Ok::<(), metaneff_torch::TorchError>(())
//! ```
//!
//! ```compile_fail,E0597
//! # use metaneff_binding::HostTensor;
//! let view = {
//!     let data = [1.0_f32];
//!     let host = HostTensor::from_slice([1], &data)?;
//!     // Nothing is written, and no alias is made.
//!     unsafe { metaneff_torch::torch_view(&host) }?
//! };
//! view.size();
//! # Ok::<(), metaneff_torch::TorchError>(())
//! ```
//!
//! # Element types
//!
//! [`dtype_of`] and [`kind_of`] give both directions of one table, ATen's
//! `ScalarType` numbers. bf16 and 8-bit floats travel as raw bytes and never
//! through a conversion. `uint16`, `uint32` and `uint64`, for which `tch` has no
//! `Kind`, travel too.
//!
//! # libtorch
//!
//! `tch` 0.26 links against libtorch 2.13. `cargo xtask libtorch` puts a CPU-only
//! one together in the target directory; an existing one is taken from
//! `LIBTORCH`.

#![deny(unsafe_code)]

mod error;
mod host;
mod kind;
mod raw;
mod session;

pub use error::{ForwardError, TorchError};
pub use host::{Copying, ToHost, ToTorch, TorchView, torch_view};
pub use kind::{dtype_of, kind_of};
pub use session::{Forward, TorchSession};
