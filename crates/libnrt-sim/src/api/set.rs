//! Tensor sets.

use std::sync::Arc;

use metaneff_binding::{Backend as _, Cause};
use metaneff_schema::nrt::Status;

use crate::export::{export, failure};
use crate::handles::{Handle, Set, Tensor};
use crate::pointers::{Out, Text};
use crate::runtime;

export! {
    header "nrt.h", node "NRT_2.0.0";

    /// An empty set.
    fn nrt_allocate_tensor_set(call; result: Out<Handle<Set>>) -> Status {
        let runtime = runtime::current(call)?;
        let place = result.place(call, "result")?;
        place.set(Handle::new(Set::new(runtime.sim.tensor_set()?)));
        Ok(Status::SUCCESS)
    }

    /// Frees a set and sets the caller's pointer to null. Its tensors are not
    /// touched.
    fn nrt_destroy_tensor_set(call; tensor_set: Out<Handle<Set>>) {
        let Some(handle) = tensor_set.release() else {
            return Ok(());
        };
        let Ok(runtime) = runtime::current(call) else {
            return Ok(());
        };
        if let Ok(set) = handle.take(call, "tensor_set") {
            runtime.sim.destroy_set(set.snapshot());
        }
        Ok(())
    }

    /// Binds a name to a tensor, in place of what it was bound to.
    fn nrt_add_tensor_to_tensor_set(
        call; tensor_set: Handle<Set>, tensor_name: Text, tensor: Handle<Tensor>,
    ) -> Status {
        let runtime = runtime::current(call)?;
        let set = tensor_set.get(call, "tensor_set")?;
        let name = tensor_name.get(call, "tensor_name")?;
        let object = tensor.get(call, "tensor")?;
        let mut entries = set.lock();
        runtime.sim.bind(&mut entries.set, name, &object.tensor)?;
        Arc::make_mut(&mut entries.handles).insert(name.to_owned(), tensor.address());
        Ok(Status::SUCCESS)
    }

    /// The tensor that a name is bound to.
    fn nrt_get_tensor_from_tensor_set(
        call; tensor_set: Handle<Set>, tensor_name: Text, tensor: Out<Handle<Tensor>>,
    ) -> Status {
        runtime::current(call)?;
        let place = tensor.place(call, "tensor")?;
        let set = tensor_set.get(call, "tensor_set")?;
        let name = tensor_name.get(call, "tensor_name")?;
        let found = set.lock().handles.get(name).copied();
        let address = found.ok_or_else(|| {
            failure(call, Status::FAILURE).because(Cause::Binding {
                name: name.to_string_lossy().into_owned(),
                detail: "the set has no tensor of this name".to_owned(),
            })
        })?;
        place.set(Handle::from_address(address));
        Ok(Status::SUCCESS)
    }
}
