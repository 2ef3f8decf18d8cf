//! What a launch takes: host tensors, device tensors, or both.

use crate::backend::Backend;
use crate::contract::{ContractId, Ordinal};
use crate::shape::Shape;
use crate::tensor::{BoundTensor, HostState, Tensor, Validated};

mod sealed {
    #[expect(unnameable_types, reason = "seals the traits of this module")]
    pub trait Sealed {}
}

/// One input of a launch, for launches that mix host and device tensors.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an input comes from the host, from the device, or on loan"
)]
pub enum Argument<'a, 'rt, B: Backend> {
    /// Host data; copied into the session's buffer.
    Host(Tensor<Validated<'a>>),
    /// A device tensor, given away: freed after the launch, or, where an output
    /// takes its buffer, moved on to that output.
    Device(BoundTensor<'rt, B>),
    /// A device tensor on loan: the model reads it and leaves it alone.
    Lent(&'a BoundTensor<'rt, B>),
}

/// An input of a launch, looked at.
#[derive(Debug)]
#[non_exhaustive]
pub enum ArgumentRef<'r, 'rt, B: Backend> {
    /// Host data.
    #[non_exhaustive]
    Host {
        /// The slot that it was validated for.
        ordinal: Ordinal,
        /// The contract of that slot.
        contract: ContractId,
        /// Its dimensions.
        shape: &'r Shape,
        /// Its bytes.
        bytes: &'r [u8],
    },
    /// A device tensor that is given away.
    Device(&'r BoundTensor<'rt, B>),
    /// A device tensor on loan.
    Lent(&'r BoundTensor<'rt, B>),
}

impl<B: Backend> ArgumentRef<'_, '_, B> {
    pub(super) fn slot(&self) -> (ContractId, Ordinal) {
        match self {
            Self::Host {
                ordinal, contract, ..
            } => (*contract, *ordinal),
            Self::Device(tensor) | Self::Lent(tensor) => {
                (tensor.slot().contract(), tensor.slot().ordinal())
            }
        }
    }
}

/// A type that is one input of a launch: a validated tensor, a bound tensor, a
/// reference to a bound tensor, or an [`Argument`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of a launch on `{B}`",
    label = "neither validated for a slot nor bound on this backend",
    note = "`Slot::validate` makes an input of a host tensor"
)]
pub trait AsArgument<'rt, B: Backend>: sealed::Sealed {
    /// Looks at it.
    fn as_argument(&self) -> ArgumentRef<'_, 'rt, B>;

    /// The device tensor that is given away, if it is one.
    fn into_device(self) -> Option<BoundTensor<'rt, B>>;
}

impl sealed::Sealed for Tensor<Validated<'_>> {}

impl<'rt, B: Backend> AsArgument<'rt, B> for Tensor<Validated<'_>> {
    fn as_argument(&self) -> ArgumentRef<'_, 'rt, B> {
        ArgumentRef::Host {
            ordinal: self.ordinal(),
            contract: self.contract(),
            shape: self.state.shape(),
            bytes: self.state.bytes(),
        }
    }

    fn into_device(self) -> Option<BoundTensor<'rt, B>> {
        None
    }
}

impl<B: Backend> sealed::Sealed for BoundTensor<'_, B> {}

impl<'rt, B: Backend> AsArgument<'rt, B> for BoundTensor<'rt, B> {
    fn as_argument(&self) -> ArgumentRef<'_, 'rt, B> {
        ArgumentRef::Device(self)
    }

    fn into_device(self) -> Option<Self> {
        Some(self)
    }
}

impl<B: Backend> sealed::Sealed for &BoundTensor<'_, B> {}

impl<'rt, B: Backend> AsArgument<'rt, B> for &BoundTensor<'rt, B> {
    fn as_argument(&self) -> ArgumentRef<'_, 'rt, B> {
        ArgumentRef::Lent(self)
    }

    fn into_device(self) -> Option<BoundTensor<'rt, B>> {
        None
    }
}

impl<B: Backend> sealed::Sealed for Argument<'_, '_, B> {}

impl<'rt, B: Backend> AsArgument<'rt, B> for Argument<'_, 'rt, B> {
    fn as_argument(&self) -> ArgumentRef<'_, 'rt, B> {
        match self {
            Self::Host(tensor) => tensor.as_argument(),
            Self::Device(tensor) => ArgumentRef::Device(tensor),
            Self::Lent(tensor) => ArgumentRef::Lent(tensor),
        }
    }

    fn into_device(self) -> Option<BoundTensor<'rt, B>> {
        match self {
            Self::Device(tensor) => Some(tensor),
            Self::Host(_) | Self::Lent(_) => None,
        }
    }
}

/// The inputs of a launch, in any order: an array or a vector of one type of
/// input, a tuple of several, or `()` for none.
///
/// They are kept as they were given, so that a refused launch hands them back as
/// they were.
pub trait Arguments<'rt, B: Backend>: sealed::Sealed {
    /// How many there are.
    fn count(&self) -> usize;

    /// Looks at one of them, `None` past the last.
    fn argument(&self, position: usize) -> Option<ArgumentRef<'_, 'rt, B>>;

    /// Takes the device tensors out that are given away.
    fn into_devices(self, take: impl FnMut(BoundTensor<'rt, B>));
}

impl sealed::Sealed for () {}

impl<'rt, B: Backend> Arguments<'rt, B> for () {
    fn count(&self) -> usize {
        0
    }

    fn argument(&self, _position: usize) -> Option<ArgumentRef<'_, 'rt, B>> {
        None
    }

    fn into_devices(self, _take: impl FnMut(BoundTensor<'rt, B>)) {}
}

macro_rules! sequence {
    ($([$($generics:tt)*] $sequence:ty),+ $(,)?) => {$(
        impl<T: sealed::Sealed, $($generics)*> sealed::Sealed for $sequence {}

        impl<'rt, B: Backend, T: AsArgument<'rt, B>, $($generics)*> Arguments<'rt, B> for $sequence {
            fn count(&self) -> usize {
                self.len()
            }

            fn argument(&self, position: usize) -> Option<ArgumentRef<'_, 'rt, B>> {
                self.get(position).map(T::as_argument)
            }

            fn into_devices(self, take: impl FnMut(BoundTensor<'rt, B>)) {
                self.into_iter().filter_map(T::into_device).for_each(take);
            }
        }
    )+};
}

sequence! {
    [const N: usize] [T; N],
    [] Vec<T>,
}

macro_rules! tuple {
    ($count:literal: $($name:ident $position:tt),+) => {
        impl<$($name: sealed::Sealed),+> sealed::Sealed for ($($name,)+) {}

        impl<'rt, Z: Backend, $($name: AsArgument<'rt, Z>),+> Arguments<'rt, Z> for ($($name,)+) {
            fn count(&self) -> usize {
                $count
            }

            fn argument(&self, position: usize) -> Option<ArgumentRef<'_, 'rt, Z>> {
                match position {
                    $($position => Some(self.$position.as_argument()),)+
                    _ => None,
                }
            }

            fn into_devices(self, mut take: impl FnMut(BoundTensor<'rt, Z>)) {
                $(if let Some(tensor) = self.$position.into_device() {
                    take(tensor);
                })+
            }
        }
    };
}

tuple!(1: A 0);
tuple!(2: A 0, B 1);
tuple!(3: A 0, B 1, C 2);
tuple!(4: A 0, B 1, C 2, D 3);
tuple!(5: A 0, B 1, C 2, D 3, E 4);
tuple!(6: A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(7: A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(8: A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
