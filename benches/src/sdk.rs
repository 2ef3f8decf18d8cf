//! A launch through a session.

use metaneff_binding::{Backend, BoundTensor, Error, HostTensor, Model, Session, Slot};

use crate::models::ELEMENTS;

/// A session of a model with `N` inputs and what one launch of it needs.
#[derive(Debug)]
pub struct Sdk<'rt, B: Backend, const N: usize> {
    session: Session<'rt, B>,
    slots: [Slot; N],
    device: [BoundTensor<'rt, B>; N],
    host: Vec<f32>,
    out: Vec<u8>,
}

impl<'rt, B: Backend, const N: usize> Sdk<'rt, B, N> {
    /// Makes the session and uploads every input once.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    ///
    /// # Panics
    ///
    /// If the model does not have `N` inputs of [`ELEMENTS`] floats.
    pub fn new(model: &Model<'rt, B>) -> Result<Self, Error> {
        let session = model.session()?;
        let host = vec![1.0; ELEMENTS];
        let slots: Vec<Slot> = session.contract().inputs().to_vec();
        let device = slots
            .iter()
            .map(|slot| {
                let tensor = slot.validate(HostTensor::from_slice([ELEMENTS], &host)?)?;
                Ok(session.upload(tensor)?)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let (Ok(slots), Ok(device)) = (slots.try_into(), device.try_into()) else {
            panic!("the model has another number of inputs than {N}");
        };
        Ok(Self {
            session,
            slots,
            device,
            host,
            out: vec![0; ELEMENTS * size_of::<f32>()],
        })
    }

    /// A launch whose inputs are on the device already; reads the output.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    #[inline(never)]
    pub fn unchanged(&mut self) -> Result<(), Error> {
        let executed = self.session.bind(self.device.each_ref())?.execute(())?;
        let outputs = executed.tolerate_nan().into_outputs();
        outputs.get(0)?.read_into(&mut self.out)?;
        Ok(())
    }

    /// A launch that writes every input from host memory; reads the output.
    ///
    /// # Errors
    ///
    /// What the backend answers.
    ///
    /// # Panics
    ///
    /// Never: [`Self::new`] has validated the same tensors.
    #[inline(never)]
    pub fn rewritten(&mut self) -> Result<(), Error> {
        let inputs = self.slots.each_ref().map(|slot| {
            let tensor = HostTensor::from_slice([ELEMENTS], &self.host);
            match tensor.map(|tensor| slot.validate(tensor)) {
                Ok(Ok(tensor)) => tensor,
                _ => unreachable!("the tensor fits its slot"),
            }
        });
        let executed = self.session.bind(inputs)?.execute(())?;
        let outputs = executed.tolerate_nan().into_outputs();
        outputs.get(0)?.read_into(&mut self.out)?;
        Ok(())
    }
}
